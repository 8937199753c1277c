"""Rules by which stored tensors of several exports follow the sizes.

A rule computes every element of every export's tensor, which is checked. Where no rule is found, a tensor that is the first
part (or the last) of the longest one is cut from that, and the longest export bounds the size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from functools import partial
from itertools import islice, permutations
from itertools import product as choices
from typing import Any

import numpy as np
from onnx import helper

from ..expr import ONE, ZERO, Dim, constant, of_atom, pos
from .generalize_fit import Seen
from .generalize_program import Array, Builder, Numbers, Rule

#: so many integers are looked at one by one
_FEW_ELEMENTS = 16
#: parts of a small fixed axis are looked at one by one
_FEW = 4
#: orders in which the factors of a size are tried
_ORDERS = 24
#: of so few places along an axis nothing shows that steps are even
_EVEN = 3
#: longest blocks that are looked for in masks
_LARGEST_BLOCK = 65
_FLOAT64 = 11


class Undecided(Exception):
    """The exports leave open how a number of a rule follows the sizes."""


class Integers:
    """The rule of a few integers, each an expression of the sizes."""

    def __init__(self, dims: Seq[Dim], like: Array) -> None:
        self.dims, self._like = dims, like

    def __call__(self, b: Builder) -> object:
        """The integers."""
        made = b.vector(self.dims) if self._like.ndim else b.scalar(self.dims[0])
        return _typed(b, made, self._like)


class Tables:
    """Finds rules.

    Args:
        dim: the expression of a number that was seen in each export, in words what it is.
        hint: the simplest expression of such a number, which need not be the right one.
        float_dim: the factor, size and power of floating-point numbers, None where nothing fits.
        bindings: the sizes of each export, of generated symbols too.
    """

    def __init__(
        self,
        dim: Callable[[Seen, str], Dim],
        hint: Callable[[Seq[int]], Dim],
        float_dim: Callable[[Seq[float]], tuple[float, Dim, float] | None],
        bindings: Callable[[], Seq[dict[str, int]]],
        mark: Callable[[], int],
        reset: Callable[[int], None],
    ) -> None:
        self._dim, self._hint, self._float, self._bindings = dim, hint, float_dim, bindings
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
        cores = [*arrays]
        spread = {}
        if (
            arrays[0].dtype.kind == "i"
            and len({a.shape for a in arrays}) == 1
            and arrays[0].size <= _FEW_ELEMENTS
            and rank < 2
        ):
            return None if cuts else self._elements(arrays, what)
        for axis in range(rank):
            firsts = [np.take(a, [0], axis=axis) for a in cores]
            if any(a.shape[axis] > 1 for a in cores) and all(map(_same_along, cores, firsts)):
                spread[axis], cores = [a.shape[axis] for a in arrays], firsts
        simple = (self._constant, self._elements, self._even, self._interval, self._scaled)
        inside = (
            partial(self._ends, cuts=cuts),
            partial(self._parts, cuts=cuts),
            partial(self._apart, cuts=cuts),
            partial(self._regular, cuts=cuts),
        )
        for find in (*(() if cuts else simple), *((self._cut,) if cuts else ()), *inside):
            mark = self._mark()
            try:
                made = find(cores, what)
                if made is not None:
                    made = self._spread(made, spread, rank, what)
                    if self._holds(made, arrays, exact=find != self._scaled):
                        return made
            except Undecided as undecided:
                self.reason = str(undecided)
            self._reset(mark)
        return None

    def _holds(self, rule: Rule, arrays: Seq[Array], *, exact: bool) -> bool:
        for array, sizes in zip(arrays, self._bindings(), strict=True):
            got = rule(Numbers(sizes))
            if got.shape != array.shape or got.dtype != array.dtype:
                return False
            if not (np.array_equal(got, array, equal_nan=array.dtype.kind == "f")):
                close = not exact and np.allclose(got, array, rtol=2e-6, atol=1e-12)
                if not close:
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
        """Few integers, each an expression of its own."""
        first = arrays[0]
        if (
            first.dtype.kind != "i"
            or first.ndim > 1
            or first.size > 16
            or any(a.shape != first.shape for a in arrays)
        ):
            return None
        columns = zip(*[a.reshape(-1).tolist() for a in arrays], strict=True)
        dims = [self._dim(seen, f"entry {k} of {what}") for k, seen in enumerate(columns)]
        return Integers(dims, first)

    def _even(self, arrays: Seq[Array], what: str) -> Rule | None:
        """Whole steps along each axis: ``start + step0*i0 + step1*i1 + ..``."""
        first, rank = arrays[0], arrays[0].ndim
        if first.dtype.kind not in "iuf" or not rank:
            return None
        moving = [k for k in range(rank) if max(a.shape[k] for a in arrays) > 1]
        if (
            any(max(a.shape[k] for a in arrays) < _EVEN and self._varies(arrays, k) for k in moving)
            or not moving
        ):
            return None
        starts: list[Any] = [_whole(a.flat[0]) for a in arrays]
        steps: dict[int, list[Any]] = {k: [_step(a, k) for a in arrays] for k in moving}
        if _BROKEN in starts or any(_BROKEN in seen for seen in steps.values()):
            return None
        if not all(_is_even(a, k, s[e]) for k, s in steps.items() for e, a in enumerate(arrays)):
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
            return _typed(b, total if start is ZERO else b.op("Add", total, b.scalar(start)), first)

        return rule

    def _varies(self, arrays: Seq[Array], axis: int) -> bool:
        return len({a.shape[axis] for a in arrays}) > 1

    def _interval(self, arrays: Seq[Array], what: str) -> Rule | None:
        """Two values: one where a place, or the distance or block of two places, is between two bounds."""
        pair = _two_values(arrays)
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
        for make in (_places, _differences, _blocks):
            for kind in make(masks):
                for inverted in (False, True):
                    bounds = self._bounds(kind.numbers(masks), [m ^ inverted for m in masks], what)
                    if bounds is None:
                        continue
                    rule = _between(kind, bounds, sizes, moving, rank, low, high, inverted)
                    if self._holds(rule, arrays, exact=True):
                        return rule
        return None

    def _bounds(
        self, numbers: Seq[Array], masks: Seq[Array], what: str
    ) -> tuple[Dim | None, Dim | None] | None:
        """The least and the largest number at which masks are true, None where there is none; None unless it is all between."""
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

    def _scaled(self, arrays: Seq[Array], what: str) -> Rule | None:
        """Floating-point numbers that go on evenly in steps that follow a size, as parts of one, or one such number."""
        first, rank = arrays[0], arrays[0].ndim
        moving = [k for k in range(rank) if max(a.shape[k] for a in arrays) > 1]
        if first.dtype.kind != "f" or len(moving) > 1:
            return None
        starts = [float(a.flat[0]) for a in arrays]
        begin = self._follows(starts)
        if begin is None:
            return None
        if not moving:
            return lambda b: b.op("Cast", begin(b), to=_type(first))
        (axis,) = moving
        if min(a.shape[axis] for a in arrays) < _EVEN:
            return None
        by = self._follows([float((a.flat[-1] - a.flat[0]) / (a.size - 1)) for a in arrays])
        if by is None:
            return None
        size = self._sizes(arrays, what)[axis]

        def rule(b: Builder) -> object:
            along = b.op("Cast", b.numbers(size, axis, rank), to=_FLOAT64)
            return b.op("Cast", b.op("Add", b.op("Mul", along, by(b)), begin(b)), to=_type(first))

        return rule

    def _follows(self, seen: Seq[float]) -> Rule | None:
        """A double that is the same in all exports, or follows a size."""
        if max(seen) - min(seen) <= 1e-6 * abs(seen[0]):
            return lambda b: b.constant(np.array(seen[0], np.float64))
        found = self._float(seen)
        if found is None:
            return None
        factor, dim, power = found

        def rule(b: Builder) -> object:
            size, by = b.op("Cast", b.scalar(dim), to=_FLOAT64), b.constant(np.array(factor, np.float64))
            if power == 0.0:
                return b.op("Mul", by, b.op("Log", size))
            size = b.op("Sqrt", size) if abs(power) == 0.5 else size
            return b.op("Mul" if power > 0 else "Div", by, size)

        return rule

    def _cut(self, arrays: Seq[Array], what: str) -> Rule | None:
        """The first part of the longest, or the last, along each axis."""
        longest = max(arrays, key=lambda a: a.size)
        axes = [k for k in range(longest.ndim) if self._varies(arrays, k)]
        if any(sorted(a.shape[k] for a in arrays)[-2] < _EVEN for k in axes):
            return None
        if not axes or any(n > m for a in arrays for n, m in zip(a.shape, longest.shape, strict=True)):
            return None
        for last in choices((False, True), repeat=len(axes)):
            if all(
                _part(longest, a, axes, last).tobytes() == np.ascontiguousarray(a).tobytes() for a in arrays
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
            factors = _factors(self._hint([a.shape[axis] for a in arrays]))
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
                    return _reshaped(inner, sizes)
        return None

    def _regular(self, arrays: Seq[Array], what: str, *, cuts: bool) -> Rule | None:
        """A rule for an axis that goes through the places of two axes, of which each export shows the lengths."""
        for axis in range(arrays[0].ndim) if self._varies_at_all(arrays) else ():
            for along in (0, 1):
                found = [_split(a, axis, along) for a in arrays]
                if any(f is None for f in found):
                    continue
                inner = self._either([f for f in found if f is not None], what, cuts=cuts)
                if inner is not None:
                    sizes = self._sizes(arrays, what)
                    return _reshaped(inner, sizes)
        return None

    def _varies_at_all(self, arrays: Seq[Array]) -> bool:
        return any(self._varies(arrays, k) for k in range(arrays[0].ndim))

    def _either(self, arrays: Seq[Array], what: str, *, cuts: bool) -> Rule | None:
        return self._rule(arrays, what, cuts=False) or (self._rule(arrays, what, cuts=True) if cuts else None)

    def _ends(self, arrays: Seq[Array], what: str, *, cuts: bool) -> Rule | None:
        """An axis along which all is the same but for the first and the last places."""
        for axis in range(arrays[0].ndim):
            for first, last in ((0, 1), (1, 0), (1, 1)) if self._varies(arrays, axis) else ():
                inner = [_between_ends(a, axis, first, last) for a in arrays]
                if min(a.shape[axis] for a in inner) < 1 or max(a.shape[axis] for a in inner) < _EVEN:
                    continue
                if not all(_same_along(a, np.take(a, [0], axis=axis)) for a in inner):
                    continue
                pieces = [inner]
                if first:
                    pieces.insert(0, [np.take(a, [0], axis=axis) for a in arrays])
                if last:
                    pieces.append([np.take(a, [-1], axis=axis) for a in arrays])
                rules = [self._either(p, what, cuts=cuts) for p in pieces]
                if None not in rules:
                    return _joined([r for r in rules if r], axis)
        return None

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
                return _joined(rules, axis)
        return None


# ---------------------------------------------------------------------- what is between


class _Kind:
    """What two bounds are about: a place on an axis, the difference of two places, or that of their blocks."""

    def __init__(self, axes: Seq[int], block: int = 1, factors: tuple[int, int] = (1, -1)) -> None:
        self.axes, self.block, self.factors = axes, block, factors

    def numbers(self, masks: Seq[Array]) -> list[Array]:
        found = []
        for mask in masks:
            along = [
                np.arange(mask.shape[k]).reshape([-1 if a == k else 1 for a in range(mask.ndim)])
                // self.block
                for k in self.axes
            ]
            found.append(
                along[0] if len(along) == 1 else along[1] * self.factors[0] + along[0] * self.factors[1]
            )
        return found


def _places(masks: Seq[Array]) -> Iterator[_Kind]:
    if masks[0].ndim == 1:
        yield _Kind([0])


def _differences(masks: Seq[Array]) -> Iterator[_Kind]:
    if masks[0].ndim == 2:
        yield _Kind([0, 1])
        yield _Kind([0, 1], factors=(1, 1))


def _blocks(masks: Seq[Array]) -> Iterator[_Kind]:
    """Blocks of a length that is the same in all exports."""
    if masks[0].ndim == 2:
        yield from (
            _Kind([0, 1], block) for block in range(2, min(_LARGEST_BLOCK, *(max(m.shape) for m in masks)))
        )


def _between(
    kind: _Kind, bounds: tuple[Dim | None, Dim | None], sizes: Seq[Dim], moving: Seq[int], rank: int, low: Array, high: Array,
    inverted: bool,
) -> Rule:  # fmt: skip
    def rule(b: Builder) -> object:
        along = []
        for k in kind.axes:
            place = b.numbers(sizes[moving[k]], moving[k], rank)
            along.append(
                place if kind.block == 1 else b.op("Div", place, b.constant(np.array(kind.block, np.int64)))
            )
        number = along[0]
        if len(along) > 1:
            number = b.op("Sub" if kind.factors[1] < 0 else "Add", along[1], along[0])
        parts = []
        for bound, outside in zip(bounds, ("Less", "Greater"), strict=True):
            if bound is not None:
                parts.append(b.op("Not", b.op(outside, number, b.scalar(bound))))
        if not parts:
            parts = [b.op("Equal", number, number)]
        inside = parts[0] if len(parts) == 1 else b.op("And", parts[0], parts[1])
        if low.dtype.kind == "b":
            return b.op("Not", inside) if inverted else inside
        values = [b.constant(v) for v in ((low, high) if inverted else (high, low))]
        return b.op("Where", inside, *values)

    return rule


def _two_values(arrays: Seq[Array]) -> tuple[Array, Array] | None:
    values = np.unique(np.concatenate([np.unique(a) for a in arrays]))
    return (values[0], values[1]) if len(values) == 2 else None


# ---------------------------------------------------------------------- helpers


def _reshaped(inner: Rule, sizes: Seq[Dim]) -> Rule:
    return lambda b: b.op("Reshape", inner(b), b.vector(sizes))


def _joined(rules: Seq[Rule], axis: int) -> Rule:
    return lambda b: b.op("Concat", *[r(b) for r in rules], axis=axis)


#: a step that is no whole number
_BROKEN = object()


def _same_along(array: Array, first: Array) -> bool:
    return bool((array == first).all()) or (
        array.dtype.kind == "f" and np.array_equal(array, np.broadcast_to(first, array.shape), equal_nan=True)
    )


def _whole(number: object) -> object:
    value = float(number)  # type: ignore[arg-type]
    return int(value) if np.isfinite(value) and value == int(value) and abs(value) < 1 << 53 else _BROKEN


def _step(array: Array, axis: int) -> object:
    if array.shape[axis] < 2:
        return None
    second = array[tuple(int(k == axis) for k in range(array.ndim))]
    by = float(second) - float(array.flat[0])
    return int(by) if np.isfinite(by) and by == int(by) else _BROKEN


def _is_even(array: Array, axis: int, step: object) -> bool:
    return step is None or bool((np.diff(array.astype(np.float64), axis=axis) == step).all())


def _part(whole: Array, like: Array, axes: Seq[int], last: Seq[bool]) -> Array:
    at = [slice(None)] * whole.ndim
    for axis, end in zip(axes, last, strict=True):
        n = like.shape[axis]
        at[axis] = slice(whole.shape[axis] - n, None) if end else slice(n)
    return np.ascontiguousarray(whole[tuple(at)])


def _between_ends(array: Array, axis: int, first: int, last: int) -> Array:
    at = [slice(None)] * array.ndim
    at[axis] = slice(first, array.shape[axis] - last)
    return array[tuple(at)]


def _split(array: Array, axis: int, along: int) -> Array | None:
    """An axis as two: the shortest inner one with which the outer one is regular, or the longest that is the same."""
    count = array.shape[axis]
    lengths = [n for n in range(2, count // 2 + 1) if count % n == 0 and count // n >= 2]
    for n in lengths if along == 0 else reversed(lengths):
        apart = array.reshape(*array.shape[:axis], count // n, n, *array.shape[axis + 1 :])
        if _is_regular(apart, axis) if along == 0 else _same_along(apart, np.take(apart, [0], axis=axis + 1)):
            return apart
    return None


def _is_regular(array: Array, axis: int) -> bool:
    """True if all is the same along an axis, or but for its last place."""
    first = np.take(array, [0], axis=axis)
    if _same_along(array, first):
        return True
    return array.shape[axis] > _EVEN and _same_along(_between_ends(array, axis, 0, 1), first)


def _factors(size: Dim) -> list[Dim]:
    """The factors of a size that is a product of several that follow symbols."""
    if len(size.terms) != 1 or size.const:
        return []
    monomial, factor = size.terms[0]
    parts = [of_atom(atom) for atom in monomial]
    if any(part.name is None for part in parts):
        return []
    return [*([constant(factor)] if factor != 1 else []), *parts]


def _type(array: Array) -> int:
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))


def _typed(b: Builder, x: object, like: Array) -> object:
    return x if like.dtype == np.int64 else b.op("Cast", x, to=_type(like))


__all__ = ["Integers", "Tables", "Undecided"]
