"""Speculative lowering: a graph is lowered on trial, as loops do until they know what their carried values are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .records import Scope

if TYPE_CHECKING:
    from ..expr import Cond
    from ..model import Node
    from .records import FactStore
    from .state import State
    from .types import Known
    from .walk import Walk

#: what a trial starts without, and what it starts with and changes in a copy
_EMPTY = ("_memo", "clashes", "log", "notes", "opens", "overwritten", "producers", "tensors")
_COPIED = (
    "_others", "_taken", "aliases", "author", "chosen", "hints", "made", "named", "opsets",
    "possible_ranks",
    "believed", "failed", "poisoned", "reasons", "trips", "undeclared", "unnamed", "usual", "varying",
)  # fmt: skip
#: the work done and the numbers given to names count on, and what an operator is does not depend on a trial
KEPT = (
    "_names", "_reserved", "equal", "expanded", "granted", "instead", "interner", "model", "named_inputs",
    "of_inputs", "operators", "progress", "registry", "scope", "semantics", "standard", "words",
)  # fmt: skip
#: all that a walk has
STATE = (*_EMPTY, *_COPIED, *KEPT, "facts", "rehearsing")


class Settled:
    """Facts that only answer: nothing more is learned (see `rehearsal`)."""

    def __init__(self, facts: FactStore) -> None:
        self.version, self.changed = facts.version, facts.changed
        self.dim, self.cond, self.why = facts.dim, facts.cond, facts.why
        self.decide, self.contradiction = facts.decide, facts.contradiction

    def introduce(self, name: str) -> None:
        """A symbol of the trial alone."""

    def assume(self, cond: Cond, cause: int) -> bool:
        """Not taken for granted."""
        return True


@contextmanager
def rehearsal(walk: State) -> Iterator[None]:
    """Lower speculatively: what is logged, noted, named or learned inside is rolled back."""
    kept = {name: getattr(walk, name) for name in (*_EMPTY, *_COPIED, "facts")}
    for name in _EMPTY:
        setattr(walk, name, type(kept[name])())
    for name in _COPIED:
        setattr(walk, name, kept[name].copy())
    walk.facts = Settled(walk.facts)
    walk.rehearsing += 1
    try:
        yield
    finally:
        walk.rehearsing -= 1
        for env, tensor, known in reversed(walk.overwritten):
            env[tensor] = known
        for name, value in kept.items():
            setattr(walk, name, value)


def probed(walk: Walk, node: Node, inputs: Mapping[str, Known], prefix: str) -> dict[str, Known]:
    """What a node makes of other inputs than it has, by the names of its outputs; nothing where it cannot run on them."""
    around = walk.scope
    with rehearsal(walk):
        walk.scope = scope = Scope(prefix, walk.opsets[prefix], dict(inputs))
        try:
            walk.lower(node)
            return {} if walk.clashes else {n: scope.env[n] for n in node.outputs if n in scope.env}
        finally:
            walk.scope = around
