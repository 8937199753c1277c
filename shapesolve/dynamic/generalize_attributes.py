"""Attributes that differ: padding becomes a Pad node, a pool over all places a global one; no other can follow a size.

Also what is the same in all exports by chance: a constant that is a part of a size in each of them, or padding that fills up
to a multiple. From such exports nothing can be told of other sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Seq
from math import gcd

import numpy as np

from ..analysis import Analysis
from ..change.draft import DraftGraph, DraftNode
from ..change.refused import Refused
from ..expr import ZERO, Dim
from ..lower.reads import AXES, NEW_AXES, PADS
from ..lower.rule import Reading
from ..model import Node
from .generalize_match import Differing, Same
from .generalize_program import Builder

#: what a window may be padded with by a node of its own: zeros, or numbers below all others
_PADDED = {"Conv": 0.0, "MaxPool": -np.inf}
_GLOBAL = {"AveragePool": "GlobalAveragePool", "MaxPool": "GlobalMaxPool"}
#: opset since which Pad is told amounts by an operand
_PAD_OPERAND = 11
#: axes before those that windows go along
_BEFORE = 2


def padding(differing: Differing, dim: Callable[[Seq[int], str], Dim], opset: int) -> list[Dim] | None:
    """The amounts that a Pad node before a convolution or pool takes; None where the attribute is no such padding."""
    node = differing.node
    if node.domain or node.op_type not in _PADDED or differing.name != "pads" or opset < _PAD_OPERAND:
        return None
    amounts = [
        dim(seen, f"padding {k} of {node.label}")
        for k, seen in enumerate(zip(*differing.values, strict=True))
    ]
    half = len(amounts) // 2
    none = [ZERO] * _BEFORE
    return [*none, *amounts[:half], *none, *amounts[half:]]


def write_padding(graph: DraftGraph, node: DraftNode, amounts: Seq[Dim], b: Builder) -> None:
    """Put a Pad node before a node, which pads by nothing itself from now on."""
    operands = [node.inputs[0], b.vector(amounts)]
    fill = _PADDED[node.op_type]
    if fill:
        operands.append(b.constant(np.array(fill, np.float32)))
    pad = graph.new_node("Pad", operands, f"{node.name}_padded")
    node.inputs[0] = pad.outputs[0]
    node.own["pads"] = [0] * (len(amounts) - 2 * _BEFORE)
    at = graph.nodes.index(node)
    graph.nodes = [*graph.nodes[:at], pad, *graph.nodes[at:]]


def whole_pool(found: Seq[Differing], fixed: Seq[Analysis]) -> str | None:
    """The global operator that a pool over all places is, where it goes over all of them in every export."""
    node = found[0].node
    values = {d.name: d.values for d in found}
    pads = node.attribute("pads") or ()
    if node.op_type not in _GLOBAL or not {*values} <= {"kernel_shape", "strides"} or any(pads):
        return None
    for kernel, analysis, name in zip(values.get("kernel_shape", ()), fixed, found[0].reads, strict=True):
        shape = analysis.shapes.get(name)
        if shape is None or [d.value for d in shape[_BEFORE:]] != [*kernel]:
            return None
    return _GLOBAL[node.op_type]


def check_same(
    same: Seq[Same], parts: Mapping[int, str], reading: Callable[[str, int], Reading | None]
) -> None:
    """Raises `Refused` if a number that is the same in all exports may follow a size all the same.

    Args:
        same: operands that are the same.
        parts: numbers that are a part of a size in every export, and that part.
        reading: what the numbers of an operand are for, by operator and index.
    """
    for one in same:
        numbers = one.stored.array(one.stored.numel)
        if numbers is None or reading(one.op_type, one.index) in (AXES, NEW_AXES):
            continue
        held = next((abs(int(n)) for n in numbers.reshape(-1) if abs(int(n)) in parts), None)
        if held is not None:
            raise Refused(
                f"{one.label} ({one.op_type}) holds {held} in all exports, which is also {parts[held]} in all of them: "
                "an export at a size further away would settle what it is",
                node=one.label,
            )


def coincident_padding(
    nodes: Seq[Seq[Node]], fixed: Seq[Analysis], reading: Callable[[str, int], Reading | None]
) -> Iterator[tuple[Node, int, str]]:
    """Pads of one side by the same in all exports, of which the sizes have the same remainder: with the axis and a reason."""
    for group in nodes:
        node, adds = group[0], reading(group[0].op_type, 1) is PADS
        amounts, *others = [_amounts(n, a, adds) for n, a in zip(group, fixed, strict=True)]
        if not amounts or any(other != amounts for other in others):
            continue
        shapes = [a.shapes.get(n.inputs[0]) or () for n, a in zip(group, fixed, strict=True)]
        half = len(amounts) // 2
        for axis, before, after in zip(range(-half, 0), amounts[:half], amounts[half:], strict=True):
            sizes = [s[axis].value if len(s) >= half else None for s in shapes]
            step = 0 if None in sizes else gcd(*(int(n or 0) - int(sizes[0] or 0) for n in sizes))
            if step > abs(before - after) > 0:
                yield (
                    node,
                    axis,
                    f"{node.label} ({node.op_type}) pads by {before} and {after} in all exports, of which the sizes have the "
                    f"same remainder by {step}: an export with another remainder would show if that follows it",
                )


def _amounts(node: Node, analysis: Analysis, adds: bool) -> list[int] | None:
    """What a node pads its last axes by, before all of them, then after."""
    value = analysis.values.get(node.inputs[1]) if adds and len(node.inputs) > 1 else None
    elems = [] if value is None else [getattr(e, "value", None) for e in value.elems or ()]
    if None in elems:
        return None
    return [int(e or 0) for e in elems] or [int(n) for n in node.attributes.get("pads") or ()]


__all__ = ["check_same", "coincident_padding", "padding", "whole_pool", "write_padding"]
