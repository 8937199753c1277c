"""Stored tensors that number places or compare two of them, said anew for places whose number is free.

What a fixed size leaves behind most often is ``0, 1, .. n-1`` along an axis, the row-major number of each place of several
axes, and the triangle of places that are not later than another. These are recognized element by element; anything else that
has as many entries as there were places is a table, and refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from ..expr import ONE, ZERO, Dim, constant, product
from .free_state import Freeing

Array: TypeAlias = NDArray[Any]
#: the factors of each axis that follows a symbol, outermost first
Factors: TypeAlias = Mapping[int, Seq[Dim]]
_INT64 = 7
#: floats below are exact where they are whole
_EXACT = 1 << 53
#: so many numbers show that steps are even: of two nothing can be told
_SURE = 3
#: sizes below are more often something else
_TELLING = 4


def steps_of(array: Array) -> list[int] | None:
    """Per axis the step ``c`` of a tensor whose elements are ``c0*i0 + c1*i1 + ..``, or None."""
    if not _is_finite(array) or array.flat[0] != 0 or np.abs(array.astype(np.float64)).max() >= _EXACT:
        return None
    steps = []
    total = np.zeros((), np.float64)
    for axis, count in enumerate(array.shape):
        second = tuple(int(k == axis) for k in range(array.ndim))
        step = int(array[second]) if count > 1 else 0
        steps.append(step)
        total = total + np.arange(count).reshape([-1 if k == axis else 1 for k in range(array.ndim)]) * step
    return steps if np.array_equal(total, array.astype(np.float64)) else None


def numbers(freeing: Freeing, size: Dim, axis: int, rank: int, dtype: int = _INT64, shift: Dim = ZERO) -> str:
    """The name of ``shift, shift+1, .. shift+size-1`` along one axis of a tensor of this rank."""
    limit = freeing.scalar(size, "count")
    ends = [freeing.new_constant(np.array(n, np.int64), f"number_{n}") for n in (0, 1)]
    made = freeing.insert("Range", [ends[0], limit, ends[1]], "places")
    if shift is not ZERO:
        made = freeing.insert("Add", [made, freeing.scalar(shift, "places_before")], "places")
    if rank != 1:
        target = freeing.number_vector([-1 if k == axis else 1 for k in range(rank)], "places_shape")
        made = freeing.insert("Reshape", [made, target], "places")
    return made if dtype == _INT64 else freeing.insert("Cast", [made], "places", to=dtype)


def enumerated(freeing: Freeing, array: Array, factors: Seq[Dim]) -> str | None:
    """Row-major numbers of all places of these factors, each along one axis of `array`."""
    steps = steps_of(array)
    if steps is None:
        return None
    parts: list[str] = []
    for axis, (count, step) in enumerate(zip(array.shape, steps, strict=True)):
        if count == 1:
            continue
        found = None
        for k, factor in enumerate(factors):
            inside = product(factors[k + 1 :])
            if freeing.old(factor) == count and freeing.old(inside) == step:
                found = factor, inside
        if found is None:
            return None
        many = freeing.as_many(found[0], "so many places are picked")
        made = numbers(freeing, many, axis, array.ndim)
        if found[1] is not ONE:
            made = freeing.insert("Mul", [made, freeing.vector([found[1]], "stride")], "places")
        parts.append(made)
    total = parts[0] if parts else None
    for part in parts[1:]:
        total = freeing.insert("Add", [str(total), part], "places")
    return total


def triangle(freeing: Freeing, array: Array, moving: Factors) -> str | None:
    """A mask of places that are not later than others, over the last two axes: ``a`` where ``k <= q + offset``, else ``b``."""
    rank = array.ndim
    if rank < 2 or any(n > 1 for n in array.shape[:-2]) or any(axis < rank - 2 for axis in moving):
        return None
    rows, columns = int(array.shape[-2]), int(array.shape[-1])
    plane = array.reshape(rows, columns)
    low, high = plane[0, 0], plane[0, -1]
    if low == high or rows < 2:
        return None
    offset = int((plane[0] == low).sum()) - 1
    place = np.arange(columns)[None, :] <= np.arange(rows)[:, None] + offset
    if not np.array_equal(plane, np.where(place, low, high)):
        return None
    if offset not in (0, columns - rows) or any(
        axis not in moving and array.shape[axis] not in freeing.seen for axis in (rank - 2, rank - 1)
    ):
        return None
    q, k = (
        product(moving[axis])
        if axis in moving
        else freeing.maybe(array.shape[axis], f"axis {axis} of a triangle")
        for axis in (rank - 2, rank - 1)
    )
    shift = k - q if offset == columns - rows else ZERO
    freeing.demand(shift, exactly=0 if offset == 0 else None)
    limit = numbers(freeing, q, rank - 2, rank)
    if shift is not ZERO:
        limit = freeing.insert("Add", [limit, freeing.vector([shift], "offset")], "limit")
    kept = freeing.insert("LessOrEqual", [numbers(freeing, k, rank - 1, rank), limit], "not_later")
    if array.dtype == np.bool_:
        return kept if low else freeing.insert("Not", [kept], "later")
    ends = [freeing.new_constant(np.array(end, array.dtype), "mask_value") for end in (low, high)]
    return freeing.insert("Where", [kept, *ends], "mask")


# ---------------------------------------------------------------------- factors


def by_factors(
    freeing: Freeing, array: Array, moving: Factors
) -> tuple[Array, list[Dim], dict[int, Dim]] | None:
    """The elements with an axis for each factor, the factors, and which of them follow symbols; None where they do not fit."""
    wide: list[Dim] = []
    axes: dict[int, Dim] = {}
    for axis, count in enumerate(array.shape):
        for factor in moving.get(axis, [constant(count)]):
            if axis in moving and freeing.is_free(factor):
                axes[len(wide)] = factor
            wide.append(factor)
    counts = [freeing.old(d) for d in wide]
    if None in counts or int(np.prod([n or 0 for n in counts])) != array.size:
        return None
    return array.reshape([n or 0 for n in counts]), wide, axes


def joined_again(freeing: Freeing, made: str, wide: Seq[Dim], moving: Factors, rank: int) -> str:
    """What has an axis for each factor, or one of size 1 along which all is the same, with the axes that it had before."""
    if len(wide) == rank:
        return made
    spread = freeing.insert("Expand", [made, freeing.vector(wide, "grid_shape")], "grid")
    merged, k = [], 0
    for axis in range(rank):
        count = len(moving.get(axis, (ONE,)))
        merged.append(product(wide[k : k + count]))
        k += count
    return freeing.insert("Reshape", [spread, freeing.vector(merged, "places_shape")], "places")


# ---------------------------------------------------------------------- even steps


def evenly(freeing: Freeing, array: Array, moving: Factors) -> str | None:
    """Elements that go in even steps along each factor of the axes that follow symbols: ``base + step * place``.

    The other axes may hold anything: each of their places has a base and steps of its own.
    """
    whole = {axis: [product(factors)] for axis, factors in moving.items()}
    ways = [moving] if whole == moving else [whole, moving]
    return next((made for way in ways if (made := _evenly(freeing, array, way))), None)


@np.errstate(all="ignore")
def _evenly(freeing: Freeing, array: Array, moving: Factors) -> str | None:
    split = by_factors(freeing, array, moving)
    if array.dtype.kind not in "iuf" or split is None:
        return None
    apart, wide, axes = split
    base = apart[tuple(slice(0, 1) if k in axes else slice(None) for k in range(apart.ndim))]
    total, steps = base, {}
    for k in axes:
        if apart.shape[k] < _SURE:
            return None
        second = apart[
            tuple(
                slice(int(j == k), int(j == k) + 1) if j in axes else slice(None) for j in range(apart.ndim)
            )
        ]
        steps[k] = second - base
        total = total + steps[k] * _along(np.arange(apart.shape[k]), k, apart.ndim).astype(array.dtype)
    if not np.array_equal(np.broadcast_to(total, apart.shape), apart):
        return None
    shift = _shift(freeing, base, [(axes[k], step) for k, step in steps.items()], apart.shape)
    if shift is not ZERO:
        base = base * 0
    sizes = {k: abs(step) if shift is not ZERO else step for k, step in steps.items()}
    if any(may_hold_a_size(freeing, base, step, apart.shape[k]) for k, step in sizes.items()):
        return None
    along = {k: (axes[k], step, shift) for k, step in steps.items()}
    return _stepped(freeing, base, along, wide, moving, array.ndim)


def _shift(freeing: Freeing, base: Array, steps: Seq[tuple[Dim, Array]], shape: Seq[int]) -> Dim:
    """How many places are before the first: those of a cache, or as many as there are, counted back from the last."""
    if len(steps) != 1 or not base.all():
        return ZERO
    ((size, step),) = steps
    count = freeing.old(size) or 0
    if step.all() and not (base + step * (count - 1)).any():
        return ONE - size
    first = base.flat[0]
    if not (step == 1).all() or not (base == first).all() or first < _TELLING:
        return ZERO
    before = [d for d in freeing.seen.get(int(first), ()) if freeing.is_other(d) and first == int(first)]
    alone = len(before) == 1 and before[0].name in freeing.symbols and before[0] is not size
    return before[0] if alone else ZERO


def _stepped(
    freeing: Freeing,
    base: Array,
    steps: Mapping[int, tuple[Dim, Array, Dim]],
    wide: Seq[Dim],
    moving: Factors,
    rank: int,
) -> str:
    dtype = helper.np_dtype_to_tensor_dtype(base.dtype)
    made = None if not base.any() else freeing.new_constant(np.ascontiguousarray(base), "first")
    for k, (size, step, shift) in steps.items():
        part = numbers(freeing, size, k, len(wide), dtype, shift)
        if not (step == 1).all():
            part = freeing.insert(
                "Mul", [part, freeing.new_constant(np.ascontiguousarray(step), "step")], "places"
            )
        made = part if made is None else freeing.insert("Add", [made, part], "places")
    assert made is not None
    return joined_again(freeing, made, wide, moving, rank)


def _is_finite(array: Array) -> bool:
    """Are there elements, all of them numbers?"""
    return array.dtype.kind in "iuf" and array.size > 0 and bool(np.isfinite(array).all())


def _along(numbers: Array, axis: int, rank: int) -> Array:
    return numbers.reshape([-1 if k == axis else 1 for k in range(rank)])


def may_hold_a_size(freeing: Freeing, base: Array, step: Array, count: int) -> bool:
    """May first number or step have been computed from a size: as a part of it, by counting back, or around the middle?"""
    sizes = sorted(n for n, dims in freeing.seen.items() if any(map(freeing.is_other, dims)))
    told = [n for n in sizes if n >= _TELLING]
    ratios = {a / b for a in told for b in (1, *sizes) if a != b}
    ratios |= (
        {(a - 1) / (b - 1) for a in told for b in sizes if a != b > 1}
        | {1.0 / n for n in told}
        | {1.0 / (n - 1) for n in told}
    )
    pairs = np.broadcast_arrays(base.astype(np.float64), step.astype(np.float64))
    for first, by in {*zip(*(pair.reshape(-1).tolist() for pair in pairs), strict=True)}:
        last = first + by * (count - 1)
        if by == 0:
            continue
        if by < 0 or first == -last or (first < 0 and by != 1):
            return True
        plain = by == 1 and 0 <= first < _TELLING and (first < 2 or first not in sizes)
        if not plain and any(abs(x - r) <= 1e-6 * r for x in (abs(first), by) for r in ratios if x):
            return True
        if not plain and (last == 1 or last in told or (last + 1 in told and by != 1)):
            return True
    return False


__all__ = [
    "by_factors",
    "enumerated",
    "evenly",
    "joined_again",
    "may_hold_a_size",
    "numbers",
    "steps_of",
    "triangle",
]
