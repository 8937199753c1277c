"""Matches fixed exports of one model node by node along the data flow. Differences become a list of places.

Names may differ, and so may the order of nodes that do not depend on each other. Stored tensors are compared by content, and
by use: exporters store equal ones once, and which are equal depends on the size.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from ..change.draft import DraftGraph, DraftNode
from ..change.refused import Refused
from ..model import Constant, Graph, Model, Node

_INTEGERS = (TensorProto.INT32, TensorProto.INT64)
#: max elements of an integer tensor that can hold sizes
_FEW = 16
#: attributes of a Constant node that hold numbers themselves, with their types
_NUMBERS = {
    "value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """A stored operand of a node (or a stored output of a graph) that differs between the exports.

    Attributes:
        graph: the graph of the first export that it is in.
        node: the node; None for an output of the graph.
        index: which operand, or which output.
        stored: what each export stores there.
        made: the first output of the node in each export.
        reads: the first input of the node in each export.
    """

    graph: DraftGraph
    node: DraftNode | None
    index: int
    stored: tuple[Constant, ...]
    made: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The operand in words."""
        if self.node is None:
            return f"output {self.graph.outputs[self.index]}"
        return f"{self.node.label} ({self.node.op_type})"


@dataclass(frozen=True, slots=True)
class Same:
    """Few integers that a node is given, the same in all exports."""

    label: str
    op_type: str
    index: int
    stored: Constant


@dataclass(slots=True)
class Matched:
    """Differences between the exports. Everything else is the same."""

    places: list[Place] = field(default_factory=list)
    same: list[Same] = field(default_factory=list)
    #: the nodes of the main graph, in each export
    nodes: list[Seq[Node]] = field(default_factory=list)


class _Scope:
    """Maps names of one export to tensors of the first export, or to stored data."""

    def __init__(self, graph: Graph | None, around: _Scope | None) -> None:
        self.around, self.names = around, dict[str, str]()
        self.stored: dict[str, Constant] = {} if graph is None else dict(graph.initializers)
        self.nodes: list[Node] = []
        for node in () if graph is None else graph.nodes:
            value = constant_of(node)
            if value is None:
                self.nodes.append(node)
            else:
                self.stored[node.outputs[0]] = value

    def look(self, name: str) -> str | Constant | None:
        """The tensor of the first export with this name, or the stored data. None if it is not known yet."""
        found = self.names.get(name) or self.stored.get(name)
        return found if found is not None or self.around is None else self.around.look(name)


def constant_of(node: Node) -> Constant | None:
    """The tensor that a Constant node stores; None for every other node, and for texts and sparse tensors."""
    if not node.is_constant:
        return None
    for name, value in node.attributes.items():
        if isinstance(value, Constant):
            return value
        if name in _NUMBERS:
            return Constant(numpy_helper.from_array(np.array(value, _NUMBERS[name])), None, node.label)
    return None


def match(models: Seq[Model], draft: DraftGraph, names: Seq[str]) -> Matched:
    """The places at which the exports differ.

    Args:
        models: the exports.
        draft: the main graph of the first, to be edited.
        names: what people call the exports, for messages.

    Raises:
        Refused: their structure differs; the message has the first node.
    """
    found = Matched()
    graphs = [m.graph for m in models]
    scopes = [_Scope(g, None) for g in graphs]
    for model, name in zip(models[1:], names[1:], strict=True):
        if {k: v for k, v in model.opsets.items() if v} != dict(models[0].opsets):
            raise Refused(f"{name} is of another opset than {names[0]}")
    inputs = [[n for n, _ in g.inputs if n not in g.initializers] for g in graphs]
    ends = [[n for n, _ in g.outputs] for g in graphs]
    for what, sides in (("inputs", inputs), ("outputs", ends)):
        for side, name in zip(sides, names, strict=True):
            if len(side) != len(sides[0]):
                raise Refused(f"{name} has {len(side)} {what}, {names[0]} has {len(sides[0])}")
    for side, scope in zip(inputs, scopes, strict=True):
        same = set(side) == set(inputs[0])
        scope.names.update((n, n) if same else (n, first) for n, first in zip(side, inputs[0], strict=True))
    _match_graphs(graphs, scopes, draft, names, found)
    return found


def _match_graphs(
    graphs: Seq[Graph], scopes: Seq[_Scope], draft: DraftGraph, names: Seq[str], found: Matched
) -> None:
    drafted = {n.origin: n for n in draft.nodes}
    first = scopes[0]
    first.names.update((o, o) for n in first.nodes for o in n.outputs if o)
    queues = [_Ready(scope) for scope in scopes[1:]]
    for node in first.nodes:
        key = _key(node, first)
        group = [node]
        for queue, name in zip(queues, names[1:], strict=True):
            other = queue.take(key, node, first)
            if other is None:
                raise Refused(
                    f"{node.label} ({node.op_type}) of {names[0]} has no counterpart in {name}: the exports are no two sizes "
                    "of one graph",
                    node=node.label,
                )
            group.append(other)
        _match_nodes(group, scopes, draft, drafted[node], names, found)
        for other, queue in zip(group[1:], queues, strict=True):
            queue.made(other, node)
    for queue, name in zip(queues, names[1:], strict=True):
        left = queue.left()
        if left is not None:
            raise Refused(
                f"{left.label} ({left.op_type}) of {name} has no counterpart in {names[0]}", node=left.label
            )
    for k, ends in enumerate(zip(*[[n for n, _ in g.outputs] for g in graphs], strict=True)):
        meant = [scope.look(n) for scope, n in zip(scopes, ends, strict=True)]
        stored = tuple(m for m in meant if isinstance(m, Constant))
        if len(stored) == len(meant):
            if not all(equal(stored[0], s) for s in stored[1:]):
                found.places.append(Place(draft, None, k, stored))
        elif any(m != meant[0] for m in meant):
            raise Refused(f"output {ends[0]} is made by another node in {names[1]}", node=ends[0])


def _match_nodes(
    group: Seq[Node], scopes: Seq[_Scope], draft: DraftGraph, node: DraftNode, names: Seq[str], found: Matched
) -> None:
    for i, operands in enumerate(zip(*[n.inputs for n in group], strict=True)):
        stored = tuple(scope.look(name) for scope, name in zip(scopes, operands, strict=True) if name)
        tensors = tuple(s for s in stored if isinstance(s, Constant))
        if tensors and not all(equal(tensors[0], s) for s in tensors[1:]):
            ends = tuple(n.outputs[0] for n in group), tuple(n.inputs[0] for n in group)
            found.places.append(Place(draft, node, i, tensors, *ends))
        elif tensors and tensors[0].dtype in _INTEGERS and tensors[0].numel <= _FEW:
            found.same.append(Same(node.label, node.op_type, i, tensors[0]))
    if draft.parent is None:
        found.nodes.append(group)
    graphs = [dict(n.subgraphs) for n in group]
    for name, inner in graphs[0].items():
        bodies = [inside[name] for inside in graphs if name in inside]
        if len(bodies) != len(group) or any(len(b.inputs) != len(inner.inputs) for b in bodies):
            raise Refused(
                f"{node.label} ({node.op_type}) has other graphs inside in {names[1]}", node=node.label
            )
        around = [_Scope(b, scope) for b, scope in zip(bodies, scopes, strict=True)]
        for body, scope in zip(bodies, around, strict=True):
            scope.names.update((n, f) for (n, _), (f, _) in zip(body.inputs, inner.inputs, strict=True))
        _match_graphs(bodies, around, node.graphs[name], names, found)
    for name in dict.fromkeys(k for n in group for k in n.attributes):
        if any(name in inside or f"{name}[0]" in inside for inside in graphs):
            continue
        values = tuple(n.attributes.get(name) for n in group)
        held = [v for v in values if isinstance(v, Constant)]
        if len(held) == len(values):
            if all(equal(held[0], v) for v in held[1:]):
                continue
        elif all(
            type(v) is type(values[0]) and (v == values[0] or (v != v and values[0] != values[0]))
            for v in values
        ):
            continue
        shown = " and ".join(map(str, values))
        raise Refused(
            f"{node.label} ({node.op_type}) has the attribute {name} {shown} in the exports: no attribute can follow a size",
            node=node.label,
        )


def _key(node: Node, scope: _Scope) -> tuple[Any, ...] | None:
    """Matching key of a node: the operator, and the tensors it reads. None if one is not known yet."""
    reads: list[str | None] = []
    for name in node.inputs:
        meant = scope.look(name) if name else ""
        if meant is None:
            return None
        reads.append(None if isinstance(meant, Constant) else meant)
    taken = []
    for name in node.captures:
        meant = scope.look(name)
        if meant is None:
            return None
        if not isinstance(meant, Constant):
            taken.append(meant)
    kinds = tuple(sorted(name for name, _ in node.subgraphs))
    present = tuple(bool(o) for o in node.outputs)
    return (node.domain, node.op_type, node.overload, tuple(reads), tuple(sorted(taken)), kinds, present)


class _Ready:
    """Nodes of another export with all operands known, by matching key."""

    def __init__(self, scope: _Scope) -> None:
        self.scope = scope
        self._ready: dict[tuple[Any, ...], list[Node]] = {}
        self._waiting: dict[str, list[Node]] = {}
        for node in scope.nodes:
            self._offer(node)

    def _offer(self, node: Node) -> None:
        key = _key(node, self.scope)
        if key is not None:
            self._ready.setdefault(key, []).append(node)
            return
        missing = next(n for n in (*node.inputs, *node.captures) if n and self.scope.look(n) is None)
        self._waiting.setdefault(missing, []).append(node)

    def take(self, key: tuple[Any, ...] | None, node: Node, first: _Scope) -> Node | None:
        """The counterpart of a node. Among several, the one with most stored operands and attributes in common."""
        found = self._ready.get(key, []) if key is not None else []
        if not found:
            return None
        best = (
            max(found, key=lambda other: _alike(node, first, other, self.scope))
            if len(found) > 1
            else found[0]
        )
        found.remove(best)
        return best

    def made(self, node: Node, first: Node) -> None:
        """Note the tensors of a matched node: nodes that waited for them may be ready."""
        for name, meant in zip(node.outputs, first.outputs, strict=True):
            if name:
                self.scope.names[name] = meant
                for other in self._waiting.pop(name, ()):
                    self._offer(other)

    def left(self) -> Node | None:
        """A node without a counterpart."""
        waiting = [n for nodes in (*self._ready.values(), *self._waiting.values()) for n in nodes]
        return min(waiting, key=lambda n: n.index, default=None)


def _alike(node: Node, scope: _Scope, other: Node, there: _Scope) -> int:
    count = 2 * (node.name == other.name) + (node.index == other.index)
    for a, b in zip(node.inputs, other.inputs, strict=True):
        x, y = scope.look(a), there.look(b)
        if isinstance(x, Constant) and isinstance(y, Constant):
            count += 8 * equal(x, y) + 4 * (x.dims == y.dims)
    return count + 4 * sum(bool(other.attributes.get(k) == v) for k, v in node.attributes.items())


def equal(a: Constant, b: Constant) -> bool:
    """True if two stored tensors are equal bit by bit. Missing external data is equal if its location is."""
    if a is b:
        return True
    if a.dtype != b.dtype or a.dims != b.dims:
        return False
    if a.is_same_data(b):
        return True
    x, y = a.array(a.numel), b.array(b.numel)
    if x is None or y is None:
        raise Refused(f"the data of {a.name} cannot be read, so it cannot be compared")
    return bool((x == y).all()) if x.dtype == object else x.tobytes() == y.tobytes()


def array_of(stored: Constant) -> np.ndarray[Any, Any]:
    """The data of a stored tensor; raises `Refused` where it is not to be had."""
    found = stored.array(stored.numel)
    if found is None or stored.dtype == TensorProto.STRING:
        raise Refused(f"the data of {stored.name} cannot be read")
    return found
