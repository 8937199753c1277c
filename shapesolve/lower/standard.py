"""Results of onnx's own shape inference, which onnxruntime uses when it loads a model.

It runs once per walk, and only for the rare nodes that onnxruntime checks with inferred sizes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from math import prod

import onnx

from ..expr import Shape, eq
from ..model import Model, Node
from .limits import MAX_ELEMENTS
from .op import Op
from .records import Sizes, Standard
from .scopes import Scopes

#: error texts for a declaration that differs from the inferred type, which onnxruntime lets pass
_MERGE = re.compile("existing (shape|type)|elem type")
_infer_shapes = onnx.shape_inference.infer_shapes  # onnx's own, also after `compat.install` has replaced it
_REFUSED = (RuntimeError, ValueError, onnx.shape_inference.InferenceError)


def standard_size(op: Op, i: int, axis: int) -> int | None:
    """Return the size of an axis of input `i` by onnx's own inference, or None.

    Inside of functions, where tensors have other names when the model is loaded, what we know stands for it.
    """
    if op.walk.scope.prefix:
        shape = op.shape(i)
        return shape[op.axis(axis, len(shape))].value if shape is not None else None
    sizes = _asked_once(op.walk).sizes.get(op.names[i])
    if sizes is None or not -len(sizes) <= axis < len(sizes):
        return None
    return sizes[axis]


def standard_rank(op: Op, i: int) -> int | None:
    """Return the rank of input `i` by onnx's own inference, or None. It is assumed to give none in functions and bodies."""
    sizes = None if op.walk.scope.prefix else _asked_once(op.walk).sizes.get(op.names[i])
    return None if sizes is None else len(sizes)


def standard_ranked(op: Op, i: int) -> bool:
    """Return True if onnx's own inference finds the rank of output `i`. Inside of functions and bodies it is taken to."""
    return bool(op.walk.scope.prefix) or not op.wants(i) or op.node.outputs[i] in _asked_once(op.walk).sizes


def standard_room(walk: Scopes, full: str) -> tuple[int, ...] | None:
    """Return a subgraph tensor's shape by onnx's own inference if all sizes are constant.

    None if some size is not, or the file is inconsistent.
    """
    sizes = _asked_once(walk).inside.get(full, (None,))
    return None if None in sizes else tuple([s for s in sizes if s is not None])


def stops_loading(walk: Scopes, node: Node) -> bool:
    """True if onnx's own inference rejects a node of this operator for its sizes or ranks. Then onnxruntime does not load the
    file.
    """
    errors = _asked_once(walk).errors
    return f"(op_type:{node.op_type}," in errors or f"(op_type:{node.op_type})" in errors


def one_number(op: Op, i: int) -> None:
    """Require that input `i` has one element: of rank 0, or 1 if onnx's own inference does not look at it."""
    shape = op.shape(i)
    if shape is None:
        return
    op.require(eq(shape.numel, 1), f"{op.name_of(i)} must have one element", (i, None))
    ranked_at_load(op, i, 0)


def ranked_at_load(op: Op, i: int, rank: int) -> Shape | None:
    """Shape of input `i`; its rank is required if onnx's own inference looks at it, which it does of constants."""
    shape = op.shape(i)
    wrong = shape is not None and len(shape) != rank
    return op.shape(i, rank) if shape is None or (wrong and stops_loading(op.walk, op.node)) else shape


def _asked_once(walk: Scopes) -> Standard:
    if walk.standard is None:
        walk.standard = infer_standard(walk.model.proto)
    return walk.standard


def newly_rejected(original: Model, changed: onnx.ModelProto) -> bool:
    """Return True if onnx's own inference rejects a changed model, but not the original.

    That happens if the sizes that are written show that a branch which is never taken cannot run.
    """
    if not any(node.subgraphs for node in original.graph.nodes):
        return False
    return bool(infer_standard(changed).errors) and not infer_standard(original.proto).errors


def infer_standard(model: onnx.ModelProto) -> Standard:
    """Run onnx's inference on a model; subgraphs only if no declaration is contradicted."""
    proto, errors = _without_weights(model), ""
    try:
        found = _infer_shapes(proto, strict_mode=True).graph
        return Standard(dict(_sizes(found, "")), dict(_inside(found, "")), "")
    except _REFUSED as e:
        errors = "\n".join(line for line in str(e).splitlines() if not _MERGE.search(line))
    try:
        return Standard(dict(_sizes(_infer_shapes(proto).graph, "")), {}, errors)
    except _REFUSED:
        return Standard({}, {}, errors)


def _inside(graph: onnx.GraphProto, prefix: str) -> Iterator[tuple[str, Sizes]]:
    labels = Counter(map(_label, graph.node))
    for node in graph.node:
        for attribute in node.attribute if labels[_label(node)] == 1 else ():
            if attribute.type == onnx.AttributeProto.GRAPH:
                inner = f"{prefix}{_label(node)}/{attribute.name}/"
                yield from _sizes(attribute.g, inner)
                yield from _inside(attribute.g, inner)


def _label(node: onnx.NodeProto) -> str:
    return node.name or f"{node.op_type}({next(filter(None, node.output), '')})"


def _sizes(graph: onnx.GraphProto, prefix: str) -> Iterator[tuple[str, Sizes]]:
    for stored in graph.initializer:
        yield prefix + stored.name, tuple(stored.dims)
    for info in (*graph.input, *graph.value_info, *graph.output):
        if info.type.tensor_type.HasField("shape"):
            dims = info.type.tensor_type.shape.dim
            yield prefix + info.name, tuple([d.dim_value if d.HasField("dim_value") else None for d in dims])


def _without_weights(proto: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto(ir_version=proto.ir_version)
    copy.opset_import.extend(proto.opset_import)
    copy.functions.extend(proto.functions)
    graph = proto.graph
    copy.graph.name = graph.name or "graph"
    copy.graph.node.extend(graph.node)
    listed = {info.name for info in graph.input}
    for kept, given in ((copy.graph.input, graph.input), (copy.graph.output, graph.output)):
        kept.extend(given)
    copy.graph.value_info.extend(graph.value_info)
    for stored in graph.initializer:
        inside = stored.data_location != onnx.TensorProto.EXTERNAL
        if inside and prod(stored.dims) <= MAX_ELEMENTS:
            copy.graph.initializer.append(stored)
        elif stored.name not in listed:
            info = onnx.helper.make_tensor_value_info(stored.name, stored.data_type, list(stored.dims))
            copy.graph.input.append(info)
    _give_constants(copy.graph, {})
    return copy


def _give_constants(graph: onnx.GraphProto, around: Mapping[str, onnx.TensorProto]) -> None:
    """Copy constants into the subgraphs that read them, because inference sees only a subgraph's own constants."""
    read = {name for node in graph.node for name in node.input} - {t.name for t in graph.initializer}
    graph.initializer.extend([around[name] for name in sorted(read & around.keys())])
    known = {**around, **{t.name: t for t in graph.initializer}}
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _give_constants(attribute.g, known)
