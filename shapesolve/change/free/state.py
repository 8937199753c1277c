"""`Freeing`: one attempt to free sizes in a graph: the facts so far, and the edits made.

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

from ...expr import Dim, Shape, constant, ge, symbol
from ...lower.fixpoint import lower_model
from ...lower.limits import MAX_ELEMENTS
from ...lower.request import Request
from ...lower.rule import Rule
from ...lower.types import Known, Tensor
from ...lower.values import Value
from ...model import Model, Node
from ...operators import with_built_in
from ..draft import Draft, DraftNode
from ..generalize.match import constant_of
from ..limits import MAX_STORED
from ..provenance.walk import Provenance
from ..refused import Refused
from ..request import DynamicRequest
from ..size_nodes import AxisFactor, SizeNodes, pieces_of

Array: TypeAlias = NDArray[Any]


class Freeing:
    """One attempt to make sizes in a graph dynamic.

    Args:
        model: The model with its inputs relabelled.
        request: The axes to make dynamic.
        choices: Index of the candidate to take at a node, by label.
    """

    def __init__(self, model: Model, request: DynamicRequest, choices: Mapping[str, int]) -> None:
        self.model, self.request, self.choices = model, request, choices
        self.rows, self.baked = request.rows, request.baked
        self.draft = Draft(model)
        self.sizes = SizeNodes(self.draft, request.sites)
        self._taken: dict[Hashable, int] = {}
        self.options: dict[str, int] = {}  # how many candidates there were, by label of the node
        self.nodes: list[DraftNode] = []
        #: old sizes of axes that depend on a symbol other than a batch size
        self.seen: set[int] = set()
        #: attributes of nodes that became another operator, by output
        self.own: dict[str, dict[str, int]] = {}
        made = ((node.outputs[0], constant_of(node)) for node in model.graph.nodes if node.is_constant)
        #: the constants by name
        self.stored = {
            **model.graph.initializers,
            **{name: found for name, found in made if found is not None},
        }
        empty = replace(model, graph=replace(model.graph, nodes=()))
        # a size of 1 broadcasts, and baking leaves no trace of it
        least = tuple(ge(symbol(name), 2 if name in self.rows else 1) for name in self.baked)
        lowered = lower_model(empty, Request(least, {}, "strict", with_built_in(None)))
        self.walk, self.facts, self.scope = lowered.walk, lowered.facts, lowered.walk.scope
        self.provenance = Provenance(self.rows, self.walk, self.known, self._is_expression)
        self._notice([*lowered.inputs])

    # ------------------------------------------------------------------ what is known

    def known(self, name: str) -> Known | None:
        """The type, shape and data known of a tensor."""
        return self.walk.read(name, self.scope)

    def _is_expression(self, element: Any) -> bool:
        return getattr(element, "free", frozenset(("",))) <= self.baked.keys()

    def shape(self, name: str) -> Shape | None:
        """The shape of a tensor, simplified by the facts; None if the rank is unknown."""
        known = self.known(name)
        return known.shape if isinstance(known, Tensor) else None

    def numbers(self, name: str) -> list[int] | None:
        """Elements of an integer tensor if all are known numbers, else None."""
        known = self.known(name)
        elems = known.value.elems if isinstance(known, Tensor) and known.value is not None else None
        found = [e.const for e in elems or () if isinstance(e, Dim) and not e.terms]
        return found if elems is not None and len(found) == len(elems) else None

    def array(self, name: str) -> Array | None:
        """Return the data of a constant. None for other tensors, and if the data is too large or missing."""
        return self.stored[name].array(MAX_STORED) if name in self.stored else None

    def rule(self, node: Node) -> Rule | None:
        """The declared rule of a node's operator; None for an unknown one."""
        return self.walk.operators.rule(node, self.model.opsets)

    def is_other(self, dim: Dim) -> bool:
        """Return True if the dim depends on a dynamic size other than a batch size."""
        return any(name in self.baked and name not in self.rows for name in dim.free)

    def is_free(self, dim: Dim) -> bool:
        """True if the dim depends on a freed symbol."""
        return not dim.free.isdisjoint(self.baked)

    def old(self, dim: Dim) -> int | None:
        """The value of a dim at the sizes of the original model; None if it depends on other symbols."""
        return dim.evaluate(self.baked)

    def old_shape(self, dims: Seq[Dim]) -> list[int] | None:
        """The shape at the sizes of the original model; None if a size is unknown."""
        sizes = [n for d in dims if (n := self.old(d)) is not None]
        return sizes if len(sizes) == len(dims) else None

    def _notice(self, names: Seq[str]) -> None:
        """Records the original numbers of dims that depend on freed sizes other than batch sizes."""
        dims = [d for name in names if name for d in self.shape(name) or () if self.is_other(d)]
        self.seen.update(was for d in dims if (was := self.old(d)) is not None)

    def pieces(self, name: str) -> list[AxisFactor] | None:
        """The factors of a tensor's axes, each with its original size; None if they are unknown."""
        layout = self.provenance.of(name).layout
        if layout is None:
            return None
        return pieces_of([[self.facts.dim(f) for f in factors] for factors in layout], self.baked)

    # ------------------------------------------------------------------ what is changed

    def vector(self, dims: Seq[Dim], hint: str) -> str:
        """The name of a tensor with these sizes, computed at the start of the graph, or a constant."""
        if all(not d.terms for d in dims):
            return self.new_constant(np.array([int(d) for d in dims], np.int64), hint)
        name = self.sizes.vector(dims, hint)
        value = Value((len(dims),), tuple(dims))
        self.scope.env[name] = self.walk.interner.tensor(TensorProto.INT64, Shape([len(dims)]), value)
        return name

    def new_constant(self, array: Array, hint: str) -> str:
        """The name of a constant of any type."""
        name = self.draft.graph.constant(array, hint)
        whole = array.dtype == np.int64 and array.size <= MAX_ELEMENTS
        value = Value(array.shape, tuple(map(constant, array.reshape(-1).tolist()))) if whole else None
        dtype = int(helper.np_dtype_to_tensor_dtype(array.dtype))
        self.scope.env[name] = self.walk.interner.tensor(dtype, Shape(array.shape), value)
        return name

    def choose(self, node: Node, count: int, like: Hashable) -> int:
        """Return the index of the candidate that this attempt uses at a node.

        By default, it is the index used at the last node with the same candidates.
        """
        self.options[node.label] = max(count, self.options.get(node.label, 0))
        taken = self._taken[like] = (self._taken.get(like, 0) + self.choices.get(node.label, 0)) % count
        return taken

    def insert(self, op_type: str, inputs: Seq[str], hint: str, **attributes: int) -> str:
        """Inserts a node before the current one and returns the name of its output."""
        made = self.draft.graph.new_node(op_type, inputs, hint, **attributes)
        self.nodes.append(made)
        node = _new_node(op_type, made.inputs, made.outputs, made.name, attributes)
        self.lower(node, node)
        return made.outputs[0]

    def with_input(self, node: Node, i: int, name: str) -> Node:
        """A copy of the node with another operand."""
        inputs = (*node.inputs[:i], name, *node.inputs[i + 1 :])
        of = node.op_type, node.domain, node.overload, node.name
        made = Node(node._protos, *of, inputs, node.outputs, node.index, node._folder)
        made.subgraphs = node.subgraphs
        return made

    def become(self, node: Node, op_type: str, inputs: Seq[str], **attributes: int) -> Node:
        """A copy of the node with another operator and attributes, which makes the same output."""
        self.own[node.outputs[0]] = attributes
        return _new_node(op_type, inputs, node.outputs, node.name, attributes)

    # ------------------------------------------------------------------ lowering

    def lower(self, node: Node, original: Node) -> None:
        """Lowers a node; raises `Refused` if it fails or requires a freed size to be the old number.

        Raises:
            Refused: it holds on to a baked size.
        """
        state = self.walk.state
        clashes, log = len(state.clashes), len(state.log)
        self.walk.lower(node)
        what = f"{original.label} ({original.op_type})"
        if len(state.clashes) > clashes:
            raise Refused(
                f"{what} cannot run at other sizes: {state.clashes[-1].message}. "
                "A size that it depends on was baked in, and nothing says how it follows",
                node=original.label,
            )
        for name in filter(self._is_held, self.baked):
            whys = [e.why for e in state.log[log:] if e.role == "requirement"] or ["a size is fixed"]
            term = f"{name} == {self.baked[name]}"
            raise Refused(f"{what} needs {term}: {whys[-1]}", node=original.label, term=term)
        self.made(node)

    def made(self, node: Node) -> None:
        """Records provenance and sizes of the outputs of a lowered node."""
        self.provenance.visit(node)
        self._notice(node.outputs)

    def _is_held(self, name: str) -> bool:
        """True if the facts fix or bound a symbol, so that it is no longer free.

        Rows need any number, another size an open range above a lower bound.
        """
        now = self.facts.dim(symbol(name))
        lo, hi = self.facts.bounds(now)
        if name in self.rows:
            return now is not symbol(name) or hi is not None or (lo is not None and lo > 2)
        # a table may bound a size, at twice what it was or more
        return not now.terms or (hi is not None and hi < 2 * self.baked[name])


def _new_node(
    op_type: str, inputs: Seq[str], outputs: Seq[str], name: str, attributes: Mapping[str, int]
) -> Node:
    proto = onnx.NodeProto(op_type=op_type, name=name, input=inputs, output=outputs)
    proto.attribute.extend([helper.make_attribute(key, value) for key, value in attributes.items()])
    return Node([proto], op_type, "", "", name, tuple(inputs), tuple(outputs), 0, None)
