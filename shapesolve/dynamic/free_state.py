"""`Freeing`: the facts about a model with freed sizes, and the edits of its baked constants.

Each node is lowered with the sizes as symbols. After that, no symbol may have lost its freedom; where one has, the node is
the one that a baked size is in. `free_model` goes through the nodes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from ..change.draft import Draft, DraftNode
from ..change.refused import Refused
from ..expr import Dim, Shape, constant, ge, symbol
from ..lower.fixpoint import lower_model
from ..lower.records import Entry
from ..lower.request import Request
from ..lower.rule import Rule
from ..lower.types import Known, Tensor
from ..lower.values import MAX_ELEMENTS, Value
from ..model import Constant, Model, Node
from ..operators import with_built_in
from ..propagate.constraint import Site
from .free_reshape import Piece, pieces_of
from .free_sizes import Sizes
from .provenance_walk import Provenance

Array: TypeAlias = NDArray[Any]
#: a number of rows is at least this: a size of 1 is what baking leaves no trace of, and it broadcasts
_LEAST = 2
#: largest stored tensor that is looked into, in elements
LARGEST = 1 << 22
#: a size that a table bounds may become this many times as large as it was
_ROOM = 2


class Freeing:
    """One attempt at a model.

    Args:
        model: the model with its inputs relabelled.
        baked: the size of each symbol that was baked in.
        sites: the axis of an input where each symbol is read.
        rows: symbols whose rows are followed.
        choices: which candidate to take at a node, by label.
    """

    def __init__(
        self,
        model: Model,
        baked: Mapping[str, int],
        sites: Mapping[str, Site],
        rows: Seq[str],
        choices: Mapping[str, int],
    ) -> None:
        self.model, self.rows, self.choices = model, tuple(rows), choices
        self.draft = Draft(model)
        self.sizes = Sizes(self.draft, sites)
        self.baked = dict(baked)
        self.given = frozenset(name for name, _ in model.graph.inputs)
        self.symbols = tuple(baked)
        self._taken: dict[Hashable, int] = {}
        self.options: dict[str, int] = {}  # how many candidates there were, by label of the node
        self.nodes: list[DraftNode] = []
        #: old sizes of axes that follow a symbol which is no number of rows
        self.seen: set[int] = set()
        #: attributes of nodes that became another operator, by output
        self.own: dict[str, dict[str, int]] = {}
        empty = replace(model, graph=replace(model.graph, nodes=()))
        least = [ge(symbol(name), _LEAST if name in self.rows else 1) for name in self.symbols]
        request = Request(tuple(least), {}, "strict", with_built_in(None))
        lowered = lower_model(empty, request)
        self.walk, self.facts = lowered.walk, lowered.facts
        self.scope = self.walk.scope
        self.provenance = Provenance(self.rows, self.walk, self.known, self.is_told)
        for name in lowered.inputs:
            self.notice(name)

    # ------------------------------------------------------------------ what is known

    def known(self, name: str) -> Known | None:
        """The known facts about a tensor."""
        return self.walk.read(name, self.scope)

    def is_told(self, element: Any) -> bool:
        """True if an element is an expression of the freed sizes only."""
        return getattr(element, "free", frozenset(("",))) <= self.baked.keys()

    def shape(self, name: str) -> Shape | None:
        """Sizes of a tensor."""
        known = self.known(name)
        return known.shape if isinstance(known, Tensor) else None

    def numbers(self, name: str) -> list[int] | None:
        """Elements of an integer tensor, when all are known numbers."""
        known = self.known(name)
        elems = known.value.elems if isinstance(known, Tensor) and known.value is not None else None
        found = [e.const for e in elems or () if isinstance(e, Dim) and not e.terms]
        return found if elems is not None and len(found) == len(elems) else None

    def stored(self, name: str) -> Constant | None:
        """The constant of this name."""
        found = self.model.graph.initializers.get(name)
        if found is not None:
            return found
        made = self.producers.get(name)
        value = made.attributes.get("value") if made is not None and made.is_constant else None
        return value if isinstance(value, Constant) else None

    def is_stored(self, name: str) -> bool:
        """True if a tensor is stored in the model."""
        return self.stored(name) is not None

    def rule(self, node: Node) -> Rule | None:
        """The declared rule of a node's operator."""
        return self.walk.operators.rule(node, self.model.opsets)

    @property
    def producers(self) -> Mapping[str, Node]:
        """The node that makes each tensor, so far."""
        return {name: node for name, (node, _) in self.walk.state.producers.items()}

    def is_other(self, dim: Dim) -> bool:
        """True if the dim depends on a symbol that is no number of rows."""
        return any(name in self.baked and name not in self.rows for name in dim.free)

    def old(self, dim: Dim) -> int | None:
        """The size that was baked in."""
        return dim.evaluate(self.baked) if dim.terms else dim.const

    def is_free(self, dim: Dim) -> bool:
        """True if the dim depends on a freed symbol."""
        return not dim.free.isdisjoint(self.baked)

    def notice(self, name: str) -> None:
        """Remember the old sizes of a tensor's axes that follow other symbols than rows."""
        for dim in self.shape(name) or ():
            was = self.old(dim) if self.is_other(dim) else None
            if was is not None:
                self.seen.add(was)

    def pieces(self, name: str) -> list[Piece] | None:
        """The factors of a tensor with their baked sizes."""
        found = self.provenance.of(name).layout
        if found is None:
            return None
        layout = [[self.facts.dim(f) for f in factors] for factors in found]
        baked = [[self.old(f) for f in factors] for factors in layout]
        if any(size is None for sizes in baked for size in sizes):
            return None
        return list(pieces_of(layout, [[int(size or 0) for size in sizes] for sizes in baked]))

    # ------------------------------------------------------------------ what is changed

    def vector(self, dims: Seq[Dim], hint: str) -> str:
        """The name of a tensor with these sizes, computed at the start of the graph."""
        if all(not d.terms for d in dims):
            return self.number_vector([int(d) for d in dims], hint)
        name = self.sizes.vector(dims, hint)
        self._bind(name, (len(dims),), dims)
        return name

    def number_vector(self, numbers: Seq[int], hint: str) -> str:
        """The name of a constant vector."""
        name = self.draft.graph.constant(np.array(numbers, np.int64), hint)
        self._bind(name, (len(numbers),), [constant(n) for n in numbers])
        return name

    def bind(self, name: str, dtype: int, shape: Shape | None) -> None:
        """Say what a tensor is."""
        self.scope.env[name] = self.walk.interner.tensor(dtype, shape)

    def _bind(self, name: str, shape: tuple[int, ...], elems: Seq[Dim]) -> None:
        value = Value(shape, tuple(elems))
        self.scope.env[name] = self.walk.interner.tensor(TensorProto.INT64, Shape(shape), value)

    def choose(self, node: Node, count: int, like: Hashable) -> int:
        """Index of the candidate to use at a node. The default is that of the last node with the same question."""
        self.options[node.label] = max(count, self.options.get(node.label, 0))
        taken = (self._taken.get(like, 0) + self.choices.get(node.label, 0)) % count
        self._taken[like] = taken
        return taken

    def insert(self, op_type: str, inputs: Seq[str], hint: str, **attributes: int) -> str:
        """A new node before the one that is looked at; the name of its output."""
        made = self.draft.graph.new_node(op_type, inputs, hint, **attributes)
        self.nodes.append(made)
        node = _new_node(op_type, made.inputs, made.outputs, made.name, attributes)
        self.lower(node, node)
        return made.outputs[0]

    def with_input(self, node: Node, i: int, name: str) -> Node:
        """The node with another operand."""
        made = Node(
            node._protos, node.op_type, node.domain, node.overload, node.name,
            (*node.inputs[:i], name, *node.inputs[i + 1 :]), node.outputs, node.index, node._folder,
        )  # fmt: skip
        made.key, made.subgraphs = None, node.subgraphs
        return made

    def become(self, node: Node, op_type: str, inputs: Seq[str], **attributes: int) -> Node:
        """A node with another operator and its attributes that makes the same output."""
        self.own[node.outputs[0]] = attributes
        return _new_node(op_type, inputs, node.outputs, node.name, attributes)

    def new_constant(self, array: Array, hint: str) -> str:
        """The name of a constant of any type."""
        name = self.draft.graph.constant(array, hint)
        if name not in self.scope.env:
            whole = array.dtype == np.int64 and array.size <= MAX_ELEMENTS
            value = Value(array.shape, tuple(map(constant, array.reshape(-1).tolist()))) if whole else None
            self.scope.env[name] = self.walk.interner.tensor(_type_of(array), Shape(array.shape), value)
        return name

    # ------------------------------------------------------------------ lowering

    def lower(self, node: Node, original: Node) -> None:
        """Lower a node, and see what it asks of the symbols."""
        walk, facts = self.walk, self.facts
        clashes, log = len(walk.state.clashes), len(walk.state.log)
        walk.lower(node)
        if len(walk.state.clashes) > clashes:
            raise Refused(
                f"{original.label} ({original.op_type}) cannot run at other sizes: {walk.state.clashes[-1].message}. "
                "A size that it depends on was baked in, and nothing says how it follows",
                node=original.label,
            )
        for name in self.symbols:
            if self._is_held(name):
                now = facts.dim(symbol(name))
                why = next(
                    (e.why for e in reversed(walk.state.log[log:]) if e.role == "requirement"),
                    "a size is fixed",
                )
                raise Refused(
                    f"{original.label} ({original.op_type}) needs {name} = {now if not now.terms else self.baked[name]}: {why}",
                    node=original.label,
                    term=f"{name} == {self.baked[name]}",
                )
        for entry in walk.state.log[log:]:
            held = self._held_inside(entry)
            if held is not None:
                raise Refused(
                    f"{original.label} ({original.op_type}) needs {held} = {self.baked[held]} wherever its body runs: "
                    f"{entry.why}",
                    node=original.label,
                    term=f"{held} == {self.baked[held]}",
                )
        self.made(node)

    def _held_inside(self, entry: Entry) -> str | None:
        """The symbol that a data-dependent requirement fixes. Facts do not contain it."""
        if entry.role != "requirement" or entry.guard.is_true:
            return None
        for name in self.symbols:
            was = self.baked[name]
            others = {n: self.baked[n] for n in self.symbols if n != name}
            if all(entry.cond.subs({**others, name: n}).is_false for n in (was + 1, 2 * was, 2 * was + 1)):
                return name
        return None

    def made(self, node: Node) -> None:
        """A node was lowered: note what it makes."""
        self.provenance.visit(node)
        for name in node.outputs:
            if name:
                self.notice(name)

    def _is_held(self, name: str) -> bool:
        """True if a symbol is no longer free. Rows need any number, another size an open range above a lower bound."""
        own = symbol(name)
        now = self.facts.dim(own)
        lo, hi = self.facts.bounds(now)
        if name in self.rows:
            return now is not own or hi is not None or (lo is not None and lo > _LEAST)
        return not now.terms or (hi is not None and hi < _ROOM * self.baked[name])


def _new_node(
    op_type: str, inputs: Seq[str], outputs: Seq[str], name: str, attributes: Mapping[str, int]
) -> Node:
    proto = onnx.NodeProto(op_type=op_type, name=name, input=inputs, output=outputs)
    proto.attribute.extend([helper.make_attribute(key, value) for key, value in attributes.items()])
    return Node([proto], op_type, "", "", name, tuple(inputs), tuple(outputs), 0, None)


def _type_of(array: Array) -> int:
    return int(helper.np_dtype_to_tensor_dtype(array.dtype))
