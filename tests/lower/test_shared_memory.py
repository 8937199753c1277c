"""Declared shapes that are wrong at some sizes, and the memory that onnxruntime shares because of them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

import shapesolve as ss
from tests.building import session

POOL = ("MaxPool", "a", "half"), ("Resize", "half", "up")
MADE = {
    "buffer_of_the_input": (*POOL, ("ReduceMax", "up", "y")),
    "a_later_tensor": (*POOL, ("ReduceMax", "up", "top"), ("Tanh", "a", "z"), ("Mul", "z top", "y")),
    "another_element_type": (
        *POOL,
        ("ReduceMax", "up", "top"),
        ("Cast", "a", "z"),
        ("Cast", "z", "w"),
        ("Mul", "w top", "y"),
    ),
    "both_in_use": (*POOL, ("ReduceMax", "up", "top"), ("Mul", "a top", "y")),
    "in_place": (*POOL, ("ReduceMax", "up", "top"), ("Add", "a top", "z"), ("Mul", "z top", "y")),
    "a_larger_buffer": (*POOL, ("ReduceMax", "up", "top"), ("Softmax", "up", "s"), ("Mul", "s top", "y")),
}
ATTRIBUTES = {
    "MaxPool": {"kernel_shape": [2], "strides": [2], "ceil_mode": 1},
    "Resize": {"mode": "nearest"},
}


def _model(made: tuple[tuple[str, str, str], ...], declared: tuple[str, ...]) -> onnx.ModelProto:
    nodes = [helper.make_node("Relu", ["x"], ["a"])]
    for op, read, name in made:
        inputs = [read, "", "twice"] if op == "Resize" else read.split()
        to = {"to": TensorProto.FLOAT if name == "w" else TensorProto.INT32} if op == "Cast" else {}
        nodes.append(helper.make_node(op, inputs, [name], **ATTRIBUTES.get(op, {}), **to))

    def info(name: str, size: str | None) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, size])

    graph = helper.make_graph(
        nodes,
        "g",
        [info("x", "H")],
        [info("y", None)],
        [helper.make_tensor("twice", TensorProto.FLOAT, [3], [1.0, 1.0, 2.0])],
        value_info=[info(name, "H") for name in declared],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("declared", [("up",), ()])
def test_a_buffer_that_is_too_small_is_a_condition(name: str, declared: tuple[str, ...]) -> None:
    model = _model(MADE[name], declared)
    loaded = session(model, optimized=False)
    a = ss.analyze(model)
    for size in (3, 4, 5):
        try:
            loaded.run(None, {"x": np.zeros((1, 1, size), np.float32)})
            runs = True
        except Fail:
            runs = False
        assert (not a.check_inputs({"x": (1, 1, size)})) == runs, size
        assert bool(a.contract.holds({"H": size})) == runs, size
