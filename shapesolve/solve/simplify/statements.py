"""Templates of conditions: relations of small linear forms, remainders, and two or three of these joined.

Columns are the symbols of a condition and the quotients, maxima and broadcasts in it. All relations are evaluated at a table of
accepted sizes at once; what has the truth of the condition there is handed on to be proved.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations, islice, product
from typing import Any, NamedTuple

import numpy as np

from ...expr import Cond, Dim, all_of, any_of, eq, ge, le, of_atom, symbol, total
from ...expr.traverse import atoms_of
from ...propagate import budget
from ..inverse import suggested_form, with_zero
from ..tables import Inexact, Sizes, Table, Truth
from .cost import operators
from .domain import Domain, is_size

_MOST_COLUMNS = 6
_MOST_RELATIONS = 240
_MOST_JOINED = 40
_LARGEST = 2**40
#: integers below it are exact as 32-bit floating point
_EXACT = 2**24
#: of arrays too; those of numpy would load it with this module
_COMPARED = {"==": operator.eq, ">=": operator.ge, "<=": operator.le}


def statements(cond: Cond, domain: Domain, most: int) -> Iterator[Cond]:
    """Conditions that hold at the same sizes as `cond` in a table of accepted ones; not proved. What takes more than `most`
    operators is left out as far as that is seen beforehand.
    """
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
        rows = _coefficients(len(columns))
        prices = _prices(rows, columns)
        rows, prices = rows[prices <= most], prices[prices <= most]
        if len(rows):
            order = np.argsort(~held, kind="stable")  # first where it holds, so that both parts are views
            held, matrix = held[order], matrix[:, order]
            yield from _joined(*_relations(rows, prices, matrix, held), held, columns, most)


def _alone(cond: Cond, domain: Domain) -> Iterator[Cond]:
    """The plain form of a condition on one symbol."""
    (name,) = cond.free
    if not is_size(cond, name):
        return
    for given in ([], domain.alone(name)):
        form = suggested_form(name, {name: 1}, [cond, *given])
        if form is not None:
            forms = (with_zero(form, name, [cond, *given]), form)
            yield from dict.fromkeys((*forms, *_limited(form, cond, name)))


def _limited(form: Cond, cond: Cond, name: str) -> Iterator[Cond]:
    """The form up to a size beyond the table, where a choice in the condition changes and the condition ends to hold."""
    choices = [a.args[0] for a in atoms_of(cond) if a.kind == "ite"]
    ends = {s for c in choices for s in _ends(c, name)}
    for size in sorted(s for s in ends if s > budget.TABLE_SIZES):
        if cond.evaluate({name: size}) is True and cond.evaluate({name: size + 1}) is False:
            yield all_of((form, le(symbol(name), size)))
            return


def _ends(choice: object, name: str) -> Iterator[int]:
    """The sizes of a symbol after which a relation of it with a number changes."""
    for d in choice.args if isinstance(choice, Cond) else ():
        if isinstance(d, Cond):
            yield from _ends(d, name)
        elif isinstance(d, Dim) and len(d.terms) == 1 and (c := abs(d.terms[0][1])) and d.free == {name}:
            yield from (abs(d.const) // c, abs(d.const) // c - 1)


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


def _prices(rows: Sizes, columns: list[Dim]) -> Sizes:
    """Operators that a relation of each form with a number takes at least."""
    own = np.array([operators(column) for column in columns], dtype=np.int64)
    kinds = [column.atom.kind if column.atom is not None else "" for column in columns]
    used, scaled = rows != 0, (np.abs(rows) > 1).sum(axis=1)
    parts = used.sum(axis=1)
    prices = np.maximum(parts - 1, 1) + scaled + used @ own
    quotients = used[:, [kind == "//" for kind in kinds]].any(axis=1) & (scaled > 0)
    choices = used[:, [kind not in ("sym", "//") for kind in kinds]].any(axis=1)
    joins = (parts > 1) & (
        quotients | choices
    )  # ``x - 2*(x//2)`` is ``x % 2``, ``y + max(x - y, 0)`` is ``max(x, y)``
    found: Sizes = np.where(joins, np.maximum(prices - 2, 1), prices)
    return found


class Relation(NamedTuple):
    """A linear form of columns compared with a number, and what it takes in operators at least.

    `values` are those of the form; `same`: does it hold where the condition does, and nowhere else?
    """

    row: Sizes
    price: int
    kind: str
    bound: int
    values: Any
    same: bool

    @property
    def truth(self) -> Truth:
        """Where it holds."""
        found: Truth = _COMPARED[self.kind](self.values, self.bound)
        return found

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


def _relations(
    rows: Sizes, prices: Sizes, matrix: Sizes, held: Truth
) -> tuple[list[Relation], list[Relation]]:
    """Relations that hold only where the condition does, and relations that hold wherever it does.

    The sizes at which it holds come first.
    """
    # not by ``@``: BLAS would start threads, which cost more than the sums
    matrix = matrix.astype(np.float32 if 4 * int(np.abs(matrix).max()) < _EXACT else np.float64)
    values = np.zeros((len(rows), len(held)), dtype=matrix.dtype)
    for row, v in zip(rows.tolist(), values, strict=True):
        for c, column in zip(row, matrix, strict=True):
            if c:
                v += c * column
    count = int(held.sum())
    inside, outside = values[:, :count], values[:, count:]
    edges = (
        part.astype(np.int64).tolist()
        for side in (inside, outside)
        for part in (side.min(axis=1), side.max(axis=1))
    )
    within, around = [], []
    for row, price, v, lo, hi, a, b in zip(rows, prices, values, *edges, strict=True):
        if b < hi:
            within.append(Relation(row, price, ">=", b + 1, v, b < lo))
        if a > lo:
            within.append(Relation(row, price, "<=", a - 1, v, hi < a))
        if a < lo:
            around.append(Relation(row, price, ">=", lo, v, b < lo))
        if b > hi:
            around.append(Relation(row, price, "<=", hi, v, hi < a))
        if lo == hi:
            around.append(Relation(row, price, "==", lo, v, lo not in v[count:]))
    for number in (0, 1, -1):
        for i in np.flatnonzero((inside == number).any(axis=1) & ~(outside == number).any(axis=1)):
            same = bool((inside[i] == number).all())
            within.append(Relation(rows[i], prices[i], "==", number, values[i], same))
    return within, around


def _joined(
    within: list[Relation], around: list[Relation], held: Truth, columns: list[Dim], most: int
) -> Iterator[Cond]:
    """One relation, or two or three joined, with the truth that is wanted."""
    for relation in (*within, *around):
        if relation.same:
            yield relation.cond(columns)
    for every, join in ((within, any_of), (around, all_of)):
        some = [r for r in every if r.price + 2 <= most]  # two of them take a junction
        sets = np.array([r.truth for r in some], dtype=np.bool_).reshape(len(some), len(held))
        wanted = held
        if join is all_of:
            sets, wanted = ~sets, ~held
        if not np.array_equal(sets.any(axis=0), wanted):
            continue
        packed = np.packbits(sets, axis=1)
        first: dict[int, int] = {}
        for i, row in enumerate(packed):
            first.setdefault(int.from_bytes(row.tobytes(), "big"), i)
        bits = sorted(first, key=lambda held_at: (-held_at.bit_count(), first[held_at]))[:_MOST_RELATIONS]
        order = [first[held_at] for held_at in bits]
        all_bits = int.from_bytes(np.packbits(wanted).tobytes(), "big")
        for chosen in _covers(bits, [some[i].price for i in order], all_bits, most):
            yield join(some[order[i]].cond(columns) for i in chosen)


def _covers(sets: list[int], prices: list[int], wanted: int, most: int) -> Iterator[tuple[int, ...]]:
    """Two or three of the sets, given as bits, that cover what is wanted, where they and their junctions are not too dear."""
    outside = [wanted & ~bits for bits in sets]
    found = 0
    for i, missing in enumerate(outside):
        left = most - prices[i] - 1
        if not missing:
            continue
        for j, others in enumerate(outside):
            if not missing & others and prices[j] <= left:
                yield i, j
                found += 1
        if found > _MOST_JOINED:
            return
        if found or i >= 12 or left < 3:  # another junction, between two more relations
            continue
        hits = [(missing & bits).bit_count() for bits in sets]
        for j in sorted(range(len(sets)), key=lambda j: -hits[j])[:12]:
            last = missing & outside[j]
            room = left - prices[j] - 1
            thirds = (k for k, others in enumerate(outside) if not last & others and prices[k] <= room)
            for k in islice(thirds, 8):
                yield i, j, k


__all__ = ["statements"]
