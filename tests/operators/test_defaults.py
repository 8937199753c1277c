"""Initializers that are listed as graph inputs too: only defaults, from IR version 4 on."""

import onnx.helper as oh
import pytest
from onnx import TensorProto

import shapesolve as ss


@pytest.mark.parametrize(("ir_version", "codes"), [(3, []), (8, ["SS502"])])
def test_a_default_is_used_and_said_so(ir_version: int, codes: list[str]) -> None:
    target = oh.make_tensor("target", TensorProto.INT64, [2], [0, -1])
    inputs = [
        oh.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 4]),
        oh.make_tensor_value_info("target", TensorProto.INT64, [2]),
    ]
    graph = oh.make_graph(
        [oh.make_node("Reshape", ["x", "target"], ["y"])],
        "g",
        inputs,
        [oh.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [target],
    )
    model = oh.make_model(graph, opset_imports=[oh.make_opsetid("", 13)], ir_version=ir_version)
    a = ss.analyze(model)
    assert str(a.shapes["y"]) == "[N, 12]"
    assert list(a.inputs) == ["x"]
    assert [f.code for f in a.diagnostics] == codes
