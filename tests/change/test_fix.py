"""Models fixed at sizes: right where the original runs there, refused where it does not."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import onnx
import pytest

import shapesolve
from shapesolve import Refused, fix
from tests.fuzz.runtime import Failed, Session

from .running import assert_same, feeds, model_of, ops, symbols

CACHE = (
    "(float[batch, past] p, float[batch, seq] x, float[batch, total] mask) => (float[batch, all] y)"
    " { c = Concat<axis = 1>(p, x) y = Mul(c, mask) s = Shape(c) }"
)
BLOCKS = (
    "(float[batch, seq, 12] x, float[n] z) => (float[batch, m, 4] y)"
    " { b = Shape<start = 0, end = 1>(x) t = Constant<value_ints = [-1, 4]>() s = Concat<axis = 0>(b, t)"
    " r = Reshape(x, s) w = Add(x, z) y = Identity(r) }"
)


def test_sizes_become_numbers_and_what_follows_is_folded() -> None:
    model = model_of(BLOCKS)
    changed = fix(model, {"batch": 2})
    onnx.checker.check_model(changed, full_check=True)
    dims = [[d.dim_value or d.dim_param for d in v.type.tensor_type.shape.dim] for v in changed.graph.input]
    assert dims == [[2, "seq", 12], ["n"]]
    assert [d.dim_value for d in changed.graph.output[0].type.tensor_type.shape.dim] == [2, 0, 4]
    assert "Shape" not in ops(changed)
    assert assert_same(model, changed, {"batch": 2, "seq": 5, "n": 1})


def test_what_nodes_make_is_declared() -> None:
    changed = fix(model_of(BLOCKS), {"batch": 2, "seq": 4})
    declared = {v.name: v for v in (*changed.graph.value_info, *changed.graph.output)}
    made = {name for node in changed.graph.node for name in node.output}
    assert made == declared.keys()
    assert [d.dim_value for d in declared["y"].type.tensor_type.shape.dim] == [2, 12, 4]
    onnx.shape_inference.infer_shapes(changed, check_type=True, strict_mode=True, data_prop=True)


def test_sizes_that_follow_are_fixed_too() -> None:
    text = "(float[a, b] x, float[c] z) => (float[d] y) { f = Flatten<axis = 0>(x) s = Concat<axis = 1>(f, f) y = Gemm(s, w) }"
    model = model_of(text.replace("z)", "z, float[c, 2] w)"))
    changed = fix(model, {"a": 2, "b": 3})
    shapes = [[d.dim_value for d in v.type.tensor_type.shape.dim] for v in changed.graph.input]
    assert shapes == [[2, 3], [12], [12, 2]]


@pytest.mark.parametrize(
    ("text", "sizes", "term"),
    [
        (CACHE, {"past": 3, "seq": 2, "total": 4}, "past + seq"),
        (BLOCKS, {"n": 5}, "n"),
        (BLOCKS, {"batch": 0}, "batch"),
    ],
)
def test_sizes_at_which_it_does_not_run_are_refused_with_the_condition(
    text: str, sizes: dict[str, int], term: str
) -> None:
    with pytest.raises(Refused) as refused:
        fix(model_of(text), sizes)
    assert term in refused.value.term
    assert refused.value.node in str(refused.value)
    model = model_of(text)
    with pytest.raises(Failed):
        Session(model).run(feeds(model, {**dict.fromkeys(symbols(model), 1), **sizes}))


def test_a_name_that_no_input_has_and_a_negative_size_are_errors() -> None:
    with pytest.raises(ValueError, match="unknown dim 'bach'"):
        fix(model_of(BLOCKS), {"bach": 1})
    with pytest.raises(ValueError, match="not negative: batch = -1"):
        fix(model_of(BLOCKS), {"batch": -1})


EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.onnx"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_examples_are_refused_exactly_where_onnxruntime_fails(path: Path) -> None:
    model = onnx.load(path)
    if not shapesolve.analyze(model).ok:
        with pytest.raises(Refused):
            fix(model, {})
        return
    random, names, original = Random(path.stem), symbols(model), Session(model)
    refused = ran = 0
    for _ in range(30):
        sizes = {name: random.choice((1, 2, 3, 4, 8, 16, 17)) for name in names}
        try:
            original.run(feeds(model, sizes))
        except Failed:
            with pytest.raises(Refused) as error:
                fix(model, sizes)
            assert error.value.term
            refused += 1
        else:
            assert assert_same(model, fix(model, sizes), sizes)
            ran += 1
    assert refused + ran == 30


FOUND = (
    "(float[batch, n] x) => (int64[rank, found] places, float[k] values, float[batch, n] y)"
    " { places = NonZero(x) t = Transpose<perm = [1, 0]>(places) values = GatherND(x, t) y = Neg(x) }"
)


@pytest.mark.parametrize("seed", range(3))
def test_results_that_depend_on_data_are_padded_to_their_bound(seed: int) -> None:
    model = model_of(FOUND)
    changed = fix(model, {"batch": 2, "n": 5}, pad=True)
    onnx.checker.check_model(changed, full_check=True)
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in changed.graph.output}
    assert shapes == {"places": [2, 10], "values": [10], "y": [2, 5], "places_count": []}
    x = np.random.default_rng(seed).integers(-1, 2, (2, 5)).astype("f4")
    made, before = Session(changed).run({"x": x}), Session(model).run({"x": x})
    count = int(made.pop("places_count"))
    assert count == np.count_nonzero(x)
    for name, padded in made.items():
        counted = padded if name == "y" else padded[..., :count]
        assert list(padded.shape) == shapes[name]
        np.testing.assert_array_equal(counted, before[name])
        assert name == "y" or not padded[..., count:].any()


@pytest.mark.parametrize(
    ("sizes", "message"), [({"batch": 2}, "depends on n"), ({"n": 5}, "depends on batch")]
)
def test_padding_requires_a_size_for_each_dim(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(Refused, match=message):
        fix(model_of(FOUND), sizes, pad=True)


def test_padding_requires_a_bound() -> None:
    text = "(int64[1] size) => (float[made] y) { v = ConstantOfShape(size) y = Neg(v) }"
    with pytest.raises(Refused, match=r"y\[0\] depends on data, and its largest size is unknown"):
        fix(model_of(text), {}, pad=True)
