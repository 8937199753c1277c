"""Element types of outputs, from the operator schemas' type constraints.

https://onnx.ai/onnx/api/defs.html
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import onnx
from onnx import TensorProto

from ..graph import Node
from .types import Interner, Known, Tensor

if TYPE_CHECKING:
    from .op import Op
    from .registry import Rule

_NAMES = {
    "float": "FLOAT", "double": "DOUBLE", "float16": "FLOAT16", "bfloat16": "BFLOAT16", "bool": "BOOL", "string": "STRING",
}  # fmt: skip


def dtype_of(name: str) -> int:
    """The TensorProto type of a schema's element type name (``float``, ``int64`` ...)."""
    return int(TensorProto.DataType.Value(_NAMES.get(name, name.upper())))


@lru_cache(maxsize=4096)
def find_schema(domain: str, op_type: str, version: int) -> Any:
    """The installed onnx's `OpSchema` of an operator at an opset version, or None (its type stubs leave out bodies)."""
    try:
        return onnx.defs.get_schema(op_type, min(max(version, 1), 2**31 - 1), domain)
    except onnx.defs.SchemaError:
        return None


@lru_cache(maxsize=4096)
def output_types(domain: str, op_type: str, version: int) -> tuple[int | tuple[int, ...], ...]:
    """For each output its fixed element type, or the inputs that share its type variable (empty when unknown)."""
    schema = find_schema(domain, op_type, version)
    if schema is None:
        return ()
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


def fill_types(
    node: Node, version: int, op: Op, rule: Rule | None, outputs: tuple[Known | None, ...], interner: Interner
) -> tuple[Known | None, ...]:
    """Outputs with the element types that the rule left open, or that nothing else is known of."""
    for known in outputs:
        if known is None or (isinstance(known, Tensor) and not known.dtype):
            break
    else:
        return outputs
    declared = rule.types if rule is not None and rule.types is not None else None
    spec = output_types(node.domain, node.op_type, version) if declared is None else ()
    done: list[Known | None] = []
    for i, known in enumerate(outputs):
        if known is not None and (not isinstance(known, Tensor) or known.dtype):
            done.append(known)
            continue
        dtype = 0
        if declared is not None:
            source = declared[min(i, len(declared) - 1)]
            dtype = dtype_of(source) if isinstance(source, str) else op.dtype(source)
            if isinstance(source, int) and not op.has(source):
                dtype = op.dtype(0)  # what an absent input would hold has the type of the first
        elif spec:
            entry = spec[min(i, len(spec) - 1)]
            dtype = entry if isinstance(entry, int) else next((op.dtype(j) for j in entry if op.dtype(j)), 0)
        elif rule is not None:
            dtype = op.dtype(0)
        if known is None:
            done.append(interner.tensor(dtype, None) if dtype else None)
        else:
            done.append(interner.tensor(dtype, known.shape, known.value))
    return tuple(done)
