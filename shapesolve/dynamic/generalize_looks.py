"""Features of stored tensors of several exports: positions, differences of positions, steps, parts."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from typing import Any

import numpy as np
from onnx import helper

from ..expr import Dim, constant, of_atom
from .generalize_program import Array, Builder, Rule

#: longest blocks that are looked for in masks
_LARGEST_BLOCK = 65
#: of so few places along an axis nothing shows that steps are even
EVEN = 3


class Kind:
    """The quantity that two bounds limit: a position on an axis, or the difference of two. Positions can be of blocks."""

    def __init__(self, axes: Seq[int], block: int = 1, factors: tuple[int, int] = (1, -1)) -> None:
        self.axes, self.block, self.factors = axes, block, factors

    def numbers(self, masks: Seq[Array]) -> list[Array]:
        """The numbers that bounds are about, for each mask."""
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


def of_places(masks: Seq[Array]) -> Iterator[Kind]:
    """A place on the one axis."""
    if masks[0].ndim == 1:
        yield Kind([0])


def of_differences(masks: Seq[Array]) -> Iterator[Kind]:
    """The difference of two places, and their sum."""
    if masks[0].ndim == 2:
        yield Kind([0, 1])
        yield Kind([0, 1], factors=(1, 1))


def of_blocks(masks: Seq[Array]) -> Iterator[Kind]:
    """Blocks of a length that is the same in all exports."""
    if masks[0].ndim == 2:
        yield from (
            Kind([0, 1], block) for block in range(2, min(_LARGEST_BLOCK, *(max(m.shape) for m in masks)))
        )


def between_bounds(
    kind: Kind, bounds: tuple[Dim | None, Dim | None], sizes: Seq[Dim], moving: Seq[int], rank: int, low: Array, high: Array,
    inverted: bool,
) -> Rule:  # fmt: skip
    """A rule that compares the numbers with bounds."""

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


def two_values(arrays: Seq[Array]) -> tuple[Array, Array] | None:
    """The two values of tensors, None where there are more."""
    values = np.unique(np.concatenate([np.unique(a) for a in arrays]))
    return (values[0], values[1]) if len(values) == 2 else None


def reshaped_rule(inner: Rule, sizes: Seq[Dim]) -> Rule:
    """A rule in another shape."""
    return lambda b: b.op("Reshape", inner(b), b.vector(sizes))


def joined_rules(rules: Seq[Rule], axis: int) -> Rule:
    """Rules one after the other along an axis."""
    return lambda b: b.op("Concat", *[r(b) for r in rules], axis=axis)


#: a step that is no whole number
BROKEN = object()


def same_along(array: Array, first: Array) -> bool:
    """True if a tensor is its first part all along."""
    return bool((array == first).all()) or (
        array.dtype.kind == "f" and np.array_equal(array, np.broadcast_to(first, array.shape), equal_nan=True)
    )


def whole_number(number: Any) -> Any:
    """A whole number, or BROKEN."""
    if isinstance(number, np.integer):
        return int(number)
    value = float(number)
    return int(value) if np.isfinite(value) and value == int(value) and abs(value) < 1 << 53 else BROKEN


def step_along(array: Array, axis: int) -> object:
    """The step from the first to the second position. None if there is one position, BROKEN if it is not whole."""
    if array.shape[axis] < 2:
        return None
    second = array[tuple(int(k == axis) for k in range(array.ndim))]
    by = float(second) - float(array.flat[0])
    return int(by) if np.isfinite(by) and by == int(by) else BROKEN


def is_even(array: Array, axis: int, step: object) -> bool:
    """True if all steps along an axis are this one."""
    return step is None or bool((np.diff(array.astype(np.float64), axis=axis) == step).all())


def part_of(whole: Array, like: Array, axes: Seq[int], last: Seq[bool]) -> Array:
    """The first or last part along some axes, of the lengths of another tensor."""
    at = [slice(None)] * whole.ndim
    for axis, end in zip(axes, last, strict=True):
        n = like.shape[axis]
        at[axis] = slice(whole.shape[axis] - n, None) if end else slice(n)
    return np.ascontiguousarray(whole[tuple(at)])


def between_ends(array: Array, axis: int, first: int, last: int) -> Array:
    """A tensor without its first and last places along an axis."""
    at = [slice(None)] * array.ndim
    at[axis] = slice(first, array.shape[axis] - last)
    return array[tuple(at)]


def split_axis(array: Array, axis: int, along: int) -> Array | None:
    """Splits an axis in two. The inner part is the shortest with a regular outer one, or the longest with equal parts."""
    count = array.shape[axis]
    lengths = [n for n in range(2, count // 2 + 1) if count % n == 0 and count // n >= 2]
    for n in lengths if along == 0 else reversed(lengths):
        apart = array.reshape(*array.shape[:axis], count // n, n, *array.shape[axis + 1 :])
        if is_regular(apart, axis) if along == 0 else same_along(apart, np.take(apart, [0], axis=axis + 1)):
            return apart
    return None


def is_regular(array: Array, axis: int) -> bool:
    """True if all is the same along an axis, or but for its last place."""
    first = np.take(array, [0], axis=axis)
    if same_along(array, first):
        return True
    return array.shape[axis] > EVEN and same_along(between_ends(array, axis, 0, 1), first)


def factors_in(size: Dim) -> list[Dim]:
    """The factors of a size that is a product of several that follow symbols."""
    if len(size.terms) != 1 or size.const:
        return []
    monomial, factor = size.terms[0]
    parts = [of_atom(atom) for atom in monomial]
    if any(part.name is None for part in parts):
        return []
    return [*([constant(factor)] if factor != 1 else []), *parts]


def type_of(array: Array) -> int:
    """The element type."""
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))


def as_type(b: Builder, x: object, like: Array) -> object:
    """An int64 tensor in the type of another."""
    return x if like.dtype == np.int64 else b.op("Cast", x, to=type_of(like))
