# compiled: see CONTRIBUTING.md
"""`Model`, `Graph` and `Function`: a checked model with ordered nodes, not to be changed.

https://onnx.ai/onnx/repo-docs/IR.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import onnx

from .constant import Constant
from .external import OwnFile
from .node import Node
from .types import ValueType

if TYPE_CHECKING:
    import networkx as nx

FunctionKey: TypeAlias = tuple[str, str, str]
"""Domain, name, overload."""


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A graph or subgraph. Equality is identity."""

    name: str
    nodes: tuple[Node, ...] = field(repr=False)
    """Topologically ordered, ties follow the stored order."""
    inputs: tuple[tuple[str, ValueType | None], ...]
    outputs: tuple[tuple[str, ValueType | None], ...]
    value_info: Mapping[str, ValueType] = field(repr=False)
    """Declared types of tensors inside the graph (inputs and outputs are not repeated here)."""
    initializers: Mapping[str, Constant] = field(repr=False)
    overridable: frozenset[str] = field(repr=False)
    """Initializers that are only the default of a graph input. Empty before IR version 4, where every
    initializer had to be listed as an input, and onnxruntime takes them all as constants."""
    captures: tuple[str, ...] = field(repr=False)
    """Names taken from the scope around the graph, in order of first use."""

    def to_networkx(self) -> nx.DiGraph[str]:
        """Return the graph for NetworkX.

        There is one node per operator call, keyed by its label (repeated labels get `#2`, `#3`, ...), with attributes
        `kind="node"`, `op_type`,
        `domain`, and `index`. Tensors from outside are nodes whose `kind` is `"input"`, `"initializer"`, or `"outer"`
        (captured by a subgraph),
        keyed by their name. Edges have `tensors`, the tuple of tensor names along them. Tensors captured by a
        subgraph count as inputs of
        the node that owns it.
        """
        from .graph import to_networkx

        return to_networkx(self)


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A model-local function. Equality is identity."""

    domain: str
    name: str
    overload: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: tuple[str, ...]
    """Attributes that a call has to give."""
    defaults: Mapping[str, Any] = field(repr=False)
    """Attributes that a call may leave out, with their values."""
    opsets: Mapping[str, int] = field(repr=False)
    """The function's own imports, completed by the model's."""
    nodes: tuple[Node, ...] = field(repr=False)
    """Topologically ordered, ties follow the stored order."""
    value_info: Mapping[str, ValueType] = field(repr=False)

    @property
    def key(self) -> FunctionKey:
        """Key of the function: the `domain`, `op_type` and `overload` of a node that calls it."""
        return self.domain, self.name, self.overload


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A model. It keeps `proto` and reads from it on demand, so `proto` must not be changed."""

    graph: Graph
    opsets: Mapping[str, int]
    """Version per domain; the standard domain `ai.onnx` is the empty string."""
    functions: Mapping[FunctionKey, Function]
    ir_version: int
    path: Path | None
    own_file: OwnFile | None
    """The file that large tensors' data was left in; `saving.with_weights` puts it back into a proto."""
    proto: onnx.ModelProto = field(repr=False)
    metadata: Mapping[str, str] = field(repr=False)
    remarks: tuple[str, ...] = field(default=(), repr=False)
    """Deviations from the standard that onnxruntime understands, and how they were read."""
    faults: tuple[str, ...] = field(default=(), repr=False)
    """Reasons why onnxruntime does not load the file, although its shapes can be inferred."""


class _Keys:
    """Hands out distinct keys: the text itself, with a number added if it is taken."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._last: dict[str, int] = {}

    def take(self, text: str) -> str:
        key = text
        while key in self._taken:
            self._last[text] = self._last.get(text, 1) + 1
            key = f"{text}#{self._last[text]}"
        self._taken.add(key)
        return key


def to_networkx(graph: Graph) -> nx.DiGraph[str]:
    """`Graph.to_networkx`."""
    import networkx as nx

    result: nx.DiGraph[str] = nx.DiGraph(name=graph.name)
    keys = _Keys()
    sources: dict[str, str] = {}
    consumers = []
    for node in graph.nodes:
        key = keys.take(node.label)
        consumers.append((key, node))
        sources.update((name, key) for name in node.outputs if name)
        result.add_node(key, kind="node", op_type=node.op_type, domain=node.domain, index=node.index)
    outside = {name: "input" for name, _ in graph.inputs}
    outside.update((name, "initializer") for name in graph.initializers if name not in outside)
    outside.update((name, "outer") for name in graph.captures if name not in outside)
    for name, kind in outside.items():
        sources[name] = key = keys.take(name)
        result.add_node(key, kind=kind)
    for key, node in consumers:
        for name in dict.fromkeys((*filter(None, node.inputs), *node.captures)):
            source = sources[name]
            tensors = result.edges[source, key]["tensors"] if result.has_edge(source, key) else ()
            result.add_edge(source, key, tensors=(*tensors, name))
    return result
