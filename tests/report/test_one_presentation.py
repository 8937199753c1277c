"""A condition and a size read the same wherever they are told: as the contract has the one, and `analyze` the other."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import shapesolve as ss
from shapesolve.cli import app
from shapesolve.lines import plain
from shapesolve.report.derivation import derivation_lines
from shapesolve.report.evaluation import evaluation_lines

from .broken import ints, model

UNET = model(
    """g (float[batch, 3, height, width] x) => (y) {
    [down] d = MaxPool<kernel_shape: ints = [2, 2], strides: ints = [2, 2]>(x)
    [up] u = Resize<mode: string = "nearest">(d, , scales)
    [skip] y = Concat<axis: int = 1>(x, u) }""",
    scales=np.array([1, 1, 2, 2], np.float32),
)
POOLS = model(
    """g (float[batch, 3, n] x) => (y) {
    [a] a = MaxPool<kernel_shape: ints = [3], strides: ints = [2], ceil_mode: int = 1>(x)
    [b] b = Conv(a, w) [c] c = MaxPool<kernel_shape: ints = [3], strides: ints = [2]>(b)
    [d] y = Conv(c, w) }""",
    w=[3, 3, 3],
)
WINDOWS = model(
    """g (float[batch, n, 8] x) => (y) {
    [shape] s = Shape<start: int = 1, end: int = 2>(x) [half] h = Div(s, two) [double] t = Mul(h, two)
    [target] k = Concat<axis: int = 0>(t, rest) [view] y = Reshape(x, k) }""",
    two=ints(2),
    rest=ints(-1, 8),
)


def refused(m: onnx.ModelProto, **sizes: int) -> list[ss.Violation]:
    a = ss.analyze(m)
    shape = [d.evaluate(sizes) or 0 for d in a.shapes["x"]]
    return a.check_inputs({"x": shape})


@pytest.mark.parametrize(
    ("m", "sizes"),
    [
        (UNET, {"batch": 1, "height": 7, "width": 8}),
        (UNET, {"batch": 1, "height": 7, "width": 9}),
        (POOLS, {"batch": 1, "n": 1}),
        (POOLS, {"batch": 1, "n": 9}),
        (WINDOWS, {"batch": 1, "n": 7}),
    ],
)
def test_broken_inputs_are_told_as_the_contract_has_it(m: onnx.ModelProto, sizes: dict[str, int]) -> None:
    contract = {t.text for t in ss.analyze(m).contract.terms}
    found = refused(m, **sizes)
    assert found
    assert any(text in v.text for v in found for text in contract)
    for v in found:
        assert "max(" not in v.message
        assert v.message.startswith(v.sentence)
        assert ", got " in v.sentence


def test_a_condition_of_two_parts_is_two_terms_and_sizes_are_not_added_for_short() -> None:
    assert (
        str(ss.analyze(WINDOWS).contract.terms) == "batch >= 1 or n >= 2, batch*n % (2*(n//2)) == 0 or n <= 1"
    )


def test_what_a_term_implies_is_told_as_that_term() -> None:
    first = refused(POOLS, batch=1, n=1)[0]
    assert (
        (first.constraint.node, first.sentence) == ("b", "n must be at least 18, got 1")
        if first.constraint
        else False
    )


def test_what_a_node_would_get_are_numbers_and_the_target_that_was_computed() -> None:
    (v,) = refused(WINDOWS, batch=1, n=7)
    assert v.place == "view (Reshape keeps the number of elements) would get x [1, 7, 8] and k = [6, -1, 8]"


def test_sizes_of_other_names_stay_names() -> None:
    a = ss.analyze(UNET)
    (v,) = a._solved.violations_at({"height": 7})
    assert v.place.endswith("would get x [batch, 3, 7, width] and u [batch, 3, 6, 2*max(width//2, 1)]")


def test_explain_and_evaluate_show_the_shapes_that_analyze_shows() -> None:
    a = ss.analyze(UNET)
    told = plain(derivation_lines(a.explain("u"), a))
    assert told.splitlines()[0].endswith("[batch, 3, height, width]")
    assert "max(" not in told
    assert "down (MaxPool) computes height//2" in told
    assert "max(" not in plain(evaluation_lines(a, {"height": 8}, ["d"])).split("\n\n")[0]


def test_near_says_what_is_needed_and_the_nodes_in_their_order(tmp_path: pytest.TempPathFactory) -> None:
    file = tmp_path / "pools.onnx"  # type: ignore[operator]
    onnx.save(POOLS, file)
    told = CliRunner().invoke(app, ["sizes", str(file), "--near", "n=1"]).stdout
    assert told.startswith("not accepted: n must be at least 18, got 1\n  --> b\nabove    n = 18")
    assert "max(" not in told
