"""Implication between conditions at all sizes, also size 0 and illegal broadcasts."""

from __future__ import annotations

from collections.abc import Iterable

from ...expr import Cond
from ...expr.cond import has_value
from ...expr.plain import factors_paired, is_plain
from ...expr.traverse import atoms_of
from ..cone_of_influence import reached
from ..engine import Engine
from ..facts import budget
from ..facts.facts import Facts
from ..search import Contradiction, learned
from ..simplify.domain import Plainly, is_size


class Held:
    """An editable set of conditions assumed to hold, indexed by symbol, with the facts that follow from them.

    Broadcasts are expanded (see `Plainly`) before anything is proved from them.
    """

    def __init__(self, conds: Iterable[Cond] = ()) -> None:
        self._position: dict[Cond, int] = {}
        self._links: dict[str, dict[Cond, None]] = {}
        self._valued: dict[str, dict[Cond, None]] = {}  # the subset that has a value at all sizes
        self._added = 0
        self._plain: dict[Cond, Cond] = {}
        self._plainly = Plainly()
        self._facts: Facts | None = Facts()  # facts of all conditions with a value; None after a removal
        self.is_empty = False
        """True if they were seen to contradict each other."""
        for cond in conds:
            self.add(cond)

    def add(self, cond: Cond) -> None:
        """Adds a condition."""
        if cond not in self._position:
            self._added += 1
            self._position[cond] = self._added
            valued = has_value(cond)
            for links in (self._links, self._valued) if valued else (self._links,):
                for name in cond.free:
                    links.setdefault(name, {})[cond] = None
            if valued and self._facts is not None:
                self._assume(self._facts, cond)

    def discard(self, cond: Cond) -> None:
        """Removes a condition."""
        if self._position.pop(cond, None) is not None:
            for name in cond.free:
                del self._links[name][cond]
                self._valued.get(name, {}).pop(cond, None)
            self._facts = None

    def __contains__(self, cond: Cond) -> bool:
        return cond in self._position

    def plain(self, cond: Cond) -> Cond:
        """The condition with broadcasts replaced by if-then-else terms."""
        found = self._plain.get(cond)
        if found is None:
            found = self._plain[cond] = self._plainly.cond(cond)
        return found

    def about(self, names: Iterable[str]) -> list[Cond]:
        """The conditions that mention one of these symbols."""
        found = {c for name in names for c in self._links.get(name, ())}
        return sorted(found, key=self._position.__getitem__)

    def linked(self, names: Iterable[str]) -> list[Cond]:
        """The conditions connected to these symbols through conditions that have a value at all sizes."""
        return reached(names, self._valued)

    def was_last(self, cond: Cond) -> bool:
        """True if no later condition mentions its symbols."""
        return self.about(cond.free)[-1] is cond

    def decided(self, cond: Cond) -> bool | None:
        """True or False if the facts decide the condition, else None (also after a `discard`)."""
        if self._facts is None or not has_value(cond):
            return None
        plain = self.plain(cond)
        for name in sorted(plain.free):
            self._facts.introduce(name)
        return self._facts.decide(plain)

    def learn(self) -> None:
        """Adds the conditions to the facts."""
        if self._facts is None:
            self._facts = Facts()
            for cond in self._position:
                if has_value(cond):
                    self._assume(self._facts, cond)

    def _assume(self, facts: Facts, cond: Cond) -> None:
        plain = self.plain(cond)
        for name in sorted(plain.free):
            facts.introduce(name)
        if not facts.assume(plain, self._added):
            self.is_empty = True


class Implications:
    """Decides implications within one budget; unproved implications count as false."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._facts_left = budget.MAX_CHEAP_WORK

    def follows(self, cond: Cond, held: Held) -> bool:
        """True if `cond` is shown to hold wherever all that is `held` does."""
        if cond in held or held.decided(cond):
            return True
        if cond.kind == "or" and any(self.follows(c, held) for c in cond.args if factors_paired(c)):
            return True
        paired = factors_paired(cond)
        if paired is not None and all(self.follows(c, held) for c in paired[0]):
            return True
        if len(cond.free) == 1 and is_size(cond, next(iter(cond.free))):
            about = [c for c in held.about(cond.free) if c.free == cond.free]
            if len(about) == len(held.about(cond.free)) and all(map(_is_bound, (cond, *about))):
                return _settled(cond, about)
            if self.engine.equivalent([*about, cond], about, next(iter(cond.free)), 0):
                return True
        if not has_value(cond) or (self.engine.is_spent and self._facts_left <= 0):
            return False
        given = [held.plain(c) for c in held.linked(cond.free)]
        verdict = self.engine.entails(held.plain(cond), given, cheap=True)
        if verdict.proved or verdict.refuted or self._facts_left <= 0:
            return verdict.proved
        self._facts_left -= sum(c.size for c in given)
        return _settled(held.plain(cond), given)


def _is_bound(cond: Cond) -> bool:
    return cond.kind == ">=" and is_plain(cond) and not any(a.kind != "sym" for a in atoms_of(cond))


def _settled(cond: Cond, given: Iterable[Cond]) -> bool:
    """True if facts alone derive `cond`. Chains of equalities can be too long for the solver's cheap queries."""
    try:
        facts = learned(given)
    except Contradiction:
        return False
    return facts.cond(cond).is_true
