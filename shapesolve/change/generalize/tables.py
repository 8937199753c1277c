"""Finds rules that compute stored tensors, which differ between exports, from the sizes.

A rule must compute every element of every export's tensor, which is checked. If no rule is found, a tensor that is the first or
last part of the longest one is cut from it, and the longest export limits the size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from onnx import helper

from ...expr import ONE, ZERO, Dim, constant, pos
from ...lower.limits import MAX_UNKNOWN
from ..limits import MAX_DIVISOR, MAX_PARTS, MIN_EVEN
from .fit import Undecided, Unknowns
from .program import Array, Numbers, Rule

#: a number that is not whole, or not the same all along
_BROKEN = object()


class Integers:
    """A rule for a short integer tensor: one expression per element."""

    def __init__(self, dims: Seq[Dim], like: Array) -> None:
        self.dims, self._like = dims, like

    def __call__(self, b: Numbers) -> object:
        """Computes the integers."""
        return _as_type(b, b.vector(self.dims) if self._like.ndim else b.scalar(self.dims[0]), self._like)


class Tables:
    """Finds rules for tensors that differ between exports.

    Args:
        unknowns: Finds expressions for numbers in each export.
    """

    def __init__(self, unknowns: Unknowns) -> None:
        self._unknowns, self._dim = unknowns, unknowns.dim
        #: reason why the last rule is ambiguous
        self.reason = ""

    def rule(self, arrays: Seq[Array], what: str, *, cuts: bool = True) -> Rule | None:
        """A rule that computes these tensors (one per export); None if no rule is found."""
        return self._rule(arrays, what, cuts=False) or (self._rule(arrays, what, cuts=True) if cuts else None)

    def _rule(self, arrays: Seq[Array], what: str, *, cuts: bool) -> Rule | None:
        first, rank = arrays[0], arrays[0].ndim
        if any(a.ndim != rank or a.dtype != first.dtype or a.dtype == object or not a.size for a in arrays):
            return None
        cores, spread = [*arrays], {}
        same = all(a.shape == first.shape for a in arrays)
        finders: list[Callable[[Seq[Array], str], Rule | None]]
        if same and first.dtype.kind == "i" and rank < 2 and first.size <= MAX_UNKNOWN:
            finders = [] if cuts else [self._elements]  # sizes, rather than a table
        else:
            for axis in range(rank):
                firsts = [np.take(a, [0], axis=axis) for a in cores]
                if any(a.shape[axis] > 1 for a in cores) and all(map(_same_along, cores, firsts)):
                    spread[axis], cores = [a.shape[axis] for a in arrays], firsts
            finders = [self._cut] if cuts else [self._constant, self._elements, self._even, self._interval]
            finders += [partial(self._parts, cuts=cuts), partial(self._apart, cuts=cuts)]
        for find in finders:
            mark = len(self._unknowns.opens)
            try:
                made = find(cores, what)
                if made is not None:
                    made = self._spread(made, spread, rank, what)
                    if self._holds(made, arrays):
                        return made
            except Undecided as undecided:
                self.reason = str(undecided)
            del self._unknowns.opens[mark:]
        return None

    def _holds(self, rule: Rule, arrays: Seq[Array]) -> bool:
        for array, sizes in zip(arrays, self._unknowns.bindings(), strict=True):
            got = rule(Numbers(sizes))
            if got.shape != array.shape or got.dtype != array.dtype:
                return False
            if not np.array_equal(got, array, equal_nan=array.dtype.kind == "f"):
                return False
        return True

    def _sizes(self, arrays: Seq[Array], what: str) -> list[Dim]:
        axes = range(arrays[0].ndim)
        return [self._dim([a.shape[k] for a in arrays], f"axis {k} of {what}") for k in axes]

    def _spread(self, rule: Rule, spread: Mapping[int, Seq[int]], rank: int, what: str) -> Rule:
        target = [ONE] * rank
        for axis, counts in spread.items():
            target[axis] = self._dim(counts, f"axis {axis} of {what}")
        return (lambda b: b.op("Expand", rule(b), b.vector(target))) if spread else rule

    # ------------------------------------------------------------------ rules

    def _constant(self, arrays: Seq[Array], what: str) -> Rule | None:
        kept = np.ascontiguousarray(arrays[0])
        return lambda b: b.constant(kept)

    def _elements(self, arrays: Seq[Array], what: str) -> Rule | None:
        """Rule for few integers: one expression per element. None for other arrays."""
        first = arrays[0]
        few = first.ndim <= 1 and first.size <= MAX_UNKNOWN and first.dtype.kind in "if"
        if not few or any(a.shape != first.shape for a in arrays):
            return None
        columns = [*zip(*[map(_whole, a.reshape(-1)) for a in arrays], strict=True)]
        if any(_BROKEN in seen for seen in columns):
            return None
        return Integers([self._dim(seen, f"entry {k} of {what}") for k, seen in enumerate(columns)], first)

    def _even(self, arrays: Seq[Array], what: str) -> Rule | None:
        """Rule for evenly spaced elements, ``start + step0*i0 + step1*i1 + ..``; None for others."""
        first, rank, moving = arrays[0], arrays[0].ndim, _moving(arrays)
        if first.dtype.kind not in "iuf" or not moving:
            return None
        if any(max(a.shape[k] for a in arrays) < MIN_EVEN and _varies(arrays, k) for k in moving):
            return None
        starts = [_whole(a.flat[0]) for a in arrays]
        steps = {k: [_step(a, k) for a in arrays] for k in moving}
        if any(_BROKEN in seen for seen in (starts, *steps.values())):
            return None
        start = self._dim(starts, f"the first element of {what}")
        by = {k: self._dim(seen, f"the step along axis {k} of {what}") for k, seen in steps.items()}
        sizes = self._sizes(arrays, what)

        def rule(b: Numbers) -> object:
            total = _linear(b, sizes, rank, by)
            return _as_type(b, total if start is ZERO else b.op("Add", total, b.scalar(start)), first)

        return rule

    def _interval(self, arrays: Seq[Array], what: str) -> Rule | None:
        """Rule for a mask of two values: one where an index or index difference is within bounds. None for others."""
        values, moving = np.unique(np.concatenate([np.unique(a) for a in arrays])), _moving(arrays)
        if len(values) != 2 or not 1 <= len(moving) <= 2:
            return None
        kinds: list[tuple[tuple[Dim, ...], int]] = [((ONE,), 1)]
        if len(moving) == 2:
            blocks = range(1, 1 + min(MAX_DIVISOR, *(max(a.shape) - 1 for a in arrays)))
            kinds = [((-ONE, ONE), block) for block in blocks]
        sizes = self._sizes(arrays, what)
        for (factors, block), high in product(kinds, (1, 0)):
            by = dict(zip(moving, factors, strict=True))
            given = [[constant(n) for n in a.shape] for a in arrays]
            numbers = [
                _linear(Numbers({}), shape, a.ndim, by, block) for shape, a in zip(given, arrays, strict=True)
            ]
            bounds = self._bounds(numbers, [a == values[high] for a in arrays], what)
            if bounds is not None:
                rule = _between(sizes, arrays[0].ndim, by, block, bounds, values, high)
                if self._holds(rule, arrays):
                    return rule
        return None

    def _bounds(self, numbers: Seq[Array], masks: Seq[Array], what: str) -> list[Dim | None] | None:
        """Lower and upper bound between which numbers have a true mask (None: no bound), or None.

        None if it is not an interval.
        """
        ends: tuple[list[int | None], list[int | None]] = [], []
        for n, mask in zip(numbers, masks, strict=True):
            wide = np.broadcast_to(n, mask.shape)
            inside = wide[mask]
            if not inside.size:
                return None
            lo, hi = int(inside.min()), int(inside.max())
            if not (mask == ((wide >= lo) & (wide <= hi))).all():
                return None
            ends[0].append(None if lo == wide.min() else lo)
            ends[1].append(None if hi == wide.max() else hi)
        named = zip(ends, ("least", "largest"), strict=True)
        return [self._dim(s, f"the {name} place of {what}") if {*s} != {None} else None for s, name in named]

    def _cut(self, arrays: Seq[Array], what: str) -> Rule | None:
        """Rule that slices the largest tensor from its start or to its end; None if no slice gives the others."""
        longest = max(arrays, key=lambda a: a.size)
        axes = [k for k in range(longest.ndim) if _varies(arrays, k)]
        if not axes or any(sorted(a.shape[k] for a in arrays)[-2] < MIN_EVEN for k in axes):
            return None
        if any(n > m for a in arrays for n, m in zip(a.shape, longest.shape, strict=True)):
            return None
        kept = np.ascontiguousarray(longest)
        for last in product((False, True), repeat=len(axes)):
            if all(
                np.array_equal(_part(longest, a.shape, axes, last), a, equal_nan=a.dtype.kind == "f")
                for a in arrays
            ):
                sizes, ends = self._sizes(arrays, what), zip(axes, last, strict=True)
                starts = [pos(longest.shape[k] - sizes[k]) if end else ZERO for k, end in ends]
                return lambda b: b.cut(b.constant(kept), starts, {k: sizes[k] for k in axes}, sizes)
        return None

    def _parts(self, arrays: Seq[Array], what: str, *, cuts: bool) -> Rule | None:
        """Return separate rules for the slices of a small axis, equally long in all exports. None if a slice has no rule."""
        for axis, count in enumerate(arrays[0].shape):
            if 1 < count <= MAX_PARTS and not _varies(arrays, axis):
                parts = ([np.take(a, [k], axis=axis) for a in arrays] for k in range(count))
                rules = [self.rule(part, what, cuts=cuts) for part in parts]
                found = [r for r in rules if r is not None]
                if len(found) == count:
                    return partial(_joined, found, axis)
        return None

    def _apart(self, arrays: Seq[Array], what: str, *, cuts: bool) -> Rule | None:
        """Rule that treats one axis as two, whose lengths the exports show; None if no axis can be."""
        axes = range(arrays[0].ndim if len({a.shape for a in arrays}) > 1 else 0)
        for axis, along in product(axes, (0, 1)):
            apart = [s for a in arrays if (s := _regular(a, axis, along)) is not None]
            inner = self.rule(apart, what, cuts=cuts) if len(apart) == len(arrays) else None
            if inner is not None:
                sizes = self._sizes(arrays, what)
                return lambda b: b.op("Reshape", inner(b), b.vector(sizes))
        return None


def _linear(b: Numbers, sizes: Seq[Dim], rank: int, factors: Mapping[int, Dim], block: int = 1) -> Any:
    """Sum of index times factor over some axes (or of block numbers, for a block size above 1)."""
    total = None
    for axis, by in factors.items():
        along = b.places(sizes[axis], axis, rank)
        if block > 1:
            along = b.op("Div", along, b.constant(np.array(block, np.int64)))
        if by is not ONE:
            along = b.op("Mul", along, b.scalar(by))
        total = along if total is None else b.op("Add", total, along)
    return total


def _between(
    sizes: Seq[Dim],
    rank: int,
    by: Mapping[int, Dim],
    block: int,
    bounds: Seq[Dim | None],
    values: Array,
    high: int,
) -> Rule:
    """Rule for two values: `values[high]` where a linear function of the indices is within bounds."""

    def rule(b: Numbers) -> object:
        number = _linear(b, sizes, rank, by, block)
        ends = [(op, d) for op, d in zip(("Less", "Greater"), bounds, strict=True) if d is not None]
        parts = [b.op("Not", b.op(op, number, b.scalar(d))) for op, d in ends] or [
            b.op("Equal", number, number)
        ]
        inside = parts[0] if len(parts) == 1 else b.op("And", *parts)
        if values.dtype.kind == "b":
            return inside if high else b.op("Not", inside)
        return b.op("Where", inside, b.constant(values[high]), b.constant(values[1 - high]))

    return rule


def _joined(rules: Seq[Rule], axis: int, b: Numbers) -> object:
    return b.op("Concat", *[r(b) for r in rules], axis=axis)


def _as_type(b: Numbers, x: object, like: Array) -> object:
    to = int(helper.np_dtype_to_tensor_dtype(like.dtype))
    return x if like.dtype == np.int64 else b.op("Cast", x, to=to)


# ---------------------------------------------------------------------- features of arrays


def _varies(arrays: Seq[Array], axis: int) -> bool:
    return len({a.shape[axis] for a in arrays}) > 1


def _moving(arrays: Seq[Array]) -> list[int]:
    return [k for k in range(arrays[0].ndim) if max(a.shape[k] for a in arrays) > 1]


def _same_along(array: Array, first: Array) -> bool:
    return np.array_equal(array, np.broadcast_to(first, array.shape), equal_nan=array.dtype.kind == "f")


def _whole(number: Any) -> Any:
    value = float(number)
    if isinstance(number, np.integer):
        return int(number)
    return int(value) if value.is_integer() and abs(value) < 1 << 53 else _BROKEN


def _step(array: Array, axis: int) -> Any:
    """Step between neighbours along an axis, if constant and whole.

    None if there is one place, _BROKEN if it is not whole or not one.
    """
    with np.errstate(invalid="ignore"):
        steps = np.diff(array.astype(np.float64), axis=axis)
    return None if not steps.size else _whole(steps.flat[0]) if (steps == steps.flat[0]).all() else _BROKEN


def _part(whole: Array, shape: Seq[int], axes: Seq[int], last: Seq[bool]) -> Array:
    """The first or last part of `whole` along some axes, of these sizes."""
    at = [slice(None)] * whole.ndim
    for axis, end in zip(axes, last, strict=True):
        at[axis] = slice(whole.shape[axis] - shape[axis], None) if end else slice(shape[axis])
    return whole[tuple(at)]


def _split(array: Array, axis: int, parts: Seq[int]) -> Array:
    return array.reshape(*array.shape[:axis], *parts, *array.shape[axis + 1 :])


def _regular(array: Array, axis: int, along: int) -> Array | None:
    """Splits an axis into an outer and an inner axis, one of them regular; None if not possible.

    The inner part is the shortest with a regular outer one, or the longest with equal parts.
    """
    count = array.shape[axis]
    lengths = [n for n in range(2, count // 2 + 1) if count % n == 0]
    for n in lengths if along == 0 else reversed(lengths):
        apart = _split(array, axis, (count // n, n))
        but_last = apart[(slice(None),) * axis + (slice(-1),)] if count // n > MIN_EVEN else apart
        some = [apart, but_last] if along == 0 else [apart]
        if any(_same_along(x, np.take(x, [0], axis=axis + along)) for x in some):
            return apart
    return None
