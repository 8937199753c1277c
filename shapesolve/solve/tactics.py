"""What is tried before Z3 is asked whether some conditions can hold together: an ordered list, a function each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..expr import Cond
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


#: in the order in which they are tried: the cheap ones first
TACTICS: tuple[Tactic, ...] = (first_sizes, cases)


def attempt(question: Question) -> Model | None:
    """The model of the first tactic that finds one. Raises `Contradiction` when a tactic shows that there is none."""
    for tactic in TACTICS:
        model = tactic(question)
        if model is not None:
            return model
    return None
