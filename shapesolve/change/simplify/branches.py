"""Replaces an If of known condition by the nodes of the branch that runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import onnx

from ..draft import DraftGraph, DraftNode
from .knowledge import Knowledge


def inlined(node: DraftNode, known: Knowledge, inner: Mapping[int, Knowledge]) -> list[DraftNode] | None:
    """The nodes of the branch that runs, rewritten to replace the If in the graph around it. None if it is unknown.

    Names that are in use elsewhere are changed, the branch's own weights move along.
    """
    if not node.is_standard("If") or node.origin is None:
        return None
    truth = known.array(node.inputs[0])
    if truth is None or truth.dtype.kind != "b" or truth.size != 1:
        return None
    attribute = "then_branch" if truth.reshape(-1)[0] else "else_branch"
    branch = node.graphs.get(attribute)
    if branch is None or len(branch.outputs) != len(node.outputs):
        return None
    proto = next(a.g for a in node.origin.proto.attribute if a.name == attribute)
    if proto.sparse_initializer:
        return None
    return _moved(node, branch, proto, known, inner)


def _moved(
    node: DraftNode,
    branch: DraftGraph,
    proto: onnx.GraphProto,
    known: Knowledge,
    inner: Mapping[int, Knowledge],
) -> list[DraftNode]:
    around, inside = known.graph, inner[id(branch)]
    made = [name for n in branch.nodes for name in n.outputs if name]
    uses = _uses(around)
    names: dict[str, str] = {}
    for end, output in zip(branch.outputs, node.outputs, strict=True):
        if end in made and end not in names and output:
            names[end] = output
    for name in (*made, *sorted(branch.given), *branch.added):
        if name not in names:
            names[name] = around.draft.fresh(name) if uses[name] > 1 else name
        known.moved(names[name], inside, name)
    around.take_weights(branch, proto, names)
    for n in branch.nodes:
        for graph in n.graphs.values():
            graph.parent = around
            for old, new in names.items():
                if old != new:
                    graph.rename(old, new)
        n.inputs = [names.get(name, name) for name in n.inputs]
        n.outputs = [names.get(name, name) for name in n.outputs]
    ends = [
        DraftNode("Identity", [names.get(end, end)], [output], name=around.draft.fresh_node(output))
        for end, output in zip(branch.outputs, node.outputs, strict=True)
        if output and names.get(end, end) != output
    ]
    return [*branch.nodes, *ends]


def _uses(graph: DraftGraph) -> Counter[str]:
    """For each name, the number of graphs and nodes in the whole model that define it."""
    draft = graph.draft
    found: Counter[str] = Counter()
    for body in (draft.graph, *draft.functions.values()):
        for inner in body.graphs():
            found.update(inner.given)
            found.update(inner.added.keys())
            found.update(inner.weights.keys())
            for node in inner.nodes:
                found.update(node.outputs)
    return found
