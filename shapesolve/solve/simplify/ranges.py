"""Rewrites hard-to-read conditions as ranges and remainders of single sizes.

`(H + 31)//32 == 7` holds for exactly the sizes 193 to 224. A table of sizes suggests the form, and the engine proves
that it is
equivalent; unproved forms are not used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import gcd

import numpy as np

from ...expr import FALSE, Cond, Dim, all_of, any_of, eq, ge, le
from ...expr.limits import SAFE
from ..engine import Engine
from ..facts import budget
from ..search import symbol_of
from ..tables import Inexact, Sizes, Table, Truth, truth_table

#: sizes per symbol in a table that shows that conditions on several symbols cannot be separated
_GRID = {2: 96, 3: 20, 4: 9}


def separated(conds: Sequence[Cond], engine: Engine) -> list[Cond] | None:
    """Return conditions, each on a single symbol, that together are equivalent to `conds`, or None if none are proved."""
    names = sorted(frozenset[str]().union(*(c.free for c in conds)))
    if len(names) > max(_GRID) or _is_joint(names, conds):
        return None
    alone = len(names) == 1
    model = {names[0]: 0} if alone else engine.satisfiable(conds, cheap=True).model
    if model is None:
        return None
    found, samples = [], []
    for name in names:
        sizes = _allowed(name, model, conds)
        form = None if sizes is None else plain_form(symbol_of(name, conds), sizes)
        if form is None or sizes is None:
            return None
        found.append(form)
        samples.append(sizes[:: max(len(sizes) // 3, 1)][:4])
    if not alone and not _all_hold(names, samples, conds):
        return None
    if alone:
        same = engine.regular.same(found, conds, names[0], 0)
        if same is not None:
            return found if same else None
    proved = all(engine.entails(form, conds, cheap=True).proved for form in found) and all(
        engine.entails(c, found, cheap=True).proved for c in conds
    )
    return found if proved else None


def _is_joint(names: Sequence[str], conds: Sequence[Cond]) -> bool:
    """True if samples show that the sizes allowed for one symbol depend on another symbol."""
    if len(names) not in _GRID:
        return False
    sizes = np.arange(_GRID[len(names)], dtype=np.int64)
    table = Table(dict(zip(names, np.meshgrid(*[sizes] * len(names), indexing="ij"), strict=True)))
    held: Truth = np.ones((len(sizes),) * len(names), dtype=np.bool_)
    try:
        for c in conds:
            held = np.logical_and(held, table.truth(c))
    except Inexact:
        return False
    apart: Truth = np.ones_like(held)
    for axis in range(len(names)):
        others = tuple(i for i in range(len(names)) if i != axis)
        apart = np.logical_and(apart, held.any(axis=others, keepdims=True))
    return bool((apart & ~held).any())


def _all_hold(names: Sequence[str], samples: Sequence[Sequence[int]], conds: Sequence[Cond]) -> bool:
    columns = [np.array(sizes, dtype=np.int64) for sizes in samples]
    table = Table(dict(zip(names, np.meshgrid(*columns, indexing="ij"), strict=True)))
    try:
        return all(bool(np.all(table.truth(c))) for c in conds)
    except Inexact:
        return True


def _allowed(name: str, model: Mapping[str, int], conds: Sequence[Cond]) -> list[int] | None:
    """The sampled sizes of one symbol at which `conds` hold, the other symbols fixed."""
    sizes: Sizes = np.arange(budget.TABLE_SIZES + 1, dtype=np.int64)
    if any(abs(v) > SAFE for v in model.values()):
        return None
    columns = {n: sizes if n == name else np.array(v, dtype=np.int64) for n, v in model.items()}
    held: Truth = np.ones(sizes.shape, dtype=np.bool_)
    try:
        for c in conds:
            if name in c.free:
                held = np.logical_and(held, truth_table(c, columns))
    except (Inexact, KeyError):
        return None
    return [int(s) for s in sizes[held]]


def plain_form(x: Dim, sizes: Sequence[int]) -> Cond | None:
    """A readable condition that holds at exactly these sizes within a table of small sizes; None if none.
    TABLE_SIZES``, and beyond where the pattern goes on.
    """
    if not sizes:
        return FALSE
    top = budget.TABLE_SIZES
    runs = _runs(sizes)
    if len(runs) <= 2 or len(sizes) <= budget.MAX_LISTED:
        return any_of(_range(x, lo, hi, top) for lo, hi in runs)
    step = 0
    for a, b in pairwise(sizes):
        step = gcd(step, b - a)
    if len(sizes) == (sizes[-1] - sizes[0]) // step + 1 and step <= budget.MAX_PERIOD:
        parts = [eq(x % step, sizes[0] % step)]
        if sizes[0] >= step:  # the smallest bound that excludes the smaller multiples
            parts.append(ge(x, 1 if sizes[0] == step else sizes[0]))
        if sizes[-1] + step <= top:
            parts.append(le(x, sizes[-1]))
        return all_of(parts)
    return _periodic(x, sizes, top)


def _periodic(x: Dim, sizes: Sequence[int], top: int) -> Cond | None:
    """Condition by remainders: periodic from some size on; None if it is none."""
    first = sizes[0]
    held = np.zeros(top + 1, dtype=np.bool_)
    held[np.asarray(sizes)] = True
    part = held[first:]
    for period in range(2, min(budget.MAX_PERIOD, len(part) // 3)):
        if not np.array_equal(part[period:], part[:-period]):
            continue
        residues = sorted({(first + int(i)) % period for i in np.flatnonzero(part[:period])})
        rest = x % period
        runs = _runs(residues)
        if len(runs) > 2 and len(residues) > budget.MAX_LISTED:
            return None
        found = any_of(all_of((ge(rest, lo), le(rest, hi))) for lo, hi in runs)
        below = [s for s in range(first) if s % period in residues]
        return all_of((found, ge(x, 1 if below == [0] else first))) if below else found
    return None


def _runs(sizes: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for s in sizes:
        if runs and runs[-1][1] == s - 1:
            runs[-1] = (runs[-1][0], s)
        else:
            runs.append((s, s))
    return runs


def _range(x: Dim, lo: int, hi: int, top: int) -> Cond:
    if lo == hi:
        return eq(x, lo)
    parts = [ge(x, lo)]
    if hi < top:
        parts.append(le(x, hi))
    return all_of(parts)
