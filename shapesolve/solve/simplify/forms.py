"""Finds shorter forms of one condition, equivalent wherever some other conditions hold, empty inputs included.

Candidates come from tables of sizes, and from parts of the condition. Each is proved before it is used, and the cheapest
wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice

from ...expr import (
    ZERO,
    Atom,
    Cond,
    Dim,
    DimTooLarge,
    all_of,
    any_of,
    constant,
    eq,
    ge,
    ne,
    of_atom,
    rebuild,
)
from ...expr.canonical import common_factor, without
from ...expr.plain import is_plain
from ...expr.traverse import atoms_of
from ..engine import Engine
from ..facts import budget
from ..known import defined_where
from .cost import cost, is_small
from .domain import Domain
from .ranges import separated
from .simplifier import Simplifier


def short_form(cond: Cond, engine: Engine) -> Cond:
    """The shortest form found that is equivalent to a condition at all sizes."""
    return Forms((), engine).shortest(cond) if is_worked_on(cond) else cond


def is_worked_on(cond: Cond) -> bool:
    """True if a condition is long enough, and not too long, to look for a shorter form. The condition is hard to read,
    and not too large.
    """
    return cond.size <= budget.MAX_READ and not is_short(cond) and is_small(cond)


def is_short(cond: Cond) -> bool:
    """Return True if a condition is short enough to be kept: at most one operator between any two of its symbols.

    A division by a quotient, as in `h % (h//4)`, is not.
    """
    plain = is_plain(cond) and cost(cond).operators <= max(3, len(cond.free))
    quotients = [a for a in atoms_of(cond) if a.kind == "//"] if plain else []
    return plain and not any(isinstance(a.args[1], Dim) and _has_quotient(a.args[1]) for a in quotients)


def _has_quotient(dim: Dim) -> bool:
    """True if a term of the dim has a quotient as a factor."""
    return any(a.kind == "//" for mono, _ in dim.terms for a in mono)


def by_choices(cond: Cond) -> Cond:
    """Return the condition with an if-then-else inside it moved to the top: `(c or f(b)) and (~c or f(a))` for `f(a if c
    else b)`.

    `broadcast(a, b)` is `b if a == 1 else a`. A condition without choices, or with more than one, is returned
    unchanged.
    """
    chosen = [a for a in atoms_of(cond) if a.kind in ("ite", "broadcast", "pos")]
    if len(chosen) != 1 or cond.kind == "and":
        return cond
    atom = chosen[0]
    if atom.kind == "ite":
        test, a, b = atom.args
    elif atom.kind == "pos":
        test, a, b = ge(atom.args[0], 0), atom.args[0], constant(0)
    elif len(atom.args) == 2:
        test, a, b = ne(atom.args[0], 1), atom.args[0], atom.args[1]
    else:
        return cond
    try:
        first, second = (cond.map_dims(partial(_with, atom=atom, to=to)) for to in (a, b))
    except (ZeroDivisionError, DimTooLarge):
        return cond
    if atom in atoms_of(first, second):
        return cond
    return all_of((any_of((~test, first)), any_of((test, second))))


def by_factors(cond: Cond) -> Cond:
    """Drops sizes that are factors of all terms from relations with 0. It is ``n == 0 or k == 6`` for ``n*k == 6*n``."""
    if cond.kind in ("and", "or"):
        return (all_of if cond.kind == "and" else any_of)(map(by_factors, cond.args))
    if not cond.args or cond.args[0].const or len(cond.args[0].terms) < 2:
        return cond
    sizes = tuple(
        a
        for a in common_factor(cond.args[0])
        if a.kind == "sym" and (a.args[1] if a.args[1] is not None else -1) >= 0
    )
    if not sizes:
        return cond
    left = _related(cond.kind, without(cond.args[0], sizes))
    zero = [eq(of_atom(a), 0) for a in dict.fromkeys(sizes)]
    return all_of((left, *(~c for c in zero))) if cond.kind == "!=" else any_of((*zero, left))


class Forms:
    """Finds shorter forms of conditions that are equivalent where the conditions `others` hold."""

    def __init__(self, others: Sequence[Cond], engine: Engine) -> None:
        self.others, self.engine = others, engine
        self.domain = Domain(others, engine)
        self.simplifier = Simplifier(domain=self.domain)

    def shortest(self, cond: Cond) -> Cond:
        """Return the cheapest form found that is equivalent to `cond` where the others hold; `cond` itself if it may
        divide by 0 there.

        The search ends at a conjunction, whose parts are simplified separately.
        """
        best = cond
        try:
            if self._has_value(cond):
                while (form := self._shorter(best)) is not None:
                    best = form
                    if best.kind == "and":
                        break
        except DimTooLarge:
            return cond
        return best

    def _has_value(self, cond: Cond) -> bool:
        return all(self.domain.holds(c) for c in defined_where(cond))

    def _shorter(self, cond: Cond) -> Cond | None:
        """A cheaper form from the first source of candidates that has one."""
        price = cost(cond)
        for source, is_proof in (
            (self._by_expressions, True),
            (self._stripped, True),
            (self._by_ranges, True),
            (self._by_parts, False),
        ):
            small = (
                c
                for c in islice(source(cond), budget.MAX_FORMS)
                if c is not cond and c.size <= cond.size + budget.LONGER
            )
            forms = {c: cost(c) for c in small}
            cheaper = sorted((c for c in forms if forms[c] < price), key=lambda c: forms[c])
            for form in cheaper[: budget.MAX_PROOFS]:
                if self._has_value(form) and (is_proof or self.equivalent(cond, form)):
                    return form
        return None

    def equivalent(self, cond: Cond, form: Cond) -> bool:
        """True if two conditions are proved to hold at the same sizes where the others do."""
        known = self.domain.known
        return known.with_([cond]).follows(form) and known.with_([form]).follows(cond)

    # ------------------------------------------------------------------ candidates

    def _by_expressions(self, cond: Cond) -> Iterator[Cond]:
        yield self.simplifier.cond(cond)

    def _stripped(self, cond: Cond) -> Iterator[Cond]:
        """Candidate: positive factors of all terms dropped."""
        d = cond.args[0] if cond.kind in ("==", "!=", ">=") else ZERO
        if isinstance(d, Dim) and d.terms and not d.const:
            positive = tuple(a for a in common_factor(d) if self.domain.holds(ge(of_atom(a), 1)))
            if positive:
                yield _related(cond.kind, without(d, positive))

    def _by_ranges(self, cond: Cond) -> Iterator[Cond]:
        """Candidates: ranges and remainders of single symbols. They are of the condition by itself and together with
        others that are about no more symbols.
        """
        if cond.kind == "or" and len(cond.free) > 1:  # the values of one symbol depend on another
            return
        near = [c for c in self.others if len(c.free) == 1 and c.free <= cond.free]
        for group in ([cond], [cond, *near]) if near and len(cond.free) == 1 else ([cond, *near],):
            found = separated(group, self.engine)
            if found is not None:
                yield all_of(found)

    def _by_parts(self, cond: Cond) -> Iterator[Cond]:
        """Candidates: one member dropped, or shortened under the assumption of the others."""
        if cond.kind not in ("and", "or"):
            return
        join = any_of if cond.kind == "or" else all_of
        for i, part in enumerate(cond.args):
            rest = [c for c in cond.args if c is not part]
            yield join(rest)
            if not is_short(part):
                settled = [~c if cond.kind == "or" else c for c in rest]
                inner = Forms([*self.others, *settled], self.engine)
                if not inner.domain.is_empty:
                    yield join([*rest[:i], inner.shortest(part), *rest[i:]])


def _related(kind: str, d: Dim) -> Cond:
    return eq(d, 0) if kind == "==" else ne(d, 0) if kind == "!=" else ge(d, 0)


def _with(d: Dim, atom: Atom, to: Dim) -> Dim:
    """`d` with one atom replaced in its terms and numerators."""

    def replaced(a: Atom) -> Dim:
        if a is atom:
            return to
        if a.kind == "//":
            return rebuild(a.args[0], replaced) // rebuild(a.args[1], replaced)
        return of_atom(a)

    return rebuild(d, replaced)


__all__ = ["Forms", "by_factors", "is_short", "is_worked_on", "short_form"]
