"""Builds the contract of a model: a short list of readable conditions on its input sizes.

One pipeline makes both forms. Conditions on inputs (`Accepted`) are taken in one by one, unless they follow from those before;
each that is hard to read gives way to the cheapest form that is proved equivalent where the others hold; what follows from the
others then is left out, and bounds of the same thing are joined. The form for usual sizes is made in the same way from the
exact one, with ``n >= 1`` given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from ...expr import FALSE, Cond, Dim, ge
from ...expr.plain import KINDS, is_plain, kind_of
from ...expr.printing import Writer
from ...propagate import budget
from ...propagate.facts import Facts
from ...propagate.log import ConstraintSet, Stated, all_rows, need
from ...propagate.residual import divisors, equalities, intervals, waiting
from ..accepted import Accepted, find_accepted
from ..engine import Engine
from ..search import Contradiction, Effort, learned
from .attribute import needed_by
from .conjunction import Conjunction, Numbers, Sourced, bounds_of, joined
from .contract import Contract, Term, Terms, text_of
from .implied import Held, Implications

#: assumptions of a form for usual sizes, by their text
Granted = Mapping[str, Sequence[Cond]]


def find_contract(
    constraints: Sequence[Stated],
    facts: Facts,
    symbols: Iterable[Dim],
    rlimit: int = budget.RLIMIT,
    usual: Mapping[Cond, str] | None = None,
    accepted: Accepted | None = None,
    effort: Effort | None = None,
    *,
    short: bool = True,
) -> Contract:
    """The contract of a model with these input symbols (in the order in which they are met).

    `facts` have learned the constraints. `accepted` is what the terms must say, exactly (default: what the constraints
    say). `usual` are conditions that inputs of usual sizes satisfy, in words: what is hard to read is stated for such
    inputs as well, when it reads better then, and names that as an assumption. `effort` counts what the solver is asked for it.
    Without `short`, no shorter forms are looked for, and terms name all requirements that led to them.
    """
    rows, inputs = all_rows(constraints), {d.name or "": d for d in symbols}
    if accepted is None:
        accepted = find_accepted(rows, facts, inputs)
    if FALSE in accepted.conds:
        return nothing_runs()
    return _Builder(rows, facts, inputs, accepted, rlimit, effort or Effort(), short=short).contract(
        usual or {}
    )


def nothing_runs() -> Contract:
    """The contract of a model that runs at no input sizes."""
    return Contract(Terms(), impossible=True)


class _Builder:
    """Builds the contract of one model."""

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
        #: what the user or an assumption gives, what a model needs besides, and what of that is too large to work on
        self.given: dict[Cond, Numbers] = {}
        self.needed: dict[Cond, Numbers] = {}
        self.large: dict[Cond, Numbers] = {}
        left, count = budget.MAX_WORKED_ON, 0
        for cond, numbers in sorted(accepted.conds.items(), key=lambda item: item[0].size):
            if cond in stated or not self._roles(numbers) - {"user", "assumption"}:
                self.given[cond] = frozenset(numbers)
                continue
            if cond.size > budget.MAX_NAMING:  # each is compared with those before
                count += 1
                left -= cond.size * count
            (self.needed if left >= 0 else self.large)[cond] = frozenset(numbers)

    def contract(self, usual: Mapping[Cond, str]) -> Contract:
        """The exact contract, with a second form for usual sizes if that reads better."""
        reduced = self._reduced(self.needed, self.given)
        if reduced is None:
            return nothing_runs()
        exact = Contract(
            self._terms({**self._attributed(reduced, reduced, {}), **self.large}),
            self._terms(self._internal(reduced)),
            self._terms(joined(self.given)),
            self._terms(self._declared(reduced)),
            derived=self.accepted.derived,
        )
        best = self._usual(exact, reduced, usual)
        return exact if best is None else replace(exact, usual=replace(exact, terms=best))

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

    # ------------------------------------------------------------------ sizes that are usual

    def _usual(self, exact: Contract, reduced: Sourced, usual: Mapping[Cond, str]) -> Terms | None:
        """The contract's terms for non-empty inputs; None if these read no better. For those of `usual` sizes they are
        given where they read better still.
        """
        present = {n for c in reduced for n in c.free if _excludes_empty(c)}
        names = frozenset[str]().union(*(c.free for c in reduced))
        granted: dict[str, list[Cond]] = {
            f"{n} >= 1": [ge(size, 1)] for n, size in self.inputs.items() if n in names and n not in present
        }
        best = self._granting(reduced, granted)
        if usual and _unreadable(reduced if best is None else best):
            more = dict(granted)
            for cond, text in usual.items():
                more[text] = [*more.get(text, ()), cond]
            plainer = self._granting(reduced, more)
            if plainer is not None and _unreadable(plainer) < _unreadable(reduced if best is None else best):
                best, granted = plainer, more
        if best is None or not (new := [c for c in best if c not in reduced]):
            return None
        assumed = self._assumptions(new, reduced, granted)
        given = {c: text for text, conds in granted.items() for c in conds}
        terms = self._terms({**self._attributed(best, new, given), **self.large}, assumed)
        return terms if any(t.assumptions for t in terms) else None

    def _granting(self, conds: Sourced, granted: Granted) -> dict[Cond, Numbers] | None:
        """The part of `conds` that remains where all of `granted` holds; None if that is no shorter."""
        given = [c for some in granted.values() for c in some]
        try:
            facts = learned([*given, *self.given])
        except Contradiction:
            return None
        left: dict[Cond, Numbers] = {}
        for cond, numbers in conds.items():
            now = facts.cond(cond)
            for part in now.args if now.kind == "and" and now is not cond else (now,):
                if not part.is_true:
                    left[part] = left.get(part, frozenset()) | numbers
        given += self.given
        hard = any(not is_plain(c) and (self.short or bounds_of(c, given)) for c in left)
        if left.keys() == conds.keys() and not hard:
            return None
        kept = {c: numbers for c, numbers in left.items() if c in conds}
        return self._reduced({c: numbers for c, numbers in left.items() if c not in conds}, given, kept)

    def _assumptions(
        self, new: Sequence[Cond], exact: Sourced, granted: Granted
    ) -> dict[Cond, tuple[str, ...]]:
        """For each new term a small subset of the granted assumptions that it depends on."""
        implied = Implications(Engine(self.rlimit, effort=self.effort))
        left = budget.MAX_QUERIES
        found = {}
        for cond in new:
            used = list(granted)
            for text in granted if cond.size <= budget.MAX_NAMING else ():
                if left <= 0:
                    break
                left -= 1
                fewer = [c for other in used if other != text for c in granted[other]]
                if implied.follows(cond, Held([*exact, *self.given, *fewer])):
                    used.remove(text)
            found[cond] = tuple(used)
        return found

    # ------------------------------------------------------------------ what stands beside the terms

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
        defined = [
            self.facts.cond(need(row))
            for _, row in (self.rows.stated() if data else ())
            if row.role == "definition" and not data.isdisjoint(row.cond.free)
        ]
        return self._more(found, [*reduced, *defined])

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

    def _terms(self, conds: Sourced, assumed: Mapping[Cond, tuple[str, ...]] | None = None) -> Terms:
        terms = []
        writer = Writer()  # what the terms share is written once
        for cond, numbers in conds.items():
            symbols = tuple(sorted(cond.free, key=lambda n: (self.position.get(n, len(self.position)), n)))
            texts = (assumed or {}).get(cond, ())
            text = text_of(cond, lambda c: writer.write(c).text)
            terms.append(Term(cond, kind_of(cond), text, symbols, tuple(sorted(numbers)), texts, self.rows))
        return Terms(sorted(terms, key=self._rank))

    def _rank(self, term: Term) -> tuple[int, list[int], Any]:
        return KINDS.index(term.kind), [self.position.get(s, -1) for s in term.symbols], term.cond.order

    def _roles(self, numbers: Iterable[int]) -> set[str]:
        return {self.rows.rows[n].role for n in numbers}


def _excludes_empty(cond: Cond) -> bool:
    """True if the condition is on one size and excludes the value 0."""
    return len(cond.free) == 1 and cond.evaluate(dict.fromkeys(cond.free, 0)) is False


def _unreadable(conds: Iterable[Cond]) -> int:
    """Total size of the conditions that are too long to read."""
    return sum(c.size for c in conds if not is_plain(c))
