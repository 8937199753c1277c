"""Residual constraints: conditions on the remaining symbols, with the indices of the constraints that cause each.

Facts and residue together are equivalent to the constraints. Proofs and ambiguities reason over the residue because
it is small.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from ...expr import Cond, Dim, constant, divides, eq, ge, le
from .facts import Causes, Facts
from .log import Stated, all_rows, need

#: roles that a proof may rest on; what a model merely declares may be wrong
TRUSTED = ("definition", "requirement", "user", "assumption")

#: facts of one kind as conditions, each with the indices of the constraints that cause it
Conditions: TypeAlias = Iterator[tuple[Cond, Causes]]


def equalities(facts: Facts, names: Collection[str]) -> Conditions:
    """Return equations `name == value` for the symbols in `names` that the facts substitute."""
    for name in names:
        if name in facts.substitution:
            size = facts.symbols[name]
            yield eq(size, unsimplified(size, facts)), facts.why((name,))


def intervals(facts: Facts) -> Conditions:
    """Bounds of symbols as conditions, without bounds that every symbol of its kind has."""
    for name, (lo, hi) in sorted(facts.intervals.items()):
        size, causes = facts.symbols[name], facts.causes.get(name, frozenset())
        if lo is not None and not ge(size, lo).is_true:
            yield ge(size, lo), causes
        if hi is not None:
            yield le(size, hi), causes


def divisors(facts: Facts) -> Conditions:
    """Known divisors as conditions (``d % k == 0``)."""
    for base, k in sorted(facts.divisors.items(), key=lambda item: item[0].order):
        yield divides(constant(k), unsimplified(base, facts)), facts.why(base.free)


def waiting(facts: Facts) -> Conditions:
    """Conditions that could not be turned into facts, simplified using the facts."""
    for cond, causes in facts.pending().items():
        now = facts.cond(cond)
        if not now.is_true:
            yield now, causes if now is cond else causes | facts.why(cond.free)


class Residue:
    """Conditions on the symbols that remain after substitution, each with the indices of its constraints."""

    def __init__(self, facts: Facts, constraints: Sequence[Stated] = ()) -> None:
        self.facts, self.constraints = facts, all_rows(constraints)
        self._stated: list[Cond] | None = None
        self.conds: dict[Cond, Causes] = {}
        # intervals and divisors make conditions disappear from those that wait
        for known in (waiting(facts), intervals(facts), divisors(facts)):
            for cond, causes in known:
                self.conds.setdefault(cond, causes)

    def certain(self, cond: Cond) -> bool:
        """True if `cond` holds for all inputs, as it is a condition of the model or follows from the facts."""
        now = self.facts.cond(cond)
        return now.is_true or now in self.conds

    @property
    def stated(self) -> list[Cond]:
        """The distinct conditions of all trusted constraints, unsimplified, with their guards."""
        if self._stated is None:
            rows = {(row.cond, row.guard): row for _, row in self.constraints.stated() if row.role in TRUSTED}
            self._stated = list(dict.fromkeys(map(need, rows.values())))
        return self._stated

    def complete(self, model: Mapping[str, int]) -> dict[str, int]:
        """Extends values of the remaining symbols by values of the substituted ones."""
        full = dict(model)
        for name, to in self.facts.substitution.items():
            value = self.facts.dim(to).evaluate(model)
            if value is not None:
                full.setdefault(name, value)
        return full

    def violates(self, model: Mapping[str, int]) -> bool:
        """True if a constraint is violated at these sizes."""
        return any(cond.evaluate(model) is False for cond in self.stated)


def unsimplified(d: Dim, facts: Facts) -> Dim:
    """`d` with symbols substituted and nothing else simplified. It is `d` as it is where that would divide by 0."""
    try:
        return d.subs({n: facts.dim(facts.substitution[n]) for n in d.free if n in facts.substitution})
    except ZeroDivisionError:
        return d
