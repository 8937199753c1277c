"""Builds the contract of a model: a short list of readable conditions on its input sizes.

One pipeline makes both forms. Conditions on inputs (`Accepted`) are added one by one unless they follow from earlier
ones. Each condition
that is hard to read is replaced by the cheapest form that is proved equivalent under the others. Finally, implied
conditions are dropped
and bounds of the same expression are joined. The form for usual sizes is made from the exact one in the same way,
with the
scope given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any

from ...expr import FALSE, Cond, Dim, ge
from ...expr.plain import KINDS, is_plain, kind_of
from ...expr.printing import Writer
from ..accepted import Accepted, find_accepted
from ..engine import Engine
from ..facts import budget
from ..facts.facts import Facts
from ..facts.log import ConstraintSet, Stated, all_rows, need
from ..facts.residual import divisors, equalities, intervals, waiting
from ..groups import by_groups
from ..search import Contradiction, Effort, learned
from .attribute import needed_by
from .conjunction import Conjunction, Numbers, Sourced, bounds_of, joined
from .contract import Contract, Term, Terms, Usual, text_of
from .usual import Recorded, Scope, find_scope


def find_contract(
    constraints: Sequence[Stated],
    facts: Facts,
    symbols: Iterable[Dim],
    rlimit: int = budget.RLIMIT,
    recorded: Recorded | None = None,
    accepted: Accepted | None = None,
    effort: Effort | None = None,
    *,
    short: bool = True,
) -> Contract:
    """Return the contract of a model with these input symbols, in order of appearance.

    Args:
        constraints: The model's constraints.
        facts: Facts that have learned the constraints.
        symbols: Input symbols.
        rlimit: Z3 budget per query.
        recorded: Observations about usual inputs, for the usual form.
        accepted: Exact conditions to express. Default: those of the constraints.
        effort: Counter of solver work.
        short: If False, no shorter forms are searched for, and terms list all requirements that led to them.
    """
    rows, inputs = all_rows(constraints), {d.name or "": d for d in symbols}
    if accepted is None:
        accepted = find_accepted(rows, facts, inputs)
    if FALSE in accepted.conds:
        return nothing_runs()
    return _Builder(rows, facts, inputs, accepted, rlimit, effort or Effort(), short=short).contract(
        recorded or Recorded()
    )


def nothing_runs() -> Contract:
    """Return the contract of a model that never runs."""
    return Contract(Terms(), impossible=True)


class _Builder:
    def __init__(
        self,
        rows: ConstraintSet,
        facts: Facts,
        inputs: Mapping[str, Dim],
        accepted: Accepted,
        rlimit: int,
        effort: Effort,
        *,
        short: bool,
    ) -> None:
        self.rows, self.facts, self.inputs, self.accepted = rows, facts, inputs, accepted
        self.rlimit, self.effort, self.short = rlimit, effort, short
        self.position = {name: i for i, name in enumerate(inputs)}
        stated = {need(row) for _, row in rows.stated() if row.role in ("user", "assumption")}
        #: given by the user or an assumption; required by the model; required, but too large to work on
        self.given: dict[Cond, Numbers] = {}
        self.needed: dict[Cond, Numbers] = {}
        self.large: dict[Cond, Numbers] = {}
        left, count = budget.MAX_WORKED_ON, 0
        sourced = by_groups({cond: frozenset(numbers) for cond, numbers in accepted.conds.items()})
        for cond, numbers in sorted(sourced.items(), key=lambda item: item[0].size):
            if cond in stated or not self._roles(numbers) - {"user", "assumption"}:
                self.given[cond] = numbers
                continue
            if cond.size > budget.MAX_NAMING:  # each is compared with those before
                count += 1
                left -= cond.size * count
            (self.needed if left >= 0 else self.large)[cond] = numbers

    def contract(self, recorded: Recorded) -> Contract:
        """Return the exact contract, with its form for usual sizes."""
        reduced = self._reduced(self.needed, self.given)
        if reduced is None:
            return nothing_runs()
        attributed = self._attributed(reduced, reduced, {})
        exact = Contract(
            self._terms({**attributed, **self.large}),
            self._terms(self._internal(reduced)),
            self._terms(joined(self.given)),
            self._terms(self._declared(reduced)),
            derived=self.accepted.derived,
            inputs=tuple(self.inputs),
        )
        if not self.short:
            return exact
        return replace(
            exact, find_usual=cache(lambda: self._usual(attributed, self._scope(reduced, recorded)))
        )

    # ------------------------------------------------------------------ the pipeline

    def _reduced(
        self, conds: Sourced, given: Iterable[Cond], kept: Sourced | None = None
    ) -> dict[Cond, Numbers] | None:
        """Short conditions equivalent to `conds` where `given` holds, none implied by the others.

        `kept` are known not to follow from each other. None when it is shown that there are no such sizes.
        """
        terms = Conjunction(Engine(self.rlimit, effort=self.effort), given)
        terms.keep(kept or {})
        if not terms.take_in(conds):
            return None
        terms.separate()
        if self.short:
            terms.shorten()
        if FALSE in terms.conds:
            return None
        terms.leave_out_implied()
        return joined(terms.conds)

    # ------------------------------------------------------------------ usual sizes

    def _scope(self, reduced: Sourced, recorded: Recorded) -> Scope:
        conds = [*reduced, *self.given]
        names = self.inputs.keys()
        fits = tuple(c for c in map(self.facts.cond, recorded.fits) if c.free <= names)
        read = dict.fromkeys((self.facts.dim(a), self.facts.dim(b)) for a, b in recorded.broadcasts)
        pairs = tuple((a, b) for a, b in read if a is not b and a.free | b.free <= names)
        known = recorded._replace(fits=tuple(dict.fromkeys(fits)), broadcasts=pairs)
        engine = Engine(self.rlimit, effort=self.effort)
        return find_scope(conds, self.inputs, known, self._shortened, engine)

    def _shortened(self, conds: Iterable[Cond], given: Sequence[Cond]) -> Iterable[Cond] | None:
        return self._reduced(dict.fromkeys(conds, frozenset()), given)

    def _usual(self, reduced: Sourced, scope: Scope) -> Usual:
        """Return the contract for usual sizes. The rest of the scope is only used if it makes the terms more readable."""
        found = self._granting(reduced, scope.sizes)
        best = dict(reduced) if found is None else found
        rest: tuple[Cond, ...] = ()
        if scope.fits and _unreadable(best):
            plainer = self._granting(reduced, [*scope.sizes, *scope.fits])
            if plainer is not None and _unreadable(plainer) < _unreadable(best):
                best, rest = plainer, scope.fits
        new = [c for c in best if c not in reduced]
        used = _about(new, rest)
        terms = self._attributed(best, new, [*scope.sizes, *used])
        shown = self._terms({**terms, **self.large}, {c: _about([c], used) for c in new})
        given = (*scope.sizes, *used)
        return Usual(Terms(replace(t, given=given) if t.cond in new else t for t in shown), used, scope)

    def _granting(self, conds: Sourced, granted: Sequence[Cond]) -> dict[Cond, Numbers] | None:
        """Return the part of `conds` that remains if all of `granted` holds; None if that is not shorter."""
        given = [*granted, *self.given]
        try:
            facts = learned(given)
        except Contradiction:
            return None
        left: dict[Cond, Numbers] = {}
        for cond, numbers in conds.items():
            now = facts.cond(cond)
            for part in now.args if now.kind == "and" and now is not cond else (now,):
                if not part.is_true:
                    left[part] = left.get(part, frozenset()) | numbers
        hard = any(not is_plain(c) and (self.short or bounds_of(c, given)) for c in left)
        if left.keys() == conds.keys() and not hard:
            return None
        kept = {c: numbers for c, numbers in left.items() if c in conds}
        return self._reduced({c: numbers for c, numbers in left.items() if c not in conds}, given, kept)

    # ------------------------------------------------------------------ other parts of the contract

    def _internal(self, reduced: Sourced) -> dict[Cond, Numbers]:
        """Conditions on data-dependent symbols beyond their definitions."""
        names = sorted(self.facts.substitution.keys() - self.inputs.keys())
        known = (
            equalities(self.facts, names),
            intervals(self.facts),
            divisors(self.facts),
            waiting(self.facts),
        )
        found = {
            cond: frozenset(causes)
            for cond, causes in chain.from_iterable(known)
            if not cond.is_true
            and not self.inputs.keys() >= cond.free
            and self._roles(causes) - {"definition"}
        }
        data = frozenset[str]().union(*(c.free for c in found)) - self.inputs.keys()
        rows = (row for _, row in (self.rows.stated() if data else ()) if row.role == "definition")
        stated = (self.facts.cond(need(row)) for row in rows)
        return self._more(found, [*reduced, *(c for c in stated if not data.isdisjoint(c.free))])

    def _declared(self, reduced: Sourced) -> dict[Cond, Numbers]:
        """Declared sizes of the model that no node requires."""
        found: dict[Cond, Numbers] = {}
        for number, row in self.rows.stated():
            if row.role == "declared":
                cond = need(row)
                cond = cond if self.inputs.keys() >= cond.free else self.facts.cond(cond)
                found[cond] = found.get(cond, frozenset()) | {number}
        return self._more(found, reduced)

    def _more(self, conds: Sourced, held: Iterable[Cond]) -> dict[Cond, Numbers]:
        """The conditions that follow neither from `held` nor from each other."""
        if not conds:
            return {}
        terms = Conjunction(Engine(self.rlimit, effort=self.effort), [*held, *self.given])
        terms.take_in(conds)
        return joined(terms.conds)

    # ------------------------------------------------------------------ terms

    def _attributed(
        self, conds: Sourced, new: Iterable[Cond], granted: Iterable[Cond]
    ) -> dict[Cond, Numbers]:
        """The terms with their requirements; for `new` ones, those that fail when the term alone fails."""
        if not self.short:
            return dict(conds)
        needs = [c for c, numbers in self.needed.items() if "requirement" in self._roles(numbers)]
        nonempty = {n: ge(size, 1) for n, size in self.inputs.items()}
        read = [c for c in new if c.size <= budget.MAX_NAMING]
        others = [*self.given, *granted, *(c for c in conds if c not in read)]
        found = needed_by(read, needs, others, nonempty)
        return {
            c: frozenset(n for need_ in found[c] for n in self.needed[need_]) if c in found else numbers
            for c, numbers in conds.items()
        }

    def _terms(self, conds: Sourced, scopes: Mapping[Cond, tuple[Cond, ...]] | None = None) -> Terms:
        terms = []
        writer = Writer()  # shared subexpressions are printed once
        for cond, numbers in conds.items():
            symbols = tuple(sorted(cond.free, key=lambda n: (self.position.get(n, len(self.position)), n)))
            scope = (scopes or {}).get(cond, ())
            text = text_of(cond, lambda c: writer.write(c).text)
            terms.append(Term(cond, kind_of(cond), text, symbols, tuple(sorted(numbers)), scope, self.rows))
        return Terms(sorted(terms, key=self._rank))

    def _rank(self, term: Term) -> tuple[int, list[int], Any]:
        return KINDS.index(term.kind), [self.position.get(s, -1) for s in term.symbols], term.cond.order

    def _roles(self, numbers: Iterable[int]) -> set[str]:
        return {self.rows.rows[n].role for n in numbers}


def _about(conds: Iterable[Cond], scope: Iterable[Cond]) -> tuple[Cond, ...]:
    """The conditions of a scope on the sizes in `conds`."""
    names = frozenset[str]().union(*(c.free for c in conds))
    return tuple(c for c in scope if not c.free.isdisjoint(names))


def _unreadable(conds: Iterable[Cond]) -> int:
    """Total size of the conditions that are too long to read."""
    return sum(c.size for c in conds if not is_plain(c))
