"""Small unsat cores: constraints of the system that cause a contradiction or imply a condition.

The search reads definitions over the model's inputs (``x[2] == 64``) and requirements over dims of tensors (``w[0] == x[2]``),
as `Constraint.reading` has them: so a core says which requirement it is that fails, and for which sizes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ..expr import Cond
from ..lazy import cached_property
from ..solve.contract.contract import Term
from ..solve.engine import Engine
from .constraints import ConstraintSystem
from .content import Row
from .limits import MAX_TOGETHER
from .local import Definition

#: location of a requirement: a node by identity, its scope, and the rule as a sentence
Place = tuple[int, str, str]


class Cores:
    """Finds unsat cores in one system."""

    def __init__(self, system: ConstraintSystem, rlimit: int) -> None:
        self.system, self.content = system, system.content
        self.engine = Engine(rlimit)

    def of_contradiction(self, places: Collection[Place], *, alone: bool = False) -> ConstraintSystem:
        """Return a minimal set of constraints that contradict each other; empty if none was found.

        The search starts with the requirements at `places` and the definitions of the sizes in them. Unless `alone`
        is set, it then adds more
        and more of the others.
        """
        return self._first(None, (), places, alone)

    def of_term(self, term: Term) -> ConstraintSystem:
        """A minimal set of constraints from which a term of the contract follows.

        If the proof exceeds the budget, all requirements of its nodes are returned.
        """
        analysed = self.content.walk.analysed
        rows = [analysed.walk.state.log[n] for n in term.numbers]
        places = frozenset((id(row.node), row.prefix, row.why) for row in rows)
        return self._first(term.cond, term.given, places, False)

    def _first(
        self, goal: Cond | None, assumed: tuple[Cond, ...], places: Collection[Place], alone: bool
    ) -> ConstraintSystem:
        against = () if goal is None else (~goal,)
        tiers = list(self._widening(goal, places, alone))
        for needs in tiers:
            distinct: dict[Cond, int] = {}
            for n in needs:
                distinct.setdefault(self.content.over_inputs(n), n)
            kept = self._core([*against, *assumed], {n: cond for cond, n in distinct.items()})
            if kept is not None:
                rows = self._with_definitions(kept)
                exact = self._core([*against, *assumed], {n: self.reading(n) for n in rows})
                return self.system.numbered(rows if exact is None else exact)
        return self.system.numbered(() if goal is None else tiers[0])

    def _core(self, fixed: list[Cond], rows: dict[int, Cond]) -> list[int] | None:
        found = self.engine.core([*fixed, *rows.values()])
        if found is None:
            return None
        numbers = list(rows)
        return [numbers[i - len(fixed)] for i in found if i >= len(fixed)]

    def _widening(self, goal: Cond | None, places: Collection[Place], alone: bool) -> Iterator[list[int]]:
        """Candidate requirements to search for a core, in growing sets. They are those at `places`, then all of their
        nodes, then of what shares symbols, then all.
        """
        rows = self.content.rows
        here = [n for n in self._needs if rows[n].node is None or _place(rows[n]) in places]
        yield here
        if alone:
            return
        nodes = {place[:2] for place in places}
        near = [n for n in self._needs if rows[n].node is None or _place(rows[n])[:2] in nodes]
        if near != here:
            yield near
        names = set() if goal is None else set(goal.free)
        for n in near:
            names |= self.content.over_inputs(n).free
        known = set(near)
        close = [
            n for n in self._needs if n in known or not names.isdisjoint(self.content.over_inputs(n).free)
        ]
        if near != close and len(close) <= MAX_TOGETHER:
            yield close
        if len(close) != len(self._needs) <= MAX_TOGETHER:
            yield self._needs

    @cached_property
    def _needs(self) -> list[int]:
        """Numbers of all rows except definitions that can be substituted. Declarations of computed tensors are left out too."""
        content, found = self.content, []
        for n in self.system.numbers:
            row = content.rows[n]
            if isinstance(row, Definition) and row.variable.name in content.composition.sizes:
                continue
            if (
                row.cond.is_false or row.role == "declared"
            ):  # a node that is wrong by itself, and what may be wrong
                continue
            if not content.over_inputs(n).is_true:
                found.append(n)
        return found

    def _with_definitions(self, numbers: Iterable[int]) -> list[int]:
        found = dict.fromkeys(numbers)
        todo = [name for n in found for name in sorted(self.reading(n).free)]
        while todo:
            number = self.content.definitions.get(todo.pop())
            if number is not None and number not in found:
                found[number] = None
                todo += sorted(self.reading(number).free)
        return sorted(found)

    def reading(self, number: int) -> Cond:
        """See `Constraint.reading`."""
        return self.content.constraint(number).reading


def _place(row: Row) -> Place:
    return id(row.node), row.prefix, row.why
