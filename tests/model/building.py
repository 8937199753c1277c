"""Small models for the tests of this room."""

from collections.abc import Sequence
from typing import Any

import onnx
from onnx import TensorProto, helper

FLOAT = TensorProto.FLOAT


def node(op: str, inputs: str, outputs: str, name: str = "", **attributes: Any) -> onnx.NodeProto:
    """A node; tensor names are separated by blanks, `-` leaves one out."""
    names = [["" if n == "-" else n for n in text.split()] for text in (inputs, outputs)]
    return helper.make_node(op, *names, name=name, **attributes)


def value(
    name: str, dims: Sequence[int | str | None] | None = ("N",), dtype: int = FLOAT
) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, dims)


def graph(nodes: Sequence[onnx.NodeProto], inputs: str, outputs: str, **parts: Any) -> onnx.GraphProto:
    ins, outs = ([value(n) for n in text.split()] for text in (inputs, outputs))
    return helper.make_graph(nodes, parts.pop("name", "g"), ins, outs, **parts)


def model(
    nodes: Sequence[onnx.NodeProto], inputs: str = "x", outputs: str = "y", **parts: Any
) -> onnx.ModelProto:
    opsets = parts.pop("opsets", {"": 21})
    kept = {key: parts.pop(key) for key in ("functions", "ir_version") if key in parts}
    return helper.make_model(
        graph(nodes, inputs, outputs, **parts),
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in opsets.items()],
        **{"ir_version": 10, **kept},
    )


def function(
    name: str, inputs: str, outputs: str, nodes: Sequence[onnx.NodeProto], **parts: Any
) -> onnx.FunctionProto:
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_function("local", name, inputs.split(), outputs.split(), nodes, opsets, **parts)


def nested(depth: int) -> onnx.ModelProto:
    """`depth` graphs, each in an If of the one around it, built in place as protobuf cannot copy them."""
    result = model([], "x c", "y")
    scope = result.graph
    for level in range(depth):
        owner = scope.node.add(op_type="If", name=f"if{level}", input=["c"], output=["y"])
        attribute = owner.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH)
        scope = attribute.g
        scope.output.add(name="y")
    scope.node.add(op_type="Identity", name="inner", input=["x"], output=["y"])
    return result
