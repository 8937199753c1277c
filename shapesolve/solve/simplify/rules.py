"""Rules that simplify a term: pattern, side condition, replacement.

A rule's side condition is proved in the domain before the rule is used; the table below is all there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ...expr import ONE, ZERO, Atom, Cond, Dim, all_of, any_of, constant, eq, ge, le, lt, of_atom
from ..facts.budget import MAX_CASES
from .domain import Domain

#: a required condition, and the term where it holds
Case = tuple[Cond, Dim]


@dataclass(frozen=True)
class TermRule:
    """A rule for atoms of one kind: `cases` yields side conditions and replacements."""

    kind: str
    says: str
    cases: Callable[..., Iterator[Case]]


def _positive(x: Dim) -> Iterator[Case]:
    yield ge(x, 0), x


def _negative(x: Dim) -> Iterator[Case]:
    yield le(x, 0), ZERO


def _chosen(cond: Cond, a: Dim, b: Dim) -> Iterator[Case]:
    yield cond, a
    yield ~cond, b


def _alike(cond: Cond, a: Dim, b: Dim) -> Iterator[Case]:
    yield any_of((cond, eq(a, b))), a
    yield any_of((~cond, eq(a, b))), b


def _stretched(*sizes: Dim) -> Iterator[Case]:
    for size in sizes if len(sizes) <= MAX_CASES else ():  # each is compared with all others
        others = [s for s in sizes if s is not size]
        yield all_of(any_of((eq(s, size), eq(s, 1))) for s in others), size


def _clipped(*sizes: Dim) -> Iterator[Case]:
    if len(sizes) == 2:
        yield all_of(eq(s, 1) for s in sizes), ONE


def _whole(n: Dim, d: Dim) -> Iterator[Case]:
    """``(k*a + r)//k`` is ``a`` if ``0 <= r < k``."""
    if d.terms:
        return
    whole = sum(
        (of_atoms(mono).scale(c // d.const) for mono, c in n.terms if c % d.const == 0),
        start=constant(n.const // d.const),
    )
    rest = n - whole.scale(d.const)
    if rest.terms and rest is not n:
        yield all_of((ge(rest, 0), lt(rest, d))), whole


def _divided(n: Dim, d: Dim) -> Iterator[Case]:
    """``(a*b)//a`` is ``b`` if a is not 0; ``n//d`` is 0 if ``0 <= n < d``."""
    if not d.terms:
        return
    yield all_of((ge(n, 0), lt(n, d))), ZERO
    for mono, c in n.terms:
        q = of_atoms(mono).scale(c)
        if q.free and q is not n:
            yield all_of((ge(d, 1), eq(q * d, n))), q


RULES = (
    TermRule("pos", "max(x, 0) is x where x >= 0", _positive),
    TermRule("pos", "max(x, 0) is 0 where x <= 0", _negative),
    TermRule("ite", "a choice that is settled", _chosen),
    TermRule("ite", "a choice whose sizes are equal where the other one is chosen", _alike),
    TermRule("broadcast", "the size that all others are equal to, or are 1", _stretched),
    TermRule("broadcast", "sizes that are all 1", _clipped),
    TermRule("//", "(k*a + r)//k is a where 0 <= r < k", _whole),
    TermRule("//", "n//d is 0 where 0 <= n < d", _divided),
)


def rewritten(atom: Atom, domain: Domain) -> Dim:
    """Return the replacement of an atom by the first rule whose side condition is proved, otherwise the atom."""
    for rule in RULES:
        if rule.kind == atom.kind:
            for needed, to in rule.cases(*atom.args):
                if not needed.is_false and domain.follows(needed):
                    return to
    return of_atom(atom)


def of_atoms(mono: tuple[Atom, ...]) -> Dim:
    """The product of some atoms."""
    product = ONE
    for atom in mono:
        product = product * of_atom(atom)
    return product


__all__ = ["RULES", "TermRule", "of_atoms", "rewritten"]
