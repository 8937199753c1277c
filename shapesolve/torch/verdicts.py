"""Judges an export: what it requires beyond the declaration, and who fails at sizes that it rules out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.util import find_spec
from typing import Any

import onnx
import torch
from torch.export.graph_signature import ConstantArgument

from ..analysis import DEFAULT_RLIMIT, Analysis, BroadcastMode, analyze
from ..expr import Cond, all_of, eq, ge, le
from ..runs import Session
from ..solve.contract.contract import Term, text_of
from ..solve.sizes import SizeFinder
from .declared import Declaration
from .exporting import Exported
from .limits import MAX_BYTES, MAX_TRIED
from .outcome import Blame, Comparison, Confirmed, Restriction, graph_terms, holds_at
from .places import first_line
from .running import ModuleRuns, Ran, SizeItems, Sizes, finder, probes, same
from .traced import Guard, dim_names, equal_sizes, find_guards, guard_contract, with_declared_names


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
    """What came out of an export: the restrictions that are real, and the analysis of its file.

    `runs` executes the module, and `file` the file; None if nothing may be run.
    """

    declaration: Declaration
    export: Exported
    runs: ModuleRuns | None
    file: FileRuns | None
    guards: tuple[Guard, ...]
    found: list[Restriction]
    analysis: Analysis | None = None


def judge(declaration: Declaration, export: Exported, runs: ModuleRuns | None, settings: Settings) -> Judged:
    """Compare the guards, and the conditions of the written file, with the declaration, and run what they rule out."""
    roots, file = declaration.roots, FileRuns(runs, export) if runs is not None else None

    def compared(terms: Iterable[Term], given: Sequence[Cond], guarded: bool) -> list[Restriction]:
        return Comparison(declaration, settings.rlimit, given).restrictions(terms, guarded=guarded)

    def run(found: Sequence[Restriction], beside: Sequence[Restriction] = ()) -> list[Restriction]:
        if runs is None:
            return [*found]
        every = [*beside, *found]
        return [_run_outside(one, runs, file, [o.term.cond for o in every if o is not one]) for one in found]

    guards = find_guards(export, declaration)
    # torch.export does not promise sizes 0 and 1
    least = [ge(r.dim, min(2, r.high or 2)) for r in roots.values()]
    contract = guard_contract(guards, list(roots), settings.rlimit) if guards else ()
    found = compared(contract, least, True)
    in_terms = {name for r in found for name in r.roots}
    equal = [eq(a, b) for a, b in equal_sizes(export.env, declaration)]
    found += compared([_equality(c) for c in equal if not c.free <= in_terms], least, True)
    traced = run(found)
    needed = [r for r in traced if r.tried.verdict != "nobody"]
    if export.proto is None:
        return Judged(declaration, export, runs, file, guards, needed)
    # a condition that only the trace requires is not assumed of the file
    kept = {r.guard: r.term.cond if r.tried.verdict != "nobody" else None for r in traced}
    asked = [
        *(kept.get(t.cond, t.cond) for t in contract),
        *(c for r in roots.values() for c in r.conditions()),
    ]
    model = with_declared_names(export.proto, export, declaration)
    known = dim_names(model)
    assumed = [*settings.assume, *(c for c in asked if c is not None and c.free <= known)]
    analysis = analyze(model, assume=assumed, broadcast=settings.broadcast, rlimit=settings.rlimit)
    rest = compared(graph_terms(analysis), [r.term.cond for r in needed], False)
    return Judged(declaration, export, runs, file, guards, [*needed, *run(rest, needed)], analysis)


def _equality(cond: Cond) -> Term:
    return Term(cond, "equality", text_of(cond), tuple(sorted(cond.free)), ())


def _run_outside(
    one: Restriction, runs: ModuleRuns, file: FileRuns | None, others: Sequence[Cond]
) -> Restriction:
    """The restriction with the result of a run at sizes that only it rules out, and its limit as the runs show it."""
    return run_on_both_sides(replace(one, tried=confirmed(one, runs, file, others)), runs, file, others)


# ---------------------------------------------------------------------- the exported file


class FileRuns:
    """The file in onnxruntime, as users run it, compared with the module.

    A file that differs at the example cannot be compared at other sizes.
    """

    def __init__(self, runs: ModuleRuns, export: Exported) -> None:
        self.runs, self.export = runs, export
        self.failures: dict[SizeItems, str] = {}
        """Sizes at which it does not run -> onnxruntime's words."""

    def agrees(self, sizes: Sizes) -> bool | None:
        """True if the file gives the module's outputs at these sizes. None if unknown."""
        return self._same(self.runs.at(sizes)) if self._trusted else None

    @cached_property
    def _trusted(self) -> bool:
        return self._session is not None and self._same(self.runs.at({})) is True

    @cached_property
    def _session(self) -> Session | None:
        """Session of onnxruntime for the file. None without a file or onnxruntime, or if it refuses the file."""
        proto = self.export.proto
        if proto is None or find_spec("onnxruntime") is None or proto.ByteSize() > MAX_BYTES:
            return None
        try:
            return Session(proto, optimized=True)
        except RuntimeError:
            return None

    def _same(self, ran: Ran) -> bool | None:
        """True if the file gives the outputs of this run, False also if it fails. None if the run has no outputs."""
        if ran.state != "runs" or ran.outputs is None or self._session is None:
            return None
        signature = self.export.program.graph_signature
        given = _in_file(signature.input_specs, self.runs.in_order(ran.leaves))
        wanted = _in_file(signature.output_specs, ran.outputs)
        try:
            feeds = [torch.as_tensor(value).contiguous().numpy() for value in given]
            arrays = self._session.run(dict(zip(self._session.inputs, feeds, strict=True)))
            found = [torch.as_tensor(array) for array in arrays]
        except Exception as error:  # it does not run, or numpy lacks an element type
            self.failures[ran.sizes] = first_line(str(error))
            return False
        return len(found) == len(wanted) and all(map(same, map(torch.as_tensor, wanted), found))

    def agrees_when_bare(self, ran: Ran) -> bool:
        """True if the file without the sizes that it declares inside gives the outputs of this run."""
        bare = onnx.ModelProto()
        if self.export.proto is not None:
            bare.CopyFrom(self.export.proto)
        bare.graph.ClearField("value_info")
        return FileRuns(self.runs, replace(self.export, proto=bare))._same(ran) is True


def _in_file(specs: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """The inputs or outputs of the module that its file has; it leaves out None and numbers."""
    own = [spec for spec in specs if spec.kind.name in ("USER_INPUT", "USER_OUTPUT")]
    return [v for spec, v in zip(own, values) if not isinstance(spec.arg, ConstantArgument)]


# ---------------------------------------------------------------------- a condition


def confirmed(
    restriction: Restriction, runs: ModuleRuns, graph: FileRuns | None, others: Sequence[Cond]
) -> Confirmed:
    """Runs at declared sizes that a restriction rules out, and none of the `others` if there are any."""
    cond, example, tried = restriction.term.cond, runs.example, dict[SizeItems, Ran]()
    given = finder(runs.declaration, [~cond, *others]).completed(dict(restriction.counterexample), example)
    own = probes(runs.declaration, example, [~cond, *others], restriction.roots)
    for sizes in itertools.chain([given] if given else [], own):
        ran = runs.at(sizes)
        tried |= {runs.changed(ran): ran} if ran.state != "unknown" else {}
        if len(tried) == MAX_TRIED:
            break
    if not tried:  # conditions that always break together are tried together
        return confirmed(restriction, runs, graph, ()) if others else Confirmed()
    ran_there = tuple(s for s, r in tried.items() if r.state == "runs")
    failing = [s for s, r in tried.items() if r.state == "fails"]
    if failing:
        places = [tried[s].origin.place for s in failing]  # another line may fail at the very ends of a range
        first = max(failing, key=lambda s: places.count(tried[s].origin.place))
        return Confirmed("module", first, tried[first], ran_there)
    if not restriction.guarded:  # the analysis has proved it of the graph
        return Confirmed("graph", ran_there[0], None, ran_there)
    agrees = {s: graph.agrees(dict(s)) if graph is not None else None for s in ran_there}
    verdicts: dict[bool | None, Blame] = {False: "graph", True: "nobody", None: "unknown"}
    worst = next(state for state in verdicts if state in agrees.values())
    found = next(s for s in ran_there if agrees[s] is worst)
    return Confirmed(verdicts[worst], found, None, ran_there)


def run_on_both_sides(
    restriction: Restriction, runs: ModuleRuns, graph: FileRuns | None, others: Sequence[Cond]
) -> Restriction:
    """The restriction with each limit moved to the last size that runs, if that and the next size can be run.

    A guard of the tracer may be narrower than the module: ``time < 50`` for a buffer of 50 rows. Sizes tied to the limited
    one by the `others` move along.
    """
    cond, tried = restriction.term.cond, restriction.tried
    if tried.verdict not in ("module", "graph"):
        return restriction
    file, ties = graph if tried.verdict == "graph" else None, finder(runs.declaration, others)
    parts = cond.args if cond.kind == "and" else (cond,)
    ends = [_limit(c, runs, file, ties, tried) if c.kind == ">=" else (c, dict(tried.sizes)) for c in parts]
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


def _limit(
    cond: Cond, runs: ModuleRuns, file: FileRuns | None, ties: SizeFinder, tried: Confirmed
) -> tuple[Cond, Sizes] | None:
    """A bound at the last size that runs, and the sizes just beyond it, which are empty if none is declared.

    None if a size could not be run.
    """

    def slack(name: str, size: int) -> int:
        return cond.args[0].evaluate({**runs.example, name: size}) or 0

    def runs_at(name: str, size: int) -> bool | None:
        sizes = ties.completed({name: size}, runs.example)
        if sizes is None or cond.args[0].evaluate(sizes) != slack(name, size):
            return None
        state = runs.runs_at(sizes)
        return file.agrees(sizes) if state and file is not None else state

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
