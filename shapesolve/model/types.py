# compiled: see CONTRIBUTING.md
"""Value types: the declared types of tensors, sequences, optionals, and maps.

https://onnx.ai/onnx/repo-docs/IR.html#standard-data-types
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import onnx

from .errors import ModelError, check_text, quoted
from .limits import MAX_DIM_PARAM, MAX_TYPE_DEPTH


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor type: element type (`onnx.TensorProto.DataType`) and dims.

    `dims` is None if the rank is unknown. A dim is an int, the name in its `dim_param`, or None if it is anonymous.
    """

    dtype: int
    dims: tuple[int | str | None, ...] | None
    sparse: bool = False


@dataclass(frozen=True, slots=True)
class SequenceType:
    """A sequence; `elem` is None when the model does not say of what."""

    elem: ValueType | None


@dataclass(frozen=True, slots=True)
class OptionalType:
    """A value or nothing; `elem` is None when the model does not say of what."""

    elem: ValueType | None


@dataclass(frozen=True, slots=True)
class MapType:
    """A map from keys of element type `key`; `value` is None when the model does not say to what."""

    key: int
    value: ValueType | None


ValueType: TypeAlias = TensorType | SequenceType | OptionalType | MapType


class TypeReader:
    """Reads `TypeProto`s; types that are equal in the file are read once and shared."""

    def __init__(self) -> None:
        self._seen: dict[bytes, ValueType | None] = {}

    def read(self, proto: onnx.TypeProto, owner: str) -> ValueType | None:
        """The type in `proto`, None when it is unset or opaque; `owner` is the tensor an error names."""
        key = proto.SerializeToString()
        if key not in self._seen:
            self._seen[key] = _read_type(proto, owner, 0)
        return self._seen[key]

    def read_values(self, infos: Sequence[onnx.ValueInfoProto]) -> tuple[tuple[str, ValueType | None], ...]:
        """Names and types, in stored order. Raises `ModelError` when one cannot be read."""
        read = self.read
        names = [info.name for info in infos]
        check_text(names, "the graph")
        return tuple([(name, read(info.type, name)) for name, info in zip(names, infos, strict=True)])


def type_name(dtype: int) -> str:
    """Return the name of an element type: `float`, `int64`."""
    try:
        return str(onnx.TensorProto.DataType.Name(dtype)).lower()
    except ValueError:
        return f"type {dtype}"


def value_type(proto: onnx.TypeProto) -> ValueType | None:
    """Converts a single `TypeProto`."""
    return _read_type(proto, "a type", 0)


def _read_type(proto: onnx.TypeProto, owner: str, depth: int) -> ValueType | None:
    if depth > MAX_TYPE_DEPTH:
        raise ModelError(f"the type of {quoted(owner)} is nested more than {MAX_TYPE_DEPTH} levels deep")
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        return _read_tensor(proto.tensor_type, owner, sparse=False)
    if kind == "sparse_tensor_type":
        return _read_tensor(proto.sparse_tensor_type, owner, sparse=True)
    if kind == "sequence_type":
        return SequenceType(_read_type(proto.sequence_type.elem_type, owner, depth + 1))
    if kind == "optional_type":
        return OptionalType(_read_type(proto.optional_type.elem_type, owner, depth + 1))
    if kind == "map_type":
        return MapType(proto.map_type.key_type, _read_type(proto.map_type.value_type, owner, depth + 1))
    return None


def _read_tensor(
    proto: onnx.TypeProto.Tensor | onnx.TypeProto.SparseTensor, owner: str, *, sparse: bool
) -> TensorType:
    if not proto.HasField("shape"):
        return TensorType(proto.elem_type, None, sparse)
    return TensorType(proto.elem_type, tuple([read_dim(d, owner) for d in proto.shape.dim]), sparse)


def read_dim(proto: onnx.TensorShapeProto.Dimension, owner: str) -> int | str | None:
    """Return the declared size or name of a dim, or None if it has neither."""
    kind = proto.WhichOneof("value")
    if kind == "dim_value":
        # Exporters write -1 for "not known", and onnxruntime reads every negative size so.
        return proto.dim_value if proto.dim_value >= 0 else None
    if kind != "dim_param" or proto.dim_param.strip() in ("", "?"):  # as onnx prints a dim without a name
        return None
    check_text([proto.dim_param], f"the shape of {quoted(owner)}")
    if len(proto.dim_param) > MAX_DIM_PARAM:
        raise ModelError(
            f"a dim_param of {quoted(owner)} is {len(proto.dim_param):,} characters long,"
            f" more than the {MAX_DIM_PARAM:,} that are read"
        )
    return proto.dim_param
