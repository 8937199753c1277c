"""The proposal of ONNX 1.10: symbol generation, partial data for its operators, M against N, mismatches, NonZero."""

from __future__ import annotations

import onnx.helper as oh
import pytest
from onnx import TensorProto

import shapesolve as ss

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def build(nodes, inputs, initializers=(), outputs=None):
    infos = [oh.make_tensor_value_info(n, FLOAT, s) for n, s in inputs.items()]
    outs = [
        oh.make_tensor_value_info(n, FLOAT, s)
        for n, s in ({"Y": None} if outputs is None else outputs).items()
    ]
    graph = oh.make_graph(nodes, "g", infos, outs, list(initializers))
    return oh.make_model(graph, opset_imports=[oh.make_opsetid("", 18)], ir_version=9)


def ints(name, values, shape=None):
    return oh.make_tensor(name, INT64, [len(values)] if shape is None else shape, values)


def test_generated_symbols_are_shared_downstream():
    nodes = [
        oh.make_node("NonZero", ["A"], ["nz"]),
        oh.make_node("Relu", ["B"], ["b"]),
        oh.make_node("Cast", ["nz"], ["c"], to=FLOAT),
        oh.make_node("Neg", ["c"], ["Y"]),
    ]
    a = ss.analyze(build(nodes, {"A": ["M"], "B": ["N"]}))
    assert a.shapes["nz"] == a.shapes["c"] == a.shapes["Y"]
    assert a.equal("nz[1]", "Y[1]")


CHAINS = {
    "Shape, Gather, Unsqueeze, Concat": (
        [
            oh.make_node("Shape", ["A"], ["s"]),
            oh.make_node("Gather", ["s", "zero"], ["n"], axis=0),
            oh.make_node("Unsqueeze", ["n", "axes"], ["n1"]),
            oh.make_node("Concat", ["n1", "tail"], ["target"], axis=0),
        ],
        ["N", "4*M"],
        [ints("zero", [0], []), ints("axes", [0]), ints("tail", [-1, 4])],
        ["N", "M", "4"],
    ),
    "Slice, Squeeze, Add, Sub, Mul": (
        [
            oh.make_node("Shape", ["A"], ["s"]),
            oh.make_node("Slice", ["s", "one1", "two1"], ["m1"]),
            oh.make_node("Squeeze", ["m1", "axes"], ["m"]),
            oh.make_node("Mul", ["m", "two"], ["m2"]),
            oh.make_node("Add", ["m2", "two"], ["m3"]),
            oh.make_node("Sub", ["m3", "two"], ["m4"]),
            oh.make_node("Reshape", ["m4", "one1"], ["target"]),
        ],
        ["2", "M"],
        [ints("one1", [1]), ints("two1", [2]), ints("axes", [0]), ints("two", [2], [])],
        ["2*M"],
    ),
    "Size, Cast": (
        [
            oh.make_node("Size", ["A"], ["n"]),
            oh.make_node("Cast", ["n"], ["n32"], to=TensorProto.INT32),
            oh.make_node("Cast", ["n32"], ["n64"], to=INT64),
            oh.make_node("Unsqueeze", ["n64", "axes"], ["target"]),
        ],
        ["N", "M"],
        [ints("axes", [0])],
        ["M*N"],
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_partial_data_reaches_reshape(name):
    nodes, shape, initializers, expected = CHAINS[name]
    dims = [int(d) if d.isdigit() else d for d in shape]
    m = build([*nodes, oh.make_node("Reshape", ["A", "target"], ["Y"])], {"A": dims}, initializers)
    assert list(ss.analyze(m).shapes["Y"]) == [ss.Dim(d) for d in expected]


def test_m_against_n_is_open_and_said_so():
    a = ss.analyze(build([oh.make_node("Add", ["A", "B"], ["Y"])], {"A": ["M"], "B": ["N"]}))
    (ambiguity,) = a.ambiguities
    assert {str(d) for d in ambiguity.pair} == {"M", "N"}
    assert a.equal("Y[0]", "M").assumptions == ("M != 1",)
    assert not ss.analyze(a.model.proto, bind={"M": 1}).equal("Y[0]", "M")


def test_m_against_n_settled_by_another_node():
    nodes = [
        oh.make_node("Add", ["A", "B"], ["s"]),
        oh.make_node("Concat", ["A", "pad"], ["c"], axis=0),
        oh.make_node("Mul", ["A2", "B2"], ["Y"]),
        oh.make_node("MatMul", ["A2", "B"], ["Z"]),
    ]
    inputs = {"A": ["M"], "B": ["N"], "pad": [1], "A2": [2, "M"], "B2": [2, 1]}
    a = ss.analyze(build(nodes, inputs, outputs={"Y": None, "Z": None}))
    assert a.ambiguities == ()
    assert a.equal("M", "N")
    assert str(a.shapes["s"]) in ("[M]", "[N]")


def test_m_against_n_settled_by_the_user():
    m = build([oh.make_node("Add", ["A", "B"], ["Y"])], {"A": ["M"], "B": ["N"]})
    a = ss.analyze(m, assume=["M == N"])
    assert a.ambiguities == ()
    assert str(a.shapes["Y"]) == str(a.shapes["A"])


def test_equal_mode_notes_its_assumption():
    m = build([oh.make_node("Add", ["A", "B"], ["Y"])], {"A": ["M"], "B": ["N"]})
    a = ss.analyze(m, broadcast="equal")
    assert a.ambiguities == ()
    assert [str(c.cond) for c in a.constraints.role("assumption")] in (["M == N"], ["N == M"])


def test_declared_shape_that_disagrees_is_reported_and_the_inferred_one_kept():
    a = ss.analyze(build([oh.make_node("Relu", ["A"], ["Y"])], {"A": ["N", 4]}, outputs={"Y": ["N", 5]}))
    assert str(a.shapes["Y"]) == "[N, 4]"
    assert [f.code for f in a.diagnostics] == ["SS102"]


def test_nonzero_has_a_bounded_fresh_symbol():
    a = ss.analyze(build([oh.make_node("NonZero", ["A"], ["Y"])], {"A": ["N", 3]}, outputs={}))
    assert str(a.shapes["Y"][0]) == "2"
    assert a.prove("Y[1] <= 3*N")
    assert a.prove("Y[1] >= 0")


def test_declared_outputs_prove_things_of_inputs_and_are_named():
    m = build([oh.make_node("Relu", ["A"], ["Y"])], {"A": ["N", "M"]}, outputs={"Y": ["N", 5]})
    a = ss.analyze(m)
    assert a.prove("M == 5").assumptions == ("Y[1] is declared as 5",)
    assert a.check_inputs({"A": (2, 3)}) == []
    assert not a.prove("M == 6")
