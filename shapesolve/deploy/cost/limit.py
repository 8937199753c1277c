"""`Cost.fit`: the largest accepted size of a symbol at which the model fits into memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...lazy import cached_property
from ...solve.sizes import SizeFinder
from ..limits import MAX_DIPS
from ..sizes import NoSizes, Sizes

if TYPE_CHECKING:
    from .figures import Figures


@dataclass(frozen=True, slots=True)
class Fit:
    """Result of `Cost.fit`: the largest accepted size of `symbol` that fits, and the next one.

    Attributes:
        sizes: Accepted sizes of all names.
        memory: Bytes of weights and tensors at these sizes.
        above: Next accepted size; None if none of the next 4,096 is accepted.
        memory_above: Bytes at that size, which exceed the limit.
    """

    symbol: str
    size: int
    sizes: Mapping[str, int]
    memory: int
    above: int | None
    memory_above: int | None


class Line:
    """Sizes of one symbol with all others fixed: acceptance, and memory at each.

    Raises:
        ValueError: If a name is unknown, or memory depends on other names without a size.
    """

    def __init__(self, cost: Figures, symbol: str, sizes: Mapping[str, int], *, reuse: bool = False) -> None:
        self.cost, self.symbol, self.analysis = cost, symbol, cost.analysis
        self.peak = cost.peak_reused if reuse else cost.peak
        names = self.analysis.symbols
        self.given = {n: size for n, size in sizes.items() if n in names}
        Sizes(self.analysis, self.given).known((symbol,))
        if len(self.given) < len(sizes):  # there are data-dependent sizes, or unknown names
            self.analysis.evaluate(sizes)
        self.known = {**self.analysis._solved.fixed_sizes, **sizes}
        if symbol in self.known:
            raise ValueError(f"{symbol} is already fixed to {self.known[symbol]}")
        if not self.peak.free <= cost.known({**self.known, symbol: 1}).keys():
            missing = cost.missing({**self.known, symbol: 1})
            raise ValueError(f"memory also depends on other sizes; provide them: {missing}")

    def memory(self, size: int) -> int:
        """Return the bytes of weights and tensors at this size."""
        found = self.peak.evaluate(self.cost.known({**self.known, self.symbol: size}))
        assert found is not None
        return self.cost.parameter_bytes + found

    def accepted(self, size: int) -> dict[str, int] | None:
        """Return accepted sizes of all symbols with this one, or None if there are none."""
        return self._finder.completed({**self.given, self.symbol: size})

    def next(self, size: int, step: int = 1) -> int | None:
        """Return the first accepted size from `size` up or (`step` -1) down, or None if none is near."""
        found = self._finder.next(self.symbol, {**self.given, self.symbol: size}, step)
        return None if found is None else found[self.symbol]

    @cached_property
    def _finder(self) -> SizeFinder:
        return self.analysis._solved.finder()

    @cached_property
    def bounds(self) -> tuple[int, int | None]:
        """Return proved bounds of the accepted sizes."""
        low, high = self.analysis.bounds(self.analysis.symbols[self.symbol])
        return max(low or 0, 0), high

    @property
    def least(self) -> int:
        """Return the smallest accepted size.

        Raises:
            NoSizes: If none is found.
        """
        found = self.next(self.bounds[0])
        if found is None:
            raise NoSizes(f"found no accepted size of {self.symbol} with {self.given or 'the others'}")
        return found


def find_fit(cost: Figures, memory: int, symbol: str, sizes: Mapping[str, int], reuse: bool) -> Fit:
    """Return the largest accepted size that fits. See `Cost.fit`."""
    line = Line(cost, symbol, sizes, reuse=reuse)
    if symbol not in line.peak.free:
        raise ValueError(f"memory does not depend on {symbol}")
    least = line.least
    if line.memory(least) > memory:
        needed = line.memory(least)
        raise NoSizes(f"{symbol} = {least}, the smallest accepted size, already takes {needed:,} bytes")
    best = least
    for _ in range(MAX_DIPS):
        most = _last_within(line, best, memory)
        best = _accepted_below(line, most, best, memory)
        above = line.next(most + 1)
        if above is None or line.memory(above) > memory:
            found = line.accepted(best)
            assert found is not None
            too_much = None if above is None else line.memory(above)
            return Fit(symbol, best, found, line.memory(best), above, too_much)
        best = above
    raise NoSizes(f"memory rises and falls too often as {symbol} grows")


def _last_within(line: Line, start: int, memory: int) -> int:
    """Return a size that fits while the next one does not, by doubling steps and bisection from `start`."""
    low, step, largest = start, 1, 1 << 40  # exceeds any memory
    while low + step < largest and line.memory(low + step) <= memory:
        low, step = low + step, 2 * step
    high = low + step
    if high >= largest:
        raise NoSizes(f"every size of {line.symbol} up to {low:,} fits")
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (middle, high) if line.memory(middle) <= memory else (low, middle)
    return low


def _accepted_below(line: Line, most: int, best: int, memory: int) -> int:
    """Return the largest accepted size between `best` and `most` that fits."""
    high = line.bounds[1]
    n: int | None = most if high is None else min(most, high)
    while n is not None and n > best:
        n = line.next(n, -1)
        if n is not None and n > best and line.memory(n) <= memory:
            return n
        n = None if n is None else n - 1
    return best
