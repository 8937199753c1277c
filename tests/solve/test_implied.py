"""What conditions imply at all sizes: compared with all small sizes, and asked of those that have to do with it alone."""

from itertools import product
from random import Random

import shapesolve
from shapesolve.expr import Dim, broadcast, eq, ge, parse_cond
from shapesolve.solve.engine import Engine
from shapesolve.solve.facts.budget import MAX_CASES
from shapesolve.solve.facts.facts import Facts
from shapesolve.solve.known import Known
from shapesolve.solve.search import learned
from shapesolve.solve.simplify.domain import Domain
from tests.test_tail import chain

_TEXTS = [
    "a == b or a == 1 or b == 1", "b == c or b == 1 or c == 1", "a >= 2", "b >= 2", "c <= 3", "a + b >= c", "a % 2 == 0",
    "a*b == b*c", "a == c", "a != 1 or c == 0", "c == 0 or b == 1", "a == 2 or b == 3", "c//2 >= 1", "a*c != 0",
]  # fmt: skip


def test_what_follows_holds_at_all_sizes_that_are_held():
    conds, random, shown = [parse_cond(t) for t in _TEXTS], Random(0), 0
    for _ in range(60):
        held = random.sample(conds, 3)
        points = [dict(zip("abc", at, strict=True)) for at in product(range(6), repeat=3)]
        points = [at for at in points if all(c.evaluate(at) for c in held)]
        for cond in conds:
            if Known(held).follows(cond):
                shown += cond not in held
                assert all(cond.evaluate(at) for at in points), (held, cond)
    assert shown > 20


def test_conditions_are_found_by_their_symbols_in_the_order_of_adding():
    conds = [parse_cond(t) for t in ("b >= 2", "a + b >= 3", "d >= 1", "c//a == 2", "c >= 5")]
    held = Known(conds)
    assert held.about("ab") == [conds[0], conds[1], conds[3]]
    assert not held.follows(parse_cond("a != 0"))  # c//a has no value at a == 0: what it says is no ground
    held.discard(conds[0])
    held.discard(conds[0])
    assert conds[0] not in held
    held.add(conds[0])
    assert held.about("b") == [conds[1], conds[0]]


def test_what_has_nothing_to_do_with_a_question_is_not_asked(monkeypatch):
    asked = []
    entails = Engine.entails

    def counted(engine, goal, given=(), **how):
        given = list(given)
        asked.extend(given)
        return entails(engine, goal, given, **how)

    monkeypatch.setattr(Engine, "entails", counted)
    pairs = [(Dim(f"a{i}"), Dim(f"b{i}")) for i in range(50)]
    held = Known(c for a, b in pairs for c in (ge(a, b), ge(b, 2)))
    assert all(held.follows(ge(a, 2)) for a, _ in pairs)
    assert len(asked) == 100


def test_facts_of_single_symbols_are_learned_before_what_waits_for_them(monkeypatch):
    conds = list(shapesolve.analyze(chain(12))._solved.accepted.conds)
    sizes = [Dim(f"d{i}") for i in range(13)]
    read = []
    cond = Facts.cond
    monkeypatch.setattr(Facts, "cond", lambda self, c: read.append(c) or cond(self, c))
    facts = learned([*conds, *(ge(s, 1) for s in sizes)])
    assert all(facts.bounds(s)[0] == 1 for s in sizes)
    assert len(read) < 4 * len(sizes)


def test_broadcasts_of_very_many_sizes_are_not_taken_for_one_another():
    first, second = (broadcast(*(Dim(f"{x}{i}") for i in range(MAX_CASES + 1))) for x in "ab")
    domain = Domain([eq(first, 3)])
    assert not domain.follows(eq(second, Dim(3)))
    assert domain.follows(eq(first, Dim(3)))
    assert not domain.with_([eq(second, 4)]).follows(eq(first, 4))
