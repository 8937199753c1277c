"""Truth tables: evaluates a condition exactly at thousands of sizes at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..expr import Atom, Cond, Dim
from ..expr.limits import SAFE
from ..expr.visit import visit

if TYPE_CHECKING:
    from numpy.typing import NDArray

Sizes: TypeAlias = "NDArray[np.int64]"
Truth: TypeAlias = "NDArray[np.bool_]"


class Inexact(ArithmeticError):
    """Raised if a value does not fit into 64 bits."""


def truth_table(cond: Cond, sizes: Mapping[str, Sizes]) -> Truth:
    """Truth of `cond` for arrays of sizes by symbol (broadcast together); false where it has no value.

    Raises `Inexact` when a value may not fit, `KeyError` when a symbol is missing.
    """
    return Table(sizes).truth(cond)


class Table:
    """Truth tables of several conditions at the same sizes; common subterms are evaluated once."""

    def __init__(self, sizes: Mapping[str, Sizes]) -> None:
        self.sizes = sizes
        self.memo: dict[Atom, tuple[Any, Any]] = {}

    def truth(self, cond: Cond) -> Truth:
        """See `truth_table`."""
        with np.errstate(all="ignore"):
            return np.asarray(self.holds(cond))

    def holds(self, cond: Cond) -> Any:
        """`truth` as numpy returns it, maybe a scalar."""
        kind = cond.kind
        if kind in ("true", "false"):
            return np.bool_(kind == "true")
        if kind in ("and", "or"):
            join = np.logical_and if kind == "and" else np.logical_or
            result = self.holds(cond.args[0])
            for c in cond.args[1:]:
                result = join(result, self.holds(c))
            return result
        value, defined = self.dim(cond.args[0])
        held = value == 0 if kind == "==" else value != 0 if kind == "!=" else value >= 0
        return held if defined is True else np.logical_and(held, defined)

    def dim(self, dim: Dim) -> tuple[Any, Any]:
        """Values of a dim, and a mask of sizes at which it has one (True: everywhere)."""
        total: Any = np.int64(fit(dim.const))
        defined: Any = True
        for mono, c in dim.terms:
            term: Any = np.int64(fit(c))
            for atom in mono:
                value, there = self.atom(atom)
                fit(peak(term) * peak(value))
                term = term * value
                defined = _and(defined, there)
            fit(peak(total) + peak(term))
            total = total + term
        return total, defined

    def atom(self, atom: Atom) -> tuple[Any, Any]:
        """`dim` for an atom, cached."""
        found = self.memo.get(atom)
        if found is None:
            found = self.memo[atom] = visit(atom, self)
        return found

    def _symbol(self, atom: Atom) -> tuple[Any, Any]:
        return self.sizes[atom.args[0]], True

    def _quotient(self, n: Dim, d: Dim) -> tuple[Any, Any]:
        (numerator, has_n), (divisor, has_d) = self.dim(n), self.dim(d)
        there = divisor != 0
        return np.floor_divide(numerator, np.where(there, divisor, 1)), _and(_and(has_n, has_d), there)

    def _positive(self, x: Dim) -> tuple[Any, Any]:
        value, defined = self.dim(x)
        return np.maximum(value, 0), defined

    def _broadcast(self, sizes: tuple[Dim, ...]) -> tuple[Any, Any]:
        result, defined = self.dim(sizes[-1])
        for size in sizes[-2::-1]:
            value, there = self.dim(size)
            result, defined = np.where(value != 1, value, result), _and(defined, there)
        return result, defined

    def _choice(self, cond: Cond, a: Dim, b: Dim) -> tuple[Any, Any]:
        held, fails = self.holds(cond), self.holds(~cond)
        (first, has_first), (second, has_second) = self.dim(a), self.dim(b)
        defined = np.logical_or(np.logical_and(held, has_first), np.logical_and(fails, has_second))
        return np.where(held, first, second), defined


def _and(a: Any, b: Any) -> Any:
    return b if a is True else a if b is True else np.logical_and(a, b)


def peak(values: Any) -> int:
    """The largest magnitude among some numbers."""
    array = np.asarray(values)
    return max(abs(int(array.max())), abs(int(array.min()))) if array.size else 0


def fit(value: int) -> int:
    """Returns `value` if 64 bits hold it with room to spare; else raises `Inexact`."""
    if abs(value) >= SAFE:
        raise Inexact(str(value))
    return value
