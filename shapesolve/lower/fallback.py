"""Lowers nodes whose operator has no declared rule.

They are model-local functions, have a body in their schema, or use onnx's own inference; otherwise the outputs are
unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import onnx
from onnx import helper

from ..expr import Dim
from ..model import (
    AttrRef,
    Function,
    SequenceType,
    TensorType,
    ValueType,
    function_of,
    value_type,
)
from .declared import declared_known
from .interface import find_schema
from .needed import need_inside
from .op import InvalidNode, MalformedNode, Op
from .records import Body, Scope, Steps
from .types import Known, Sequence, Tensor


def lower_unregistered(op: Op, scope: Scope) -> Steps:
    """Lower a node without a rule: by its function body, by onnx's inference, or to unknown outputs."""
    node = op.node
    function = op.walk.model.functions.get((node.domain, node.op_type, node.overload))
    if function is not None:
        if op.n_in > len(function.inputs) or op.n_out > len(function.outputs):
            raise MalformedNode(
                f"function {function.name} has {len(function.inputs)} inputs and {len(function.outputs)} outputs, "
                f"but is called with {op.n_in} and {op.n_out}"
            )
        return (yield from lower_function(op, scope, function))
    schema = find_schema(node.domain, node.op_type, op.version)
    if schema is not None:
        body = schema_body(op, schema)
        if body is not None:
            return (yield from lower_function(op, scope, body))
        inferred = infer_by_schema(op, schema)
        if inferred is not None:
            return inferred
    else:
        domain = f"{node.domain}." if node.domain else ""
        op.walk.note(
            "unknown-op",
            f"{domain}{node.op_type} is not a known operator at opset {op.version}: its outputs are unknown",
            node,
            scope,
        )
    op.pure = False
    return [None] * op.n_out


def lower_function(op: Op, scope: Scope, function: Function) -> Steps:
    """Lower the body of a function in its own scope, named after the calling node."""
    walk, node = op.walk, op.node
    op.pure = False
    # A node under a condition counts more, because each case is kept separately.
    walk.expandable -= len(function.nodes) * (1 if scope.guard.is_true else 20)
    if walk.expandable < 0:
        walk.note("open", "too many nested function calls: this call is not analyzed", node, scope)
        return [None] * op.n_out
    inner = walk.under(scope, f"{scope.prefix}{node.label}/")
    inner.parent, inner.opsets = None, function.opsets
    theirs = walk.model.opsets
    own = (op.node.domain, op.node.op_type, op.node.overload) in walk.model.functions
    if own and theirs.keys() >= function.opsets.keys() and op.as_onnxruntime("function-opsets"):
        inner.opsets = theirs
    inner.attrs = call_attributes(op, function)
    for i, name in enumerate(function.inputs):
        known = op.known(i)
        if known is not None:
            inner.env[name] = known
            walk.state.aliases[inner.prefix + name] = (node.inputs[i], scope.prefix)
    need_inside(op, inner.prefix, function.outputs[: op.n_out])
    yield Body(function.nodes, inner)
    return [walk.read(name, inner) for name in function.outputs]


def call_attributes(op: Op, function: Function) -> dict[str, Any]:
    """Attributes of a function call, with the function's defaults for missing ones."""
    given: dict[str, Any] = dict(function.defaults)
    for name, value in op.node.attributes.items():
        if isinstance(value, AttrRef):
            value = (op.attrs or {}).get(value.name)
        if value is not None:
            given[name] = value
    missing = [a for a in function.attributes if a not in given]
    if missing and not op.as_onnxruntime("function-attributes"):
        raise InvalidNode(f"the call of function {function.name} lacks attribute {missing[0]}")
    return given


# ---------------------------------------------------------------------- schema bodies


@lru_cache(maxsize=1024)
def _plain_body(domain: str, op_type: str, version: int) -> Function | None:
    schema = find_schema(domain, op_type, version)
    if schema is None or not schema.has_function:
        return None
    return _with_defaults(schema, schema.function_body, version)


def schema_body(op: Op, schema: Any) -> Function | None:
    """Return the function body in an operator's schema; None without one."""
    node = op.node
    if schema.has_context_dependent_function:
        types = [_type_proto(op.known(i)) for i in range(op.n_in)]
        if any(t is None for i, t in enumerate(types) if op.has(i)):
            return None
        given = [t.SerializeToString() if t is not None else b"" for t in types]
        try:
            body = schema.get_context_dependent_function(node.proto.SerializeToString(), given)
        except (RuntimeError, onnx.shape_inference.InferenceError):
            return None
        if not body:
            return None
        return _with_defaults(schema, onnx.FunctionProto.FromString(body), op.version)
    return _plain_body(node.domain, node.op_type, op.version)


def _with_defaults(schema: Any, body: onnx.FunctionProto, version: int) -> Function | None:
    if not body.node:
        return None
    body = onnx.FunctionProto.FromString(body.SerializeToString())
    produced = {name for n in body.node for name in n.output}.union(body.input)
    while body.output and body.output[-1] not in produced:  # an optional output that this node leaves out
        body.output.pop()
    if not any(o.domain == schema.domain for o in body.opset_import):
        body.opset_import.append(helper.make_opsetid(schema.domain, version))
    named = {a.name for a in body.attribute_proto}
    for name, attribute in schema.attributes.items():
        if name in named or attribute.required:
            continue
        if attribute.default_value.name:
            body.attribute_proto.append(attribute.default_value)
        named.add(name)
    kept = [a for a in body.attribute if not any(p.name == a for p in body.attribute_proto)]
    required = {n for n, a in schema.attributes.items() if a.required}
    del body.attribute[:]
    body.attribute.extend(a for a in kept if a in required)
    return function_of(body)


# ---------------------------------------------------------------------- onnx's own inference


def infer_by_schema(op: Op, schema: Any) -> list[Known | None] | None:
    """Return the output types that onnx's inference gives for this node, or None.

    For standard operators, only numbers and ranks are used. For a function that a user registered with a custom
    schema, each
    size gets a name, and the inferred relations between these names are used too.
    """
    names: dict[Dim, str] | None = {} if schema.domain not in _STANDARD_DOMAINS else None
    types = {name: _type_proto(op.known(i), names) for i, name in enumerate(op.node.inputs) if name}
    if any(t is None for t in types.values()):
        return None
    tensors = {name: _tensor_proto(op, i) for i, name in enumerate(op.node.inputs) if name}
    try:
        found = onnx.shape_inference.infer_node_outputs(
            schema,
            op.node.proto,
            {k: t for k, t in types.items() if t is not None},
            {k: t for k, t in tensors.items() if t is not None},
            opset_imports=[helper.make_opsetid(op.node.domain, op.version)],
        )
    except onnx.shape_inference.InferenceError as e:
        op.walk.note(
            "open",
            f"onnx's shape inference reports: {' '.join(str(e).split())[:300]}",
            op.node,
            op.walk.scope,
        )
        return None
    except (RuntimeError, ValueError, TypeError):
        return None
    sizes = {name: d for d, name in (names or {}).items()}
    return [_from_proto(op, found.get(name), sizes) for name in op.node.outputs]


def inferred_by_schema(op: Op) -> list[Known | None]:
    """Outputs of a node whose rule failed, by onnx's inference: ranks and constant sizes."""
    schema = find_schema(op.node.domain, op.node.op_type, op.version)
    return (infer_by_schema(op, schema) if schema is not None else None) or []


#: domains with inference functions of onnx's own
_STANDARD_DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training", "ai.onnx.training")


def _from_proto(op: Op, proto: onnx.TypeProto | None, sizes: Mapping[str, Dim]) -> Known | None:
    if proto is None:
        return None
    declared: ValueType | None = value_type(proto)
    if isinstance(declared, TensorType) and declared.dims is not None:
        if op.too_deep(len(declared.dims)):
            return op.out(None, declared.dtype)
        dims: list[Dim | int] = []
        for d in declared.dims:
            known = sizes.get(d) if isinstance(d, str) else d
            if known is None:
                known = op.fresh("found by onnx's own inference")
                op.walk.state.unknown |= known.free
            dims.append(known)
        return op.out(dims, declared.dtype)
    return declared_known(op.walk, declared) if isinstance(declared, (TensorType, SequenceType)) else None


def _type_proto(known: Known | None, names: dict[Dim, str] | None = None) -> onnx.TypeProto | None:
    """Convert a known type to an onnx `TypeProto`.

    Symbolic sizes get names, the same name for the same size, collected in `names`.
    """
    if isinstance(known, Tensor) and known.dtype:
        shape: list[int | str | None] | None = None
        if known.shape is not None:
            shape = [d.value for d in known.shape]
            for i, d in enumerate(known.shape if names is not None else ()):
                if names is not None and d.value is None:
                    shape[i] = names.setdefault(d, f"size{len(names)}")
        return helper.make_tensor_type_proto(known.dtype, shape)
    if isinstance(known, Sequence) and known.elem is not None:
        inner = _type_proto(known.elem, names)
        return None if inner is None else helper.make_sequence_type_proto(inner)
    return None


def _tensor_proto(op: Op, i: int) -> onnx.TensorProto | None:
    value, dtype = op.value(i), op.dtype(i)
    known = value.concrete if value is not None and value.elems is not None else None
    if known is None or value is None or value.shape is None or not dtype:
        return None
    return helper.make_tensor(op.node.inputs[i], dtype, value.shape, known)
