# compiled: see CONTRIBUTING.md
"""Linear arithmetic over conditions, to find contradictions by Fourier-Motzkin elimination with rounding to integers.

Each product of atoms is treated as an unknown, and only the bounds of an atom are used. The check is sound but
incomplete: a system
that is reported infeasible has no solution, and others may have none either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import gcd

from ...expr import Cond, Dim
from ...expr.bounds import Interval
from ...expr.core import make_dim
from ...expr.structure import Monomial, Terms
from . import budget


def infeasible(conds: Iterable[Cond], bounds: Callable[[Dim], Interval]) -> bool:
    """True if the linear relations among `conds` contradict each other, with monomials in these `bounds`."""
    rows: dict[Terms, int] = {}  # sums that are at least 0 with these constants
    excluded: set[Dim] = set()
    stated: list[Dim] = []
    for c in conds:
        if c.kind in ("==", ">="):
            stated.append(c.args[0])
            if c.kind == "==":
                stated.append(-c.args[0])
        elif c.kind == "!=":
            excluded.add(c.args[0])
    if len(stated) < 2 and not excluded:
        return False
    for d in stated:
        if not _add(rows, dict(d.terms), d.const):
            return True
    if any(_is_zero(d, rows) for d in excluded):
        return True
    for mono in sorted({m for form in rows for m, _ in form}, key=_order):
        lo, hi = bounds(make_dim(((mono, 1),), 0))
        if (lo is not None and not _add(rows, {mono: 1}, -lo)) or (
            hi is not None and not _add(rows, {mono: -1}, hi)
        ):
            return True
    return _eliminated(rows)


def _eliminated(rows: dict[Terms, int]) -> bool:
    """True if eliminating one monomial after the other, the cheapest first, gives a contradiction."""
    while rows:
        signs: dict[Monomial, list[int]] = {}
        for form in rows:
            for mono, c in form:
                signs.setdefault(mono, [0, 0])[c > 0] += 1
        mono = min(signs, key=lambda m: (signs[m][0] * signs[m][1] - sum(signs[m]), _order(m)))
        below: list[tuple[dict[Monomial, int], int, int]] = []
        above: list[tuple[dict[Monomial, int], int, int]] = []
        left: dict[Terms, int] = {}
        for form, const in rows.items():
            table = dict(form)
            c = table.pop(mono, 0)
            if c:
                (above if c > 0 else below).append((table, abs(c), const))
            else:
                left[form] = const
        if len(left) + len(below) * len(above) > budget.MAX_COMBINED:
            return False
        for first, a, p in above:
            for second, b, q in below:
                table = {m: first.get(m, 0) * b + second.get(m, 0) * a for m in (*first, *second)}
                if not _add(left, table, p * b + q * a):
                    return True
        rows = left
    return False


def _add(rows: dict[Terms, int], table: dict[Monomial, int], const: int) -> bool:
    """Adds the row "sum >= 0", tightened to integers; False if it has no solution."""
    table = {m: c for m, c in table.items() if c}
    if not table:
        return const >= 0
    g = gcd(*table.values())
    form = tuple((m, table[m] // g) for m in sorted(table, key=_order))
    const //= g
    rows[form] = min(const, rows.get(form, const))
    opposite = rows.get(tuple((m, -c) for m, c in form))
    return opposite is None or const + opposite >= 0


def _is_zero(d: Dim, rows: dict[Terms, int]) -> bool:
    """True if two rows imply that `d` is 0."""
    ends = []
    for signed in (d, -d):
        row: dict[Terms, int] = {}
        _add(row, dict(signed.terms), signed.const)
        ((form, const),) = row.items()
        ends.append(form in rows and rows[form] <= const)
    return all(ends)


def _order(mono: Monomial) -> list[object]:
    return [atom.order for atom in mono]
