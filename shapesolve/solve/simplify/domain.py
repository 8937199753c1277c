"""`Domain`: the sizes that satisfy some conditions, with samples of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from random import Random
from typing import Any

import numpy as np

from ...expr import Cond, Dim, ge, le, of_atom
from ...expr.traverse import atoms_of
from ..cone_of_influence import reached
from ..engine import Engine
from ..facts import budget
from ..known import Known, Plainly
from ..tables import Inexact, Sizes, Table

#: values per symbol in a table of accepted sizes, by the number of symbols
_POOL = {1: 64, 2: 64, 3: 14, 4: 8}

Points = Mapping[str, Sizes]


class Domain(Known):
    """All sizes at which `conds` hold, with samples of them.

    >>> from shapesolve.expr import parse_cond
    >>> Domain([parse_cond("height % 8 == 0")]).follows(parse_cond("4*(height//8) == height//2"))
    True
    """

    def __init__(self, conds: Iterable[Cond] = (), engine: Engine | None = None) -> None:
        plainly = Plainly()
        parts = [part for c in map(plainly.cond, conds) for part in (c.args if c.kind == "and" else (c,))]
        self.conds = tuple(dict.fromkeys(c for c in parts if not c.is_true))
        super().__init__(sorted(self.conds, key=lambda c: len(c.free) > 1), engine, plainly)
        self.facts = self.learn()
        self._reached: dict[frozenset[str], frozenset[str]] = {}
        self._points: dict[frozenset[str], Points | None] = {}
        self._alone: dict[str, list[Cond]] = {}
        self._symbols: dict[str, Dim] = {}
        self._meet(*self.conds)

    # ------------------------------------------------------------------ single symbols

    def alone(self, name: str) -> list[Cond]:
        """Known conditions on the symbol `name` alone."""
        found = self._alone.get(name)
        if found is None:
            found = [c for c in self.conds if c.free == {name}]
            low, high = self.facts.intervals.get(name, (None, None))
            if low is not None:
                found.append(ge(self._symbols[name], low))
            if high is not None:
                found.append(le(self._symbols[name], high))
            found = self._alone[name] = [c for c in dict.fromkeys(found) if not c.is_true]
        return found

    def symbol(self, name: str) -> Dim:
        """The symbol of this name as it occurred in expressions (with its minimum)."""
        return self._symbols[name]

    def _meet(self, *nodes: Dim | Cond) -> None:
        for atom in atoms_of(*nodes):
            if atom.kind == "sym" and (atom.args[0] not in self._symbols or atom.args[1] is None):
                self._symbols[atom.args[0]] = of_atom(atom)

    # ------------------------------------------------------------------ tables

    def points(self, node: Dim | Cond) -> Points | None:
        """Return accepted sample sizes of the symbols in `node` and of all connected symbols, as arrays of equal length;
        None if none is found.
        """
        self._meet(node)
        wanted = self._reached.get(node.free)
        if wanted is None:
            linked = reached(node.free, self._links)
            wanted = self._reached[node.free] = node.free.union(*(c.free for c in linked))
        if wanted not in self._points:
            self._points[wanted] = self._tabulated(sorted(wanted))
        return self._points[wanted]

    def _tabulated(self, names: list[str]) -> Points | None:
        if not names:
            return None
        length = _POOL.get(len(names), 8)
        pools = [self._pool(name, length) for name in names]
        if len(names) in _POOL:
            grid = np.meshgrid(*pools, indexing="ij")
            columns: dict[str, Any] = {n: g.ravel() for n, g in zip(names, grid, strict=True)}
        else:
            picks = _picks(tuple(map(len, pools)))
            columns = {n: np.array(pool)[at] for n, pool, at in zip(names, pools, picks, strict=True)}
        inside = [c for c in self.conds if not c.free.isdisjoint(names)]
        try:
            table, held = Table(columns), np.ones(len(columns[names[0]]), dtype=np.bool_)
            for c in inside:
                held &= np.broadcast_to(table.truth(c), held.shape)
        except Inexact:
            return None
        return {n: column[held] for n, column in columns.items()} if held.any() else None

    def _pool(self, name: str, length: int) -> list[int]:
        least = self._symbols[name].lo
        low = -3 if least is None else least
        solutions = self.engine.regular.solutions(self.alone(name), name, 0) if low == 0 else None
        if solutions is None or not len(solutions.sizes):
            return list(range(low, low + length))
        sizes = [int(s) for s in solutions.sizes]
        if len(sizes) < length and solutions.endless:
            step = (sizes[-1] - sizes[0]) // max(len(sizes) - 1, 1) or 1
            more = range(sizes[-1] + step, sizes[-1] + step * (length - len(sizes) + 1), step)
            sizes += [s for s in more if all(c.evaluate({name: s}) for c in self.alone(name))]
        if len(sizes) <= length:
            return sizes
        near = length * 3 // 4  # small sizes, where clamps end, and some large ones
        far = sizes[near:][:: max((len(sizes) - near) // (length - near), 1)]
        return sizes[:near] + far[: length - near]


@lru_cache(maxsize=8)  # one term is shortened many times together with the same symbols
def _picks(lengths: tuple[int, ...]) -> Sizes:
    """Random indices into tables that are too large to use in full. There is a row for each pool of these lengths."""
    random = Random(len(lengths))
    return np.array(
        [random.choices(range(length), k=budget.TABLE_SIZES) for length in lengths], dtype=np.int64
    )
