"""Ranks that sizes decide: what runs is what onnxruntime runs, in terms where one rank fits, else at the numbers given."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import onnx.parser
import pytest

import shapesolve

from ..building import EVERYTHING, run

#: models whose inputs are found by many trials
SEARCHED = {"Squeeze, MatMul, Add", "Squeeze twice"}
HEAD = '<ir_version: 8, opset_import: ["": 17]> g'
IF = """
    last = Constant<value = int64[1] {-1}>()  one = Constant<value = int64[1] {1}>()
    s = Shape(x)  d = Gather<axis = 0>(s, last)  is1 = Equal(d, one)
    y = If(is1)<then_branch = then () => (t) { t = Squeeze(x, last) }, else_branch = other () => (e) { e = Identity(x) }>
"""
#: nodes after a tensor whose rank sizes decide: x [a, b, c] in all of them
MODELS = {
    "If, Gemm": IF + "w = Constant<value = float[3, 2] {1, 1, 1, 1, 1, 1}>()  o = Gemm(y, w)",
    "If, Transpose": IF + "o = Transpose<perm = [1, 0]>(y)",
    "If, Relu, Transpose": IF + "z = Relu(y)  o = Transpose<perm = [0, 2, 1]>(z)",
    "If, Flatten, Unsqueeze, Conv": IF
    + "k = Constant<value = int64[1] {0}>()  u = Unsqueeze(y, k)"
    + "  w = ConstantOfShape<value = float[1] {1}>(n)  n = Constant<value = int64[3] {1, 3, 1}>()  o = Conv(u, w)",
    "Squeeze, MatMul, Add": "y = Squeeze(x)  w = Constant<value = float[3] {1, 1, 1}>()  o = Add(y, w)",
    "Squeeze, Transpose": "y = Squeeze(x)  o = Transpose<perm = [1, 0]>(y)",
    "Squeeze, Concat": "y = Squeeze(x)  o = Concat<axis = 1>(y, y)",
    "Squeeze, Gather": "y = Squeeze(x)  i = Constant<value = int64[1] {2}>()  o = Gather<axis = 0>(y, i)",
    "Squeeze twice": "p = Squeeze(x)  q = Relu(x)  r = Squeeze(q)  o = MatMul(p, r)",
    "Reshape by a squeezed shape": "s = Shape(x)  y = Squeeze(x)  n = Shape(y)  o = Reshape(x, n)  p = Add(o, x)",
}


def _ordered(text: str) -> str:
    """Constants first."""
    parts = [p.strip() for p in text.replace("  ", "\n").splitlines() if p.strip()]
    return "\n".join(sorted(parts, key=lambda p: "= Constant<" not in p))


def _runs(model: onnx.ModelProto, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        return tuple(run(model, {"x": np.ones(shape, np.float32)})[0].shape)
    except Exception:
        return None


@pytest.mark.parametrize("name", MODELS)
def test_sizes_that_decide_a_rank_are_judged(name: str) -> None:
    model = onnx.parser.parse_model(f"{HEAD} (float[a, b, c] x) => (o) {{ {_ordered(MODELS[name])} }}")
    analysis = shapesolve.analyze(model)
    shapes = [*itertools.product((1, 3), (1, 3), (1, 3)), (2, 5, 1)]
    runs = {shape: _runs(model, shape) for shape in shapes}
    assert None in runs.values()
    assert any(runs.values())
    for shape, real in runs.items():
        sizes = dict(zip("abc", shape, strict=True))
        assert bool(analysis.check_inputs({"x": shape})) == (real is None), shape
        assert analysis.evaluate(sizes).get("o") == real, shape
    for made in shapesolve.generate_inputs(model, count=3) if EVERYTHING or name not in SEARCHED else ():
        assert _runs(model, made["x"].shape) is not None


@pytest.mark.parametrize(("after", "terms"), [
    ("o = Transpose<perm = [1, 0]>(y)", "c == 1"), ("o = Transpose<perm = [0, 2, 1]>(y)", "c == 0 or c >= 2"),
    ("z = Relu(y)  o = Transpose<perm = [1, 0]>(z)", "c == 1"),
    ("k = Constant<value = int64[1] {0}>()  z = Unsqueeze(y, k)  o = Transpose<perm = [1, 0, 2]>(z)", "c == 1"),
    ("z = Concat<axis = 0>(y, y)  o = Transpose<perm = [0, 2, 1]>(z)", "c == 0 or c >= 2"),
    ("i = Shape(y)  r = Size(i)  n = Constant<value = int64 {1}>()  q = Sub(n, r)  t = Constant<value = float[1] {1}>()"
     "  o = Gather(t, q)", "c == 1"),
])  # fmt: skip
def test_the_only_rank_that_later_nodes_take_is_a_condition(after: str, terms: str) -> None:
    text = "\n".join(p for p in (IF + after).replace("  ", "\n").splitlines() if p.strip())
    model = onnx.parser.parse_model(f"{HEAD} (float[a, b, c] x) => (o) {{ {text} }}")
    assert terms in [t.text for t in shapesolve.analyze(model).contract]


def test_a_checker_names_what_it_leaves_out() -> None:
    model = onnx.parser.parse_model(
        f"{HEAD} (float[a, b, 4] x) => (o) {{ {_ordered(MODELS['Squeeze, MatMul, Add'])} }}"
    )
    for language in ("python", "cpp"):
        assert "not judged: y has unknown rank" in shapesolve.guard(model, language)
