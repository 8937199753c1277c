"""Dims and conditions as Z3 terms for others to build on: no helper variables, one integer constant per symbol.

`Z3Scope` names every intermediate, which is what makes our own queries fast; its terms mean nothing without its
definitions. Here a division is Z3's own, and a choice an if-then-else, so that a term stands alone in any context:
the only names in it are those of its symbols.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import z3

from .atom import Atom
from .cond import Cond
from .core import Dim
from .traverse import atoms_of
from .z3_bridge import Z3Scope, positive_if_defined


class Z3Terms(Z3Scope):
    """Terms in the caller's context (by default Z3's main one).

    `sizes` are the variables of symbols that stand for sizes, which are not negative: the terms do not say so.
    """

    def __init__(self, ctx: Any = None, name: Callable[[str], str] | None = None) -> None:
        """`name` gives the name in Z3 for that of a symbol (by default the same)."""
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
                self._atoms[atom] = self._encode(atom, 0)
                self._defined[atom] = self._when_defined(atom)

    def _encode(self, atom: Atom, number: int) -> Any:
        kind, args = atom.kind, atom.args
        if kind == "sym":
            return self._symbol(args[0], args[1])
        if kind == "ite":
            return z3.If(self._truth(args[0]), self._polynomial(args[1]), self._polynomial(args[2]))
        terms = [self._polynomial(a) for a in args]
        if kind == "//":
            n, d = terms
            if positive_if_defined(args[1]):  # Z3's division is Euclidean: floor for a positive divisor
                return n / d
            return z3.If(d > 0, n / d, -n / -d)
        if kind == "pos":
            return z3.If(terms[0] >= 0, terms[0], z3.IntVal(0, self.ctx))
        one = z3.IntVal(1, self.ctx)
        return reduce(lambda rest, a: z3.If(a != 1, a, rest), reversed(terms), one)

    def _symbol(self, name: str, lo: int | None) -> Any:
        found = self.symbols.get(name)
        if found is None:
            found = self.symbols[name] = z3.Int(name if self._name is None else self._name(name), self.ctx)
            if lo is not None:
                self.sizes.append(found)
        return found


def z3_term(dim: Dim, ctx: Any = None) -> Any:
    """See `Dim.z3`."""
    return Z3Terms(ctx).term(dim)


def z3_formula(cond: Cond, ctx: Any = None) -> Any:
    """See `Cond.z3`."""
    return Z3Terms(ctx).formula(cond)
