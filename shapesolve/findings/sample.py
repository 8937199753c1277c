"""Samples: sizes for which a model runs, and similar ones for which it fails, for each term of its contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from ..causes.limits import MAX_SAMPLES, MAX_SIZE
from ..expr import Cond, ge
from ..expr.sizes import sizes_text
from ..solve.check import Checker
from ..solve.facts import budget
from ..solve.moves import around, nearer
from ..solve.sizes import SizeFinder

if TYPE_CHECKING:
    from ..answers.solved import Solved
    from ..solve.contract.contract import Term

Sizes = Mapping[str, int]


class Sample(NamedTuple):
    """Sizes of all inputs at which the model runs, and similar ones at which it fails."""

    runs: Sizes
    fails: Sizes

    def text(self, names: Sequence[str]) -> str:
        """Text of a sample: the sizes that run, and those that fail. `names` are the symbols of the broken term, and
        only these may have other sizes that run.
        """
        changed = [n for n in self.fails if self.runs[n] != self.fails[n]]
        shown = dict.fromkeys((*names, *changed))
        return f"runs at {sizes_text(self.runs, shown)}, not at {sizes_text(self.fails, shown)}"


class Samples:
    """Finds samples for the contract of one analysis."""

    def __init__(self, analysis: Solved) -> None:
        contract = analysis.contract
        self.checker = Checker(analysis.stated, analysis.facts, analysis.accepted)
        #: size of the conditions that may still be evaluated at samples; beyond, terms have none
        self._left = budget.MAX_AROUND_WORK
        self._cost = sum(c.size for c in analysis.accepted.conds)
        present = [ge(d, 1) for d in analysis.symbols.values()]
        conds = [t.cond for t in (*contract.usual, *contract.assumed)]
        #: Sizes of all inputs for which the model runs; not empty if possible.
        found = analysis.example
        self.runs: Sizes = {**dict.fromkeys(analysis.symbols, 1), **found} if found else {}
        usual = analysis.example is not None and all(analysis.example.values())
        self.is_usual = usual or SizeFinder([*conds, *present]).some() is not None
        self.beside = [*conds, *(present if self.is_usual else ())]
        self.near = SizeFinder(self.beside)

    def of(self, term: Term) -> Iterator[Sample]:
        """Return samples for a term: close pairs of accepted and rejected sizes, fewest broken conditions first.

        If several nodes fail, the first of them may not be the one that requires the term.
        """
        found, looked_at = self._failing(term), list[Sample]()
        for sample in islice(found, MAX_SAMPLES):
            looked_at.append(sample)
            if len(self.checker.broken(sample.fails)) == 1:
                break
        yield from sorted(looked_at, key=lambda s: len(self.checker.broken(s.fails)))
        yield from found

    def _failing(self, term: Term) -> Iterator[Sample]:
        if term.cond.size > MAX_SIZE or not self.runs or self._left <= 0 or not self._runs(self.runs):
            return
        runs = dict(self.runs)
        alone = {n: size for n, size in (self.near.breaking(term.cond, runs) or {}).items() if n in runs}
        near = around(runs, [n for n in term.symbols if n in runs])
        for fails in chain([{**runs, **alone}] if alone else [], near):
            if term.cond.evaluate(fails) is False and not self._runs(fails):
                fails = self._closer(term.cond, runs, fails)
                yield Sample(nearer(runs, fails, lambda at, _: self._runs(at)), fails)

    def _closer(self, cond: Cond, runs: Sizes, fails: Sizes) -> dict[str, int]:
        """Return rejected sizes closer to accepted ones that break nothing else, found by bisection if one size differs."""
        changed = [n for n in fails if runs[n] != fails[n]]
        good, bad = (runs[changed[0]], fails[changed[0]]) if len(changed) == 1 else (0, 0)
        while abs(good - bad) > 1:
            middle = (good + bad) // 2
            broken = cond.evaluate({**fails, changed[0]: middle}) is False
            good, bad = (good, middle) if broken else (middle, bad)
        found = {**fails, **dict.fromkeys(changed[: len(changed) == 1], bad)}
        before, after = ({b.cond for b in self.checker.broken(at)} for at in (fails, found))
        return found if after and after <= before else dict(fails)

    def nearest(self, cond: Cond, sample: Sample, cause: Cond | None = None) -> Sample:
        """Return the sample with the rejected size moved as close as possible to the accepted one. Other conditions can be
        broken too.
        """
        changed = [n for n in sample.fails if sample.runs[n] != sample.fails[n]]
        if len(changed) != 1:
            return sample
        (name,) = changed
        runs, fails = sample.runs[name], sample.fails[name]
        step = 1 if fails > runs else -1
        for size in islice(range(runs + step, fails, step), MAX_SAMPLES):
            at = {**sample.fails, name: size}
            broken = [b.cond for b in self.checker.broken(at)] if cond.evaluate(at) is False else []
            if broken and (cause is None or cause in broken):
                return Sample(sample.runs, at)
        return sample

    def other_ends(self, term: Term, sample: Sample) -> Iterator[Sample]:
        """Samples for the other bounds of a term, for example the lower one of a range."""
        parts = term.cond.args if term.cond.kind == "and" else ()
        for part in (p for p in parts if p.evaluate(sample.fails) is not False):
            others = [*(c for c in self.beside if c is not term.cond), *parts]
            runs = dict(sample.runs)
            fails = SizeFinder(others, self.near.engine).breaking(part, runs)
            if fails is not None and not self._runs(fails):
                yield self.nearest(part, Sample(nearer(runs, fails, lambda at, _: self._runs(at)), fails))

    def _runs(self, sizes: Sizes) -> bool:
        self._left -= self._cost
        return not self.checker.broken(sizes)
