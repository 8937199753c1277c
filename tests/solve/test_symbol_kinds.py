"""What a symbol is stands on the symbol: names of an author's that look like ours are names like any other."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi import onnxruntime_pybind11_state as state

import shapesolve
from shapesolve import Analysis, Dim, parse_dim
from shapesolve.expr import symbol

from .. import building

PLAIN = ("rows", "width", "more", "other")
ODD = ("_v0", "_d1", "q!1", "broadcast")


def model(names: tuple[str, ...]) -> onnx.ModelProto:
    """Two inputs are put together, as wide as a bias; sizes that data decide get names of ours."""
    a, b, c, d = names
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Concat", ["x", "y"], ["both"], axis=0),
        helper.make_node("Add", ["both", "bias"], ["sum"]),
        helper.make_node("NonZero", ["x"], ["found"]),
        helper.make_node("ConstantOfShape", ["n"], ["filled"]),
        helper.make_node("NonZero", ["filled"], ["none"]),
    ]
    bias = numpy_helper.from_array(np.ones(64, np.float32), "bias")
    inputs = [info("x", TensorProto.FLOAT, [a, b]), info("y", TensorProto.FLOAT, [c, d])]
    inputs.append(info("n", TensorProto.INT64, [1]))
    outputs = [onnx.ValueInfoProto(name=o) for o in ("sum", "found", "none")]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [bias])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.fixture(scope="module")
def odd() -> Analysis:
    return shapesolve.analyze(model(ODD))


@pytest.fixture(scope="module")
def plain() -> Analysis:
    return shapesolve.analyze(model(PLAIN))


def test_odd_names_say_what_plain_ones_say(odd: Analysis, plain: Analysis) -> None:
    to = {o: plain.symbols[p] for o, p in zip(ODD, PLAIN, strict=True)}
    renamed = {o: str(d) for o, d in to.items()}
    assert {t.cond.subs(to) for t in odd.contract} == {t.cond for t in plain.contract}
    assert {renamed[n]: size for n, size in odd.bindings.items()} == dict(plain.bindings) != {}
    whys = {renamed[n]: odd.bindings.why(n).assumption for n in odd.bindings}
    for name, why in whys.items():
        found = plain.bindings.why(name).assumption
        assert (why is None) == (found is None)
    assert odd.shapes["sum"][0].subs(to) is plain.shapes["sum"][0]
    assert {d.subs(to) for e in odd.equalities for d in e.members} >= {plain.symbols["width"]}
    for said in ("{0} >= 0", "{1} == {3}", "{0} + {2} >= {2}", "{1} >= 1", "{2} >= 1"):
        claims = [said.format(*(f"`{n}`" for n in names)) for names in (ODD, PLAIN)]
        assert type(odd.prove(claims[0])) is type(plain.prove(claims[1])), said


@pytest.mark.parametrize("sizes", [(2, 64, 3, 64), (0, 64, 1, 64), (2, 1, 3, 1), (2, 3, 1, 3), (2, 64, 3, 1)])
def test_odd_names_are_accepted_as_the_runtime_accepts_them(odd: Analysis, sizes: tuple[int, ...]) -> None:
    session = building.session(model(ODD))
    x, y = np.ones(sizes[:2], np.float32), np.ones(sizes[2:], np.float32)
    try:
        out = session.run(["sum"], {"x": x, "y": y, "n": np.array([3])})[0].shape
    except (state.Fail, state.InvalidArgument):
        out = None
    table = dict(zip(ODD, sizes, strict=True))
    assert bool(odd.check_inputs({"x": sizes[:2], "y": sizes[2:]})) == (out is None)
    if out is not None:
        assert odd.shapes["sum"].evaluate(table) == list(out)


def test_our_names_differ_from_the_author_s(odd: Analysis) -> None:
    made = odd._solved.walk.state.made
    assert made
    assert made.keys().isdisjoint(ODD)
    assert all(d.is_made for d in made.values())
    assert not any(d.is_made for d in odd.symbols.values())
    for shape in odd.shapes.values():
        for d in shape:
            assert parse_dim(str(d), {**odd.symbols, **made}) is d
    ours, theirs = symbol("_d1", made=True), Dim("_d1")
    assert ours is not theirs
    assert ours.evaluate({"_d1": 3}) == theirs.evaluate({"_d1": 3}) == 3
    assert odd.equal(odd.shapes["found"][1], Dim(odd.shapes["found"][1].name))
