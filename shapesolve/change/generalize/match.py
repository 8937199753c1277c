"""Pairs the nodes of fixed exports of one model, along the data flow. Differences become a list of places.

Names may differ, and so may the order of nodes that do not depend on each other. Stored tensors are compared by content, and
by use: exporters store equal ones once, and which are equal depends on the size.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from ...lower.limits import MAX_UNKNOWN
from ...model import Constant, Graph, Model, Node
from ..draft import DraftGraph, DraftNode
from ..refused import Refused

_INTEGERS = (TensorProto.INT32, TensorProto.INT64)
#: attributes of a Constant node that hold numbers themselves, with their types
_NUMBERS = {
    "value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoredOperand:
    """A stored operand of a node, with its data in each export.

    Attributes:
        graph: the graph of the first export that it is in.
        node: the node.
        index: which operand.
        stored: what each export stores there.
        nodes: the node in each export.
    """

    graph: DraftGraph
    node: DraftNode
    index: int
    stored: tuple[Constant, ...]
    nodes: Seq[Node]


@dataclass(slots=True)
class Matched:
    """Result of matching exports: the stored operands that differ. Everything else is the same."""

    places: list[StoredOperand] = field(default_factory=list)
    #: few integers that are the same in all exports
    same: list[StoredOperand] = field(default_factory=list)
    #: the nodes of the main graph, in each export
    nodes: list[Seq[Node]] = field(default_factory=list)


class _Scope:
    """Maps the first export's tensors and stored data to their names in another export."""

    def __init__(self, graph: Graph, around: _Scope | None) -> None:
        self.around, self.names = around, dict[str, str]()
        self.given = [name for name, _ in graph.inputs if name not in graph.initializers]
        made = {node: constant_of(node) for node in graph.nodes}
        self.stored = {**graph.initializers, **{n.outputs[0]: c for n, c in made.items() if c is not None}}
        self.nodes = [node for node, value in made.items() if value is None]

    def look(self, name: str) -> str | Constant | None:
        """The tensor of the first export with this name, or the stored data. None if it is not matched yet."""
        found = self.names.get(name) or self.stored.get(name)
        return found if found is not None or self.around is None else self.around.look(name)


def constant_of(node: Node) -> Constant | None:
    """The tensor of a Constant node: `value`, or a numeric attribute. None for any other node or attribute."""
    if not node.is_constant:
        return None
    for name, value in node.attributes.items():
        if isinstance(value, Constant):
            return value
        if name in _NUMBERS:
            return Constant(numpy_helper.from_array(np.array(value, _NUMBERS[name])), None, node.label)
    return None


def match(models: Seq[Model], draft: DraftGraph, names: Seq[str]) -> Matched:
    """Matches the nodes of the exports and returns the stored operands that differ.

    Args:
        models: the exports.
        draft: the main graph of the first, to be edited.
        names: Display names of the exports, for messages.

    Raises:
        Refused: their structure differs; the message has the first node.
    """
    graphs = [m.graph for m in models]
    for model, name in zip(models[1:], names[1:], strict=True):
        if {k: v for k, v in model.opsets.items() if v} != dict(models[0].opsets):
            raise Refused(f"{name} is of another opset than {names[0]}")
        if len(model.graph.outputs) != len(graphs[0].outputs):
            raise Refused(
                f"{name} has {len(model.graph.outputs)} outputs, {names[0]} has {len(graphs[0].outputs)}"
            )
    return _Match(names).of(graphs, [None] * len(graphs), draft)


class _Match:
    """One comparison of several exports.

    Args:
        names: Display names of the exports.
    """

    def __init__(self, names: Seq[str]) -> None:
        self.names, self.found = names, Matched()

    def of(self, graphs: Seq[Graph], around: Seq[_Scope | None], draft: DraftGraph) -> Matched:
        """Matches one graph of each export; raises `Refused` for a node without a counterpart."""
        scopes = [_Scope(g, outer) for g, outer in zip(graphs, around, strict=True)]
        first = scopes[0]
        for scope in scopes:
            same = scope.given == first.given or set(scope.given) == set(first.given)
            scope.names.update(zip(scope.given, scope.given if same else first.given, strict=True))
        first.names.update((o, o) for n in first.nodes for o in n.outputs if o)
        drafted = {n.origin: n for n in draft.nodes}
        queues = [_Ready(scope) for scope in scopes[1:]]
        for node in first.nodes:
            key = _key(node, first)
            others = [queue.take(key, node, first) for queue in queues]
            group = [node, *[other for other in others if other is not None]]
            if len(group) < len(graphs):
                name = self.names[1 + others.index(None)]
                raise Refused(
                    f"{node.label} ({node.op_type}) of {self.names[0]} has no counterpart in {name}: the exports are not "
                    "the same graph at two sizes",
                    node=node.label,
                )
            self._nodes(group, scopes, draft, drafted[node])
            for other, queue in zip(group[1:], queues, strict=True):
                queue.made(other, node)
        for queue, name in zip(queues, self.names[1:], strict=True):
            left = queue.left()
            if left is not None:
                what = f"{left.label} ({left.op_type}) of {name} has no counterpart in {self.names[0]}"
                raise Refused(what, node=left.label)
        for ends in zip(*[[n for n, _ in g.outputs] for g in graphs], strict=True):
            meant = [scope.look(n) for scope, n in zip(scopes, ends, strict=True)]
            stored = [m for m in meant if isinstance(m, Constant)]
            if len(stored) == len(meant) and not all(equal(stored[0], s) for s in stored[1:]):
                raise Refused(f"output {ends[0]} is stored, and differs in the exports")
            if len(stored) < len(meant) and any(m != meant[0] for m in meant):
                raise Refused(f"output {ends[0]} is made by another node in {self.names[1]}", node=ends[0])
        return self.found

    def _nodes(self, group: Seq[Node], scopes: Seq[_Scope], draft: DraftGraph, node: DraftNode) -> None:
        for i, operands in enumerate(zip(*[n.inputs for n in group], strict=True)):
            stored = [scope.look(name) for scope, name in zip(scopes, operands, strict=True) if name]
            tensors = tuple(s for s in stored if isinstance(s, Constant))
            if tensors and not all(equal(tensors[0], s) for s in tensors[1:]):
                self.found.places.append(StoredOperand(draft, node, i, tensors, group))
            elif tensors and tensors[0].dtype in _INTEGERS and tensors[0].numel <= MAX_UNKNOWN:
                self.found.same.append(StoredOperand(draft, node, i, tensors, group))
        if draft.parent is None:
            self.found.nodes.append(group)
        graphs = [dict(n.subgraphs) for n in group]
        what = f"{node.label} ({node.op_type})"
        for name in graphs[0]:
            bodies = [inside[name] for inside in graphs if name in inside]
            if len({len(b.inputs) for b in bodies}) != 1 or len(bodies) != len(group):
                raise Refused(f"{what} has other graphs inside in {self.names[1]}", node=node.label)
            self.of(bodies, scopes, node.graphs[name])
        for name in dict.fromkeys(k for n in group for k in n.attributes):
            values = [n.attributes.get(name) for n in group]
            if (
                name not in graphs[0]
                and f"{name}[0]" not in graphs[0]
                and not all(_same(values[0], v) for v in values)
            ):
                shown = " and ".join(map(str, values))
                raise Refused(
                    f"{what} has the attribute {name} {shown} in the exports: no attribute can follow a size",
                    node=node.label,
                )


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Constant) and isinstance(b, Constant):
        return equal(a, b)
    return type(a) is type(b) and bool(a == b or (a != a and b != b))


def _key(node: Node, scope: _Scope) -> tuple[Any, ...] | None:
    """Matching key: operator and tensors read; any stored tensor matches any other. None if one is not matched yet."""
    meant = [scope.look(name) if name else "" for name in (*node.inputs, *node.captures)]
    if None in meant:
        return None
    reads = [None if isinstance(m, Constant) else m for m in meant]
    count, kinds = len(node.inputs), tuple(sorted(name for name, _ in node.subgraphs))
    taken = tuple(sorted(filter(None, reads[count:])))
    present = tuple(map(bool, node.outputs))
    return (node.domain, node.op_type, node.overload, tuple(reads[:count]), taken, kinds, present)


class _Ready:
    """Unmatched nodes of another export whose inputs are all matched, by matching key."""

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
        """Removes and returns the node that matches `node` best; None if none does.

        Among several, the one with most stored operands and attributes in common.
        """
        found = self._ready.get(key, []) if key is not None else []
        best = (
            max(found, key=lambda other: _alike(node, first, other, self.scope)) if len(found) > 1 else None
        )
        return found.pop(0 if best is None else found.index(best)) if found else None

    def made(self, node: Node, first: Node) -> None:
        """Records the outputs of a matched pair; nodes that read these may become ready."""
        for name, meant in zip(node.outputs, first.outputs, strict=True):
            if name:
                self.scope.names[name] = meant
                for other in self._waiting.pop(name, ()):
                    self._offer(other)

    def left(self) -> Node | None:
        """Some unmatched node; None when all are matched."""
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
    """True if two tensors have equal bytes or lie at one position of one file.

    Raises `Refused` if the data cannot be read.
    """
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
    """The data of a stored tensor; raises `Refused` if it is missing or too large."""
    found = stored.array(stored.numel)
    if found is None or stored.dtype == TensorProto.STRING:
        raise Refused(f"the data of {stored.name} cannot be read")
    return found
