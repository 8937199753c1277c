"""Stored tensors that number places or compare two of them, said anew for places whose number is free.

What a fixed size leaves behind most often is ``0, 1, .. n-1`` along an axis, the row-major number of each place of several
axes, and the triangle of places that are not later than another. These are recognized element by element; anything else that
has as many entries as there were places is a table, and refused.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from ..expr import ONE, Dim, constant, product
from .free_walk import Freeing

Array: TypeAlias = NDArray[Any]
_INT64 = 7


def steps_of(array: Array) -> list[int] | None:
    """Per axis the step ``c`` of a tensor whose elements are ``c0*i0 + c1*i1 + ..``, or None."""
    if array.dtype.kind not in "iuf" or not array.size or array.flat[0] != 0:
        return None
    steps = []
    total = np.zeros((), np.float64)
    for axis, count in enumerate(array.shape):
        second = tuple(int(k == axis) for k in range(array.ndim))
        step = int(array[second]) if count > 1 else 0
        steps.append(step)
        total = total + np.arange(count).reshape([-1 if k == axis else 1 for k in range(array.ndim)]) * step
    return steps if np.array_equal(total, array.astype(np.float64)) else None


def numbers(freeing: Freeing, size: Dim, axis: int, rank: int, dtype: int = _INT64) -> str:
    """The name of ``0, 1, .. size-1`` along one axis of a tensor of this rank."""
    limit = freeing.scalar(size, "count")
    ends = [freeing.new_constant(np.array(n, np.int64), f"number_{n}") for n in (0, 1)]
    made = freeing.insert("Range", [ends[0], limit, ends[1]], "places")
    if rank != 1:
        target = freeing.number_vector([-1 if k == axis else 1 for k in range(rank)], "places_shape")
        made = freeing.insert("Reshape", [made, target], "places")
    return made if dtype == _INT64 else freeing.insert("Cast", [made], "places", to=dtype)


def numbered(freeing: Freeing, array: Array, sizes: Seq[Dim]) -> str | None:
    """A tensor that numbers the places along one axis: the same for an axis of another size."""
    steps = steps_of(array)
    if steps is None:
        return None
    moving = [k for k, step in enumerate(steps) if step]
    if (
        len(moving) != 1
        or steps[moving[0]] != 1
        or any(n > 1 for k, n in enumerate(array.shape) if k != moving[0])
    ):
        return None
    (axis,) = moving
    return numbers(freeing, sizes[axis], axis, array.ndim, helper.np_dtype_to_tensor_dtype(array.dtype))


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
        made = numbers(freeing, found[0], axis, array.ndim)
        if found[1] is not ONE:
            made = freeing.insert("Mul", [made, freeing.vector([found[1]], "stride")], "places")
        parts.append(made)
    total = parts[0] if parts else None
    for part in parts[1:]:
        total = freeing.insert("Add", [str(total), part], "places")
    return total


def triangle(freeing: Freeing, array: Array, sizes: Seq[Dim]) -> str | None:
    """A mask of places that are not later than others, over the last two axes: ``a`` where ``k <= q + offset``, else ``b``."""
    if array.ndim < 2 or any(n > 1 for n in array.shape[:-2]):
        return None
    rows, columns = int(array.shape[-2]), int(array.shape[-1])
    plane = array.reshape(rows, columns)
    low, high = plane[0, 0], plane[0, -1]
    if low == high or array.dtype == object:
        return None
    offset = int((plane[0] == low).sum()) - 1
    place = np.arange(columns)[None, :] <= np.arange(rows)[:, None] + offset
    if not np.array_equal(plane, np.where(place, low, high)) or rows < 2:
        return None
    q, k = sizes[-2], sizes[-1]
    shift = k - q if offset else constant(0)
    if freeing.old(shift) != offset or (offset and not shift.terms):
        return None
    rank = array.ndim
    limit = numbers(freeing, q, rank - 2, rank)
    if shift is not constant(0):
        limit = freeing.insert("Add", [limit, freeing.vector([shift], "offset")], "limit")
    kept = freeing.insert("LessOrEqual", [numbers(freeing, k, rank - 1, rank), limit], "not_later")
    if array.dtype == np.bool_:
        return kept if low else freeing.insert("Not", [kept], "later")
    ends = [freeing.new_constant(np.array(end, array.dtype), "mask_value") for end in (low, high)]
    return freeing.insert("Where", [kept, *ends], "mask")


__all__ = ["enumerated", "numbered", "numbers", "steps_of", "triangle"]
