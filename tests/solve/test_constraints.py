"""The set of constraints, the checker that judges sizes by it, and minimal contradictory subsets."""

import time
from itertools import product

import pytest

from shapesolve.causes.conflict import minimal_core
from shapesolve.expr import Dim, parse_cond
from shapesolve.solve.check import Checker
from shapesolve.solve.cone_of_influence import legal_broadcasts
from shapesolve.solve.engine import Engine
from shapesolve.solve.facts.constraint import Constraint
from shapesolve.solve.facts.log import ConstraintSet, need
from tests.building import seeds

from .building import random_system, system


def test_selections_keep_their_numbers():
    s = system("a == b", "user: c >= 2", "b <= 5 if c == 3", "definition: d == a + 1").constraints
    assert len(s) == 4
    assert [str(c.cond) for c in s.role("user", "definition")] == ["c >= 2", "d == a + 1"]
    assert list(s.for_symbol("c").numbers) == [1, 2]
    assert [c.origin.node for c in s.for_node("/n2")] == ["/n2"]
    assert s[1:3].for_symbol("b")[0] is s[2]
    assert isinstance(s[-1], Constraint)
    assert str(s[2]) == "b <= 5  if c == 3"


def test_constraints_are_made_when_they_are_looked_at():
    ready = system("a == b", "b >= 2").constraints
    made: list[int] = []

    def make(i):
        made.append(i)
        return ready[i]

    lazy = ConstraintSet(lambda: ready.rows, make)
    assert len(lazy.role("requirement")) == 2
    assert made == []
    assert lazy[1] is ready[1]
    assert lazy[1] is lazy.for_symbol("b")[1]
    assert made == [1]
    assert len(ConstraintSet(lambda: list(ready))) == 2


# ---------------------------------------------------------------------- checker


@pytest.mark.parametrize("seed", seeds(800, 860))
def test_the_checker_is_exact(seed):
    s = random_system(seed, "ab")
    checker = Checker(s.constraints, s.facts if s.clash is None else None)
    for sizes in product(range(9), repeat=2):  # empty sizes included
        point = dict(zip("ab", sizes, strict=True))
        wrong = [c for c in dict.fromkeys(s.needs) if c.evaluate(point) is False]
        assert [b.cond for b in checker.broken(point)] == wrong


def test_broken_requirements_name_all_nodes_once():
    s = system("H % 4 == 0", "W >= 2", "H % 4 == 0", "definition: H == 5", "H <= 9 if W == 3")
    checker = Checker(s.constraints)
    (broken,) = checker.broken({"H": 6, "W": 2})
    assert broken.nodes == ("/n0", "/n2")
    assert [c.origin.node for c in checker.violations({"H": 10, "W": 3})] == ["/n0", "/n4"]
    assert checker.violations({"H": 8, "W": 9}) == []


def test_conditions_on_data_are_judged_only_when_settled():
    s = system("_d0 >= 7", "_d1 == 2*N", "_d1 <= 10", "_d2 + N >= 3 or N == 1")
    checker = Checker(s.constraints, s.facts)
    assert checker.violations({"N": 4}) == []
    assert [str(c.cond) for c in checker.violations({"N": 6})] != []
    assert checker.violations({"N": 1}) == []


def test_conditions_that_no_data_satisfies_together_are_broken():
    s = system("_d0 == 0 or N >= 3", "definition: _d0 <= 5", "_d0*_d1 >= N", "definition: _d1 <= 2")
    checker = Checker(s.constraints, s.facts)
    assert checker.violations({"N": 4}) == []
    (broken,) = checker.broken({"N": 2})
    assert broken.nodes == ("/n0", "/n2")


def test_a_division_by_zero_is_no_violation():
    s = system("x % a == 0 or y == 0")
    checker = Checker(s.constraints)
    assert checker.violations({"x": 5, "a": 0, "y": 3}) == []
    assert len(checker.violations({"x": 5, "a": 2, "y": 3})) == 1


def test_checking_takes_microseconds():
    s = system(
        *(f"(H + {2**k - 1})//{2**k} >= 1" for k in range(1, 9)), "N*H == N*W", "H % 2 == 0", "seq <= 512"
    )
    checker = Checker(s.constraints)
    sizes = {"H": 64, "W": 64, "N": 2, "seq": 5}
    assert checker.violations(sizes) == []
    best = min(_timed(checker, sizes) for _ in range(20))
    assert best < 100e-6


def _timed(checker, sizes):
    start = time.perf_counter()
    for _ in range(20):
        checker.violations(sizes)
    return (time.perf_counter() - start) / 20


# ---------------------------------------------------------------------- conflicts


def test_no_condition_of_a_core_can_be_left_out():
    s = system("a == 3", "b == a", "b == 4", "c == 5", "c >= 7", "b <= 2", "d >= 1").constraints
    assert minimal_core(s, range(4)) == (0, 1, 2)
    assert minimal_core(s, [2, 5, 6]) == (2, 5)
    assert minimal_core(s, [0, 1, 6]) == (0, 1, 6)


def test_a_condition_stated_twice_counts_once():
    s = system("a == 3", "a == 3", "a == 4").constraints
    assert minimal_core(s, range(3)) == (0, 2)


@pytest.mark.parametrize("seed", seeds(900, 960))
def test_cores_are_irreducible(seed):
    s = random_system(seed, "ab", 5)
    engine = Engine(200_000)
    core = minimal_core(s.constraints, range(len(s.constraints)))
    conds = [need(s.constraints[i]) for i in core]
    if engine.satisfiable(conds).unsat:
        assert not Engine(400_000, shortcuts=False).satisfiable(conds).sat
        for k in range(len(conds)):
            assert not engine.satisfiable(conds[:k] + conds[k + 1 :]).unsat
        for sizes in product(range(9), repeat=2):
            point = dict(zip("ab", sizes, strict=True))
            assert not all(c.evaluate(point) is True for c in (*conds, *legal_broadcasts(conds)))


def test_a_guard_is_part_of_a_conflict():
    s = system("n == 2", "n == 3 if n >= 2").constraints
    assert minimal_core(s, range(2)) == (0, 1)
    assert need(s[1]) is parse_cond("n <= 1 or n == 3")
    assert need(s[0]) is Dim("n").eq(2)
