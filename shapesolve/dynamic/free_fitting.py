"""Operands that no longer fit: one row where others have many, or a baked size along a symbolic axis."""

from __future__ import annotations

from collections.abc import Hashable

from ..change.refused import Refused
from ..expr import ONE, Dim
from ..lower.axes import Links
from ..model import Node
from .free_state import Freeing
from .free_suspects import SECOND_EXPORT


def fit(freeing: Freeing, node: Node) -> Node:
    """Operands of size 1, or of the baked size, along an axis that others follow a symbol on."""
    for _ in range(3 * len(node.inputs) + 1):
        links = freeing.provenance.links(node)
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
        size = next((d for _, _, d in at if freeing.is_free(d)), None)
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
            raise Refused(_table(freeing, node, i, axis, size), node=node.label, term=f"{size} == {was}")
    return None if one_row is None else _spread(freeing, node, *one_row)


def _table(freeing: Freeing, node: Node, i: int, axis: int, size: Dim) -> str:
    name = node.inputs[i]
    what = "constant" if freeing.is_stored(name) else "tensor"
    return (
        f"{node.label} ({node.op_type}) joins the {what} {name}, which has {freeing.old(size)} entries along axis {axis}, "
        f"with an axis of size {size}: there are no entries for other sizes. {SECOND_EXPORT}"
    )


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
    """Tiles operand `i` for every row along an axis whose outermost factor is rows."""
    name = node.inputs[i]
    rank = len(freeing.shape(name) or ())
    repeats = freeing.vector([times if k == axis else ONE for k in range(rank)], f"{name}_repeats")
    return freeing.with_input(node, i, freeing.insert("Tile", [name, repeats], name))


__all__ = ["fit"]
