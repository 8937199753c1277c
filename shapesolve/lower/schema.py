# compiled: see CONTRIBUTING.md
"""Element types of outputs, from the operator schemas' type constraints.

https://onnx.ai/onnx/api/defs.html
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import onnx
from onnx import TensorProto

from .types import Known, Tensor

if TYPE_CHECKING:
    from .op import Op

_NAMES = {
    "float": "FLOAT", "double": "DOUBLE", "float16": "FLOAT16", "bfloat16": "BFLOAT16", "bool": "BOOL", "string": "STRING",
}  # fmt: skip


@lru_cache(maxsize=256)
def dtype_of(name: str) -> int:
    """The TensorProto type of a schema's element type name (``float``, ``int64`` ...)."""
    return int(TensorProto.DataType.Value(_NAMES.get(name, name.upper())))


def find_schema(domain: str, op_type: str, version: int) -> Any:
    """The installed onnx's `OpSchema` of an operator at an opset version, or None (its type stubs leave out bodies)."""
    try:
        return _schema(domain, op_type, version)
    except onnx.defs.SchemaError:
        return None


@lru_cache(maxsize=4096)  # names that no schema has are not kept: there is no end to them
def _schema(domain: str, op_type: str, version: int) -> Any:
    return onnx.defs.get_schema(op_type, min(max(version, 1), 2**31 - 1), domain)


def output_types(domain: str, op_type: str, version: int) -> tuple[int | tuple[int, ...], ...]:
    """For each output its fixed element type, or the inputs that share its type variable (empty when unknown)."""
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


def fill_types(op: Op, outputs: tuple[Known | None, ...]) -> tuple[Known | None, ...]:
    """Outputs with the element types that the rule left open, or that nothing else is known of."""
    for known in outputs:
        if known is None or (type(known) is Tensor and not known.dtype):
            break
    else:
        return outputs
    interner = op.walk.interner
    done: list[Known | None] = []
    for i, known in enumerate(outputs):
        if known is None:
            dtype = output_dtype(op, i)
            known = interner.tensor(dtype, None) if dtype else None
        elif isinstance(known, Tensor) and not known.dtype:
            dtype = output_dtype(op, i)
            known = interner.tensor(dtype, known.shape, known.value) if dtype else known
        done.append(known)
    return tuple(done)


def output_dtype(op: Op, i: int) -> int:
    """The element type of output `i` that the rule declares or the operator's schema says, 0 when neither does."""
    rule = op.rule
    if rule is not None and rule.types is not None:
        source = rule.types[min(i, len(rule.types) - 1)]
        if isinstance(source, str):
            return dtype_of(source)
        return op.dtype(
            source if op.has(source) else 0
        )  # what an absent input would hold has the type of the first
    node = op.node
    spec = output_types(node.domain, node.op_type, op.version)
    if not spec:
        return op.dtype(0) if rule is not None and rule.domain == "com.microsoft" else 0
    entry = spec[min(i, len(spec) - 1)]
    if isinstance(entry, int):
        return entry
    for j in entry:
        dtype = op.dtype(j)
        if dtype:
            return dtype
    return 0
