"""Chains of operators: questions end in time that grows with the chain, not with what its sizes look like written out."""

from __future__ import annotations

import time
from collections.abc import Iterator

import onnx
import pytest
from onnx import TensorProto, helper

import shapesolve
from benchmarks.families import HOSTILE
from examples.graph_writer import GraphWriter
from shapesolve.expr import Dim, ceil_div, constant, pos

from .building import EVERYTHING

#: seconds of CPU, several times what the questions of a test take
_LIMIT = 10.0


@pytest.fixture(autouse=True)
def _soon() -> Iterator[None]:
    start = time.process_time()
    yield
    assert time.process_time() - start < _LIMIT


def nested(depth: int) -> Dim:
    """A dim in which each part occurs twice in the next: 2**depth parts when written out."""
    d = Dim("n")
    for k in range(depth):
        d = pos(d - ceil_div(d, constant(3 + k))) + 1
    return d


def test_parts_that_occur_often_are_evaluated_once() -> None:
    size, dim = 10**9, nested(30)
    expected = size
    for k in range(30):
        expected = max(expected + -expected // (3 + k), 0) + 1
    assert dim.evaluate({"n": size}) == expected
    assert dim.eq(expected).evaluate({"n": size}) is True
    assert dim.evaluate({}) is None
    assert dim.ge(2).evaluate({}) is None


def test_a_chain_of_slices_is_checked() -> None:
    g = GraphWriter("slices")
    x = g.input("x", ["n", "m"])
    starts, ends = [g.vector(k) for k in (1, 0, 2)], [g.vector(k) for k in (-1, 2**62)]
    axes = g.vector(0)
    for k in range(300):
        x = g.op("Slice", x, starts[k % 3], ends[k % 2], axes)
    g.output(x, "y", rank=2)
    analysis = shapesolve.analyze(g.model())
    assert analysis.check_inputs({"x": (500, 4)}) == []
    assert analysis.evaluate({"n": 500, "m": 4})["y"] == (50, 4)
    assert analysis.evaluate({"n": 449, "m": 4})["y"] == (0, 4)


_HARD = [("flattenings", 60), ("wide", 30), ("long-sums", 200), ("chained-adds", 150), ("sums-of-parts", 40)]


@pytest.mark.parametrize(("family", "n"), _HARD if EVERYTHING else _HARD[:2])
def test_every_question_of_a_hard_model_ends(family: str, n: int) -> None:
    model = next(f for f in HOSTILE if f.name == family).make(n)
    analysis = shapesolve.analyze(model)
    shapes = {name: [5 if d.terms else d.const for d in analysis.shapes[name]] for name in analysis.inputs}
    accepted = not analysis.check_inputs(shapes)
    assert accepted == (not analysis.evaluate(dict.fromkeys(analysis.symbols, 5)).violations)
    assert analysis.contract.holds(dict.fromkeys(analysis.symbols, 5)) is accepted
    assert len(analysis.diagnostics) < 2 * n + 2
    assert str(analysis)


def test_a_chain_of_tiles_and_slices_is_checked_and_proved() -> None:
    g = GraphWriter("tiles")
    x = g.input("x", ["n"])
    two, zero, five = g.vector(2), g.vector(0), g.vector(5)
    for _ in range(400):
        x = g.op("Slice", g.op("Tile", x, two), zero, five, zero)
    g.output(x, "y", rank=1)
    analysis = shapesolve.analyze(g.model())
    assert analysis.check_inputs({"x": (7,)}) == []
    assert [analysis.evaluate({"n": n})["y"] for n in (0, 1, 7)] == [(0,), (5,), (5,)]
    assert isinstance(analysis.prove("`y`[0] == 7"), shapesolve.Refuted)


def loops(count: int) -> onnx.ModelProto:
    """Loops in a row: each appends its input as often as this is long."""
    g = GraphWriter("loops")
    x = held = g.input("x", ["n", "m"])
    for k in range(count):
        body = helper.make_graph(
            [
                helper.make_node("Identity", [f"c{k}"], [f"go{k}"]),
                helper.make_node("Concat", [f"v{k}", x], [f"w{k}"], axis=0),
            ],
            f"body{k}",
            [
                helper.make_tensor_value_info(f"i{k}", TensorProto.INT64, []),
                helper.make_tensor_value_info(f"c{k}", TensorProto.BOOL, []),
                helper.make_tensor_value_info(f"v{k}", TensorProto.FLOAT, None),
            ],
            [
                helper.make_tensor_value_info(f"go{k}", TensorProto.BOOL, []),
                helper.make_tensor_value_info(f"w{k}", TensorProto.FLOAT, None),
            ],
        )
        trips = g.op("Gather", g.op("Shape", held), g.scalar(0))
        held = g.op("Loop", trips, "", held, body=body)
    g.output(held, "y", rank=2)
    return g.model()


def test_loops_in_a_row_are_simplified() -> None:
    count = 150 if EVERYTHING else 60
    model = loops(count)
    after = shapesolve.simplify(model)
    onnx.checker.check_model(after, full_check=True)
    assert [n.op_type for n in after.graph.node].count("Loop") == count
    assert len(after.graph.node) <= len(model.graph.node)
