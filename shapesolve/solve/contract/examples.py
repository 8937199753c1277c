"""Sizes that show what a contract term means: some that satisfy the contract, and near to these some that break it.

Every example is evaluated before it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, islice, product

from ...expr import Cond
from ...propagate import budget
from ..cones import by_symbol
from ..engine import Engine
from ..search import Model, satisfies

#: sizes to start from, different ones so that a reader can tell the names apart
_USUAL = (2, 5, 7, 11, 13, 17, 19, 23)
#: how far from a size others are tried, when one of them is changed and when two are
_FAR, _NEAR = 64, 8
#: sizes near to others that are tried: all pairs of 12 names
_TRIED = 20_000


def accepted_sizes(conds: Sequence[Cond]) -> Model | None:
    """Sizes for all symbols in `conds` at which all of these hold, near to usual ones; None when none were found."""
    names = sorted(frozenset[str]().union(*(c.free for c in conds)))
    usual = {n: _USUAL[i % len(_USUAL)] for i, n in enumerate(names)}
    if satisfies(usual, conds):
        return usual
    for changed in around(usual, names):
        if satisfies(changed, conds):
            return changed
    found = Engine(budget.CHEAP_RLIMIT).satisfiable(conds, cheap=True).model
    if found is None:
        return None
    best = {n: found.get(n, usual[n]) for n in names}
    links = by_symbol(conds)
    if not satisfies(best, conds):
        return None
    return nearer(best, usual, lambda at, changed: satisfies(at, links.get(changed, ())))


def breaking_sizes(
    cond: Cond, others: Sequence[Cond], start: Model | None, engine: Engine | None = None
) -> Model | None:
    """Sizes at which all `others` hold and `cond` does not, as near to `start` as they were found.

    An `engine` that is given keeps a budget for several such questions.
    """

    if start is not None and satisfies(start, [c for c in others if c.free.isdisjoint(cond.free)]):
        changing = [c for c in others if not c.free.isdisjoint(cond.free)]
        for changed in around(start, sorted(cond.free)):
            if cond.evaluate(changed) is False and satisfies(changed, changing):
                return changed
    names = sorted(cond.free.union(*(c.free for c in others), start or ()))
    engine = engine or Engine(budget.CHEAP_RLIMIT)
    found = engine.satisfiable([*others, ~cond], cheap=True).model
    if found is None:
        return None
    full = {n: found.get(n, (start or {}).get(n, _USUAL[0])) for n in names}
    if cond.evaluate(full) is not False or not satisfies(full, others):
        return None
    links = by_symbol(others)
    return nearer(
        full,
        start or full,
        lambda at, changed: cond.evaluate(at) is False and satisfies(at, links.get(changed, ())),
    )


def nearer(model: Model, start: Model, good: Callable[[Model, str], bool]) -> Model:
    """A good model with sizes nearer to those of `start`, symbol by symbol: is it still good when this one changed?"""
    best = dict(model)
    for name in sorted(best):
        near, far = start[name], best[name]  # `near` is not good, or not known to be
        if good({**best, name: near}, name):
            best[name] = near
            continue
        while abs(far - near) > 1:
            middle = (near + far) // 2
            if good({**best, name: middle}, name):
                far = middle
            else:
                near = middle
        best[name] = far
    return best


def around(start: Model, names: Sequence[str]) -> Iterator[Model]:
    """`start` with one size changed, then with two, the small changes first; so many that the work is bounded."""
    return islice(_around(start, names), _TRIED)


def _around(start: Model, names: Sequence[str]) -> Iterator[Model]:
    for name, size in _moves(names, _FAR):
        if start[name] + size >= 0:
            yield {**start, name: start[name] + size}
    for pair in combinations(names, 2):
        for first, second in sorted(product(_steps(_NEAR), repeat=2), key=lambda m: abs(m[0]) + abs(m[1])):
            moved = {**start, pair[0]: start[pair[0]] + first, pair[1]: start[pair[1]] + second}
            if min(moved[n] for n in pair) >= 0:
                yield moved


def _moves(names: Sequence[str], far: int) -> Iterable[tuple[str, int]]:
    return ((name, step) for step in _steps(far) for name in names)


def _steps(far: int) -> list[int]:
    return [sign * d for d in range(1, far + 1) for sign in (1, -1)]
