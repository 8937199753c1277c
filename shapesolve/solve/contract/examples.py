"""Sizes that show what a contract term means: some that satisfy the contract, and near to these some that break it.

Every example is evaluated before it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, combinations, islice, product

from ...expr import Cond
from ...propagate import budget
from ..cones import by_symbol, components, nearby, reached
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
    engine = Engine(budget.CHEAP_RLIMIT)
    found = dict(usual)
    for group in components(conds):  # sizes of one have nothing to do with those of another
        own = frozenset[str]().union(*(c.free for c in group))
        sizes = _accepted_near({n: usual[n] for n in names if n in own}, group, engine)
        if sizes is None:
            return None
        found.update(sizes)
    return found


def _accepted_near(usual: Model, conds: Sequence[Cond], engine: Engine) -> Model | None:
    tries = budget.MAX_AROUND_WORK // sum(c.size for c in conds)
    for sizes in islice(chain([usual], around(usual, list(usual))), 1 + tries):
        if satisfies(sizes, conds):
            return sizes
    mended = _mended(dict.fromkeys(usual, _USUAL[0]), conds)
    found = mended if satisfies(mended, conds) else engine.satisfiable(conds, cheap=True).model
    if found is None:
        return None
    best = {n: found.get(n, size) for n, size in usual.items()}
    links = by_symbol(conds)
    if not satisfies(best, conds):
        return None
    return nearer(best, usual, lambda at, changed: satisfies(at, links.get(changed, ())))


def _mended(sizes: Model, conds: Sequence[Cond]) -> Model:
    """The sizes with those changed that equalities, one after the other, are solved for; of several one is taken."""
    for cond in conds:
        if not satisfies(sizes, (cond,)):
            ways = [way.solved() for way in (cond.args if cond.kind == "or" else (cond,)) if way.kind == "=="]
            values = {way[0]: way[1].evaluate(sizes) for way in ways if way is not None}
            sizes.update(islice(((n, v) for n, v in values.items() if v is not None), 1))
    return sizes


class Beside:
    """Conditions that hold at sizes which break a term, and sizes to stay near to.

    Many terms may be asked about: which of the conditions fail at `start`, and which speak of a size, is found once. An
    `engine` that is given keeps a budget for all of them.
    """

    def __init__(self, conds: Iterable[Cond], start: Model | None, engine: Engine | None = None) -> None:
        self.conds, self.start = list(dict.fromkeys(conds)), start
        self.engine = engine or Engine(budget.CHEAP_RLIMIT)
        self.links = by_symbol(self.conds)
        self._failing = [c for c in self.conds if start is None or not satisfies(start, (c,))]

    def breaking(self, cond: Cond) -> Model | None:
        """Sizes at which `cond` fails and all others hold, as near to `start` as they were found; None when none were."""
        start, linked = self.start, False
        if start is not None and all(c is cond or not c.free.isdisjoint(cond.free) for c in self._failing):
            linked, near = True, self._about(cond.free, cond)
            names = cond.free.union(*(c.free for c in near))
            tries = budget.MAX_NEAR_WORK // sum(c.size for c in (cond, *near))
            for changed in islice(around({n: start[n] for n in names}, sorted(cond.free)), tries):
                if cond.evaluate(changed) is not False:
                    continue
                failed = next((i for i, c in enumerate(near) if not satisfies(changed, (c,))), None)
                if failed is None:
                    return {**start, **changed}
                near.insert(0, near.pop(failed))  # most likely it fails at the next sizes as well
        if self.engine.is_spent:
            return None
        others = reached(cond.free, self.links) if linked else self.conds
        others = [c for c in others if c is not cond]
        names = cond.free.union(*(c.free for c in others), start or ())
        asked = others if len(others) <= budget.MAX_CHEAP else nearby(cond.free, by_symbol(others))
        found = self.engine.satisfiable([*asked, ~cond], cheap=True).model
        if found is None:
            return None
        full = {n: found.get(n, (start or {}).get(n, _USUAL[0])) for n in sorted(names)}
        if cond.evaluate(full) is not False or not satisfies(full, others):
            return None
        return nearer(
            full,
            start or full,
            lambda at, changed: cond.evaluate(at) is False and satisfies(at, self._about((changed,), cond)),
        )

    def _about(self, names: Iterable[str], cond: Cond) -> list[Cond]:
        """The conditions on these symbols, without the term."""
        found = dict.fromkeys(c for name in sorted(names) for c in self.links.get(name, ()))
        return [c for c in found if c is not cond]


def nearer(model: Model, start: Model, good: Callable[[Model, str], bool]) -> Model:
    """A good model with sizes nearer to those of `start`, symbol by symbol: is it still good when this one changed?"""
    best = dict(model)
    for name in sorted(best):
        near, far = start[name], best[name]  # `near` is not good, or not known to be
        if near == far:
            continue
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
