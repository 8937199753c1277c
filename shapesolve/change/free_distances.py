"""Stored tensors in which only the distance of two places counts, for any number of places.

What goes on evenly with the distance (`k - q`, or how far it is either way, times a slope for each head) is computed from it,
and so is what changes at a few distances only: bands around the diagonal, masks of a sliding window. A distance at which
something changes that may be a part of the size says nothing of other sizes.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

from ..expr import Dim, product
from .free_parts import is_half
from .free_patterns import Factors, may_hold_a_size, numbers
from .free_state import Freeing

Array: TypeAlias = NDArray[Any]

#: so many places show what counts
_SURE = 4
#: distances at which something changes, at most
_CHANGES = 3


@np.errstate(all="ignore")
def distances(freeing: Freeing, array: Array, moving: Factors) -> str | None:
    """The name of the tensor for the size that is free now; None where more than the distance counts."""
    axes = _axes(freeing, array, moving)
    if axes is None or array.dtype.kind not in "biuf":
        return None
    table = _by_distance(array, *axes)
    if table is None:
        return None
    count = array.shape[axes[0]]
    along = np.arange(1 - count, count)
    slope = _slope(table, along) if array.dtype.kind != "b" else None
    if slope is not None and not may_hold_a_size(freeing, slope * 0, abs(slope), count):
        return _even(freeing, array, axes, moving, slope, both=bool((table[..., 0] == table[..., -1]).all()))
    changes = [int(along[k]) for k in range(1, len(along)) if (table[..., k] != table[..., k - 1]).any()]
    if not 0 < len(changes) <= _CHANGES or any(_may_follow(freeing, d, count) for d in changes):
        return None
    return _stepped(freeing, array, axes, moving, table, changes)


def _axes(freeing: Freeing, array: Array, moving: Factors) -> tuple[int, int] | None:
    """The two axes of places: one at least follows a symbol, the other had the same size."""
    if len(moving) == 2:
        q, k = sorted(moving)
    elif len(moving) == 1 and array.ndim > 1:
        (one,) = moving
        like = [a for a in range(array.ndim) if a != one and array.shape[a] == array.shape[one]]
        if len(like) != 1:
            return None
        q, k = sorted((one, *like))
    else:
        return None
    return (q, k) if array.shape[q] == array.shape[k] >= _SURE else None


def _by_distance(array: Array, q: int, k: int) -> Array | None:
    """What stands at each distance ``k - q``, along the last axis; None where places with one distance differ."""
    plane = np.moveaxis(array, (q, k), (-2, -1))
    count = plane.shape[-1]
    table = np.concatenate([plane[..., :0:-1, 0], plane[..., 0, :]], axis=-1)
    at = np.arange(count)[None, :] - np.arange(count)[:, None] + count - 1
    return table if np.array_equal(table[..., at], plane) else None


def _slope(table: Array, along: Array) -> Array | None:
    """The factor of the distance, or of how far it is, with which all of the table comes out; None where there is none."""
    middle = len(along) // 2
    slope: Array = table[..., middle + 1 : middle + 2]
    if not np.isfinite(slope).all() or not slope.any():
        return None
    for way in (along, abs(along)):
        if np.array_equal(slope * way.astype(table.dtype), table):
            return slope
    return None


def _may_follow(freeing: Freeing, change: int, count: int) -> bool:
    """May the distance at which something changes have been computed from the size?"""
    sizes = {n for n, dims in freeing.seen.items() if any(map(freeing.is_other, dims))} | {count}
    return any(
        abs(d) > 1 and (abs(d) in sizes or any(is_half(abs(d), n) for n in sizes))
        for d in (change, change - 1)
    )


def _distance(freeing: Freeing, array: Array, axes: tuple[int, int], moving: Factors, dtype: int) -> str:
    sizes: list[Dim] = [
        product(moving[a]) if a in moving else freeing.maybe(array.shape[a], f"axis {a} of distances")
        for a in axes
    ]
    freeing.demand(sizes[1] - sizes[0], exactly=0)
    q, k = (numbers(freeing, d, a, array.ndim, dtype) for a, d in zip(axes, sizes, strict=True))
    return freeing.insert("Sub", [k, q], "distance")


def _even(
    freeing: Freeing, array: Array, axes: tuple[int, int], moving: Factors, slope: Array, *, both: bool
) -> str:
    made = _distance(freeing, array, axes, moving, helper.np_dtype_to_tensor_dtype(array.dtype))
    if both:
        made = freeing.insert("Abs", [made], "how_far")
    if (slope == 1).all():
        return made
    factor = np.expand_dims(slope[..., 0], axes)
    return freeing.insert(
        "Mul", [made, freeing.new_constant(np.ascontiguousarray(factor), "slope")], "distance"
    )


def _stepped(
    freeing: Freeing,
    array: Array,
    axes: tuple[int, int],
    moving: Factors,
    table: Array,
    changes: list[int],
) -> str:
    """What stands at each distance, from the nearest change behind it on."""
    distance = _distance(freeing, array, axes, moving, TensorProto.INT64)
    zero = array.shape[axes[0]] - 1
    kind = np.dtype(np.int64) if array.dtype == np.bool_ else array.dtype

    def value(d: int) -> str:
        found = np.expand_dims(table[..., d + zero], axes).astype(kind)
        return freeing.new_constant(np.ascontiguousarray(found), "at_distance")

    made = value(changes[0] - 1)
    for change in changes:
        reached = freeing.insert(
            "Greater", [distance, freeing.new_constant(np.array(change - 1, np.int64), "limit")], "reached"
        )
        made = freeing.insert("Where", [reached, value(change), made], "at_distance")
    return made if kind == array.dtype else freeing.insert("Cast", [made], "at_distance", to=TensorProto.BOOL)


__all__ = ["distances"]
