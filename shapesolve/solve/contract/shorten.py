"""Contract terms in the shortest form that says the same beside the other terms, at all sizes, empty ones included.

A term is rewritten by rules and fitted to templates. What is found is proved to follow from the term and the others, and the
term from it and the others, before it takes the term's place. Terms that rest on an assumption are no ground for other terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, permutations

from ...expr import (
    Atom,
    Cond,
    Dim,
    DimTooLarge,
    all_of,
    any_of,
    constant,
    eq,
    exact_quotient,
    ge,
    ne,
    of_atom,
    rebuild,
)
from ...expr.canonical import common_factor, without
from ...expr.plain import is_plain, kind_of
from ...expr.traverse import atoms_of
from ...propagate import budget
from ..cones import by_symbol, nearby
from ..engine import Engine
from ..simplify.cost import MORE, cost, is_small
from ..simplify.domain import Domain, defined_where
from ..simplify.simplifier import Simplifier
from ..simplify.statements import statements
from .contract import Contract, Term, Terms, text_of

#: forms that are looked at, and of these compared by proof
_MOST_FORMS, _MOST_PROOFS = 60, 3
#: a term with so many operators is short enough
_SHORT = 3


def shortened(contract: Contract, engine: Engine) -> Contract:
    """The contract with the terms that are hard to read in their shortest form."""
    terms = list(contract.terms)
    ground = _Ground([t.cond for t in contract.assumed])
    hard = [t for t in terms if t.cond.size <= budget.MAX_READ and not is_short(t.cond) and is_small(t.cond)]
    fresh: list[Term] = []
    left = budget.MAX_READ
    for term in sorted(hard, key=lambda t: cost(t.cond), reverse=True)[: budget.MAX_SHORTENED]:
        if (
            term.cond.size > left
        ):  # what was found to have no shorter form is much: terms like it have none either
            continue
        try:
            found = _Shortener(ground.of(term, terms), engine).shortest(term.cond)
        except DimTooLarge:
            continue
        if found is not term.cond:
            at, new = terms.index(term), _terms_for(found, term)
            terms[at : at + 1] = new
            fresh += new
        else:
            left -= term.cond.size
    if terms == list(contract.terms):
        return contract
    return replace(contract, terms=Terms(_without_repeats(terms, fresh, ground, engine)))


class _Ground:
    """The conditions that terms of a contract may rest on."""

    def __init__(self, beside: Sequence[Cond]) -> None:
        self.beside = beside
        self._said: dict[Cond, Cond] = {}

    def of(self, term: Term, terms: Sequence[Term]) -> list[Cond]:
        """The conditions nearest to a term that it may rest on: those of terms that assume no more than it does."""
        assumed = set(term.assumptions)
        ground = [self._saying(t.cond) for t in terms if t is not term and assumed.issuperset(t.assumptions)]
        return nearby(term.cond.free, by_symbol([*ground, *self.beside]), budget.MAX_BESIDE)

    def _saying(self, cond: Cond) -> Cond:
        """A term that has no value, because it divides by 0, is no obstacle: it says nothing there."""
        found = self._said.get(cond)
        if found is None:
            found = self._said[cond] = any_of((cond, *(~c for c in defined_where(cond))))
        return found


def _without_repeats(
    terms: Sequence[Term], fresh: Sequence[Term], ground: _Ground, engine: Engine
) -> list[Term]:
    """Without the terms that follow from others, now that some read differently; the longer ones go first."""
    kept = list(terms)
    names = frozenset[str]().union(*(t.cond.free for t in fresh))
    for term in sorted(terms, key=lambda t: cost(t.cond), reverse=True)[: budget.MAX_SHORTENED]:
        others = [] if names.isdisjoint(term.cond.free) else ground.of(term, kept)
        domain = Domain(others, engine)
        if term.kind != "nonempty" and others and not domain.is_empty and domain.holds(term.cond):
            kept.remove(term)
    return kept


def _terms_for(cond: Cond, term: Term) -> list[Term]:
    """What stands for a term that `cond` takes the place of."""
    parts = cond.args if cond.kind == "and" and text_of(cond) == str(cond) else (cond,)
    return [
        replace(
            term,
            cond=c,
            kind=kind_of(c),
            text=text_of(c),
            symbols=tuple(s for s in term.symbols if s in c.free),
        )
        for c in parts
        if not c.is_true
    ]


def short_form(cond: Cond, engine: Engine) -> Cond:
    """A condition by itself in the shortest form that was found: it holds at the same sizes, all of them."""
    if cond.size > budget.MAX_READ or is_short(cond) or not is_small(cond):
        return cond
    try:
        return _Shortener((), engine).shortest(cond)
    except DimTooLarge:
        return cond


def is_short(cond: Cond) -> bool:
    """Is it read at once? A term takes an operator between two of its symbols in any form."""
    return is_plain(cond) and cost(cond).operators <= max(_SHORT, len(cond.free))


class _Shortener:
    """Works on one condition beside others."""

    def __init__(self, others: Sequence[Cond], engine: Engine) -> None:
        self.others, self.engine = others, engine
        self.domain = Domain(others, engine)
        self.simplifier = Simplifier(domain=self.domain)

    def shortest(self, cond: Cond) -> Cond:
        """The cheapest form found that is equivalent to `cond` beside the others; itself where it may divide by 0."""
        best = cond
        if self._has_value(cond):
            while (form := self._shorter(best)) is not None:
                best = form
        return best

    def _has_value(self, cond: Cond) -> bool:
        return all(self.domain.holds(c) for c in defined_where(cond))

    def _shorter(self, cond: Cond) -> Cond | None:
        """A cheaper form by the first of the ways that finds one."""
        price = cost(cond)
        for way, is_proof in (
            (self._by_rules, True),
            (self._by_parts, False),
            (self._by_expressions, True),
            (self._by_templates, False),
        ):
            small = (
                c for c in islice(way(cond), _MOST_FORMS) if c is not cond and c.size <= cond.size + MORE
            )
            forms = {c: cost(c) for c in small}
            cheaper = sorted((c for c in forms if forms[c] < price), key=lambda c: forms[c])
            for form in cheaper[:_MOST_PROOFS]:
                if self._has_value(form) and (is_proof or self.equivalent(cond, form)):
                    return form
        return None

    def equivalent(self, cond: Cond, form: Cond) -> bool:
        """Do two conditions provably hold at the same sizes, beside the others?"""
        return self._follows(form, cond) and self._follows(cond, form)

    def _follows(self, goal: Cond, given: Cond) -> bool:
        if self.domain.refutes(any_of((~given, goal))):
            return False
        return Domain((*self.others, given), self.engine).holds(goal)

    # ------------------------------------------------------------------ forms

    def _by_rules(self, cond: Cond) -> Iterator[Cond]:
        """By replacing what is proved equal, or what is proved positive, so that the form needs no proof of its own."""
        for form in (cond, *self._aligned(cond)):
            yield form
            if form.args and form.kind not in ("and", "or"):
                yield from self._multiplied(form)
                yield from self._stripped(form)
                yield from self._replaced(form)

    def _by_expressions(self, cond: Cond) -> Iterator[Cond]:
        yield self.simplifier.cond(cond)

    def _by_templates(self, cond: Cond) -> Iterator[Cond]:
        yield from statements(cond, self.domain, cost(cond).operators)

    def _by_parts(self, cond: Cond) -> Iterator[Cond]:
        """Without one part, and with one part shortened where the others do not settle the matter."""
        if cond.kind not in ("and", "or"):
            return
        join = any_of if cond.kind == "or" else all_of
        for i, part in enumerate(cond.args):
            rest = [c for c in cond.args if c is not part]
            yield join(rest)
            if not is_short(part):
                settled = [~c if cond.kind == "or" else c for c in rest]
                inner = _Shortener([*self.others, *settled], self.engine)
                if not inner.domain.is_empty:
                    yield join([*rest[:i], inner.shortest(part), *rest[i:]])

    def _multiplied(self, cond: Cond) -> Iterator[Cond]:
        """``n//d == q`` as ``n == q*d`` where d divides n."""
        d = cond.args[0]
        for mono, c in d.terms:
            if len(mono) == 1 and mono[0].kind == "//" and mono[0].args[1].terms and cond.kind == "==":
                n, divisor = mono[0].args
                if self.domain.holds(eq(n % divisor, 0)):
                    yield eq(n.scale(c) + (d - of_atom(mono[0]).scale(c)) * divisor, 0)

    def _stripped(self, cond: Cond) -> Iterator[Cond]:
        """Without factors of all terms that are positive."""
        d = cond.args[0]
        if d.const or not d.terms:
            return
        positive = tuple(a for a in common_factor(d) if self.domain.holds(ge(of_atom(a), 1)))
        if positive:
            yield _related(cond.kind, without(d, positive))

    def _replaced(self, cond: Cond) -> Iterator[Cond]:
        """With an atom replaced that another condition equates with something."""
        for other in self.others:
            if other.kind == "==":
                for atom, to in _solved(other.args[0]):
                    if atom in atoms_of(cond):
                        try:
                            yield cond.map_dims(partial(_with, atom=atom, to=to))
                        except ZeroDivisionError:
                            continue

    def _aligned(self, cond: Cond) -> Iterator[Cond]:
        """With quotients of one symbol that are multiples of another one written as such."""
        quotients = [a for a in atoms_of(cond) if a.kind == "//" and len(a.free) == 1]
        to: dict[Atom, Dim] = {}
        for a, b in permutations(sorted(quotients, key=lambda a: a.order), 2):
            if a.free == b.free and a not in to and b not in to:
                ratio = _ratio(a, b)
                if ratio > 1 and self.domain.equal(of_atom(a), of_atom(b).scale(ratio)):
                    to[a] = of_atom(b).scale(ratio)
        for atom, multiple in to.items():
            try:
                cond = cond.map_dims(partial(_with, atom=atom, to=multiple))
            except ZeroDivisionError:
                return
        if to:
            yield cond


def _ratio(a: Atom, b: Atom) -> int:
    """How many times as fast a quotient grows as another one; 0 where that is no whole number."""
    span = [atom.args[1].value if len(atom.args[0].terms) == 1 else None for atom in (a, b)]
    step = [atom.args[0].terms[0][1] if len(atom.args[0].terms) == 1 else 0 for atom in (a, b)]
    if span[0] is None or span[1] is None or not step[0] * step[1]:
        return 0
    ratio, rest = divmod(span[1] * step[0], span[0] * step[1])
    return 0 if rest else ratio


def _related(kind: str, d: Dim) -> Cond:
    return eq(d, 0) if kind == "==" else ne(d, 0) if kind == "!=" else ge(d, 0)


def _solved(d: Dim) -> Iterator[tuple[Atom, Dim]]:
    """The quotients that an equality of `d` with 0 is solved for."""
    for mono, c in d.terms:
        if len(mono) == 1 and mono[0].kind == "//":
            rest = of_atom(mono[0]).scale(c) - d
            to = exact_quotient(rest, constant(c)) if abs(c) > 1 else rest.scale(c)
            if to is not None and mono[0] not in atoms_of(to):
                yield mono[0], to


def _with(d: Dim, atom: Atom, to: Dim) -> Dim:
    """`d` with one atom replaced where it stands in a polynomial at the top, or in a numerator."""

    def replaced(a: Atom) -> Dim:
        if a is atom:
            return to
        if a.kind == "//":
            return rebuild(a.args[0], replaced) // rebuild(a.args[1], replaced)
        return of_atom(a)

    return rebuild(d, replaced)


__all__ = ["is_short", "short_form", "shortened"]
