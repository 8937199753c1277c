"""Sizes of which it stays open whether they follow a symbol: what would break if they did decides."""

from __future__ import annotations

from ..expr import Dim, symbol
from .free_state import Freeing


def stays(freeing: Freeing, size: Dim) -> bool:
    """Would every size that an open one may follow lose its freedom by that? Then it is the number that it was."""
    was = freeing.old(size)
    ways = {freeing.facts.dim(d) for d in freeing.seen.get(was or 0, ())}
    ways = {d for d in ways if d.terms and not (d.name in freeing.baked and d.name not in freeing.symbols)}
    return all(d.free <= {*freeing.symbols} and _breaks(freeing, size, d) for d in ways)


def _breaks(freeing: Freeing, size: Dim, way: Dim) -> bool:
    """Is a requirement false at all other sizes that are tried, if the open size is `way`?"""
    assert size.name is not None
    tries = [
        {n: scale * was + more if n in way.free else was for n, was in freeing.baked.items()}
        for scale, more in ((1, 1), (2, 0), (2, 1), (3, 0))
    ]
    worth = [way.evaluate(sizes) for sizes in tries]
    if not all(worth):  # unknown, or nothing: that says nothing of the size
        return False
    known = {*freeing.symbols, size.name}
    for entry in freeing.walk.log:
        if entry.role != "requirement" or not entry.guard.is_true:
            continue
        cond = entry.cond.subs({n: freeing.facts.dim(symbol(n)) for n in entry.cond.free})
        if size.name not in cond.free or not cond.free <= known:
            continue
        given = zip(tries, worth, strict=True)
        if all(cond.subs({**sizes, size.name: n or 0}).is_false for sizes, n in given):
            return True
    return False
