"""Fits expressions of one symbol: a floor of a linear form, clamped, scaled, or a remainder.

The values at the accepted sizes suggest the numbers of a template; `Domain.follows` proves what was suggested, because two
quasi-polynomials that agree on one period, with the same slopes, are equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from ...expr import Dim, constant, floor_div, ite, le, maximum, minimum
from ...expr.traverse import atoms_of
from ..facts import budget
from ..tables import Sizes
from .domain import Domain


class Samples(NamedTuple):
    """Accepted sizes of a symbol, the value of an expression at each, and slopes that the values may have."""

    sizes: Sizes
    values: Sizes
    slopes: list[Fraction]

    def since(self, index: int) -> Samples:
        """The samples without the first `index`."""
        return Samples(self.sizes[index:], self.values[index:], self.slopes)

    def divided(self, low: int, step: int) -> Samples:
        """The samples with values ``(value - low) // step``."""
        return Samples(self.sizes, (self.values - low) // step, [s / step for s in self.slopes])


def fits(dim: Dim, x: Dim, domain: Domain) -> Iterator[Dim]:
    """Expressions of the symbol `x` that have the values of `dim` at accepted sizes; not proved."""
    assert x.name is not None
    found = domain.engine.regular.values(dim, domain.alone(x.name), x.name)
    if found is None or len(found[0]) < 2 or int(abs(found[1]).max()) > budget.LARGEST_BOUND:
        return
    sizes, values = found[0], found[1]
    samples = Samples(sizes, values, _slopes(sizes, values, found[2], dim))
    low, high = int(values.min()), int(values.max())
    if low == high:
        yield constant(low)
        return
    yield from _remainders(samples, x)
    steps = int(np.gcd.reduce(values - low))
    if steps > 1:  # 8*((x + 7)//8)
        for small in _floors(samples.divided(low, steps), x):
            yield small.scale(steps) + low
    yield from _floors(samples, x)


def _slopes(sizes: Sizes, values: Sizes, last: Fraction, dim: Dim) -> list[Fraction]:
    """Return slopes to try for a fit: at the end, from first to last, and those of the quotients in `dim`."""
    found = [last, Fraction(int(values[-1] - values[0]), int(sizes[-1] - sizes[0])), Fraction(1)]
    for atom in atoms_of(dim):
        if atom.kind == "//" and atom.args[1].value:
            found += [Fraction(c, atom.args[1].const) for _, c in atom.args[0].terms]
    return list(dict.fromkeys(s for s in found if s and s.denominator <= 4096))[: budget.MAX_FORMS]


def _floors(samples: Samples, x: Dim) -> Iterator[Dim]:
    low, high = int(samples.values.min()), int(samples.values.max())
    for slope in samples.slopes:
        for floor, ceiling in ((None, None), (low, None), (None, high), (low, high)):
            offsets = _offsets(samples, slope, floor, ceiling)
            if offsets is None:
                continue
            for offset in _nicest(*offsets, slope.denominator):
                form = floor_div(x.scale(slope.numerator) + offset, constant(slope.denominator))
                if ceiling is not None:
                    form = minimum(form, ceiling)
                yield form if floor is None else maximum(form, floor)
            if floor is None and ceiling is None:
                return  # nothing is simpler
        yield from _apart(samples, x, slope)


def _offsets(
    samples: Samples, slope: Fraction, floor: int | None, ceiling: int | None
) -> tuple[int, int] | None:
    """The offsets b with which ``(p*x + b)//q``, clamped, has all the values: an interval, or None."""
    q = slope.denominator
    at = samples.values * q - samples.sizes * slope.numerator
    above = at if floor is None else at[samples.values != floor]
    below = at if ceiling is None else at[samples.values != ceiling]
    if not len(above) or not len(below):
        return None
    least, most = int(above.max()), int(below.min()) + q - 1
    return (least, most) if least <= most else None


def _nicest(least: int, most: int, q: int) -> list[int]:
    """Offsets in an interval that are easiest to read. They are none, none inside the floor, none outside."""
    whole = -(-least // q) * q
    tried = [0, whole, least, most]
    return list(dict.fromkeys(b for b in tried if least <= b <= most))


def _apart(samples: Samples, x: Dim, slope: Fraction) -> Iterator[Dim]:
    """Candidates: a floor of a linear form from some size on, other constants for smaller sizes."""
    pieces: list[tuple[int, int]] = []  # the value up to a size
    rest = samples
    while len(pieces) < 3:  # otherwise it becomes a floor
        first = int(rest.values[0])
        ends = int(np.argmax(rest.values != first))
        if not ends:
            return
        rest = rest.since(ends)
        pieces.append((int(rest.sizes[0]) - 1, first))
        for floor in (None, int(rest.values[0])):
            offsets = _offsets(rest, slope, floor, None)
            if offsets is not None:
                for offset in _nicest(*offsets, slope.denominator):
                    form = floor_div(x.scale(slope.numerator) + offset, constant(slope.denominator))
                    form = form if floor is None else maximum(form, floor)
                    for last, value in reversed(pieces):
                        form = ite(le(x, last), constant(value), form)
                    yield form


def _remainders(samples: Samples, x: Dim) -> Iterator[Dim]:
    """Candidates ``(x + b) % k + c`` and ``(b - x) % k + c`` that have all the values."""
    sizes, values, _ = samples
    low, high = int(values.min()), int(values.max())
    step = int(np.gcd.reduce(sizes - sizes[0]))
    for k in dict.fromkeys((high - low + 1, high - low + step)):
        for sign in (1, -1):
            b = (int(values[0]) - low - sign * int(sizes[0])) % k
            if np.array_equal((sign * sizes + b) % k + low, values):
                yield (x.scale(sign) + b) % k + low
