"""Sizes that earlier questions met, tried against the next one before anything else is: what holds there is not excluded.

A model of one question often is one of the next, which differs in little. Each is evaluated before it is believed, so that
it does not matter where it came from; those that helped last are tried first, and only so many are kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..expr import Cond
from ..propagate import budget
from .search import Model, satisfies


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
        return None
