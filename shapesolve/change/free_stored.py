"""Stored tensors that hold a size along an axis, said anew for an axis whose size is free.

What is the same all along needs one place. Otherwise every element has to follow from its place by a rule that the numbers
show at each of them: whole steps along the axis (positions, the centres of a grid), a triangle of places that are not later
than others, or sines and cosines of the places. A rule whose own numbers may have been computed from the size (the step of
`linspace`, a centred grid, a mean's 1/n) says nothing of other sizes. What remains is a table, and refused by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..expr import ONE, Dim, product
from ..model import Node
from .free_distances import distances
from .free_patterns import Factors, by_factors, evenly, joined_again, triangle
from .free_state import Freeing
from .free_waves import waves

Array: TypeAlias = NDArray[Any]

#: largest stored tensor that is looked into, in elements
LARGEST = 1 << 22
#: so many different numbers of a tensor are compared with sizes
_FEW = 64
#: sizes below are more often something else
_TELLING = 4


def regrown(
    freeing: Freeing, node: Node, i: int, sizes: Mapping[int, Seq[Dim]], *, broadcasts: bool
) -> Node | None:
    """The node with a stored operand for other sizes; None where nothing shows what that would be.

    Args:
        freeing: the attempt.
        node: the node.
        i: which operand.
        sizes: for each axis that follows a symbol the factors that its size has now, outermost first.
        broadcasts: does one place along an axis go with any number of them?
    """
    name = node.inputs[i]
    stored = freeing.stored(name)
    array = None if stored is None else stored.array(LARGEST)
    if array is None or array.dtype == object or not array.size:
        return None
    made = _regrown(freeing, name, array, sizes, broadcasts=broadcasts)
    return None if made is None else freeing.with_input(node, i, made)


def _regrown(
    freeing: Freeing, name: str, array: Array, sizes: Mapping[int, Seq[Dim]], *, broadcasts: bool
) -> str | None:
    one = array
    for axis in range(array.ndim):
        first = np.take(one, [0], axis=axis)
        one = first if bool((one == first).all()) else one
    moving = {axis: factors for axis, factors in sizes.items() if one.shape[axis] > 1}
    target = [ONE] * array.ndim
    for axis, size in enumerate(array.shape):
        if axis not in sizes and size != one.shape[axis]:
            target[axis] = freeing.maybe(size, f"axis {axis} of {name}")
        elif axis in sizes and one.shape[axis] == 1 and not broadcasts:
            target[axis] = product(sizes[axis])
    if not moving:
        if _tells(freeing, one):
            return None
        made = freeing.new_constant(np.ascontiguousarray(one), f"{name}_row")
    else:
        found = triangle(freeing, one, moving) or _repeated(freeing, name, one, moving)
        found = found or evenly(freeing, one, moving) or distances(freeing, one, moving)
        found = found or waves(freeing, name, one, moving)
        if found is None:
            return None
        made = found
    if any(d is not ONE for d in target):
        made = freeing.insert("Expand", [made, freeing.vector(target, f"{name}_target")], name)
    return made


def _repeated(freeing: Freeing, name: str, array: Array, moving: Factors) -> str | None:
    """A tensor that is the same along every factor that follows a symbol: a table along the others (a mask per window)."""
    split = by_factors(freeing, array, moving)
    if split is None:
        return None
    one, wide, axes = split
    for k in axes:
        first = np.take(one, [0], axis=k)
        if not bool((one == first).all()):
            return None
        one = first
    if _tells(freeing, one):
        return None
    made = freeing.new_constant(np.ascontiguousarray(one), f"{name}_once")
    return joined_again(freeing, made, wide, moving, array.ndim)


def _tells(freeing: Freeing, array: Array) -> bool:
    """May one of its numbers have been computed from a size that follows a symbol: the size itself, or one part of it?"""
    if array.dtype.kind not in "iuf":
        return False
    numbers = {abs(float(x)) for x in np.unique(array)[: _FEW + 1]}
    if len(numbers) > _FEW:
        return False
    sizes = [n for n, dims in freeing.seen.items() if n >= _TELLING and any(map(freeing.is_other, dims))]
    if array.dtype.kind != "f":
        return any(n in numbers for n in sizes)
    return any(x and abs(1 / x - n) < n * 1e-6 for x in numbers for n in sizes)


def opened(freeing: Freeing, node: Node, i: int, axes: Seq[int]) -> Node | None:
    """A stored operand that is the same, or numbers places, along axes whose size may have followed a symbol.

    What later nodes need decides; where they do not, the numbers of places are refused.
    """
    name = node.inputs[i]
    stored = freeing.stored(name)
    array = None if stored is None else stored.array(LARGEST)
    if array is None or array.dtype == object or not array.size:
        return None
    numbered = _numbered(freeing, node, name, array, axes)
    if numbered is not None:
        return freeing.with_input(node, i, numbered)
    if _tells(freeing, array):
        return None
    target, one = [ONE] * array.ndim, array
    for axis in axes:
        first = np.take(one, [0], axis=axis)
        if bool((one == first).all()):
            one, target[axis] = first, freeing.maybe(array.shape[axis], f"axis {axis} of {name}")
    if one is array:
        return None
    made = freeing.new_constant(np.ascontiguousarray(one), f"{name}_row")
    spread = freeing.insert("Expand", [made, freeing.vector(target, f"{name}_target")], name)
    freeing.reverts[spread] = name, target
    return freeing.with_input(node, i, spread)


def _numbered(freeing: Freeing, node: Node, name: str, array: Array, axes: Seq[int]) -> str | None:
    """Even steps along one of these axes, for a size that is open."""
    moving = [axis for axis in axes if (array != np.take(array, [0], axis=axis)).any()]
    if len(moving) != 1 or array.dtype.kind not in "iuf":
        return None
    (axis,) = moving
    what = f"axis {axis} of {name}, which numbers places,"
    size = freeing.maybe(array.shape[axis], what, node)
    made = evenly(freeing, array, {axis: [size]})
    if made is None:
        assert size.name is not None
        del freeing.unsure[size.name]
    else:
        freeing.reverts[made] = name, [size]
    return made


__all__ = ["LARGEST", "opened", "regrown"]
