"""Every way to the value of an expression leads to the same one, and to none where a divisor is 0.

The reference walks the canonical form with Python's integers. A size without a value leaves the whole without one, also in a
broadcast that another size settles; of a choice, only the branch that is taken counts.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from random import Random
from typing import TypeVar

import z3

from shapesolve.expr import (
    Atom,
    Cond,
    Dim,
    broadcast,
    constant,
    eq,
    floor_div,
    ge,
    ite,
    maximum,
    ne,
    symbol,
)
from shapesolve.expr.closures import Compiler
from shapesolve.expr.code import unless_undefined
from shapesolve.expr.sympy_bridge import to_sympy
from shapesolve.expr.z3_bridge import Z3Scope, Z3Terms

T = TypeVar("T")
SYMBOLS = [symbol("a"), symbol("b"), symbol("v", None)]
CASES = [dict(zip("abv", sizes, strict=True)) for sizes in product((0, 1, 5), (0, 1, 2), (-2, 0, 1))]


class Undefined(ArithmeticError):
    """There is no value."""


def value(dim: Dim, sizes: dict[str, int], by_zero: int | None = None) -> int:
    """What it is, by definition; a quotient by 0 is `by_zero`, or has no value."""
    total = dim.const
    for mono, c in dim.terms:
        for atom in mono:
            c *= atom_value(atom, sizes, by_zero)
        total += c
    return total


def atom_value(atom: Atom, sizes: dict[str, int], by_zero: int | None) -> int:
    if atom.kind == "sym":
        return sizes[atom.args[0]]
    if atom.kind == "ite":
        return value(atom.args[1 if truth(atom.args[0], sizes, by_zero) else 2], sizes, by_zero)
    x = [value(a, sizes, by_zero) for a in atom.args]
    if atom.kind == "//":
        if x[1] == 0:
            if by_zero is None:
                raise Undefined
            return by_zero
        return x[0] // x[1]
    return max(x[0], 0) if atom.kind == "pos" else next((n for n in x if n != 1), 1)


def truth(cond: Cond, sizes: dict[str, int], by_zero: int | None = None) -> bool:
    if cond.kind in ("and", "or"):
        return (all if cond.kind == "and" else any)(truth(c, sizes, by_zero) for c in cond.args)
    if not cond.args:
        return cond.is_true
    x = value(cond.args[0], sizes, by_zero)
    return {"==": x == 0, "!=": x != 0, ">=": x >= 0}[cond.kind]


def unless(of: Callable[..., T], said: Dim | Cond, sizes: dict[str, int]) -> T | None:
    """None where there is no value."""
    try:
        return of(said, sizes)
    except Undefined:
        return None


def drawn(random: Random, depth: int = 3) -> Dim:
    """Quotients by what may be 0 inside broadcasts and choices, and the other way round."""
    if not depth or random.random() < 0.1:
        return random.choice([*SYMBOLS, constant(random.choice((-3, 2, 4)))])
    x, y = drawn(random, depth - 1), drawn(random, depth - 1)
    kind = random.choice(("broadcast", "broadcast", "//", "//", "+", "*", "max", "ite"))
    if kind == "//":
        return x if y.value == 0 else floor_div(x, y)
    if kind == "ite":
        return ite(random.choice((eq, ne, ge))(drawn(random, depth - 2 if depth > 1 else 0), y), x, y)
    if kind == "broadcast":
        return broadcast(x, y, random.choice(SYMBOLS))
    return {"+": x + y, "*": x * y, "max": maximum(x, y)}[kind]


def test_every_route_gives_the_same_value() -> None:
    random, undefined, lost = Random(7), 0, 0
    dims: list[Dim] = []
    while len(dims) < 80:
        try:
            d = drawn(random)
        except ZeroDivisionError:
            continue
        if 3 < d.size < 60 and d not in dims:
            dims.append(d)
    shared = Compiler(dims)
    for number, d in enumerate(dims):
        relation = random.choice((eq, ne, ge))(d, random.choice((0, 1, 2)))
        plain, within = Compiler().dim(d), shared.dim(d)
        checks = unless_undefined(relation)
        for sizes in CASES:
            expected, holds = unless(value, d, sizes), unless(truth, relation, sizes)
            undefined += expected is None
            lost += expected is None and any(a.kind == "broadcast" for mono, _ in d.terms for a in mono)
            told = f"{d} at {sizes}"
            assert d.evaluate(sizes) == expected, told
            assert [called(f, sizes) for f in (plain, within, d.subs)] == [expected] * 3, told
            assert relation.evaluate(sizes) == holds, told
            assert truth(checks, sizes, by_zero=0) == (holds is not False), told
        for sizes in random.sample(CASES, 2) if number % 4 == 0 else ():
            same_in_z3(d, relation, sizes)
    assert undefined > 200
    assert lost > 30


def called(function: object, sizes: dict[str, int]) -> int | None:
    try:
        found = function(dict(sizes))
    except ZeroDivisionError:
        return None
    return found.value if isinstance(found, Dim) else found


def same_in_z3(d: Dim, relation: Cond, sizes: dict[str, int]) -> None:
    expected = d.evaluate(sizes)
    for native in (False, True):
        scope = Z3Scope(native=native)
        term, solver = scope.term(d), z3.Solver(ctx=scope.ctx)
        solver.add(*scope.definitions, *(v == sizes[n] for n, v in scope.symbols.items()))
        assert (solver.check() == z3.sat) == (expected is not None), d
        if expected is not None:
            assert solver.model().eval(term, model_completion=True).as_long() == expected
    terms = Z3Terms()
    formula = terms.formula(relation)
    bound = z3.substitute(formula, *((v, z3.IntVal(sizes[n])) for n, v in terms.symbols.items()))
    assert z3.is_true(z3.simplify(bound)) == (relation.evaluate(sizes) is True), relation
    if expected is not None and d.size < 14:
        written = to_sympy(d)
        known = {s: sizes[s.name] for s in written.free_symbols}
        assert written.subs(known, simultaneous=True) == expected, d
