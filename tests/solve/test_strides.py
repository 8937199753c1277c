"""Sizes in steps: joined products are equal at every size that the steps allow, and read as the sizes themselves."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shapesolve.expr import Dim, constant, parse_cond, parse_dim, symbol
from shapesolve.solve.simplify import Domain, Simplifier, Strides


def strides(*conds: str) -> Strides:
    return Strides(Domain(map(parse_cond, conds)).facts)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("16*(h//2)*(w//4)*b", "2*b*h*w"),
        ("(h//2)*(w//4)", "8*(h//8)*(w//8)"),
        ("64*(h//8)*(w//8) + b*h*w", "b*h*w + h*w"),
        ("max(92*h*w, 24*(h//2)*(w//2) + 52*h*w)", "92*h*w"),
        ("h//16", "h//16"),
        ("b//2", "b//2"),
    ],
)
def test_products_are_joined(text: str, said: str) -> None:
    found = strides("h % 8 == 0", "w % 8 == 0").shown(parse_dim(text))
    assert found is parse_dim(said)


_ATOMS = st.sampled_from(
    ["h", "h//2", "h//4", "h//8", "h//3", "(h + 1)//2", "w", "w//6", "b", "max(h, w)", "h % 5"]
)
_TERMS = st.lists(st.tuples(st.integers(-64, 64), st.lists(_ATOMS, max_size=3)), min_size=1, max_size=4)


@given(_TERMS)
def test_what_is_joined_is_equal_wherever_the_steps_hold(terms: list[tuple[int, list[str]]]) -> None:
    total: Dim = constant(0)
    for factor, atoms in terms:
        part: Dim = constant(factor)
        for atom in atoms:
            part = part * parse_dim(atom)
        total = total + part
    conds = ("h % 8 == 0", "w % 6 == 0")
    forms = [
        strides(*conds).inward(total),
        strides(*conds).shown(total),
        Simplifier(map(parse_cond, conds)).dim(total),
    ]
    for h, w, b in product((0, 8, 16, 40, 120), (0, 6, 30), (0, 1, 7)):
        sizes = {"h": h, "w": w, "b": b}
        assert {f.evaluate(sizes) for f in forms} == {total.evaluate(sizes)}


def test_without_steps_nothing_changes() -> None:
    d = parse_dim("6*(h//2)*h")
    assert strides("h >= 3").shown(d) is d
    assert strides("h % 4 == 0").shown(symbol("other")) is symbol("other")
