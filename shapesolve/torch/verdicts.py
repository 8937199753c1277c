"""Judges an export: what it requires beyond the declaration, and who fails at declared sizes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Literal

from ..analysis import DEFAULT_RLIMIT, Analysis, BroadcastMode, analyze
from ..expr import Cond, all_of, ge, le
from ..expr.plain import kind_of
from ..expr.sizes import sizes_text
from ..expr.traverse import atoms_of
from ..solve.contract.contract import Term, text_of
from ..solve.engine import Engine, Verdict
from ..solve.sizes import SizeFinder
from .declared import Declaration, ExportCall
from .exporting import Exported
from .limits import COMPARED, MAX_PROBES, MAX_SHOWN, MAX_TRIED
from .places import NOWHERE, SourceOrigin, first_line
from .running import FileRuns, ModuleRuns, Ran, SizeItems, Sizes, finder, probes
from .traced import Guard, dim_names, equal_sizes, find_guards, guard_contract, with_declared_names

Kind = Literal["fixed", "tied", "range", "restricted"]
#: who fails at sizes that a condition rules out; "nobody" if the module and the file run and agree
Blame = Literal["module", "graph", "nobody", "unknown"]


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Result of running the module and its graph at sizes that a condition rules out.

    Attributes:
        verdict: Whose fault it is; unknown if the module could not be run.
        sizes: Sizes that show it, all others as in the example.
        failed: The failed run, with its line, if the module fails.
        runs: Sizes that the condition rules out, although the module runs.
        exact: False if the condition is a limit that was not run on both sides.
    """

    verdict: Blame = "unknown"
    sizes: SizeItems = ()
    failed: Ran | None = None
    runs: tuple[SizeItems, ...] = ()
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Restriction:
    """A condition of the export that the declaration does not imply.

    Attributes:
        term: The condition, with the nodes that require it.
        kind: One size, a relation to other dims, a bound, or anything else (multiples, alternatives).
        answer: Whether the declaration implies it: refuted (with sizes that break it), or unknown.
        beyond: Whether the broken bound is undeclared.
        guard: The condition as torch.export has it; None if only the graph requires it.
        tried: Result of running at sizes that it rules out.
    """

    term: Term
    kind: Kind
    roots: tuple[str, ...]
    answer: Verdict
    beyond: bool = False
    guard: Cond | None = None
    tried: Confirmed = Confirmed()

    @property
    def guarded(self) -> bool:
        """True if torch.export itself requires it."""
        return self.guard is not None

    @property
    def counterexample(self) -> SizeItems:
        """Declared sizes that break the condition, from the proof."""
        broken = self.answer.model or {}
        return tuple((name, broken[name]) for name in self.roots if name in broken)

    @property
    def sizes(self) -> SizeItems:
        """Declared sizes that break the condition, from a run if possible."""
        return self.tried.sizes or self.counterexample


@dataclass(frozen=True, slots=True)
class Failure:
    """Declared sizes that satisfy all conditions, at which the module fails, or the file fails or differs.

    Attributes:
        verdict: Which of the two: "module" or "graph".
        words: PyTorch's or onnxruntime's message; empty if the file computes something else.
        also: More sizes at which the module fails, on the same line.
        runs: Sizes of the same names at which it runs.
        bare: Whether the file agrees without the sizes that it declares inside.
    """

    verdict: Blame
    sizes: SizeItems
    words: str
    origin: SourceOrigin = NOWHERE
    also: tuple[SizeItems, ...] = ()
    runs: tuple[SizeItems, ...] = ()
    bare: bool = False

    def __str__(self) -> str:
        who = "the exported file does not follow" if self.verdict == "graph" else "the module fails"
        return f"{who} at {sizes_text(self.sizes)}"


@dataclass(frozen=True)
class Settings:
    """Settings of a check, apart from the module and its arguments."""

    assume: tuple[str | Cond, ...] = ()
    broadcast: BroadcastMode = "named"
    rlimit: int = DEFAULT_RLIMIT
    confirm: bool = True
    infer: bool = False
    opset: int | None = None


@dataclass(frozen=True)
class Judged:
    """What came out of an export: restrictions, failures that none of them explains, and the analysis of its file.

    `file` executes the module and the file; None if nothing may be run. `example` is a run of a module that was not captured.
    """

    call: ExportCall
    declaration: Declaration
    export: Exported
    file: FileRuns | None
    guards: tuple[Guard, ...]
    found: Sequence[Restriction]
    analysis: Analysis | None
    failures: Sequence[Failure]
    example: Ran | None = None

    @property
    def runs(self) -> ModuleRuns | None:
        """Runs of the module."""
        return self.file.runs if self.file is not None else None

    @cached_property
    def real(self) -> Sequence[Restriction]:
        """The restrictions without guards that rule out sizes at which the module runs, unless the call is refused for them."""
        refused = self.export.refusal is not None

        def is_idle(one: Restriction) -> bool:
            return one.guarded and one.tried.verdict == "unknown" and (bool(one.tried.runs) or refused)

        real = [r for r in self.found if self.file is None or not is_idle(r)]
        return self.found if refused and not real else real


def judge(declaration: Declaration, export: Exported, runs: ModuleRuns, settings: Settings) -> Judged:
    """Compare what the export requires with the declaration, and run what it rules out, and what it does not."""
    may_run = settings.confirm and declaration.axes and runs.usable
    file = FileRuns(runs, export) if may_run else None
    example = runs.at({}) if export.graph is None else None
    guards = find_guards(export, declaration)
    contract = guard_contract(guards, list(declaration.roots), settings.rlimit) if guards else ()
    roots = declaration.roots.values()
    least = [ge(r.dim, min(2, r.high or 2)) for r in roots]  # torch.export does not promise sizes 0 and 1
    before = Comparison(declaration, settings.rlimit, least)
    found = before.restrictions(contract, guarded=True)
    in_terms = {name for r in found for name in r.roots}
    equal = (c for c in equal_sizes(export, declaration) if not c.free <= in_terms)
    found += before.restrictions([_equality(c) for c in equal], guarded=True)
    traced = _run_outside(found, (), file)
    needed = [r for r in traced if r.tried.verdict != "nobody"]
    analysis = None
    if export.proto is not None:
        # a condition that only the trace requires is not assumed of the file
        kept = {r.guard: r.term.cond if r.tried.verdict != "nobody" else None for r in traced}
        asked = [*(kept.get(t.cond, t.cond) for t in contract), *(c for r in roots for c in r.conditions())]
        model = with_declared_names(export.proto, export, declaration)
        known = dim_names(model)
        assumed = [*settings.assume, *(c for c in asked if c is not None and c.free <= known)]
        analysis = analyze(model, assume=assumed, broadcast=settings.broadcast, rlimit=settings.rlimit)
        after = Comparison(declaration, settings.rlimit, [r.term.cond for r in needed])
        needed += _run_outside(after.restrictions(graph_terms(analysis), guarded=False), needed, file)
    failures = find_failures(file, needed) if file is not None else []
    return Judged(runs.call, declaration, export, file, guards, needed, analysis, failures, example)


def _equality(cond: Cond) -> Term:
    return Term(cond, "equality", text_of(cond), tuple(sorted(cond.free)), ())


def _run_outside(
    found: Sequence[Restriction], before: Sequence[Restriction], file: FileRuns | None
) -> list[Restriction]:
    if file is None:
        return [*found]
    made = []
    for one in found:
        others = [o.term.cond for o in (*before, *found) if o is not one]
        tried = replace(one, tried=confirmed(one, file, others))
        made.append(run_on_both_sides(tried, file, others))
    return made


# ---------------------------------------------------------------------- what the declaration does not imply


class Comparison:
    """Compares terms of a contract with the declared ranges, for sizes of at least 1 that satisfy the conditions `given`."""

    def __init__(self, declaration: Declaration, rlimit: int, given: Iterable[Cond] = ()) -> None:
        self.declaration, self.engine = declaration, Engine(rlimit)
        self.known = [*given, *declaration.conditions]

    def restrictions(self, terms: Iterable[Term], *, guarded: bool) -> list[Restriction]:
        """The terms that the declaration does not imply."""
        found: list[Restriction] = []
        for term in terms:
            roots = tuple(n for n in term.symbols if n in self.declaration.roots)
            if not roots or len(roots) < len(term.symbols):
                continue
            answer = self.engine.entails(term.cond, self.known)
            if not answer.proved:
                guard, term = term.cond if guarded else None, self._plain(term)
                kind = classify(term.cond)
                beyond = kind == "range" and self._beyond(term.cond)
                found.append(Restriction(term, kind, roots, answer, beyond, guard))
        return found

    def _plain(self, term: Term) -> Term:
        """The term as a limit without ``max``, if it is one for the declared sizes."""
        given = [*self.known, term.cond]
        for x in (a.args[0] for a in atoms_of(term.cond) if a.kind == "pos"):
            for cond in (ge(-x, 0), ge(x, 0)):
                same = self.engine.entails(cond, given).proved
                if same and self.engine.entails(term.cond, [*self.known, cond]).proved:
                    return replace(term, cond=cond, text=text_of(cond))
        return term

    def implied(self, cond: Cond) -> bool:
        """True if a condition holds at all declared sizes."""
        return self.engine.entails(cond, self.known).proved

    def _beyond(self, cond: Cond) -> bool:
        bounds = [c for c in (cond.args if cond.kind == "and" else (cond,)) if c.kind == ">="]
        factors = ((f, a) for c in bounds for monomial, f in c.args[0].terms for a in monomial)
        roots = ((f, self.declaration.roots[name]) for f, a in factors for name in a.free)
        return any((root.low if factor > 0 else root.high) is None for factor, root in roots)


def classify(cond: Cond) -> Kind:
    """Kind of a condition, by its effect on sizes: fixed, tied, range or restricted."""
    kind = kind_of(cond)
    if kind == "equality":
        return "fixed" if len(cond.free) == 1 else "tied"
    if kind in ("range", "nonempty"):
        return "range"
    return "restricted"


def graph_terms(analysis: Analysis) -> Sequence[Term]:
    """Contract terms that nodes need, without assumptions. Empty if the model contradicts itself."""
    if analysis.conflicts or analysis.contract.impossible:
        return ()
    return tuple(t for t in analysis.contract.usual if t.nodes)


def holds_at(cond: Cond, sizes: Mapping[str, int]) -> bool:
    """True unless the condition is false at these sizes. A condition without a value counts as true."""
    try:
        return bool(cond.evaluate(dict(sizes)))
    except (ArithmeticError, ValueError, KeyError):
        return True


# ---------------------------------------------------------------------- a condition


def confirmed(restriction: Restriction, file: FileRuns, others: Sequence[Cond]) -> Confirmed:
    """Runs at declared sizes that a restriction rules out, and none of the `others` if there are any."""
    cond, runs, tried = restriction.term.cond, file.runs, dict[SizeItems, Ran]()
    example = runs.example
    given = finder(runs.declaration, [~cond, *others]).completed(dict(restriction.counterexample), example)
    own = probes(runs.declaration, example, [~cond, *others], restriction.roots)
    for sizes in itertools.chain([given] if given else [], own):
        ran = runs.at(sizes)
        tried |= {runs.changed(ran): ran} if ran.state != "unknown" else {}
        if len(tried) == MAX_TRIED:
            break
    if not tried:  # conditions that always break together are tried together
        return confirmed(restriction, file, ()) if others else Confirmed()
    ran_there = tuple(s for s, r in tried.items() if r.state == "runs")
    failing = [s for s, r in tried.items() if r.state == "fails"]
    if failing:
        places = [tried[s].origin.place for s in failing]  # another line may fail at the very ends of a range
        first = max(failing, key=lambda s: places.count(tried[s].origin.place))
        return Confirmed("module", first, tried[first], ran_there)
    if not restriction.guarded:  # the analysis has proved it of the graph
        return Confirmed("graph", ran_there[0], None, ran_there)
    agrees = {s: file.agrees(dict(s)) for s in ran_there}
    verdicts: dict[bool | None, Blame] = {False: "graph", True: "nobody", None: "unknown"}
    worst = next(state for state in verdicts if state in agrees.values())
    found = next(s for s in ran_there if agrees[s] is worst)
    return Confirmed(verdicts[worst], found, None, ran_there)


def run_on_both_sides(restriction: Restriction, file: FileRuns, others: Sequence[Cond]) -> Restriction:
    """The restriction with each limit moved to the last size that runs, if that and the next size can be run.

    A guard of the tracer may be narrower than the module: ``time < 50`` for a buffer of 50 rows. Sizes tied to the limited
    one by the `others` move along.
    """
    cond, tried, runs = restriction.term.cond, restriction.tried, file.runs
    if tried.verdict not in ("module", "graph"):
        return restriction
    ties = finder(runs.declaration, others)
    parts = cond.args if cond.kind == "and" else (cond,)
    ends = [_limit(c, file, ties, tried) if c.kind == ">=" else (c, dict(tried.sizes)) for c in parts]
    moved = all_of(end[0] for end in ends if end and end[1])
    every = [runs.at(end[1]) for end in ends if end and end[1]]
    outside = [ran for ran in (*every, runs.at(dict(tried.sizes))) if not holds_at(moved, dict(ran.sizes))]
    if None in ends or not outside:
        return replace(restriction, tried=replace(tried, exact=False))
    first = outside[0]
    still = tuple(s for s in tried.runs if not holds_at(moved, runs.complete(dict(s))))
    term = restriction.term if moved is cond else replace(restriction.term, cond=moved, text=text_of(moved))
    failed = first if tried.failed is not None else None
    return replace(
        restriction, term=term, tried=replace(tried, sizes=runs.changed(first), failed=failed, runs=still)
    )


def _limit(cond: Cond, file: FileRuns, ties: SizeFinder, tried: Confirmed) -> tuple[Cond, Sizes] | None:
    """A bound at the last size that runs, and the sizes just beyond it, which are empty if none is declared.

    None if a size could not be run.
    """
    runs = file.runs

    def slack(name: str, size: int) -> int:
        return cond.args[0].evaluate({**runs.example, name: size}) or 0

    def runs_at(name: str, size: int) -> bool | None:
        sizes = ties.completed({name: size}, runs.example)
        if sizes is None or cond.args[0].evaluate(sizes) != slack(name, size):
            return None
        state = runs.runs_at(sizes)
        return file.agrees(sizes) if state and tried.verdict == "graph" else state

    for name in sorted(cond.free):
        size, root = runs.example[name], runs.declaration.roots[name]
        here = slack(name, size)
        step = slack(name, size + 1) - here
        if not step or slack(name, size + 2) - here != 2 * step or here < 0:
            continue
        way = 1 if step < 0 else -1
        last = size + way * (here // abs(step))
        beyond = [v for s in (*tried.runs, tried.sizes) for n, v in s if n == name and (v - last) * way > 0]
        end = (root.low or 1) if way < 0 else root.high or max([*beyond, last + 1])
        found = edge(partial(runs_at, name), size, [last, last + way, end], way)
        if found is not None:
            good, bad = found
            moved = cond if good == last else ge(cond.args[0], slack(name, good))
            sizes = None if bad is None else ties.completed({name: bad}, runs.example)
            return moved, sizes or {}
    return None


def edge(
    runs_at: Callable[[int], bool | None], good: int, stops: Iterable[int], way: int = 1
) -> tuple[int, int | None] | None:
    """The last size that runs, and the next one, which fails; None instead of it if all `stops` run.

    `good` runs, and the stops are sizes farther and farther away from it. None if a size could not be run.
    """
    bad: int | None = None
    for stop in stops:
        if (stop - good) * way <= 0:
            continue
        state = runs_at(stop)
        if state is None:
            return None
        if not state:
            bad = stop
            break
        good = stop
    while bad is not None and abs(bad - good) > 1:
        middle = (good + bad) // 2
        state = runs_at(middle)
        if state is None:
            return None
        good, bad = (middle, bad) if state else (good, middle)
    return good, bad


def last_bound(runs: ModuleRuns, name: str, fails: int) -> Cond | None:
    """Bound on one size, between the example and a size that fails; None if a run is undecided."""
    dim, size = runs.declaration.roots[name].dim, runs.example[name]
    found = edge(lambda n: runs.runs_at({name: n}), size, [fails], 1 if fails > size else -1)
    if found is None or found[1] is None:
        return None
    return le(dim, found[0]) if fails > size else ge(dim, found[0])


# ---------------------------------------------------------------------- without a condition


def find_failures(file: FileRuns, found: Sequence[Restriction]) -> list[Failure]:
    """Failures at declared sizes that satisfy the conditions found, one for each line or size."""
    runs = file.runs
    allowed = probes(runs.declaration, runs.example, [r.term.cond for r in found])
    tried = [runs.at(sizes) for sizes in itertools.islice(allowed, MAX_PROBES)]
    failed, ran = ([r for r in tried if r.state == state] for state in ("fails", "runs"))
    lines = dict.fromkeys(r.origin.place for r in failed)
    failures = [_failing(runs, [r for r in failed if r.origin.place == line], ran) for line in lines]
    if failures or any(r.tried.verdict == "graph" for r in found):
        return failures
    differing = [_alone(file, r) for r in ran[:COMPARED] if file.agrees(dict(r.sizes)) is False]
    blamed: set[str] = set()
    for one in sorted(differing, key=lambda r: len(runs.changed(r))):
        sizes = runs.changed(one)
        if blamed.isdisjoint(n for n, _ in sizes):
            words, bare = file.failures.get(one.sizes, ""), file.agrees_when_bare(one)
            failures.append(Failure("graph", sizes, words, bare=bare))
            blamed |= {n for n, _ in sizes}
    return failures


def _failing(runs: ModuleRuns, failed: Sequence[Ran], ran: Sequence[Ran]) -> Failure:
    first, *also = sorted(failed, key=lambda r: len(runs.changed(r)))
    names = {n for n, _ in runs.changed(first)}
    more = tuple(map(runs.changed, also[: MAX_SHOWN - 1]))
    like = tuple(c for c in map(runs.changed, ran) if {n for n, _ in c} <= names)[:MAX_SHOWN]
    return Failure("module", runs.changed(first), first_line(first.words), first.origin, more, like)


def _alone(file: FileRuns, ran: Ran) -> Ran:
    alone = [{name: size} for name, size in file.runs.changed(ran)]
    return next((file.runs.at(sizes) for sizes in alone if file.agrees(sizes) is False), ran)
