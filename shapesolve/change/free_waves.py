"""Stored sines and cosines of places, ``sin(place * frequency)`` with a frequency for each column, for any number of places.

Each column of sines shows its frequency; cosines, which hardly do where it is low, have those of the sines beside them: in the
same columns of another table of that shape, in the other half of their own, or in its other columns by turns. Every stored
number is held against the rule, up to the rounding of the angle. Where the highest frequency is one that a size gives (a whole
number of half turns, or one over it), the numbers say nothing of other sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from ..expr import Dim, symbol
from .free_patterns import Factors, numbers
from .free_state import Freeing

Array: TypeAlias = NDArray[Any]
Floats: TypeAlias = NDArray[np.float64]

#: so many places show a frequency, and that it is one
_SURE = 4
#: so many show one together with how far the first of them has turned
_FEW = 3
#: above, the second place no longer shows the frequency
_HIGHEST = 1.5
#: what rounding leaves of a number, and of an angle
_ROUNDING, _OF_ANGLE = 4e-7, 2e-7
_NEAR = 1e-5
#: what has not gone so far, as an angle, may be a straight line
_BENT = 1.0
#: largest table that is looked at beside another, in elements
_LARGEST = 1 << 22


def waves(freeing: Freeing, name: str, array: Array, moving: Factors) -> str | None:
    """The name of the sines and cosines for the size that is free now; None where the stored ones are none."""
    if len(moving) != 1 or array.dtype not in (np.float32, np.float64) or array.ndim < 2:
        return None
    ((axis, factors),) = moving.items()
    if len(factors) != 1:
        return None
    columns = _columns(array, axis)
    is_sine = columns[0] == 0
    if not (is_sine | (columns[0] == 1)).all():
        return _behind_a_cache(freeing, name, array, axis, factors[0])
    if array.shape[axis] < _SURE:
        return None
    found = _frequencies(freeing, name, array, axis, columns, is_sine)
    highest = 0.0 if found is None else float(np.abs(found).max())
    if found is None or highest * (len(columns) - 1) < _BENT or _follows_a_size(freeing, highest):
        return None
    shape = [1 if k == axis else n for k, n in enumerate(array.shape)]
    dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
    places = numbers(freeing, factors[0], axis, array.ndim, dtype)
    frequency = freeing.new_constant(found.reshape(shape).astype(array.dtype), f"{name}_frequencies")
    angle = freeing.insert("Mul", [places, frequency], "angles")
    made = [freeing.insert(op_type, [angle], name) for op_type in ("Sin", "Cos")]
    if is_sine.all() or not is_sine.any():
        return made[0] if is_sine.all() else made[1]
    which = freeing.new_constant(is_sine.reshape(shape), f"{name}_is_sine")
    return freeing.insert("Where", [which, *made], name)


def _behind_a_cache(freeing: Freeing, name: str, array: Array, axis: int, size: Dim) -> str | None:
    """The sines or cosines of the places from the length of a cache on: the table beside it has the others."""
    columns = _columns(array, axis)
    found: dict[tuple[str, str], Floats] = {}
    for symbol_, first in freeing.baked.items():
        if symbol_ not in freeing.symbols or symbol_ in size.free or first < _SURE:
            continue
        for other in _beside(freeing, name, array):
            pairs = {"Cos": (columns, _columns(other, axis)), "Sin": (_columns(other, axis), columns)}
            for op_type, (cosines, sines) in pairs.items():
                frequencies = _turning(cosines + 1j * sines, first, array.dtype)
                if frequencies is not None and not _follows_a_size(freeing, float(frequencies.max())):
                    found.setdefault((op_type, symbol_), frequencies)
    if len(found) != 1:
        return None
    (((op_type, before), frequencies),) = found.items()
    dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
    places = numbers(freeing, size, axis, array.ndim, dtype, symbol(before))
    shape = [1 if k == axis else n for k, n in enumerate(array.shape)]
    frequency = freeing.new_constant(frequencies.reshape(shape).astype(array.dtype), f"{name}_frequencies")
    return freeing.insert(op_type, [freeing.insert("Mul", [places, frequency], "angles")], name)


def _turning(points: NDArray[np.complex128], first: int, dtype: Any) -> Floats | None:
    """The frequency with which each column turns, from place `first` on; None where one does not."""
    if len(points) < _FEW or not np.isfinite(points).all():
        return None
    places = first + np.arange(len(points))[:, None]
    found = np.angle((points[1:] * points[:-1].conj()).sum(0))
    for _ in range(3):
        left = np.angle(points * np.exp(-1j * places * found))
        found = found + (left * places).sum(0) / (places * places).sum(0)
    rounded: Floats = found.astype(dtype).astype(np.float64)
    off = abs(points - np.exp(1j * places * rounded))
    if (off > 2 * (_ROUNDING + _OF_ANGLE * abs(places * rounded))).any() or abs(rounded).max() > _HIGHEST:
        return None
    return rounded if abs(rounded).max() * places.max() >= _BENT else None


def _columns(array: Array, axis: int) -> Floats:
    """One column for each place of the other axes, which stay in order."""
    return np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1).astype(np.float64)


def _frequencies(
    freeing: Freeing, name: str, array: Array, axis: int, columns: Floats, is_sine: NDArray[np.bool_]
) -> Floats | None:
    """The frequency of each column, in the precision of the table; None where there is none, or more than one may be meant."""
    own = _of_sines(columns, array.dtype)
    found: list[Floats] = []
    if is_sine.all():
        found = [own]
    elif not is_sine.any():
        found = [_of_sines(_columns(other, axis), array.dtype) for other in _beside(freeing, name, array)]
    elif axis != array.ndim - 1 and array.shape[-1] % 2 == 0:
        places = np.arange(columns.shape[1]).reshape(-1, array.shape[-1])
        by_half = np.roll(places, array.shape[-1] // 2, axis=1).reshape(-1)
        by_turns = places.reshape(-1) ^ 1
        found = [np.where(is_sine, own, own[at]) for at in (by_half, by_turns) if is_sine[at[~is_sine]].all()]
    fitting = [w for w in found if _fits(columns, w, is_sine)]
    if not fitting or any(not np.array_equal(w, fitting[0]) for w in fitting):
        return None
    return fitting[0]


def _of_sines(columns: Floats, dtype: Any) -> Floats:
    """The frequencies that fit columns of sines best, from what the second place shows."""
    places = np.arange(len(columns))[:, None]
    found = np.arcsin(np.clip(columns[1], -1, 1))
    for _ in range(3):
        slope = places * np.cos(places * found)
        found = found + (slope * (columns - np.sin(places * found))).sum(0) / (slope * slope).sum(0)
    rounded: Floats = found.astype(dtype).astype(np.float64)
    return rounded


def _fits(columns: Floats, frequencies: Floats, is_sine: NDArray[np.bool_]) -> bool:
    """Is every number the sine or cosine of its place times the frequency of its column?"""
    if not np.isfinite(frequencies).all() or np.abs(frequencies).max() > _HIGHEST:
        return False
    angles = np.arange(len(columns))[:, None] * frequencies
    want = np.where(is_sine, np.sin(angles), np.cos(angles))
    return bool((np.abs(columns - want) <= _ROUNDING + _OF_ANGLE * np.abs(angles)).all())


def _beside(freeing: Freeing, name: str, array: Array) -> Iterator[Array]:
    """Other stored tables of the same type, and of the same shape but for axes along which they are the same."""
    wanted = [n for n in array.shape if n > 1]
    for other, stored in freeing.stored_tensors():
        sizes = iter(stored.dims)
        if other == name or stored.numel > _LARGEST or not all(n in sizes for n in wanted):
            continue
        table = stored.array(_LARGEST)
        if table is None or table.dtype != array.dtype or not table.size:
            continue
        for axis in range(table.ndim):
            first = np.take(table, [0], axis=axis)
            table = first if bool((table == first).all()) else table
        if [n for n in table.shape if n > 1] == wanted:
            yield table.reshape(array.shape)


def _follows_a_size(freeing: Freeing, frequency: float) -> bool:
    """Is it a whole number of half turns over a size, or one over it?"""
    for n in (n for n, dims in freeing.seen.items() if any(map(freeing.is_other, dims))):
        for count in (n - 1, n, n + 1):
            turns = 2 * count * frequency / np.pi
            if count > 1 and round(turns) >= 1 and abs(turns - round(turns)) < _NEAR * turns:
                return True
            if count > 1 and abs(count * frequency - 1) < _NEAR:
                return True
    return False


__all__ = ["waves"]
