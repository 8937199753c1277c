"""`fix` with padding: outputs whose sizes depend on data get static shapes, and their true sizes become further outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ...analysis import Analysis
from ...answers.names import upper_bounds
from ...expr import Dim
from ..refused import Refused

#: suffixes of the tensors that are added for one output
_PARTS = ("unpadded", "shape", "missing", "pads", "static", "before")


class Padded(NamedTuple):
    """An axis of an output that is padded to its largest size; `true_size` is the output with its size before."""

    output: str
    axis: int
    size: int
    true_size: str


def pad_outputs(model: onnx.ModelProto, analysis: Analysis) -> list[Padded]:
    """Pad each output whose shape depends on data to the bound of its sizes, in place. New elements are 0.

    Raises:
        Refused: If a size has no known bound, or depends on an input size without a number.
    """
    graph, done = model.graph, list[Padded]()
    taken = {n for node in _all_nodes(graph.node) for n in (*node.input, *node.output)}
    taken |= {info.name for info in (*graph.input, *graph.output, *graph.initializer)}
    counts: dict[Dim, str] = {}

    def fresh(hint: str) -> str:
        name = next(n for n in (hint, *(f"{hint}_{k}" for k in range(len(taken) + 1))) if n not in taken)
        taken.add(name)
        return name

    for info in list(graph.output):
        shape = analysis.shapes.get(info.name)
        if shape is None:
            raise Refused(f"{info.name} has unknown rank")
        open_axes = {axis: d for axis, d in enumerate(shape) if d.terms}
        if not open_axes:
            continue
        static = [
            _largest(analysis, f"{info.name}[{axis}]", d) if d.terms else d.const
            for axis, d in enumerate(shape)
        ]
        any_type = info.type.tensor_type.elem_type in (TensorProto.BOOL, TensorProto.STRING)
        least = 13 if any_type else 11  # Pad takes widths as an input since opset 11
        if analysis.model.opsets.get("", 0) < least:
            raise Refused(f"padding {info.name} requires opset {least} or later; convert the model first")
        names = [fresh(f"{info.name}_{part}") for part in _PARTS]
        _pad(graph, info, static, names, fresh)
        for axis, d in open_axes.items():
            if d not in counts:
                counts[d] = fresh(f"{info.name}_count" if len(open_axes) == 1 else f"{info.name}_count{axis}")
                index = fresh(f"{info.name}_axis{axis}")
                graph.initializer.append(numpy_helper.from_array(np.array(axis, np.int64), index))
                gather = helper.make_node("Gather", [names[1], index], [counts[d]], fresh(counts[d]))
                graph.node.append(gather)
                graph.output.append(helper.make_tensor_value_info(counts[d], TensorProto.INT64, []))
            done.append(Padded(info.name, axis, static[axis], counts[d]))
    return done


def _pad(
    graph: onnx.GraphProto,
    info: onnx.ValueInfoProto,
    static: Sequence[int],
    names: Sequence[str],
    fresh: Callable[[str], str],
) -> None:
    """Pad an output to this shape."""
    raw, made, missing, pads, sizes, zeros = names
    for node in _all_nodes(graph.node):
        for side in (node.input, node.output):
            side[:] = [raw if name == info.name else name for name in side]
    graph.value_info.add().CopyFrom(info)
    graph.value_info[-1].name = raw
    for name, numbers in ((sizes, static), (zeros, [0] * len(static))):
        graph.initializer.append(numpy_helper.from_array(np.array(numbers, np.int64), name))
    graph.node.extend(
        [
            helper.make_node("Shape", [raw], [made], fresh(made)),
            helper.make_node("Sub", [sizes, made], [missing], fresh(missing)),
            helper.make_node("Concat", [zeros, missing], [pads], fresh(pads), axis=0),
            helper.make_node("Pad", [raw, pads], [info.name], fresh(info.name)),
        ]
    )
    info.type.tensor_type.ClearField("shape")
    for size in static:
        info.type.tensor_type.shape.dim.add().dim_value = size


def _largest(analysis: Analysis, place: str, d: Dim) -> int:
    """Return the largest value of a size that depends on data."""
    largest = upper_bounds(analysis._solved)
    free = sorted(
        d.free.union(*(b.free for n in d.free for b in largest.get(n, ()))) & analysis.symbols.keys()
    )
    if free:
        raise Refused(f"{place} depends on {', '.join(free)}: padding requires a size for each input dim")
    bounds = analysis.bounds(d)
    if bounds[1] is None or bounds.assumptions:
        raise Refused(f"{place} depends on data, and its largest size is unknown")
    return bounds[1]


def _all_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _all_nodes(graph.node)
