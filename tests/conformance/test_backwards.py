"""What is not declared is inferred from what uses it: ranks, sizes, names."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import shapesolve

FLOAT = TensorProto.FLOAT


def node(op_type, inputs, output, **attributes):
    return helper.make_node(op_type, inputs.split(), [output], **attributes)


def weight(name, *dims):
    return numpy_helper.from_array(np.zeros(dims, np.float32), name)


def info(name, dims=None):
    return helper.make_tensor_value_info(name, FLOAT, dims)


def analyzed(nodes, inputs, outputs, weights=(), value_info=(), **options):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(weights), value_info=list(value_info))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return shapesolve.analyze(model, **options)


CONV = weight("w", 8, 3, 3, 3)


@pytest.mark.parametrize(
    "before",
    [
        [],
        [node("Relu", "x", "r")],
        [node("Sigmoid", "x", "s"), node("BatchNormalization", "s c c c c", "r")],
        [node("Cast", "x", "s", to=1), node("Add", "s one", "r")],
        [node("Concat", "x x", "s", axis=0), node("Mul", "one s", "r")],
    ],
    ids=lambda nodes: "-".join(n.op_type for n in nodes) or "direct",
)
@pytest.mark.parametrize("typed", [True, False])
def test_a_convolution_gives_its_input_a_rank(before, typed):
    given = info("x") if typed else onnx.ValueInfoProto(name="x")
    nodes = [*before, node("Conv", f"{'r' if before else 'x'} w", "y")]
    a = analyzed(nodes, [given], [info("y")], [CONV, weight("one", 1), weight("c", 3)])
    assert len(a.shapes["x"]) == 4
    assert a.shapes["x"][1] == 3
    assert a.shapes["y"][1] == 8
    assert {f.severity for f in a.diagnostics} <= {"info"}  # nobody declared a dim that is now fixed
    assert a.check_inputs({"x": (1, 3, 5, 5)}) == []
    assert a.check_inputs({"x": (1, 4, 5, 5)})
    assert a.check_inputs({"x": (1, 3, 5)})


def test_a_weight_fixes_a_size():
    a = analyzed([node("MatMul", "x w", "y")], [info("x", [None, None])], [info("y")], [weight("w", 768, 32)])
    assert [str(d) for d in a.shapes["x"]] == ["x_d0", "768"]
    assert a.bindings["x_d1"] == 768


def test_a_transpose_gives_a_rank_through_a_chain():
    nodes = [node("Tanh", "x", "t"), node("Transpose", "t", "y", perm=[0, 2, 1])]
    a = analyzed(nodes, [info("x")], [info("y")])
    assert [str(d) for d in a.shapes["y"]] == ["x_d0", "x_d2", "x_d1"]


def test_another_user_of_the_same_tensor_gives_the_rank():
    nodes = [node("Relu", "x", "r"), node("Conv", "r w", "y"), node("Add", "x y", "z")]
    a = analyzed(nodes, [info("x")], [info("z")], [weight("w", 3, 3, 1, 1)])
    assert [str(d) for d in a.shapes["z"]] == ["x_d0", "3", "x_d2", "x_d3"]


def test_a_broadcast_of_two_unknown_ranks_stays_open():
    nodes = [node("Add", "x b", "r"), node("Conv", "r w", "y")]
    a = analyzed(nodes, [info("x"), info("b")], [info("y")], [CONV])
    assert "x" not in a.shapes
    assert len(a.shapes["y"]) == 4


@pytest.mark.parametrize("dims", [[None, None], None])
def test_the_author_names_sizes_by_declaring_outputs(dims):
    a = analyzed([node("Relu", "x", "y")], [info("x", dims)], [info("y", ["batch", 10])])
    assert str(a.shapes["x"][0]) == str(a.shapes["y"][0]) == "batch"
    assert str(a.contract.declared) == "x_d1 == 10"
    assert a.check_inputs({"x": (3, 10)}) == []


def test_value_info_names_sizes_too():
    nodes = [node("Relu", "x", "r"), node("NonZero", "r", "n")]
    hits = helper.make_tensor_value_info("n", TensorProto.INT64, [2, "hits"])
    a = analyzed(nodes, [info("x", ["b", None])], [hits], value_info=[info("r", ["b", "hidden"])])
    assert [str(d) for d in a.shapes["x"]] == ["b", "hidden"]
    assert [str(d) for d in a.shapes["n"]] == ["2", "hits"]


def test_one_name_for_two_inputs_does_not_make_them_equal():
    nodes = [node("Relu", "x", "y"), node("Relu", "u", "z")]
    a = analyzed(nodes, [info("x", [None]), info("u", [None])], [info("y", ["n"]), info("z", ["n"])])
    assert a.shapes["x"][0] != a.shapes["u"][0]
    assert a.check_inputs({"x": (3,), "u": (4,)}) == []


def test_names_found_later_can_be_spoken_of():
    nodes, outputs = [node("Relu", "x", "y")], [info("y", ["batch", 10])]
    for name in ("batch", "x_d0"):
        a = analyzed(nodes, [info("x", [None, None])], outputs, bind={name: 7}, assume=[f"{name} >= 2"])
        assert a.shapes["y"][0] == 7
    with pytest.raises(ValueError, match="unknown dim 'other'"):
        analyzed(nodes, [info("x", [None, None])], outputs, bind={"other": 7})
    with pytest.raises(ValueError, match="unknown input dim 'other'"):
        analyzed(nodes, [info("x", [None, None])], outputs, assume=["other >= 7"])


def test_declared_against_inferred_is_a_finding():
    a = analyzed([node("Relu", "x", "y")], [info("x", ["b", 4])], [info("y", ["b", 5])])
    assert [f.code for f in a.diagnostics] == ["SS102"]
    assert a.shapes["y"][1] == 4


def gathered(indices):
    """A table [N] read at indices made from ``r = Range(0, n)``, n being the length of x."""
    nodes = [
        node("Shape", "x", "s"),
        node("Squeeze", "s", "n"),
        node("Range", "zero n one", "r"),
        *indices,
        node("Gather", "table i", "y"),
    ]
    zero, one, axis = (
        helper.make_tensor(n, TensorProto.INT64, d, [v])
        for n, d, v in [("zero", [], 0), ("one", [], 1), ("axis", [1], 1)]
    )
    return analyzed(nodes, [info("x", ["n"]), info("table", ["N"])], [info("y")], [zero, one, axis])


def test_indices_that_vary_along_axes_of_their_own_reach_the_sum_of_their_bounds():
    a = gathered([node("Unsqueeze", "r axis", "c"), node("Add", "c r", "i")])
    assert str(a.contract) == "2*n <= N + 1"
    assert a.check_inputs({"x": (4,), "table": (7,)}) == []
    assert a.check_inputs({"x": (4,), "table": (6,)})
    assert a.check_inputs({"x": (0,), "table": (0,)}) == []


def test_indices_that_vary_together_need_not_reach_it():
    a = gathered([node("Sub", "r r", "i")])
    assert a.check_inputs({"x": (5,), "table": (1,)}) == []
