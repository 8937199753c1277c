"""Moves sizes: small changes around given ones, and steps that bring accepted sizes closer to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, islice, product

from ..expr import Cond
from .facts import budget
from .search import Model, satisfies


def mended(sizes: Model, conds: Sequence[Cond]) -> Model:
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
    for size, name in product(_steps(budget.FAR), names):
        if start[name] + size >= 0:
            yield {**start, name: start[name] + size}
    for pair in combinations(names, 2):
        for first, second in sorted(
            product(_steps(budget.NEAR), repeat=2), key=lambda m: abs(m[0]) + abs(m[1])
        ):
            moved = {**start, pair[0]: start[pair[0]] + first, pair[1]: start[pair[1]] + second}
            if min(moved[n] for n in pair) >= 0:
                yield moved


def _steps(far: int) -> list[int]:
    return [sign * d for d in range(1, far + 1) for sign in (1, -1)]
