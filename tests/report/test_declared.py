"""Sizes that a file declares of computed tensors, right at some of the accepted sizes only."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

import shapesolve as ss
from shapesolve.onnx_ir import infer_symbolic_shapes

from ..building import session


def forecaster(declared: list[object], output: list[object]) -> onnx.ModelProto:
    """The memory of `a` is free when `u` is made; where both are declared alike, onnxruntime uses it again."""
    float_ = TensorProto.FLOAT
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["past", "w"], ["a"]),
            helper.make_node("ReduceSum", ["a"], ["s"], keepdims=1),
            helper.make_node("Add", ["future", "s"], ["u"]),
            helper.make_node("Softplus", ["u"], ["v"]),
            helper.make_node("Transpose", ["v"], ["y"]),
        ],
        "g",
        [
            helper.make_tensor_value_info("past", float_, ["batch", 3]),
            helper.make_tensor_value_info("future", float_, ["batch", "horizon"]),
        ],
        [helper.make_tensor_value_info("y", float_, output)],
        [numpy_helper.from_array(np.ones((3, 5), np.float32), "w")],
        value_info=[
            helper.make_tensor_value_info("a", float_, ["batch", 5]),
            helper.make_tensor_value_info("u", float_, declared),
            helper.make_tensor_value_info("v", float_, declared),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


STALE = forecaster(["batch", 5], [5, "batch"])


def feed(batch: int, horizon: int) -> dict[str, np.ndarray]:
    return {"past": np.ones((batch, 3), np.float32), "future": np.ones((batch, horizon), np.float32)}


def test_a_size_of_the_example_that_was_left_is_told_and_written_anew() -> None:
    a = ss.analyze(STALE)
    (finding,) = [f for f in a.diagnostics if f.code == "SS102"]
    assert finding.title == "u[1] is declared as 5, it is horizon"
    assert finding.notes == (
        "they agree only where horizon == 5",
        "so are 2 more tensors",
        "onnxruntime lets tensors share memory whose declared shapes are equal: a run at other sizes may fail",
    )
    made = a.annotate()
    assert not ss.analyze(made).diagnostics
    assert session(made).run(None, feed(2, 7))[0].shape == (7, 2)
    with pytest.raises(ValueError, match=r"u\[1\] is declared as 5, it is horizon"):
        a.annotate("strict")
    kept = a.annotate("skip")
    assert [f.code for f in ss.analyze(kept).diagnostics] == ["SS102"]


def test_onnx_ir_gets_the_inferred_size() -> None:
    (value,) = infer_symbolic_shapes(ir.from_proto(STALE)).graph.outputs
    assert value.shape is not None
    assert str(value.shape[0]) == "horizon"
    with pytest.raises(ValueError, match=r"u\[1\] is declared as 5"):
        infer_symbolic_shapes(ir.from_proto(STALE), policy="strict")


def test_inputs_are_drawn_where_the_file_is_right() -> None:
    with pytest.raises(Exception, match="re-use buffer"):
        session(STALE).run(None, feed(2, 7))
    made = ss.generate_inputs(STALE, count=12)
    assert {sizes["horizon"] for sizes in made.sizes} == {5}
    assert len({sizes["batch"] for sizes in made.sizes}) > 3
    assert any("horizon == 5" in guess for guess in made.guesses)
    runs = session(STALE)
    for given in made:
        runs.run(None, given)
    assert ss.generate_inputs(STALE, count=1, bind={"horizon": 7}).sizes[0]["horizon"] == 7


def test_an_output_has_memory_of_its_own() -> None:
    model = forecaster(["batch", "horizon"], [5, "batch"])
    (finding,) = [f for f in ss.analyze(model).diagnostics if f.code == "SS102"]
    assert not any("onnxruntime" in note for note in finding.notes)
    made = ss.generate_inputs(model, count=12)
    assert len({sizes["horizon"] for sizes in made.sizes}) > 3
    runs = session(model)
    for given in made:
        runs.run(None, given)


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        (["batch", "horizon"], ""),
        (["batch", "steps"], ""),  # a name that the author gives
        (["batch", None], ""),
        (["batch", "past"], ""),
        (["horizon", "horizon"], "u[0] is declared as horizon, it is batch"),
        (["batch", 12], "u[1] is declared as 12, it is horizon"),
    ],
)
def test_names_and_numbers(declared: list[object], told: str) -> None:
    titles = [f.title for f in ss.analyze(forecaster(declared, [None, None])).diagnostics]
    assert titles == [told] * bool(told)


def test_what_is_right_at_all_accepted_sizes_is_not_told() -> None:
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["u"]),
            helper.make_node("Slice", ["x", "0", "1", "0"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "k"])],
        [
            helper.make_tensor_value_info("u", TensorProto.FLOAT, ["n", 2]),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4]),  # 0 of no rows: not worth a word
        ],
        [
            numpy_helper.from_array(np.ones((4, 2), np.float32), "w"),
            *(numpy_helper.from_array(np.array([k]), str(k)) for k in range(2)),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    assert "SS102" not in [f.code for f in ss.analyze(model).diagnostics]
