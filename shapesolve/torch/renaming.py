"""The exported model in the words of the declaration: ``s27`` becomes ``seq`` wherever the model says it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx

from ..expr import Dim, DimSyntaxError, parse_dim
from .declared import Declaration


def renamed(
    proto: onnx.ModelProto, table: Mapping[str, Dim], declaration: Declaration, names: Sequence[str]
) -> onnx.ModelProto:
    """A copy of the model's graph whose dims are named as declared; weights are shared with a reference, not read.

    `table` says what PyTorch's symbols are; `names` are the graph inputs that belong to the declaration's inputs.
    """
    model = onnx.ModelProto()
    model.CopyFrom(proto)
    inputs = {v.name: v for v in model.graph.input}
    for leaf, name in enumerate(names):
        for axis in declaration.at(leaf):
            dims = inputs[name].type.tensor_type.shape.dim if name in inputs else []
            if axis.index < len(dims) and dims[axis.index].dim_param in table:
                dims[axis.index].dim_param = str(axis.size)
    for value in _values(model.graph):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                _rename(dim, table)
    return model


def dim_names(model: onnx.ModelProto) -> frozenset[str]:
    """The names of sizes in the dims of a model's inputs."""
    found: set[str] = set()
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            with contextlib.suppress(DimSyntaxError):
                found |= parse_dim(dim.dim_param).free if dim.dim_param else set()
    return frozenset(found)


def _rename(dim: Any, table: Mapping[str, Dim]) -> None:
    try:
        size = parse_dim(dim.dim_param)
    except DimSyntaxError:
        return
    if size.value is not None:
        dim.dim_value = size.value
    elif size.free & table.keys():
        dim.dim_param = str(size.subs(table))


def _values(graph: onnx.GraphProto) -> Iterator[onnx.ValueInfoProto]:
    yield from graph.input
    yield from graph.output
    yield from graph.value_info
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _values(attribute.g)
