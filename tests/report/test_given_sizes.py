"""Answers about sizes of which only some are given, or at which several nodes fail."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner

import shapesolve as ss
from shapesolve.cli import app
from shapesolve.deploy.sizes import Sizes

from ..building import parsed, run

#: a batch of 4 stands in the target
BAKED = """g (float[batch, seq, 16] x) => (float[b, s, n, d] y) {
    shape = Shape(x) i = Constant<value_int = 1>() s = Gather(shape, i) axis = Constant<value_ints = [0]>()
    size = Unsqueeze(s, axis) four = Constant<value_ints = [4]>() heads = Constant<value_ints = [4, 4]>()
    target = Concat<axis = 0>(four, size, heads) y = Reshape(x, target)
}"""
CACHE = """g (float[batch, seq, 8] x, float[batch, past, 8] cache, float[batch, total, 8] mask) => (float[b, t, 8] y) {
    whole = Concat<axis = 1>(cache, x) y = Add(whole, mask)
}"""
#: onnxruntime runs the node that comes later in the file first
TWO_TABLES = """g (float[batch, seq, 8] x) => (float[b, s, 8] y) {
    a = Mul(x, cos) n = Neg(x) b = Mul(n, sin) y = Add(a, b)
}"""
WINDOWS = """g (float[batch, 3, height] x) => (float[b, c, n, w] y) {
    target = Constant<value_ints = [0, 8, -1, 8]>() m = Conv(x, scale) y = Reshape(m, target)
}"""


def why(tmp_path: Path, model: onnx.ModelProto, *sizes: str) -> str:
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    return CliRunner().invoke(app, ["why", str(path), *sizes]).output


def test_sizes_that_run_only_with_an_empty_input_fail(tmp_path: Path) -> None:
    model = parsed(BAKED)
    said = why(tmp_path, model, "batch=1")
    assert "batch must be 4, got 1" in said
    assert "use batch = 4" in said
    assert Sizes(ss.analyze(model)).completed({"batch": 1, "seq": 0}) == {"batch": 1, "seq": 0}


def test_other_sizes_are_typical() -> None:
    sizes = Sizes(ss.analyze(parsed(CACHE)))
    assert sizes.completed({"past": 3, "batch": 1}) == {"batch": 1, "seq": 8, "past": 3, "total": 11}
    assert sizes.completed({"total": 1, "batch": 1}) == {"batch": 1, "seq": 1, "past": 0, "total": 1}


def test_the_node_at_which_onnxruntime_stops_is_named(tmp_path: Path) -> None:
    import numpy as np

    model = parsed(TWO_TABLES, cos=(32, 8), sin=(32, 8))
    for i, node in enumerate(model.graph.node):
        node.name = f"node{i}"
    with pytest.raises(Exception, match="node") as error:
        run(model, {"x": np.zeros((1, 33, 8), np.float32)}, optimized=False)
    said = why(tmp_path, model, "batch=1", "seq=33")
    (named,) = [line.split()[1] for line in said.splitlines() if line.startswith("  --> ")]
    assert f"'{named}'" in str(error.value)


def test_a_weight_is_no_cause_of_a_multiple() -> None:
    a = ss.analyze(parsed(WINDOWS, scale=(8, 3, 1)))
    (finding,) = a.findings
    assert not any("scale" in note for note in finding.notes)
