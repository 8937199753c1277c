"""Converts dims and conditions to Z3 terms in the caller's context. There are no helper variables, and one integer
constant per symbol.

`Z3Scope` names every intermediate, which is what makes our own queries fast; its terms mean nothing without its
definitions. Here a division is Z3's own, and a choice an if-then-else, so that a term stands alone in any context:
the only names in it are those of its symbols.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import z3

from ..arguments import wrong
from .atom import Atom
from .cond import Cond
from .core import Dim
from .traverse import atoms_of
from .visit import visit
from .z3_bridge import Z3Scope, positive_if_defined


class Z3Terms(Z3Scope):
    """Z3 terms in the caller's context (default: Z3's main context).

    `sizes` are the variables of symbols that stand for sizes, which are not negative: the terms do not say so.
    """

    def __init__(self, ctx: Any = None, name: Callable[[str], str] | None = None) -> None:
        """A converter for a context; `name` maps symbols to names in Z3 (default: unchanged)."""
        super().__init__(z3.main_ctx() if ctx is None else ctx, native=True)
        self.sizes: list[Any] = []
        self._name = name

    def formula(self, cond: Cond) -> Any:
        """The Z3 formula of `cond`, false where it has no value (a division by zero)."""
        self._define(cond)
        defined, truth = self._cond_defined(cond), self._truth(cond)
        return truth if defined is None else z3.And(defined, truth)

    def _define(self, root: Dim | Cond) -> None:
        for atom in atoms_of(root):
            if atom not in self._atoms:
                self._atoms[atom] = visit(atom, self)
                self._defined[atom] = self._when_defined(atom)

    def _quotient(self, n: Dim, d: Dim) -> Any:
        numerator, divisor = self._polynomial(n), self._polynomial(d)
        if positive_if_defined(d):  # Z3's division is Euclidean: floor for a positive divisor
            return numerator / divisor
        return z3.If(divisor > 0, numerator / divisor, -numerator / -divisor)

    def _positive(self, x: Dim) -> Any:
        term = self._polynomial(x)
        return z3.If(term >= 0, term, z3.IntVal(0, self.ctx))

    def _broadcast(self, sizes: tuple[Dim, ...]) -> Any:
        return self._first_not_one(sizes)

    def _choice(self, cond: Cond, a: Dim, b: Dim) -> Any:
        return z3.If(self._truth(cond), self._polynomial(a), self._polynomial(b))

    def _symbol(self, atom: Atom) -> Any:
        name, lo, _ = atom.args
        found = self.symbols.get(name)
        if found is None:
            found = self.symbols[name] = z3.Int(name if self._name is None else self._name(name), self.ctx)
            if lo is not None:
                self.sizes.append(found)
        return found


def z3_term(dim: Dim, ctx: Any = None) -> Any:
    """See `Dim.z3`."""
    return Z3Terms(_context(ctx)).term(dim)


def z3_formula(cond: Cond, ctx: Any = None) -> Any:
    """See `Cond.z3`."""
    return Z3Terms(_context(ctx)).formula(cond)


def _context(given: Any) -> Any:
    if given is None or isinstance(given, z3.Context):
        return given
    raise wrong("z3 takes ctx as a z3.Context or None", given)
