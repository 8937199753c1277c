"""Templates of conditions: relations of small linear forms, remainders, and two or three of these joined.

Columns are the symbols of a condition and the quotients, maxima and broadcasts in it. All relations are evaluated at a table of
accepted sizes at once; what has the truth of the condition there is handed on to be proved.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np

from ...expr import Cond, Dim, all_of, any_of, eq, ge, le, of_atom, total
from ...expr.traverse import atoms_of
from ..inverse import suggested_form
from ..tables import Inexact, Sizes, Table, Truth
from .domain import Domain, is_size

_MOST_COLUMNS = 6
_MOST_RELATIONS = 240
_MOST_JOINED = 40
_LARGEST = 2**40


def statements(cond: Cond, domain: Domain) -> Iterator[Cond]:
    """Conditions that hold at the same sizes as `cond` in a table of accepted ones; not proved."""
    if len(cond.free) == 1:
        yield from _alone(cond, domain)
        return
    points = domain.points(cond)
    if points is None or len(cond.free) > _MOST_COLUMNS:
        return
    columns = _columns(cond)
    try:
        table = Table(points)
        shape = next(iter(points.values())).shape
        held: Truth = np.broadcast_to(table.truth(cond), shape)
        values = [table.dim(column) for column in columns]
    except Inexact:
        return
    if held.all() or not held.any() or not all(np.all(there) for _, there in values):
        return
    matrix = np.array([np.broadcast_to(v, shape) for v, _ in values])
    if int(np.abs(matrix).max()) < _LARGEST:
        yield from _joined(*_relations(columns, matrix, held), held, columns)


def _alone(cond: Cond, domain: Domain) -> Iterator[Cond]:
    """The plain form of a condition on one symbol."""
    (name,) = cond.free
    if not is_size(cond, name):
        return
    for given in ([], domain.alone(name)):
        form = suggested_form(name, {name: 1}, [cond, *given])
        if form is not None:
            yield form


def _columns(cond: Cond) -> list[Dim]:
    """Symbols, then the terms of other kinds, the small ones first."""
    atoms = sorted(atoms_of(cond), key=lambda a: (a.kind != "sym", a.order))
    return [of_atom(a) for a in atoms][:_MOST_COLUMNS]


@lru_cache(maxsize=_MOST_COLUMNS + 1)
def _coefficients(count: int) -> Sizes:
    """Sums and differences of up to three columns, in pairs one of them perhaps doubled, as rows of coefficients."""
    rows = []
    for used in (1, 2, 3):
        for chosen in combinations(range(count), used):
            scales = (
                [(1, 1), (1, -1), (1, 2), (1, -2), (2, 1), (2, -1)]
                if used == 2
                else product((1,), *[(1, -1)] * (used - 1))
            )
            for scale in scales:
                row = [0] * count
                for at, c in zip(chosen, scale, strict=True):
                    row[at] = c
                rows.append(row)
    return np.array(rows, dtype=np.int64)


class Relation(NamedTuple):
    """A linear form of columns compared with a number, and where that holds."""

    row: Sizes
    kind: str
    bound: int
    truth: Any

    def cond(self, columns: list[Dim]) -> Cond:
        """The condition."""
        form = total(column.scale(int(c)) for c, column in zip(self.row, columns, strict=True))
        return (
            eq(form, self.bound)
            if self.kind == "=="
            else ge(form, self.bound)
            if self.kind == ">="
            else le(form, self.bound)
        )


def _relations(columns: list[Dim], matrix: Sizes, held: Truth) -> tuple[list[Relation], list[Relation]]:
    """Relations that hold only where the condition does, and relations that hold wherever it does."""
    rows = _coefficients(len(columns))
    values = rows @ matrix
    inside, outside = values[:, held], values[:, ~held]
    low, high = inside.min(axis=1), inside.max(axis=1)
    least, most = outside.min(axis=1), outside.max(axis=1)
    within, around = [], []
    for row, v, lo, hi, a, b in zip(rows, values, low, high, least, most, strict=True):
        if b < hi:
            within.append(Relation(row, ">=", int(b) + 1, v > b))
        if a > lo:
            within.append(Relation(row, "<=", int(a) - 1, v < a))
        if a < lo:
            around.append(Relation(row, ">=", int(lo), v >= lo))
        if b > hi:
            around.append(Relation(row, "<=", int(hi), v <= hi))
        if lo == hi:
            around.append(Relation(row, "==", int(lo), v == lo))
    for number in (0, 1, -1):
        for i in np.flatnonzero((inside == number).any(axis=1) & ~(outside == number).any(axis=1)):
            within.append(Relation(rows[i], "==", number, values[i] == number))
    return within, around


def _joined(
    within: list[Relation], around: list[Relation], held: Truth, columns: list[Dim]
) -> Iterator[Cond]:
    """One relation, or two or three joined, with the truth that is wanted."""
    for relation in (*within, *around):
        if np.array_equal(relation.truth, held):
            yield relation.cond(columns)
    for some, join in ((within, any_of), (around, all_of)):
        sets = np.array([r.truth for r in some], dtype=np.bool_).reshape(len(some), len(held))
        wanted = held
        if join is all_of:
            sets, wanted = ~sets, ~held
        if not np.array_equal(sets.any(axis=0), wanted):
            continue
        _, first = np.unique(np.packbits(sets, axis=1), axis=0, return_index=True)
        order = sorted(first, key=lambda i: (-int(sets[i].sum()), i))[:_MOST_RELATIONS]
        for chosen in _covers(sets[order], wanted):
            yield join(some[order[i]].cond(columns) for i in chosen)


def _covers(matrix: Any, wanted: Truth) -> Iterator[tuple[int, ...]]:
    """Two or three rows that cover what is wanted."""
    found = 0
    for i, truth in enumerate(matrix):
        missing = wanted & ~truth
        if not missing.any():
            continue
        hits = matrix[:, missing]
        for j in np.flatnonzero(hits.all(axis=1)):
            yield i, int(j)
            found += 1
        if found > _MOST_JOINED:
            return
        if found or i >= 12:
            continue
        for j in np.argsort(-hits.sum(axis=1), kind="stable")[:12]:
            left = hits[:, ~hits[j]]
            for k in np.flatnonzero(left.all(axis=1))[:8]:
                yield i, int(j), int(k)


__all__ = ["statements"]
