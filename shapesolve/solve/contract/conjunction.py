"""A conjunction of conditions on sizes, made short and irredundant step by step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...expr import Cond, Dim, all_of, any_of, eq
from ...expr.cond import has_value
from ...expr.plain import factors_paired, is_plain, kind_of
from ..cone_of_influence import broadcast_pairs, by_symbol, legal_broadcasts, nearby
from ..engine import Engine
from ..facts import budget
from ..facts.facts import Facts
from ..facts.residual import intervals
from ..known import Known, ground, is_size
from ..simplify.cost import cost
from ..simplify.forms import by_choices, by_factors, by_members, is_worked_on
from ..simplify.ranges import separated
from ..simplify.simplifier import Simplifier
from .contract import text_of

#: numbers of the constraints that a condition comes from
Numbers = frozenset[int]
#: conditions of a contract, each with the constraints that it comes from
Sourced = Mapping[Cond, Numbers]


class Conjunction:
    """Conditions that must hold wherever `given` does. Every step preserves the sizes that satisfy them."""

    def __init__(self, engine: Engine, given: Iterable[Cond]) -> None:
        self.engine = engine
        self.given = list(given)
        self.held = Known(self.given, engine)
        self.conds: dict[Cond, Numbers] = {}
        #: conditions known to have no shorter form
        self.done: set[Cond] = set()

    def keep(self, conds: Sourced) -> None:
        """Adds conditions unchanged, except those that the facts derive from `given`."""
        for cond, numbers in conds.items():
            if not self.held.decided(cond):
                self.conds[cond] = numbers
                self.held.add(cond)
        self.done.update(filter(is_plain, conds))

    def take_in(self, conds: Sourced) -> bool:
        """Adds conditions that do not follow from earlier ones, the smaller first; False on a contradiction.

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
        self._drop_impossible_alternatives()
        return not self.held.is_empty

    def separate(self) -> None:
        """Rewrites conditions on one size as ranges and remainders, and equal products as equal factors. They become
        ranges and remainders of single sizes.
        """
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
        """Replaces long conditions by their cheapest equivalent form, the longest first."""
        left, changed = budget.MAX_READ, False
        for _ in range(budget.MAX_SHORTENED):
            hard = [c for c in self.conds if c not in self.done and c.size <= left and is_worked_on(c)]
            if not hard:
                break
            cond = max(hard, key=cost)
            self.done.add(cond)
            left -= cond.size
            found = Simplifier(self._closest(cond), self.engine).shortest(cond)
            if found is not cond:
                self._replace([cond], _terms_of(found))
                self.done.add(found)
                changed = True
        for cond in [c for c in self.conds if broadcast_pairs([c])]:
            found = by_members(cond)
            if not broadcast_pairs([found]) and all(map(self.held.follows, legal_broadcasts([cond]))):
                self._replace([cond], [found])
        if changed:
            self._drop_impossible_alternatives()
            self.separate()

    def leave_out_implied(self) -> None:
        """Drops conditions that follow from the others, the longer ones first."""
        for cond in sorted(self.conds, key=_by_size, reverse=True)[: budget.MAX_QUERIES]:
            if self.held.was_last(cond):
                continue  # when it was added it did not follow, and nothing about its sizes was added later
            if self._follows(cond, cond):
                del self.conds[cond]
                self.held.discard(cond)

    # ------------------------------------------------------------------ steps

    def _drop_impossible_alternatives(self) -> None:
        """Drops alternatives that the facts exclude: ``batch == 0 or seq <= 64`` where ``batch >= 1``."""
        self.held.learn()
        dead: dict[Cond, list[Cond]] = {}
        for cond in self.conds:
            if cond.kind == "or":
                left = [c for c in cond.args if self.held.decided(c) is not False]
                if len(left) < len(cond.args):
                    dead[cond] = left
        for cond, left in dead.items():
            self._replace([cond], [any_of(left)])

    def _add(self, cond: Cond, numbers: Numbers) -> None:
        if not cond.is_true and not self.held.follows(cond):
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
        """Splits a condition into bounds of single sizes, or into the members of a conjunction."""
        return bounds_of(cond, self.given) or (cond.args if cond.kind == "and" else (cond,))

    def _follows(self, goal: Cond, cond: Cond) -> bool:
        self.held.discard(cond)
        found = self.held.follows(goal)
        self.held.add(cond)
        return found

    def _closest(self, cond: Cond) -> list[Cond]:
        """Return other conditions, closest to `cond`, that may be used to shorten it. A condition that divides by 0
        implies nothing there.
        """
        small = [c for c in self.conds if c is not cond and c.size <= budget.MAX_READ]
        return nearby(cond.free, by_symbol([*map(ground, small), *self.given]), budget.MAX_NEAR)


def bounds_of(cond: Cond, given: Iterable[Cond]) -> tuple[Cond, ...]:
    """Return bounds of single sizes that are equivalent to a condition: `a >= 1` and `b >= 1` for `a*b != 0`.

    The result is empty if there are none, or if the condition consists of bounds already.
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
    """Splits a condition into terms: ``n == 0 or (a and b)`` into ``n == 0 or a`` and ``n == 0 or b``."""
    if cond.kind == "or":
        inner = [c for c in cond.args if c.kind == "and" and text_of(c) == str(c)]
        if len(inner) == 1:
            rest = [c for c in cond.args if c is not inner[0]]
            return [any_of((*rest, c)) for c in _ranges(inner[0])]
    return [cond]


def _ranges(cond: Cond) -> list[Cond]:
    """Members of a conjunction, with two bounds of one expression merged into a range."""
    return list(joined(dict.fromkeys(cond.args, frozenset())))


def _is_simple(group: Sequence[Cond]) -> bool:
    """True if conditions on one symbol are short enough to keep. They are bounds and remainders already, or one of them
    alone that lists sizes.
    """
    if len(group) == 1 and group[0].kind == "or" and all(c.kind == "==" for c in group[0].args):
        return all(map(is_plain, group[0].args))
    ranges = all(is_plain(c) and c.kind not in ("or", "!=") for c in group)
    return ranges and (len(group) == 1 or all(kind_of(c) in ("range", "nonempty") for c in group))


def joined(conds: Sourced) -> dict[Cond, Numbers]:
    """Return the conditions with lower and upper bounds of one expression merged into ranges: `193 <= H <= 224`, or `H
    == 64` if they coincide.
    """
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
