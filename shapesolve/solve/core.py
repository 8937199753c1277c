"""Minimal sets of constraints that contradict each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..expr import Cond
from ..propagate import budget
from ..propagate.log import Stated, need
from .engine import Engine


def minimal_cores(
    constraints: Sequence[Stated], candidates: Iterable[int], limit: int = 8, engine: Engine | None = None
) -> list[tuple[int, ...]]:
    """Minimal contradictory subsets of `candidates` (indices), at most `limit`. The one found first is at the front.

    Each is irreducible: without any one member the others can hold together (or Z3 does not know). All of
    them are found when there are few (Reiter's hitting-set tree, in order of the indices): every further core
    must lack a member of each core found before. An empty list means that no contradiction was proved.
    """
    engine = engine or Engine()
    numbers = _distinct(constraints, candidates)
    conds = {n: need(constraints[n]) for n in numbers}
    found: list[tuple[int, ...]] = []
    queue: list[frozenset[int]] = [frozenset()]
    seen = set(queue)
    for _ in range(budget.MAX_CORE_NODES):
        if not queue or len(found) >= limit:
            break
        removed = queue.pop(0)
        core = next((c for c in found if removed.isdisjoint(c)), None)
        if core is None:
            core = _core([n for n in numbers if n not in removed], conds, engine)
            if core is None:
                continue
            found.append(core)
        for member in core:
            more = removed | {member}
            if more not in seen:
                seen.add(more)
                queue.append(more)
    return found


def _distinct(constraints: Sequence[Stated], candidates: Iterable[int]) -> list[int]:
    """The first constraint of each distinct condition; repetitions add nothing to a contradiction."""
    first: dict[Cond, int] = {}
    for n in sorted(set(candidates)):
        first.setdefault(need(constraints[n]), n)
    return sorted(first.values())


def _core(numbers: Sequence[int], conds: dict[int, Cond], engine: Engine) -> tuple[int, ...] | None:
    found = engine.core([conds[n] for n in numbers])
    return None if found is None else tuple(numbers[i] for i in found)
