"""Runs module and exported graph at a size, and blames a failure on one of them or the tracer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from importlib.util import find_spec
from typing import Any

import onnx
import torch
from torch.export.graph_signature import ConstantArgument

from ..expr import Cond, Dim, all_of, ge, le
from ..expr.sizes import sizes_text
from ..lines import clipped
from ..runs import Session
from ..solve.contract.contract import text_of
from .exporting import Exported
from .limits import COMPARED, MAX_BYTES, MAX_LINE, MAX_PROBES, MAX_SHOWN, MAX_TRIED
from .outcome import Confirmed, Restriction, holds_at
from .places import NOWHERE, SourceFinding, SourceOrigin, Verdict
from .refusal import first_line
from .running import ModuleRuns, Ran, SizeItems, Sizes, finder, probes, same

#: note on a file that agrees without the sizes that it declares inside
BARE = (
    "the exporter left the example's sizes on tensors inside the file, and onnxruntime relies on them; without them"
    ' it agrees (tried): `model = program.model_proto; model.graph.ClearField("value_info")`'
)

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
    verdicts: dict[bool | None, Verdict] = {False: "graph", True: "tracer", None: "unknown"}
    worst = next(state for state in verdicts if state in agrees.values())
    found = next(s for s in ran_there if agrees[s] is worst)
    return Confirmed(verdicts[worst], found, None, ran_there)


def run_on_both_sides(
    restriction: Restriction, runs: ModuleRuns, graph: FileRuns | None, others: Sequence[Cond]
) -> Restriction:
    """The restriction with each limit moved to the last size that runs, if that and the next size can be run.

    A guard of the tracer may be narrower than the module: ``time < 50`` for a buffer of 50 rows.
    """
    cond, tried = restriction.term.cond, restriction.tried
    if tried.verdict not in ("module", "graph"):
        return restriction
    limits = _Edges(runs, graph if tried.verdict == "graph" else None, others, [*tried.runs, tried.sizes])
    parts = cond.args if cond.kind == "and" else (cond,)
    ends = [limits.of(part) if part.kind == ">=" else (part, dict(tried.sizes)) for part in parts]
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


class _Edges:
    """Finds the last size that runs and the next one, which fails. Sizes tied to it by the `others` move along."""

    def __init__(
        self, runs: ModuleRuns, file: FileRuns | None, others: Sequence[Cond], seen: Sequence[SizeItems]
    ) -> None:
        self.runs, self.file, self.seen = runs, file, seen
        self.sizes = finder(runs.declaration, others)

    def of(self, cond: Cond) -> tuple[Cond, Sizes] | None:
        """Return the bound at the last size that runs, and the sizes just beyond it, which are empty if none is declared.

        None if a size could not be run.
        """
        slack = cond.args[0]
        for name in sorted(cond.free):
            size, root = self.runs.example[name], self.runs.declaration.roots[name]
            here = self._slack(slack, name, size)
            step = self._slack(slack, name, size + 1) - here
            if not step or self._slack(slack, name, size + 2) - here != 2 * step or here < 0:
                continue
            way = 1 if step < 0 else -1
            last = size + way * (here // abs(step))
            beyond = [v for s in self.seen for n, v in s if n == name and (v - last) * way > 0]
            end = (root.low or 1) if way < 0 else root.high or max([*beyond, last + 1])
            found = _edge(partial(self._runs_at, slack, name), size, last, way, end)
            if found is not None:
                good, bad = found
                moved = cond if good == last else ge(slack, self._slack(slack, name, good))
                return moved, {} if bad is None else self.sizes.completed(
                    {name: bad}, self.runs.example
                ) or {}
        return None

    def _slack(self, slack: Dim, name: str, size: int) -> int:
        return slack.evaluate({**self.runs.example, name: size}) or 0

    def _runs_at(self, slack: Dim, name: str, size: int) -> bool | None:
        """True if the module runs, and the file, if there is one, agrees. None if unknown."""
        sizes = self.sizes.completed({name: size}, self.runs.example)
        if sizes is None or slack.evaluate(sizes) != self._slack(slack, name, size):
            return None
        state = self.runs.at(sizes).state
        if state == "runs" and self.file is not None:
            return self.file.agrees(sizes)
        return None if state == "unknown" else state == "runs"


def _edge(
    runs_at: Callable[[int], bool | None], size: int, last: int, way: int, end: int
) -> tuple[int, int | None] | None:
    """The last size that runs and the next one (None beyond the `end`), starting from the `last` that is said to run."""
    state = runs_at(last)
    if state is None:
        return None
    good, bad = (last, end) if state else (size, last)
    if state:
        if (end - last) * way <= 0:
            return last, None
        after = runs_at(last + way)
        if after is False:
            return last, last + way
        if after is None or (ended := runs_at(end)) is None:
            return None
        if ended:
            return end, None
    return bisected(runs_at, good, bad)


def bisected(runs_at: Callable[[int], bool | None], good: int, bad: int) -> tuple[int, int] | None:
    """Neighboring sizes between one that runs and one that fails: the first runs, and the second fails."""
    while abs(bad - good) > 1:
        middle = (good + bad) // 2
        state = runs_at(middle)
        if state is None:
            return None
        good, bad = (middle, bad) if state else (good, middle)
    return good, bad


def last_bound(runs: ModuleRuns, name: str, fails: int) -> Cond | None:
    """Bound on one size, between the example and a size that fails; None if a run is undecided."""
    good, dim = runs.example[name], runs.declaration.roots[name].dim

    def runs_at(size: int) -> bool | None:
        state = runs.at({name: size}).state
        return None if state == "unknown" else state == "runs"

    found = bisected(runs_at, good, fails) if runs_at(fails) is False else None
    return None if found is None else le(dim, found[0]) if fails > good else ge(dim, found[0])


# ---------------------------------------------------------------------- the declared sizes


def probed(runs: ModuleRuns, graph: FileRuns | None, conds: Sequence[Cond]) -> list[SourceFinding]:
    """Findings for declared sizes that satisfy the conditions, at which the module fails or the graph differs."""
    tried = itertools.islice(probes(runs.declaration, runs.example, conds), MAX_PROBES)
    found = [runs.at(sizes) for sizes in tried]
    failed, ran = ([r for r in found if r.state == state] for state in ("fails", "runs"))
    lines = dict.fromkeys(r.origin.place for r in failed)
    findings = [_failing(runs, [r for r in failed if r.origin.place == line], ran) for line in lines]
    if not findings and graph is not None:
        differing = [r for r in ran[:COMPARED] if graph.agrees(dict(r.sizes)) is False]
        blamed: set[str] = set()
        for one in sorted(differing, key=lambda r: len(runs.changed(r))):
            names = {n for n, _ in runs.changed(one)}
            if not names & blamed:
                findings.append(_differing(runs, graph, one))
                blamed |= names
    return findings


def _failing(runs: ModuleRuns, failed: Sequence[Ran], ran: Sequence[Ran]) -> SourceFinding:
    first, *also = sorted(failed, key=lambda r: len(runs.changed(r)))
    sizes = runs.changed(first)
    names = {n for n, _ in sizes}
    like = [c for c in map(runs.changed, ran) if {n for n, _ in c} <= names][:MAX_SHOWN]
    notes = [f"the module fails at {sizes_text(sizes)}: {first_line(first.words)}"]
    notes += [f"it fails at {sizes_text(runs.changed(r))} too" for r in also[: MAX_SHOWN - 1]]
    notes += [f"it runs at {'; '.join(map(sizes_text, like))}"] if like else []
    title = f"the module fails at {sizes_text(sizes)}, which is declared"
    return _found(runs, sizes, title, notes, origin=first.origin, verdict="module")


def _differing(runs: ModuleRuns, graph: FileRuns, ran: Ran) -> SourceFinding:
    sizes, words = runs.changed(ran), graph.failures.get(ran.sizes, "")
    at = f"at {sizes_text(sizes)}"
    title = f"the exported file fails {at}, where the module runs"
    notes = [f"tried: onnxruntime runs it on the example, and {at} says: {clipped(words, MAX_LINE)}"]
    if not words:
        title = f"the exported file does not compute what the module computes {at}"
        why = "a size or a value became a number while the module was exported"
        notes = [f"tried: both were run there on the same data; {why}"]
    if graph.agrees_when_bare(ran):
        notes += [BARE]
    return _found(runs, sizes, title, notes, verdict="graph")


def _found(
    runs: ModuleRuns, sizes: SizeItems, title: str, notes: Sequence[str], **more: Any
) -> SourceFinding:
    declared = [runs.declaration.quote(n) for n, _ in sizes]
    notes = [*(f"declared: {d}" for d in declared), *notes]
    text = "; ".join(declared)
    return SourceFinding("SS609", title, notes=tuple(notes), declared=text, counterexample=sizes, **more)


def by_data(
    fails: tuple[str, Ran], runs: tuple[str, Ran], needed: str = "", origin: SourceOrigin = NOWHERE
) -> SourceFinding:
    """Return the finding of a data-dependent size: the module fails with some data, and runs with other data."""
    (bad, failed), (good, _) = fails, runs
    sizes = sizes_text(failed.sizes)
    notes = [
        f"at {sizes} it fails with {bad}: {first_line(failed.words)}",
        f"at {sizes} it runs with {good}",
    ]
    notes += [f"the exported file: {needed}"] if needed else []
    title = "whether the module runs at declared sizes depends on the data"
    return SourceFinding("SS614", title, notes=tuple(notes), origin=failed.origin or origin, verdict="module")
