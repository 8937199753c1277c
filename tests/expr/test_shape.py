"""Shapes and broadcasting."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shapesolve.expr import Dim, Shape, any_of, broadcast, broadcast_dim, broadcast_shapes, eq

from .trees import SIZES

M, N = Dim("M"), Dim("N")


def test_a_shape_is_a_tuple_of_dims():
    s = Shape(["batch", Dim("seq") // 2, 256])
    assert s.rank == 3
    assert s == (Dim("batch"), Dim("seq") // 2, 256)
    assert str(s) == "[batch, seq//2, 256]"
    assert repr(s) == "Shape([batch, seq//2, 256])"
    assert s.evaluate({"batch": 4, "seq": 128}) == [4, 64, 256]
    assert s.evaluate({"batch": 4}) is None
    assert s.subs({"batch": 2, "seq": Dim("t") * 2}) == (2, Dim("t"), 256)
    assert s.free_symbols() == {"batch", "seq"}
    assert s.numel is 256 * Dim("batch") * (Dim("seq") // 2)
    assert not s.is_static
    assert Shape([1, 2]).is_static
    assert s.with_dim(0, 7) == (7, Dim("seq") // 2, 256)
    assert isinstance(s[1:], Shape)
    assert isinstance(s + Shape([3]), Shape)
    assert Shape().numel == 1
    assert s.simplify() is s


BROADCASTS = [
    ([["N", 5], [5]], ["N", 5]),
    ([["N"], [5]], [5]),
    ([["N"], [1]], ["N"]),
    ([["N"], ["N"]], ["N"]),
    ([["M"], ["N"]], ["broadcast(M, N)"]),
    ([[0], [1]], [0]),
    ([[3], [4]], None),
    ([[0], [3]], None),
    ([[], ["N"]], ["N"]),
    ([["M", 1, 3], ["N", 3]], ["M", "N", 3]),
    ([["M"], ["N"], [4]], [4]),
    ([None, ["N"]], None),
    ([], None),
]


@pytest.mark.parametrize(("shapes", "expected"), BROADCASTS)
def test_broadcasting_shapes(shapes, expected):
    found = broadcast_shapes(*(None if s is None else Shape(s) for s in shapes))
    assert found == (None if expected is None else Shape(expected))


def test_the_condition_of_a_broadcast():
    size, legal = broadcast_dim(M, N)
    assert size is broadcast(M, N)
    assert legal is any_of((eq(M, N), eq(M, 1), eq(N, 1)))
    assert str(legal) == "M == N or M == 1 or N == 1"


@given(st.fixed_dictionaries({n: st.sampled_from((0, 1, 2, 3)) for n in SIZES}))
def test_broadcast_against_numpy(case):
    numpy = pytest.importorskip("numpy")
    shape = broadcast_shapes(Shape(["H", "M"]), Shape(["N"]))
    legal = broadcast_dim(M, N)[1]
    try:
        expected = list(numpy.broadcast_shapes((case["H"], case["M"]), (case["N"],)))
    except ValueError:
        assert legal.evaluate(case) is False
        return
    assert legal.evaluate(case) is True
    assert shape.evaluate(case) == expected
