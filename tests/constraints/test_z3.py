"""The constraint system in Z3, in any context and with any names, and as SMT-LIB text."""

from __future__ import annotations

from pathlib import Path

import pytest
import z3

import shapesolve
from shapesolve.expr import Dim, broadcast, ceil_div, eq, ge, ite, maximum, minimum, parse_cond, symbol

from .test_constraints import model

ROOT = Path(__file__).parents[2]
A, B = Dim("a"), Dim("b")
TERMS = [
    A * 3 - B,
    (A + 1) // 2,
    ceil_div(A, Dim(4)),
    A // (B + 1),
    (A - 5) // 3,
    A // B,
    (A - B) // (B - 4),
    maximum(A - 3, B),
    minimum(A, B, Dim(5)),
    broadcast(A, B),
    ite(ge(A, B), A // B, B),
    (A % 3) * (B // 2),
]


@pytest.mark.parametrize("dim", TERMS, ids=str)
def test_a_term_has_the_value_of_the_dim(dim):
    term = dim.z3()
    assert term.ctx == z3.main_ctx()
    for a in range(9):
        for b in range(9):
            value = dim.evaluate({"a": a, "b": b})
            found = z3.simplify(z3.substitute(term, (z3.Int("a"), z3.IntVal(a)), (z3.Int("b"), z3.IntVal(b))))
            if value is not None:
                assert found.as_long() == value


@pytest.mark.parametrize(
    "text", ["a // b >= 2", "a % b == 0 or b == 0", "a >= 3 and (b == 1 or a // b == 2)", "a != b"]
)
def test_a_formula_has_the_truth_of_the_condition(text):
    cond = parse_cond(text)
    formula = cond.z3()
    for a in range(7):
        for b in range(7):
            truth = cond.evaluate({"a": a, "b": b})
            solver = z3.Solver()
            solver.add(formula, z3.Int("a") == a, z3.Int("b") == b)
            assert (solver.check() == z3.sat) == (truth is True)


def names_in(formulas) -> set[str]:
    found, stack = set(), list(formulas)
    while stack:
        e = stack.pop()
        if e.num_args() == 0 and e.decl().kind() == z3.Z3_OP_UNINTERPRETED:
            found.add(e.decl().name())
        stack += e.children()
    return found


def test_terms_stand_alone_in_the_callers_context():
    ctx = z3.Context()
    dim = maximum((A + 1) // 2, B) + broadcast(A, B) + ite(eq(A, 1), B, A)
    assert dim.z3(ctx).ctx == ctx
    assert names_in([dim.z3(ctx)]) == {"a", "b"}
    assert eq(dim, 3).z3(ctx).ctx == ctx
    assert names_in([eq(dim, 3).z3(ctx)]) == {"a", "b"}


@pytest.fixture(scope="module")
def attention() -> shapesolve.Analysis:
    return shapesolve.analyze(ROOT / "examples" / "attention.onnx")


def test_the_user_asks_in_the_main_context(attention):
    solver = z3.Solver()
    solver.add(attention.constraints.z3())
    batch, seq, past, total = z3.Ints("batch seq past_seq total_seq")
    assert names_in(solver.assertions()) <= {"batch", "seq", "past_seq", "total_seq"}
    assert solver.check(batch >= 1, seq == 4, past == 3, total == 7) == z3.sat
    assert solver.check(batch >= 1, seq == 4, past == 3, total == 5) == z3.unsat


def test_every_tensor_has_a_variable_on_request(attention):
    ctx = z3.Context()
    solver = z3.Solver(ctx=ctx)
    solver.add(attention.constraints.z3(ctx, tensors=True))
    scores = z3.Int("/attn/MatMul_output_0[3]", ctx)
    sizes = [z3.Int(n, ctx) == s for n, s in {"batch": 2, "seq": 4, "past_seq": 3, "total_seq": 7}.items()]
    assert solver.check(*sizes) == z3.sat
    assert solver.model()[scores].as_long() == 7
    assert solver.check(*sizes, scores != 7) == z3.unsat


@pytest.mark.parametrize("tensors", [False, True])
def test_a_core_names_nodes(attention, tensors):
    solver = attention.constraints.solver(tensors=tensors)
    solver.add(z3.Int("total_seq") == 5, z3.Int("past_seq") == 3, z3.Int("seq") == 4, z3.Int("batch") == 1)
    assert solver.check() == z3.unsat
    core = attention.constraints.core(solver.unsat_core())
    assert "/attn/Add" in {c.node for c in core}
    assert any(str(literal).strip("|").startswith("/attn/Add #") for literal in solver.unsat_core())
    left = z3.Solver()
    left.add(core.z3(tensors=tensors))
    left.add(z3.Int("total_seq") == 5, z3.Int("past_seq") == 3, z3.Int("seq") == 4, z3.Int("batch") == 1)
    assert left.check() == z3.unsat


def test_a_literal_of_somebody_else_is_refused(attention):
    with pytest.raises(ValueError, match="not the literal of a constraint"):
        attention.constraints.core([z3.Bool("mine")])


def test_one_constraint_as_a_formula(attention):
    (row,) = attention.constraints.for_node("/attn/q_proj/MatMul").role("requirement")
    assert names_in([row.z3(tensors=True)]) == {"attn.q_proj.weight[0]", "hidden_states[2]"}
    assert z3.is_true(z3.simplify(row.z3()))


# ---------------------------------------------------------------------- SMT-LIB

ODD = [
    "n", "a b", "a|b", "a\\b", "größe", "let", "and", "distinct", "_", "-1", "12", "x\ny", "x;y", 'say "n"', "true",
    "size!0", "size!1", "as", "/attn/MatMul", "Int", "div",
]  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_any_name_is_read_back(name):
    proto = model("g (float[n, 4] x) => (float[n, 8] y) { y = MatMul(x, w) }", w=[4, 8])
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = name
    proto.graph.node[0].name = name
    system = shapesolve.analyze(proto).constraints
    text = system.to_smtlib(tensors=True)
    solver = z3.Solver(ctx=z3.Context())
    solver.from_string(text)
    assert solver.check() == z3.sat
    assert all(31 < ord(c) < 127 or c == "\n" for c in text)
    assert text == system.to_smtlib(tensors=True)


def test_names_stay_distinct():
    from shapesolve.solve.export import smtlib_text

    cond = (
        eq(symbol("a|b"), symbol("size!0") + 1)
        & eq(symbol("a\\b"), symbol("size!0") + 3)
        & ge(symbol("let"), 4)
    )
    text = smtlib_text([("c|0", "", cond), ("stated!0", "", ge(symbol("a|b"), 9))])
    solver = z3.Solver(ctx=z3.Context())
    solver.from_string(text)
    assert solver.check() == z3.sat
    values = {d.name(): solver.model()[d] for d in solver.model().decls()}
    stands = dict(
        line[2:].split(" stands for ")[::-1] for line in text.splitlines() if " stands for " in line
    )
    a, b, other = (values[stands[n]].as_long() for n in ("a|b", "a\\b", "size!0"))
    assert (a - other, b - other) == (1, 3)


def test_smtlib_says_what_the_solver_says(attention):
    text = attention.constraints.to_smtlib()
    assert "broadcast sizes must be equal or 1" in text
    solver = z3.Solver(ctx=z3.Context())
    solver.from_string(text)
    ctx = solver.ctx
    sizes = {"batch": 1, "seq": 4, "past_seq": 3}
    at = [z3.Int(n, ctx) == s for n, s in sizes.items()]
    assert solver.check(*at, z3.Int("total_seq", ctx) == 7) == z3.sat
    assert solver.check(*at, z3.Int("total_seq", ctx) == 5) == z3.unsat
