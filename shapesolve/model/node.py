# compiled: see CONTRIBUTING.md
"""`Node`: one operator call of a graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import onnx
from onnx import AttributeProto

from .constant import Constant, SparseConstant
from .errors import ModelError, check_text, quoted
from .external import DataFolder
from .types import TypeReader

if TYPE_CHECKING:
    from .graph import Graph

_UNREAD: Any = object()
_EXTERNAL: int = onnx.TensorProto.EXTERNAL
_NO_ATTRIBUTES: Mapping[str, Any] = MappingProxyType({})

_FIELD_KINDS = {
    "f": AttributeProto.FLOAT,
    "i": AttributeProto.INT,
    "s": AttributeProto.STRING,
    "t": AttributeProto.TENSOR,
    "g": AttributeProto.GRAPH,
    "floats": AttributeProto.FLOATS,
    "ints": AttributeProto.INTS,
    "strings": AttributeProto.STRINGS,
    "tensors": AttributeProto.TENSORS,
    "graphs": AttributeProto.GRAPHS,
    "sparse_tensor": AttributeProto.SPARSE_TENSOR,
    "sparse_tensors": AttributeProto.SPARSE_TENSORS,
    "tp": AttributeProto.TYPE_PROTO,
    "type_protos": AttributeProto.TYPE_PROTOS,
}


@dataclass(frozen=True, slots=True)
class AttrRef:
    """An attribute whose value is the attribute `name` of the function call (`ref_attr_name`)."""

    name: str


class Node:
    """One operator call. Made once per `NodeProto`, not to be changed; attributes are read on demand."""

    __slots__ = (
        "_attributes",
        "_folder",
        "_kinds",
        "_protos",
        "domain",
        "index",
        "inputs",
        "key",
        "name",
        "op_type",
        "outputs",
        "overload",
        "subgraphs",
    )

    op_type: str
    domain: str
    """Empty for the standard operators (`ai.onnx`)."""
    overload: str
    name: str
    inputs: tuple[str, ...]
    """Tensor names; empty for an omitted optional input."""
    outputs: tuple[str, ...]
    index: int
    """Position in the stored order of its graph."""
    subgraphs: tuple[tuple[str, Graph], ...]
    """Attribute name and graph; a list of graphs gives `name[0]`, `name[1]`, …"""
    _kinds: dict[str, int]
    key: object | None
    """A memo key, compared by identity: the same for nodes of a model that compute the same function of their inputs.

    Equal keys mean the same domain, operator, overload, numbers of inputs and outputs, positions left
    empty, and attributes; the opset version is the caller's to add. None if this depends on more than the
    node alone (subgraphs, references to attributes of a function call, external data) or would cost too
    much (large attributes).
    """

    def __init__(
        self,
        protos: Sequence[onnx.NodeProto],
        op_type: str,
        domain: str,
        overload: str,
        name: str,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        index: int,
        folder: DataFolder | None,
    ) -> None:
        self.op_type = op_type
        self.domain = domain
        self.overload = overload
        self.name = name
        self.inputs = inputs
        self.outputs = outputs
        self.index = index
        self.subgraphs = ()
        self._protos = protos
        self._folder = folder
        self.key = None
        self._attributes = _UNREAD

    @property
    def label(self) -> str:
        """Name of the node in messages, or operator and first output when it has none."""
        if self.name:
            return self.name
        outputs: tuple[object, ...] = self.outputs  # not checked for being texts yet
        return f"{self.op_type}({next(filter(None, outputs), f'#{self.index}')})"

    @property
    def is_constant(self) -> bool:
        """True if it is a Constant node of the standard."""
        return self.op_type == "Constant" and not self.domain

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Attribute values by name.

        Values are int, float, str (bytes if it is not UTF-8), `Constant`, `SparseConstant`, `Graph`, a value type,
        tuples of these, or
        `AttrRef`; None for a kind of attribute that ONNX does not define.
        """
        if self._attributes is _UNREAD:
            self._read_attributes()
        result: Mapping[str, Any] = self._attributes
        return result

    @property
    def attribute_kinds(self) -> Mapping[str, int]:
        """Types (`onnx.AttributeProto.AttributeType`) of the attributes by name."""
        if self._attributes is _UNREAD:
            self._read_attributes()
        return self._kinds

    def _read_attributes(self) -> None:
        attributes = self.proto.attribute[:]
        if not attributes:
            self._attributes, self._kinds = _NO_ATTRIBUTES, {}
            return
        graphs = dict(self.subgraphs) if self.subgraphs else {}
        values, kinds = {}, {}
        for attribute in attributes:
            name = attribute.name
            kinds[name] = kind = attribute.type or attribute_kind(attribute)
            values[name] = self._value(attribute, kind, graphs)
        self._attributes, self._kinds = MappingProxyType(values), kinds

    def take_over(self, other: Node) -> None:
        """Copies operator attributes of `other`, an equal node, which loses its outputs."""
        self._attributes, self._kinds, self.key = other.attributes, dict(other.attribute_kinds), other.key
        other.outputs = ("",) * len(other.outputs)
        other.key = None

    @property
    def proto(self) -> onnx.NodeProto:
        """The protobuf it was read from; not to be changed."""
        return self._protos[self.index]

    @property
    def metadata(self) -> Mapping[str, str]:
        """The `metadata_props` of the node."""
        return read_metadata(self.proto.metadata_props)

    @property
    def captures(self) -> tuple[str, ...]:
        """Names that the subgraphs of this node take from the scope around it, without repeats."""
        if not self.subgraphs:
            return ()
        return tuple(dict.fromkeys([name for _, graph in self.subgraphs for name in graph.captures]))

    def __repr__(self) -> str:
        domain = f"{self.domain}:" if self.domain else ""
        return f"Node({domain}{self.op_type} {self.label!r}: {self.inputs} -> {self.outputs})"

    def _value(self, attribute: AttributeProto, kind: int, graphs: Mapping[str, Graph]) -> Any:
        if attribute.ref_attr_name:
            check_text([attribute.ref_attr_name], f"node {quoted(self.label)}")
            return AttrRef(attribute.ref_attr_name)
        if kind == AttributeProto.GRAPH:
            return graphs[attribute.name]
        if kind == AttributeProto.GRAPHS:
            return tuple([graphs[f"{attribute.name}[{i}]"] for i in range(len(attribute.graphs))])
        read = _READERS.get(kind)
        return None if read is None else read(attribute, self._folder, f"{self.label}.{attribute.name}")


def attribute_kind(attribute: AttributeProto) -> int:
    """Return the type of an attribute. IR version 1 has no such field; the field in use determines it."""
    if attribute.type:
        return int(attribute.type)
    return next((_FIELD_KINDS[f.name] for f, _ in attribute.ListFields() if f.name in _FIELD_KINDS), 0)


def read_metadata(entries: Iterable[onnx.StringStringEntryProto]) -> Mapping[str, str]:
    """`metadata_props` as a dict, without entries that are not UTF-8."""
    pairs: list[tuple[object, object]] = [(entry.key, entry.value) for entry in entries]
    return MappingProxyType({k: v for k, v in pairs if isinstance(k, str) and isinstance(v, str)})


def read_attributes(protos: Any, folder: DataFolder | None, owner: str) -> Mapping[str, Any]:
    """Values of attributes by name, for instance the defaults of a function.

    Raises:
        ModelError: an attribute holds a graph.
    """
    values = {}
    check_text([attribute.name for attribute in protos], owner)
    for attribute in protos:
        kind = attribute_kind(attribute)
        if kind in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
            raise ModelError(f"{owner} has a graph as default of attribute {quoted(attribute.name)}")
        read = _READERS.get(kind)
        values[attribute.name] = None if read is None else read(attribute, folder, attribute.name)
    return MappingProxyType(values)


def presence(names: Iterable[object]) -> tuple[bool, ...]:
    """For each name, True if it is not empty."""
    return tuple([bool(name) for name in names])


def fits_in_key(attribute: AttributeProto) -> bool:
    """True if the attribute is small enough to be part of a comparison key (`Node.key`)."""
    kind = attribute_kind(attribute)
    return kind not in _LARGE_KINDS and (kind != AttributeProto.TENSOR or _is_small(attribute.t))


def _is_small(tensor: onnx.TensorProto) -> bool:
    return math.prod(tensor.dims[:]) <= 64 and tensor.data_location != _EXTERNAL


def _text(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


#: numbers and texts, and lists of these
PLAIN_KINDS = frozenset(range(AttributeProto.FLOAT, AttributeProto.STRING + 1)) | frozenset(
    range(AttributeProto.FLOATS, AttributeProto.STRINGS + 1)
)
_LARGE_KINDS = frozenset(
    (
        AttributeProto.TENSORS,
        AttributeProto.SPARSE_TENSOR,
        AttributeProto.SPARSE_TENSORS,
        AttributeProto.GRAPH,
        AttributeProto.GRAPHS,
    )
)
_READERS: dict[int, Callable[[AttributeProto, DataFolder | None, str], Any]] = {
    AttributeProto.FLOAT: lambda a, _folder, _name: a.f,
    AttributeProto.INT: lambda a, _folder, _name: a.i,
    AttributeProto.STRING: lambda a, _folder, _name: _text(a.s),
    AttributeProto.FLOATS: lambda a, _folder, _name: tuple(a.floats[:]),
    AttributeProto.INTS: lambda a, _folder, _name: tuple(a.ints[:]),
    AttributeProto.STRINGS: lambda a, _folder, _name: tuple([_text(s) for s in a.strings]),
    AttributeProto.TENSOR: lambda a, folder, name: Constant(a.t, folder, name),
    AttributeProto.TENSORS: lambda a, folder, name: tuple([Constant(t, folder, name) for t in a.tensors]),
    AttributeProto.SPARSE_TENSOR: lambda a, _folder, name: SparseConstant(a.sparse_tensor, name),
    AttributeProto.SPARSE_TENSORS: lambda a, _folder, name: tuple(
        [SparseConstant(t, name) for t in a.sparse_tensors]
    ),
    AttributeProto.TYPE_PROTO: lambda a, _folder, name: TypeReader().read(a.tp, name),
    AttributeProto.TYPE_PROTOS: lambda a, _folder, name: tuple(
        [TypeReader().read(t, name) for t in a.type_protos]
    ),
}
