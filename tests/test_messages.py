"""Sizes that messages quote are those that nodes get: held against onnxruntime on drawn models and shapes."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import islice

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.utils import Extractor

import shapesolve
from shapesolve.report.text import contract_lines

from . import building
from .building import EVERYTHING
from .operators.conftest import text
from .report.broken import CASES

#: graphs that learn sizes from requirements, which later nodes and their messages see
GRAPHS = {
    "Concat": "q = Concat<axis=1>(a, b, c)",
    "Concat of Concat": "r = Concat<axis=1>(a, b) s = Relu(c) q = Concat<axis=1>(r, s)",
    "MatMul": "r = Neg(a) s = Relu(b) t = MatMul(r, s) q = MatMul(t, c)",
    "Gemm": "r = Relu(a) s = Neg(b) q = Gemm<transB=1>(r, s, c)",
    "broadcast": "r = Add(a, b) s = Relu(c) t = Mul(r, s) q = MatMul(t, a)",
    "sizes through data": "h = Shape(b) r = Expand(a, h) s = Concat<axis=0>(r, c) q = Add(s, b)",
    "one requirement after another": "r = Add(a, w) s = MatMul(r, b) t = Concat<axis=0>(s, c) q = MatMul(t, w)",
}
WEIGHT = "w = Constant<value = float[2,3] {1,2,3,4,5,6}>()"


def cases() -> Iterator[tuple[str, str, dict[str, tuple[int, ...]]]]:
    draw = random.Random(5)
    for name, nodes in GRAPHS.items():
        for _ in range(12):
            yield name, nodes, {n: (draw.choice((0, 1, 2, 3)), draw.choice((1, 2, 3))) for n in "abc"}


def made(
    model: onnx.ModelProto, tensor: str, shapes: dict[str, tuple[int, ...]], failing: set[str]
) -> tuple[int, ...] | None:
    """The shape that a tensor has in onnxruntime; None where it is not made, or only behind a node that is told to fail."""
    part = Extractor(model).extract_model(list(shapes), [tensor]) if tensor not in shapes else None
    if part is None:
        return shapes[tensor]
    if not failing.isdisjoint(f"{node.op_type}({node.output[0]})" for node in part.graph.node):
        return None
    try:
        session = building.session(part, optimized=False)
        used = {i.name for i in session.get_inputs()}
        (found,) = session.run(None, {n: np.zeros(s, np.float32) for n, s in shapes.items() if n in used})
    except Exception:
        return None
    return tuple(found.shape)


def test_quoted_sizes_are_those_given() -> None:
    quoted = 0
    for name, nodes, shapes in islice(cases(), 0, None, 1 if EVERYTHING else 5):
        model = text("float[A, K] a, float[B, L] b, float[C, M] c", f"{WEIGHT} {nodes}", "q")
        for info in model.graph.node:
            model.graph.value_info.append(helper.make_tensor_value_info(info.output[0], 1, None))
        violations = shapesolve.analyze(model).check_inputs(shapes)
        failing = {v.constraint.origin.node for v in violations if v.constraint is not None}
        for violation in violations:
            for tensor, sizes in re.findall(
                r"(\w+) \[([\d, ]*)\]", violation.place.partition("would get")[2]
            ):
                real = made(model, tensor, shapes, failing)
                if real is not None:
                    assert [int(s) for s in sizes.split(",")] == list(real), (name, shapes, violation.message)
                    quoted += 1
    assert quoted > 20


@pytest.mark.parametrize("empty", [0, 2])
def test_a_size_that_takes_the_place_of_another_is_not_quoted_for_it(empty: int) -> None:
    model = text("float[A, 2, 6] z, float[B, 2, 6] y", "q = Concat<axis=1>(z, y)", "q")
    (violation,) = shapesolve.analyze(model).check_inputs({"z": (empty, 2, 6), "y": (1, 2, 6)})
    assert violation.message.endswith(f"would get z [{empty}, 2, 6] and y [1, 2, 6]")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("SS201", ("MatMul cannot multiply these shapes", "fc")),
        ("SS302", ("0 <= _v0 <= 5", "best")),
    ],
)
def test_the_contract_names_nodes_of_conflicts_and_of_conditions_on_data(
    name: str, told: tuple[str, ...]
) -> None:
    """`contract` lists everything, a report of all things only counts what it tells elsewhere."""
    analysis = shapesolve.analyze(CASES[name][0])
    everything = str(list(contract_lines(analysis, limit=None)))
    assert all(part in everything for part in told)
    assert told[0] not in str(list(contract_lines(analysis)))
