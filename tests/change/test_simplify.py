"""`simplify` as a whole: bodies of functions, nodes that are kept, reasons, models that cannot run, weights in files."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest

from shapesolve import simplify
from shapesolve.change.simplify.simplify import simplified
from shapesolve.model import read_model, saving

from ..building import run
from .running import assert_same, model_of, ops

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TWICE = """<domain: "f", opset_import: ["" : 18]> twice (a) => (b) {
  s = Shape(a) r = Reshape(a, s) i = Identity(r) c = Shape<start = 1>(i) d = Cast<to = 1>(c) e = Mul(i, d) b = Add(e, i)
}"""


@pytest.mark.parametrize(
    ("width", "left"),
    [(4, ["Constant", "Mul", "Add"]), (5, ["Shape", "Cast", "Mul", "Add"])],
    ids=["the same in all calls", "another in one call"],
)
def test_the_body_of_a_function_is_right_for_every_call(width: int, left: list[str]) -> None:
    text = f"(float[n, 4] x, float[m, {width}] z) => (float[n, 4] y, float[m, {width}] w)"
    model = model_of(f"{text} {{ a = f.twice(x) y = f.twice(a) w = f.twice(z) }}", functions=TWICE)
    changed = simplify(model)
    assert [node.op_type for node in changed.functions[0].node] == left
    assert all(assert_same(model, changed, {"n": n, "m": m}) for n, m in product((0, 1, 3), repeat=2))


@pytest.mark.parametrize(
    ("pattern", "kept"),
    [("Gather", {"Gather": 8}), ("*Shape_7", {"Shape": 1}), ("present_key", {"Identity": 1})],
)
def test_what_matches_a_pattern_stays(pattern: str, kept: dict[str, int]) -> None:
    model = onnx.load(EXAMPLES / "attention.onnx")
    left = ops(simplify(model, keep=[pattern]))
    assert {op: left[op] for op in kept} == kept
    assert ops(simplify(model)).keys().isdisjoint(kept)


def test_every_node_that_went_is_listed_with_a_reason() -> None:
    model = onnx.load(EXAMPLES / "attention.onnx")
    done = simplified(read_model(model))
    names = {n.name for n in model.graph.node} - {n.name for n in done.model.graph.node}
    assert {removed.node for removed in done.removed} == names
    assert all(removed.reason for removed in done.removed)


def test_a_model_that_no_size_fits_is_left_as_it_is() -> None:
    model = onnx.load(EXAMPLES / "broken_matmul.onnx")
    assert simplify(model).graph.node == model.graph.node


def test_weights_in_files_stay_there_and_the_model_still_loads(tmp_path: Path) -> None:
    model = onnx.load(EXAMPLES / "attention.onnx")
    onnx.save_model(
        model, tmp_path / "model.onnx", save_as_external_data=True, location="w", size_threshold=64
    )
    changed = simplify(tmp_path / "model.onnx")
    outside = [t for t in changed.graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL]
    assert outside
    assert not any(t.raw_data for t in outside)


def test_no_constant_is_stored_that_nothing_reads() -> None:
    text = """(float[n, m] x, float[k] z) => (float[q] y) <int64[1] zero = {0}, int64[1] three = {3}> {
        n = Shape <end = 1> (x) m = Shape <start = 1> (x) r = Mod(three, n) s = Mul(r, m) y = Slice(z, zero, s) }"""
    changed = simplify(model_of(text))
    read = {name for node in changed.graph.node for name in node.input}
    assert {tensor.name for tensor in changed.graph.initializer} <= read


def test_integer_quotients_survive_what_onnxruntime_fuses() -> None:
    """It writes (1/a)*b as b/a, of integers too, so sizes are not computed like that: here 2//(2*n) is cheapest as 1//n."""
    text = """(float[n, m] x, float[k] z) => (float[q] y) <int64[1] zero = {0}, int64[1] two = {2}> {
        n = Shape <end = 1> (x) m = Shape <start = 1> (x) t = Mul(two, n) d = Div(two, t) s = Mul(d, m) e = Add(s, s)
        y = Slice(z, zero, e) }"""
    model = model_of(text)
    changed = simplify(model)
    for n, m in product((1, 2, 3), (1, 4, 8)):
        given = {"x": np.zeros((n, m), "f4"), "z": np.arange(40, dtype="f4")}
        before, after = (run(made, given) for made in (model, changed))
        assert before[0].shape == after[0].shape == (2 * (1 // n) * m,)


def test_a_written_model_that_onnxruntime_does_not_load_fails_every_test() -> None:
    good = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
    g (float[n] x) => (float[n] y) { y = Relu (x) }""")
    bad = onnx.ModelProto()
    bad.CopyFrom(good)
    bad.graph.node[0].op_type = "NoSuchOperator"
    with pytest.raises(AssertionError, match="onnxruntime loads only the original"):
        saving.with_weights(bad, read_model(good))
