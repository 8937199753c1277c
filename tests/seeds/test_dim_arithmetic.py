"""The symbolic-dim-arithmetic proposal: its examples, and its unification table with the open row decided by proof."""

from __future__ import annotations

import onnx.helper as oh
import pytest
from onnx import TensorProto

import shapesolve as ss


def one_node(node, inputs, initializers=(), opset=18, outputs=("Y",)):
    infos = [oh.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()]
    outs = [oh.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs]
    nodes = node if isinstance(node, list) else [node]
    graph = oh.make_graph(nodes, "g", infos, outs, list(initializers))
    return oh.make_model(graph, opset_imports=[oh.make_opsetid("", opset)], ir_version=9)


def ints(name, values):
    return oh.make_tensor(name, TensorProto.INT64, [len(values)], values)


F = TensorProto.FLOAT


def test_max_pool():
    node = oh.make_node("MaxPool", ["X"], ["Y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    shape = ss.analyze(one_node(node, {"X": (F, ["N", "C", "H", "W"])})).shapes["Y"]
    assert list(shape) == [ss.Dim("N"), ss.Dim("C"), ss.Dim("(H - 1)//2 + 1"), ss.Dim("(W - 1)//2 + 1")]


def test_concat_and_tile():
    concat = one_node(oh.make_node("Concat", ["A", "B"], ["Y"], axis=0), {"A": (F, ["M"]), "B": (F, ["N"])})
    assert ss.analyze(concat).shapes["Y"][0] is ss.Dim("M + N")
    tile = one_node(oh.make_node("Tile", ["A", "r"], ["Y"]), {"A": (F, ["N"])}, [ints("r", [3])])
    assert ss.analyze(tile).shapes["Y"][0] is ss.Dim("3*N")


def shape_chain(*float_ops):
    """Reshape(X, int(f(float(H)))) for the ops given as (type, constant or None)."""
    nodes = [
        oh.make_node("Shape", ["X"], ["s"]),
        oh.make_node("Cast", ["s"], ["f0"], to=TensorProto.FLOAT),
    ]
    inits = []
    for i, (op, constant) in enumerate(float_ops):
        args = [f"f{i}"]
        if constant is not None:
            inits.append(oh.make_tensor(f"c{i}", F, [1], [constant]))
            args.append(f"c{i}")
        nodes.append(oh.make_node(op, args, [f"f{i + 1}"]))
    nodes += [
        oh.make_node("Cast", [f"f{len(float_ops)}"], ["size"], to=TensorProto.INT64),
        oh.make_node("ConstantOfShape", ["size"], ["Y"]),
    ]
    return one_node(nodes, {"X": (F, ["H"])}, inits)


@pytest.mark.parametrize(
    ("ops", "size"),
    [
        ([("Mul", 0.5), ("Floor", None)], "H//2"),
        ([("Div", 2.0), ("Ceil", None)], "(H + 1)//2"),
        ([("Div", 3.0), ("Floor", None)], "H//3"),
        ([("Mul", 2.0), ("Floor", None)], "2*H"),
        ([("Neg", None), ("Relu", None)], "0"),
    ],
)
def test_ceil_floor_chains(ops, size):
    assert ss.analyze(shape_chain(*ops)).shapes["Y"][0] is ss.Dim(size)


def test_integer_div_neg_relu_range():
    nodes = [
        oh.make_node("Size", ["X"], ["n"]),
        oh.make_node("Div", ["n", "two"], ["half"]),
        oh.make_node("Neg", ["half"], ["minus"]),
        oh.make_node("Sub", ["n", "half"], ["rest"]),
        oh.make_node("Range", ["zero", "half", "one"], ["Y"]),
        oh.make_node("Unsqueeze", ["rest", "axes"], ["rest1"]),
        oh.make_node("ConstantOfShape", ["rest1"], ["Z"]),
    ]
    scalars = [
        oh.make_tensor(n, TensorProto.INT64, [], [v]) for n, v in (("two", 2), ("zero", 0), ("one", 1))
    ]
    a = ss.analyze(
        one_node(nodes, {"X": (F, ["N"])}, [*scalars, ints("axes", [0])], outputs=("Y", "Z", "minus"))
    )
    assert a.shapes["Y"][0] is ss.Dim("N//2")
    assert a.shapes["Z"][0] is ss.Dim("N - N//2")


def test_generated_symbols_start_with_d():
    a = ss.analyze(one_node(oh.make_node("NonZero", ["X"], ["Y"]), {"X": (F, ["N", "M"])}))
    assert [str(d) for d in a.shapes["Y"]] == ["2", "_d0"]


def test_loop_with_known_trip_count():
    body = oh.make_graph(
        [
            oh.make_node("Identity", ["cond_in"], ["cond_out"]),
            oh.make_node("Identity", ["v"], ["v_out"]),
            oh.make_node("Identity", ["v"], ["scan"]),
        ],
        "body",
        [
            oh.make_tensor_value_info("i", TensorProto.INT64, []),
            oh.make_tensor_value_info("cond_in", TensorProto.BOOL, []),
            oh.make_tensor_value_info("v", F, None),
        ],
        [
            oh.make_tensor_value_info("cond_out", TensorProto.BOOL, []),
            oh.make_tensor_value_info("v_out", F, None),
            oh.make_tensor_value_info("scan", F, None),
        ],
    )
    node = oh.make_node("Loop", ["M", "", "X"], ["last", "Y"], body=body)
    trips = oh.make_tensor("M", TensorProto.INT64, [], [5])
    a = ss.analyze(one_node(node, {"X": (F, ["N"])}, [trips]))
    assert [str(d) for d in a.shapes["Y"]] == ["5", "N"]
    assert [str(d) for d in a.shapes["last"]] == ["N"]


def add_of(a_shape, b_shape):
    """A MatMul whose inner dims are the two given dims: they must be unified."""
    return one_node(
        oh.make_node("MatMul", ["A", "B"], ["Y"]), {"A": (F, ["m", a_shape]), "B": (F, [b_shape, "n"])}
    )


@pytest.mark.parametrize(
    ("a", "b", "outcome"),
    [
        (4, 4, "ok"),
        (4, 5, "conflict"),
        (4, "N", "N is 4"),
        ("N", 4, "N is 4"),
        ("N", "N", "ok"),
        ("N + 2", "N + 2", "ok"),
        ("N + 2", "M + 2", "M is N"),
        ("N + 2 - 2", "N", "ok"),
        ("N + 1", "N", "conflict"),
    ],
)
def test_unification_table(a, b, outcome):
    result = ss.analyze(add_of(a, b))
    assert result.ok == (outcome != "conflict")
    if outcome == "N is 4":
        assert result.bindings["N"] == 4
        assert result.bindings.why("N").assumption is None
    if outcome == "M is N":
        assert result.equal("M", "N")
    if outcome == "ok":
        assert len(result.contract) == 0


def test_expressions_in_dim_params_are_read():
    a = ss.analyze(add_of("(H + 2 - 3) / 2 + 1", "k"))
    assert a.equal("k", "(H + 2 - 3)//2 + 1") or a.prove("k == max(H - 1, 0)//2 + 1").holds
