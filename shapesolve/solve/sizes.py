"""`SizeFinder`: finds sizes at which conditions hold, and sizes close to these that break one of them.

Every answer is evaluated before it is given. What small moves do not find is asked of the solver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, islice
from math import inf, log
from typing import Literal

from ..expr import Cond, Dim, any_of, eq, ge, le, symbol
from .cone_of_influence import by_symbol, components, nearby, reached
from .engine import Engine
from .facts import budget
from .moves import around, mended, nearer
from .roles import NO_ROLES, Roles, divisors_of
from .search import Model, satisfies, symbol_of

#: sizes to start from, different ones so that a reader can tell the names apart
DISTINCT = (2, 5, 7, 11, 13, 17, 19, 23)
#: sizes to draw from: small primes show relations, powers of two suit windows and strides
LIKELY = (2, 3, 4, 5, 7, 8, 9, 12, 16, 24, 32, 48, 64, 96, 128, 224)


Side = Literal["above", "below", "both"]
Sizes = Mapping[str, int]


def distinct(names: Iterable[str]) -> Model:
    """A usual size for each name, different ones if possible."""
    return {n: DISTINCT[i % len(DISTINCT)] for i, n in enumerate(names)}


class SizeFinder:
    """Finds sizes of the symbols of some conditions.

    Args:
        conds: Conditions that all sizes must satisfy.
        engine: Solver whose budget all queries share.
        names: All names that `completed` and `nearest` give a size; default: those of the conditions.
        judge: Test of complete sizes that satisfy the conditions; all of these are accepted by default.
        roles: How the model uses its sizes.
        floor: Smallest size of a name that was not asked to be smaller.
    """

    def __init__(
        self,
        conds: Iterable[Cond],
        engine: Engine | None = None,
        *,
        names: Iterable[str] | None = None,
        judge: Callable[[Model], bool] | None = None,
        roles: Roles = NO_ROLES,
        floor: int = 0,
    ) -> None:
        self.conds = list(dict.fromkeys(conds))
        self.names = tuple(dict.fromkeys(sorted(_names(self.conds)) if names is None else names))
        self.judge, self.roles, self.floor = judge, roles, floor
        self.usual = next(roles.starts(), {})
        self._left = 4 * budget.MAX_QUERIES  # times that one search completes sizes by the solver
        self.engine = engine or Engine(budget.CHEAP_RLIMIT)
        self.links = by_symbol(self.conds)
        self._failed: tuple[Model | None, list[Cond]] = (None, self.conds)

    def with_(self, conds: Iterable[Cond]) -> SizeFinder:
        """Return a finder of sizes that satisfy these conditions too; they are its notion of usual sizes."""
        return SizeFinder(
            [*self.conds, *conds],
            self.engine,
            names=self.names,
            judge=self.judge,
            roles=self.roles._replace(usual=()),
            floor=self.floor,
        )

    # ------------------------------------------------------------------ sizes at which all hold

    def some(self) -> Model | None:
        """Sizes for all symbols at which all conditions hold, near to usual ones; None when none were found."""
        return self.near(distinct(sorted(_names(self.conds))))

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

    def _near(self, start: Model, conds: Sequence[Cond]) -> Model | None:
        tries = budget.MAX_AROUND_WORK // sum(c.size for c in conds)
        for sizes in islice(chain([start], around(start, list(start))), 1 + tries):
            if satisfies(sizes, conds):
                return sizes
        solved = mended(dict.fromkeys(start, DISTINCT[0]), conds)
        found = solved if satisfies(solved, conds) else self.engine.satisfiable(conds, cheap=True).model
        best = None if found is None else {n: found.get(n, size) for n, size in start.items()}
        if best is None or not satisfies(best, conds):
            return None
        links = by_symbol(conds)
        return nearer(best, start, lambda at, changed: satisfies(at, links.get(changed, ())))

    # ------------------------------------------------------------------ accepted sizes near requested ones

    def accepts(self, sizes: Model) -> bool:
        """Return True if these sizes of all names are accepted."""
        if self.judge is None:
            return satisfies(sizes, self.conds)
        return all(c.evaluate(sizes) is not False for c in self.conds) and self.judge(sizes)

    def completed(self, part: Sizes, start: Sizes | None = None) -> Model | None:
        """Return accepted sizes of all names that include `part`, or None if none were found.

        The other sizes are those of `start` (by default typical ones) if possible, and close to these otherwise.
        """
        usual = {**dict.fromkeys(self.names, 1), **self.usual, **(start or {})}
        full = {n: usual[n] for n in self.names} | dict(part)
        if self.accepts(full):
            return full
        names = [n for n in self.names if n not in part]
        left = _at(self.conds, part) if names and self._left > 0 else None
        if left is None:
            return None
        self._left -= 1
        for group in self.roles.alike:
            if len({full[n] for n in group}) == 1 and not {*group} & part.keys():
                for given in (full, {**part, **{n: full[n] for n in group}}):
                    equal = next(self._along(group, given, "both"), None)
                    if equal is not None:
                        return equal
        batch = {n: full[n] for n in names if n in self.roles.batch}
        if 0 < len(batch) < len(names):
            found = self.completed({**part, **batch})
            if found is not None:
                return found
        for least in sorted({max(self.floor, 1), self.floor}, reverse=True):
            bounds = [ge(symbol(n), min(least, full[n])) for n in names]
            found = SizeFinder([*left, *bounds], self.engine).near({n: full[n] for n in names})
            if found is not None and self.accepts(full := {**full, **{n: found[n] for n in names}}):
                return full
        return None

    def nearest(self, start: Sizes, side: Side = "both") -> Model | None:
        """Return the accepted sizes of all names that are closest to `start`, as a person would choose them.

        As few sizes as possible change, and names with the same role keep equal sizes, or get them. If one size changes,
        no accepted one lies between. Names missing in `start` get any size.

        Args:
            start: Requested sizes.
            side: Whether sizes may only grow (`above`), only shrink (`below`), or both.
        """
        self._left = 4 * budget.MAX_QUERIES
        if self.roles.usual:
            usual = self.with_(self.roles.usual)
            found = usual.completed(start) or self.completed(start) or usual.nearest(start, side)
        else:
            found = self.completed(start)
        if found is not None:
            return found
        groups = [tuple(n for n in group if n in start) for group in self.roles.alike]
        groups = [group for group in groups if len(group) > 1]
        equal = [group for group in groups if len({start[n] for n in group}) == 1]
        tied_names = {n for group in equal for n in group}
        apart = [(n,) for n in start if n not in tied_names]
        for units in ([*equal, *apart], [(n,) for n in start if n in tied_names], groups):
            moved = [sizes for names in units for sizes in self._along(names, start, side)]
            if units is groups:
                apart_too = (self._together(names, start, side, ()) for names in groups)
                moved += [sizes for sizes in apart_too if sizes is not None]
            if moved:
                return min(moved, key=lambda sizes: self._rank(sizes, start))
        for count in range(2, len(start)):
            several = islice(combinations(start, count), budget.MAX_PROOFS)
            tied = [m for names in several if (m := self._together(names, start, side, equal)) is not None]
            if tied:
                return min(tied, key=lambda sizes: self._rank(sizes, start))
        return self._together(tuple(start), start, side, ())

    def is_nearest(self, found: Sizes, start: Sizes) -> bool:
        """Return True if it is proved that no accepted sizes lie between those found and `start`."""
        moved = [n for n in start if start[n] != found[n]]
        if len(moved) == 1 and start.keys() >= {*self.names}:
            return True  # `nearest` has tried them all
        box = [ge(symbol(n), min(start[n], found[n])) for n in start]
        box += [le(symbol(n), max(start[n], found[n])) for n in start]
        other = any_of([~eq(symbol(n), found[n]) for n in moved])
        return self.engine.satisfiable([*self.conds, *box, other]).unsat

    def next(self, name: str, at: Sizes, step: int = 1) -> Model | None:
        """Return the first accepted sizes with `name` from `at[name]` on, upwards or (`step` -1) downwards.

        The other sizes of `at` stay.
        """
        found = self.completed(at)
        if found is not None:
            return found
        return next(self._along((name,), at, "above" if step > 0 else "below"), None)

    def extreme(self, name: str, sign: int, part: Sizes | None = None) -> Model | None:
        """Return accepted sizes with the largest (`sign` 1) or smallest (`sign` -1) size of `name`.

        The sizes in `part` stay. None if the size is unbounded, or if none was found.
        """
        left = _at(self.conds, part or {})
        if left is None:
            return None
        size = symbol_of(name, left)
        low, high = self.engine.bounds(size, [*left, ge(size, self.floor)])
        end = high if sign > 0 else low
        return None if end is None else self.next(name, {**(part or {}), name: end}, -sign)

    def _along(self, names: Sequence[str], start: Sizes, side: Side) -> Iterator[Model]:
        """Accepted sizes below and above with these names at one other size, and the rest of `start` unchanged."""
        others = {n: size for n, size in start.items() if n not in names}
        conds = _at(self.conds, others)
        one = symbol(names[0], 0)
        if conds is not None and len(names) > 1:
            conds = _at(conds, dict.fromkeys(names[1:], one))
        if conds is None:
            return
        conds = [c for c in conds if names[0] in c.free]
        mine = [start[n] for n in names]
        for direction in (-1, 1):
            if side == ("above" if direction < 0 else "below"):
                continue
            origin = (min if direction < 0 else max)(mine) if side != "both" else mine[0]
            tried = islice(self._line(one, conds, origin, direction), budget.MAX_CASES)
            full = (self.completed({**others, **dict.fromkeys(names, size)}) for size in tried)
            found = next(filter(None, full), None)
            if found is not None:
                yield found

    def _line(self, one: Dim, conds: Sequence[Cond], origin: int, direction: int) -> Iterator[int]:
        """Sizes of a symbol from `origin` on that break none of the conditions by themselves."""
        name = one.name or ""
        least = min(self.floor, origin)
        steps = min(budget.MAX_AROUND_WORK // max(sum(c.size for c in conds), 1), budget.MAX_TRIED)
        end = max(origin - steps, least) - 1 if direction < 0 else origin + steps
        walk = range(origin + direction, end, direction)
        found = False
        for size in walk[: budget.FAR]:
            if all(c.evaluate({name: size}) is not False for c in conds):
                found = True
                yield size
        alone = [c for c in conds if c.free == {name}]
        bound = ge(one, origin) if direction > 0 else le(one, origin)
        around = [*alone, bound, ge(one, least)]
        if not found and self.engine.satisfiable(around, cheap=True).unsat:
            return
        for size in walk[budget.FAR :]:
            if all(c.evaluate({name: size}) is not False for c in conds):
                found = True
                yield size
        if not found and (direction > 0 or end >= least):  # far away
            far = self.engine.bounds(one, around)[0 if direction > 0 else 1]
            if far is not None and (far - origin) * direction > 0:
                yield far

    def rounder(self, found: Sizes, start: Sizes) -> Model | None:
        """Return sizes that divide without a remainder where those found round to the same shapes; None if these do.

        Only names that moved from `start` move, those with the same size and role together.
        """
        best = dict(found)
        moved = [n for n in start if n in found and start[n] != found[n]]
        alike = [g for g in self.roles.alike if not start.keys() >= {*g} or {*g} <= {*moved}]
        units = [g for g in alike if {*g} & {*moved} and len({found[n] for n in g}) == 1]
        for names in [*units, *((n,) for n in moved if not any(n in g for g in units))]:
            best = self._rounded(names, best) or best
        return None if best == found else best

    def _rounded(self, names: Sequence[str], found: Model) -> Model | None:
        conds = _at(self.conds, {n: size for n, size in found.items() if n not in names})
        if conds is not None and len(names) > 1:
            conds = _at(conds, dict.fromkeys(names[1:], symbol(names[0], 0)))
        here = divisors_of(conds or ()).get(names[0], frozenset())
        divisors = here.union(*(self.roles.divisors.get(n, ()) for n in names))
        size, most = found[names[0]], max(divisors, default=0)
        if not conds or most > budget.MAX_TRIED:
            return None
        reach = range(max(size - most, 0), size + most + 1)

        def good(n: int) -> bool:
            return n in reach and all(c.evaluate({names[0]: n}) is not False for c in conds)

        low = next(n for n in range(size, -2, -1) if not good(n - 1))
        high = next(n for n in range(size, size + most + 1) if not good(n + 1))
        if high - low >= most:
            return None

        def rank(n: int) -> tuple[int, int, int]:
            return sum(n % k != 0 for k in divisors), -(n & -n), abs(n - size)

        best = min(range(low, high + 1), key=rank)
        at = {**found, **dict.fromkeys(names, best)}
        return at if rank(best)[0] < rank(size)[0] and self.accepts(at) else None

    def _together(
        self, names: Sequence[str], start: Sizes, side: Side, equal: Sequence[Sequence[str]]
    ) -> Model | None:
        """Accepted sizes with several names changed: the smallest largest change first, then each change in turn."""
        stay = {n: size for n, size in start.items() if n not in names}
        conds = _at(self.conds, stay)
        if conds is None:
            return None
        ties = [eq(symbol(g[0]), symbol(n)) for g in equal if set(g) <= {*names} for n in g[1:]]
        floors = [
            ge(symbol(n), min(self.floor, start.get(n, self.floor))) for n in self.names if n not in stay
        ]

        def solved(reaches: Mapping[str, int]) -> Model | None:
            near = [c for n, reach in reaches.items() for c in _within(n, start[n], reach, side)]
            model = self.engine.satisfiable([*conds, *ties, *floors, *near]).model
            part = None if model is None else {**start, **{n: model.get(n, start[n]) for n in names}}
            return None if part is None else self.completed(part)

        reach, best = 1, None
        while best is None and reach <= budget.LARGEST_BOUND:
            reach *= 4
            best = solved(dict.fromkeys(names, reach))
        low = 0
        while best is not None and low < reach:
            middle = (low + reach) // 2
            found = solved(dict.fromkeys(names, middle))
            low, reach, best = (low, middle, found) if found else (middle + 1, reach, best)
        reaches = dict.fromkeys(names, reach)
        for name in names if best is not None else ():
            assert best is not None
            low, high = 0, abs(best[name] - start[name])
            while low < high:
                middle = (low + high) // 2
                found = solved({**reaches, name: middle})
                low, high, best = (low, middle, found) if found else (middle + 1, high, best)
            reaches[name] = high
        return best

    def _rank(self, sizes: Sizes, start: Sizes) -> tuple[bool, float, tuple[int, ...]]:
        """Sort key of accepted sizes: none that became 0, equal ones, small changes relative to the size."""
        emptied = any(not sizes[n] and start[n] for n in start)
        unlike = sum(len({sizes[n] for n in group}) > 1 for group in self.roles.alike)
        far = max((abs(log((sizes[n] + 0.5) / (start[n] + 0.5))) for n in start), default=inf)
        return emptied, far + unlike * log(2), tuple(sizes[n] for n in start)

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
        found = dict.fromkeys(c for name in sorted(names) for c in self.links.get(name, ()))
        return [c for c in found if c is not cond]


def _names(conds: Iterable[Cond]) -> frozenset[str]:
    return frozenset[str]().union(*(c.free for c in conds))


def _at(conds: Iterable[Cond], sizes: Mapping[str, int | Dim]) -> list[Cond] | None:
    """The conditions with these sizes substituted, without those that hold; None if one cannot hold."""
    left: list[Cond] = []
    for cond in conds:
        if not cond.free.isdisjoint(sizes):
            try:
                cond = cond.subs(sizes)
            except ZeroDivisionError:
                return None
        if cond.is_false:
            return None
        if not cond.is_true:
            left.append(cond)
    return left


def _within(name: str, size: int, reach: int, side: Side) -> Iterator[Cond]:
    yield ge(symbol(name), max(size - (0 if side == "above" else reach), 0))
    yield le(symbol(name), size + (0 if side == "below" else reach))
