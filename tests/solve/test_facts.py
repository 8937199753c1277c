"""The two layers agree: what the facts conclude, Z3 proves from the original constraints."""

from itertools import product

import pytest

from shapesolve.expr import FALSE, constant, divides, eq, ge, le, parse_cond, symbol
from shapesolve.solve.engine import Engine
from shapesolve.solve.facts.facts import Facts
from shapesolve.solve.facts.residual import Residue, unsimplified
from tests.building import seeds

from .building import random_dim, random_system, system

ALONE = Engine(400_000, shortcuts=False)


def _concluded(s):
    """Everything that the facts conclude from a system, as conditions."""
    facts = s.facts
    for name in facts.substitution:
        yield eq(symbol(name), unsimplified(symbol(name), facts))
    for name, (lo, hi) in facts.intervals.items():
        if lo is not None:
            yield ge(symbol(name), lo)
        if hi is not None:
            yield le(symbol(name), hi)
    for base, k in facts.divisors.items():
        yield divides(constant(k), unsimplified(base, facts))
    yield from facts.pending()


@pytest.mark.parametrize("seed", seeds(0, 60))
def test_z3_proves_what_the_facts_conclude(seed):
    s = random_system(seed)
    if s.clash is not None:
        assert not ALONE.satisfiable(s.needs[: s.clash + 1]).sat
        return
    for cond in _concluded(s):
        verdict = ALONE.entails(cond, s.needs)
        assert not verdict.refuted, (cond, s.needs, verdict.model)


@pytest.mark.parametrize("seed", seeds(0, 60))
def test_z3_proves_what_the_facts_simplify(seed):
    from random import Random

    s = random_system(seed)
    if s.clash is not None:
        return
    random = Random(seed)
    for _ in range(3):
        dim = random_dim(random, "abc", 2)
        now = s.facts.dim(dim)
        if now is not dim and not any(a.kind == "broadcast" for m, _ in dim.terms for a in m):
            verdict = ALONE.entails(eq(dim, now), s.needs)
            assert not verdict.refuted, (dim, now, s.needs, verdict.model)


@pytest.mark.parametrize("seed", seeds(100, 220))
def test_facts_and_residue_say_what_the_constraints_say(seed):
    s = random_system(seed, "ab")
    concluded = [FALSE] if s.clash is not None else [*_concluded(s), *Residue(s.facts).conds]
    for sizes in product(range(10), repeat=2):
        point = dict(zip("ab", sizes, strict=True))
        truths = [c.evaluate(point) for c in s.needs]
        if None in truths:
            continue
        assert all(truths) == all(c.evaluate(point) is True for c in concluded), (s.needs, point)


def test_a_clash_names_what_it_rests_on():
    s = system("d == 64", "e == d", "e == 65")
    assert s.clash == 2
    assert s.facts.why(("e", "d")) >= {0, 1}


def test_a_condition_that_is_refused_leaves_no_trace():
    s = system("a*b == 6", "b <= 4", "c >= 2", inputs="a b c")
    facts = s.facts
    before = (dict(facts.substitution), dict(facts.intervals), dict(facts.divisors), list(facts.pending()))
    assert not facts.assume(parse_cond("b == c + 3 and a == 5"), 9)
    assert (
        dict(facts.substitution),
        dict(facts.intervals),
        dict(facts.divisors),
        list(facts.pending()),
    ) == before
    assert 9 in facts.contradiction
    assert facts.assume(parse_cond("b == 3"), 10)
    assert str(facts.dim(symbol("a"))) == "2"


def test_long_chains_of_equalities_are_followed_without_recursion():
    facts, last = Facts(), 3000
    for i in range(last + 1):
        facts.introduce(f"s{i:04}")
    for i in range(last, 0, -1):
        assert facts.assume(eq(symbol(f"s{i:04}"), symbol(f"s{i - 1:04}")), i)
    assert facts.dim(symbol(f"s{last:04}")) is symbol("s0000")
    assert facts.assume(eq(symbol("s0000"), 7), last + 1)
    assert facts.dim(symbol(f"s{last:04}") + symbol("s1500")).value == 14
    assert not facts.assume(eq(symbol(f"s{last - 1:04}"), 8), last + 2)
