"""A dim stands where Python asks for an integer, and takes whatever is one; the same whether it is compiled or not."""

import operator

import numpy as np
import pytest

from shapesolve import Dim, Shape
from shapesolve.expr import (
    broadcast,
    constant,
    divides,
    eq,
    ge,
    maximum,
    minimum,
    product,
    total,
)

d = Dim("a + b//2")
five = np.int64(5)


def test_a_known_dim_is_an_integer() -> None:
    assert list(range(Dim(3))) == [0, 1, 2]
    assert [1, 2, 3][Dim(1)] == 2
    assert np.zeros(Shape([2, 3])).shape == (2, 3)
    assert operator.index(Dim(7)) == int(Dim(7)) == 7
    with pytest.raises(TypeError, match="the dim a \\+ b//2 is symbolic: it has no integer value"):
        operator.index(d)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (Dim(five), Dim(5)),
        (Dim(Dim("a")), Dim("a")),
        (Dim(np.True_), Dim(1)),
        (d + five, d + 5),
        (five + d, d + 5),
        (d - five, d - 5),
        (five - d, 5 - d),
        (d * five, d * 5),
        (d // five, d // 5),
        (d % five, d % 5),
        (maximum(d, five), maximum(d, 5)),
        (minimum(five, d), minimum(d, 5)),
        (broadcast(d, five), broadcast(d, 5)),
        (product([five, d]), 5 * d),
        (total([five, d]), 5 + d),
        (ge(d, five), ge(d, 5)),
        (eq(five, d), eq(d, 5)),
        (divides(five, d), divides(5, d)),
        (d.subs({"a": five}), d.subs({"a": 5})),
        (d.subs({"a": "c + 1"}), d.subs({"a": Dim("c + 1")})),
        (Shape([five, "a"]), Shape([5, "a"])),
        (Shape(["a", 2]).with_dim(0, five), Shape([5, 2])),
        (d.evaluate({"a": five, "b": np.int32(4)}), 7),
        (ge(d, 3).evaluate({"a": five, "b": np.uint8(4)}), True),
        (Shape(["a", "b"]).evaluate({"a": five, "b": np.int64(1)}), [5, 1]),
    ],
)
def test_integers_of_other_kinds(made: object, expected: object) -> None:
    assert made == expected
    assert type(made) is type(expected)


@pytest.mark.parametrize("other", [1.5, "x", None, [1]])
def test_what_is_no_integer_is_refused_in_arithmetic(other: object) -> None:
    for operation in (operator.add, operator.sub, operator.mul, operator.floordiv):
        with pytest.raises(TypeError):
            operation(d, other)
    assert constant(5) != other
