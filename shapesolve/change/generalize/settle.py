"""Chooses expressions for undetermined numbers, and rejects coincidences.

Each such number is a generated symbol in the trial model. The model's constraints express most of them by the input sizes. For
the others, fits of nearly the same length are checked against the constraints at many sizes on the progressions through the
exports. Rival fits that run there must also be equal there; otherwise another export has to decide.

Coincidences that allow no conclusion about other sizes are refused: a number that is also a part of a size in all exports,
padding that may fill up to a multiple, and an axis that has the same limit in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from itertools import islice, pairwise, product
from math import gcd
from typing import TypeAlias

import networkx as nx

from ...analysis import Analysis
from ...expr import Dim
from ...expr.sizes import sizes_text
from ...expr.traverse import atoms_of
from ...lower.reads import AXES, NEW_AXES, PADS, TARGET
from ...lower.rule import Reading
from ...model import Node
from ..limits import MARGIN, MAX_FACTOR, MAX_POINTS, MAX_RIVALS, MAX_TOGETHER, MAX_TRIED, OPEN_AXES
from ..provenance.walk import trace
from ..refused import Refused
from .fit import OPEN, Fit, Fitter, OpenNumber, coincident
from .match import Matched, StoredOperand

#: the use of an operand's numbers, by node and index
Reads: TypeAlias = Callable[[Node, int], "Reading | None"]


@dataclass(frozen=True, slots=True)
class _Answer:
    """Expressions for a group of open symbols and the numbers that depend on them, with total length."""

    cost: int
    made: Mapping[str, Dim]
    roots: Mapping[str, Dim]
    multiple: bool


class Settler:
    """Chooses an expression of the input sizes for each open symbol.

    Args:
        analysis: Analysis of the trial model.
        opens: The undetermined numbers.
        fitter: Fitter of the exports' sizes, which compares expressions.
        kept: Undetermined numbers with an axis size that an operator keeps if they are equal to it.
    """

    def __init__(
        self, analysis: Analysis, opens: Seq[OpenNumber], fitter: Fitter, kept: Seq[tuple[OpenNumber, Dim]]
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
        log = [e.cond for e in solved.lowered.log if e.role == "requirement" and e.guard.is_true]
        self._conds = [c for c in dict.fromkeys(log) if c.kind in ("==", "or")]
        #: expressions of those symbols, and of all symbols
        self._roots: dict[str, Dim] = {}
        #: symbols for which nothing is decided outside the progressions through the exports, with the reason
        self.open_outside: dict[str, str] = {}
        self._settled = {name: d for name, d in self._now.items() if d.free <= self.symbols}

    def settle(self) -> dict[str, Dim]:
        """Returns the chosen expression of each open symbol.

        Raises:
            Refused: If the exports are ambiguous or contradict the constraints.
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
        """A dim of the trial model as an expression of the input sizes, with chosen expressions put in."""
        found: Dim = self.analysis._solved.facts.dim(dim).subs(self._roots)
        return found

    def _at_exports(self, dim: Dim) -> list[int | None]:
        return [dim.evaluate(s) for s in self.sizes]

    def _next(self, left: set[str]) -> list[str]:
        """Return the symbols to determine next: the smallest group in one condition, or else the group with most dependents."""
        ties = _ties([d.free & left for d in self._now.values()])
        raw = {self._given[n]: d.free & left for n, d in self._now.items()}
        groups = []
        for cond in self._conds:
            roots = {root for name in cond.free for root in raw.get(name, ())}
            groups.append({tied for root in roots for tied in ties[root]})
        groups = [g for g in groups if 0 < len(g) <= MAX_TOGETHER]
        counts = {root: sum(root in d.free for d in self._now.values()) for root in left}
        best = min(groups, key=len) if groups else ties[max(sorted(left), key=lambda root: counts[root])]
        return sorted(best)

    def _pool(self) -> dict[tuple[int | None, ...], list[Fit]]:
        """All sizes of tensors in the trial model, by their values in the exports."""
        found: dict[tuple[int | None, ...], list[Fit]] = {}
        for d in dict.fromkeys(self.size(d) for shape in self.analysis.shapes.values() for d in shape):
            if d.terms and d.free <= self.symbols:
                seen = tuple(self._at_exports(d))
                found.setdefault(seen, []).append(Fit(d, MARGIN, self.fitter.at(d)))
        return found

    def _fitting(self, o: OpenNumber, pool: Mapping[tuple[int | None, ...], Seq[Fit]]) -> list[Fit]:
        """Candidates for an open number: simple expressions, and multiples of sizes in the model."""
        numbers, moved = [v + o.low for v in o.seen], []
        for k in (k for k in range(1, MAX_FACTOR + 1) if all(v % k == 0 for v in numbers)):
            for f in pool.get(tuple(v // k for v in numbers), ()):
                cost = f.cost + (k.bit_length() + 1 if k > 1 else 0)
                moved.append(Fit(f.dim * k - o.low, cost, tuple(v * k - o.low for v in f.values), k > 1))
        return [*o.fits, *moved]

    def _answer(self, group: Seq[str]) -> _Answer:
        """Return the best expressions for these symbols.

        Raises:
            Refused: If no expression fits, or several do and disagree.
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
        depth = max(2, int(MAX_TRIED ** (1 / len(options))))  # the shortest of each, so that none is left out
        for some in islice(product(*(fits[:depth] for fits in options)), MAX_TRIED):
            to = {root: fit.dim for root, fit in zip(group, some, strict=True)}
            made = {o.name: now[o.name].subs(to) for o in whole}
            if all(self._at_exports(made[o.name]) == o.seen for o in whole):
                costs: dict[
                    tuple[int, ...], int
                ] = {}  # equal numbers count once, and those that follow do not
                for o in whole:
                    values = self.fitter.at_shown(made[o.name])
                    costs[values] = max(costs.get(values, 0), self._cost(made[o.name], fitting[o.name]))
                free = len({self.fitter.at_shown(fit.dim) for fit in some})
                cost = sum(sorted(costs.values())[:free])
                answers.append(_Answer(cost, made, to, any(fit.multiple for fit in some)))
        if not answers:
            raise self._undecided(mine[0])
        answers.sort(key=lambda a: a.cost)
        limit = answers[0].cost + MARGIN * len(mine)
        rivals = [a for a in answers if a.multiple or a.cost <= limit][:MAX_RIVALS]
        counts = [self._broken(a.made, self.fitter.shown) for a in rivals]
        runs = [a for a, count in zip(rivals, counts, strict=True) if count == min(counts)]
        plain = all(self.fitter.is_plain(runs[0].made[o.name] + o.low) for o in whole)
        limit = runs[0].cost + (len(mine) if plain else MARGIN)
        everywhere = [
            (self._broken(a.made, self.fitter.points), a) for a in runs if a.multiple or a.cost <= limit
        ]
        least, best = min(everywhere, key=lambda entry: entry[0])
        for count, other in everywhere:
            for o in whole:
                a, b = best.made[o.name], other.made[o.name]
                if self.fitter.at(a) != self.fitter.at(b):
                    if self.fitter.at_shown(a) != self.fitter.at_shown(b):
                        raise self._undecided(o, a, b)
                    if count == least:
                        why = f"{o.what} may be {a + o.low} or {b + o.low}"
                        self.open_outside = {
                            **dict.fromkeys(sorted(a.free | b.free), why),
                            **self.open_outside,
                        }
        return best

    def _options(self, alone: Seq[OpenNumber], fitting: Mapping[str, Seq[Fit]]) -> list[Fit]:
        """Candidate expressions for a symbol that these numbers equal, the shortest first. Raises `Refused` without any."""
        for o, dim in self._keeps:
            size = self.size(dim) - o.low
            if o in alone and size.free <= self.symbols and self._at_exports(size) == o.seen:
                return [Fit(size, 0, self.fitter.at(size))]
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

    def _broken(self, made: Mapping[str, Dim], points: Seq[Mapping[str, int]]) -> int:
        names = {self._given[n] for n in made}
        dims = {self._given[n]: d for n, d in {**self._settled, **made}.items()}
        every = dims.keys() | self.symbols
        conds = [c for c in self._conds if not c.free.isdisjoint(names) and c.free <= every]
        needed = [n for n in dims if any(n in c.free for c in conds)]
        some = points[:: max(1, 8 * len(points) // MAX_POINTS)]
        at = ({**point, **{n: dims[n].evaluate(point) or 0 for n in needed}} for point in some)
        return sum(any(c.evaluate(sizes) is False for c in conds) for sizes in at)

    def _cost(self, dim: Dim, fits: Seq[Fit]) -> int:
        for at in (self.fitter.at, self.fitter.at_shown):
            values = at(dim)
            if costs := [f.cost for f in fits if at(f.dim) == values]:
                return min(costs)
        return 2 * MARGIN + dim.size

    def _undecided(self, o: OpenNumber, *between: Dim) -> Refused:
        if not between:
            return Refused(f"{o.what} is {_shown(o)} in the exports: no simple expression of the sizes fits")
        a, b = (d + o.low for d in between)
        near = self.sizes[-1]
        telling = [p for p in self.fitter.points if a.evaluate(p) != b.evaluate(p)]
        point = min(telling, key=lambda p: sum(abs(p[n] - near[n]) for n in near), default={})
        where = sizes_text(point, sorted(a.free | b.free))
        settle = f": an export with {where} would settle it" if where else ""
        return Refused(f"{o.what} is {_shown(o)} in the exports, which could mean {a} or {b}{settle}")


def _shown(o: OpenNumber) -> str:
    return " and ".join(str(v + o.low) for v in o.seen)


def _ties(together: Iterable[frozenset[str]]) -> dict[str, set[str]]:
    """Connected components: for each name, all names linked to it by shared expressions."""
    graph: nx.Graph[str] = nx.Graph()
    for some in together:
        graph.add_nodes_from(some)
        graph.add_edges_from(pairwise(sorted(some)))
    return {name: found for found in nx.connected_components(graph) for name in found}


# ---------------------------------------------------------------------- agreements by chance


def check_chance(
    analysis: Analysis, found: Matched, fixed: Seq[Analysis], fitter: Fitter, reads: Reads
) -> dict[str, str]:
    """Return symbols for which nothing is shown outside the progressions through the exports, with the reason.

    Raises `Refused` if the exports agree by chance.

    Args:
        analysis: Analysis of the new model.
        found: The matched exports.
        fixed: Analyses of the exports.
        fitter: Fitter with the symbols' sizes in each export, and numbers that are a part of an input size in all of them.
        reads: Returns the purpose of an operand.
    """
    sizes, first = fitter.sizes, fitter.sizes[0]
    dims: dict[Dim, str] = {}
    for name, d in ((name, d) for name, shape in analysis.shapes.items() for d in shape):
        if d.terms and d.free <= first.keys():
            dims.setdefault(d, name)
    for d, name in dims.items():
        if any(atom.kind == "pos" for atom in atoms_of(d)) and len({d.evaluate(s) for s in sizes}) == 1:
            raise Refused(
                f"{name} has an axis of size {d.evaluate(first)} in all exports, which is {d} at other sizes: an export with "
                "another size there is needed"
            )
    inner = coincident(dims, sizes)
    for one in found.same:
        reading = reads(one.nodes[0], one.index)
        if reading not in (AXES, NEW_AXES):  # a target must have the right number of elements anyway
            _check_number(one, {**({} if reading is TARGET else inner), **fitter.coincident})
    open_outside: dict[str, str] = {}
    for group in found.nodes:
        for axis, pads, step, rest in _padding(group, fixed, adds=reads(group[0], 1) is PADS):
            given = analysis.shapes.get(group[0].inputs[0])
            free = [n for n in first if given is None or n in given[axis].free]
            moving = [n for n in free if not _is_batch(analysis, n)]
            others = [
                {**first, n: first[n] + k} for n in moving for k in range(1, 4)
            ]  # padding may only fit an export
            if any(at not in sizes and not analysis._solved.violations_at(at) for at in others):
                why = f"{group[0].label} ({group[0].op_type}) pads by {pads[0]} and {pads[1]} in all exports"
                if given is None or any((given[axis].evaluate(p) or 0) % step != rest for p in fitter.shown):
                    raise Refused(
                        f"{why}, whose sizes have the same remainder by {step}: an export with another remainder would "
                        "show if the padding follows it",
                        node=group[0].label,
                    )
                open_outside |= dict.fromkeys(moving, why)
    return open_outside


def _is_batch(analysis: Analysis, name: str) -> bool:
    """True if the rows of a batch axis are independent, so that no other size depends on the batch size."""
    found = trace(analysis, [name])
    ends = [found.of(output) for output, _ in analysis.model.graph.outputs]
    return all(end.layout is not None and name not in end.mixed for end in ends)


def _check_number(one: StoredOperand, parts: Mapping[int, str]) -> None:
    numbers, node = one.stored[0].array(one.stored[0].numel), one.nodes[0]
    for n in () if numbers is None else numbers.reshape(-1).tolist():
        if abs(n) in parts:
            raise Refused(
                f"{node.label} ({node.op_type}) holds {n} in all exports, which is also {parts[abs(n)]} in all of them: an "
                "export at a size further away would settle what it is",
                node=node.label,
            )


def _padding(
    group: Seq[Node], fixed: Seq[Analysis], *, adds: bool
) -> Iterator[tuple[int, tuple[int, int], int, int]]:
    """Yield axes that a node may pad by equal amounts by coincidence, the amounts, and the sizes' divisor and remainder.

    Raises:
        Refused: it pads to one size in all exports.
    """
    given, made = (
        [[d.value for d in a.shapes.get(name) or ()] for a, name in zip(fixed, names, strict=True)]
        for names in ([n.inputs[0] if n.inputs else "" for n in group], [n.outputs[0] for n in group])
    )
    for old, new in zip(zip(*given), zip(*made), strict=False) if adds else ():
        if len({*new}) == 1 < len({*old}):
            raise Refused(
                f"{group[0].label} ({group[0].op_type}) pads an axis to {new[0]} in all exports, of sizes that differ: an "
                f"export of a size above {new[0]} would show if that follows it",
                node=group[0].label,
            )
    amounts, *others = [_amounts(n, a, adds) for n, a in zip(group, fixed, strict=True)]
    half = len(amounts or ()) // 2
    if not amounts or any(other != amounts for other in others) or any(len(s) < half for s in given):
        return
    for axis, before, after in zip(range(-half, 0), amounts[:half], amounts[half:], strict=True):
        sizes = [s[axis] for s in given]
        step = 0 if None in sizes else gcd(*(int(n or 0) - int(sizes[0] or 0) for n in sizes))
        if step > max(1, abs(before - after)) and (before != after or (adds and not any(amounts))):
            yield axis, (before, after), step, int(sizes[0] or 0) % step


def _amounts(node: Node, analysis: Analysis, adds: bool) -> list[int] | None:
    """Padding amounts for the last axes, all starts, then all ends; None if they are not constant."""
    value = analysis.values.get(node.inputs[1]) if adds and len(node.inputs) > 1 else None
    elems = [] if value is None else [getattr(e, "value", None) for e in value.elems or ()]
    if None in elems:
        return None
    window = node.attributes.get("pads") or () if "kernel_shape" in node.attributes else ()
    return [int(e or 0) for e in elems] or [int(n) for n in window]
