"""Cores: which constraints are behind a conflict or a contract term; Z3 alone says that each is one, and minimal."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
import z3

import shapesolve
from shapesolve.expr import Cond, parse_cond
from shapesolve.expr.z3_bridge import Z3Terms
from shapesolve.solve.engine import Engine
from shapesolve.solve.facts.constraint import Constraint

from ..building import share
from ..report.broken import CASES, analyzed
from .test_constraints import model

ROOT = Path(__file__).parents[2]
MODELS = sorted((ROOT / "tests" / "models").glob("*/model.onnx"))
#: nodes that are wrong by themselves: nothing of sizes is behind that
ALONE = {"SS205", "SS202", "slice_rank", "unknown_rank_mismatch"}


def answer(core: Iterable[Constraint], beside: Iterable[Cond]) -> z3.CheckSatResult:
    """Can these hold together?"""
    terms = Z3Terms(z3.Context())
    formulas = [terms.formula(c.reading) for c in core] + [terms.formula(c) for c in beside]
    solver = z3.Solver(ctx=terms.ctx)
    solver.set("rlimit", 20_000_000)
    solver.add(formulas)
    solver.add([size >= 0 for size in terms.sizes])
    return solver.check()


def assert_minimal(core: tuple[Constraint, ...], beside: tuple[Cond, ...] = ()) -> None:
    assert answer(core, beside) == z3.unsat
    for i, row in enumerate(core):
        assert answer(core[:i] + core[i + 1 :], beside) == z3.sat, f"{row} can be left out"


@pytest.mark.parametrize("name", CASES)
def test_conflicts_have_minimal_cores(name):
    for conflict in analyzed(name).conflicts:
        if name in ALONE:
            assert conflict.core == ()
        else:
            assert_minimal(conflict.core)
            assert not any(c.cond.is_false or c.reading.is_false for c in conflict.core)


def test_a_core_says_which_sizes_meet():
    proto = model("g (float[n, 64] x) => (float[n, 8] y) { y = MatMul(x, w) }", w=[768, 8])
    (conflict,) = shapesolve.analyze(proto).conflicts
    assert [str(c) for c in conflict.core] == ["x[1] == 64", "w[0] == 768", "w[0] == x[1]"]


def test_a_core_holds_what_another_node_needs():
    (conflict,) = analyzed("symbol_bound_twice").conflicts
    assert [str(c) for c in conflict.core] == [
        "a_weight[0] == 64",
        "b_weight[0] == 48",
        "a_weight[0] == x[1]",
        "b_weight[0] == x[1]",
    ]


def test_an_analysis_is_not_held_by_its_conflicts_and_terms():
    import gc
    import weakref

    gc.collect()
    gc.disable()
    try:
        a = shapesolve.analyze(CASES["SS201"][0])
        b = shapesolve.analyze(ROOT / "examples" / "attention.onnx")
        conflict, term = a.conflicts[0], b.contract[0]
        gone = weakref.ref(a), weakref.ref(b)
        del a, b
        assert [ref() for ref in gone] == [None, None]
        assert conflict.core
        assert term.core
    finally:
        gc.enable()


@pytest.mark.parametrize("path", share(MODELS, 3), ids=lambda p: p.parent.name)
def test_contract_terms_have_minimal_cores(path):
    a = shapesolve.analyze(str(path))
    for term in a.contract.usual:
        assert_minimal(term.core, (~term.cond, *term.given))
    for term in a.contract:
        assert_minimal(term.core, (~term.cond,))


def test_the_core_of_a_term_of_an_example():
    (term,) = shapesolve.analyze(ROOT / "examples" / "attention.onnx").contract["past_seq"]
    nodes = {c.node for c in term.core if c.role == "requirement"}
    assert nodes
    assert nodes <= set(term.nodes)
    assert "past_seq + seq" in " ".join(str(c) for c in term.core)


def test_a_core_of_conditions_does_not_rest_on_the_others():
    """That a divisor is not 0 is asserted with every quotient: a core must not use that of a condition outside of it."""
    conds = [
        parse_cond(t)
        for t in ("x % b >= 0", "b <= c", "c <= d", "d <= e", "e <= 0", "a >= 1", "a <= 0 or b >= 1")
    ]
    core = Engine(shortcuts=False).core(conds)
    if core is not None:
        assert Engine().satisfiable([conds[i] for i in core]).unsat
