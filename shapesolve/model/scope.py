# compiled: see CONTRIBUTING.md
"""Reads the nodes of one graph or function body: their order, and the outer tensors they read.

A scope is first *collected* (fields copied out of the protobuf in a single pass, subgraphs noted for later)
and then, when the scopes inside it are done, *settled* (names resolved, nodes ordered). Working from a list
rather than by recursion keeps deep nesting away from Python's stack.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import onnx
from onnx import AttributeProto

from .constant import Constant, SparseConstant, check_dims
from .errors import ModelError, check_text, quoted
from .external import DataFolder
from .graph import Graph
from .limits import MAX_COPIED, MAX_IN_KEY, MAX_NESTING
from .node import PLAIN_KINDS, Node, attribute_kind, fits_in_key, presence
from .order import topological_order
from .record import NodeRecord, read_record
from .types import TensorType, TypeReader, ValueType, type_name

#: operator, domain, overload
Kind = tuple[str, str, str]


class Operation:
    """Operator and attributes of a node; one object for all nodes of a model with equal ones."""

    __slots__ = ("holds_graphs", "key", "kind")

    key: object | None
    """Memo key, compared by identity; None if the node's result depends on more than that (see `Node.key`)."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.key = None
        self.holds_graphs = False


class ReadState:
    """State that all scopes of one model share while it is read."""

    __slots__ = (
        "copied",
        "faults",
        "folder",
        "ir_version",
        "keys",
        "operations",
        "remarks",
        "texts",
        "types",
    )

    def __init__(self, ir_version: int, folder: DataFolder | None) -> None:
        self.ir_version = ir_version
        self.folder = folder
        self.types = TypeReader()
        self.keys: dict[Hashable, object] = {}
        """Key object by operator, attributes and form (compared by identity, so cheap to look up)."""
        self.operations: dict[bytes, Operation] = {}
        """Operations read so far, by their serialized bytes."""
        self.texts: dict[bytes, Any] = {}
        """Names of tensors by their bytes."""
        self.copied: dict[object, bool] = {}
        """By operator: True if its nodes are small enough to copy their bytes. Operators are added with their first node."""
        self.remarks: list[str] = []
        self.faults: list[str] = []
        """As `Model.remarks` and `Model.faults`."""


class ScopeReader:
    """A graph or function body that is being read."""

    __slots__ = (
        "_late",
        "_produced",
        "captures",
        "children",
        "depth",
        "given",
        "graph",
        "kinds",
        "nodes",
        "outputs",
        "owner",
        "proto",
        "reading",
    )

    def __init__(
        self,
        reading: ReadState,
        proto: onnx.GraphProto | onnx.FunctionProto,
        owner: str,
        around: ScopeReader | None = None,
    ) -> None:
        """A reader of `proto`, called `owner` in errors, in the scope `around`; no node is read yet."""
        self.reading = reading
        self.proto = proto
        self.owner = owner
        self.depth: int = 0 if around is None else around.depth + 1
        """Counts the scopes around it."""
        self.kinds: dict[Kind, None] = {} if around is None else around.kinds
        """Operators of the nodes in it and in the scopes inside."""
        self.nodes: list[Node] = []
        self.given: dict[str, str] = {}
        """Names that are there before any node has run, and what gives them."""
        self.outputs: tuple[str, ...] = ()
        self.children: list[tuple[Node, str, ScopeReader]] = []
        self.captures: dict[str, str] = {}
        """Names from the scope around, and what uses each first."""
        self.graph: Graph | None = None
        self._late: dict[int, list[str]] = {}
        self._produced: set[str] = set()

    def give(self, names: Iterable[Any], kind: str) -> None:
        """Add names of inputs or initializers to the scope. Raises `ModelError` on a repeated one.

        `collect` checks that they are valid strings, along with all other names.
        """
        given = self.given
        for name in names:
            if name in given:
                raise ModelError(f"{self.owner} has two {kind}s named {quoted(name)}")
            given[name] = kind

    def collect(self) -> None:
        """Read the nodes and note the subgraphs.

        Raises:
            ModelError: a tensor has two producers, or an attribute cannot be read.
        """
        reading = self.reading
        folder, copied, known, texts = reading.folder, reading.copied, reading.operations, reading.texts
        nodes, late = self.nodes, self._late
        seen = {"", *self.given}
        before, outputs_total = len(seen), 0
        knows, learn, add = seen.issuperset, seen.update, nodes.append
        protos = self.proto.node
        for index, proto in enumerate(protos):
            record, operation = None, None
            if copied.get(proto.op_type, False):
                record = read_record(proto.SerializeToString(), texts)
            if record is not None:
                name, inputs, outputs = record.name, record.inputs, record.outputs
                operation = known.get(record.content)
            else:
                name, inputs, outputs = proto.name, tuple(proto.input[:]), tuple(proto.output[:])
            new = operation is None
            if operation is None:
                operation = self._kind_of(proto)
            if type(name) is not str:
                check_text((name,), self.owner)
            op_type, domain, overload = operation.kind
            node = Node(protos, op_type, domain, overload, name, inputs, outputs, index, folder)
            if not knows(inputs):
                check_text(inputs, self.owner)
                late[index] = [x for x in inputs if x not in seen]
            if new:
                self._read_attributes(operation, node, proto.attribute[:])
                self._remember(operation, record)
            if operation.key is not None:
                form: Hashable = len(inputs), len(outputs)
                if "" in inputs or "" in outputs:
                    form = presence(inputs), presence(outputs)
                node.key = self._key((operation.key, form))
            learn(outputs)
            outputs_total += len(outputs)
            add(node)
        self._produced = seen
        check_text(seen, self.owner)
        if len(seen) != before + outputs_total:
            self._check_single_producers()
        if isinstance(self.proto, onnx.GraphProto):
            self._check_names()

    def _kind_of(self, proto: onnx.NodeProto) -> Operation:
        domain = proto.domain
        if domain == "ai.onnx":
            domain = ""
        kind = (proto.op_type, domain, proto.overload)
        if kind not in self.kinds:
            check_text(kind, self.owner)
            self.kinds[kind] = None
        return Operation(kind)

    def _remember(self, operation: Operation, record: NodeRecord | None) -> None:
        """Remembers a node's record for equal nodes, and if nodes of the operator are worth copying."""
        op_type, copied = operation.kind[0], self.reading.copied
        if record is None:
            copied.setdefault(op_type, not operation.holds_graphs)
        elif len(record.content) > MAX_COPIED or operation.holds_graphs:
            copied[op_type] = False
        elif operation.key is not None:
            self.reading.operations[record.content] = operation

    def _check_names(self) -> None:
        """Record a fault if two nodes have the same name (except Constants), which onnxruntime rejects."""
        names = [node.name for node in self.nodes if node.name and not node.is_constant]
        if len(set(names)) != len(names):
            seen: set[str] = set()
            twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            self.reading.faults.append(f"{self.owner} has two nodes named {quoted(twice)}")

    def settle(self) -> tuple[Node, ...]:
        """The nodes in order; fills `captures`. The scopes inside must be settled and have their graphs.

        Raises:
            ModelError: nodes depend on each other in a cycle.
        """
        inner = self._attach_subgraphs()
        nodes, given, produced = self.nodes, self.given, self._produced
        captures = self.captures
        ordered = not self._late or not any(n in produced for names in self._late.values() for n in names)
        producers: dict[str, int] = {}
        if inner or not ordered:
            producers = {name: node.index for node in nodes for name in node.outputs if name}
        for index in sorted({*self._late, *inner}):
            for name in self._late.get(index, ()):
                if name not in produced:
                    captures.setdefault(name, f"node {quoted(nodes[index].label)} reads")
            for name, user in inner.get(index, {}).items():
                if name in producers:
                    ordered = ordered and producers[name] < index
                elif name not in given:
                    captures.setdefault(name, user)
        for name in self.outputs:
            if name not in produced:
                captures.setdefault(name, f"{self.owner} has as output")
        if ordered:
            return tuple(nodes)
        reads = [(*node.inputs, *inner.get(node.index, ())) for node in nodes]
        order = topological_order(reads, producers, lambda i: nodes[i].label, self.owner)
        return tuple([nodes[i] for i in order])

    def _attach_subgraphs(self) -> dict[int, dict[str, str]]:
        """Builds the subgraphs of the nodes. Returns the outer tensors that these read, by node index."""
        subgraphs: dict[int, list[tuple[str, Graph]]] = {}
        inner: dict[int, dict[str, str]] = {}
        for node, name, child in self.children:
            assert child.graph is not None
            subgraphs.setdefault(node.index, []).append((name, child.graph))
            needs = inner.setdefault(node.index, {})
            for tensor, user in child.captures.items():
                needs.setdefault(tensor, user)
        for index, graphs in subgraphs.items():
            self.nodes[index].subgraphs = tuple(graphs)
        return inner

    def _key(self, parts: Hashable) -> object:
        keys = self.reading.keys
        key = keys.get(parts)
        if key is None:
            key = keys[parts] = object()
        return key

    def _read_attributes(
        self, operation: Operation, node: Node, attributes: Sequence[AttributeProto]
    ) -> None:
        """Checks attribute names, stored tensors and subgraphs of a node.

        Finds the key, where the attributes decide it.
        """
        names = [attribute.name for attribute in attributes]
        check_text(names, self.owner)
        if len(set(names)) != len(names):
            raise ModelError(f"node {quoted(node.label)} has two attributes of the same name")
        parts: list[bytes] | None = []
        children = len(self.children)
        for attribute in attributes:
            refers = attribute.ref_attr_name
            if attribute.type not in PLAIN_KINDS and not refers:
                self._check_rich_attribute(node, attribute)
            if parts is not None:
                part = attribute.SerializeToString() if fits_in_key(attribute) else b""
                if refers or not part or len(part) > MAX_IN_KEY:
                    parts = None
                else:
                    parts.append(part)
        operation.holds_graphs = len(self.children) > children
        if parts is not None:
            operation.key = self._key((operation.kind, *sorted(parts)))

    def _check_rich_attribute(self, node: Node, attribute: AttributeProto) -> None:
        kind = attribute_kind(attribute)
        if kind == AttributeProto.TENSOR:
            dims = attribute.t.dims
            if dims and min(dims) < 0:
                check_dims(dims, f"{node.label}.{attribute.name}")
        elif kind == AttributeProto.GRAPH:
            self._add_child(node, attribute.name, attribute.g)
        elif kind == AttributeProto.GRAPHS:
            for i, graph in enumerate(attribute.graphs):
                self._add_child(node, f"{attribute.name}[{i}]", graph)
        elif kind not in PLAIN_KINDS:
            # The rest is rare, and reading it is checking it.
            label = f"{node.label}.{attribute.name}"
            for stored in (*attribute.tensors, *(s.values for s in attribute.sparse_tensors)):
                check_dims(stored.dims, label)
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                check_dims(sparse.dims, label)
            for declared in (attribute.tp, *attribute.type_protos):
                self.reading.types.read(declared, label)

    def _add_child(self, node: Node, name: str, proto: onnx.GraphProto) -> None:
        if self.depth >= MAX_NESTING:
            raise ModelError(f"node {quoted(node.label)} is nested in more than {MAX_NESTING} subgraphs")
        owner = f"subgraph {quoted(f'{node.label}.{name}')}"
        self.children.append((node, name, ScopeReader(self.reading, proto, owner, self)))

    def _check_single_producers(self) -> None:
        producers: dict[str, Node] = {}
        for node in self.nodes:
            for name in filter(None, node.outputs):
                if name in self.given:
                    raise ModelError(
                        f"tensor {quoted(name)} is both an {self.given[name]} of {self.owner}"
                        f" and an output of node {quoted(node.label)}"
                    )
                if name in producers and _same_constants(producers[name], node):
                    self.reading.remarks.append(
                        f"{self.owner} has two Constants that give {quoted(name)}: the last one counts"
                    )
                    producers[name].take_over(node)
                    continue
                if name in producers:
                    first, second = quoted(producers[name].label), quoted(node.label)
                    raise ModelError(f"tensor {quoted(name)} has two producers, nodes {first} and {second}")
                producers[name] = node


def _same_constants(first: Node, second: Node) -> bool:
    """Return True if both are Constants of the same type and shape.

    onnxruntime keeps them by name, so the last one counts.
    """
    if not first.is_constant or not second.is_constant:
        return False
    values = [node.attributes.get("value") for node in (first, second)]
    stored = [(v.dtype, v.dims) for v in values if isinstance(v, Constant)]
    return len(stored) == 2 and stored[0] == stored[1]


def settle_all(root: ScopeReader) -> tuple[Node, ...]:
    """Reads and orders the nodes of a scope and of all scopes inside it. Returns the nodes of `root` in order.

    Raises:
        ModelError: something in it cannot be used, or a name is used that nothing gives.
    """
    scopes, waiting = [], [root]
    while waiting:
        scope = waiting.pop()
        if isinstance(scope.proto, onnx.GraphProto):
            _declare(scope, scope.proto)
        scope.collect()
        scopes.append(scope)
        waiting.extend(child for _, _, child in reversed(scope.children))
    nodes: tuple[Node, ...] = ()
    for scope in reversed(scopes):  # a scope comes after the one around it
        nodes = scope.settle()
        if isinstance(scope.proto, onnx.GraphProto):
            scope.graph = _make_graph(scope, scope.proto, nodes)
    for name, user in root.captures.items():
        raise ModelError(f"{user} {quoted(name)}, which nothing in {root.owner} produces")
    return nodes


def _declare(scope: ScopeReader, proto: onnx.GraphProto) -> None:
    scope.give([info.name for info in proto.input[:]], "input")
    inputs = set(scope.given)
    stored = [t.name for t in proto.initializer[:]] + [t.values.name for t in proto.sparse_initializer]
    if len(set(stored)) != len(stored):
        stored = _last_of_each(scope, proto, stored)
    scope.give([name for name in stored if name not in inputs], "initializer")
    outputs = [info.name for info in proto.output]
    check_text(outputs, scope.owner)
    scope.outputs = tuple(outputs)


def _last_of_each(scope: ScopeReader, proto: onnx.GraphProto, stored: list[str]) -> list[str]:
    """Return names of initializers. Equal names of the same type and shape are one initializer with the last data."""
    kinds: dict[str, tuple[int, tuple[int, ...]]] = {}
    for tensor in proto.initializer:
        kind = tensor.data_type, tuple(tensor.dims)
        if kinds.setdefault(tensor.name, kind) != kind:
            break
    else:
        if len(kinds) + len(proto.sparse_initializer) == len(set(stored)):
            twice = next(name for i, name in enumerate(stored) if name in stored[:i])
            text = f"{scope.owner} has two initializers named {quoted(twice)}: the last one counts"
            scope.reading.remarks.append(text)
            return list(dict.fromkeys(stored))
    scope.given.clear()
    scope.give(stored, "initializer")
    return stored


def _make_graph(scope: ScopeReader, proto: onnx.GraphProto, nodes: tuple[Node, ...]) -> Graph:
    reading = scope.reading
    check_text([proto.name], scope.owner)
    inputs = reading.types.read_values(proto.input[:])
    initializers = {(name := t.name): Constant(t, reading.folder, name) for t in proto.initializer[:]}
    initializers.update((t.values.name, SparseConstant(t)) for t in proto.sparse_initializer)
    for name, declared in inputs:
        if name in initializers:
            _check_default(scope, name, declared, initializers[name])
    listed = {name for name, _ in inputs} if reading.ir_version >= 4 else frozenset()
    return Graph(
        name=proto.name,
        nodes=nodes,
        inputs=inputs,
        outputs=reading.types.read_values(proto.output[:]),
        value_info=read_value_info(reading, proto.value_info),
        initializers=MappingProxyType(initializers),
        overridable=frozenset(listed & initializers.keys()),
        captures=tuple(scope.captures),
    )


def _check_default(scope: ScopeReader, name: str, declared: ValueType | None, stored: Constant) -> None:
    """Raises `ModelError` unless an initializer has the type and shape declared for the input of its name."""
    if not isinstance(declared, TensorType):
        return
    if declared.dtype and stored.dtype and declared.dtype != stored.dtype:
        kinds = f"{type_name(declared.dtype)}, it is {type_name(stored.dtype)}"
        scope.reading.faults.append(f"the initializer {quoted(name)} is declared as {kinds}")
    dims = declared.dims
    if dims is not None and (
        len(dims) != len(stored.dims)
        or any(isinstance(d, int) and d != size for d, size in zip(dims, stored.dims, strict=True))
    ):
        shown = [d if d is not None else "?" for d in dims]
        text = f"the initializer {quoted(name)} is declared with dims {shown}, it has {list(stored.dims)}"
        scope.reading.faults.append(text)


def read_value_info(reading: ReadState, infos: Sequence[onnx.ValueInfoProto]) -> Mapping[str, ValueType]:
    """Declared types by name, without the names that are declared without a type."""
    return MappingProxyType({name: t for name, t in reading.types.read_values(infos[:]) if t is not None})
