"""Templates over a few symbols: linear forms with coefficients -1, 0, 1, and the larger or smaller of two.

All of them are evaluated at a table of accepted sizes at once; only those that agree there are handed on to be proved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from ...expr import Dim, constant, maximum, minimum
from ..tables import Inexact, Table
from .domain import Domain

_MOST_SYMBOLS = 4


def linear_forms(names: Sequence[str]) -> Iterator[tuple[int, ...]]:
    """Coefficients of small linear forms, those with the fewest symbols first."""
    found = product((0, 1, -1), repeat=len(names))
    yield from sorted(found, key=lambda cs: (sum(c != 0 for c in cs), sum(c < 0 for c in cs)))


def matching(dim: Dim, domain: Domain) -> Iterator[Dim]:
    """Forms that agree with `dim` at some accepted sizes, the simplest first; not proved."""
    names = sorted(dim.free)
    points = domain.points(dim)
    if points is None or not 0 < len(names) <= _MOST_SYMBOLS:
        return
    try:
        values, there = Table(points).dim(dim)
    except Inexact:
        return
    columns = [points[n] for n in names]
    values = np.broadcast_to(values, columns[0].shape)
    if there is not True and not np.all(there):
        return
    if (values == values[0]).all():
        yield constant(int(values[0]))
        return
    below: list[tuple[Dim, np.ndarray]] = []
    above: list[tuple[Dim, np.ndarray]] = []
    for coefficients in linear_forms(names):
        line = sum((x * c for x, c in zip(columns, coefficients, strict=True)), start=np.zeros_like(values))
        gap = values - line
        low, high = int(gap.min()), int(gap.max())
        form = sum(
            (domain.symbol(n).scale(c) for n, c in zip(names, coefficients, strict=True)), start=constant(0)
        )
        if low == high:
            yield form + low
            return
        below.append((form + low, gap == low))
        above.append((form + high, gap == high))
    for lines, join in ((below, maximum), (above, minimum)):
        touched = np.array([hit for _, hit in lines])
        for i in np.argsort(-touched.sum(axis=1), kind="stable")[:16]:
            for j in np.flatnonzero((touched | touched[i]).all(axis=1)):
                yield join(lines[i][0], lines[j][0])
