"""Declarations of an exported program or model itself, and its model with the declared symbols."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx

from ..analysis import Analysis
from ..expr import Dim, DimSyntaxError, parse_dim
from ..lower.types import Tensor
from .declared import Axis, Declaration, Root
from .guards import input_names, input_shapes

_LEAST = 2  # torch.export's own lower bound for what it calls dynamic: says nothing of the declaration


def declared_by_program(program: Any, proto: onnx.ModelProto | None = None) -> Declaration:
    """The symbolic sizes of an `ExportedProgram`'s inputs, with its ranges. Named as in `proto`, if given."""
    ranges = {str(k): v for k, v in program.range_constraints.items()}
    written = _written(proto)
    roots: dict[str, Root] = {}
    axes: list[Axis] = []
    names = input_names(program)
    for leaf, shape in enumerate(input_shapes(program)):
        for index, size in enumerate(shape or ()):
            text = str(size)
            if text.isdigit():
                continue
            shown = written.get((names[leaf], index), text)
            try:
                dim = parse_dim(shown)
            except DimSyntaxError:
                continue
            for name in sorted(dim.free):
                roots.setdefault(name, Root(name, *_range(ranges.get(text if dim.name == name else name))))
            limits = _range(ranges.get(text))
            axes.append(Axis(leaf, names[leaf], index, dim, _LEAST, _quoted(shown, *limits)))
    return Declaration(roots, tuple(axes), tuple(names), tuple(names))


def declared_by_model(analysis: Analysis) -> Declaration:
    """The symbolic sizes of a model's inputs; a file states no ranges."""
    roots: dict[str, Root] = {}
    axes: list[Axis] = []
    names = list(analysis.inputs)
    for leaf, (name, known) in enumerate(analysis.inputs.items()):
        shape = known.shape if isinstance(known, Tensor) else None
        for index, size in enumerate(shape or ()):
            if size.free:
                for root in sorted(size.free):
                    roots.setdefault(root, Root(root))
                axes.append(Axis(leaf, name, index, size, 2, str(size)))
    return Declaration(roots, tuple(axes), tuple(names), tuple(names))


def _written(proto: onnx.ModelProto | None) -> dict[tuple[str, int], str]:
    if proto is None:
        return {}
    return {
        (value.name, i): dim.dim_param
        for value in proto.graph.input
        for i, dim in enumerate(value.type.tensor_type.shape.dim)
        if dim.dim_param
    }


def _range(known: Any) -> tuple[int | None, int | None]:
    if known is None:
        return None, None
    low, high = (_number(known.lower), _number(known.upper))
    return low if low is not None and low > _LEAST else None, high


def _quoted(name: str, low: int | None, high: int | None) -> str:
    """The range that a program states, as a condition."""
    if low is None and high is None:
        return name
    return f"{f'{low} <= ' if low is not None else ''}{name}{f' <= {high}' if high is not None else ''}"


def _number(bound: Any) -> int | None:
    try:
        value = int(bound)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return None
    return value if abs(value) < 2**62 else None


def renamed(
    proto: onnx.ModelProto, table: Mapping[str, Dim], declaration: Declaration, names: Sequence[str]
) -> onnx.ModelProto:
    """A copy of the model's graph with dims named as declared. Weights are shared by reference, not read.

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
