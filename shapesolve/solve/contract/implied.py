"""What follows from conditions at all sizes, however small these are and illegal the broadcasts in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...expr import Cond
from ...expr.cond import has_value
from ...expr.plain import factors_paired
from ...propagate import budget
from ...propagate.facts import Facts
from ..cones import reached
from ..engine import Engine
from ..simplify.domain import Plainly


class Held:
    """Conditions that hold, in the order in which they were added, found by the symbols that they speak of."""

    def __init__(self, conds: Iterable[Cond] = ()) -> None:
        self._position: dict[Cond, int] = {}
        self._links: dict[str, dict[Cond, None]] = {}
        self._valued: dict[str, dict[Cond, None]] = {}  # of these, those with a value at all sizes
        self._added = 0
        for cond in conds:
            self.add(cond)

    def add(self, cond: Cond) -> None:
        """Take a condition in."""
        if cond not in self._position:
            self._added += 1
            self._position[cond] = self._added
            for links in (self._links, self._valued) if has_value(cond) else (self._links,):
                for name in cond.free:
                    links.setdefault(name, {})[cond] = None

    def discard(self, cond: Cond) -> None:
        """Leave a condition out."""
        if self._position.pop(cond, None) is not None:
            for name in cond.free:
                del self._links[name][cond]
                self._valued.get(name, {}).pop(cond, None)

    def __contains__(self, cond: Cond) -> bool:
        return cond in self._position

    def about(self, names: Iterable[str]) -> list[Cond]:
        """Those that speak of one of these symbols."""
        found = {c for name in names for c in self._links.get(name, ())}
        return sorted(found, key=self._position.__getitem__)

    def linked(self, names: Iterable[str]) -> list[Cond]:
        """Those that are connected to these symbols through conditions that have a value at all sizes."""
        return reached(names, self._valued)


class Implications:
    """Shows what follows, within a budget for all questions together. What is not shown is taken not to follow."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._facts_left = budget.MAX_TOLD
        self._plain: dict[Cond, Cond] = {}
        self._plainly = Plainly()

    def plain(self, cond: Cond) -> Cond:
        """The condition with broadcasts written out (see `Plainly`)."""
        found = self._plain.get(cond)
        if found is None:
            found = self._plain[cond] = self._plainly.cond(cond)
        return found

    def follows(self, cond: Cond, held: Held, *, proved: bool = False) -> bool:
        """Does `cond` hold wherever all that is `held` does?

        With `proved` it was shown before, and what the solver cannot tell is believed.
        """
        if cond in held:
            return True
        if cond.kind == "or" and any(self.follows(c, held) for c in cond.args if factors_paired(c)):
            return True
        paired = factors_paired(cond)
        if paired is not None and all(self.follows(c, held) for c in paired[0]):
            return True
        if len(cond.free) == 1:
            about = [c for c in held.about(cond.free) if c.free == cond.free]
            if self.engine.equivalent([*about, cond], about, next(iter(cond.free)), 0):
                return True
        if not has_value(cond) or (self.engine.is_spent and self._facts_left <= 0):
            return proved
        given = held.linked(cond.free)
        verdict = self.engine.entails(self.plain(cond), map(self.plain, given), cheap=True)
        if verdict.proved or verdict.refuted:
            return verdict.proved
        if proved or self._facts_left <= 0:
            return proved
        self._facts_left -= len(given)
        return _told_by_facts(cond, given)

    def points(self, conds: Iterable[Cond], sizes: Iterable[Mapping[str, int]]) -> list[Mapping[str, int]]:
        """Those of the sizes at which all of the conditions hold."""
        plain = [self.plain(c) for c in conds]
        return [at for at in sizes if all(c.evaluate(at) is True for c in plain)]


def _told_by_facts(cond: Cond, given: Iterable[Cond]) -> bool:
    """Do facts alone see that `cond` follows? They do so for chains of equalities too long for the solver's cheap questions."""
    facts = Facts()
    for number, known in enumerate(given):
        for name in sorted(known.free):
            facts.introduce(name)
        if not facts.assume(known, number):
            return False
    return cond.free <= facts.rank.keys() and facts.cond(cond).is_true
