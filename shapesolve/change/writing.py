"""Writes a draft as a `ModelProto`.

Unchanged parts are copied message by message. External data stays in its files, and so does the data of a model read from a
file (see `model.saving`). Weights in the proto are copied once, by protobuf, if they are still used.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import onnx
from onnx import helper, numpy_helper

from .draft import Draft, DraftGraph, DraftNode

#: fields that are rewritten
_REWRITTEN = frozenset(("node", "initializer", "sparse_initializer", "value_info", "quantization_annotation"))
#: keys of metadata that describe the model before the change
_OWN_METADATA = "shapesolve."


def write(draft: Draft) -> onnx.ModelProto:
    """The edited draft as a `ModelProto`."""
    original = draft.model.proto
    bodies = {key: _nodes(body) for key, body in draft.functions.items()}
    nodes = _nodes(draft.graph)
    model = onnx.ModelProto()
    _copy(original, model, except_for=frozenset(("graph",)))
    _keep(model.metadata_props, [not p.key.startswith(_OWN_METADATA) for p in model.metadata_props])
    for proto in model.functions:
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        key = domain, proto.name, proto.overload
        _finish_function(draft.functions[key], proto, bodies[key])
    _finish_graph(draft.graph, original.graph, model.graph, nodes)
    return model


def _copy(source: Any, target: Any, except_for: frozenset[str]) -> None:
    for field, value in source.ListFields():
        if field.name in except_for:
            continue
        if field.is_repeated:
            getattr(target, field.name).extend(value)
        elif field.message_type is not None:
            getattr(target, field.name).CopyFrom(value)
        else:
            setattr(target, field.name, value)


def _finish_function(body: DraftGraph, proto: onnx.FunctionProto, nodes: list[onnx.NodeProto]) -> None:
    there = body.made()
    del proto.node[:]
    proto.node.extend([*_constant_nodes(_added(body, _read(body))), *nodes])
    _keep(proto.value_info, [info.name in there for info in proto.value_info])


def _read(graph: DraftGraph) -> set[str]:
    return {*graph.outputs}.union(*[node.reads() for node in graph.nodes])


def _added(graph: DraftGraph, read: set[str]) -> list[onnx.TensorProto]:
    """New constants of the graph that are read; the rest was left over by rejected edits."""
    return [numpy_helper.from_array(array, name) for name, array in graph.added.items() if name in read]


def _constant_nodes(added: list[onnx.TensorProto]) -> list[onnx.NodeProto]:
    return [helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in added]


def _finish_graph(
    graph: DraftGraph, source: onnx.GraphProto, target: onnx.GraphProto, nodes: list[onnx.NodeProto]
) -> None:
    there = graph.made()
    used = _read(graph) | {info.name for info in source.input}
    _copy(source, target, except_for=_REWRITTEN)
    # before IR version 4 an initializer had to be an input as well, and inputs stay what they are
    as_nodes = graph.draft.model.ir_version < 4  # an initializer is an input as well
    added = _added(graph, used)
    target.node.extend([*_constant_nodes(added), *nodes] if as_nodes else nodes)
    target.initializer.extend([t for t in source.initializer if t.name in used])
    target.sparse_initializer.extend([t for t in source.sparse_initializer if t.values.name in used])
    target.value_info.extend([info for info in source.value_info if info.name in there])
    annotations = source.quantization_annotation
    target.quantization_annotation.extend([a for a in annotations if a.tensor_name in there])
    for name, tensor in graph.weights.items():
        if name in used:
            target.initializer.append(tensor)
            target.initializer[-1].name = name
    if not as_nodes:
        target.initializer.extend(added)


def _keep(items: Any, kept: Iterable[bool]) -> None:
    """Drops in place the items of a repeated protobuf field whose flag in `kept` is False."""
    for index in [i for i, keep in enumerate(kept) if not keep][::-1]:
        del items[index]


def _nodes(graph: DraftGraph) -> list[onnx.NodeProto]:
    return [_node(node) for node in graph.nodes]


def _node(node: DraftNode) -> onnx.NodeProto:
    origin = node.origin
    if origin is None:
        made = helper.make_node(node.op_type, node.inputs, node.outputs, node.name, domain=node.domain)
        made.attribute.extend([helper.make_attribute(name, value) for name, value in node.own.items()])
        return made
    proto = origin.proto
    kind = node.op_type == origin.op_type and node.domain == origin.domain
    if kind and not node.own and not node.graphs:
        if (*node.inputs,) == origin.inputs and (*node.outputs,) == origin.outputs:
            return proto
        changed = onnx.NodeProto()
        changed.CopyFrom(proto)
    else:
        changed = onnx.NodeProto()
        _copy(proto, changed, except_for=frozenset(("attribute",)))
        changed.op_type = node.op_type
        if node.domain != origin.domain:
            changed.domain = node.domain
        _write_attributes(node, proto, changed)
    del changed.input[:], changed.output[:]
    changed.input.extend(node.inputs)
    changed.output.extend(node.outputs)
    return changed


def _write_attributes(node: DraftNode, source: onnx.NodeProto, target: onnx.NodeProto) -> None:
    """Copy attributes of the original, with subgraphs replaced by their edited versions.

    Attributes that the draft replaces are skipped (a value of None removes one). If the node has another operator now,
    the original's attributes do not apply.
    """
    kept = source.attribute if node.op_type == source.op_type else ()
    for attribute in kept:
        if attribute.name in node.own:
            continue
        graph = node.graphs.get(attribute.name)
        if graph is None and not attribute.graphs:
            target.attribute.append(attribute)
            continue
        made = target.attribute.add()
        _copy(attribute, made, except_for=frozenset(("g", "graphs")))
        if graph is not None:
            _finish_graph(graph, attribute.g, made.g, _nodes(graph))
        for i, inner in enumerate(attribute.graphs):
            drafted = node.graphs[f"{attribute.name}[{i}]"]
            _finish_graph(drafted, inner, made.graphs.add(), _nodes(drafted))
    target.attribute.extend([helper.make_attribute(k, v) for k, v in node.own.items() if v is not None])
