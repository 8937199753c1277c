"""Runs module and exported graph at a size, and blames a failure on one of them or the tracer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import torch

from ..expr import Cond, all_of, ge
from ..expr.sizes import sizes_text
from ..runs import Session
from ..solve.contract.contract import text_of
from .exporting import Written
from .limits import COMPARED, MAX_BYTES, MAX_PROBES, MAX_SHOWN, MAX_TRIED
from .outcome import Confirmed, Restriction, holds_at
from .places import SourceFinding, SourceOrigin, Verdict
from .programs import input_names
from .refusal import first_line
from .running import ModuleRuns, Ran, SizeItems, Sizes, probes, same, violating

# ---------------------------------------------------------------------- the exported graph


class FileRuns:
    """A written model in onnxruntime, compared with the module.

    A file that does not give at the example what the module gives says nothing of other sizes.
    """

    def __init__(self, runs: ModuleRuns, file: Written) -> None:
        self.runs, self.file = runs, file

    def agrees(self, sizes: Sizes) -> bool | None:
        """True if the file gives the module's outputs at these sizes. None if unknown."""
        return self._same(self.runs.at(sizes)) if self._trusted else None

    @cached_property
    def _trusted(self) -> bool:
        return self._session is not None and self._same(self.runs.at({})) is True

    @cached_property
    def _session(self) -> Session | None:
        """Session of onnxruntime for the file. None without a file or onnxruntime, or if it refuses the file."""
        proto = self.file.proto
        if proto is None or find_spec("onnxruntime") is None or proto.ByteSize() > MAX_BYTES:
            return None
        try:
            return Session(proto)
        except RuntimeError:
            return None

    def _same(self, ran: Ran) -> bool | None:
        """True if the file gives the outputs of this run, False also if it fails. None if the run has no outputs."""
        if ran.state != "runs" or ran.outputs is None or self._session is None:
            return None
        by_name = dict(zip(input_names(self.file.program), self.runs.in_order(ran.leaves)))
        given = {name: by_name[name].contiguous() for name in self._session.inputs}
        try:
            arrays = {name: value.numpy() for name, value in given.items()}
            found = [torch.as_tensor(value) for value in self._session.run(arrays)]
        except Exception:  # it does not run, or numpy lacks an element type
            return False
        wanted = [o for o in ran.outputs if isinstance(o, torch.Tensor)]
        return len(found) == len(wanted) and all(map(same, wanted, found))


# ---------------------------------------------------------------------- a condition


def confirmed(
    restriction: Restriction, runs: ModuleRuns, graph: FileRuns | None, others: Sequence[Cond]
) -> Confirmed:
    """Runs at declared sizes that a restriction rules out, and none of the `others` if there are any."""
    cond, example = restriction.term.cond, runs.example
    given = [dict(restriction.counterexample)] if restriction.counterexample else []
    own = violating(runs.declaration, example, lambda sizes: holds_at(cond, sizes), restriction.roots)
    tried: dict[SizeItems, Ran] = {}
    for sizes in itertools.chain(given, own):
        whole = runs.complete(sizes)
        if not holds_at(cond, whole) and all(holds_at(c, whole) for c in others):
            ran = runs.at(sizes)
            tried |= {tuple(sizes.items()): ran} if ran.state != "unknown" else {}
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
    if not restriction.guarded:  # what the analysis proves of the graph holds
        return Confirmed("graph", ran_there[0], None, ran_there)
    agrees = {s: graph.agrees(dict(s)) if graph is not None else None for s in ran_there}
    verdicts: dict[bool | None, Verdict] = {False: "graph", True: "tracer", None: "unknown"}
    worst = next(state for state in verdicts if state in agrees.values())
    found = next(s for s in ran_there if agrees[s] is worst)
    return Confirmed(verdicts[worst], found, None, ran_there)


def run_on_both_sides(
    restriction: Restriction, runs: ModuleRuns, graph: FileRuns | None, others: Sequence[Cond]
) -> Restriction:
    """The restriction with each limit moved to the last size that runs; unchanged if the runs confirm the limits.

    A guard of the tracer may be narrower than the module: ``time < 50`` for a buffer of 50 rows.
    """
    cond, tried = restriction.term.cond, restriction.tried
    if tried.verdict not in ("module", "graph"):
        return restriction
    file = graph if tried.verdict == "graph" else None
    parts = cond.args if cond.kind == "and" else (cond,)
    seen = [dict(s) for s in (tried.sizes, *tried.runs)]
    ends = [_moved(part, runs, file, seen, others) if part.kind == ">=" else None for part in parts]
    if not any(ends):
        return restriction
    moved = all_of(end[0] if end else part for part, end in zip(parts, ends))
    outside = [
        s for s in (tried.sizes, *(e[1] for e in ends if e)) if not holds_at(moved, runs.complete(dict(s)))
    ]
    if not outside:
        return restriction
    failed = runs.at(dict(outside[0])) if tried.failed is not None else None
    still = tuple(s for s in tried.runs if not holds_at(moved, runs.complete(dict(s))))
    term = replace(restriction.term, cond=moved, text=text_of(moved))
    return replace(restriction, term=term, tried=replace(tried, sizes=outside[0], failed=failed, runs=still))


def _moved(
    cond: Cond, runs: ModuleRuns, file: FileRuns | None, seen: Sequence[Sizes], others: Sequence[Cond]
) -> tuple[Cond, SizeItems] | None:
    """A bound at the last size that runs, and the next size, which fails; None if the bound is right or undecided."""

    def good(name: str, size: int) -> bool | None:
        if not all(holds_at(c, runs.complete({name: size})) for c in others):
            return None  # another condition may be why it fails
        state = runs.at({name: size}).state
        if state == "runs" and file is not None:
            return file.agrees({name: size})
        return None if state == "unknown" else state == "runs"

    def slack(name: str, size: int) -> int:
        return int(cond.args[0].evaluate({**runs.example, name: size}))

    for name in sorted(cond.free):
        size, root = runs.example[name], runs.declaration.roots[name]
        step = slack(name, size + 1) - slack(name, size)
        if not step or slack(name, size + 2) - slack(name, size) != 2 * step or slack(name, size) < 0:
            continue
        way = 1 if step < 0 else -1
        near, far = size, size + way * (slack(name, size) // abs(step))
        beyond = [s[name] for s in seen if name in s and (s[name] - far) * way > 0]
        end = root.low or 1 if way < 0 else root.high or max(beyond, default=far)
        if good(name, far) is None:
            continue
        if good(name, far):  # the last size that is said to run does
            near, far = far, far + way
            if (end - far) * way < 0 or good(name, far) is False:
                continue
            near, far = far, end
        if good(name, near) is not True or good(name, far) is not False:
            continue
        while abs(far - near) > 1:
            middle = (near + far) // 2
            state = good(name, middle)
            if state is None:
                return None
            near, far = (middle, far) if state else (near, middle)
        return ge(cond.args[0], slack(name, near)), ((name, far),)
    return None


# ---------------------------------------------------------------------- the declared sizes


def probed(runs: ModuleRuns, graph: FileRuns | None, known: Callable[[Sizes], bool]) -> list[SourceFinding]:
    """Findings for declared sizes at which the module fails or the graph differs.

    Sizes that are `known` to are left out.
    """
    tried = itertools.islice(probes(runs.declaration, runs.example), MAX_PROBES)
    found = [runs.at(sizes) for sizes in tried if not known(runs.complete(sizes))]
    failed, ran = ([r for r in found if r.state == state] for state in ("fails", "runs"))
    lines = dict.fromkeys(r.origin.place for r in failed)
    findings = [_failing(runs, [r for r in failed if r.origin.place == line], ran) for line in lines]
    if not findings and graph is not None:
        differing = (r for r in ran[:COMPARED] if graph.agrees(dict(r.sizes)) is False)
        findings += [_differing(runs, r) for r in itertools.islice(differing, 1)]
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


def _differing(runs: ModuleRuns, ran: Ran) -> SourceFinding:
    sizes = runs.changed(ran)
    title = f"the exported graph does not compute what the module computes at {sizes_text(sizes)}"
    why = "a size or a value became a number while the module was exported"
    notes = [f"tried: both were run there on the same data; {why}"]
    return _found(runs, sizes, title, notes, verdict="graph")


def _found(
    runs: ModuleRuns, sizes: SizeItems, title: str, notes: Sequence[str], **more: Any
) -> SourceFinding:
    declared = [runs.declaration.quote(n) for n, _ in sizes]
    notes = [*(f"declared: {d}" for d in declared), *notes]
    text = "; ".join(declared)
    return SourceFinding("SS609", title, notes=tuple(notes), declared=text, counterexample=sizes, **more)


def by_data(
    needed: str, origin: SourceOrigin, fails: tuple[str, Ran], runs: tuple[str, Ran]
) -> SourceFinding:
    """The finding of a size that data decides: with some data the module fails, at sizes at which it runs with other."""
    (bad, failed), (good, _) = fails, runs
    sizes = sizes_text(failed.sizes)
    notes = (
        f"at {sizes} it fails with {bad}: {first_line(failed.words)}",
        f"at {sizes} it runs with {good}",
        f"the exported graph: {needed}",
    )
    title = "the data decides whether the module runs at declared sizes"
    return SourceFinding("SS614", title, notes=notes, origin=failed.origin or origin, verdict="module")
