"""Choices inside conditions that other conditions beside them settle, as far as linear forms tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..expr import FALSE, TRUE, Cond, Dim, all_of, any_of, broadcast, constant, eq, pos
from ..expr.bounds import Interval
from ..expr.rewrite import Rewriter
from ..expr.traverse import atoms_of

_KINDS = ("ite", "pos", "broadcast")


def settled(conds: Sequence[Cond]) -> Sequence[Cond]:
    """The same conditions, those with choices simplified by those without: ``max(x - y, 0)`` is ``x - y`` beside ``x >= y``.

    Together they say what they said: what settles a choice has none itself, and stays as it is.
    """
    hard = {c for c in conds if any(a.kind in _KINDS for a in atoms_of(c))}
    if not hard:
        return conds
    stated = _Stated(c for c in conds if c not in hard and c.kind in ("==", "!=", ">="))
    return [c.map_dims(stated.dim) if c in hard else c for c in conds]


class _Stated(Rewriter):
    """What relations say of the forms that they are about."""

    def __init__(self, relations: Iterable[Cond]) -> None:
        self.least: dict[Dim, int] = {}
        self.equal_nowhere: set[Cond] = set()
        for c in relations:
            d = c.args[0]
            if c.kind == "!=":
                self.equal_nowhere.add(~c)
                continue
            self._at_least(d)
            if c.kind == "==":
                self._at_least(-d)

    def _at_least(self, d: Dim) -> None:
        """Note that `d` is at least 0."""
        form = d - d.const
        self.least[form] = max(self.least.get(form, -d.const), -d.const)

    def bounds(self, d: Dim) -> Interval:
        """The bounds that the relations state, as far as they are about this form."""
        if not d.terms:
            return d.const, d.const
        low, high = self.least.get(d - d.const), self.least.get(constant(d.const) - d)
        return None if low is None else low + d.const, None if high is None else d.const - high

    def decided(self, cond: Cond) -> Cond:
        """True or false where that is settled, else the condition."""
        if cond.kind in ("and", "or"):
            return (all_of if cond.kind == "and" else any_of)(map(self.decided, cond.args))
        if not cond.args:
            return cond
        low, high = self.bounds(cond.args[0])
        if cond.kind == ">=":
            return TRUE if low is not None and low >= 0 else FALSE if high is not None and high < 0 else cond
        equal = cond if cond.kind == "==" else ~cond
        apart = (low or 0) > 0 or (high or 0) < 0 or equal in self.equal_nowhere
        if not apart and not low == high == 0:
            return cond
        return TRUE if apart == (cond.kind == "!=") else FALSE

    def cond(self, cond: Cond) -> Cond:
        """The condition, decided where that is settled, without the choices that are."""
        return self.decided(super().cond(cond))

    def _quotient(self, n: Dim, d: Dim) -> Dim:
        divisor = self.dim(d)
        return n // d if divisor.value == 0 else self.dim(n) // divisor

    def _positive(self, x: Dim) -> Dim:
        inner = self.dim(x)
        low, high = self.bounds(inner)
        if low is not None and low >= 0:
            return inner
        return constant(0) if high is not None and high <= 0 else pos(inner)

    def _broadcast(self, sizes: tuple[Dim, ...]) -> Dim:
        return broadcast(*(a for a in map(self.dim, sizes) if not self.decided(eq(a, 1)).is_true))
