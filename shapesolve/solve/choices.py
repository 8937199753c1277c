"""Choices inside conditions that other conditions beside them settle, as far as linear forms tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..expr import FALSE, TRUE, Atom, Cond, Dim, all_of, any_of, constant, eq, ite, of_atom, rebuild
from ..expr.bounds import Interval
from ..expr.substitution import apply
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


class _Stated:
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

    def dim(self, dim: Dim) -> Dim:
        """The expression without the choices that are settled."""
        return rebuild(dim, self._atom)

    def _atom(self, atom: Atom) -> Dim:
        if atom.kind == "sym":
            return of_atom(atom)
        if atom.kind == "ite":
            test = self.decided(atom.args[0].map_dims(self.dim))
            if not test.args:  # the other branch may have no value here
                return self.dim(atom.args[1] if test.is_true else atom.args[2])
            return ite(test, self.dim(atom.args[1]), self.dim(atom.args[2]))
        args = tuple(map(self.dim, atom.args))
        if atom.kind == "pos":
            low, high = self.bounds(args[0])
            if low is not None and low >= 0:
                return args[0]
            if high is not None and high <= 0:
                return constant(0)
        elif atom.kind == "broadcast":
            args = tuple(a for a in args if not self.decided(eq(a, 1)).is_true) or (constant(1),)
            if len(args) == 1:
                return args[0]
        elif args[1].value == 0:
            return of_atom(atom)
        return apply(atom.kind, args)
