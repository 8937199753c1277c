"""Sequences and optionals, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

import shapesolve
from shapesolve.lower.types import Sequence

from .conftest import agrees, shapes, text, value

SIZES = (0, 1, 2, 5)
CONSTANTS = """p = Constant<value_int=-1>() zero = Constant<value_int=0>() two = Constant<value_int=2>()
    parts = Constant<value_ints=[1, 4]>() """


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("q = SequenceConstruct(x, z) y = SequenceAt(q, p)", "[M, 3]"),
        ("q = SequenceConstruct(x, z) r = SequenceErase(q) y = SequenceAt(r, zero)", "[N, 3]"),
        ("q = SequenceConstruct(x, z) r = SequenceErase(q, zero) y = SequenceAt(r, zero)", "[M, 3]"),
        ("q = SequenceConstruct(x, z) r = SequenceInsert(q, z, zero) y = SequenceAt(r, zero)", "[M, 3]"),
        (
            "q = SequenceConstruct(x, z) r = SequenceInsert(q, z, p) y = ConcatFromSequence<axis=0>(r)",
            "[2*M + N, 3]",
        ),
        ("q = SequenceEmpty<dtype=1>() r = SequenceInsert(q, x) y = SequenceAt(r, zero)", "[N, 3]"),
        ("q = SequenceConstruct(x, z, x) y = ConcatFromSequence<axis=0>(q)", "[2*N + M, 3]"),
        ("q = SequenceConstruct(x, z) y = ConcatFromSequence<axis=1>(q)", None),
        ("q = SequenceConstruct(x, x) y = ConcatFromSequence<axis=-1, new_axis=1>(q)", "[N, 3, 2]"),
        ("q = SequenceConstruct(x, z) y = ConcatFromSequence<axis=0, new_axis=1>(q)", None),
        ("q = SplitToSequence<axis=0>(x) y = ConcatFromSequence<axis=0>(q)", "[N, 3]"),
        ("q = SplitToSequence<axis=1>(x) y = SequenceAt(q, p)", "[N, 1]"),
        ("q = SplitToSequence<axis=1, keepdims=0>(x) y = SequenceAt(q, p)", "[N]"),
        ("q = SplitToSequence<axis=1>(x, two) y = SequenceAt(q, p)", "[N, 1]"),
        ("q = SplitToSequence<axis=1>(x, two) y = ConcatFromSequence<axis=1>(q)", "[N, 3]"),
        ("q = SplitToSequence<axis=0>(x, two) y = SequenceAt(q, zero)", None),
        ("q = SplitToSequence<axis=0>(x, parts) y = SequenceAt(q, p)", "[4, 3]"),
    ],
)
def test_sequences(nodes: str, expected: str | None) -> None:
    model = text("float[N, 3] x, float[M, 3] z", CONSTANTS + nodes)
    if expected is not None:
        assert shapes(model) == [expected]
    least = 0 if expected else 1  # onnxruntime does not check tensors without elements
    agrees(model, N=SIZES[least:], M=(0, 1, 3)[least:])


@pytest.mark.parametrize("position", range(-4, 5))
@pytest.mark.parametrize("node", ["SequenceAt(q, p)", "SequenceErase(q, p)", "SequenceInsert(q, x, p)"])
def test_positions(node: str, position: int) -> None:
    nodes = f"p = Constant<value_int={position}>() q = SequenceConstruct(x, x) y = {node}"
    agrees(text("float[N, 3] x", nodes), N=(2,))


def test_position_in_a_sequence_of_some_length() -> None:
    nodes = "p = Constant<value_int=2>() q = SplitToSequence(x) y = SequenceAt(q, p)"
    agrees(text("float[N, 3] x", nodes), N=SIZES)


def test_unknown_position() -> None:
    nodes = "q = SequenceConstruct(x, z) y = SequenceAt(q, p)"
    model = text("float[N, 3] x, float[M, 3] z, int64 p", nodes)
    size, three = shapesolve.analyze(model).shapes["y"]
    assert three == 3
    assert size.name not in ("N", "M", "?")
    agrees(model, {"p": np.array(1)}, N=SIZES, M=SIZES)


def test_lengths() -> None:
    assert value(text("float[N, 3] x", "q = SplitToSequence(x) y = SequenceLength(q)")) == "N"
    two = "two = Constant<value_int=2>() q = SplitToSequence(x, two) y = SequenceLength(q)"
    assert value(text("float[N, 3] x", two)) == "(N + 1)//2"
    agrees(text("float[N, 3] x", two), N=SIZES)


LOOP = """sh = Shape(x) zero = Constant<value_ints=[0]>() n1 = Gather(sh, zero) n = Squeeze(n1)
    yes = Constant<value=bool {1}>() e = SequenceEmpty<dtype=1>()
    q = Loop(n, yes, e) <body = b (int64 i, bool ci, seq(float) s) => (bool co, r)
        { co = Identity(ci) %s }>"""


@pytest.mark.parametrize(
    ("body", "after", "expected"),
    [
        ("r = SequenceInsert(s, x)", "y = ConcatFromSequence<axis=0, new_axis=1>(q)", "[N, N, 3]"),
        ("r = SequenceInsert(s, x)", "y = ConcatFromSequence<axis=0>(q)", "[N**2, 3]"),
        ("r = SequenceInsert(s, x)", "y = SequenceLength(q)", "[]"),
        (
            "j1 = Unsqueeze(i, zero) t = ConstantOfShape(j1) r = SequenceInsert(s, t)",
            "y = ConcatFromSequence<axis=0>(q)",
            None,
        ),
    ],
)
def test_sequence_that_a_loop_fills(body: str, after: str, expected: str | None) -> None:
    model = text("float[N, 3] x", LOOP % body + after)
    if expected is not None:
        assert shapes(model) == [expected]
    agrees(model, N=SIZES)


def test_length_after_a_loop() -> None:
    assert value(text("float[N, 3] x", LOOP % "r = SequenceInsert(s, x)" + "y = SequenceLength(q)")) == "N"


def test_sequence_map() -> None:
    nodes = """q = SequenceConstruct(x, z) last = Constant<value_int=-1>()
        m = SequenceMap <body = b (float[K, 3] a) => (float[L, 3] o) { o = Concat<axis=0>(a, a) }>(q)
        y = SequenceAt(m, last)"""
    model = text("float[N, 3] x, float[M, 3] z", nodes)
    assert shapes(model) == ["[2*M, 3]"]
    agrees(model, N=SIZES, M=(0, 1, 3))
    analysis = shapesolve.analyze(model)
    (inside,) = (s for name, s in analysis.shapes.items() if name.endswith("/body/o"))
    assert inside[0].evaluate({"N": 1, "M": 2}) is None


@pytest.mark.parametrize("others", ["x", "x, z", "x, z, x"])
def test_sequence_map_over_two(others: str) -> None:
    """The others may be longer than the first, not shorter."""
    nodes = f"""q = SequenceConstruct(x, z) r = SequenceConstruct({others})
        m = SequenceMap <body = b (float[K, 3] a, float[J, 3] c) => (float[L, 3] o)
            {{ o = Concat<axis=0>(a, c) }}>(q, r) last = Constant<value_int=-1>() y = SequenceAt(m, last)"""
    agrees(text("float[N, 3] x, float[M, 3] z", nodes), N=(1, 2), M=(1, 3))


def test_choice_between_sequences() -> None:
    nodes = """q = If(c) <then_branch = t () => (a) { a = SequenceConstruct(x, x) },
        else_branch = e () => (b) { b = SequenceConstruct(z) }> zero = Constant<value_int=0>()
        y = SequenceAt(q, zero) l = SequenceLength(q)"""
    model = text("float[N, 3] x, float[M, 3] z, bool c", nodes, "y, l")
    for truth in (True, False):
        agrees(model, {"c": np.array(truth)}, N=(0, 2), M=(0, 3))
    size, three = shapesolve.analyze(model).shapes["y"]
    assert three == 3
    assert size.name not in ("N", "M", "?")


def test_optional() -> None:
    nodes = "o = Optional(x) y = OptionalGetElement(o) h = OptionalHasElement(o)"
    model = text("float[N, 3] x", nodes, "y, h")
    assert shapes(model) == ["[N, 3]", "[]"]
    assert value(model, "h") == "true"
    agrees(model, N=SIZES)
    plain = text("float[N, 3] x", "y = OptionalGetElement(x) h = OptionalHasElement(x)", "y, h")
    assert value(plain, "h") == "true"
    agrees(plain, N=SIZES)
    assert value(text("float[N, 3] x", 'y = OptionalHasElement("")')) == "false"


def test_elements_are_kept() -> None:
    analysis = shapesolve.analyze(text("float[N, 3] x", "q = SequenceConstruct(x, x) y = SequenceLength(q)"))
    known = analysis._solved.walk.state.tensors["q"]
    assert isinstance(known, Sequence)
    assert known.items is not None
    assert len(known.items) == 2


def test_elements_of_an_input_differ() -> None:
    """Sizes without a name in a sequence that is an input may differ from element to element."""
    model = text(
        "seq(float[?, 3]) q, float[N, 3] x",
        CONSTANTS + "y = SequenceAt(q, zero) z = SequenceAt(q, p)",
        "y, z",
    )
    first, second = shapesolve.analyze(model).shapes["y"], shapesolve.analyze(model).shapes["z"]
    assert first[1] == second[1] == 3
    assert first[0] is not second[0]
