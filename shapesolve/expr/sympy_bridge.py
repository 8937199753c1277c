"""Converts dims to SymPy expressions and back; the only module that imports SymPy."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

import sympy

from .atom import Atom
from .canonical import absolute
from .cond import FALSE, TRUE, Cond, eq, ge, gt, ite, le, lt, ne, sign
from .core import Dim, constant, symbol
from .limits import MAX_DEGREE
from .quotient import Quotient
from .traverse import atoms_of
from .visit import visit


def to_sympy(dim: Dim) -> Any:
    """The SymPy expression of `dim`: integer symbols, ``floor``, ``Max`` and ``Piecewise``."""
    terms = _Terms()
    for atom in atoms_of(dim):
        terms.done[atom] = visit(atom, terms)
    return terms.dim(dim)


class _Terms:
    def __init__(self) -> None:
        self.done: dict[Atom, Any] = {}

    def dim(self, dim: Dim) -> Any:
        return sympy.Add(dim.const, *(sympy.Mul(c, *(self.done[a] for a in mono)) for mono, c in dim.terms))

    def cond(self, cond: Cond) -> Any:
        if cond.kind in ("and", "or"):
            return (sympy.And if cond.kind == "and" else sympy.Or)(*map(self.cond, cond.args))
        if not cond.args:
            return sympy.true if cond.is_true else sympy.false
        return {"==": sympy.Eq, "!=": sympy.Ne, ">=": sympy.Ge}[cond.kind](self.dim(cond.args[0]), 0)

    def _symbol(self, atom: Atom) -> Any:
        name, lo, _ = atom.args
        known = {} if lo is None or lo < 0 else {"positive": True} if lo >= 1 else {"nonnegative": True}
        return sympy.Symbol(name, integer=True, **known)

    def _quotient(self, n: Dim, d: Dim) -> Any:
        return sympy.floor(self.dim(n) / self.dim(d))

    def _positive(self, x: Dim) -> Any:
        return sympy.Max(self.dim(x), 0)

    def _broadcast(self, sizes: tuple[Dim, ...]) -> Any:
        return sympy.Piecewise(*((a, sympy.Ne(a, 1)) for a in map(self.dim, sizes)), (1, True))

    def _choice(self, cond: Cond, a: Dim, b: Dim) -> Any:
        return sympy.Piecewise((self.dim(a), self.cond(cond)), (self.dim(b), True))


def from_sympy(expr: Any, symbols: Mapping[str, Dim] | None = None) -> Dim:
    """The dim of a SymPy expression whose value is an integer.

    Names are looked up in `symbols`; other symbols become sizes (>= 0), except those declared as integers of
    unknown sign. Rational coefficients are accepted inside ``floor`` and ``ceiling``. Raises `ValueError` for
    anything else.
    """
    done: dict[Any, Quotient | Cond] = {}
    stack = [(sympy.sympify(expr), False)]
    while stack:
        node, entered = stack.pop()
        if node in done:
            continue
        if entered:
            done[node] = _read(node, [done[a] for a in node.args], symbols or {})
        else:
            stack.append((node, True))
            stack.extend((a, False) for a in node.args)
    return _integer(done[sympy.sympify(expr)], expr)


def _read(node: Any, args: list[Any], symbols: Mapping[str, Dim]) -> Any:
    if node.is_Symbol:
        found = symbols.get(node.name)
        return Quotient(_symbol(node) if found is None else found)
    if node.is_Rational:
        return Quotient(constant(int(node.p)), constant(int(node.q)))
    if node in (sympy.true, sympy.false):
        return TRUE if node == sympy.true else FALSE
    if isinstance(node, sympy.functions.elementary.piecewise.ExprCondPair):
        return args  # Piecewise takes the pairs apart
    if isinstance(node, sympy.Piecewise):
        return _piecewise(node, args)
    join = _JOINS.get(node.func)
    if join is not None:
        return reduce(join, args)
    if isinstance(node, sympy.Pow):
        return _power(node, args[0])
    if node.func in _INTEGER:
        return _INTEGER[node.func](*(_integer(a, node) for a in args))
    if node.func is sympy.Not:
        return ~args[0]
    if node.func in _ROUND:
        return Quotient(_ROUND[node.func](args[0]))
    raise ValueError(f"{node.func.__name__} has no meaning for sizes, in {node}")


def _symbol(node: Any) -> Dim:
    sign_unknown = node.is_integer and node.is_nonnegative is None
    return symbol(node.name, None if sign_unknown else 0)


def _integer(value: Any, where: Any) -> Dim:
    exact = value.integer() if isinstance(value, Quotient) else None
    if exact is None:
        raise ValueError(f"not an integer expression: {where}")
    return exact


def _power(node: Any, base: Quotient) -> Quotient:
    n = node.exp
    if not n.is_Integer or abs(int(n)) > MAX_DEGREE:
        raise ValueError(f"an exponent that is not a small integer, in {node}")
    power = reduce(Quotient.__mul__, [base] * abs(int(n)), Quotient(constant(1)))
    return power if n >= 0 else Quotient(constant(1)) / power


def _piecewise(node: Any, pairs: list[list[Any]]) -> Quotient:
    if pairs[-1][1] is not TRUE:
        raise ValueError(f"a choice without a default, in {node}")
    result = _integer(pairs[-1][0], node)
    for value, cond in reversed(pairs[:-1]):
        result = ite(cond, _integer(value, node), result)
    return Quotient(result)


def _extremum(positive: Any) -> Any:
    def choose(a: Quotient, b: Quotient) -> Quotient:
        chosen: Quotient | None = positive(a, b)
        if chosen is None:
            raise ValueError("the sign of a denominator inside Max or Min is unknown")
        return chosen

    return choose


_JOINS: dict[Any, Any] = {
    sympy.Add: Quotient.__add__,
    sympy.Mul: Quotient.__mul__,
    sympy.Mod: Quotient.__mod__,
    sympy.Max: _extremum(Quotient.maximum),
    sympy.Min: _extremum(Quotient.minimum),
    sympy.And: Cond.__and__,
    sympy.Or: Cond.__or__,
}
_ROUND: dict[Any, Any] = {sympy.floor: Quotient.floor, sympy.ceiling: Quotient.ceil}
_INTEGER: dict[Any, Any] = {
    sympy.Abs: lambda x: Quotient(absolute(x)),
    sympy.sign: lambda x: Quotient(sign(x)),
    sympy.Eq: eq,
    sympy.Ne: ne,
    sympy.Ge: ge,
    sympy.Gt: gt,
    sympy.Le: le,
    sympy.Lt: lt,
}
