"""Speculative lowering: results are rolled back afterwards. Loops use it until the abstract values of their carried
tensors are known.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..expr import Cond
    from .records import FactStore
    from .scopes import Scopes


class Settled:
    """Read-only facts for a speculative run: nothing is learned."""

    def __init__(self, facts: FactStore) -> None:
        self.version, self.changed = facts.version, facts.changed
        self.dim, self.cond, self.why = facts.dim, facts.cond, facts.why
        self.decide, self.contradiction = facts.decide, facts.contradiction

    def introduce(self, name: str) -> None:
        """Ignored: the symbol exists in the trial only."""

    def assume(self, cond: Cond, cause: int) -> bool:
        """Ignored: the condition is not learned."""
        return True


@contextmanager
def rehearsal(walk: Scopes) -> Iterator[None]:
    """Context in which lowering is speculative: log, notes, names and facts are rolled back."""
    state, facts = walk.state, walk.facts
    walk.state, walk.facts = state.fork(), Settled(facts)
    try:
        yield
    finally:
        for env, tensor, known in reversed(walk.state.overwritten):
            env[tensor] = known
        walk.state, walk.facts = state, facts
