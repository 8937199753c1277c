"""Finds simple expressions of the input sizes that equal numbers seen in several exports.

The length of a description decides what is simple: each symbol counts 1, each coefficient its bits. Forms are affine in a size,
a product or a sum of sizes; quotients rounded down or up, and their multiples; remainders; and the smaller or larger of a size
and a number. Fits of nearly the same length are rivals: the numbers alone do not decide between them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from itertools import combinations, combinations_with_replacement
from math import gcd, prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...expr import Atom, Dim, constant, floor_div, maximum, minimum, of_atom, product, symbol
from ..limits import MARGIN, MAX_CANDIDATES, MAX_DIVISOR, MAX_FACTOR, MAX_POINTS, MAX_SYMBOLS

Array: TypeAlias = NDArray[Any]
#: a number in each export; None if an export does not show it
Seen: TypeAlias = "tuple[int | None, ...]"
#: inputs of a trial model whose sizes are the generated symbols
OPEN = "generalize_open"
#: divisors and factors for coincidences, and the smallest constant that is checked for one
_PARTS, _MULTIPLES, _TELLING = (2, 3, 4), range(2, 9), 3


@dataclass(frozen=True, slots=True)
class Fit:
    """An expression that equals the numbers seen, its description length, and its values at sample sizes."""

    dim: Dim
    cost: int
    values: tuple[int, ...]
    multiple: bool = False  # a multiple of a size in the model may be a coincidence


class Fitter:
    """Finds expressions of the input sizes for numbers seen in each export.

    Args:
        sizes: Sizes of the symbols in each export.
    """

    def __init__(self, sizes: Seq[Mapping[str, int]]) -> None:
        self.sizes = sizes
        self.symbols = [name for name in sizes[0] if len({s[name] for s in sizes}) > 1]
        self.points = _points(self.symbols, sizes)
        self.shown = _shown(self.symbols, sizes)
        self._bases = [(d, [d.evaluate(s) or 0 for s in sizes], cost) for d, cost in _bases(self.symbols)]
        every = [*self.points, *self.shown]
        self._columns = {n: np.array([p[n] for p in every]) for n in every[0]}
        self._values: dict[Dim, tuple[int, ...]] = {}
        #: numbers that are a part or multiple of an input size in all exports, with its expression
        self.coincident = coincident(map(symbol, self.symbols), sizes, _PARTS, _MULTIPLES)
        self._known: dict[Seen, list[Fit]] = {}

    def at(self, dim: Dim) -> tuple[int, ...]:
        """The values of an expression at the sample sizes."""
        return self._evaluated(dim)[: len(self.points)]

    def at_shown(self, dim: Dim) -> tuple[int, ...]:
        """Return the values of an expression at sample sizes on the progressions through the exports."""
        return self._evaluated(dim)[len(self.points) :]

    def _evaluated(self, dim: Dim) -> tuple[int, ...]:
        found = self._values.get(dim)
        if found is None:
            count = len(self.points) + len(self.shown)
            found = self._values[dim] = tuple(np.broadcast_to(self._at(dim), count).tolist())
        return found

    def _at(self, dim: Dim) -> Array:
        total = np.asarray(dim.const)
        for monomial, factor in dim.terms:
            total = total + prod(map(self._atom, monomial), start=np.asarray(factor))
        return total

    def _atom(self, atom: Atom) -> Array:
        if atom.kind == "//":
            return self._at(atom.args[0]) // np.maximum(self._at(atom.args[1]), 1)
        if atom.kind == "pos":
            return np.maximum(self._at(atom.args[0]), 0)
        whole = of_atom(atom)
        if whole.name is not None:
            return self._columns[whole.name]
        return np.array([whole.evaluate(p) or 0 for p in (*self.points, *self.shown)])

    def fits(self, seen: Seen) -> list[Fit]:
        """Expressions that fit these numbers, the simplest first. A number that never differs is constant."""
        if seen not in self._known:
            known = {v for v in seen if v is not None}
            if len(known) < 2:
                n = next(iter(known), 0)
                self._known[seen] = [Fit(constant(n), 0, (n,) * len(self.points))]
            else:
                self._known[seen] = self._shortest(self._forms(seen))
        return self._known[seen]

    def rivals(self, seen: Seen) -> list[Fit]:
        """Expressions for these numbers whose description is nearly as short as the shortest.

        A plain size, sum, or product only has rivals of the same length.
        """
        found = self.fits(seen)
        margin = 0 if found and self.is_plain(found[0].dim) else MARGIN
        return [f for f in found if f.cost <= found[0].cost + margin]

    def is_plain(self, dim: Dim) -> bool:
        """True for a number, an input size, and a sum or product of two input sizes."""
        return not dim.terms or any(dim is d for d, _, cost in self._bases if cost <= 2)

    def _shortest(self, forms: Iterable[tuple[Dim, int]]) -> list[Fit]:
        best: dict[tuple[int, ...], Fit] = {}
        for dim, cost in forms:
            values = self.at(dim)
            if values not in best or cost < best[values].cost:
                best[values] = Fit(dim, cost, values)
        return sorted(best.values(), key=lambda f: f.cost)[:MAX_CANDIDATES]

    def _forms(self, seen: Seen) -> Iterator[tuple[Dim, int]]:
        where = [k for k, v in enumerate(seen) if v is not None]
        want = [v for v in seen if v is not None]
        for base, all_values, cost in self._bases:
            given = [all_values[k] for k in where]
            if len(set(given)) > 1:
                for find in (_affine, _limits, _quotients):
                    yield from find(base, given, want, cost)


class Undecided(Exception):
    """Raised if several expressions of the input sizes are possible for a number."""


@dataclass(slots=True)
class OpenNumber:
    """A generated symbol for a number whose expression is undetermined.

    Attributes:
        name: Name of the symbol.
        seen: Its value in each export.
        low: The number minus the symbol.
        fits: Candidate expressions of the symbol.
        what: Description of the number.
    """

    name: str
    seen: list[int]
    low: int
    fits: list[Fit]
    what: str


@dataclass(slots=True)
class Unknowns:
    """Turns numbers seen in the exports into expressions: of input sizes, or generated symbols.

    Attributes:
        fitter: finds expressions of the sizes.
        opens: the generated symbols.
    """

    fitter: Fitter
    opens: list[OpenNumber] = field(default_factory=list)

    def dim(self, numbers: Iterable[int | None], what: str) -> Dim:
        """The expression of a number: of sizes, or a generated symbol. Raises `Undecided` if nothing plain fits."""
        seen = tuple(numbers)
        rivals, known = self.fitter.rivals(seen), [v for v in seen if v is not None]
        if known and len({*seen}) == 1 and known[0] in self.fitter.coincident:
            part = self.fitter.coincident[known[0]]
            raise Undecided(f"{what} is {known[0]} in all exports, which is also {part} in all of them")
        # a plain size is taken where the exports tell it from twice another one
        is_size = len(rivals) == 1 and any(v % 2 for v in known) and self.fitter.is_plain(rivals[0].dim)
        if len(rivals) == 1 and (None in seen or not rivals[0].dim.terms or is_size):
            return rivals[0].dim
        if None in seen or not known:
            raise Undecided(f"{what} does not follow the sizes in a way that is plain")
        low = min(1, *known)
        fits = [Fit(f.dim - low, f.cost, tuple(v - low for v in f.values)) for f in self.fitter.fits(seen)]
        name = f"{OPEN}_{len(self.opens)}"
        self.opens.append(OpenNumber(name, [v - low for v in known], low, fits, what))
        return symbol(name) + low

    def bindings(self) -> list[dict[str, int]]:
        """Values of all symbols in each export, generated ones included."""
        return [
            {**sizes, **{o.name: o.seen[k] for o in self.opens}} for k, sizes in enumerate(self.fitter.sizes)
        ]


# ---------------------------------------------------------------------- forms


def _bits(n: int) -> int:
    return 0 if abs(n) == 1 else abs(n).bit_length()


def _divided(k: int) -> int:
    """Description length of a divisor; powers of 2 are short."""
    return k.bit_length() - 1 if k & (k - 1) == 0 else k.bit_length() + (k > 5)


def _bases(symbols: Seq[str]) -> Iterator[tuple[Dim, int]]:
    """Basic expressions (sizes, sums, products) with their description lengths."""
    names = [symbol(name) for name in symbols[:MAX_SYMBOLS]]
    yield from ((symbol(name), 1) for name in symbols)
    for a, b in combinations(names, 2):
        yield a + b, 2
        yield from (((a + b) * c, 3) for c in names if c is not a and c is not b)
    for count in (2, 3):
        yield from ((product(some), count) for some in combinations_with_replacement(names, count))
    for k in (2, 4, 8, 16, 32):
        for up in (0, k - 1):
            for some in combinations_with_replacement(names, 2):
                yield product(floor_div(d + up, constant(k)) for d in some), 2 + _bits(k) + (up > 0)


def _moved(n: int) -> int:
    return _bits(n) + 1 if n else 0


def _line(given: Seq[int], want: Seq[int]) -> tuple[int, int] | None:
    """Whole slope and intercept of the line through all points; None without one, or if it is flat."""
    i = next((k for k, g in enumerate(given) if g != given[0]), None)
    if i is None:
        return None
    slope, rest = divmod(want[i] - want[0], given[i] - given[0])
    start = want[0] - slope * given[0]
    fits = not rest and slope and all(slope * g + start == w for g, w in zip(given, want, strict=True))
    return (slope, start) if fits else None


def _affine(base: Dim, given: Seq[int], want: Seq[int], cost: int) -> Iterator[tuple[Dim, int]]:
    for slope, start in filter(None, [_line(given, want)]):
        # a sum with a divisor larger than its constant term may have been rounded
        rounded = 2 if start and slope == 1 and gcd(*want) > abs(start) else 0
        yield base * slope + start, cost + _bits(slope) + (slope < 0) + _moved(start) + rounded


def _limits(base: Dim, given: Seq[int], want: Seq[int], cost: int) -> Iterator[tuple[Dim, int]]:
    for limit in {*want}:
        if want.count(limit) == len(want):
            continue
        for bound, make in ((min, minimum), (max, maximum)):
            shift = next(w - g for g, w in zip(given, want, strict=True) if w != limit)
            if all(bound(g + shift, limit) == w for g, w in zip(given, want, strict=True)):
                yield make(base + shift, constant(limit)), cost + 2 + _bits(limit) + _moved(shift)


def _quotients(base: Dim, given: Seq[int], want: Seq[int], cost: int) -> Iterator[tuple[Dim, int]]:
    """Scaled quotients of `base` plus a constant, and remainders, that equal the wanted numbers."""
    rise = max(want) - min(want)
    for k in range(2, MAX_DIVISOR + 1):
        ups = range(k) if k <= MAX_FACTOR else (0, k - 1)
        for up in ups:
            more = 0 if not up else 1 if up == k - 1 else 1 + _bits(up)
            for factor, start in filter(None, [_line([(g + up) // k for g in given], want)]):
                made = floor_div(base + up, constant(k)) * factor + start
                times = (1 if factor == k else _bits(factor)) + (factor < 0)
                yield made, cost + _divided(k) + 2 * (cost > 1) + more + times + _moved(start)
        if rise < k:
            for sign in (1, -1):
                for up in ups:
                    if all((sign * g + up) % k == w for g, w in zip(given, want, strict=True)):
                        yield (base * sign + up) % k, cost + 1 + _divided(k) + _moved(up)


def coincident(
    dims: Iterable[Dim], sizes: Seq[Mapping[str, int]], parts: Seq[int] = (2,), multiples: Seq[int] = ()
) -> dict[int, str]:
    """Numbers that ``size // k`` equals in every export though the size differs: possible coincidences.

    The exports are too similar.
    """
    found: dict[int, str] = {}
    for d in dims:
        seen = [d.evaluate(s) or 0 for s in sizes]
        if len({*seen}) < 2:
            continue
        forms = [(k, up, 1, _TELLING) for k in parts for up in (0, k - 1)]
        forms += [(k, up, k, 2 * k) for k in multiples for up in (0, k - 1)]
        for k, up, times, least in forms:
            made = {(n + up) // k * times for n in seen}
            if len(made) == 1 and (n := made.pop()) >= least:
                found.setdefault(n, str((d + up) // k * times))
    return found


def _shown(symbols: Seq[str], sizes: Seq[Mapping[str, int]]) -> list[dict[str, int]]:
    """Return sizes on the arithmetic progressions through the exports."""
    rng, steps = random.Random(0), {name: gcd(*(s[name] - sizes[0][name] for s in sizes)) for name in symbols}
    first = {name: sizes[0][name] % step or step for name, step in steps.items()}
    most = {n: MAX_FACTOR + (max(s[n] for s in sizes) - first[n]) // steps[n] for n in symbols}
    moved = ({n: first[n] + steps[n] * rng.randint(0, most[n]) for n in symbols} for _ in range(MAX_POINTS))
    return [*map(dict, sizes), *({**sizes[0], **some} for some in moved)]


def _points(symbols: Seq[str], sizes: Seq[Mapping[str, int]]) -> list[dict[str, int]]:
    fixed = {name: size for name, size in sizes[0].items() if name not in symbols}
    largest = max([MAX_POINTS // 2, *(2 * s[name] + 2 for s in sizes for name in symbols)])
    if len(symbols) == 1:
        return [{**fixed, symbols[0]: n} for n in range(1, largest + 1)]
    rng = random.Random(0)
    return [{**fixed, **{name: rng.randint(1, largest) for name in symbols}} for _ in range(MAX_POINTS)]
