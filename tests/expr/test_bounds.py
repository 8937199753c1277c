"""Bounds hold always, and are tight on the forms that operators make."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shapesolve.expr import Dim, parse_dim
from shapesolve.expr.bounds import KnownIntervals, bounds

from .trees import INTEGERS, SIZES, SYMBOLS, bindings, build, trees

TABLE = [
    ("N", (0, None)),
    ("N + 1", (1, None)),
    ("-N", (None, 0)),
    ("5 - N", (None, 5)),
    ("N*M + 2", (2, None)),
    ("N//2", (0, None)),
    ("(N + 5)//2", (2, None)),
    ("N % 32", (0, 31)),
    ("min(N, 5)", (0, 5)),
    ("max(N, 5)", (5, None)),
    ("min(max(N, 2), 7)", (2, 7)),
    ("max(N - 3, 0)", (0, None)),
    ("broadcast(N + 3, M + 1)", (3, None)),
    ("N if M == 1 else 3", (0, None)),
    ("v*v", (0, None)),
    ("v", (None, None)),
    ("v//2", (None, None)),
    ("sign(v)", (-1, 1)),
]


@pytest.mark.parametrize(("text", "expected"), TABLE)
def test_bounds_of_forms(text, expected):
    dim = parse_dim(text, SYMBOLS)
    assert dim.bounds() == expected
    assert (dim.lo, dim.hi) == expected


@given(trees, bindings, st.data())
def test_known_intervals_give_sound_bounds(tree, case, data):
    dim = build(tree)
    if not isinstance(dim, Dim):
        return
    known = KnownIntervals()
    for name in (*SIZES, *INTEGERS):
        below, above = data.draw(st.integers(0, 5)), data.draw(st.integers(0, 5))
        known[name] = (
            case[name] - below if data.draw(st.booleans()) else None,
            case[name] + above if data.draw(st.booleans()) else None,
        )
    value = dim.evaluate(case)
    lo, hi = bounds(dim, known)
    if value is not None:
        assert lo is None or lo <= value
        assert hi is None or value <= hi
