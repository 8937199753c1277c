"""What may hold a size that is no number of rows without any shape that shows it: such a model is refused."""

from __future__ import annotations

from ..model import Node
from .free_walk import Freeing
from .refused import Refused

#: numbers below are more often something else
_TELLING = 4
#: operators in which a number of elements may take part as a value
_COUNTING = frozenset(
    ("Add", "Div", "Equal", "Greater", "Less", "Max", "Min", "Mod", "Mul", "Pow", "Sub", "Where")
)


def check_suspects(freeing: Freeing, node: Node) -> None:
    """What may hold a size that no shape shows."""
    follows = [
        d
        for name in (*node.inputs, *node.captures)
        if name
        for d in freeing.shape(name) or ()
        if freeing.is_other(d)
    ]
    if node.subgraphs and follows:
        raise Refused(
            f"the graphs inside {node.label} ({node.op_type}) may hold the size {follows[0]}", node=node.label
        )
    pads = node.attributes.get("pads") or ()
    if follows and any(a != b for a, b in zip(pads, pads[len(pads) // 2 :], strict=False)):
        raise Refused(
            f"{node.label} ({node.op_type}) pads unevenly, by amounts that may have followed {follows[0]}",
            node=node.label,
        )
    others = {
        was for name, was in freeing.baked.items() if name in freeing.symbols and name not in freeing.rows
    }
    for name in node.inputs:
        stored = freeing.stored(name) if name else None
        array = None if stored is None or stored.numel != 1 else stored.array(1)
        if array is None or array.dtype.kind not in "iuf":
            continue
        value = float(array.reshape(-1)[0])
        held = next((n for n in others if n >= _TELLING and _says(node, array.dtype.kind, value, n)), None)
        if held is not None:
            raise Refused(
                f"{node.label} ({node.op_type}) computes with {value:g}, which may be the size that was {held}",
                node=node.label,
            )


def _says(node: Node, kind: str, value: float, size: int) -> bool:
    """May a stored number stand for a size: as a whole number anywhere, as a float where something is divided by it?"""
    if kind != "f":
        return value == size and (bool(node.domain) or node.op_type in _COUNTING)
    inverse = node.op_type == "Mul" and value != 0 and abs(1 / value - size) < size * 1e-6
    return not node.domain and (inverse or (node.op_type == "Div" and value == size))


def pad(freeing: Freeing, node: Node) -> Node:
    """Amounts that are an input may have been computed from the size: to a multiple of a window, or to that of the output."""
    shape = freeing.shape(node.inputs[0])
    if len(node.inputs) < 2 or shape is None or not freeing.is_stored(node.inputs[1]):
        return node
    amounts = freeing.numbers(node.inputs[1]) or []
    rows_first = len(amounts) == 2 * len(shape) > 4 and not amounts[0] and not amounts[len(shape)]
    follows = [d for k, d in enumerate(shape) if freeing.is_other(d) and (k or not rows_first)]
    if follows:
        raise Refused(
            f"{node.label} (Pad) pads an axis of size {follows[0]} by a stored amount, which may have followed that size",
            node=node.label,
        )
    return node


def joined(freeing: Freeing, node: Node) -> Node:
    """A cache: an input that new entries are appended to says how many came before, which positions depend on."""
    axis = int(node.attributes.get("axis", 0))
    for name in node.inputs:
        shape = freeing.shape(name)
        if name in freeing.given and shape and len(node.inputs) > 1 and freeing.is_other(shape[axis]):
            raise Refused(
                f"{node.label} (Concat) appends to {name}, whose number of entries {shape[axis]} positions may depend on: "
                "nothing shows where they were baked in",
                node=node.label,
            )
    return node
