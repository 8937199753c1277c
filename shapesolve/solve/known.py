"""`Known`: the one way to ask whether a condition follows from others, at all sizes, also size 0 and illegal broadcasts."""

from __future__ import annotations

from collections.abc import Iterable

from ..expr import Cond, Dim, any_of, ge, ite, ne, symbol
from ..expr.atom import Atom
from ..expr.cond import has_value
from ..expr.plain import factors_paired
from ..expr.rewrite import Rewriter
from ..expr.traverse import atoms_of
from .cone_of_influence import reached
from .engine import Engine
from .facts import budget
from .facts.facts import Facts


class Known:
    """An editable set of conditions that hold, indexed by symbol. Answers are proofs; unproved means False.

    Broadcasts are expanded (see `Plainly`) before anything is proved, and a condition that may divide by 0 says nothing
    where it does.
    """

    def __init__(
        self, conds: Iterable[Cond] = (), engine: Engine | None = None, plainly: Plainly | None = None
    ) -> None:
        self.engine = engine or Engine()
        self._position: dict[Cond, int] = {}
        self._links: dict[str, dict[Cond, None]] = {}
        self._added = 0
        self._plain: dict[Cond, Cond] = {}
        self._plainly = plainly or Plainly()
        self._facts: Facts | None = Facts()  # facts of all conditions; None after a removal
        self.is_empty = False
        """True if they were seen to contradict each other."""
        for cond in conds:
            self.add(cond)

    def with_(self, more: Iterable[Cond]) -> Known:
        """These conditions and some more."""
        return Known((*self._position, *more), self.engine, self._plainly)

    # ------------------------------------------------------------------ questions

    def follows(self, goal: Cond) -> bool:
        """True if it is proved that `goal` has a value and holds wherever the conditions do."""
        if goal in self._position:
            return True
        known = self.decided(goal)
        if known is not None:
            return known
        if goal.kind == "or" and any(self.follows(c) for c in goal.args if factors_paired(c)):
            return True
        paired = factors_paired(goal)
        if paired is not None and all(map(self.follows, paired[0])):
            return True
        if len(goal.free) == 1 and is_size(goal, min(goal.free)):
            about = [c for c in self.about(goal.free) if c.free == goal.free]
            if self.engine.regular.same([*about, goal], about, min(goal.free), 0):
                return True
        if self.engine.is_spent:
            return False
        return all(map(self._proved, (goal, *(c for c in defined_where(goal) if c is not goal))))

    def refuted(self, *goals: Cond, cheap: bool = False) -> bool:
        """True if it is proved that the conditions contradict the goals, or each other, wherever broadcasts are legal."""
        if self.is_empty or any(self.decided(goal) is False for goal in goals):
            return True
        return self.engine.satisfiable([*self._position, *goals], cheap=cheap).unsat

    def _proved(self, cond: Cond) -> bool:
        plain = self.plain(cond)
        given = [self.plain(ground(c)) for c in reached(cond.free, self._links)]
        return self.engine.entails(plain, given, cheap=True).proved

    # ------------------------------------------------------------------ conditions

    def add(self, cond: Cond) -> None:
        """Adds a condition."""
        if cond not in self._position:
            self._added += 1
            self._position[cond] = self._added
            for name in cond.free:
                self._links.setdefault(name, {})[cond] = None
            if self._facts is not None:
                self._assume(self._facts, cond)

    def discard(self, cond: Cond) -> None:
        """Removes a condition."""
        if self._position.pop(cond, None) is not None:
            for name in cond.free:
                del self._links[name][cond]
            self._facts = None

    def __contains__(self, cond: Cond) -> bool:
        return cond in self._position

    def about(self, names: Iterable[str]) -> list[Cond]:
        """The conditions that mention one of these symbols."""
        found = {c for name in names for c in self._links.get(name, ())}
        return sorted(found, key=self._position.__getitem__)

    def was_last(self, cond: Cond) -> bool:
        """True if no later condition mentions its symbols."""
        return self.about(cond.free)[-1] is cond

    def learn(self) -> Facts:
        """The facts of all conditions."""
        if self._facts is None:
            self._facts = Facts()
            for cond in self._position:
                self._assume(self._facts, cond)
        return self._facts

    def decided(self, cond: Cond) -> bool | None:
        """True or False if the facts decide the condition, else None (also after a `discard`)."""
        if self._facts is None or not has_value(cond):
            return None
        return self._facts.decide(self._introduced(self._facts, cond))

    def _assume(self, facts: Facts, cond: Cond) -> None:
        if has_value(cond) and not facts.assume(self._introduced(facts, cond), self._added):
            self.is_empty = True

    def _introduced(self, facts: Facts, cond: Cond) -> Cond:
        plain = self.plain(cond)
        for name in sorted(plain.free):
            facts.introduce(name)
        return plain

    def plain(self, cond: Cond) -> Cond:
        """The condition with broadcasts replaced by choices."""
        found = self._plain.get(cond)
        if found is None:
            found = self._plain[cond] = self._plainly.cond(cond)
        return found


def ground(cond: Cond) -> Cond:
    """What a condition says at all sizes: itself, or that it has no value."""
    return cond if has_value(cond) else any_of((cond, *(~d for d in defined_where(cond))))


def defined_where(node: Dim | Cond) -> list[Cond]:
    """Conditions that exclude a division by 0 in `node`."""
    divisors = dict.fromkeys(a.args[1] for a in atoms_of(node) if a.kind == "//" and a.args[1].terms)
    return [ge(d, 1) if d.lo is not None and d.lo >= 0 else ne(d, 0) for d in divisors]


class Plainly(Rewriter):
    """Replaces `broadcast(a, b)` by the choice `b if a == 1 else a`, since a proof must not assume that sizes broadcast.

    Shared subexpressions are rewritten once. A broadcast of very many sizes becomes an unconstrained symbol, which is
    sound: a proof then
    holds for every integer.
    """

    def __init__(self) -> None:
        self._made: dict[Atom, Dim] = {}

    def cond(self, cond: Cond) -> Cond:
        """Return the condition without broadcasts, or unchanged if it has none."""
        return super().cond(cond) if any(a.kind == "broadcast" for a in atoms_of(cond)) else cond

    def _atom(self, atom: Atom) -> Dim:
        found = self._made.get(atom)
        if found is None:
            found = self._made[atom] = super()._atom(atom)
        return found

    def _broadcast(self, sizes: tuple[Dim, ...]) -> Dim:
        if len(sizes) > budget.MAX_CASES:
            return symbol(f"_broadcast{len(self._made)}", None, made=True)
        found = self.dim(sizes[-1])
        for size in map(self.dim, sizes[-2::-1]):
            found = ite(ne(size, 1), size, found)
        return found


def is_size(node: Dim | Cond, name: str) -> bool:
    """True if the symbol is a size (>= 0), False if it may be any integer."""
    return all(
        a.args[1] is not None and a.args[1] >= 0
        for a in atoms_of(node)
        if a.kind == "sym" and a.args[0] == name
    )
