"""Buckets: few accepted sizes to pad observed sizes to, with minimum padding."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ...analysis import Analysis, analyze
from ...arguments import checked
from ...expr.limits import INT32_MAX
from ...model.limits import MAX_TEXT
from ..limits import MAX_PADDED, MAX_SYMBOLS
from ..sizes import Sizes
from .boxes import SizesOfOne, SmallestBoxes, chosen_boxes
from .profiles import Profile, point_profile


@dataclass(frozen=True, slots=True)
class Bucket:
    """The size to pad to (a product for several symbols), and accepted sizes of all symbols.

    `count` observed sizes go into the bucket, with `padding` in total.
    """

    size: int
    sizes: Mapping[str, int]
    count: int
    padding: int


@dataclass(frozen=True, slots=True)
class Buckets(Sequence[Bucket]):
    """Buckets in increasing order, with minimum `padding` for their number.

    Attributes:
        symbols: Names whose sizes are padded.
        buckets: Buckets, smallest first.
        total: Sum of all observed sizes; for several symbols, of their products.
        proved: Whether the padding is proved minimal. False if the solver could not determine whether a smaller size
            is accepted, or the search among boxes of several symbols ended early.
    """

    symbols: tuple[str, ...]
    buckets: tuple[Bucket, ...]
    total: int
    proved: bool

    def __len__(self) -> int:
        return len(self.buckets)

    def __getitem__(self, index: Any) -> Any:
        return self.buckets[index]

    @property
    def padding(self) -> int:
        """Total padding of all observed sizes."""
        return sum(b.padding for b in self.buckets)

    def profiles(self, model: Any) -> tuple[Profile, ...]:
        """Return one profile with a single size per bucket, for `profile_text`. `model` is as for `buckets`."""
        a = model if isinstance(model, Analysis) else analyze(model)
        return tuple(point_profile(a, b.sizes) for b in self.buckets)

    def to_json(self) -> dict[str, Any]:
        """Return the buckets as plain data."""
        rows = [
            {"size": b.size, "sizes": dict(b.sizes), "count": b.count, "padding": b.padding}
            for b in self.buckets
        ]
        return {
            "symbols": list(self.symbols), "buckets": rows, "padding": self.padding, "total": self.total, "proved": self.proved,
        }  # fmt: skip


@checked
def buckets(
    model: Any,
    seen: Mapping[Any, int] | Iterable[Any],
    symbol: str | Sequence[str],
    k: int = 6,
    *,
    bind: Mapping[str, int] | None = None,
) -> Buckets:
    """Return at most `k` accepted sizes of up to three symbols to pad to, with minimum padding.

    Padding is the sum of `bucket - size` over all observed sizes, where `bucket` is the smallest bucket that contains
    the size; for several symbols, it is counted in products of sizes. Sizes may be a bucket if the model accepts them
    together with some sizes of the other names. One example of these is given with each bucket; use `bind` to set
    them.

    Args:
        model: An `Analysis`, or any model that `analyze` accepts.
        seen: Observed sizes, or a mapping from sizes to frequencies. For several symbols, sizes are tuples in the
            order of the symbols.
        symbol: A dim name, or several.
        k: Maximum number of buckets.
        bind: Sizes of other names.

    Raises:
        ModelError: If the model cannot be read.
        NoSizes: If there is no accepted size to pad to.
        ValueError: If a name or a size is invalid.
    """
    a = model if isinstance(model, Analysis) else analyze(model)
    if k < 1:
        raise ValueError(f"the number of buckets must be at least 1, got {k}")
    names = (symbol,) if isinstance(symbol, str) else tuple(symbol)
    if len(names) != 1:
        return _boxes(a, seen, names, k, bind)
    (symbol,) = names
    counts = _counted(seen)
    search = SizesOfOne(a, symbol, bind)
    sizes = sorted(counts)
    tops = search.at_least(sizes)
    merged: dict[int, int] = {}
    for size, top in zip(sizes, tops, strict=True):
        merged[top] = merged.get(top, 0) + counts[size]
    if len(merged) > MAX_PADDED:
        raise ValueError(
            f"too many different sizes to pad to: {len(merged):,}, the maximum is {MAX_PADDED:,}; round the observed sizes"
        )
    chosen = _least(list(merged), list(merged.values()), k)
    found = []
    for low, high in zip([-1, *chosen], chosen):
        own = [s for s in sizes if low < s <= high]
        padding = sum((high - s) * counts[s] for s in own)
        sizes_of = completed(a, {symbol: high}, bind)
        found.append(Bucket(high, sizes_of, sum(counts[s] for s in own), padding))
    return Buckets((symbol,), tuple(found), sum(s * c for s, c in counts.items()), search.proved)


def _boxes(
    analysis: Analysis,
    seen: Mapping[Any, int] | Iterable[Any],
    symbols: tuple[str, ...],
    k: int,
    bind: Mapping[str, int] | None,
) -> Buckets:
    """Return buckets over several symbols."""
    if not 0 < len(symbols) == len(set(symbols)) <= MAX_SYMBOLS:
        raise ValueError(f"expected 1 to {MAX_SYMBOLS} different symbols, got {', '.join(symbols)}")
    given = seen if isinstance(seen, Mapping) else Counter(tuple(sizes) for sizes in seen)
    counts = {tuple(map(int, sizes)): int(count) for sizes, count in given.items() if count}
    if any(len(sizes) != len(symbols) for sizes in counts):
        raise ValueError(f"expected a tuple of {len(symbols)} sizes: {', '.join(symbols)}")
    for axis in range(len(symbols)):
        _counted([sizes[axis] for sizes in counts])
    _counted(dict(enumerate(counts.values())))
    smallest = SmallestBoxes([SizesOfOne(analysis, name, bind) for name in symbols])
    chosen, proved = chosen_boxes(counts, k, smallest)
    of: dict[tuple[int, ...], list[tuple[int, ...]]] = {box: [] for box in sorted(chosen, key=prod)}
    for sizes in counts:
        of[next(box for box in of if all(b >= s for b, s in zip(box, sizes, strict=True)))].append(sizes)
    found = []
    for box, own in of.items():
        padding = sum((prod(box) - prod(sizes)) * counts[sizes] for sizes in own)
        full = completed(analysis, dict(zip(symbols, box, strict=True)), bind)
        found.append(Bucket(prod(box), full, sum(counts[sizes] for sizes in own), padding))
    total = sum(prod(sizes) * count for sizes, count in counts.items())
    return Buckets(symbols, tuple(b for b in found if b.count), total, proved)


def completed(analysis: Analysis, sizes: Mapping[str, int], bind: Mapping[str, int] | None) -> dict[str, int]:
    """Return accepted sizes of all symbols that include these."""
    return Sizes(analysis, {**(bind or {}), **sizes}).nearest(dict.fromkeys(analysis.symbols, 1))


def read_sizes(path: str | Path, *symbols: str) -> Counter[Any]:
    """Return the frequencies of sizes in a CSV file, from the symbols' columns or, without them, the first column.

    A column ``count`` holds frequencies. Sizes are numbers for one symbol, tuples for several.

    Raises:
        ValueError: If an entry is not a size; the message has its line.
        OSError: If the file cannot be read.
    """
    file = Path(path)
    if file.stat().st_size > MAX_TEXT:
        raise ValueError(f"{path} is larger than {MAX_TEXT >> 20} MiB")
    found: Counter[Any] = Counter()
    with file.open(newline="", encoding="utf-8-sig", errors="replace") as lines:
        columns, count = list(range(len(symbols))), -1
        for number, row in enumerate(csv.reader(lines), 1):
            cells = [cell.strip() for cell in row]
            if not any(cells):
                continue
            if not found and any(not _is_number(c) for c in cells):
                names = [c.lower() for c in cells]
                if len(symbols) > 1 and (missing := [s for s in symbols if s not in cells]):
                    raise ValueError(f"{path} has no column {missing[0]!r}")
                columns = [cells.index(s) if s in cells else 0 for s in symbols]
                count = names.index("count") if "count" in names else -1
                continue
            wanted = [
                cells[i] if i < len(cells) else "" for i in (columns if count < 0 else (*columns, count))
            ]
            if not all(map(_is_number, wanted)):
                raise ValueError(f"{path}, line {number}: expected a size, got {','.join(row)[:80]!r}")
            sizes = tuple(map(int, wanted[: len(symbols)]))
            found[sizes if len(symbols) > 1 else sizes[0]] += int(wanted[-1]) if count >= 0 else 1
    return found


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 11


def _counted(seen: Mapping[int, int] | Iterable[int]) -> dict[int, int]:
    counts = {int(s): int(c) for s, c in (seen if isinstance(seen, Mapping) else Counter(seen)).items() if c}
    if not counts:
        raise ValueError("no sizes were given")
    if (
        min(counts) < 0
        or max(counts) > INT32_MAX
        or min(counts.values()) < 0
        or sum(counts.values()) > INT32_MAX
    ):
        raise ValueError(f"sizes and counts must be between 0 and {INT32_MAX}")
    return counts


def _least(tops: list[int], counts: list[int], k: int) -> list[int]:
    """Return at most `k` of the ascending `tops`, including the last, with minimum total padding.

    Other sizes need not be tried: a bucket between two of `tops` can shrink to the lower one and still contain its
    sizes.
    """
    before = np.array([0, *accumulate(counts)], dtype=np.int64)
    n = len(tops)
    best = np.full(n + 1, np.iinfo(np.int64).max // 2)
    best[0] = 0
    origins: list[np.ndarray[Any, np.dtype[np.int64]]] = []
    for _ in range(min(k, n)):
        now, origin = best.copy(), np.full(n + 1, -1)
        for j in range(1, n + 1):
            costs = best[:j] + tops[j - 1] * (before[j] - before[:j])
            i = int(np.argmin(costs))
            if costs[i] < now[j]:
                now[j], origin[j] = costs[i], i
        best = now
        origins.append(origin)
    chosen, j = [], n
    for origin in reversed(origins):
        if origin[j] >= 0:
            chosen.append(tops[j - 1])
            j = int(origin[j])
    return chosen[::-1]
