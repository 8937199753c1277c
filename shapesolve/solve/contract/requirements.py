"""What a contract has to say: requirements, learned anew by facts that know that inputs are not empty, and read off these."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import product

from ...expr import Cond, Dim, all_of, any_of, eq, ge, of_atom
from ...expr.canonical import common_factor, without
from ...expr.cond import symbols_in
from ...expr.plain import bounds_on, tightest
from ...lazy import cached_property
from ...propagate import budget
from ...propagate.constraint import Role
from ...propagate.facts import Causes, Facts
from ...propagate.log import ConstraintSet, need
from ...propagate.residual import divisors, equalities, intervals, waiting
from ..search import symbol_of


class Requirements:
    """The constraints of a model by what they say, seen from its inputs.

    A cause is the number of a constraint; negative ones stand for what is granted: that an input is not empty, and what
    holds for inputs of usual sizes.

    Attributes:
        inputs, symbols, known, position: the input symbols by name, and where they stand among them.
        stated, declared: conditions with the numbers of the constraints that state them.
        usual: what holds for usual sizes, in words.
        granted: for each input, that it is not empty (as far as `learned` took it so).
    """

    def __init__(
        self, constraints: ConstraintSet, inputs: Mapping[str, Dim], usual: Mapping[Cond, str] | None = None
    ) -> None:
        self.constraints, self.inputs, self.symbols = constraints, list(inputs), inputs
        self.usual = dict(usual or {})
        self.known = set(self.inputs)
        self.position = {n: i for i, n in enumerate(self.inputs)}
        self.granted: dict[str, Cond] = {}
        self._merged: list[Causes] = []
        self.stated: dict[Cond, list[int]] = {}
        self.declared: dict[Cond, list[int]] = {}
        rows: dict[tuple[Cond, Cond, bool], list[int]] = {}
        for number, row in constraints.stated():
            rows.setdefault((row.cond, row.guard, row.role == "declared"), []).append(number)
        for (_, _, declared), numbers in rows.items():
            cond = need(constraints.rows[numbers[0]])
            named = declared and self._is_name(cond)
            (self.declared if declared and not named else self.stated).setdefault(cond, []).extend(numbers)

    def known_to(self, facts: Facts) -> dict[Cond, Causes]:
        """What `facts` know of the inputs, and of other symbols, as few conditions with their causes."""
        return tightest(self._projected(self._raw(facts)))

    def _is_name(self, cond: Cond) -> bool:
        """Does a declaration only give the author's name to a size that we had invented a name for?"""
        return (
            cond.kind == "==" and len(cond.free) == 2
            and sum(d.is_made for d in symbols_in(cond).values()) == 1 and self.known.isdisjoint(cond.free)
        )  # fmt: skip

    def learned(self, *, nonempty: bool) -> Facts | None:
        """Facts that know all requirements; None when these contradict each other."""
        facts = Facts()
        self.granted = {}
        self._merged = []
        for i, name in enumerate(self.inputs):
            facts.introduce(name)
            if nonempty:
                self.granted[name] = ge(self.symbols[name], 1)
                facts.assume(self.granted[name], -1 - i)
        for i, cond in enumerate(self.usual):
            if not facts.assume(cond, -1 - len(self.inputs) - i):
                return None
        for cond in self.stated:
            for name in sorted(cond.free - self.known):
                facts.introduce(name)
        for cond, numbers in self.stated.items():
            now, used = stripped(facts.cond(cond), facts)
            cause = numbers[0]
            if used or now is not cond:  # what made it simpler is a cause as well
                self._merged.append(frozenset((cause,)) | used | facts.why(cond.free))
                cause = len(self.constraints.rows) + len(self._merged) - 1
            if not facts.assume(now, cause):
                return None
        return facts

    def said(self) -> Facts:
        """What the user and our assumptions say by themselves."""
        facts = Facts()
        for cond, numbers in self.stated.items():
            if any(self.constraints.rows[n].role in ("user", "assumption") for n in numbers):
                facts.assume(cond, numbers[0])
        return facts

    def _raw(self, facts: Facts) -> dict[Cond, Causes]:
        """What the facts know of input symbols, as conditions with causes."""
        found: dict[Cond, Causes] = {}

        def add(cond: Cond, causes: Causes) -> None:
            causes = self._numbers(causes)
            if not cond.is_true and any(n >= 0 or n < -len(self.inputs) for n in causes):
                found[cond] = found.get(cond, frozenset()) | causes

        granted = set(self.granted.values())
        names = (*self.inputs, *sorted(facts.substitution.keys() - self.known))
        for conditions in (equalities(facts, names), intervals(facts), divisors(facts), waiting(facts)):
            for cond, causes in conditions:
                if cond not in granted:
                    add(cond, causes)
        return found

    def _projected(self, raw: dict[Cond, Causes]) -> dict[Cond, Causes]:
        """With what follows for input symbols from bounds of others: ``7 <= n <= N`` needs ``N >= 7``."""
        done = dict(raw)
        names = sorted(set().union(*(c.free for c in raw)) - self.known) if raw else []
        for name in names[: budget.MAX_ELIMINATED]:
            lows, highs = bounds_on(symbol_of(name, raw), done)
            for (low, low_causes), (high, high_causes) in list(product(lows, highs))[: budget.MAX_ELIMINATED]:
                cond = ge(high, low)
                if not cond.is_true and cond not in done and low_causes | high_causes:
                    done[cond] = low_causes | high_causes
        return done

    def _numbers(self, causes: Iterable[int]) -> Causes:
        """Causes as constraint numbers (negative ones: the non-emptiness of an input)."""
        first = len(self.constraints.rows)
        seen = set(causes)  # causes share causes: each is followed once
        stack = list(seen)
        while stack:
            n = stack.pop()
            if n >= first:
                new = self._merged[n - first] - seen
                seen |= new
                stack.extend(new)
        return frozenset(n for n in seen if n < first)

    def roles(self, causes: Causes) -> set[Role]:
        """The roles of the constraints among these causes."""
        return {self.constraints.rows[n].role for n in causes if n >= 0}

    def nonempty(self, *conds: Cond) -> Causes:
        """As causes, that the inputs in `conds` are not empty."""
        names = frozenset[str]().union(*(c.free for c in conds))
        return frozenset(-1 - self.position[n] for n in names if n in self.granted)

    def granted_for(self, conds: Iterable[Cond]) -> list[Cond]:
        """What is granted of the inputs that `conds` speak of."""
        names = set().union(*(c.free for c in conds)) if conds else set()
        return [self.granted[n] for n in sorted(names) if n in self.granted]

    def of_nodes(self) -> dict[Cond, int]:
        """What nodes require, with the first constraint that says so."""
        return {
            c: ns[0]
            for c, ns in self.stated.items()
            if any(self.constraints.rows[n].role == "requirement" for n in ns)
        }

    def repeats(self, numbers: Collection[int]) -> tuple[int, ...]:
        """With all constraints that state the same conditions."""
        found = {n for number in numbers for n in self._alike.get(number, (number,))}
        return tuple(sorted(found))

    @cached_property
    def _alike(self) -> dict[int, tuple[int, ...]]:
        """By the number of a constraint, those that state the same condition."""
        found: dict[int, tuple[int, ...]] = {}
        for table in (self.stated, self.declared):
            for same in map(tuple, table.values()):
                for n in same:
                    found[n] = (*found[n], *same) if n in found else same
        return found


def stripped(cond: Cond, facts: Facts) -> tuple[Cond, Causes]:
    """A relation with zero without the positive factors of all its terms: ``batch*x == batch*y`` says ``x
    == y``.
    """
    if cond.kind in ("and", "or"):
        used: set[int] = set()

        def strip(c: Cond) -> Cond:
            now, more = stripped(c, facts)
            used.update(more)
            return now

        parts = [strip(c) for c in cond.args]
        if not used:
            return cond, frozenset()
        return (all_of(parts) if cond.kind == "and" else any_of(parts)), frozenset(used)
    if not cond.args or cond.args[0].const or not cond.args[0].terms:
        return cond, frozenset()
    d: Dim = cond.args[0]
    symbols = [a for a in common_factor(d) if a.kind == "sym"]
    positive = tuple(a for a in symbols if (facts.bounds(of_atom(a))[0] or 0) >= 1)
    if not positive:
        return cond, frozenset()
    names = {a.args[0] for a in positive}
    quotient = without(d, positive)
    relation = (
        eq(quotient, 0) if cond.kind == "==" else ~eq(quotient, 0) if cond.kind == "!=" else ge(quotient, 0)
    )
    return relation, facts.why(names)
