"""Settles numbers that the exports leave open: by the constraints of a trial model, or by a refusal.

In the trial model such a number is a generated symbol. Constraints that every run has to meet express most of them by the
input sizes. Of the others, fits of nearly the same length are held against these constraints at many sizes; the one that runs
at most of them is taken where it is the only one, and otherwise the exports have to decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from itertools import islice, pairwise, product

import networkx as nx

from ..analysis import Analysis
from ..change.refused import Refused
from ..expr import Dim
from ..expr.sizes import sizes_text
from .generalize_fit import MARGIN, OPEN, Fit, Fitter, Open

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


@dataclass(frozen=True, slots=True)
class _Answer:
    """Expressions of a group of symbols, and of the numbers that depend on them, with their length."""

    cost: int
    made: Mapping[str, Dim]
    roots: Mapping[str, Dim]
    multiple: bool


class Settler:
    """Finds what generated symbols follow.

    Args:
        analysis: of the trial model.
        opens: the numbers that are open.
        fitter: compares expressions.
        kept: open numbers, and the size that an operator would keep if they were that size.
    """

    def __init__(
        self, analysis: Analysis, opens: Seq[Open], fitter: Fitter, kept: Seq[tuple[Open, Dim]]
    ) -> None:
        self.analysis, self.opens, self.fitter, self._keeps = analysis, opens, fitter, kept
        self.sizes, self.symbols = fitter.sizes, frozenset(fitter.sizes[0])
        solved = analysis._solved
        self._given = {o.name: f"{OPEN}_in_{k // OPEN_AXES}_d{k % OPEN_AXES}" for k, o in enumerate(opens)}
        #: each symbol by those that no constraint expresses
        self._now = {
            o.name: solved.facts.dim(analysis.shapes[f"{OPEN}_in_{k // OPEN_AXES}"][k % OPEN_AXES])
            for k, o in enumerate(opens)
        }
        log = [e.cond for e in solved.walk.state.log if e.role == "requirement" and e.guard.is_true]
        self._conds = [c for c in dict.fromkeys(log) if c.kind in ("==", "or")]
        #: what those symbols turn out to be, and all symbols
        self._roots: dict[str, Dim] = {}
        self._settled = {name: d for name, d in self._now.items() if d.free <= self.symbols}

    def settle(self) -> dict[str, Dim]:
        """The expression of each symbol.

        Raises:
            Refused: the exports leave it open, or contradict the constraints.
        """
        left = {n for d in self._now.values() for n in d.free} - self.symbols
        while left:
            group = self._next(left)
            found = self._answer(group)
            self._settled.update(found.made)
            self._roots.update(found.roots)
            left -= {*group}
        for o in self.opens:
            if self._at_exports(self._settled[o.name]) != o.seen:
                shown, needed = _shown(o), self._settled[o.name] + o.low
                raise Refused(f"{o.what} is {shown} in the exports, where the model needs {needed}")
        return self._settled

    def size(self, dim: Dim) -> Dim:
        """A size of the trial model by the input sizes, as far as it is settled."""
        found: Dim = self.analysis._solved.facts.dim(dim).subs(self._roots)
        return found

    def _at_exports(self, dim: Dim) -> list[int | None]:
        return [dim.evaluate(s) for s in self.sizes]

    def _next(self, left: set[str]) -> list[str]:
        """Symbols to settle next: the fewest in one condition, else those that most numbers depend on."""
        ties = _ties([d.free & left for d in self._now.values()])
        raw = {self._given[n]: d.free & left for n, d in self._now.items()}
        groups = []
        for cond in self._conds:
            roots = {root for name in cond.free for root in raw.get(name, ())}
            groups.append({tied for root in roots for tied in ties[root]})
        groups = [g for g in groups if 0 < len(g) <= _MAX_TOGETHER]
        counts = {root: sum(root in d.free for d in self._now.values()) for root in left}
        best = min(groups, key=len) if groups else ties[max(sorted(left), key=lambda root: counts[root])]
        return sorted(best)

    def _pool(self) -> dict[tuple[int | None, ...], list[Fit]]:
        """Sizes that tensors of the model have, by what they are in the exports."""
        found: dict[tuple[int | None, ...], list[Fit]] = {}
        for d in dict.fromkeys(self.size(d) for shape in self.analysis.shapes.values() for d in shape):
            if d.terms and d.free <= self.symbols:
                seen = tuple(self._at_exports(d))
                found.setdefault(seen, []).append(Fit(d, _OF_THE_MODEL, self.fitter.at(d)))
        return found

    def _fitting(self, o: Open, pool: Mapping[tuple[int | None, ...], Seq[Fit]]) -> list[Fit]:
        """Expressions of an open number's symbol: simple ones, and multiples of sizes that the model has."""
        numbers, moved = [v + o.low for v in o.seen], []
        for k in (k for k in range(1, _MAX_FACTOR + 1) if all(v % k == 0 for v in numbers)):
            for f in pool.get(tuple(v // k for v in numbers), ()):
                cost = f.cost + (k.bit_length() + 1 if k > 1 else 0)
                moved.append(Fit(f.dim * k - o.low, cost, tuple(v * k - o.low for v in f.values), k > 1))
        return [*o.fits, *moved]

    def _answer(self, group: Seq[str]) -> _Answer:
        """Expressions of the numbers that depend on these symbols, and of the symbols.

        Raises:
            Refused: none fits, or several do and nothing decides.
        """
        now = {n: d.subs(self._roots) for n, d in self._now.items()}
        mine = [o for o in self.opens if not now[o.name].free.isdisjoint(group)]
        whole = [o for o in mine if now[o.name].free <= {*group, *self.symbols}]
        pool = self._pool()
        fitting = {o.name: self._fitting(o, pool) for o in mine}
        alone = [[o for o in mine if now[o.name].name == root] for root in group]
        if [] in alone:
            raise self._undecided(mine[0])
        options = [self._options(some, fitting) for some in alone]
        answers = []
        for some in islice(product(*options), _MAX_TRIED):
            to = {root: fit.dim for root, fit in zip(group, some, strict=True)}
            made = {o.name: now[o.name].subs(to) for o in whole}
            if all(self._at_exports(made[o.name]) == o.seen for o in whole):
                cost = sum(self._cost(made[o.name], fitting[o.name]) for o in whole)
                answers.append(_Answer(cost, made, to, any(fit.multiple for fit in some)))
        if not answers:
            raise self._undecided(mine[0])
        answers.sort(key=lambda a: a.cost)
        limit = answers[0].cost + MARGIN * len(mine)
        rivals = [a for a in answers if a.multiple or a.cost <= limit][:_MAX_RIVALS]
        counts = [self._broken(a.made) for a in rivals]
        best, *others = [a for a, count in zip(rivals, counts, strict=True) if count == min(counts)]
        plain = all(self.fitter.is_plain(best.made[o.name] + o.low) for o in whole)
        limit = best.cost + (len(mine) if plain else MARGIN)
        for other in (a for a in others if a.multiple or a.cost <= limit):
            for o in whole:
                if self.fitter.at(other.made[o.name]) != self.fitter.at(best.made[o.name]):
                    raise self._undecided(o, best.made[o.name], other.made[o.name])
        return best

    def _options(self, alone: Seq[Open], fitting: Mapping[str, Seq[Fit]]) -> list[Fit]:
        """Expressions of a symbol that these numbers are, the shortest first."""
        for o, dim in self._keeps:
            size = self.size(dim)
            if o in alone and size.free <= self.symbols and self._at_exports(size - o.low) == o.seen:
                return [Fit(size - o.low, 0, self.fitter.at(size - o.low))]
        found: dict[tuple[int, ...], Fit] = {}
        for fit in (f for o in alone for f in fitting[o.name]):
            known = found.get(fit.values, fit)
            shorter = fit if fit.cost < known.cost else known
            found[fit.values] = replace(shorter, multiple=fit.multiple or known.multiple)
        options = sorted(found.values(), key=lambda f: f.cost)
        # a fit that takes more to say than the numbers hold shows nothing
        held = max(sum((v + o.low).bit_length() for v in o.seen) for o in alone)
        if not options or options[0].cost > held:
            raise self._undecided(alone[0])
        return options

    def _broken(self, made: Mapping[str, Dim]) -> int:
        """At how many sizes a condition on these numbers does not hold."""
        names = {self._given[n] for n in made}
        dims = {self._given[n]: d for n, d in {**self._settled, **made}.items()}
        every = dims.keys() | self.symbols
        conds = [c for c in self._conds if not c.free.isdisjoint(names) and c.free <= every]
        needed = {n for c in conds for n in c.free}
        columns = {n: self.fitter.at(d) for n, d in dims.items() if n in needed}
        points = self.fitter.points
        some = range(0, len(points), max(1, len(points) // _MAX_POINTS))
        at = ({**points[k], **{n: v[k] for n, v in columns.items()}} for k in some)
        return sum(any(c.evaluate(sizes) is False for c in conds) for sizes in at)

    def _cost(self, dim: Dim, fits: Seq[Fit]) -> int:
        values = self.fitter.at(dim)
        return min((f.cost for f in fits if f.values == values), default=2 * _OF_THE_MODEL + dim.size)

    def _undecided(self, o: Open, *between: Dim) -> Refused:
        if not between:
            return Refused(f"{o.what} is {_shown(o)} in the exports: no simple expression of the sizes fits")
        a, b = (d + o.low for d in between)
        near = self.sizes[-1]
        telling = [p for p in self.fitter.points if a.evaluate(p) != b.evaluate(p)]
        point = min(telling, key=lambda p: sum(abs(p[n] - near[n]) for n in near), default={})
        where = sizes_text(point, sorted(a.free | b.free))
        settle = f": an export with {where} would settle it" if where else ""
        return Refused(f"{o.what} is {_shown(o)} in the exports, which may be {a} or {b}{settle}")


def _shown(o: Open) -> str:
    return " and ".join(str(v + o.low) for v in o.seen)


def _ties(together: Iterable[frozenset[str]]) -> dict[str, set[str]]:
    """For each name those that stand in one expression with it, directly or by way of others."""
    graph: nx.Graph[str] = nx.Graph()
    for some in together:
        graph.add_nodes_from(some)
        graph.add_edges_from(pairwise(sorted(some)))
    return {name: found for found in nx.connected_components(graph) for name in found}
