"""The examples of the ShapeBuilder document: expressions, constraints, true inputs, write-back, a custom operator."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper as onh
import pytest
from onnx.reference import ReferenceEvaluator

import shapesolve as ss

FLOAT = onnx.TensorProto.FLOAT


def model(nodes, inputs, outputs, initializers=(), domains=()):
    graph = oh.make_graph(
        nodes,
        "graph",
        [oh.make_tensor_value_info(n, FLOAT, s) for n, s in inputs.items()],
        [oh.make_tensor_value_info(n, FLOAT, s) for n, s in outputs.items()],
        list(initializers),
    )
    opsets = [oh.make_opsetid("", 18), *(oh.make_opsetid(d, 1) for d in domains)]
    return oh.make_model(graph, opset_imports=opsets, ir_version=10)


def weights(name, *shape):
    return onh.from_array(np.zeros(shape, np.float32), name=name)


def texts(shape):
    return [str(d) for d in shape]


@pytest.mark.parametrize(
    ("text", "simplified"),
    [("d + f - f", "d"), ("2 * seq // 2", "seq"), ("1024 * a // 2", "512*a"), ("b + a", "a + b")],
)
def test_simplification(text, simplified):
    assert ss.parse_dim(text) is ss.parse_dim(simplified)
    assert str(ss.parse_dim(text)) == simplified


def test_concat_adds_and_evaluates():
    m = model(
        [oh.make_node("Concat", ["X", "Y"], ["Z"], axis=1)],
        {"X": ["batch", "seq1"], "Y": ["batch", "seq2"]},
        {"Z": [None, None]},
    )
    a = ss.analyze(m)
    assert a.shapes["Z"] == (ss.Dim("batch"), ss.Dim("seq1 + seq2"))
    assert a.shapes["Z"].evaluate({"batch": 3, "seq1": 5, "seq2": 7}) == [3, 12]
    assert a.evaluate({"batch": 3, "seq1": 5, "seq2": 7})["Z"] == (3, 12)


def test_reshape_with_zeros_then_matmul():
    m = model(
        [oh.make_node("Reshape", ["X", "shape"], ["Xr"]), oh.make_node("MatMul", ["Xr", "W"], ["Z"])],
        {"X": ["batch", "seq", 64]},
        {"Z": ["batch", "seq", 32]},
        [onh.from_array(np.array([0, 0, 64], np.int64), name="shape"), weights("W", 64, 32)],
    )
    a = ss.analyze(m)
    assert {n: texts(a.shapes[n]) for n in ("X", "Xr", "W", "Z")} == {
        "X": ["batch", "seq", "64"],
        "Xr": ["batch", "seq", "64"],
        "W": ["64", "32"],
        "Z": ["batch", "seq", "32"],
    }
    assert {a.dtypes[n] for n in ("X", "Xr", "W", "Z")} == {FLOAT}


def test_add_concat_reshape():
    m = model(
        [
            oh.make_node("Add", ["X", "Y"], ["added"]),
            oh.make_node("Concat", ["added", "X"], ["concat_out"], axis=2),
            oh.make_node("Reshape", ["concat_out", "shape"], ["Z"]),
        ],
        {"X": ["batch", "seq", "d_model"], "Y": ["batch", "seq", "d_model"]},
        {"Z": [None, None, None]},
        [onh.from_array(np.array([0, 0, -1], np.int64), name="shape")],
    )
    a = ss.analyze(m)
    assert texts(a.shapes["added"]) == ["batch", "seq", "d_model"]
    assert texts(a.shapes["concat_out"]) == ["batch", "seq", "2*d_model"]
    assert texts(a.shapes["Z"]) == ["batch", "seq", "2*d_model"]


def test_compare_with_true_inputs():
    m = model(
        [oh.make_node("Add", ["X", "Y"], ["added"]), oh.make_node("Concat", ["added", "X"], ["Z"], axis=2)],
        {"X": ["batch", "seq", "d_model"], "Y": ["batch", "seq", "d_model"]},
        {"Z": [None, None, None]},
    )
    feeds = {n: np.zeros((2, 5, 4), np.float32) for n in "XY"}
    outputs = ReferenceEvaluator(m).run(None, feeds)
    compared = ss.analyze(m).compare_with_true_inputs(feeds, outputs)
    assert compared == {"Z": (("batch", 2, 2), ("seq", 5, 5), ("2*d_model", 8, 8))}


def test_update_shapes():
    m = model(
        [oh.make_node("Add", ["X", "Y"], ["added"]), oh.make_node("MatMul", ["added", "W"], ["Z"])],
        {"X": ["batch", "seq", 64], "Y": ["batch", "seq", 64]},
        {"Z": [None, None, None]},
        [weights("W", 64, 32)],
    )
    ss.analyze(m).update_shapes(m)
    assert [v.name for v in m.graph.value_info] == ["added"]
    tensor = m.graph.value_info[0].type.tensor_type
    assert tensor.elem_type == FLOAT
    assert [d.dim_param or d.dim_value for d in tensor.shape.dim] == ["batch", "seq", 64]


def bias_model():
    return model(
        [oh.make_node("Add", ["X", "bias"], ["Z"]), oh.make_node("MatMul", ["Z", "W"], ["Out"])],
        {"X": ["batch", "seq", "d_model"]},
        {"Out": [None, None, None]},
        [weights("bias", 64), weights("W", 64, 32)],
    )


def test_bias_binds_d_model_and_names_the_assumption():
    a = ss.analyze(bias_model())
    assert texts(a.shapes["X"]) == ["batch", "seq", "d_model"]
    assert texts(a.shapes["Z"]) == ["batch", "seq", "64"]
    assert texts(a.shapes["Out"]) == ["batch", "seq", "32"]
    assert dict(a.bindings) == {"d_model": 64}
    assert a.bindings.why("d_model").assumption == "d_model != 1"


def test_bias_stays_open_in_strict_mode():
    assert dict(ss.analyze(bias_model(), broadcast="strict").bindings) == {}


def test_size_one_is_accepted_all_the_same():
    a = ss.analyze(bias_model())
    assert a.check_inputs({"X": (2, 5, 64)}) == []
    assert a.check_inputs({"X": (2, 5, 1)}) == []
    assert a.check_inputs({"X": (2, 5, 63)})


def test_two_names_in_a_broadcast_are_not_merged():
    m = model([oh.make_node("Add", ["X", "Y"], ["Z"])], {"X": ["a"], "Y": ["b"]}, {"Z": [None]})
    z = ss.analyze(m).shapes["Z"][0]
    assert [z.evaluate({"a": 1, "b": 0}), z.evaluate({"a": 3, "b": 1}), z.evaluate({"a": 4, "b": 4})] == [
        0,
        3,
        4,
    ]


def test_custom_operator():
    m = model([oh.make_node("Scale", ["X", "s"], ["Y"], domain="my.domain")], {"X": ["N", "C"], "s": []}, {"Y": None},
              domains=["my.domain"])  # fmt: skip
    registry = ss.Registry()

    @registry.register("my.domain", "Scale")
    def scale(op):
        return op.like(0)

    a = ss.analyze(m, registry=registry)
    assert texts(a.shapes["Y"]) == ["N", "C"]
    assert a.dtypes["Y"] == FLOAT
    unknown = ss.analyze(m)
    assert "Y" not in unknown.shapes
    assert [f.code for f in unknown.diagnostics] == ["SS101"]


def test_custom_operator_by_signature():
    m = model([oh.make_node("Scale", ["X", "s"], ["Y"], domain="my.domain")], {"X": ["N", "C"], "s": []}, {"Y": None},
              domains=["my.domain"])  # fmt: skip
    registry = ss.Registry()
    registry.signature("Scale", "*S, . -> *S", domain="my.domain")
    assert texts(ss.analyze(m, registry=registry).shapes["Y"]) == ["N", "C"]
