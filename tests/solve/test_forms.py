"""Contracts in short forms hold at exactly the sizes at which the contract held before, empty ones included."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shapesolve.expr import parse_cond
from shapesolve.expr.cond import symbols_in
from shapesolve.expr.plain import kind_of
from shapesolve.solve.contract.build import find_contract
from shapesolve.solve.contract.contract import Contract, Term, Terms, text_of

from ..building import EVERYTHING
from ..expr.trees import build, condition_trees
from .building import system

REAL = (
    "seq == broadcast(seq, max(total - past, 0)) or seq == 1 or broadcast(seq, max(total - past, 0)) == 1",
    "seq == 1 or total == past + 1 or min(past + seq - total, seq) == 0",
    "total >= past + seq", "total == past + seq", "seq >= 1", "past >= 1", "seq <= 9", "seq == total or seq == 1",
    "(h + 7)//8 == 2*((h + 15)//16)", "(h + 7)//8 == 4*((h + 31)//32)", "h >= 1", "h % 8 == 0", "w % 4 <= 1",
    "(8*((h + 7)//8)*((w + 7)//8)) % ((w + 15)//16) == 0",
    "4*((h + 15)//16) == (2*((h + 7)//8)*((w + 7)//8))//((w + 15)//16)",
    "4*h == (2*h*w)//(w//2) or w//2 == 0", "(h*w) % past == 0 and (past == (h*w)//past or h != 0)", "h//w >= 2 or w == 0",
    "h//2 == h2//2", "h % 2 == h2 % 2", "max(h//2 - 1, 0) == max(4*(h//8) - 1, 3)", "h//2 >= 1 or w == 3",
    "h*w == h*h2", "(h//4)*(w//4) == 6", "h*w + w >= 12", "w*past == past*seq",
)  # fmt: skip


def contract_of(conds):
    return Contract(Terms(Term(c, kind_of(c), text_of(c), tuple(sorted(c.free)), ()) for c in conds))


def found_for(conds):
    """The contract of a model that requires these."""
    symbols = symbols_in(*conds)
    s = system(*conds, inputs=" ".join(symbols))
    return find_contract(s.constraints, s.facts, symbols.values())


def same_everywhere(conds, tops):
    before = contract_of(conds)
    after = found_for(conds)
    names = sorted(set().union(*(c.free for c in conds)))
    top = tops[len(names)]
    for sizes in product(range(top), repeat=len(names)):
        at = dict(zip(names, sizes, strict=True))
        assert after.holds(at) == before.holds(at), (str(before), str(after), at)
    return after


TOPS = {0: 1, 1: 140, 2: 36, 3: 14, 4: 8, 5: 5, 6: 4}


@settings(max_examples=100 if EVERYTHING else 10)
@given(st.lists(st.sampled_from(REAL), min_size=1, max_size=4, unique=True))
def test_contracts_in_short_forms_hold_at_the_same_sizes(texts):
    same_everywhere([parse_cond(t) for t in texts], TOPS)


@given(st.lists(condition_trees, min_size=1, max_size=3))
def test_drawn_contracts_hold_at_the_same_sizes(trees):
    conds = [build(tree) for tree in trees]
    conds = [c for c in conds if c.args and c.free <= {"H", "M", "N"} and c.size < 60]
    if conds:
        same_everywhere(conds, TOPS)


@given(st.lists(st.sampled_from(REAL), min_size=1, max_size=4, unique=True))
def test_examples_satisfy_and_break_what_they_are_for(texts):
    contract = contract_of([parse_cond(t) for t in texts])
    names = set().union(*(t.cond.free for t in contract))
    for term in contract:
        if term.passes is not None:
            assert term.passes.keys() == names
            assert contract.holds(term.passes) is True
        if term.fails is not None:
            assert term.fails.keys() == names
            held = {t: t.cond.evaluate(term.fails) for t in contract}
            assert [t for t, h in held.items() if h is not True] == [term]


@pytest.mark.parametrize(
    ("texts", "passes", "fails"),
    [
        (["height % 32 == 0", "height >= 32"], {"height": 32}, {"height": 33}),
        (
            ["total == past + seq", "seq >= 1"],
            {"past": 2, "seq": 5, "total": 7},
            {"past": 3, "seq": 5, "total": 7},
        ),
        (["seq <= 512"], {"seq": 2}, {"seq": 513}),
        (["(h - 1)*(w - 1) == 36"], {"h": 10, "w": 5}, {"h": 11, "w": 5}),
    ],
)
def test_examples_are_near_to_usual_sizes(texts, passes, fails):
    term = contract_of([parse_cond(t) for t in texts]).terms[0]
    assert (term.passes, term.fails) == (passes, fails)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["(height + 7)//8 == 4*((height + 31)//32)"], "height % 32 == 0 or height % 32 >= 25"),
        (
            [
                "total >= past + seq", "seq >= 1", "past >= 1",
                "seq == 1 or total == past + 1 or min(past + seq - total, seq) == 0",
                "seq == broadcast(seq, max(total - past, 0)) or broadcast(seq, max(total - past, 0)) + past == 1",
            ],
            "total == past + seq, past >= 1, seq >= 1",
        ),
        (
            ["seq == 1 or total == past + 1 or min(past + seq - total, seq) == 0", "total >= past + seq", "seq >= 1"],
            "total >= past + seq, seq == 1 or total == past + seq, seq >= 1",
        ),
        (["max(height//2 - 1, 0) == max(4*(height//8) - 1, 3)", "height >= 8"], "height % 8 <= 1, height >= 8"),
        (["total == 1 or seq == 1 or total == seq", "seq == broadcast(seq, total)"], "seq == total or total == 1"),
        (
            ["a == b or a == 1 or b == 1", "broadcast(a, b) == 5"],
            "a == 5 or b == 5, a == b or a == 1 or b == 1",
        ),
        (["seq == (12 if seq == 0 else seq)"], "seq >= 1"),
        (["n == (0 if n == 0 else 12)"], "n == 12 or n == 0"),
        (["batch >= 1 or n//2 != 0"], "batch >= 1 or n >= 2"),
    ],
)  # fmt: skip
def test_terms_that_people_expect(texts, expected):
    conds = [parse_cond(t) for t in texts]
    after = same_everywhere(conds, TOPS)
    assert set(map(str, after)) == set(expected.split(", ")), str(after)
