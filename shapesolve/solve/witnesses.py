"""Sizes that earlier questions met, tried against the next one before anything else is: what holds there is not excluded.

A model of one question often is one of the next, which differs in little, or becomes one where a size changes. Each is
evaluated before it is believed, so that it does not matter where it came from; those that helped last are tried first, and
only so many are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from ..expr import Cond
from ..propagate import budget
from .search import Model, satisfies

#: models near to which others are looked for, and sizes that are tried there
_MOVED, _USUAL = 2, (0, 1, 2, 3, 5, 8)


class Witnesses:
    """Models of the questions of one engine."""

    def __init__(self) -> None:
        self._models: list[Model] = []
        self._last: Model = {}  # for symbols that a model says nothing of

    def add(self, model: Model) -> None:
        """Remember sizes at which some conditions hold."""
        if model not in self._models:
            self._models.insert(0, dict(model))
            del self._models[budget.MAX_WITNESSES :]
        for name, size in model.items():
            self._last.setdefault(name, size)

    def of(self, conds: Sequence[Cond]) -> Model | None:
        """Known sizes at which all of these hold. What mostly fails should come first: the rest is not evaluated then."""
        names = frozenset[str]().union(*(c.free for c in conds))
        if not names <= self._last.keys():
            return None
        usual = {name: self._last[name] for name in names}
        for i, model in enumerate(self._models):
            at = {**usual, **{name: model[name] for name in names if name in model}}
            if satisfies(at, conds):
                self._models.insert(0, self._models.pop(i))
                return at
        for model in self._models[:_MOVED]:
            moved = _moved({**usual, **{name: model[name] for name in names if name in model}}, conds)
            if moved is not None:
                self.add(moved)
                return moved
        return None


def _moved(at: Model, conds: Sequence[Cond]) -> Model | None:
    """`at` with one size of the first condition changed, so that all of them hold."""
    names = set(conds[0].free)
    for c in conds[1:]:
        if c.evaluate(at) is not True:
            names &= c.free
        if not names:
            return None
    others = (
        (name, size) for name in sorted(names) for size in (at[name] + 1, at[name] - 1, *_USUAL, 2 * at[name])
    )
    about = {name: [c for c in conds if name in c.free] for name in names}
    for name, other in islice(others, budget.MAX_NEAR_WORK // sum(c.size for c in conds)):
        trial = {**at, name: other}
        if satisfies(trial, about[name]) and satisfies(trial, conds):
            return trial
    return None
