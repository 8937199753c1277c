"""Accepted sizes near rejected ones, and which of them to propose."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import log
from typing import TYPE_CHECKING

from ..expr import Cond
from ..expr.sizes import sizes_text
from ..solve.cone_of_influence import cone

if TYPE_CHECKING:
    from ..solve.search import Model
    from ..solve.sizes import SizeFinder


def nearest(finder: SizeFinder, given: Mapping[str, int]) -> dict[str, Model | None]:
    """Return the accepted sizes nearest to the given ones, below and above them; both are the same if sizes must move
    in different directions.
    """
    found: dict[str, Model | None] = {
        "below": finder.nearest(given, "below"),
        "above": finder.nearest(given, "above"),
    }
    if not any(found.values()):
        both = finder.nearest(given)
        found = {"below": both, "above": both}
    return found


def sizes_help(near: Sequence[Model], given: Mapping[str, int], conds: Sequence[Cond]) -> str:
    """Return the help line with the nearest sizes that run: "use height = 96 or height = 112"; empty if there are none.

    Names without a given size are listed if `conds` tie them to a size that changes.
    """
    texts: dict[str, None] = {}
    for sizes in near:
        changed = _changed(sizes, given)
        tied = frozenset[str]().union(*(c.free for c in cone(changed, conds)))
        texts[sizes_text(sizes, [*changed, *(n for n in sizes if n in tied and n not in given)])] = None
    return f"use {' or '.join(texts)}" if any(texts) else ""


def closest(near: Mapping[str, Model | None], given: Mapping[str, int]) -> list[Model]:
    """Return the sizes worth proposing, the best first: few changes, and none that is far larger than another."""
    found = [sizes for sizes in near.values() if sizes is not None]
    ranked = sorted(found, key=lambda sizes: (len(_changed(sizes, given)), _far(sizes, given)))
    best = ranked[:1]
    return best + [
        sizes
        for sizes in ranked[1:]
        if _changed(sizes, given) == _changed(best[0], given)
        and _far(sizes, given) <= _far(best[0], given) + log(2)
    ]


def _changed(sizes: Mapping[str, int], given: Mapping[str, int]) -> Collection[str]:
    return [n for n, size in given.items() if sizes[n] != size]


def _far(sizes: Mapping[str, int], given: Mapping[str, int]) -> float:
    """Return the largest change of a size, relative to it."""
    return max((abs(log((sizes[n] + 0.5) / (size + 0.5))) for n, size in given.items()), default=0.0)
