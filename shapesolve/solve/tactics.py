"""What is tried before Z3 is asked whether some conditions can hold together: an ordered list, a function each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd

from ..expr import Atom, Cond
from ..lazy import cached_property
from ..propagate import budget
from ..propagate.residual import Residue
from .cases import decide
from .periods import Regular
from .search import Contradiction, Model, Search


@dataclass
class Question:
    """Conditions of which a model is looked for.

    Attributes:
        search: evaluates them at likely sizes, and goes on where it stopped.
        regular: what is known of conditions on one symbol.
        refuted: what the facts left of questions that had no model.
    """

    conds: Sequence[Cond]
    search: Search
    regular: Regular
    refuted: set[frozenset[Cond]]

    @cached_property
    def residue(self) -> Residue:
        """The conditions that are still undecided after propagation."""
        return Residue(self.search.facts)


#: a model of the conditions, checked by evaluation; None where the tactic finds none. Raises `Contradiction` when there is none
Tactic = Callable[[Question], Model | None]


def first_sizes(question: Question) -> Model | None:
    """A few likely sizes."""
    return question.search.model(budget.FIRST_TRIES)


def cases(question: Question) -> Model | None:
    """A division into cases, each of which is decided symbol by symbol; then more sizes, since these are smaller."""
    left = frozenset(question.residue.conds)
    if left in question.refuted:
        raise Contradiction
    try:
        found = decide(question.conds, question.residue, question.regular)
    except Contradiction:
        question.refuted.add(left)
        raise
    return question.search.model(budget.SEARCH_TRIES) or found


#: a sum that is 0: the factors of its unknowns, which are products of atoms or numbered, and under () the constant
_Row = dict[tuple[Atom, ...] | int, int]


def whole_numbers(question: Question) -> Model | None:
    """Equations that no integers solve, whatever the products and quotients in them are: remainders that do not fit."""
    sums = [c.args[0] for c in question.residue.conds if c.kind == "=="]
    rows: list[_Row] = [{**dict(total.terms), (): total.const} for total in sums]
    for new in range(budget.MAX_REPLACED):
        if not rows:
            break
        row = _lowest(rows.pop())
        unknown = min((u for u in row if u != ()), key=lambda u: abs(row[u]), default=())
        if unknown == ():
            continue
        factor = row[unknown]
        others = {u: c // factor for u, c in row.items() if u != unknown}
        if abs(factor) > 1:  # it makes a new one with the others, of which factors less than this are left
            others[new] = -1
            rows.append(row)
        rows = [_replaced(r, unknown, others) for r in rows]
    return None


def _lowest(row: _Row) -> _Row:
    """Without a common divisor. Raises `Contradiction` where the constant does not have that of the factors."""
    common = gcd(*(c for u, c in row.items() if u != ()))
    if row.get((), 0) % common if common else row.get((), 0):
        raise Contradiction
    return {u: c // common for u, c in row.items()} if common else {}


def _replaced(row: _Row, unknown: tuple[Atom, ...] | int, others: _Row) -> _Row:
    """With minus the sum of the others in place of an unknown."""
    factor = row.get(unknown, 0)
    if not factor:
        return row
    found = {u: row.get(u, 0) - factor * others.get(u, 0) for u in {**row, **others} if u != unknown}
    return {u: c for u, c in found.items() if c}


#: in the order in which they are tried: the cheap ones first
TACTICS: tuple[Tactic, ...] = (first_sizes, whole_numbers, cases)


def attempt(question: Question) -> Model | None:
    """The model of the first tactic that finds one. Raises `Contradiction` when a tactic shows that there is none."""
    for tactic in TACTICS:
        model = tactic(question)
        if model is not None:
            return model
    return None
