"""Places and counts along an axis whose size is free: which of them follow it, and which may, so that nothing can be said."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..expr import Dim, constant
from ..model import Node
from .free_parts import is_centred, is_half, is_part
from .free_state import Freeing
from .free_stored import LARGEST
from .refused import Refused

#: an end from here on is that of the axis
_ALL = (1 << 31) - 1


def cut(freeing: Freeing, node: Node) -> Node:
    """Ends of a Slice that are the size of the axis, or a size that follows a symbol.

    Raises:
        Refused: a start or an end may have been counted from the end, or be a part of the size.
    """
    parts = _cuts(freeing, node)
    shape = freeing.shape(node.inputs[0])
    if parts is None or shape is None:
        return node
    made: list[Dim] = []
    for axis, start, end, step in parts:
        dim = shape[axis]
        was = freeing.old(dim)
        if not freeing.is_other(dim) or was is None or step < 1:
            made.append(constant(end))
            continue
        _check(freeing, node, dim, start, end)
        if not 0 < end <= was:
            made.append(constant(end))
        else:
            made.append(dim if end == was else freeing.maybe(end, "an end", node))
    if all(not d.terms for d in made):
        return node
    if len(node.inputs) > 1:
        return freeing.with_input(node, 2, freeing.vector(made, f"{node.inputs[2]}_free"))
    if any(d.terms and d is not shape[axis] for d, (axis, *_) in zip(made, parts, strict=True)):
        raise Refused(f"{node.label} (Slice) ends at a size that follows another", node=node.label)
    return freeing.with_attribute(node, "ends", [_ALL if d.terms else d.const for d in made])


def _cuts(freeing: Freeing, node: Node) -> list[tuple[int, int, int, int]] | None:
    """Axis, start, end and step of each cut; None where one is not known."""
    if len(node.inputs) > 1:
        named = [freeing.numbers(name) if name else [] for name in node.inputs[1:]]
        if any(found is None for found in named):
            return None
        starts, ends, axes, steps = [found or [] for found in [*named, [], []][:4]]
    else:
        starts, ends, axes = ([*(node.attributes.get(key) or ())] for key in ("starts", "ends", "axes"))
        steps = []
    axes, steps = axes or [*range(len(starts))], steps or [1] * len(starts)
    return [*zip(axes, starts, ends, steps, strict=True)]


def _check(freeing: Freeing, node: Node, dim: Dim, start: int, end: int) -> None:
    was = freeing.old(dim) or 0
    from_end = start in freeing.seen or end == was or is_centred(start, end, was)
    if start > 1 and (from_end or is_part(start, was)):
        raise Refused(
            f"{node.label} (Slice) starts at {start} of {dim}, which may have been counted from the end, or be a part of it",
            node=node.label,
        )
    if end not in freeing.seen and is_part(end, was):
        raise Refused(
            f"{node.label} (Slice) ends at {end} of {dim}, which may have been counted from the end, or be a part of it",
            node=node.label,
        )


def most(freeing: Freeing, node: Node) -> Node:
    """How many TopK takes.

    Raises:
        Refused: that may be a part of the size.
    """
    shape = freeing.shape(node.inputs[0])
    counts = freeing.numbers(node.inputs[1]) if len(node.inputs) > 1 else [int(node.attributes.get("k", 0))]
    if shape is None or not counts:
        return node
    dim = shape[int(node.attributes.get("axis", -1))]
    if freeing.is_other(dim) and is_part(counts[0], freeing.old(dim) or 0):
        raise Refused(
            f"{node.label} (TopK) takes {counts[0]} of {dim}, which may be a part of that", node=node.label
        )
    return node


def diagonal(freeing: Freeing, node: Node) -> Node:
    """The diagonal that Trilu starts from.

    Raises:
        Refused: it may be counted from the end, or be in the middle.
    """
    by = freeing.numbers(node.inputs[1]) if len(node.inputs) > 1 and node.inputs[1] else None
    for dim in (freeing.shape(node.inputs[0]) or ())[-2:] if by else ():
        if by and freeing.is_other(dim) and is_half(abs(by[0]), freeing.old(dim) or 0):
            raise Refused(
                f"{node.label} (Trilu) starts {by[0]} places from the diagonal of {dim}, which may follow that",
                node=node.label,
            )
    return node


def selected(freeing: Freeing, node: Node) -> Node:
    """Which places Compress takes.

    Raises:
        Refused: it is stored for each place of an axis whose size is free.
    """
    shape, axis = freeing.shape(node.inputs[0]) or (), node.attributes.get("axis")
    along = [*shape] if axis is None or not shape else [shape[int(axis)]]
    if freeing.is_stored(node.inputs[1]) and any(map(freeing.is_other, along)):
        raise Refused(
            f"{node.label} (Compress) takes places of {along[0]} that are stored: there are none for other sizes",
            node=node.label,
        )
    return node


def placed(freeing: Freeing, node: Node) -> Node:
    """Places that are stored, along an axis of a size that is free.

    Raises:
        Refused: they may be counted from the end, or as a part of the size.
    """
    shape, stored = freeing.shape(node.inputs[0]), freeing.stored(node.inputs[1])
    array = None if stored is None else stored.array(LARGEST)
    if shape is None or array is None or not array.size:
        return node
    if node.op_type.endswith("ND"):
        columns = [*zip(shape, np.moveaxis(array, -1, 0), strict=False)]
    else:
        columns = [(shape[node.attributes.get("axis", 0)], array)]
    for dim, column in columns:
        was = freeing.old(dim) or 0
        is_all = column.size == was and bool((column.reshape(-1) == np.arange(was)).all())
        if freeing.is_other(dim) and not is_all and column.any() and may_move(freeing, column, was):
            raise Refused(
                f"{node.label} ({node.op_type}) names place {int(column.max())} of {dim}: it may have been counted from the "
                "end, or as a part",
                node=node.label,
            )
    return node


def may_move(freeing: Freeing, array: NDArray[Any], size: int) -> bool:
    """May stored places along an axis of this size be others at other sizes, in number or in value?"""
    last = int(array.max())
    is_counted = any(is_part(n, size) or n == size for n in array.shape if n > 1)
    return last == size - 1 or last in freeing.seen or is_part(last, size) or is_counted


__all__ = ["cut", "diagonal", "may_move", "most", "placed", "selected"]
