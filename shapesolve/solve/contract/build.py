"""Building the contract: requirements projected onto input symbols, made plain, and freed of what follows
from the rest.

The facts do most of the work: requirements are learned anew by facts that know that inputs are not empty;
what these then know of the input symbols, and the conditions that they could not use, say together what all
requirements say. The rest is guess and verify (`invert`), and the removal of terms that others imply. Every
step is proved equivalent, or not made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...expr import FALSE, Cond, Dim, all_of, any_of, eq
from ...expr.cond import has_value
from ...expr.plain import (
    KINDS,
    factors_paired,
    is_plain,
    is_plain_group,
    kind_of,
)
from ...expr.traverse import atoms_of
from ...propagate import budget
from ...propagate.facts import Causes, Facts
from ...propagate.log import ConstraintSet, Stated, all_rows
from ...propagate.residual import intervals
from ..accepted import Accepted, find_accepted
from ..cones import by_symbol, nearby, reached
from ..effort import Effort
from ..engine import Engine
from ..inverse import separate
from .attribute import needed_by
from .contract import Contract, Term, Terms, text_of
from .implied import Held, Implications
from .requirements import Requirements
from .shorten import shortened


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
    Without `short`, terms stay as they are found, each with all requirements that led to it.
    """
    shorter = shortened if short else _as_found
    rows, inputs = all_rows(constraints), {d.name or "": d for d in symbols}
    if accepted is None:
        accepted = find_accepted(rows, facts, inputs)
    effort = effort or Effort()
    builder = _Builder(rows, facts, inputs, Engine(rlimit, effort=effort), accepted, attributed=short)
    if FALSE in accepted.conds:
        return nothing_runs()
    nonempty = builder.build()
    if nonempty.impossible:
        return nonempty
    exact = shorter(builder.exactly(nonempty), builder.sure)
    if any(t.cond.is_false for t in exact):
        return nothing_runs()
    if not nonempty.assumptions and not (usual and _unreadable(nonempty)):
        return exact
    best = shorter(nonempty, builder.engine)
    if usual and _unreadable(best):
        engine = Engine(rlimit, effort=effort)
        plainer = shorter(
            _Builder(rows, facts, inputs, engine, accepted, usual, attributed=short).build(), builder.engine
        )
        if not plainer.impossible and _unreadable(plainer) < _unreadable(best):
            best = plainer
    if best.assumptions and {t.cond for t in best} != {t.cond for t in exact}:
        return replace(exact, usual=best)
    return exact


def _as_found(contract: Contract, engine: Engine) -> Contract:
    return contract


def nothing_runs() -> Contract:
    """The contract of a model that no input sizes run."""
    return Contract(Terms(), impossible=True)


def _unreadable(contract: Contract) -> int:
    """How much of a contract a person cannot take in at once."""
    return sum(t.cond.size for t in (*contract.terms, *contract.internal) if not is_plain(t.cond))


class _Builder:
    def __init__(
        self,
        constraints: ConstraintSet,
        facts: Facts,
        inputs: Mapping[str, Dim],
        engine: Engine,
        accepted: Accepted,
        usual: Mapping[Cond, str] | None = None,
        *,
        attributed: bool = True,
    ) -> None:
        self.facts, self.accepted, self.engine, self.attributed = facts, accepted, engine, attributed
        self.needs = needs = Requirements(constraints, inputs, usual)
        self.sure = Engine(engine.rlimit, effort=engine.effort)
        self._links = by_symbol((*needs.stated, *needs.usual))
        self._stated_apart: set[str] = set()
        self._precision = budget.MAX_ASSUMPTION_QUERIES
        self.implied = Implications(self.sure)
        self._example: Mapping[str, int] = {}  # sizes at which all terms hold, where some were found

    # ------------------------------------------------------------------ the whole

    def build(self) -> Contract:
        facts = self.needs.learned(nonempty=True) or self.needs.learned(nonempty=False)
        if facts is None:
            return nothing_runs()
        raw = self.needs.known_to(facts)
        internal = {c: causes for c, causes in raw.items() if not self.needs.known.issuperset(c.free)}
        internal = {c: causes for c, causes in internal.items() if self.needs.roles(causes) - {"definition"}}
        own = {
            c: causes
            for c, causes in raw.items()
            if c not in internal and self.needs.known.issuperset(c.free)
        }
        said = self.needs.said()
        given = {c: causes for c, causes in own.items() if said.cond(c).is_true}
        plain = self._made_plain({c: causes for c, causes in own.items() if c not in given}, given)
        plain = self._irredundant(plain, given)
        self._restore_nonempty(plain, given)
        declared = {facts.cond(c): frozenset(ns) for c, ns in self.needs.declared.items()}
        return Contract(
            self._terms(plain, given),
            self._terms(internal, {}, exact=False),
            self._terms(given, {}, exact=False),
            self._terms({c: ns for c, ns in declared.items() if not c.is_true}, {}, exact=False),
        )

    def exactly(self, contract: Contract) -> Contract:
        """The contract with terms that say what is accepted at every size, empty inputs included.

        A term that rests on an assumption is left out, and what the others do not imply is stated as it is. Every
        implication is proved, or not used.
        """
        said = {t.cond: t for t in contract.assumed}
        accepted = {c: ns for c, ns in self.accepted.conds.items() if c not in said}
        everything = Held([*accepted, *said])
        kept: dict[Cond, Term] = {}
        for term in contract:
            if self.implied.follows(term.cond, everything, proved=not term.assumptions):
                kept[term.cond] = term
                continue
            empty = [
                eq(self.needs.symbols[n], 0) for n in self.needs.granted if f"{n} >= 1" in term.assumptions
            ]
            if len(empty) > budget.MAX_EMPTY:
                continue  # nobody reads that: what is accepted is stated as it is
            weaker = any_of((term.cond, *empty))
            if empty and self.implied.follows(weaker, everything):
                kept[weaker] = self._term(weaker, term.numbers, frozenset(term.numbers))
        held = Held([*kept, *said])
        for cond, numbers in sorted(accepted.items(), key=lambda item: (item[0].size, item[0].order)):
            if not self.implied.follows(cond, held):
                for part in plain_parts(cond):
                    if not self.implied.follows(part, held):
                        kept[part] = self._term(part, self.needs.repeats(numbers), frozenset(numbers))
                        held.add(part)
        self._without_dead_ways(kept)
        held, before = Held([*kept, *said]), set(contract.terms.cond)
        for cond in [c for c in kept if c not in before]:  # a bound that a later one made superfluous
            if cond not in said:
                held.discard(cond)
            if self.implied.follows(cond, held):
                del kept[cond]
            else:
                held.add(cond)
        self._exactly_plain(kept)
        terms = [replace(t, assumptions=()) for t in kept.values()]
        return replace(contract, terms=Terms(sorted(terms, key=self._rank)), derived=self.accepted.derived)

    def _without_dead_ways(self, kept: dict[Cond, Term]) -> None:
        """Alternatives dropped that another condition excludes: ``batch != 0 or samples == 0`` beside ``samples >= 912``."""
        names = frozenset[str]().union(*(c.free for c in kept))
        points = self.implied.points(kept, (self._example, *(dict.fromkeys(names, n) for n in (1, 2, 0))))
        held, left_to_ask = Held(kept), budget.MAX_EXCLUDED
        for cond in [c for c in kept if c.kind == "or"]:
            left, numbers = list(cond.args), set(kept[cond].numbers)
            for way in cond.args:
                if len(left) == 1 or self.implied.points((way,), points):
                    continue
                others = [c for c in held.about(way.free) if c is not cond][: max(left_to_ask, 0)]
                left_to_ask -= len(others)
                excludes = next((c for c in others if self.implied.follows(~way, Held((c,)))), None)
                if excludes is not None:
                    left.remove(way)
                    numbers.update(kept[excludes].numbers)
            if len(left) < len(cond.args):
                del kept[cond]
                held.discard(cond)
                for part in plain_parts(any_of(left)):
                    kept.setdefault(part, self._term(part, self.needs.repeats(numbers), frozenset(numbers)))
                    held.add(part)

    def _exactly_plain(self, kept: dict[Cond, Term]) -> None:
        """Conditions on one size replaced by ranges and remainders, where these say the same at every size."""
        for name in self.needs.inputs:
            group = [c for c in kept if c.free == {name}]
            ranges = all(is_plain(c) and c.kind not in ("or", "!=") for c in group)
            if ranges and not (len(group) > 1 and any(c.kind == "==" for c in group)):
                continue
            found = separate(group, {}, self.sure)
            plain = [p for c in found or () for p in (c.args if c.kind == "and" else (c,))]
            if len(plain) > len(group) and all(
                c.kind == "or" and all(e.kind == "==" for e in c.args) for c in group
            ):
                continue  # a list of sizes says that they are few, two bounds do not
            if found is not None and set(plain) != set(group) and self._same(plain, group):
                numbers = frozenset(n for c in group for n in kept.pop(c).numbers)
                for part in plain:
                    kept[part] = self._term(part, self.needs.repeats(numbers), numbers)

    def _rank(self, term: Term) -> tuple[int, list[int], Any]:
        return KINDS.index(term.kind), [self.needs.position.get(s, -1) for s in term.symbols], term.cond.order

    # ------------------------------------------------------------------ plain forms

    def _made_plain(self, conds: Mapping[Cond, Causes], given: Mapping[Cond, Causes]) -> dict[Cond, Causes]:
        """Conditions that are hard to read replaced by ranges and remainders, where these say the same."""
        done = dict(conds)
        for c in conds:
            self._pair(done, c, given)
        by_symbol: dict[str, list[Cond]] = {}
        for c in done:
            if len(c.free) == 1:
                by_symbol.setdefault(next(iter(c.free)), []).append(c)
        for _, group in sorted(by_symbol.items()):
            if not is_plain_group(group):
                self._replace(done, group)
        for group in self._groups(done):
            if any(not is_plain(c) for c in group) and 1 < len(set().union(*(c.free for c in group))) <= 4:
                self._replace(done, group)
        return done

    def _pair(self, conds: dict[Cond, Causes], cond: Cond, given: Iterable[Cond]) -> None:
        """An equality of products replaced by equalities of their factors, where these say the same."""
        found = factors_paired(cond)
        if found is None:
            return
        pairs, needs = found
        others = [*(c for c in conds if c is not cond), *given]
        causes = conds[cond]
        for c in needs:
            if not self.engine.entails(c, others, cheap=True).proved:
                if not self.engine.entails(c, [*others, *self.needs.granted_for([c])], cheap=True).proved:
                    return
                causes = causes | {-1 - self.needs.position[n] for n in c.free if n in self.needs.granted}
        del conds[cond]
        for c in pairs:
            if not c.is_true:
                conds[c] = conds.get(c, frozenset()) | causes

    def _replace(self, conds: dict[Cond, Causes], group: Sequence[Cond]) -> None:
        plain = separate(group, self.needs.granted, self.engine)
        if plain is None or set(plain) == set(group):
            return
        used = frozenset[int]().union(*(conds.pop(c) for c in group))
        if not self._same(plain, group):
            used |= self.needs.nonempty(*group)
        for cond in plain:
            for part in cond.args if cond.kind == "and" else (cond,):
                if not part.is_true:
                    conds[part] = used

    def _same(self, some: Sequence[Cond], others: Sequence[Cond]) -> bool:
        """Do two lists of conditions provably say the same, also for empty inputs?"""
        names = set().union(*(c.free for c in (*some, *others)))
        if len(names) == 1:
            same = self.engine.equivalent(some, others, names.pop(), 0)
            if same is not None:
                return same
        return self.engine.entails(all_of(some), others, cheap=True).proved and all(
            self.engine.entails(c, some, cheap=True).proved for c in others
        )

    def _groups(self, conds: Iterable[Cond]) -> list[list[Cond]]:
        left = dict.fromkeys(conds)
        groups, links = [], by_symbol(left)
        while left:
            first = next(iter(left))
            group = reached(first.free, links) or [first]
            for c in group:
                left.pop(c, None)
            groups.append(group)
        return groups

    # ------------------------------------------------------------------ redundancy

    def _irredundant(self, conds: dict[Cond, Causes], given: Mapping[Cond, Causes]) -> dict[Cond, Causes]:
        """Without the conditions that the others imply, the complex ones tried first."""
        done = dict(conds)
        if len(conds) > 1:
            everything = [*conds, *given, *self.needs.granted_for([*conds, *given])]
            self._example = self.engine.expect(everything) or {}
        for cond in sorted(conds, key=lambda c: c.order, reverse=True)[: budget.MAX_REDUNDANCY]:
            near = [c for c in (*done, *given) if c is not cond and not c.free.isdisjoint(cond.free)]
            if (not near and is_plain(cond)) or not has_value(cond) or _is_legality(cond, near):
                continue
            others = [*(c for c in done if c is not cond), *given, *self.needs.granted_for([*done, *given])]
            if self.engine.entails(cond, others, cheap=True).proved:
                del done[cond]
            elif cond.kind == "or":
                self._drop_impossible(done, cond, others)
        return done

    def _drop_impossible(self, conds: dict[Cond, Causes], cond: Cond, others: Sequence[Cond]) -> None:
        """An alternative without the members that the other conditions exclude."""
        close = nearby(cond.free, by_symbol(others), budget.MAX_CHEAP)
        left = [
            c for c in cond.args if not self.engine.satisfiable([c, *close], cheap=True, any_model=True).unsat
        ]
        if left and len(left) < len(cond.args):
            causes = conds.pop(cond)
            used = self.needs.nonempty(cond, *close)
            fewer = any_of(left)
            for part in fewer.args if fewer.kind == "and" else (fewer,):
                conds[part] = conds.get(part, frozenset()) | causes | used

    def _restore_nonempty(self, conds: dict[Cond, Causes], given: Iterable[Cond]) -> None:
        """``batch >= 1`` where a node needs it and no other term implies it: the assumption had hidden it."""
        for cond in self.needs.granted.values():
            numbers = self.needs.stated.get(cond)
            if numbers and not self.engine.entails(cond, [*conds, *given], cheap=True).proved:
                conds[cond] = frozenset(numbers)

    # ------------------------------------------------------------------ terms

    def _terms(
        self, conds: Mapping[Cond, Causes], given: Mapping[Cond, Causes], *, exact: bool = True
    ) -> Terms:
        terms = []
        conds = _with_chains(conds)
        witnesses = (
            needed_by(list(conds), self.needs.of_nodes(), [*given, *self.needs.usual], self.needs.granted)
            if exact and self.attributed
            else {}
        )
        for cond, causes in sorted(conds.items(), key=lambda item: not _excludes_empty(item[0])):
            numbers = witnesses.get(cond) or {n for n in causes if n >= 0}
            term = self._term(cond, self.needs.repeats(numbers), causes)
            if exact and not term.assumptions and _excludes_empty(cond):
                self._stated_apart.update(cond.free)
            terms.append(term)
        return Terms(sorted(terms, key=self._rank))

    def _term(self, cond: Cond, numbers: tuple[int, ...], causes: Causes) -> Term:
        symbols = tuple(
            sorted(cond.free, key=lambda n: (self.needs.position.get(n, len(self.needs.position)), n))
        )
        granted = [-1 - n for n in sorted(causes, reverse=True) if n < 0]
        usual = dict.fromkeys(
            list(self.needs.usual.values())[i - len(self.needs.inputs)]
            for i in granted
            if i >= len(self.needs.inputs)
        )
        names = [self.needs.inputs[i] for i in granted if i < len(self.needs.inputs)]
        used = self._used([n for n in names if n not in self._stated_apart], cond)
        assumed = (*(f"{name} >= 1" for name in used), *usual)
        return Term(cond, kind_of(cond), text_of(cond), symbols, numbers, assumed, self.needs.constraints)

    def _used(self, names: list[str], cond: Cond) -> list[str]:
        """Those inputs (of `names`) whose non-emptiness a term really rests on, as far as that is cheap to
        tell.
        """
        if not names or self.facts.cond(cond).is_true:
            return []
        if self._precision <= 0:
            return names
        needs = reached(cond.free, self._links)
        if len(needs) > budget.MAX_CORE_DELETION:
            return names
        price = 1 + sum(c.size for c in needs) // budget.LARGE_NEEDS
        if len(names) > 1:  # often it rests on none
            self._precision -= price
            if self.engine.entails(cond, [*needs, *self.needs.usual], cheap=True).proved:
                return []
        for name in list(names):
            if self._precision <= 0:
                break
            self._precision -= price
            fewer = [*(self.needs.granted[n] for n in names if n != name), *self.needs.usual]
            if self.engine.entails(cond, [*needs, *fewer], cheap=True).proved:
                names = [n for n in names if n != name]
        return names


def _with_chains(conds: Mapping[Cond, Causes]) -> dict[Cond, Causes]:
    """Lower and upper bounds of the same thing joined: ``193 <= H <= 224``, and ``H == 64`` where they are the same."""
    joined: dict[Cond, Causes] = {}
    bounds: dict[Dim, Cond] = {}
    for c, causes in conds.items():
        if c.kind == ">=" and kind_of(c) != "nonempty":
            opposite = bounds.pop(-(c.args[0] - c.args[0].const), None)
            if opposite is not None:
                tight = (opposite.args[0] + c.args[0]).value == 0
                causes = joined.pop(opposite) | causes
                c = eq(c.args[0], 0) if tight else all_of((opposite, c))
            else:
                bounds[c.args[0] - c.args[0].const] = c
        joined[c] = joined[c] | causes if c in joined else causes
    return joined


def _excludes_empty(cond: Cond) -> bool:
    """Does it say of one size that it is not 0? Then no other term needs to name that as an assumption."""
    return len(cond.free) == 1 and cond.evaluate(dict.fromkeys(cond.free, 0)) is False


def plain_parts(cond: Cond) -> tuple[Cond, ...]:
    """The condition as bounds of single sizes, where it says no more: ``a*b != 0`` is ``a >= 1`` and ``b >= 1``.

    Else the parts of a conjunction, each one.
    """
    own = cond.args if cond.kind == "and" and text_of(cond) == str(cond) else (cond,)
    facts = Facts()
    if not facts.assume(cond, 0) or facts.substitution or facts.divisors:
        return own
    found = tuple(known for known, _ in intervals(facts))
    return found if found and facts.cond(cond).is_true else own


def _is_legality(cond: Cond, others: Sequence[Cond]) -> bool:
    """Does it make a broadcast in the other terms legal? They mean nothing without it."""
    return cond.kind == "or" and any(a.kind == "broadcast" for a in atoms_of(*others))
