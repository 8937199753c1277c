"""Reads an ONNX file or proto into a checked, ordered, immutable `Model`; large weights stay on disk."""

from .constant import Constant, SparseConstant
from .errors import ModelError
from .graph import Function, FunctionKey, Graph, Model
from .node import AttrRef, Node
from .read import function_of, read_model
from .types import (
    MapType,
    OptionalType,
    SequenceType,
    TensorType,
    ValueType,
    value_type,
)

__all__ = [
    "AttrRef",
    "Constant",
    "Function",
    "FunctionKey",
    "Graph",
    "MapType",
    "Model",
    "ModelError",
    "Node",
    "OptionalType",
    "SequenceType",
    "SparseConstant",
    "TensorType",
    "ValueType",
    "function_of",
    "read_model",
    "value_type",
]
