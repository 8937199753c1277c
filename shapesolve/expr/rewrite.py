"""`Rewriter`: base class for rewriting dims and conditions. Each change of some kinds of atoms is a derived class of
`Rewriter`.
"""

from __future__ import annotations

from .atom import Atom
from .canonical import broadcast, floor_div, pos
from .cond import Cond, ite
from .core import Dim, of_atom, rebuild
from .visit import visit


class Rewriter:
    """Rebuilds dims and conditions from rewritten subterms; subclasses override what changes."""

    def dim(self, dim: Dim) -> Dim:
        """The expression, rewritten."""
        return rebuild(dim, self._atom)

    def cond(self, cond: Cond) -> Cond:
        """The condition, rewritten."""
        return cond.map_dims(self.dim)

    def _atom(self, atom: Atom) -> Dim:
        return visit(atom, self)

    def _symbol(self, atom: Atom) -> Dim:
        return of_atom(atom)

    def _quotient(self, n: Dim, d: Dim) -> Dim:
        return floor_div(self.dim(n), self.dim(d))

    def _positive(self, x: Dim) -> Dim:
        return pos(self.dim(x))

    def _broadcast(self, sizes: tuple[Dim, ...]) -> Dim:
        return broadcast(*map(self.dim, sizes))

    def _choice(self, cond: Cond, a: Dim, b: Dim) -> Dim:
        test = self.cond(cond)
        if not test.args:  # the other branch may have no value here
            return self.dim(a if test.is_true else b)
        return ite(test, self.dim(a), self.dim(b))
