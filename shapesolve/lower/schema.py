# compiled: see CONTRIBUTING.md
"""Element types of outputs, from the operator schemas' type constraints.

https://onnx.ai/onnx/api/defs.html
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import onnx
from onnx import TensorProto

_NAMES = {
    "float": "FLOAT", "double": "DOUBLE", "float16": "FLOAT16", "bfloat16": "BFLOAT16", "bool": "BOOL", "string": "STRING",
}  # fmt: skip


@lru_cache(maxsize=256)
def dtype_of(name: str) -> int:
    """The TensorProto type of a schema's element type name (``float``, ``int64`` ...)."""
    return int(TensorProto.DataType.Value(_NAMES.get(name, name.upper())))


def find_schema(domain: str, op_type: str, version: int) -> Any:
    """The installed onnx's `OpSchema` of an operator at an opset version, or None. Its type stubs leave out bodies."""
    try:
        return _schema(domain, op_type, version)
    except onnx.defs.SchemaError:
        return None


@lru_cache(maxsize=4096)  # names that no schema has are not kept: there is no end to them
def _schema(domain: str, op_type: str, version: int) -> Any:
    return onnx.defs.get_schema(op_type, min(max(version, 1), 2**31 - 1), domain)


def output_types(domain: str, op_type: str, version: int) -> tuple[int | tuple[int, ...], ...]:
    """For each output its fixed element type, or the inputs with the same type variable. Empty when unknown."""
    try:
        return _output_types(domain, op_type, version)
    except onnx.defs.SchemaError:
        return ()


@lru_cache(maxsize=4096)
def _output_types(domain: str, op_type: str, version: int) -> tuple[int | tuple[int, ...], ...]:
    schema = _schema(domain, op_type, version)
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    out: list[int | tuple[int, ...]] = []
    for formal in schema.outputs:
        text = formal.type_str
        if text in allowed:
            same = tuple(i for i, p in enumerate(schema.inputs) if p.type_str == text)
            fixed = _tensor_type(allowed[text][0]) if len(allowed[text]) == 1 else 0
            out.append(fixed or same)
        else:
            out.append(_tensor_type(text) or ())
    return tuple(out)


def _tensor_type(text: str) -> int:
    if text.startswith("tensor(") and text.endswith(")"):
        return dtype_of(text[7:-1])
    return 0
