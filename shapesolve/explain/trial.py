"""Changes at one node, tried: on the node alone, and on the whole model, lowered anew with them.

What advice proposes is said only where the node runs with it; what the change leaves broken elsewhere is said with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import onnx
from onnx import helper

from ..expr import Dim, Shape
from ..lazy import cached_property
from ..lower.fixpoint import lower_model
from ..lower.records import Clash, Entry
from ..lower.speculate import tried
from ..lower.types import Known, Tensor
from ..lower.values import Elem
from ..model import Constant, Model, Node
from ..propagate.constraint import Constraint

if TYPE_CHECKING:
    from ..lower.lowered import Lowered
    from ..lower.request import Request

#: nodes that are lowered anew to see what changes leave broken, all trials of an analysis together
MOST_LOWERED = 40_000
_AXES_ARE_AN_INPUT = 13  # of Unsqueeze, since this opset
#: sizes that a model takes if nothing in it is made for others
_SMALL = (1, 2, 3, 5, 8)


@dataclass(frozen=True)
class Change:
    """What is done to the inputs and attributes of one node, and to what is stored.

    Attributes:
        permuted: the order in which the node reads the axes of these tensors.
        widened: where the node reads one axis more, of size 1.
        stored: other shapes of stored tensors, for every node that reads them.
        exchanged: are its first two inputs?
        attributes: integers that replace those of the node.
        instead: elements of stored tensors, see `Request`.
    """

    permuted: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    widened: Mapping[str, int] = field(default_factory=dict)
    stored: Mapping[str, Shape] = field(default_factory=dict)
    exchanged: bool = False
    attributes: Mapping[str, int] = field(default_factory=dict)
    instead: Mapping[str, tuple[Elem, ...]] = field(default_factory=dict)

    def shapes(self, lowered: Lowered) -> dict[str, Shape]:
        """The shapes that the node gets to see."""
        found = dict(self.stored)
        for tensor, order in self.permuted.items():
            own = lowered.shapes[tensor]
            found[tensor] = Shape(own[i] for i in order)
        for tensor, axis in self.widened.items():
            own = lowered.shapes[tensor]
            found[tensor] = Shape((*own[:axis], Dim(1), *own[axis:]))
        return found


def runs_with(lowered: Lowered, entry: Entry, change: Change) -> bool:
    """Would the node that states `entry` run with this change of its inputs?

    It must ask nothing of the sizes then that it does not ask now. The elements of a tensor whose shape changes are not known.
    """
    walk, node = lowered.walk, entry.node
    if node is None or node.subgraphs:
        return False
    shapes = change.shapes(lowered)
    given: list[Known | None] = []
    for name in node.inputs:
        full = lowered.full_name(name, entry.prefix) if name else ""
        known = walk.tensors.get(full)
        if full in shapes and isinstance(known, Tensor):
            known = walk.interner.tensor(known.dtype, shapes[full])
        given.append(known)
    if change.exchanged:
        given[:2] = given[1::-1]
    known_by_name = {n: k for n, k in zip(node.inputs, given, strict=True) if k is not None}
    needs = tried(walk, node, known_by_name, entry.prefix)
    now = {e.cond for e in walk.log if e.node is node and e.prefix == entry.prefix and not e.cond.is_false}
    broken = entry.cond  # what is in conflict with it may have been stated first, so that it counts as true
    return needs is not None and all(c is not broken and (lowered.facts.decide(c) or c in now) for c in needs)


# ---------------------------------------------------------------------- the whole model


class Trials:
    """Lowers a model anew with changes, as often as its size allows."""

    def __init__(self, lowered: Lowered, request: Request) -> None:
        self.lowered, self.request = lowered, request
        self._left = MOST_LOWERED
        self._known = {_place(c, lowered) for c in lowered.walk.clashes}
        self._asked = {e.cond for e in lowered.walk.log}

    def broken_after(self, node: Node, change: Change) -> tuple[Lowered, list[Clash]] | None:
        """The changed model, and what cannot run in it at this node, or where it could before; None: it was not tried."""
        model = self.lowered.model
        self._left -= len(model.graph.nodes)
        if self._left < 0:
            return None
        changed = model if change.instead else changed_model(model, node, change)
        if changed is None:
            return None
        after = lower_model(changed, self.request._replace(instead=change.instead))
        label = node.label
        new = [
            c
            for c in after.walk.clashes
            if (place := _place(c, after)) not in self._known or place[0] == label
        ]
        return after, new

    def granted_behind(self, clash: Clash) -> tuple[Constraint, ...]:
        """What the `broadcast` mode took for granted, if this can run without it."""
        granted = self.lowered.constraints.role("assumption")
        if not granted or not self.request.granted or _place(clash, self.lowered) in self._certain:
            return ()
        return tuple(granted)

    @cached_property
    def _certain(self) -> set[tuple[str, str]]:
        """Where the model cannot run, with nothing taken for granted."""
        bare = lower_model(self.lowered.model, self.request._replace(granted=False))
        return {_place(c, bare) for c in bare.walk.clashes}

    def asked_after(self, after: Lowered) -> list[Entry]:
        """What nodes of the changed model need that none of the model as it is does, and that small sizes break."""
        needs = (e for e in after.walk.log if e.role == "requirement" and e.node is not None)
        own = self.lowered.symbols.keys() | self.lowered.walk.made.keys()  # no number that may be any
        new = (e for e in needs if e.cond.free and e.guard.is_true and e.cond not in self._asked)
        new = (e for e in new if e.cond.free <= own)
        return [
            e for e in new if any(e.cond.evaluate(dict.fromkeys(e.cond.free, n)) is False for n in _SMALL)
        ]


def _place(clash: Clash, lowered: Lowered) -> tuple[str, str]:
    """Where something cannot run, and what is wrong there: the same before and after a change elsewhere."""
    label = clash.node.label if clash.node is not None else ""
    why = clash.message if clash.entry is None else lowered.walk.log[clash.entry].why
    return f"{clash.prefix}{label}", str(why)


def changed_model(model: Model, node: Node, change: Change) -> Model | None:
    """The model with this change at a node of its main graph; None where the node is inside of another."""
    graph = model.graph
    if node not in graph.nodes or not change.stored.keys() <= graph.initializers.keys():
        return None
    taken = {name for n in graph.nodes for name in (*n.inputs, *n.outputs)} | graph.initializers.keys()
    stored = dict(graph.initializers)
    for name, shape in change.stored.items():
        stored[name] = _constant(stored[name].dtype, [d.const for d in shape], name)
    made: list[onnx.NodeProto] = []
    renamed: dict[str, str] = {}
    for tensor in (*change.permuted, *change.widened):
        result = f"{tensor}_changed"
        while result in taken or f"{result}_axes" in taken:
            result += "_"
        taken.add(result)
        renamed[tensor] = result
        made += _reader(tensor, result, change, model.opsets.get("", 1))
    made.append(_changed_node(node, change, renamed))
    at = graph.nodes.index(node)
    nodes = (*graph.nodes[:at], *map(_node, made), *graph.nodes[at + 1 :])
    return replace(model, graph=replace(graph, nodes=nodes, initializers=stored))


def _reader(tensor: str, result: str, change: Change, opset: int) -> list[onnx.NodeProto]:
    """Nodes between a tensor and the node that is to read it in another shape."""
    if tensor in change.permuted:
        return [helper.make_node("Transpose", [tensor], [result], perm=change.permuted[tensor])]
    axes = [change.widened[tensor]]
    if opset < _AXES_ARE_AN_INPUT:
        return [helper.make_node("Unsqueeze", [tensor], [result], axes=axes)]
    named = f"{result}_axes"
    constant = helper.make_node("Constant", [], [named], value_ints=axes)
    return [constant, helper.make_node("Unsqueeze", [tensor, named], [result])]


def _changed_node(node: Node, change: Change, renamed: Mapping[str, str]) -> onnx.NodeProto:
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    inputs = [renamed.get(name, name) for name in proto.input]
    if change.exchanged:
        inputs[:2] = inputs[1::-1]
    proto.input[:] = inputs
    kept = [a for a in node.proto.attribute if a.name not in change.attributes]
    del proto.attribute[:]
    proto.attribute.extend([*kept, *(helper.make_attribute(k, v) for k, v in change.attributes.items())])
    return proto


def _node(proto: onnx.NodeProto) -> Node:
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    names = tuple(proto.input), tuple(proto.output)
    return Node([proto], proto.op_type, domain, proto.overload, proto.name, *names, 0, None)


def _constant(dtype: int, dims: list[int], name: str) -> Constant:
    """A stored tensor of which only type and shape are known."""
    return Constant(onnx.TensorProto(data_type=dtype, dims=dims, name=name), None)
