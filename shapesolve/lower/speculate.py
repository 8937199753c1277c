"""Lowering a graph on trial, as loops do until they know what their carried values are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..expr import Cond

if TYPE_CHECKING:
    from .records import FactStore
    from .walk import Walk

_SAID = (
    "_memo", "_taken", "chosen", "clashes", "facts", "hints",
    "log", "named", "notes", "opens", "poisoned", "producers", "tensors",
)  # fmt: skip


class Settled:
    """Facts that only answer: nothing more is learned (see `rehearsal`)."""

    def __init__(self, facts: FactStore) -> None:
        self.version, self.changed = facts.version, facts.changed
        self.dim, self.cond, self.why = facts.dim, facts.cond, facts.why
        self.decide, self.introduce, self.contradiction = facts.decide, facts.introduce, facts.contradiction

    def assume(self, cond: Cond, cause: int) -> bool:
        """Not taken for granted."""
        return True


@contextmanager
def rehearsal(walk: Walk) -> Iterator[None]:
    """Lower without saying anything: what is logged, noted, named or learned inside is forgotten."""
    kept = {name: getattr(walk, name) for name in _SAID}
    walk.log, walk.clashes, walk.opens, walk.notes = [], [], [], []
    walk.tensors, walk.producers, walk._memo = {}, {}, {}
    walk.hints, walk.chosen, walk.named = dict(walk.hints), dict(walk.chosen), dict(walk.named)
    walk.poisoned, walk._taken = set(walk.poisoned), set(walk._taken)
    walk.facts = Settled(walk.facts)
    walk.rehearsing += 1
    try:
        yield
    finally:
        walk.rehearsing -= 1
        for name, value in kept.items():
            setattr(walk, name, value)
