"""`BasicShapeBuilder` and `analyze(observe=...)`."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import pytest

import shapesolve as ss
from shapesolve.compat import BasicShapeBuilder

MODEL = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
g (float[batch, seq1] X, float[batch, seq2] Y) => (float[a, b] Z) {
    C = Concat <axis = 1> (X, Y)
    S = Shape (C)
    Z = Relu (C)
}""")


@pytest.fixture
def builder() -> BasicShapeBuilder:
    made = BasicShapeBuilder()
    made.run_model(MODEL)
    return made


def test_shapes_are_integers_and_text(builder: BasicShapeBuilder) -> None:
    assert builder.get_shape("Z") == ("batch", "seq1+seq2")
    assert (builder.get_rank("Z"), builder.get_type("Z"), builder.has_shape("nothing")) == (2, 1, False)
    assert builder.evaluate_shape("Z", {"batch": 3, "seq1": 5, "seq2": 7}) == (3, 12)
    assert builder.evaluate_shape("Z", {"batch": 3}) == (3, None)
    assert (builder.input_names, builder.output_names) == (["X", "Y"], ["Z"])


def test_runs_are_compared(builder: BasicShapeBuilder) -> None:
    feeds = {"X": np.zeros((2, 3)), "Y": np.zeros((2, 4))}
    rows = {"Z": (("batch", 2, 2), ("seq1 + seq2", 7, 7))}
    assert builder.compare_with_true_inputs(feeds, [np.zeros((2, 7))]) == rows
    assert builder.compare_with_true_inputs(list(feeds.values()), {"Z": np.zeros((2, 7))}) == rows
    with pytest.raises(ValueError, match="inferred sizes differ"):
        builder.compare_with_true_inputs(feeds, [np.zeros((2, 8))])
    assert builder.compare_with_true_inputs(feeds, [np.zeros((2, 8))], exc=False)["Z"][1] == (
        "seq1 + seq2",
        8,
        7,
    )


def test_what_is_stated_is_kept_and_checked(builder: BasicShapeBuilder) -> None:
    builder.set_shape("extra", ("batch", 4))
    builder.set_device("Z", 1)
    builder.set_type("extra", 7)
    assert (builder.get_shape("extra"), builder.get_rank("extra"), builder.get_type("extra")) == (
        ("batch", 4),
        2,
        7,
    )
    assert (builder.has_device("X"), builder.get_device("Z")) == (False, 1)
    with pytest.raises(ValueError, match="Z must have rank 2, got"):
        builder.set_shape("Z", (1, 2, 3))


def test_constraints_and_the_report(builder: BasicShapeBuilder) -> None:
    other = BasicShapeBuilder()
    other.run_model(
        onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
    g (float[n, d] x, float[m, 64] y) => (float[a, b] z) { z = Concat <axis = 0> (x, y) }""")
    )
    assert other.get_registered_constraints() == {"d": {64}}
    assert "seq1 + seq2" in builder.get_debug_msg()
    assert [
        v.name
        for v in builder.update_shapes(onnx.ModelProto.FromString(MODEL.SerializeToString())).graph.value_info
    ]


def test_nothing_is_known_before_a_model() -> None:
    with pytest.raises(RuntimeError, match="run_model"):
        BasicShapeBuilder().get_shape("x")


def test_a_model_that_cannot_run_is_an_error_if_asked_for() -> None:
    broken = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2, 3] x) => (y) { y = MatMul (x, x) }'
    )
    BasicShapeBuilder().run_model(broken)
    with pytest.raises(RuntimeError, match="MatMul"):
        BasicShapeBuilder().run_model(broken, exc=True)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [("ONNXSTOPSHAPE", "C", "C has shape"), ("ONNXSTOPTYPE", "S", "S has element type 7")],
)
def test_a_variable_stops_at_a_tensor(
    variable: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(RuntimeError, match=message):
        BasicShapeBuilder().run_model(MODEL)


@pytest.mark.parametrize(
    ("variable", "value", "logged"),
    [("ONNXDYNDIM", "seq2", "seq2: C"), ("ONNXCST", "1", "S holds"), ("ONNXSTOPVALUESHAPE", "S", "S holds")],
)
def test_a_variable_logs_what_becomes_known(
    variable: str, value: str, logged: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(variable, value)
    BasicShapeBuilder().run_model(MODEL)
    assert logged in caplog.text


def test_observers_see_nodes_in_graph_order_and_those_of_branches() -> None:
    seen: list[str] = []
    ss.analyze(MODEL, observe=lambda node, outputs: seen.extend(outputs))
    assert seen == ["C", "S", "Z"]
    inside = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
    g (float[n] x, bool c) => (float[m] y) {
        y = If (c) <then_branch = a () => (float[k] p) { p = Relu (x) }, else_branch = b () => (float[k] q) { q = Abs (x) }>
    }""")
    seen.clear()
    ss.analyze(inside, observe=lambda node, outputs: seen.append(node.op_type))
    assert seen == ["Relu", "Abs", "If"]


def test_what_an_observer_raises_ends_the_analysis() -> None:
    def stop(node: object, outputs: object) -> None:
        raise InterruptedError("enough")

    with pytest.raises(InterruptedError, match="enough"):
        ss.analyze(MODEL, observe=stop)
