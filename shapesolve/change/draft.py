# compiled: see CONTRIBUTING.md
"""`Draft`: an editable copy of a model's graphs, over the unchanged original.

    draft = Draft(read_model("model.onnx"))
    node = draft.graph.producers()["y"]
    node.inputs[1] = draft.graph.constant(np.array([0, -1]), "target")
    draft.drop_dead()
    changed = write(draft)  # change.writing

Weights are not part of a draft, which only has their names; `writing` copies them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from ..model import Function, FunctionKey, Graph, Model, Node


class DraftNode:
    """A node to edit: one of the original, or a new one.

    Attributes:
        origin: the node of the original that it stands for, None for a new one. Its attributes, docs and metadata stay.
        own: attributes of a new node, and those that replace the original's.
        graphs: the graphs inside it, by attribute name.
    """

    __slots__ = ("domain", "graphs", "inputs", "name", "op_type", "origin", "outputs", "own")

    def __init__(
        self,
        op_type: str,
        inputs: Iterable[str],
        outputs: Iterable[str],
        *,
        name: str = "",
        domain: str = "",
        attributes: Mapping[str, Any] | None = None,
        origin: Node | None = None,
    ) -> None:
        self.op_type, self.domain, self.name, self.origin = op_type, domain, name, origin
        self.inputs, self.outputs = list(inputs), list(outputs)
        self.own: dict[str, Any] = dict(attributes or {})
        self.graphs: dict[str, DraftGraph] = {}

    @property
    def label(self) -> str:
        """The display name of the node, as in `Node.label`."""
        if self.origin is not None:
            return self.origin.label
        return self.name or f"{self.op_type}({next(filter(None, self.outputs), '')})"

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute's value, as in `Node.attributes`. A reference to one of a function call is `AttrRef`."""
        if name in self.own:
            return self.own[name]
        return default if self.origin is None else self.origin.attributes.get(name, default)

    def is_standard(self, *op_types: str) -> bool:
        """True if it is one of these standard operators."""
        return not self.domain and self.op_type in op_types

    def reads(self, except_for: Collection[int] = ()) -> list[str]:
        """Names of tensors of the surrounding graph that the node or its subgraphs read; maybe repeated.

        Inputs at the positions `except_for` are left out.
        """
        if except_for:
            read = [name for i, name in enumerate(self.inputs) if name and i not in except_for]
        else:
            read = [name for name in self.inputs if name]
        for graph in self.graphs.values():
            read += graph.captures()
        return read

    def __repr__(self) -> str:
        return f"DraftNode({self.op_type}: {self.inputs} -> {self.outputs})"


class DraftGraph:
    """A graph or function body to edit.

    Attributes:
        nodes: in an order in which they can run; keep it so.
        outputs: names that must be there at the end, in order. They never change.
        added: constants that the changes need, by name.
    """

    __slots__ = ("_pool", "added", "draft", "given", "nodes", "origin", "outputs", "parent", "weights")

    def __init__(self, draft: Draft, origin: Graph | Function, parent: DraftGraph | None = None) -> None:
        self.draft, self.origin, self.parent = draft, origin, parent
        if isinstance(origin, Graph):
            self.given = frozenset([*(name for name, _ in origin.inputs), *origin.initializers])
            self.outputs = tuple([name for name, _ in origin.outputs])
        else:
            self.given = frozenset(origin.inputs)
            self.outputs = origin.outputs
        self.added: dict[str, NDArray[Any]] = {}
        self.weights: dict[str, onnx.TensorProto] = {}
        self._pool: dict[tuple[Any, ...], str] = {}
        self.nodes: list[DraftNode] = [self._draft(node) for node in origin.nodes]

    def _draft(self, node: Node) -> DraftNode:
        made = DraftNode(
            node.op_type, node.inputs, node.outputs, name=node.name, domain=node.domain, origin=node
        )
        self.draft.taken.update(node.outputs)
        self.draft.node_names.add(node.name)
        for attribute, graph in node.subgraphs:
            made.graphs[attribute] = DraftGraph(self.draft, graph, self)
        return made

    # ------------------------------------------------------------------ looking

    def producers(self) -> dict[str, DraftNode]:
        """The node that makes each tensor of this graph, by name."""
        return {name: node for node in self.nodes for name in node.outputs if name}

    def made(self) -> set[str]:
        """The names of all tensors that the graph defines."""
        names = {name for node in self.nodes for name in node.outputs if name}
        return names | self.given | self.added.keys() | self.weights.keys()

    def captures(self) -> Iterator[str]:
        """Names of outer tensors that the graph reads; maybe repeated."""
        made = self.made()
        for node in self.nodes:
            yield from (name for name in node.reads() if name not in made)
        yield from (name for name in self.outputs if name and name not in made)

    def graphs(self) -> Iterator[DraftGraph]:
        """This graph and all inside its nodes, outer ones first."""
        waiting = [self]
        while waiting:
            graph = waiting.pop()
            yield graph
            waiting.extend(inner for node in graph.nodes for inner in node.graphs.values())

    # ------------------------------------------------------------------ changing

    def constant(self, array: NDArray[Any], hint: str = "constant") -> str:
        """The name of a constant with this data. Equal ones are stored once; keep them small."""
        key = (array.dtype.name, array.shape, array.tobytes())
        if key not in self._pool:
            name = self._pool[key] = self.draft.fresh(hint)
            self.added[name] = array
        return self._pool[key]

    def new_node(self, op_type: str, inputs: Iterable[str], hint: str = "", **attributes: Any) -> DraftNode:
        """A standard node with one output of a fresh name (its name is fresh as well). You put it into `nodes`."""
        output = self.draft.fresh(hint or op_type.lower())
        return DraftNode(
            op_type, inputs, (output,), name=self.draft.fresh_node(output), attributes=attributes
        )

    def rename(self, old: str, new: str) -> None:
        """Replaces every use of the tensor `old` by `new`, also in inner graphs. Outputs of this graph stay."""
        for node in self.nodes:
            if old in node.inputs:
                node.inputs = [new if name == old else name for name in node.inputs]
            for graph in node.graphs.values():
                if old not in graph.made():
                    graph.rename(old, new)
                    graph.outputs = tuple([new if name == old else name for name in graph.outputs])

    def take_weights(self, inner: DraftGraph, proto: onnx.GraphProto, names: Mapping[str, str]) -> None:
        """Moves stored tensors of an inner graph, which `proto` holds, to this graph under these names."""
        for tensor in proto.initializer:
            self.weights[names[tensor.name]] = tensor
        for name, tensor in inner.weights.items():
            self.weights[names.get(name, name)] = tensor
        for name, array in inner.added.items():
            self.added[names.get(name, name)] = array

    def drop_dead(
        self, stays: Callable[[DraftNode], bool] | None = None, reads: Counter[str] | None = None
    ) -> list[DraftNode]:
        """Removes nodes without needed outputs, here and in inner graphs, and returns them.

        Those that `stays` are kept.

        How many read each tensor of those that are left is added to `reads`, outputs of the graph among them.
        """
        needed, read = {*self.outputs}, [*self.outputs]
        kept: list[DraftNode] = []
        dropped: list[DraftNode] = []
        for node in reversed(self.nodes):
            if needed.isdisjoint(filter(None, node.outputs)) and not (stays and stays(node)):
                dropped.append(node)
                continue
            for graph in node.graphs.values():
                dropped += graph.drop_dead(stays)
            names = node.reads()
            needed.update(names)
            read += names
            kept.append(node)
        if reads is not None:
            reads.update(read)
        self.nodes = kept[::-1]
        self.added = {name: array for name, array in self.added.items() if name in needed}
        self.weights = {name: tensor for name, tensor in self.weights.items() if name in needed}
        self._pool = {key: name for key, name in self._pool.items() if name in needed}
        return dropped[::-1]


class Draft:
    """A model to edit.

    Attributes:
        model: the original, as read.
        graph: its main graph.
        functions: the bodies of its functions.
        taken: every tensor name that is in use anywhere.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.taken: set[str] = {""}
        self.node_names: set[str] = {""}
        self._numbers: tuple[dict[str, int], dict[str, int]] = {}, {}
        self.graph = DraftGraph(self, model.graph)
        self.functions: dict[FunctionKey, DraftGraph] = {
            key: DraftGraph(self, function) for key, function in model.functions.items()
        }
        for body in (self.graph, *self.functions.values()):
            for graph in body.graphs():
                self.taken |= graph.given | {*graph.outputs}

    def fresh(self, hint: str) -> str:
        """A tensor name that is not in use, close to `hint`."""
        return _fresh(hint, self.taken, self._numbers[0])

    def fresh_node(self, hint: str) -> str:
        """A node name that is not in use, close to `hint`."""
        return _fresh(hint, self.node_names, self._numbers[1])

    def drop_dead(self, stays: Callable[[DraftNode], bool] | None = None) -> list[DraftNode]:
        """Removes nodes without needed outputs everywhere, and returns them. Those that `stays` are kept."""
        bodies = (self.graph, *self.functions.values())
        return [node for body in bodies for node in body.drop_dead(stays)]


def _fresh(hint: str, taken: set[str], numbers: dict[str, int]) -> str:
    """A name not in `taken`, which never shrinks; `numbers` has the last one given to each hint."""
    name = hint
    if name in taken:
        number = numbers.get(hint, 0)
        while name in taken:
            number += 1
            name = f"{hint}_{number}"
        numbers[hint] = number
    taken.add(name)
    return name


def as_array(values: Any, dtype: type[np.generic] = np.int64) -> NDArray[Any]:
    """Numbers as an array to store, of type int64 by default."""
    return np.array(values, dtype=dtype)


__all__ = ["Draft", "DraftGraph", "DraftNode", "as_array"]
