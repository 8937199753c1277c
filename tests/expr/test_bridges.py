"""SymPy and Z3: the same values on the other side."""

import pytest
import sympy
import z3
from hypothesis import assume, given

from shapesolve.expr import (
    Dim,
    Shape,
    broadcast,
    divides,
    eq,
    implies,
    ite,
    maximum,
    minimum,
    ne,
    parse_cond,
    parse_dim,
    symbol,
)
from shapesolve.expr.sympy_bridge import from_sympy, to_sympy
from shapesolve.expr.z3_bridge import Z3Scope

from .trees import SYMBOLS, bindings, build, condition_trees, small_trees, trees

a, b, c, H, N = map(symbol, ("a", "b", "c", "H", "N"))
v = symbol("v", None)

SAMPLES = [
    "5",
    "N",
    "2*N + M*H - 3",
    "(H + 31)//32",
    "H//W",
    "2*(H//2)",
    "H % 5",
    "max(N - 3, 0)",
    "min(N, 5)",
    "max(a, b, c)",
    "ite(a == 1, b, c)",
    "ite(a >= 3 and (b != 2 or c == a), b + 1, c)",
    "ceildiv(a, b)",
    "abs(a - b)",
    "(a if a != 1 else b)//2",
    "max(a//2, b)*c**3",
    "N**2 - N",
]


@pytest.mark.parametrize("text", SAMPLES)
def test_sympy_round_trip(text):
    dim = parse_dim(text)
    assert from_sympy(dim.sympy) is dim


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("floor(H/2 - 1/2) + 1", "(H + 1)//2"),
        ("ceiling(H/2)", "(H + 1)//2"),
        ("floor(floor(H/2)/3)", "H//6"),
        ("Mod(H, 4)", "H % 4"),
        ("Max(a, b, 3)", "max(a, 3, b)"),
        ("Min(a, 3)", "min(a, 3)"),
        ("Piecewise((a, Eq(b, 1)), (b, a > 2), (3, True))", "a if b == 1 else (b if a > 2 else 3)"),
        ("a*b/b", "a"),
        ("floor(a/b)", "a//b"),
        ("floor(a*b/(2*c))", "a*b//(2*c)"),
        ("Abs(a - 3)", "abs(a - 3)"),
        ("sign(a - 3)", "sign(a - 3)"),
        ("a**2", "a*a"),
        ("floor(1/a)", "1//a"),
        ("floor(Max(a/2, b))", "max(a, 2*b)//2"),
        ("Piecewise((a, ~(Eq(a, 1) & Eq(b, 2))), (b, True))", "a if not (a == 1 and b == 2) else b"),
    ],
)
def test_reading_sympy(text, expected):
    assert from_sympy(sympy.sympify(text)) is parse_dim(expected)


def test_a_dim_is_made_of_an_expression_of_sympy():
    n, m = sympy.symbols("N M", integer=True, nonnegative=True)
    assert Dim(sympy.floor((n + 1) / 2) * m) is parse_dim("((N + 1)//2)*M")
    assert Shape([n, sympy.Integer(3), 4]) == Shape(["N", 3, 4])
    with pytest.raises(ValueError, match="has no meaning"):
        Dim(sympy.sin(n))


def test_symbols_of_sympy():
    assert from_sympy(sympy.Symbol("N")) is N
    assert from_sympy(sympy.Symbol("N", integer=True, positive=True)) is N
    assert from_sympy(sympy.Symbol("v", integer=True)) is v
    assert from_sympy(sympy.Symbol("v", integer=True), {"v": N}) is N
    assert to_sympy(N) == sympy.Symbol("N", integer=True, nonnegative=True)
    assert to_sympy(v) == sympy.Symbol("v", integer=True)
    assert to_sympy(symbol("p", 1)).is_positive


@pytest.mark.parametrize(
    "text", ["a/2", "sqrt(a)", "a**b", "sin(a)", "0.5*a", "Piecewise((a, a > 1))", "pi", "oo"]
)
def test_sympy_that_is_not_an_integer_expression(text):
    with pytest.raises(ValueError, match=r"\w"):
        from_sympy(sympy.sympify(text))


@given(small_trees, bindings)
def test_sympy_has_the_same_value(tree, case):
    dim = build(tree)
    expected = dim.evaluate(case)
    assume(expected is not None and dim.size < 60)
    names = {s: case[s.name] for s in to_sympy(dim).free_symbols}
    assert to_sympy(dim).subs(names, simultaneous=True) == expected


@given(small_trees, bindings)
def test_sympy_round_trip_has_the_same_value(tree, case):
    dim = build(tree)
    expected = dim.evaluate(case)
    assume(expected is not None and dim.size < 60)
    assert from_sympy(to_sympy(dim), SYMBOLS).evaluate(case) == expected


# ---------------------------------------------------------------------- Z3


def solver_of(scope):
    solver = z3.Solver(ctx=scope.ctx)
    solver.add(*scope.definitions)
    return solver


def fixed(scope, case):
    return [term == case[name] for name, term in scope.symbols.items()]


@pytest.mark.parametrize("native", [False, True])
@given(trees, bindings)
def test_terms_have_the_same_value(native, tree, case):
    dim = build(tree)
    assume(dim.size < 150)
    expected = dim.evaluate(case)
    scope = Z3Scope(native=native)
    term = scope.term(dim)
    solver = solver_of(scope)
    solver.add(*fixed(scope, case))
    if expected is None:
        assert solver.check() == z3.unsat  # a divisor is 0
        return
    assert solver.check() == z3.sat
    assert solver.model().eval(term, model_completion=True).as_long() == expected
    solver.add(term != expected)
    assert solver.check() == z3.unsat


@pytest.mark.parametrize("native", [False, True])
@given(condition_trees, bindings)
def test_formulas_have_the_same_truth(native, tree, case):
    cond = build(tree)
    assume(cond.size < 150)
    expected = cond.evaluate(case)
    scope = Z3Scope(native=native)
    formula = scope.formula(cond)
    solver = solver_of(scope)
    solver.add(*fixed(scope, case))
    if expected is None:
        assert solver.check() == z3.unsat
        return
    assert solver.check() == z3.sat
    solver.add(z3.Not(formula) if expected else formula)
    assert solver.check() == z3.unsat


def proves(cond, given=(), native=False):
    scope = Z3Scope(native=native)
    facts = [scope.formula(g) for g in given]
    goal = scope.formula(cond)
    solver = solver_of(scope)
    solver.set("rlimit", 5_000_000)
    solver.add(*facts, z3.Not(goal))
    return solver.check() == z3.unsat


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    ("goal", "given"),
    [
        ("2*(H//2) == H", ["H % 2 == 0"]),
        ("H//c >= N//c", ["H >= N"]),
        ("broadcast(a, b) == a", ["a == b or b == 1"]),
        ("broadcast(a, b) == b", ["a == 1"]),
        ("max(a, b) == a", ["a >= b"]),
        ("a*b*c//(b*c) == a", []),
        ("H//32*32 == H", ["H % 64 == 0"]),
    ],
)
def test_lemmas(native, goal, given):
    assert proves(parse_cond(goal), [parse_cond(g) for g in given], native)


@pytest.mark.parametrize("goal", ["2*(H//2) == H", "broadcast(a, b) == max(a, b)", "a*(b//c)*c == a*b"])
def test_lemmas_that_are_false(goal):
    assert not proves(parse_cond(goal))


def test_a_guarded_division_does_not_exclude_zero():
    guarded = ite(eq(b, 0), c, a // b)
    for native in (False, True):
        scope = Z3Scope(native=native)
        term = scope.term(guarded)
        solver = solver_of(scope)
        solver.add(scope.symbols["b"] == 0, scope.symbols["c"] == 7)
        assert solver.check() == z3.sat
        assert solver.model().eval(term).as_long() == 7
        scope.term(a // b)  # unguarded: now b cannot be 0
        solver = solver_of(scope)
        solver.add(scope.symbols["b"] == 0)
        assert solver.check() == z3.unsat


def test_atoms_are_shared_and_names_deterministic():
    def made():
        scope = Z3Scope()
        scope.term(a // b + maximum(a // b, c))
        scope.formula(implies(divides(4, H), ne(minimum(a, b), broadcast(a, N))))
        return [d.sexpr() for d in scope.definitions]

    first = made()
    assert first == made()
    scope = Z3Scope()
    scope.term(a // b)
    count = len(scope.definitions)
    scope.term(a // b)
    scope.term((a // b) * 3)
    assert len([d for d in scope.definitions[count:] if "q!" in d.sexpr()]) == 0


def test_symbols_cannot_be_taken_for_introduced_variables():
    scope = Z3Scope()
    x = symbol("q!2") + a // b + symbol("sym!q!2") + symbol("r!2")
    scope.term(x)
    names = [str(t) for t in scope.symbols.values()]
    assert len(set(names)) == len(names) == 5
    assert not {"q!2", "r!2", "q!4", "r!4"} & set(names)
    assert set(scope.symbols) == {"q!2", "sym!q!2", "r!2", "a", "b"}


def test_contexts_are_private():
    one, two = Z3Scope(), Z3Scope()
    assert one.ctx is not two.ctx
    assert one.term(a).ctx is one.ctx
    shared = Z3Scope(one.ctx)
    assert shared.ctx is one.ctx
