"""Settles numbers that the exports leave open: by the constraints of a trial model, or by a refusal.

In the trial model such a number is a generated symbol. Constraints that every run has to meet express most of them by the
input sizes. Of the others, fits of nearly the same length are held against these constraints at many sizes; the one that runs
at most of them is taken where it is the only one, and otherwise the exports have to decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from itertools import islice, pairwise, product

from ..analysis import Analysis
from ..change.refused import Refused
from ..expr import Cond, Dim
from .generalize_fit import MARGIN, Fit, Fitter

#: inputs of a trial model whose sizes are the generated symbols
OPEN = "generalize_open"
#: max axes of a trial input
OPEN_AXES = 8
#: length of a size that the model has somewhere, as a fit
_OF_THE_MODEL = 2
#: max factor between a number and a size of the model
_MAX_FACTOR = 16
#: combinations of fits that are tried together, of them those that are compared by conditions, and at how many sizes
_MAX_TRIED, _MAX_RIVALS, _MAX_POINTS = 1024, 64, 12
#: symbols that are decided together
_MAX_TOGETHER = 3


@dataclass(slots=True)
class Open:
    """A number that the exports leave open: a generated symbol.

    Attributes:
        name: the symbol.
        seen: what the symbol is in each export.
        low: what the symbol is less than the number.
        fits: expressions of the symbol.
        what: the number, in words.
    """

    name: str
    seen: list[int]
    low: int
    fits: list[Fit]
    what: str

    def fitting(self, pool: Mapping[tuple[int, ...], list[Fit]]) -> list[Fit]:
        """Expressions of the symbol: simple ones, and sizes that the model has."""
        number = [v + self.low for v in self.seen]
        moved = []
        for k in (k for k in range(1, _MAX_FACTOR + 1) if all(v % k == 0 for v in number)):
            for f in pool.get(tuple(v // k for v in number), ()):
                cost = f.cost + (k.bit_length() + 1 if k > 1 else 0)
                moved.append(
                    Fit(f.dim * k - self.low, cost, tuple(v * k - self.low for v in f.values), k > 1)
                )
        return [*self.fits, *moved]


class Settler:
    """Finds what generated symbols follow.

    Args:
        analysis: of the trial model.
        opens: the numbers that are open.
        sizes: of the symbols, in each export.
        fitter: compares expressions.
        kept: open numbers, and the size that an operator would keep if they were that size.
    """

    def __init__(
        self,
        analysis: Analysis,
        opens: Seq[Open],
        sizes: Seq[Mapping[str, int]],
        fitter: Fitter,
        kept: Seq[tuple[str, Dim]],
    ) -> None:
        self.analysis, self.opens, self.sizes, self.fitter, self._keeps = analysis, opens, sizes, fitter, kept
        self.symbols = frozenset(sizes[0])
        shape = [
            d for k in range(0, len(opens), OPEN_AXES) for d in analysis.shapes[f"{OPEN}_in_{k // OPEN_AXES}"]
        ]
        #: each symbol by those that no constraint expresses
        self.now = {o.name: analysis._solved.facts.dim(d) for o, d in zip(opens, shape, strict=True)}
        self._given = {o.name: f"{OPEN}_in_{k // OPEN_AXES}_d{k % OPEN_AXES}" for k, o in enumerate(opens)}
        log = [e.cond for e in analysis._solved.walk.state.log if e.role == "requirement" and e.guard.is_true]
        self._conds = [c for c in dict.fromkeys(log) if c.kind in ("==", "or")]
        #: what those symbols turn out to be, and all symbols
        self.roots: dict[str, Dim] = {}
        self.settled = {name: d for name, d in self.now.items() if d.free <= self.symbols}

    def settle(self) -> dict[str, Dim]:
        """The expression of each symbol.

        Raises:
            Refused: the exports leave it open, or contradict the constraints.
        """
        left = {n for d in self.now.values() for n in d.free} - self.symbols
        while left:
            group = self._next(left)
            made, to = self._group(group)
            self.settled.update(made)
            self.roots.update(to)
            left -= {*group}
        for o in self.opens:
            for k, sizes in enumerate(self.sizes):
                if self.settled[o.name].evaluate(sizes) != o.seen[k]:
                    needed = self.settled[o.name] + o.low
                    raise Refused(
                        f"{o.what} is {o.seen[k] + o.low} in an export, where the model needs {needed}"
                    )
        return self.settled

    def size(self, dim: Dim) -> Dim:
        """A size of the trial model by the input sizes, as far as it is settled."""
        found: Dim = self.analysis._solved.facts.dim(dim).subs(self.roots)
        return found

    def _next(self, left: set[str]) -> list[str]:
        """Symbols to settle next: the fewest in one condition, else those that most numbers depend on."""
        ties = _ties([d.free & left for d in self.now.values()])
        raw = {self._given[n]: d.free & left for n, d in self.now.items()}
        best: set[str] = set()
        for cond in self._conds:
            some = {root for name in cond.free for root in raw.get(name, ())}
            together = {tied for root in some for tied in ties[root]}
            if together and len(together) <= _MAX_TOGETHER and (not best or len(together) < len(best)):
                best = together
        if not best:
            counts = {root: sum(root in d.free for d in self.now.values()) for root in left}
            best = ties[max(sorted(left), key=lambda root: counts[root])]
        return sorted(best)

    def _pool(self) -> dict[tuple[int, ...], list[Fit]]:
        """Sizes that tensors of the model have, by what they are in the exports."""
        found: dict[tuple[int, ...], list[Fit]] = {}
        for d in dict.fromkeys(self.size(d) for shape in self.analysis.shapes.values() for d in shape):
            if d.terms and d.free <= self.symbols:
                seen = tuple(d.evaluate(s) or 0 for s in self.sizes)
                found.setdefault(seen, []).append(Fit(d, _OF_THE_MODEL, self.fitter.at(d)))
        return found

    def _kept(self) -> dict[str, Dim]:
        """Open sizes of a resize that keeps its axis in every export. They become the size of that axis."""
        found: dict[str, Dim] = {}
        by_name = {o.name: o for o in self.opens}
        for name, dim in self._keeps:
            o, size = by_name[name], self.size(dim)
            if size.free <= self.symbols and all(
                size.evaluate(s) == v + o.low for s, v in zip(self.sizes, o.seen, strict=True)
            ):
                found.setdefault(name, size - o.low)
        return found

    def _group(self, group: Seq[str]) -> tuple[dict[str, Dim], dict[str, Dim]]:
        """Expressions of the numbers that depend on these symbols, and of the symbols."""
        pool, kept, now = self._pool(), self._kept(), {n: d.subs(self.roots) for n, d in self.now.items()}
        mine = [o for o in self.opens if not now[o.name].free.isdisjoint(group)]
        options: list[list[Fit]] = []
        for root in group:
            alone = [o for o in mine if now[o.name].name == root]
            same = next((kept[o.name] for o in alone if o.name in kept), None)
            found: dict[tuple[int, ...], Fit] = {}
            for fit in (f for o in alone for f in o.fitting(pool)):
                known = found.get(fit.values, fit)
                shorter = fit if fit.cost < known.cost else known
                found[fit.values] = replace(shorter, multiple=fit.multiple or known.multiple)
            if not found:
                raise self._undecided(mine[0], [])
            # a fit that takes more to say than the numbers hold shows nothing
            held = max(sum((v + o.low).bit_length() for v in o.seen) for o in alone)
            by_cost = sorted(found.values(), key=lambda f: f.cost)
            if by_cost[0].cost > held and same is None:
                raise self._undecided(alone[0], [])
            options.append(by_cost if same is None else [Fit(same, 0, self.fitter.at(same))])
        tried: list[tuple[int, dict[str, Dim], dict[str, Dim], bool]] = []
        for some in islice(product(*options), _MAX_TRIED):
            to = {root: fit.dim for root, fit in zip(group, some, strict=True)}
            made = {o.name: now[o.name].subs(to) for o in mine if now[o.name].free <= {*group, *self.symbols}}
            if all(
                made[o.name].evaluate(s) == o.seen[k]
                for o in mine
                if o.name in made
                for k, s in enumerate(self.sizes)
            ):
                cost = sum(self._cost(o, made[o.name], pool) for o in mine if o.name in made)
                tried.append((cost, made, to, any(fit.multiple for fit in some)))
        if not tried:
            raise self._undecided(mine[0], [])
        tried.sort(key=lambda t: t[0])
        rivals = [t for t in tried if t[3] or t[0] <= tried[0][0] + MARGIN * len(mine)][:_MAX_RIVALS]
        counts = [self._broken(made) for _, made, _, _ in rivals]
        runs = [t for t, count in zip(rivals, counts, strict=True) if count == min(counts)]
        best = runs[0]
        plain = all(self.fitter.is_plain(d + o.low) for o in mine if (d := best[1].get(o.name)) is not None)
        margin = len(mine) if plain else MARGIN
        for _, other, _, _ in (t for t in runs[1:] if t[3] or t[0] <= best[0] + margin):
            for o in mine:
                if o.name in other and self.fitter.at(other[o.name]) != self.fitter.at(best[1][o.name]):
                    raise self._undecided(o, [best[1][o.name], other[o.name]])
        return best[1], best[2]

    def _broken(self, made: Mapping[str, Dim]) -> int:
        """At how many sizes a condition on these numbers does not hold."""
        names = {self._given[n] for n in made}
        dims = {self._given[n]: d for n, d in {**self.settled, **made}.items()}
        conds = [
            c for c in self._conds if not c.free.isdisjoint(names) and c.free <= dims.keys() | self.symbols
        ]
        needed = frozenset[str]().union(*[c.free for c in conds])
        columns = {n: self.fitter.at(d) for n, d in dims.items() if n in needed}
        points = self.fitter.points
        return sum(
            _fails(conds, {**points[k], **{n: v[k] for n, v in columns.items()}})
            for k in range(0, len(points), max(1, len(points) // _MAX_POINTS))
        )

    def broken_at(self) -> Iterator[Mapping[str, int]]:
        """Sizes at which a condition of the trial model does not hold."""
        dims = {self._given[n]: d for n, d in self.settled.items()}
        conds = [c for c in self._conds if c.free <= dims.keys() | self.symbols]
        points = self.fitter.points
        for k in range(0, len(points), max(1, len(points) // _MAX_POINTS)):
            if _fails(conds, {**points[k], **{n: self.fitter.at(d)[k] for n, d in dims.items()}}):
                yield points[k]

    def _cost(self, o: Open, dim: Dim, pool: Mapping[tuple[int, ...], list[Fit]]) -> int:
        values = self.fitter.at(dim)
        return min(
            (f.cost for f in o.fitting(pool) if f.values == values), default=2 * _OF_THE_MODEL + dim.size
        )

    def _undecided(self, o: Open, between: Seq[Dim]) -> Refused:
        shown = " and ".join(str(v + o.low) for v in o.seen)
        if len(between) < 2:
            return Refused(f"{o.what} is {shown} in the exports: no simple expression of the sizes fits")
        a, b = (d + o.low for d in between[:2])
        near = self.sizes[-1]
        telling = [p for p in self.fitter.points if a.evaluate(p) != b.evaluate(p)]
        point = min(telling, key=lambda p: sum(abs(p[n] - near[n]) for n in near), default=None)
        where = "" if point is None else ", ".join(f"{n} = {point[n]}" for n in sorted(a.free | b.free))
        settle = f": an export with {where} would settle it" if where else ""
        return Refused(f"{o.what} is {shown} in the exports, which may be {a} or {b}{settle}")


def _fails(conds: Seq[Cond], sizes: Mapping[str, int]) -> bool:
    return any(c.evaluate(sizes) is False for c in conds)


def _ties(together: Seq[frozenset[str]]) -> dict[str, set[str]]:
    """For each name those that stand in one expression with it, directly or by way of others."""
    import networkx as nx

    graph: nx.Graph[str] = nx.Graph()
    for some in together:
        graph.add_nodes_from(some)
        graph.add_edges_from(pairwise(sorted(some)))
    return {name: found for found in nx.connected_components(graph) for name in found}


__all__ = ["OPEN", "OPEN_AXES", "Open", "Settler"]
