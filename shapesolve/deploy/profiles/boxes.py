"""Buckets over several symbols: at most k accepted boxes with minimum padding (branch and bound).

Some optimal solution uses only the smallest accepted boxes around the sizes assigned to each bucket. So the
candidates are the smallest accepted boxes around joins of observed sizes. Selecting from them is a k-median problem,
with Lagrangian lower bounds in integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...analysis import Analysis
from ...answers.rejected import rejected_by
from ...expr import Cond, eq, ge
from ...expr.closures import Compiler, compiled_truth
from ...expr.limits import INT32_MAX, SAFE
from ...expr.sizes import sizes_text
from ...solve.cone_of_influence import cone
from ...solve.known import Known
from ..limits import BOUND_STEPS, MAX_ASKED, MAX_BOXES, MAX_TRIED, MAX_WORK
from ..sizes import NoSizes, Sizes

Box = tuple[int, ...]
Ints = np.ndarray[Any, np.dtype[np.int64]]
#: cost of a box that does not contain a size; larger than any sum of costs
NO_FIT = SAFE // 4


class SizesOfOne:
    """Accepted sizes of one symbol."""

    def __init__(self, analysis: Analysis, name: str, bind: Mapping[str, int] | None) -> None:
        self.analysis, self.name, self.bind = analysis, name, dict(bind or {})
        self.any = Sizes(analysis, bind)
        self.any.known([name])
        self.symbol = analysis.symbols[name]
        self.proved = True
        self.engine = analysis._solved.prover.engine
        fixed = {n: v for n, v in self.any.fixed.items() if n != name or n in self.bind}
        conds = [c.subs(fixed) for c in self.any.contract]
        if any(c.is_false for c in conds):
            rejected = self.any.broken({n: fixed.get(n, 1) for n in self.any.names})
            raise NoSizes("; ".join(r.sentence for r in rejected), rejected)
        parts = [p for c in conds for p in (c.args if c.kind == "and" else (c,)) if isinstance(p, Cond)]
        self.conds: list[Cond] = list(cone([name], parts))

    def at_least(self, sizes: Sequence[int]) -> list[int]:
        """Return the smallest accepted size that is at least as large, for each of the ascending `sizes`.

        Raises:
            NoSizes: If there is none.
        """
        tops: list[int] = []
        for size in sizes:
            if tops and tops[-1] >= size:
                tops.append(tops[-1])
                continue
            found = self.any.finder.next(self.name, {**self.bind, self.name: size})
            if found is None or found[self.name] > INT32_MAX:
                contract = self.analysis.contract
                terms = [t for t in (*contract.terms, *contract.assumed) if self.name in t.symbols]
                rejected = rejected_by(terms, {self.name: size})
                reasons = "; ".join(r.sentence for r in rejected)
                raise NoSizes(f"no accepted size of {self.name} is at least {size}: {reasons}", rejected)
            tops.append(found[self.name])
            apart = tops[-1] > size
            self.proved &= not apart or self.any.finder.is_nearest(found, {self.name: size})
        return tops


class SmallestBoxes:
    """Search for the smallest accepted box around given sizes (one size per symbol).

    Args:
        searches: Accepted sizes of each symbol (see `bucketing`), which share one contract.
    """

    def __init__(self, searches: Sequence[SizesOfOne]) -> None:
        self.searches, self.names = searches, [one.name for one in searches]
        self.apart = all(
            not cond.free & set(self.names) - {one.name} for one in searches for cond in one.conds
        )
        self.conds = list(dict.fromkeys(cond for one in searches for cond in one.conds))
        self.known = Known(self.conds, searches[0].engine)
        self.tests = [(Compiler().test(c), c) for c in self.conds]
        self._proved, self._tried, self._asked = True, 0, 0
        self._rounded: list[dict[int, int]] = [{} for _ in searches]

    @property
    def proved(self) -> bool:
        """True if each box found so far is proved the smallest."""
        return self._proved and all(one.proved for one in self.searches)

    def above(self, low: Box) -> Box | None:
        """Return the accepted box of minimum volume that contains `low`, or None if there is none."""
        if not self.apart:
            return self._searched(low)
        found = [self._alone(axis, size) for axis, size in enumerate(low)]
        return None if None in found else tuple(size for size in found if size is not None)

    def _alone(self, axis: int, size: int) -> int | None:
        known = self._rounded[axis]
        if size not in known:
            try:
                (known[size],) = self.searches[axis].at_least([size])
            except NoSizes:
                known[size] = -1
        return None if known[size] < 0 else known[size]

    def _searched(self, low: Box) -> Box | None:
        """Return the same as `above`, by testing boxes in order of volume.

        After `MAX_TRIED` tests, return the box that the solver finds, and set `proved` to False.
        """
        symbols = [one.symbol for one in self.searches]
        above = list(map(ge, symbols, low))
        if self.known.refuted(*above):
            return None
        for axis in (
            axis for axis, size in enumerate(low) if not size
        ):  # boxes of volume 0, which are infinitely many
            empty = [*above, eq(symbols[axis], 0)]
            found = self.known.engine.model([*self.conds, *empty])
            if found is not None:
                return tuple(found.get(name, size) for name, size in zip(self.names, low, strict=True))
            self._proved = self._proved and self.known.refuted(*empty)
        low = tuple(max(size, 1) for size in low)
        waiting, seen = [(prod(low), low)], {low}
        while waiting and self._tried < MAX_TRIED:
            self._tried += 1
            _, box = heappop(waiting)
            accepted = self._accepted(box)
            if accepted:
                return box
            if accepted is None:
                break
            for axis in range(len(box)):
                more = (*box[:axis], box[axis] + 1, *box[axis + 1 :])
                if more not in seen:
                    seen.add(more)
                    heappush(waiting, (prod(more), more))
        self._proved = False
        one = self.searches[0]
        try:
            nearest = Sizes(one.analysis, one.bind).nearest(dict(zip(self.names, low, strict=True)), "above")
        except NoSizes:
            return None
        return tuple(nearest[name] for name in self.names)

    def _accepted(self, box: Box) -> bool | None:
        """Return True if some sizes of the other symbols make this box accepted, or None if unknown."""
        sizes = dict(zip(self.names, box, strict=True))
        known = [(test, cond) for test, cond in self.tests if cond.free <= sizes.keys()]
        if any(compiled_truth(test, cond, sizes) is False for test, cond in known):
            return False
        if all(cond.free <= sizes.keys() for cond in self.conds):
            return True
        self._asked += 1
        if self._asked > MAX_ASKED:
            return None
        fixed = [eq(one.symbol, sizes[one.name]) for one in self.searches]
        if self.known.engine.model([*self.conds, *fixed]) is not None:
            return True
        return False if self.known.refuted(*fixed) else None


def chosen_boxes(counts: dict[Box, int], k: int, smallest: SmallestBoxes) -> tuple[list[Box], bool]:
    """Return at most `k` accepted boxes with little padding, and True if the padding is proved minimal.

    Raises:
        NoSizes: If no `k` accepted boxes contain all sizes.
        ValueError: If there are too many sizes, or they are too large.
    """
    merged: dict[Box, int] = {}
    for size, count in counts.items():
        box = smallest.above(size)
        if box is None:
            wanted = sizes_text(dict(zip(smallest.names, size, strict=True)))
            raise NoSizes(f"no accepted sizes are at least {wanted}")
        item = (
            box if smallest.apart else size
        )  # a box that contains the size then contains the smallest box around it
        merged[item] = merged.get(item, 0) + count
    items = sorted(merged)
    if len(items) > MAX_BOXES:
        raise ValueError(
            f"too many different sizes to pad to: {len(items):,}, the maximum is {MAX_BOXES:,}; round the observed sizes"
        )
    boxes, whole = _candidates(items, smallest)
    worst = max(map(prod, boxes)) * sum(merged.values())
    if worst >= NO_FIT:
        raise ValueError(f"the padded volumes are too large: up to {worst:,} in total")
    fits = (np.array(boxes)[:, None, :] >= np.array(items)[None, :, :]).all(axis=2)
    volumes = np.array([prod(box) for box in boxes], dtype=np.int64)
    weights = np.array([merged[item] for item in items], dtype=np.int64)
    search = _Median(np.where(fits, volumes[:, None] * weights[None, :], NO_FIT), min(k, len(boxes)))
    opened = search.run()
    if not opened:
        raise NoSizes(f"found no {k} accepted boxes that contain all sizes")
    return [boxes[c] for c in opened], whole and search.whole and smallest.proved


def _candidates(items: Sequence[Box], smallest: SmallestBoxes) -> tuple[list[Box], bool]:
    """Return the smallest accepted boxes around unions of items, and False if unions were left out."""
    whole = tuple(map(max, *items)) if len(items) > 1 else items[0]
    joins = dict.fromkeys([*items, whole])
    waiting = list(joins)
    while waiting and len(joins) < MAX_BOXES:
        join = waiting.pop()
        more = dict.fromkeys(tuple(map(max, join, item)) for item in items)
        waiting += [one for one in more if one not in joins]
        joins |= more
    boxes = dict.fromkeys(box for join in joins if (box := smallest.above(join)) is not None)
    return list(boxes), not waiting


class _Node(NamedTuple):
    """Node of the branch and bound search: chosen and remaining candidates, and prices for the bound."""

    opened: list[int]
    free: Ints
    prices: Ints


class _Median:
    """k-median solver: selects at most `k` rows of a cost matrix with the minimum sum of column minima.

    Attributes:
        whole: True if the search was exhaustive.
    """

    def __init__(self, costs: Ints, k: int) -> None:
        self.costs, self.k, self.whole = costs, k, True
        self.best, self.chosen = NO_FIT, list[int]()
        self._work, self._dearest = 0, NO_FIT // (k * costs.shape[1])

    def run(self) -> list[int]:
        """Return the selected rows, or none if no selection covers all columns."""
        self._greedy()
        while self.chosen and any(self._try(self._replaced(i)) for i in range(len(self.chosen))):
            pass
        start = self.costs[self.chosen].min(axis=0) if self.chosen else self.costs.min(axis=0)
        waiting = [_Node([], np.arange(len(self.costs)), np.minimum(start, self._dearest))]
        while waiting and self._work < MAX_WORK:
            waiting += self._branches(waiting.pop())
        self.whole = not waiting
        return sorted(self.chosen)

    def _greedy(self) -> None:
        """Find an initial solution by adding the row that lowers the sum most, `k` times.

        A column without a cost counts as the maximum cost.
        """
        cost, rows = np.full(self.costs.shape[1], NO_FIT // self.costs.shape[1]), list[int]()
        for _ in range(self.k):
            rows.append(int(np.argmin(np.minimum(self.costs, cost).sum(axis=1))))
            cost = np.minimum(cost, self.costs[rows[-1]])
            self._try(rows)

    def _replaced(self, i: int) -> list[int]:
        """Return the solution with its i-th row replaced by the best other row."""
        others = [row for j, row in enumerate(self.chosen) if j != i]
        cost = self.costs[others].min(axis=0) if others else np.full(self.costs.shape[1], NO_FIT)
        least = np.minimum(self.costs, cost)
        sums = np.where((least < NO_FIT).all(axis=1), np.where(least < NO_FIT, least, 0).sum(axis=1), NO_FIT)
        return [*others, int(np.argmin(sums))]

    def _try(self, rows: Iterable[int]) -> bool:
        """Keep these rows if they are better than the best so far."""
        listed = list(dict.fromkeys(rows))
        least = self.costs[listed].min(axis=0)
        cost = NO_FIT if (least >= NO_FIT).any() else int(least.sum())
        if cost >= self.best:
            return False
        self.best, self.chosen = cost, listed
        return True

    def _branches(self, node: _Node) -> list[_Node]:
        """Return child nodes with and without one more row, or none if the bound excludes an improvement.

        For any prices, their sum minus the maximum that `k` rows save on them is a lower bound.
        """
        opened, free, prices = node
        left = self.k - len(opened)
        if opened:
            self._try(opened)
        if not left or not len(free):
            return []
        fixed, own = self.costs[opened], self.costs[free]
        bound, scale, kept = -NO_FIT, 2.0, prices
        for _ in range(BOUND_STEPS // 8 if opened else BOUND_STEPS):
            self._work += own.size
            gains = np.minimum(own - prices, 0).sum(axis=1)
            order = np.argsort(gains, kind="stable")
            top = order[:left]
            now = int(prices.sum() + np.minimum(fixed - prices, 0).sum() + gains[top].sum())
            self._try([*opened, *map(int, free[top])])
            served = (own[top] < prices).sum(axis=0) + (fixed < prices).sum(axis=0)
            if now > bound:
                bound, kept = now, prices
                if bound >= self.best:
                    return []
                if len(order) > left:  # rows that cannot be part of a better solution
                    may = order[
                        (np.arange(len(order)) < left) | (bound - gains[top[-1]] + gains[order] < self.best)
                    ]
                    free, own = free[may], own[may]
            else:
                scale *= 0.95
            slope = 1 - served
            norm = int((slope * slope).sum())
            if not norm:
                break
            target = self.best if self.best < NO_FIT else 2 * abs(now) + 1
            step = np.rint(scale * max(target - now, 1) / norm * slope).astype(np.int64)
            prices = np.clip(prices + step, 0, self._dearest)
        row, others = int(free[0]), free[1:]
        return [_Node(opened, others, kept), _Node([*opened, row], others, kept)]
