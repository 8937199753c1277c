"""Sizes that break one condition and keep others: near to given ones, and found without looking at all others."""

from collections.abc import Iterable
from itertools import product

import pytest

from shapesolve.expr import Cond, any_of, eq, ge, parse_cond, symbol
from shapesolve.solve import sizes as module
from shapesolve.solve.engine import Answer, Engine
from shapesolve.solve.sizes import SizeFinder

TEXTS = ["a == b or a == 1 or b == 1", "b == c or b == 1 or c == 1", "c % 2 == 0", "d <= 3", "d + e >= 4"]


@pytest.mark.parametrize("start", [dict.fromkeys("abcde", 2), {"a": 1, "b": 4, "c": 4, "d": 3, "e": 1}, None])
def test_what_breaks_a_condition_breaks_no_other(start):
    conds = [parse_cond(t) for t in TEXTS]
    finder = SizeFinder(conds)
    for cond in conds:
        others = [c for c in conds if c is not cond]
        found = finder.breaking(cond, start)
        assert found is not None
        assert cond.evaluate(found) is False
        assert all(c.evaluate(found) for c in others)
        if start is not None and all(c.evaluate(start) for c in conds):
            moved = sum(found[n] != start[n] for n in found)
            assert moved <= min(
                sum(v != w for v, w in zip(at, start.values(), strict=True))
                for at in product(range(6), repeat=5)
                if not cond.evaluate(dict(zip("abcde", at, strict=True)))
                and all(c.evaluate(dict(zip("abcde", at, strict=True))) for c in others)
            )


def test_conditions_on_other_sizes_are_looked_at_once_for_all_terms(monkeypatch):
    looked = []
    satisfies = module.satisfies

    def counted(model, conds):
        conds = list(conds)
        looked.extend(conds)
        return satisfies(model, conds)

    monkeypatch.setattr(module, "satisfies", counted)
    conds = [parse_cond(f"a{i} <= b{i}") for i in range(200)]
    finder, start = SizeFinder(conds), {f"{x}{i}": 2 for i in range(200) for x in "ab"}
    for cond in conds:
        assert finder.breaking(cond, start) is not None
    assert len(looked) < 2 * len(conds)


def test_what_failed_at_the_last_sizes_is_looked_at_first_at_the_next(monkeypatch):
    looked = []
    satisfies = module.satisfies
    monkeypatch.setattr(module, "satisfies", lambda at, conds: looked.extend(conds) or satisfies(at, conds))
    conds = [parse_cond(t) for t in (*(f"a <= 90 + b{i}" for i in range(50)), "a == c", "a <= 2")]
    start = {"a": 2, "c": 2, **{f"b{i}": 2 for i in range(50)}}
    assert SizeFinder(conds).breaking(conds[-1], start) is not None
    assert len(looked) < 1000  # 50 at each of 64 tries, else


def _in_a_row(count: int) -> list[Cond]:
    """What a row of additions of concatenated inputs needs: all sums are the same, and no part is empty."""
    a, b = ([symbol(f"{name}{i}") for i in range(count)] for name in "ab")
    equal = [eq(a[0] + b[0], a[i] + b[i]) for i in range(1, count)]
    return [any_of([eq(symbol("n"), 1), eq(symbol("n"), a[0] + b[0])]), *equal, *(ge(d, 1) for d in (*a, *b))]


def test_sizes_of_many_equalities_need_no_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    conds = _in_a_row(100)
    monkeypatch.setattr(Engine, "satisfiable", None)
    found = SizeFinder(conds).some()
    assert found is not None
    assert all(c.evaluate(found) for c in conds)


def test_sizes_that_break_one_of_many_conditions_are_asked_of_those_near_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A condition that follows from the others has none: the nearest of them show it."""
    conds = _in_a_row(100)
    asked: list[int] = []
    satisfiable = Engine.satisfiable

    def counting(self: Engine, given: Iterable[Cond], **how: bool) -> Answer:
        listed = list(given)
        asked.append(len(listed))
        return satisfiable(self, listed, **how)

    monkeypatch.setattr(Engine, "satisfiable", counting)
    follows = ge(symbol("a0") + symbol("b0") - 1, symbol("a5"))
    finder, start = SizeFinder([*conds, follows]), SizeFinder(conds).some()
    assert finder.breaking(follows, start) is None
    assert asked
    assert max(asked) < 100 < len(conds)
    found = finder.breaking(conds[7], start)
    assert found is not None
    assert [c for c in conds if not c.evaluate(found)] == [conds[7]]
