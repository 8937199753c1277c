"""Sizes that break one condition and keep others: near to given ones, and found without looking at all others."""

from collections.abc import Iterable
from itertools import product

import pytest

from shapesolve.expr import Cond, any_of, eq, ge, parse_cond, symbol
from shapesolve.solve import sizes as module
from shapesolve.solve.engine import Answer, Engine
from shapesolve.solve.roles import NO_ROLES, Roles, interchangeable
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


# ---------------------------------------------------------------------- accepted sizes near requested ones

POOLED = ["(h // 4) * (w // 4) == 64", "b >= 1", "h >= 4", "w >= 4"]
IMAGE = Roles((("h", "w"),), {"h": frozenset({2, 4}), "w": frozenset({2, 4})})


def finder(texts: Iterable[str], roles: Roles = NO_ROLES, **options) -> SizeFinder:
    return SizeFinder(map(parse_cond, texts), roles=roles, floor=1, **options)


@pytest.mark.parametrize(
    ("start", "side", "found"),
    [
        ({"h": 224, "w": 224}, "both", {"h": 35, "w": 35}),
        ({"b": 3, "h": 224, "w": 224}, "below", {"b": 3, "h": 35, "w": 35}),
        ({"h": 224, "w": 320}, "both", {"h": 35, "w": 35}),
        ({"h": 64, "w": 32}, "both", {"h": 64, "w": 19}),
        ({"h": 8, "w": 8}, "above", {"h": 32, "w": 32}),
        ({"h": 40, "w": 40}, "above", None),
        ({"h": 33, "w": 35}, "both", {"h": 33, "w": 35}),
        ({"h": 128}, "both", {"h": 128, "w": 8}),
        ({}, "both", {"h": 32, "w": 32, "b": 1}),
    ],
)
def test_the_nearest_sizes_are_those_a_person_would_choose(start, side, found):
    near = finder(POOLED, IMAGE).nearest(start, side)
    assert near == found or {n: near[n] for n in found} == found


@pytest.mark.parametrize(
    ("start", "found", "rounder"),
    [
        ({"h": 224, "w": 224}, {"h": 35, "w": 35}, {"h": 32, "w": 32}),
        ({"h": 224, "w": 35}, {"h": 35, "w": 35}, {"h": 32, "w": 35}),
        ({"h": 8, "w": 8}, {"h": 32, "w": 32}, None),
        ({"h": 40}, {"h": 35, "w": 35}, {"h": 32, "w": 32}),
    ],
)
def test_sizes_that_moved_are_rounded_within_the_same_shapes(start, found, rounder):
    assert finder(POOLED, IMAGE).rounder({"b": 1, **found}, start) == (rounder and {"b": 1, **rounder})


def test_nearest_is_said_where_nothing_lies_between():
    near = finder(POOLED, IMAGE)
    assert near.is_nearest({"b": 1, "h": 35, "w": 35}, {"h": 224, "w": 224})
    assert not near.is_nearest({"b": 1, "h": 32, "w": 32}, {"h": 224, "w": 224})


@pytest.mark.parametrize(
    ("texts", "start", "found"),
    [
        (["s <= 512"], {"s": 600}, {"s": 512}),
        (["s <= 500"], {"s": 1_000_000_000}, {"s": 500}),
        (["(f + 1) // 2 == 1500 or f <= 2"], {"f": 1500}, {"f": 2999}),
        (["(h // 14) * (w // 14) == 1369"], {"h": 560, "w": 560}, {"h": 531, "w": 531}),
        (["h % 16 == 0"], {"h": 1080, "w": 1920}, {"h": 1088, "w": 1920}),
        (["t == p + s or t == 1"], {"s": 4, "p": 3, "t": 4}, {"s": 4, "p": 3, "t": 7}),
        (["b * c == 64"], {"b": 8, "c": 64}, {"b": 1, "c": 64}),
        (["a == b", "b == c", "c == d"], {"a": 4, "b": 5, "c": 6, "d": 7}, None),
    ],
)
def test_few_sizes_change_and_little(texts, start, found):
    conds = [parse_cond(t) for t in texts]
    group = tuple(n for n in start if n in "hw")
    near = SizeFinder(conds, names=start, roles=Roles((group,) if len(group) > 1 else ()), floor=1).nearest(
        start
    )
    assert near is not None
    assert all(c.evaluate(near) for c in conds)
    assert found is None or near == found


def test_the_judge_has_the_last_word():
    odd = SizeFinder([parse_cond("s <= 9")], judge=lambda sizes: sizes["s"] % 2 == 1)
    assert odd.nearest({"s": 20}) == {"s": 9}
    assert odd.completed({"s": 4}) is None
    assert odd.next("s", {"s": 4}) == {"s": 5}


BOUNDED = ["a + b <= 7", "a % 3 == 1", "b >= 2 * c", "(a == c or c == 1) and c >= 1", "(a + 1) // 2 >= 1"]


@pytest.mark.parametrize("texts", [BOUNDED[:k] for k in range(1, 6)])
@pytest.mark.parametrize("start", [{"a": 5}, {"a": 5, "b": 5}, {"a": 0, "b": 9, "c": 3}])
def test_verbs_agree_with_all_sizes_tried(texts, start):
    conds = [parse_cond(t) for t in texts]
    find = SizeFinder(conds, names="abc")
    grid = [dict(zip("abc", at)) for at in product(range(12), repeat=3)]
    accepted = [at for at in grid if all(c.evaluate(at) for c in conds)]

    def having(part):
        return [at for at in accepted if part.items() <= at.items()]

    assert (find.completed(start) is None) == (not having(start))
    near = find.nearest(start)
    assert near in accepted
    changed = sum(near[n] != size for n, size in start.items())
    assert changed <= min(sum(at[n] != size for n, size in start.items()) for at in accepted)
    others = {n: size for n, size in start.items() if n != "a"}
    for step in (1, -1):
        there = [at["a"] for at in having(others) if (at["a"] - start["a"]) * step >= 0]
        found = find.next("a", start, step)
        assert (found and found["a"]) == (min(there, key=lambda n: n * step) if there else None)
    ends = [at["a"] for at in having(others)]
    low, high = find.extreme("a", -1, others), find.extreme("a", 1, others)
    assert (low and low["a"]) == (min(ends) if ends else None)
    if "a + b <= 7" in texts:
        assert (high and high["a"]) == (max(ends) if ends else None)


def test_names_with_the_same_role():
    conds = [parse_cond(t) for t in ("h % 8 == 0", "w % 8 == 0", "s <= 512", "b >= 1")]
    assert interchangeable("bhws", conds) == [("h", "w")]
    assert interchangeable("bhw", [parse_cond("b * (h // 4) * (w // 4) == 64")]) == [("h", "w")]
