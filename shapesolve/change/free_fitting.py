"""Operands that do not fit any more: one row where others have many, or the baked size along an axis that follows a symbol."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from collections.abc import Sequence as Seq
from typing import TypeAlias

from ..expr import ONE, Dim, eq, product
from ..model import Node
from .free_state import Freeing
from .free_stored import opened, regrown
from .provenance_notation import Links
from .refused import Refused

#: where a label stands: input, axis and size
Stands: TypeAlias = Mapping[Hashable, "Seq[tuple[int, int, Dim]]"]
#: a stored size below may be anything
_LEAST = 2


def fit(freeing: Freeing, node: Node) -> Node:
    """Operands of size 1, or of the baked size, along an axis that others follow a symbol on."""
    for _ in range(3 * len(node.inputs) + 1):
        links = freeing.provenance.links(freeing.provenance.view(node))
        if links is None:
            return node
        changed = _fit_one(freeing, node, links)
        if changed is None:
            return node
        node = changed
    return node


def _fit_one(freeing: Freeing, node: Node, links: Links) -> Node | None:
    found: dict[Hashable, list[tuple[int, int, Dim]]] = {}
    for i, labels in enumerate(links.inputs):
        shape = freeing.shape(node.inputs[i]) if labels and node.inputs[i] else None
        for axis, (label, dim) in enumerate(zip(labels or (), shape or (), strict=False)):
            found.setdefault(label, []).append((i, axis, dim))
    one_row: tuple[int, int, Dim] | None = None
    for name, at in found.items():
        size = _free_one(freeing, [d for _, _, d in at])
        if size is None or len(at) == 1:
            continue
        was = freeing.old(size)
        for i, axis, dim in at:
            if dim is ONE and not links.broadcasts:
                one_row = one_row or (i, axis, size)
                continue
            if dim.terms or dim.const != was or dim is size:
                continue
            rows = _rows_of(freeing, links, node, labels_at=name)
            if rows is not None and rows * dim is size:
                return _repeat(freeing, node, i, axis, rows)
            if dim is ONE:
                continue
            sizes = _sizes_of(freeing, node, found, i)
            made = regrown(freeing, node, i, sizes, broadcasts=links.broadcasts)
            if made is not None:
                return made
            if not _is_settled(freeing, size, dim):
                raise Refused(_table(freeing, node, i, axis, size), node=node.label, term=f"{size} == {was}")
    if one_row is not None:  # after what is stored: that says its own places while it is
        return _spread(freeing, node, *one_row)
    return _open(freeing, node, links, found)


def _open(freeing: Freeing, node: Node, links: Links, found: Stands) -> Node | None:
    """A stored operand that alone has an axis of a size that may have followed a symbol."""
    if not links.broadcasts:
        return None
    alone: dict[int, list[int]] = {}
    for at in found.values():
        wide = [(i, axis, dim) for i, axis, dim in at if dim is not ONE]
        if len(wide) == 1 and len(at) > 1:
            ((i, axis, dim),) = wide
            if dim.value in freeing.seen and dim.const >= _LEAST and freeing.is_stored(node.inputs[i]):
                alone.setdefault(i, []).append(axis)
    for i, axes in alone.items():
        changed = opened(freeing, node, i, axes)
        if changed is not None:
            return changed
    return None


def _table(freeing: Freeing, node: Node, i: int, axis: int, size: Dim) -> str:
    name = node.inputs[i]
    what = "constant" if freeing.is_stored(name) else "tensor"
    return (
        f"{node.label} ({node.op_type}) joins the {what} {name}, which has {freeing.old(size)} entries along axis {axis}, "
        f"with an axis of size {size}: there are no entries for other sizes"
    )


def _free_one(freeing: Freeing, sizes: Iterable[Dim]) -> Dim | None:
    """One of them that follows a symbol; rather one of which it is not open what it follows."""
    free = [d for d in sizes if freeing.is_free(d)]
    return next((d for d in free if d.free <= {*freeing.symbols}), free[0] if free else None)


def _is_settled(freeing: Freeing, size: Dim, number: Dim) -> bool:
    """Does a size of which it was open what it follows turn out to be a number?"""
    if not size.free.isdisjoint(freeing.symbols):
        return False
    freeing.walk.given(eq(size, number))
    return freeing.facts.dim(size) is number


def _sizes_of(freeing: Freeing, node: Node, found: Stands, i: int) -> dict[int, Seq[Dim]]:
    """For each axis of operand `i` that should follow the size that others have with its label, the factors of that."""
    sizes: dict[int, Seq[Dim]] = {}
    for at in found.values():
        free = _free_one(freeing, [d for _, _, d in at])
        for j, axis, dim in at:
            if j == i and free is not None and dim is not ONE and dim.value == freeing.old(free):
                holder, k = next((h, k) for h, k, d in at if d is free)
                layout = freeing.provenance.of(node.inputs[holder]).layout
                factors = [freeing.facts.dim(f) for f in layout[k]] if layout is not None else []
                sizes[axis] = factors if product(factors) is free else [free]
    return sizes


def _rows_of(freeing: Freeing, links: Links, node: Node, labels_at: Hashable) -> Dim | None:
    """The rows that are the outermost factor of an axis with others inside, when they were one row."""
    for i, labels in enumerate(links.inputs):
        layout = freeing.provenance.of(node.inputs[i]).layout if labels else None
        for label, factors in zip(labels or (), layout or (), strict=False):
            if (
                label == labels_at
                and len(factors) > 1
                and freeing.is_free(factors[0])
                and freeing.old(factors[0]) == 1
            ):
                return factors[0]
    return None


def _spread(freeing: Freeing, node: Node, i: int, axis: int, size: Dim) -> Node:
    """Operand `i` is repeated along an axis on which it has one element."""
    name = node.inputs[i]
    rank = len(freeing.shape(name) or ())
    target = freeing.vector([size if k == axis else ONE for k in range(rank)], f"{name}_spread")
    return freeing.with_input(node, i, freeing.insert("Expand", [name, target], name))


def _repeat(freeing: Freeing, node: Node, i: int, axis: int, times: Dim) -> Node:
    """Operand `i` is said again for every row along an axis whose outermost factor is rows."""
    name = node.inputs[i]
    rank = len(freeing.shape(name) or ())
    repeats = freeing.vector([times if k == axis else ONE for k in range(rank)], f"{name}_repeats")
    return freeing.with_input(node, i, freeing.insert("Tile", [name, repeats], name))


__all__ = ["fit"]
