"""`SizeFinder`: finds sizes at which conditions hold, and sizes close to these that break one of them.

Every answer is evaluated before it is given. What small moves do not find is asked of the solver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, combinations, islice, product

from ..expr import Cond, Dim, ge
from ..propagate import budget
from .cone_of_influence import by_symbol, components, nearby, reached
from .engine import Engine
from .search import Model, satisfies

#: sizes to start from, different ones so that a reader can tell the names apart
DISTINCT = (2, 5, 7, 11, 13, 17, 19, 23)
#: sizes to draw from: small primes show relations, powers of two suit windows and strides
LIKELY = (2, 3, 4, 5, 7, 8, 9, 12, 16, 24, 32, 48, 64, 96, 128, 224)


def distinct(names: Iterable[str]) -> Model:
    """A usual size for each name, different ones if possible."""
    return {n: DISTINCT[i % len(DISTINCT)] for i, n in enumerate(names)}


class SizeFinder:
    """Finds sizes of the symbols of some conditions.

    What is known of the conditions is found once for all questions; an `engine` that is given keeps a budget for all of them.
    """

    def __init__(self, conds: Iterable[Cond], engine: Engine | None = None) -> None:
        self.conds = list(dict.fromkeys(conds))
        self.engine = engine or Engine(budget.CHEAP_RLIMIT)
        self.links = by_symbol(self.conds)
        self._failed: tuple[Model | None, list[Cond]] = (None, self.conds)

    # ------------------------------------------------------------------ sizes at which all hold

    def some(self) -> Model | None:
        """Sizes for all symbols at which all conditions hold, near to usual ones; None when none were found."""
        return self.near(distinct(sorted(frozenset[str]().union(*(c.free for c in self.conds)))))

    def near(self, start: Model) -> Model | None:
        """Sizes close to `start` at which all conditions hold. None when none were found."""
        found = dict(start)
        for group in components(self.conds):  # sizes of one have nothing to do with those of another
            own = frozenset[str]().union(*(c.free for c in group))
            sizes = self._near({n: start[n] for n in start if n in own}, group)
            if sizes is None:
                return None
            found.update(sizes)
        return found

    def least(self, symbols: Iterable[Dim], bounds: Sequence[int] = (2, 1, 0)) -> Model | None:
        """Small sizes at which all conditions hold, with the largest of these lower bounds that works. It is the first
        of the `bounds` that allows some.
        """
        sizes = list(symbols)
        for bound in bounds:
            found = self.engine.model([*self.conds, *(ge(d, bound) for d in sizes)])
            if found is not None:
                return {d.name or "": found.get(d.name or "", bound) for d in sizes}
        return None

    def _near(self, start: Model, conds: Sequence[Cond]) -> Model | None:
        tries = budget.MAX_AROUND_WORK // sum(c.size for c in conds)
        for sizes in islice(chain([start], around(start, list(start))), 1 + tries):
            if satisfies(sizes, conds):
                return sizes
        mended = _mended(dict.fromkeys(start, DISTINCT[0]), conds)
        found = mended if satisfies(mended, conds) else self.engine.satisfiable(conds, cheap=True).model
        best = None if found is None else {n: found.get(n, size) for n, size in start.items()}
        if best is None or not satisfies(best, conds):
            return None
        links = by_symbol(conds)
        return nearer(best, start, lambda at, changed: satisfies(at, links.get(changed, ())))

    # ------------------------------------------------------------------ sizes that break one

    def breaking(self, cond: Cond, start: Model | None) -> Model | None:
        """Sizes close to `start` at which `cond` fails and all other conditions hold. None when none were found."""
        linked = start is not None and all(
            c is cond or not c.free.isdisjoint(cond.free) for c in self._failing(start)
        )
        if linked and start is not None and (moved := self._moved(cond, start)) is not None:
            return moved
        if self.engine.is_spent:
            return None
        others = reached(cond.free, self.links) if linked else self.conds
        others = [c for c in others if c is not cond]
        names = cond.free.union(*(c.free for c in others), start or ())
        asked = others if len(others) <= budget.MAX_LINKED else nearby(cond.free, by_symbol(others))
        found = self.engine.satisfiable([*asked, ~cond], cheap=True).model
        if found is None:
            return None
        full = {n: found.get(n, (start or {}).get(n, DISTINCT[0])) for n in sorted(names)}
        if cond.evaluate(full) is not False or not satisfies(full, others):
            return None
        return nearer(
            full,
            start or full,
            lambda at, changed: cond.evaluate(at) is False and satisfies(at, self._about((changed,), cond)),
        )

    def _failing(self, start: Model | None) -> list[Cond]:
        """The conditions that are false at `start`; all conditions if `start` is None."""
        if self._failed[0] is not start:
            self._failed = (
                start,
                self.conds if start is None else [c for c in self.conds if not satisfies(start, (c,))],
            )
        return self._failed[1]

    def _moved(self, cond: Cond, start: Model) -> Model | None:
        """`start` with one or two sizes changed so that `cond` fails and the others hold."""
        near = self._about(cond.free, cond)
        names = cond.free.union(*(c.free for c in near)) & start.keys()
        tries = budget.MAX_AROUND_WORK // sum(c.size for c in (cond, *near))
        for changed in islice(around({n: start[n] for n in names}, sorted(cond.free & names)), tries):
            if cond.evaluate(changed) is not False:
                continue
            failed = next((i for i, c in enumerate(near) if not satisfies(changed, (c,))), None)
            if failed is None:
                return {**start, **changed}
            near.insert(0, near.pop(failed))  # most likely it fails at the next sizes as well
        return None

    def _about(self, names: Iterable[str], cond: Cond) -> list[Cond]:
        """The conditions on these symbols, except `cond`."""
        found = dict.fromkeys(c for name in sorted(names) for c in self.links.get(name, ()))
        return [c for c in found if c is not cond]


def _mended(sizes: Model, conds: Sequence[Cond]) -> Model:
    """The sizes, corrected one after the other by equalities solved for them. Of several one is taken."""
    for cond in conds:
        if not satisfies(sizes, (cond,)):
            ways = [way.solved() for way in (cond.args if cond.kind == "or" else (cond,)) if way.kind == "=="]
            values = {way[0]: way[1].evaluate(sizes) for way in ways if way is not None}
            sizes.update(islice(((n, v) for n, v in values.items() if v is not None), 1))
    return sizes


def nearer(model: Model, start: Model, good: Callable[[Model, str], bool]) -> Model:
    """A model closer to `start` that is still `good`, changed symbol by symbol."""
    best = dict(model)
    for name in sorted(best.keys() & start.keys()):
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
    """`start` with one size changed, then with two, small changes first. Their number is bounded."""
    return islice(_around(start, names), budget.MAX_TRIED)


def _around(start: Model, names: Sequence[str]) -> Iterator[Model]:
    for name, size in _moves(names, budget.FAR):
        if start[name] + size >= 0:
            yield {**start, name: start[name] + size}
    for pair in combinations(names, 2):
        for first, second in sorted(
            product(_steps(budget.NEAR), repeat=2), key=lambda m: abs(m[0]) + abs(m[1])
        ):
            moved = {**start, pair[0]: start[pair[0]] + first, pair[1]: start[pair[1]] + second}
            if min(moved[n] for n in pair) >= 0:
                yield moved


def _moves(names: Sequence[str], far: int) -> Iterable[tuple[str, int]]:
    return ((name, step) for step in _steps(far) for name in names)


def _steps(far: int) -> list[int]:
    return [sign * d for d in range(1, far + 1) for sign in (1, -1)]
