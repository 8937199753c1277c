"""Cone of influence, connected components, and legality of the broadcasts of conditions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any

from ..expr import Cond
from ..expr.atom import Atom
from ..expr.shape import compatible
from ..expr.traverse import atoms_of
from .facts import budget


def by_symbol(conds: Iterable[Cond]) -> dict[str, list[Cond]]:
    """The conditions on each symbol."""
    found: dict[str, list[Cond]] = {}
    for c in dict.fromkeys(conds):
        for name in sorted(c.free):
            found.setdefault(name, []).append(c)
    return found


def cone(names: Iterable[str], conds: Iterable[Cond]) -> list[Cond]:
    """Return the cone of influence: the `conds` connected to the symbols `names`, directly or through others."""
    return reached(names, by_symbol(conds))


def reached(names: Iterable[str], links: Mapping[str, Iterable[Cond]]) -> list[Cond]:
    """`cone`, with the conditions given by symbol (see `by_symbol`)."""
    found: dict[Cond, None] = {}
    seen = set(names)
    stack = list(seen)
    while stack:
        for c in links.get(stack.pop(), ()):
            if c not in found:
                found[c] = None
                stack += c.free - seen
                seen |= c.free
    return sorted(found, key=order_of)


def nearby(
    names: Iterable[str], links: Mapping[str, Sequence[Cond]], most: int = budget.MAX_NEAR
) -> list[Cond]:
    """The part of the `cone` that is fewest steps away, up to about `most` conditions. `links`: see `by_symbol`.

    All that the first step meets count as near; of very many, those that say the most about `names`.
    """
    first = edge = set(names)
    met = set(edge)
    found: dict[Cond, None] = {}
    while edge and len(found) < most:
        close = (c for name in sorted(edge) for c in links.get(name, ())[: 4 * budget.MAX_LINKED])
        step = {c: None for c in close if c not in found}
        if found and len(found) + len(step) > most:
            break
        if len(step) > budget.MAX_LINKED:
            ranked = sorted(step, key=lambda c: (len(c.free - first), c.order))
            step = dict.fromkeys(ranked[: budget.MAX_LINKED])
        found.update(step)
        edge = set().union(*(c.free for c in step)) - met
        met |= edge
    return sorted(found, key=order_of)


def components(conds: Iterable[Cond]) -> list[list[Cond]]:
    """Connected components of `conds`: groups that share no symbols, each in canonical order."""
    left = dict.fromkeys(sorted((c for c in conds if not c.is_true), key=order_of))
    groups, links = [], by_symbol(left)
    while left:
        first = next(iter(left))
        group = reached(first.free, links) or [first]
        for c in group:
            del left[c]
        groups.append(group)
    return groups


def broadcast_pairs(conds: Iterable[Cond]) -> int:
    """Number of pairs of sizes that the broadcasts in `conds` compare."""
    return sum(len(a.args) * (len(a.args) - 1) // 2 for a in _broadcasts(conds))


def legal_broadcasts(conds: Iterable[Cond]) -> list[Cond]:
    """Conditions that make the broadcasts in `conds` legal. A size `broadcast(a, b)` means nothing elsewhere."""
    pairs = [p for a in _broadcasts(conds) for p in combinations(a.args, 2)]
    return [_legal(a, b) for a, b in dict.fromkeys(pairs)]


#: cached: every query about the same sizes needs it
_legal = lru_cache(maxsize=1024)(compatible)


def _broadcasts(conds: Iterable[Cond]) -> dict[Atom, None]:
    return dict.fromkeys(a for c in conds for a in _broadcasts_in(c))


@lru_cache(maxsize=4096)  # cached: every query about a large condition would walk it again
def _broadcasts_in(cond: Cond) -> tuple[Atom, ...]:
    return tuple([a for a in atoms_of(cond) if a.kind == "broadcast"])


def order_of(c: Cond) -> Any:
    """Sort key of a condition, the same in every process."""
    return c.order
