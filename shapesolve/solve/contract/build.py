"""The contract of a model: what its input sizes must satisfy, as few conditions that are easy to read.

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

from ...expr import FALSE, Cond, Dim, all_of, any_of, eq, ge
from ...expr.cond import has_value
from ...expr.plain import KINDS, factors_paired, is_plain, kind_of
from ...propagate import budget
from ...propagate.facts import Facts
from ...propagate.log import ConstraintSet, Stated, all_rows, need
from ...propagate.residual import divisors, equalities, intervals, waiting
from ..accepted import Accepted, find_accepted
from ..cone_of_influence import by_symbol, nearby
from ..effort import Effort
from ..engine import Engine
from ..search import Contradiction, learned
from ..simplify.cost import cost
from ..simplify.domain import defined_where, is_size
from .attribute import needed_by
from .contract import Contract, Term, Terms, text_of
from .forms import Forms, by_choices, by_factors, is_worked_on
from .implied import Held, Implications
from .ranges import separated

#: numbers of the constraints that a condition comes from
Numbers = frozenset[int]
#: conditions of a contract, each with the constraints that it comes from
Sourced = Mapping[Cond, Numbers]
#: what a form for usual sizes takes for granted, by its text
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
    """The contract of a model that no input sizes run."""
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
        #: what the user or an assumption gives, and what a model needs besides
        self.given: dict[Cond, Numbers] = {}
        self.needed: dict[Cond, Numbers] = {}
        for cond, numbers in accepted.conds.items():
            own = cond in stated or not self._roles(numbers) - {"user", "assumption"}
            (self.given if own else self.needed)[cond] = frozenset(numbers)

    def contract(self, usual: Mapping[Cond, str]) -> Contract:
        """The contract with its form for usual sizes, where that reads better."""
        reduced = self._reduced(self.needed, self.given)
        if reduced is None:
            return nothing_runs()
        exact = Contract(
            self._terms(self._attributed(reduced, reduced, {})),
            self._terms(self._internal(reduced)),
            self._terms(_joined(self.given)),
            self._terms(self._declared(reduced)),
            derived=self.accepted.derived,
        )
        best = self._usual(exact, reduced, usual)
        return exact if best is None else replace(exact, usual=replace(exact, terms=best))

    # ------------------------------------------------------------------ the pipeline

    def _reduced(
        self, conds: Sourced, given: Iterable[Cond], kept: Sourced | None = None
    ) -> dict[Cond, Numbers] | None:
        """Conditions that say what `conds` do where `given` holds, in short forms, none implied by the others.

        `kept` are known not to follow from each other. None when it is shown that there are no such sizes.
        """
        terms = _Conjunction(Engine(self.rlimit, effort=self.effort), given)
        terms.keep(kept or {})
        if not terms.take_in(conds):
            return None
        terms.separate()
        if self.short:
            terms.shorten()
        if FALSE in terms.conds:
            return None
        terms.leave_out_implied()
        return _joined(terms.conds)

    # ------------------------------------------------------------------ sizes that are usual

    def _usual(self, exact: Contract, reduced: Sourced, usual: Mapping[Cond, str]) -> Terms | None:
        """The terms for inputs that are not empty, and for those of `usual` sizes where these read better still."""
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
        terms = self._terms(self._attributed(best, new, given), assumed)
        return terms if any(t.assumptions for t in terms) else None

    def _granting(self, conds: Sourced, granted: Granted) -> dict[Cond, Numbers] | None:
        """What is left of `conds` where all of `granted` holds; None where that is no shorter."""
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
        """The fewest of what is granted that each new term rests on, as far as that is cheap to find out."""
        implied = Implications(Engine(self.rlimit, effort=self.effort))
        left = budget.MAX_ASSUMPTION_QUERIES
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
        """Conditions on data: what the facts know of other symbols that the definitions of these do not say."""
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
            and self._roles(causes) - {"definition", "declared"}
        }
        data = frozenset[str]().union(*(c.free for c in found)) - self.inputs.keys()
        defined = [
            self.facts.cond(need(row))
            for _, row in (self.rows.stated() if data else ())
            if row.role == "definition" and not data.isdisjoint(row.cond.free)
        ]
        return self._more(found, [*reduced, *defined])

    def _declared(self, reduced: Sourced) -> dict[Cond, Numbers]:
        """What the model states about itself and nothing needs."""
        found: dict[Cond, Numbers] = {}
        for number, row in self.rows.stated():
            if row.role == "declared":
                cond = need(row)
                cond = cond if self.inputs.keys() >= cond.free else self.facts.cond(cond)
                found[cond] = found.get(cond, frozenset()) | {number}
        return self._more(found, reduced)

    def _more(self, conds: Sourced, held: Iterable[Cond]) -> dict[Cond, Numbers]:
        """Those of the conditions that do not follow from what is held, or from each other."""
        if not conds:
            return {}
        terms = _Conjunction(Engine(self.rlimit, effort=self.effort), [*held, *self.given])
        terms.take_in(conds)
        return _joined(terms.conds)

    # ------------------------------------------------------------------ terms

    def _attributed(
        self, conds: Sourced, new: Iterable[Cond], granted: Iterable[Cond]
    ) -> dict[Cond, Numbers]:
        """The terms, `new` ones with the requirements that fail at sizes which break them alone, where such are found."""
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
        for cond, numbers in conds.items():
            symbols = tuple(sorted(cond.free, key=lambda n: (self.position.get(n, len(self.position)), n)))
            texts = (assumed or {}).get(cond, ())
            terms.append(
                Term(cond, kind_of(cond), text_of(cond), symbols, tuple(sorted(numbers)), texts, self.rows)
            )
        return Terms(sorted(terms, key=self._rank))

    def _rank(self, term: Term) -> tuple[int, list[int], Any]:
        return KINDS.index(term.kind), [self.position.get(s, -1) for s in term.symbols], term.cond.order

    def _roles(self, numbers: Iterable[int]) -> set[str]:
        return {self.rows.rows[n].role for n in numbers}


class _Conjunction:
    """Conditions of which all must hold where `given` does. Every step keeps the sizes at which they do."""

    def __init__(self, engine: Engine, given: Iterable[Cond]) -> None:
        self.engine, self.implied = engine, Implications(engine)
        self.given = list(given)
        self.held = Held(self.given)
        self.conds: dict[Cond, Numbers] = {}
        #: those of which it is known that they have no shorter form
        self.done: set[Cond] = set()

    def keep(self, conds: Sourced) -> None:
        """Add conditions that do not follow from each other, as they are, but for what facts see to follow from `given`."""
        for cond, numbers in conds.items():
            if not self.held.decided(cond):
                self.conds[cond] = numbers
                self.held.add(cond)
        self.done.update(filter(is_plain, conds))

    def take_in(self, conds: Sourced) -> bool:
        """Add what does not follow from what was added before, the smaller conditions first.

        False when they contradict each other.
        """
        parts: dict[Cond, Numbers] = {}
        for cond, numbers in conds.items():
            factored = by_factors(cond)
            plain = by_choices(factored)
            for part in self._parts(plain if plain.kind != "and" and is_plain(plain) else factored):
                parts[part] = parts.get(part, frozenset()) | numbers
        for cond in sorted(parts, key=_by_size):
            self._add(cond, parts[cond])
        self._drop_dead_ways()
        return not self.held.is_empty

    def separate(self) -> None:
        """Conditions on one size, and equal products of ordered factors, as ranges and remainders of single sizes."""
        for cond in list(self.conds):
            paired = factors_paired(cond)
            if paired is not None and all(self._follows(c, cond) for c in paired[1]):
                self._replace([cond], paired[0])
        alone: dict[str, list[Cond]] = {}
        for cond in self.conds:
            if len(cond.free) == 1 and has_value(cond) and is_size(cond, min(cond.free)):
                alone.setdefault(min(cond.free), []).append(cond)
        for group in alone.values():
            found = None if _is_simple(group) else separated(group, self.engine)
            if found is not None:
                plain = [p for c in found for p in (c.args if c.kind == "and" else (c,))]
                if set(plain) != set(group):
                    self._replace(group, plain)

    def shorten(self) -> None:
        """The conditions that are hard to read in their cheapest form, the dearest one first."""
        left, changed = budget.MAX_READ, False
        for _ in range(budget.MAX_SHORTENED):
            hard = [c for c in self.conds if c not in self.done and c.size <= left and is_worked_on(c)]
            if not hard:
                break
            cond = max(hard, key=cost)
            self.done.add(cond)
            left -= cond.size
            found = Forms(self._beside(cond), self.engine).shortest(cond)
            if found is not cond:
                self._replace([cond], _terms_of(found))
                self.done.add(found)
                changed = True
        if changed:
            self._drop_dead_ways()
            self.separate()

    def leave_out_implied(self) -> None:
        """Leave out conditions that follow from the others, the longer ones first."""
        for cond in sorted(self.conds, key=_by_size, reverse=True)[: budget.MAX_REDUNDANCY]:
            if self.held.was_last(cond):
                continue  # when it was added it did not follow, and nothing about its sizes was added later
            if self._follows(cond, cond):
                del self.conds[cond]
                self.held.discard(cond)

    # ------------------------------------------------------------------ steps

    def _drop_dead_ways(self) -> None:
        """Alternatives without those that the facts exclude: ``batch == 0 or seq <= 64`` where ``batch >= 1``."""
        self.held.learn()
        dead: dict[Cond, list[Cond]] = {}
        for cond in self.conds:
            if cond.kind == "or":
                left = [way for way in cond.args if self.held.decided(way) is not False]
                if len(left) < len(cond.args):
                    dead[cond] = left
        for cond, left in dead.items():
            self._replace([cond], [any_of(left)])

    def _add(self, cond: Cond, numbers: Numbers) -> None:
        if not cond.is_true and not self.implied.follows(cond, self.held):
            self.conds[cond] = self.conds.get(cond, frozenset()) | numbers
            self.held.add(cond)

    def _replace(self, old: Sequence[Cond], new: Iterable[Cond]) -> None:
        numbers = frozenset[int]().union(*(self.conds.pop(c) for c in old))
        for cond in old:
            self.held.discard(cond)
        for cond in new:
            for part in self._parts(cond):
                self._add(part, numbers)

    def _parts(self, cond: Cond) -> tuple[Cond, ...]:
        """The condition as bounds of single sizes, or as the parts of a conjunction."""
        return bounds_of(cond, self.given) or (cond.args if cond.kind == "and" else (cond,))

    def _follows(self, goal: Cond, cond: Cond) -> bool:
        """True if `goal` is shown to follow from all but `cond`."""
        self.held.discard(cond)
        found = self.implied.follows(goal, self.held)
        self.held.add(cond)
        return found

    def _beside(self, cond: Cond) -> list[Cond]:
        """The conditions nearest to one that its form may rest on. One that divides by 0 says nothing there."""
        small = [c for c in self.conds if c is not cond and c.size <= budget.MAX_READ]
        others = [any_of((c, *(~d for d in defined_where(c)))) for c in small]
        return nearby(cond.free, by_symbol([*others, *self.given]), budget.MAX_BESIDE)


def bounds_of(cond: Cond, given: Iterable[Cond]) -> tuple[Cond, ...]:
    """Bounds of single sizes that say what a condition does: ``a >= 1`` and ``b >= 1`` for ``a*b != 0``.

    Empty where there are none, and where it is made of bounds already.
    """
    parts = cond.args if cond.kind == "and" else (cond,)
    if not has_value(cond) or len(parts) > 2 or all(c.kind == ">=" and is_plain(c) for c in parts):
        return ()
    facts = Facts()
    for number, known in enumerate(given):
        if len(known.free) == 1 and known.free <= cond.free and known.kind == ">=":
            facts.assume(known, number)
    if not facts.assume(cond, -1) or facts.substitution or facts.divisors:
        return ()
    return tuple(c for c, _ in intervals(facts)) if facts.cond(cond).is_true else ()


def _by_size(cond: Cond) -> tuple[int, Any]:
    return cond.size, cond.order


def _terms_of(cond: Cond) -> list[Cond]:
    """A form as terms: ``n == 0 or (a and b)`` is ``n == 0 or a`` and ``n == 0 or b``."""
    if cond.kind == "or":
        inner = [c for c in cond.args if c.kind == "and" and text_of(c) == str(c)]
        if len(inner) == 1:
            rest = [c for c in cond.args if c is not inner[0]]
            return [any_of((*rest, c)) for c in _ranges(inner[0])]
    return [cond]


def _ranges(cond: Cond) -> list[Cond]:
    """The parts of a conjunction, with two bounds of the same thing as one."""
    return list(_joined(dict.fromkeys(cond.args, frozenset())))


def _is_simple(group: Sequence[Cond]) -> bool:
    """True if conditions on one symbol are bounds and remainders already, or one of them alone that lists sizes."""
    if len(group) == 1 and group[0].kind == "or" and all(way.kind == "==" for way in group[0].args):
        return all(map(is_plain, group[0].args))
    ranges = all(is_plain(c) and c.kind not in ("or", "!=") for c in group)
    return ranges and (len(group) == 1 or all(kind_of(c) in ("range", "nonempty") for c in group))


def _joined(conds: Sourced) -> dict[Cond, Numbers]:
    """Lower and upper bounds of the same thing joined: ``193 <= H <= 224``, and ``H == 64`` where they are the same."""
    joined: dict[Cond, Numbers] = {}
    bounds: dict[Dim, Cond] = {}
    for c, numbers in conds.items():
        if c.kind == ">=" and kind_of(c) != "nonempty":
            opposite = bounds.pop(-(c.args[0] - c.args[0].const), None)
            if opposite is not None:
                tight = (opposite.args[0] + c.args[0]).value == 0
                numbers = joined.pop(opposite) | numbers
                c = eq(c.args[0], 0) if tight else all_of((opposite, c))
            else:
                bounds[c.args[0] - c.args[0].const] = c
        joined[c] = joined[c] | numbers if c in joined else numbers
    return joined


def _excludes_empty(cond: Cond) -> bool:
    """True if it says of one size that it is not 0."""
    return len(cond.free) == 1 and cond.evaluate(dict.fromkeys(cond.free, 0)) is False


def _unreadable(conds: Iterable[Cond]) -> int:
    """Size of the conditions that a person cannot take in at once."""
    return sum(c.size for c in conds if not is_plain(c))
