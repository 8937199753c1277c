"""Rules by which stored tensors of several exports follow the sizes.

A rule computes every element of every export's tensor, which is checked. Where no rule is found, a tensor that is the first
part (or the last) of the longest one is cut from that, and the longest export bounds the size.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from functools import partial
from itertools import islice, permutations
from itertools import product as choices
from typing import Any

import numpy as np

from ..expr import ONE, ZERO, Dim, pos
from .generalize_fit import Seen
from .generalize_looks import (
    BROKEN,
    EVEN,
    as_type,
    between_bounds,
    factors_in,
    is_even,
    joined_rules,
    of_blocks,
    of_differences,
    of_places,
    part_of,
    reshaped_rule,
    same_along,
    split_axis,
    step_along,
    two_values,
    whole_number,
)
from .generalize_program import Array, Builder, Numbers, Rule

#: max integers examined one by one
_FEW_ELEMENTS = 16
#: parts of a small fixed axis are looked at one by one
_FEW = 4
#: orders in which the factors of a size are tried
_ORDERS = 24


class Undecided(Exception):
    """The exports leave open how a number of a rule follows the sizes."""


class Integers:
    """The rule of a few integers, each an expression of the sizes."""

    def __init__(self, dims: Seq[Dim], like: Array) -> None:
        self.dims, self._like = dims, like

    def __call__(self, b: Builder) -> object:
        """The integers."""
        made = b.vector(self.dims) if self._like.ndim else b.scalar(self.dims[0])
        return as_type(b, made, self._like)


class Tables:
    """Finds rules.

    Args:
        dim: the expression of a number that was seen in each export, in words what it is.
        hint: the simplest expression of such a number, which need not be the right one.
        bindings: the sizes of each export, of generated symbols too.
    """

    def __init__(
        self,
        dim: Callable[[Seen, str], Dim],
        hint: Callable[[Seq[int]], Dim],
        bindings: Callable[[], Seq[dict[str, int]]],
        mark: Callable[[], int],
        reset: Callable[[int], None],
    ) -> None:
        self._dim, self._hint, self._bindings = dim, hint, bindings
        self._mark, self._reset = mark, reset
        #: why a rule that came to mind last is left open
        self.reason = ""

    def rule(self, arrays: Seq[Array], what: str) -> Rule | None:
        """A rule that computes these tensors, rather one for all sizes; None where there is none."""
        return self._rule(arrays, what, cuts=False) or self._rule(arrays, what, cuts=True)

    def _rule(self, arrays: Seq[Array], what: str, *, cuts: bool) -> Rule | None:
        rank = arrays[0].ndim
        if any(a.ndim != rank or a.dtype != arrays[0].dtype or a.dtype == object for a in arrays):
            return None
        if any(not a.size for a in arrays):
            return None
        cores, spread = [*arrays], {}
        finders: Seq[Callable[[Seq[Array], str], Rule | None]]
        if self._is_list(arrays):
            finders = () if cuts else (self._elements,)
        else:
            for axis in range(rank):
                firsts = [np.take(a, [0], axis=axis) for a in cores]
                if any(a.shape[axis] > 1 for a in cores) and all(map(same_along, cores, firsts)):
                    spread[axis], cores = [a.shape[axis] for a in arrays], firsts
            simple = (self._cut,) if cuts else (self._constant, self._elements, self._even, self._interval)
            finders = (
                *simple,
                *(partial(find, cuts=cuts) for find in (self._parts, self._apart, self._regular)),
            )
        for find in finders:
            mark = self._mark()
            try:
                made = find(cores, what)
                if made is not None:
                    made = self._spread(made, spread, rank, what)
                    if self._holds(made, arrays):
                        return made
            except Undecided as undecided:
                self.reason = str(undecided)
            self._reset(mark)
        return None

    def _is_list(self, arrays: Seq[Array]) -> bool:
        """Few integers, as many in each export: sizes, rather than a table."""
        first = arrays[0]
        is_few = first.dtype.kind == "i" and first.ndim < 2 and first.size <= _FEW_ELEMENTS
        return is_few and all(a.shape == first.shape for a in arrays)

    def _holds(self, rule: Rule, arrays: Seq[Array]) -> bool:
        for array, sizes in zip(arrays, self._bindings(), strict=True):
            got = rule(Numbers(sizes))
            if got.shape != array.shape or got.dtype != array.dtype:
                return False
            if not np.array_equal(got, array, equal_nan=array.dtype.kind == "f"):
                return False
        return True

    def _sizes(self, arrays: Seq[Array], what: str, split: Seq[int] = ()) -> list[Dim]:
        return [
            self._dim([a.shape[axis] for a in arrays], f"axis {axis} of {what}")
            for axis in range(arrays[0].ndim)
        ]

    def _spread(self, rule: Rule, spread: dict[int, list[int]], rank: int, what: str) -> Rule:
        if not spread:
            return rule
        target = [ONE] * rank
        for axis, counts in spread.items():
            target[axis] = self._dim(counts, f"axis {axis} of {what}")
        return lambda b: b.op("Expand", rule(b), b.vector(target))

    # ------------------------------------------------------------------ rules

    def _constant(self, arrays: Seq[Array], what: str) -> Rule | None:
        first = arrays[0]
        if any(a.shape != first.shape or a.tobytes() != first.tobytes() for a in arrays):
            return None
        kept = np.ascontiguousarray(first)
        return lambda b: b.constant(kept)

    def _elements(self, arrays: Seq[Array], what: str) -> Rule | None:
        """Few whole numbers, each an expression of its own."""
        first = arrays[0]
        few = first.ndim <= 1 and first.size <= _FEW_ELEMENTS and first.dtype.kind in "if"
        if not few or any(a.shape != first.shape for a in arrays):
            return None
        columns = list(zip(*[map(whole_number, a.reshape(-1)) for a in arrays], strict=True))
        if any(BROKEN in seen for seen in columns):
            return None
        dims = [self._dim(seen, f"entry {k} of {what}") for k, seen in enumerate(columns)]
        return Integers(dims, first)

    def _even(self, arrays: Seq[Array], what: str) -> Rule | None:
        """Whole steps along each axis: ``start + step0*i0 + step1*i1 + ..``."""
        first, rank = arrays[0], arrays[0].ndim
        if first.dtype.kind not in "iuf" or not rank:
            return None
        moving = [k for k in range(rank) if max(a.shape[k] for a in arrays) > 1]
        if (
            any(max(a.shape[k] for a in arrays) < EVEN and self._varies(arrays, k) for k in moving)
            or not moving
        ):
            return None
        starts: list[Any] = [whole_number(a.flat[0]) for a in arrays]
        steps: dict[int, list[Any]] = {k: [step_along(a, k) for a in arrays] for k in moving}
        if BROKEN in starts or any(BROKEN in seen for seen in steps.values()):
            return None
        if not all(is_even(a, k, s[e]) for k, s in steps.items() for e, a in enumerate(arrays)):
            return None
        start = self._dim(starts, f"the first element of {what}")
        step = {k: self._dim(seen, f"the step along axis {k} of {what}") for k, seen in steps.items()}
        sizes = self._sizes(arrays, what)

        def rule(b: Builder) -> object:
            total = None
            for k, by in step.items():
                along = b.numbers(sizes[k], k, rank)
                along = along if by is ONE else b.op("Mul", along, b.scalar(by))
                total = along if total is None else b.op("Add", total, along)
            return as_type(b, total if start is ZERO else b.op("Add", total, b.scalar(start)), first)

        return rule

    def _varies(self, arrays: Seq[Array], axis: int) -> bool:
        return len({a.shape[axis] for a in arrays}) > 1

    def _interval(self, arrays: Seq[Array], what: str) -> Rule | None:
        """Two values: one where a place, or the distance or block of two places, is between two bounds."""
        pair = two_values(arrays)
        rank = arrays[0].ndim
        moving = [k for k in range(rank) if max(a.shape[k] for a in arrays) > 1]
        if pair is None or not 1 <= len(moving) <= 2:
            return None
        low, high = pair
        masks = [
            np.moveaxis(a == high, moving, range(len(moving))).reshape([a.shape[k] for k in moving])
            for a in arrays
        ]
        sizes = self._sizes(arrays, what)
        for make in (of_places, of_differences, of_blocks):
            for kind in make(masks):
                for inverted in (False, True):
                    bounds = self._bounds(kind.numbers(masks), [m ^ inverted for m in masks], what)
                    if bounds is None:
                        continue
                    rule = between_bounds(kind, bounds, sizes, moving, rank, low, high, inverted)
                    if self._holds(rule, arrays):
                        return rule
        return None

    def _bounds(
        self, numbers: Seq[Array], masks: Seq[Array], what: str
    ) -> tuple[Dim | None, Dim | None] | None:
        """Range of the numbers at which masks are true: a bound or None per side. None if it is not an interval."""
        least: list[int | None] = []
        most: list[int | None] = []
        for n, mask in zip(numbers, masks, strict=True):
            wide = np.broadcast_to(n, mask.shape)
            inside = wide[mask]
            if not inside.size:
                return None
            lo, hi = int(inside.min()), int(inside.max())
            if not (mask == ((wide >= lo) & (wide <= hi))).all():
                return None
            least.append(None if lo == wide.min() else lo)
            most.append(None if hi == wide.max() else hi)
        ends = []
        for seen, name in ((least, "least"), (most, "largest")):
            known = any(v is not None for v in seen)
            ends.append(self._dim(seen, f"the {name} place of {what}") if known else None)
        return ends[0], ends[1]

    def _cut(self, arrays: Seq[Array], what: str) -> Rule | None:
        """The first part of the longest, or the last, along each axis."""
        longest = max(arrays, key=lambda a: a.size)
        axes = [k for k in range(longest.ndim) if self._varies(arrays, k)]
        if any(sorted(a.shape[k] for a in arrays)[-2] < EVEN for k in axes):
            return None
        if not axes or any(n > m for a in arrays for n, m in zip(a.shape, longest.shape, strict=True)):
            return None
        for last in choices((False, True), repeat=len(axes)):
            if all(
                part_of(longest, a, axes, last).tobytes() == np.ascontiguousarray(a).tobytes() for a in arrays
            ):
                sizes = self._sizes(arrays, what)
                kept = np.ascontiguousarray(longest)
                starts = [
                    pos(longest.shape[k] - sizes[k]) if end else ZERO
                    for k, end in zip(axes, last, strict=True)
                ]
                return lambda b: b.cut(b.constant(kept), starts, {k: sizes[k] for k in axes}, sizes)
        return None

    def _apart(self, arrays: Seq[Array], what: str, *, cuts: bool) -> Rule | None:
        """A rule for an axis whose size is a product, taken apart."""
        for axis in range(arrays[0].ndim):
            factors = factors_in(self._hint([a.shape[axis] for a in arrays]))
            for parts in islice(permutations(factors), _ORDERS) if len(factors) > 1 else ():
                split = [[d.evaluate(s) or 0 for d in parts] for s in self._bindings()]
                if any(min(p) < 1 for p in split):
                    continue
                apart = [
                    a.reshape(*a.shape[:axis], *p, *a.shape[axis + 1 :])
                    for a, p in zip(arrays, split, strict=True)
                ]
                inner = self._either(apart, what, cuts=cuts)
                if inner is not None:
                    sizes = self._sizes(arrays, what)
                    return reshaped_rule(inner, sizes)
        return None

    def _regular(self, arrays: Seq[Array], what: str, *, cuts: bool) -> Rule | None:
        """A rule for an axis that runs over the positions of two axes, whose lengths each export shows."""
        for axis in range(arrays[0].ndim) if self._varies_at_all(arrays) else ():
            for along in (0, 1):
                found = [split_axis(a, axis, along) for a in arrays]
                if any(f is None for f in found):
                    continue
                inner = self._either([f for f in found if f is not None], what, cuts=cuts)
                if inner is not None:
                    sizes = self._sizes(arrays, what)
                    return reshaped_rule(inner, sizes)
        return None

    def _varies_at_all(self, arrays: Seq[Array]) -> bool:
        return any(self._varies(arrays, k) for k in range(arrays[0].ndim))

    def _either(self, arrays: Seq[Array], what: str, *, cuts: bool) -> Rule | None:
        return self._rule(arrays, what, cuts=False) or (self._rule(arrays, what, cuts=True) if cuts else None)

    def _parts(self, arrays: Seq[Array], what: str, *, cuts: bool) -> Rule | None:
        """A rule for each part of a small axis that is the same in all exports."""
        for axis, count in enumerate(arrays[0].shape):
            if not 1 < count <= _FEW or self._varies(arrays, axis):
                continue
            rules = []
            for k in range(count):
                made = self._either([np.take(a, [k], axis=axis) for a in arrays], what, cuts=cuts)
                if made is None:
                    break
                rules.append(made)
            else:
                return joined_rules(rules, axis)
        return None


__all__ = ["Integers", "Tables", "Undecided"]
