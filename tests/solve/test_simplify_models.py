"""The simple form of real models' shapes: equal to the measured sizes, and short enough to read."""

from __future__ import annotations

import json

import onnx
import pytest

import shapesolve

from ..building import bundled_files, corpus_files, share
from .stems import STEMS

MODELS = [f for f in bundled_files() + corpus_files("models") if f.with_name("truth.json").exists()]


def test_there_are_models():
    assert len(MODELS) >= 10


@pytest.mark.parametrize("file", share(MODELS, 2), ids=lambda f: f.parent.name)
def test_simple_shapes_are_as_right_as_exact_ones(file):
    analysis = shapesolve.analyze(file)
    for run in json.loads(file.with_name("truth.json").read_text("utf-8"))["runs"]:
        for name, sizes in run["tensors"].items():
            if name in analysis.shapes and sizes is not None:
                exact = [d.evaluate(run["symbols"]) for d in analysis.shape(name)]
                simple = [d.evaluate(run["symbols"]) for d in analysis.shape(name, form="simple")]
                assert simple == exact, name
                assert all(s in (None, size) for s, size in zip(simple, sizes, strict=True)), name


@pytest.mark.parametrize("stem", share(STEMS, 2), ids=lambda s: s.name)
def test_simple_shapes_of_stems_are_equal_at_all_accepted_sizes(stem):
    analysis = shapesolve.analyze(onnx.parser.parse_model(stem.source))
    names = sorted(analysis.symbols)
    terms = [t.cond for t in analysis.contract if not t.assumptions]
    for name, shape in analysis.shapes.items():
        for exact, simple in zip(shape, analysis.shape(name, "simple"), strict=True):
            if exact is simple:
                continue
            for size in range(300):
                at = {n: size if n in exact.free else 1 for n in names}
                if all(t.evaluate(at) is not False for t in terms) and exact.evaluate(at) >= 0:
                    assert simple.evaluate(at) == exact.evaluate(at), (name, exact, simple, at)


@pytest.mark.parametrize("stem", share(STEMS, 2), ids=lambda s: s.name)
def test_what_is_shown_is_equal_from_the_named_sizes_on_and_short(stem):
    analysis = shapesolve.analyze(onnx.parser.parse_model(stem.source))
    names = sorted(analysis.symbols)
    for name, shape in analysis.shapes.items():
        shown, bounds = analysis._solved.simple_shapes.usual(name)
        assert max(map(len, map(str, shown)), default=0) <= 40, shown
        for exact, usual in zip(shape, shown, strict=True):
            for size in range(300):
                at = {n: size if n in exact.free else 70 for n in names}
                if exact is not usual and all(
                    c.evaluate(at) for c in (*bounds, *analysis.contract.terms.cond)
                ):
                    assert usual.evaluate(at) == exact.evaluate(at), (name, exact, usual, at)


def test_alexnet_is_one_floor():
    analysis = shapesolve.analyze(onnx.parser.parse_model(STEMS[1].source))
    shown, bounds = analysis._solved.simple_shapes.usual("features")
    assert str(shown) == "[N, 4, (H + 1)//32 - 1, (W + 1)//32 - 1]"
    assert list(map(str, bounds)) == ["H >= 63", "W >= 63"]
    text = str(analysis)
    assert "contract  for H >= 63, W >= 63 (smaller sizes: --exact)" in text
    assert "((H + 1)//32 - 1)*((W + 1)//32 - 1) == 36" in text


def test_what_an_if_chooses_between_is_told():
    source = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[n, 2] X, bool flag) => (float[a, b] Y) {
        Y = If (flag) <
            then_branch = yes () => (float[c, d] A) { A = Concat <axis = 0> (X, X) },
            else_branch = no () => (float[e, f] B) { B = Identity (X) }
        >
    }"""
    analysis = shapesolve.analyze(onnx.parser.parse_model(source))
    name = analysis.shapes["Y"][0].name
    assert str(analysis._solved.definitions[name]) in ("(2*n if _d0 == 1 else n)", "(n if _d0 == 0 else 2*n)")
    lines = str(analysis).splitlines()
    assert any(line.split() == f"where {name} 2*n if _d0 == 1 else n".split() for line in lines), lines


def test_a_shape_is_asked_for_by_form():
    analysis = shapesolve.analyze(onnx.parser.parse_model(STEMS[0].source))
    assert analysis.shape("Y") is analysis.shapes["Y"]
    assert str(analysis.shape("Y", form="simple")[2]) == "(0 if H <= 10 else max((H + 1)//8 - 1, 1))"
    with pytest.raises(ValueError, match='form must be "exact" or "simple"'):
        analysis.shape("Y", form="short")  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        analysis.shape("Z")
