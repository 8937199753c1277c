"""Sizes of which it stays open whether they follow a symbol: what would break if they did decides."""

from __future__ import annotations

from collections.abc import Iterator

from ..expr import Cond, Dim, of_atom, symbol
from .free_state import Freeing

#: of padding, from nothing on, so many are tried at least
_AMOUNTS = 16


def stays(freeing: Freeing, size: Dim) -> bool:
    """Would every size that an open one may follow lose its freedom by that? Then it is the number that it was."""
    was = freeing.old(size)
    ways = {freeing.facts.dim(d) for d in freeing.seen.get(was or 0, ())}
    ways = {d for d in ways if d.terms and not (d.name in freeing.baked and d.name not in freeing.symbols)}
    return all(d.free <= {*freeing.symbols} and _breaks(freeing, size, d) for d in ways)


def is_needed(freeing: Freeing, name: str) -> bool:
    """Is an open amount the one that it was at all other sizes that are tried, as with any other a requirement is false?"""
    now = freeing.facts.dim(symbol(name))
    was = freeing.baked[name]
    if now.name != name:
        return now.value == was
    tries = _tries(freeing, frozenset(freeing.symbols))
    conds = list(_requirements(freeing, name))
    others = [n for n in range(max((_AMOUNTS, *tries[-1].values()))) if n != was]
    return bool(conds) and all(
        any(cond.subs({**sizes, name: n}).is_false for cond in conds) for sizes in tries for n in others
    )


def fills_up(freeing: Freeing, name: str) -> bool:
    """Does padding make up for one place that a join lacks at some sizes, behind the others, as an amount of 1 shows?"""
    missing = {n: freeing.facts.dim(symbol(n)) for n, (_, _, before) in freeing.staying.items() if not before}
    joined = {
        n for n, d in missing.items() if d.terms and d.free <= {*freeing.symbols} and _most(freeing, d) == 1
    }
    return name in joined and any(freeing.baked[n] == 1 for n in joined)


def _most(freeing: Freeing, size: Dim) -> int | None:
    """An upper bound: of ``max(n, 0)``, n is taken away at least, and either of both is added."""
    for monomial, factor in size.terms:
        if len(monomial) == 1 and monomial[0].kind == "pos":
            rest, inner = size - of_atom(monomial[0]) * factor, monomial[0].args[0]
            ways = [rest + inner * factor, *([rest] if factor > 0 else [])]
            found = [_most(freeing, way) for way in ways]
            return None if None in found else max(n or 0 for n in found)
    return freeing.facts.bounds(size)[1]


def _breaks(freeing: Freeing, size: Dim, way: Dim) -> bool:
    """Is a requirement false at all other sizes that are tried, if the open size is `way`?"""
    assert size.name is not None
    tries = _tries(freeing, way.free)
    worth = [way.evaluate(sizes) for sizes in tries]
    if not all(worth):  # unknown, or nothing: that says nothing of the size
        return False
    for cond in _requirements(freeing, size.name):
        given = zip(tries, worth, strict=True)
        if all(cond.subs({**sizes, size.name: n or 0}).is_false for sizes, n in given):
            return True
    return False


def _tries(freeing: Freeing, names: frozenset[str]) -> list[dict[str, int]]:
    """Other sizes of these symbols, the largest last."""
    return [
        {n: scale * was + more if n in names else was for n, was in freeing.baked.items()}
        for scale, more in ((1, 1), (2, 0), (2, 1), (3, 0))
    ]


def _requirements(freeing: Freeing, name: str) -> Iterator[Cond]:
    """What nodes ask of an open size, beside symbols alone."""
    known = {*freeing.symbols, name}
    for entry in freeing.walk.log:
        if entry.role != "requirement" or not entry.guard.is_true:
            continue
        cond = entry.cond.subs({n: freeing.facts.dim(symbol(n)) for n in entry.cond.free})
        if name in cond.free and cond.free <= known:
            yield cond
