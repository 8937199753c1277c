"""Initializers that are listed as graph inputs too: only defaults, from IR version 4 on."""

import numpy as np
import onnx
import onnx.helper as oh
import pytest
from onnx import TensorProto

import shapesolve as ss

from ..building import session


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


def overridable(nodes: list[onnx.NodeProto], **defaults: onnx.TensorProto) -> onnx.ModelProto:
    """Nodes from x [6, 4] to y, with stored tensors that are inputs too."""
    inputs = [oh.make_tensor_value_info("x", TensorProto.FLOAT, [6, 4])]
    inputs += [oh.make_tensor_value_info(n, t.data_type, list(t.dims)) for n, t in defaults.items()]
    for name, stored in defaults.items():
        stored.name = name
    y = oh.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = oh.make_graph(nodes, "g", inputs, [y], list(defaults.values()))
    return oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=8)


def resized(*scales: str) -> onnx.ModelProto:
    """x resized by the scales, or by their product; and by a bias, of which no size depends."""
    stored = {n: oh.make_tensor(n, TensorProto.FLOAT, [2], [1.0, 1.5]) for n in scales}
    product = oh.make_node("Mul", [scales[0], scales[-1]], ["product"])
    resize = oh.make_node("Resize", ["b", "", "product" if len(scales) > 1 else scales[0]], ["y"])
    stored["bias"] = oh.make_tensor("bias", TensorProto.FLOAT, [4], [1.0] * 4)
    nodes = [oh.make_node("Add", ["x", "bias"], ["b"]), *([product] if len(scales) > 1 else []), resize]
    return overridable(nodes, **stored)


def branched() -> onnx.ModelProto:
    """x as it is, or its rows twice."""
    y = oh.make_tensor_value_info("out", TensorProto.FLOAT, None)
    once = oh.make_graph([oh.make_node("Identity", ["x"], ["out"])], "once", [], [y])
    twice = oh.make_graph([oh.make_node("Concat", ["x", "x"], ["out"], axis=0)], "twice", [], [y])
    node = oh.make_node("If", ["cond"], ["y"], then_branch=once, else_branch=twice)
    return overridable([node], cond=oh.make_tensor("cond", TensorProto.BOOL, [], [True]))


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (resized("scales"), {"scales": np.array([2, 1.5], "f4")}),
        (resized("scales", "more"), {"more": np.array([2, 1.5], "f4")}),
        (branched(), {"cond": np.array(False)}),
    ],
)
def test_a_proof_names_the_default_that_a_size_depends_on(
    model: onnx.ModelProto, given: dict[str, np.ndarray]
) -> None:
    loaded = session(model)
    x = np.zeros((6, 4), "f4")
    assert len(loaded.run(["y"], {"x": x})[0]) == 6
    assert len(loaded.run(["y"], {"x": x, **given})[0]) == 12
    a = ss.analyze(model)
    assert a.shapes["y"][0] == 6
    (name,) = given
    proof = a.prove("y[0] == x[0]")
    assert not proof
    assert f"{name} has its default value" in proof.assumptions
    assert not any("bias" in f.title for f in a.diagnostics)
