# compiled: see CONTRIBUTING.md
"""Exact decision of conditions on one symbol: expressions become linear per remainder of a period.

For each remainder of a common multiple of the divisors, an expression of quotients by constants, choices, and maxima
of one symbol is
linear beyond some size. From there on its truth repeats, so a finite table is exact. The remainders of a polynomial
repeat too,
although it grows faster than linearly.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import Any, NamedTuple

import numpy as np

from ..expr import Atom, Cond, Dim, of_atom
from ..expr.plain import is_polynomial
from ..expr.traverse import atoms_of
from ..expr.visit import visit
from .facts import budget
from .tables import Inexact, Sizes, Table, Truth, fit


class Solutions(NamedTuple):
    """The sizes that satisfy some conditions, in ascending order. They are all, or (when `endless`) the first ones."""

    sizes: Sizes
    endless: bool


class _Irregular(Exception):
    """Raised for an expression that is not linear per remainder, or only for a period that is too long."""


class _EventualValue(NamedTuple):
    """An eventually linear value: ``slope[r]*q + base[r]`` at sizes ``period*q + r`` from `start` on.

    No slope and no base is larger than `most` in magnitude.
    """

    slope: Any
    base: Any
    start: int
    most: int


class _EventualTruth(NamedTuple):
    """An eventually periodic truth value: for sizes from `start` on, by the remainder of the size."""

    held: Truth
    start: int


class Regular:
    """Decides conditions on one symbol; values of subterms are cached."""

    def __init__(self) -> None:
        self.memo: dict[Atom, _EventualValue] = {}

    def solutions(self, conds: Sequence[Cond], name: str, least: int) -> Solutions | None:
        """The sizes (or values) of at least `least` at which all `conds`, on this symbol alone, hold. None when the
        conditions are of another kind or the table would be too long.
        """
        table = self._table([conds], name, least)
        if table is None:
            return None
        sizes, (held,), period = table
        return Solutions(sizes[held], bool(held[-period:].any()))

    def same(self, some: Sequence[Cond], others: Sequence[Cond], name: str, least: int) -> bool | None:
        """True if two lists of conditions on one symbol hold at the same sizes of at least `least`. None: not found out."""
        for size in range(least, least + budget.FIRST_SIZES):  # most differ here, without a table
            held = [all(c.evaluate({name: size}) is True for c in conds) for conds in (some, others)]
            if held[0] is not held[1]:
                return False
        table = self._table([some, others], name, least)
        if table is None:
            return None
        first, second = table[1]
        return bool(np.array_equal(first, second))

    def values(self, dim: Dim, conds: Sequence[Cond], name: str) -> tuple[Sizes, Any, Fraction] | None:
        """Return the sizes at which `conds` hold, the values of `dim` there, and its eventual growth.

        The sizes extend until everything has repeated twice. Returns None for unsupported conditions, or if the table
        would be too long.
        """
        try:
            truths = [self.truth(c) for c in conds]
            value = self.value(dim)
            period = lcm(len(value.base), *(len(f.held) for f in truths))
            top = max([value.start, *(f.start for f in truths)]) + 2 * period
            if top > budget.MAX_TABLE:
                return None
            sizes = np.arange(0, max(top, 64), dtype=np.int64)
            table = Table({name: sizes})
            held: Truth = np.ones(sizes.shape, dtype=np.bool_)
            for c in conds:
                held = np.logical_and(held, table.truth(c))
            values, there = table.dim(dim)
        except (_Irregular, Inexact):
            return None
        values = np.broadcast_to(values, sizes.shape)
        if there is not True and not np.all(np.broadcast_to(there, sizes.shape)[held]):
            return None
        return sizes[held], values[held], Fraction(int(value.slope[0]), len(value.base))

    def value(self, dim: Dim) -> _EventualValue:
        """The eventually linear value of an expression in one symbol."""
        self._learn(dim)
        return self._dim(dim)

    def _table(
        self, groups: Sequence[Sequence[Cond]], name: str, least: int
    ) -> tuple[Sizes, list[Truth], int] | None:
        """Sizes up to where everything repeats, where each group of conditions holds, and the period."""
        try:
            truths = [self.truth(c) for group in groups for c in group]
            period = lcm(*(len(f.held) for f in truths))
            top = max([least, *(f.start for f in truths)]) + period
            if top - least > budget.MAX_TABLE:
                return None
            sizes = np.arange(least, top, dtype=np.int64)
            table = Table({name: sizes})
            held = []
            for group in groups:
                truth: Truth = np.ones(sizes.shape, dtype=np.bool_)
                for c in group:
                    truth = np.logical_and(truth, table.truth(c))
                held.append(truth)
        except (_Irregular, Inexact):
            return None
        return sizes, held, period

    def truth(self, cond: Cond) -> _EventualTruth:
        """The eventually periodic truth value of a condition."""
        self._learn(cond)
        return self._truth(cond)

    def _learn(self, root: Dim | Cond) -> None:
        for atom in atoms_of(root):
            if atom not in self.memo and not (atom.kind == "//" and _is_curved(atom.args[0])):
                self.memo[atom] = visit(atom, self)

    def _truth(self, cond: Cond) -> _EventualTruth:
        if not cond.args:
            return _EventualTruth(np.array([cond.is_true]), 0)
        if cond.kind in ("and", "or"):
            truths = [self._truth(c) for c in cond.args]
            period = _common(*(len(f.held) for f in truths))
            each = np.array([np.tile(f.held, period // len(f.held)) for f in truths])
            join = np.logical_and if cond.kind == "and" else np.logical_or
            return _EventualTruth(join.reduce(each), max(f.start for f in truths))
        return _compared(cond.kind, self._dim(cond.args[0]))

    def _dim(self, dim: Dim) -> _EventualValue:
        rest, result = _without_remainders(dim) if _is_curved(dim) else (dim, _constant(0))
        result = _sum(result, _constant(rest.const))
        for mono, c in rest.terms:
            term = self._known(mono[0])
            for atom in mono[1:]:
                term = _product(term, self._known(atom))
            result = _sum(
                result, _EventualValue(term.slope * c, term.base * c, term.start, fit(term.most * abs(c)))
            )
        return result

    def _known(self, atom: Atom) -> _EventualValue:
        value = self.memo.get(atom)
        if value is None:
            raise _Irregular
        return value

    def _symbol(self, atom: Atom) -> _EventualValue:
        return _EventualValue(np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64), 0, 1)

    def _quotient(self, n: Dim, d: Dim) -> _EventualValue:
        return _quotient(self._dim(n), d)

    def _positive(self, x: Dim) -> _EventualValue:
        value = self._dim(x)
        return _chosen(_compared(">=", value), value, _constant(0))

    def _choice(self, cond: Cond, a: Dim, b: Dim) -> _EventualValue:
        return _chosen(self._truth(cond), self._dim(a), self._dim(b))

    def _broadcast(self, sizes: tuple[Dim, ...]) -> _EventualValue:
        result = self._dim(sizes[-1])
        for size in map(self._dim, sizes[-2::-1]):
            other = _EventualValue(size.slope, size.base - 1, size.start, fit(size.most + 1))
            result = _chosen(_compared("!=", other), size, result)
        return result


def _is_curved(dim: Dim) -> bool:
    """True if the dim has a product."""
    return any(len(mono) > 1 for mono, _ in dim.terms)


def _without_remainders(dim: Dim) -> tuple[Dim, _EventualValue]:
    """Splits a sum into remainders of polynomials by constants, and the rest. A remainder is ``n - k*(n//k)``."""
    rest, found = dim, _constant(0)
    for mono, c in dim.terms:
        if len(mono) > 1 or mono[0].kind != "//":
            continue
        n, divisor = mono[0].args
        k = divisor.value
        if k is None or c % k or k > budget.MAX_PERIOD or not _is_curved(n) or not is_polynomial(n):
            continue
        times = -c // k
        (name,) = n.free
        values = [times * (int(n.subs({name: r}).const) % k) for r in range(k)]
        rest = rest - n.scale(times) - of_atom(mono[0]).scale(c)
        found = _sum(
            found,
            _EventualValue(
                np.zeros(k, dtype=np.int64), np.array(values, dtype=np.int64), 0, fit(abs(times) * k)
            ),
        )
    return rest, found


def _sum(first: _EventualValue, second: _EventualValue) -> _EventualValue:
    a, b = _aligned(first, second)
    return _EventualValue(a.slope + b.slope, a.base + b.base, max(a.start, b.start), fit(a.most + b.most))


def _constant(value: int) -> _EventualValue:
    most = fit(abs(value))
    return _EventualValue(np.zeros(1, dtype=np.int64), np.array([value], dtype=np.int64), 0, most)


def _common(*periods: int) -> int:
    period = lcm(*periods)
    if period > budget.MAX_PERIOD:
        raise _Irregular
    return period


def _spread(value: _EventualValue, period: int) -> _EventualValue:
    """Return the same value with a multiple of its period."""
    times = period // len(value.base)
    if times == 1:
        return value
    most = fit(value.most * (times + 1))
    base = (value.base + np.arange(times)[:, None] * value.slope).ravel()
    return _EventualValue(np.tile(value.slope * times, times), base, value.start, most)


def _aligned(first: _EventualValue, second: _EventualValue) -> tuple[_EventualValue, _EventualValue]:
    if len(first.base) == len(second.base):
        return first, second
    period = _common(len(first.base), len(second.base))
    return _spread(first, period), _spread(second, period)


def _product(first: _EventualValue, second: _EventualValue) -> _EventualValue:
    first, second = _aligned(first, second)
    if first.slope.any() and second.slope.any():
        raise _Irregular
    most = fit(2 * first.most * second.most)
    slope = first.slope * second.base + second.slope * first.base
    return _EventualValue(slope, first.base * second.base, max(first.start, second.start), most)


def _quotient(n: _EventualValue, divisor: Dim) -> _EventualValue:
    k = divisor.value
    if k is None or k < 1:
        raise _Irregular
    times = fit(k) // gcd(k, *map(int, n.slope))
    n = _spread(n, _common(len(n.base) * times))
    return _EventualValue(n.slope // k, n.base // k, n.start, n.most // k + 1)


def _compared(kind: str, d: _EventualValue) -> _EventualTruth:
    """Truth of ``d == 0``, ``d != 0`` or ``d >= 0`` by size."""
    steep = d.slope != 0
    if kind == ">=":
        held = np.where(steep, d.slope > 0, d.base >= 0)
    else:
        held = (d.base == 0) & ~steep
        if kind == "!=":
            held = ~held
    if not steep.any():
        return _EventualTruth(held, d.start)
    turns = np.abs(d.base[steep]) // np.abs(d.slope[steep]) + 1
    return _EventualTruth(held, max(d.start, int(turns.max()) * len(d.base)))


def _chosen(test: _EventualTruth, a: _EventualValue, b: _EventualValue) -> _EventualValue:
    period = _common(len(test.held), len(a.base), len(b.base))
    a, b = _spread(a, period), _spread(b, period)
    held = np.tile(test.held, period // len(test.held))
    start = max(test.start, a.start, b.start)
    return _EventualValue(
        np.where(held, a.slope, b.slope), np.where(held, a.base, b.base), start, max(a.most, b.most)
    )
