"""Checking input sizes: shared parts and conditions on data are judged as by plain evaluation."""

from itertools import pairwise
from random import Random

import pytest

from shapesolve.expr import Dim, eq, ge, parse_cond
from shapesolve.expr.closures import Compiler
from shapesolve.solve.check import Checker
from shapesolve.solve.facts.constraint import Constraint, Origin

from .building import OURS


def _requirements(*texts):
    return [
        Constraint(parse_cond(t, OURS), "requirement", Origin(f"n{i}", "Op", t)) for i, t in enumerate(texts)
    ]


def test_shared_parts_are_evaluated_once_and_right():
    h, w = Dim("h"), Dim("w")
    half = (h + w * 3 + 1) // 2
    deep = [half]
    for k in range(6):
        deep.append((deep[-1] * 3 + half + k) // 2)
    conds = [c for a in deep for b in deep for c in (ge(a, b + 3), eq(a % 3, b % 2))]
    compiler = Compiler(conds)
    tests = [compiler.test(c) for c in conds]
    random = Random(0)
    for _ in range(30):
        sizes = {"h": random.randint(0, 50), "w": random.randint(0, 50)}
        assert [test(sizes) for test in tests] == [c.evaluate(sizes) for c in conds]


def test_changed_sizes_in_the_same_mapping_are_seen():
    checker = Checker(_requirements("(h + 7)//8 >= 4", "(h + 7)//8 + w >= 9", "(h + 7)//8 <= w"))
    sizes = {"h": 64, "w": 8}
    assert not checker.broken(sizes)
    sizes["h"] = 8
    assert [str(b.cond) for b in checker.broken(sizes)] == ["h >= 25"]


@pytest.mark.parametrize(
    ("sizes", "broken"),
    [
        ({"a": 3, "b": 3}, False),  # the data may be 0 or 1
        ({"a": 3, "b": 9}, False),  # only 1 will do
        ({"a": 80, "b": 80}, False),  # only 0 will do
        ({"a": 80, "b": 90}, True),
    ],
)
def test_conditions_on_data_break_when_no_data_satisfy_them(sizes, broken):
    texts = ["_d0 <= 1", "_d0 != 0 or a == b", "_d0 != 1 or a <= 64", "_d0 != 1 or _d1 == a + b"]
    checker = Checker(_requirements(*texts))
    for _ in range(2):
        assert bool(checker.broken(sizes)) == broken
        checker.forget()


@pytest.mark.parametrize(
    ("text", "never"),
    [
        ("a == max(_d0//2 + 1, 2)", {0, 1}),
        ("a <= 3 - _d0//2 - _d1//3", {4, 5}),
        ("a + _d0 % 3 >= 3", {0}),
        ("a == 2*max(_d0//2, b)", set()),
    ],
)
def test_sizes_that_no_value_of_data_inside_an_expression_fits_are_refused(text, never):
    checker = Checker(_requirements(text))
    refused = {a for a in range(6) if checker.broken({"a": a, "b": 0})}
    assert refused == never
    possible = {
        a
        for a in range(6)
        if any(
            parse_cond(text, OURS).evaluate({"a": a, "b": 0, "_d0": d, "_d1": e})
            for d in range(20)
            for e in range(9)
        )
    }
    assert not refused & possible


def test_sizes_that_differ_in_few_are_judged_as_by_a_checker_that_saw_no_others():
    names = [f"n{i}" for i in range(12)]
    texts = [f"{a} == {b} or {a} == 1 or {b} == 1" for a, b in pairwise(names)]
    texts += ["6//n0 + n1 != 4", "n2 % 2 == 0 or n3 >= 2", "_d0 != n4", "_d0 <= n5"]
    checker, random = Checker(_requirements(*texts)), Random(0)
    sizes = dict.fromkeys(names, 2)
    for _ in range(200):
        sizes = {**sizes, random.choice(names): random.randrange(5)}
        said = {n: s for n, s in sizes.items() if random.random() < 0.98}  # some are not known
        fresh = Checker(_requirements(*texts)).broken(said)
        assert [b.nodes for b in checker.broken(said)] == [b.nodes for b in fresh]


def test_a_changed_size_is_held_against_what_reads_it_alone(monkeypatch):
    checker = Checker(_requirements(*(f"a{i} <= b{i}" for i in range(100))))
    sizes = {f"{x}{i}": 3 for i in range(100) for x in "ab"}
    assert not checker.broken(sizes)
    made = []
    find = checker._find
    monkeypatch.setattr(checker, "_find", lambda at, tests: made.extend(tests) or find(at, tests))
    for i in range(100):
        assert [b.nodes for b in checker.broken({**sizes, f"a{i}": 4})] == [(f"n{i}",)]
    assert len(made) < 300
