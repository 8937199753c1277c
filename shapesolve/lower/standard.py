"""What onnx's own inference makes of the whole model: what onnxruntime knows of its tensors when it loads the file.

It runs once per walk, and only for the rare node that onnxruntime judges by what it knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import onnx

from ..model import Model
from .op import Op
from .records import Sizes
from .scopes import Scopes

#: elements of an initializer that inference may read; larger ones count by their type and dims only
_READ = 1024


def standard_size(op: Op, i: int, axis: int) -> int | None:
    """The size of an axis of input `i`, where onnx's own inference knows it.

    Inside of functions, where tensors have other names when the model is loaded, what we know stands for it.
    """
    if op.walk.scope.prefix:
        shape = op.shape(i)
        return shape[op.axis(axis, len(shape))].value if shape is not None else None
    sizes = _asked_once(op.walk).get(op.names[i])
    if sizes is None or not -len(sizes) <= axis < len(sizes):
        return None
    return sizes[axis]


def standard_rank(op: Op, i: int) -> int | None:
    """The rank of input `i`, where onnx's own inference knows it; inside of functions and bodies it is taken not to."""
    sizes = None if op.walk.scope.prefix else _asked_once(op.walk).get(op.names[i])
    return None if sizes is None else len(sizes)


def standard_ranked(op: Op, i: int) -> bool:
    """Does onnx's own inference know the rank of output `i`? Inside of functions and bodies it is taken to."""
    return bool(op.walk.scope.prefix) or not op.wants(i) or op.node.outputs[i] in _asked_once(op.walk)


def _asked_once(walk: Scopes) -> Mapping[str, Sizes]:
    if walk.standard is None:
        walk.standard = standard_sizes(walk.model)
    return walk.standard


def standard_sizes(model: Model) -> Mapping[str, Sizes]:
    """Sizes of the tensors of the main graph by name, None where one is not a number; unranked tensors are absent."""
    try:
        found = onnx.shape_inference.infer_shapes(_without_weights(model.proto))
    except (RuntimeError, ValueError):
        return {}
    return dict(_sizes(found.graph))


def _sizes(graph: onnx.GraphProto) -> Iterator[tuple[str, Sizes]]:
    for stored in graph.initializer:
        yield stored.name, tuple(stored.dims)
    for info in (*graph.input, *graph.value_info, *graph.output):
        if info.type.tensor_type.HasField("shape"):
            dims = info.type.tensor_type.shape.dim
            yield info.name, tuple([d.dim_value if d.HasField("dim_value") else None for d in dims])


def _without_weights(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A copy whose large initializers are inputs."""
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
        if inside and prod(stored.dims) <= _READ:
            copy.graph.initializer.append(stored)
        elif stored.name not in listed:
            info = onnx.helper.make_tensor_value_info(stored.name, stored.data_type, list(stored.dims))
            copy.graph.input.append(info)
    return copy
