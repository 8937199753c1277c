"""Runs a module at some of its declared sizes to find failures that guards and the graph do not show."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from .declared import Declaration
from .findings import SourceFinding
from .outcome import sizes_text
from .running import Ran, Runs, Sizes, near
from .unguarded import Unguarded

_PER_SIZE, _TOGETHER, _MAX_PROBES = 6, 2, 24
#: sizes at which the exported graph is run too, and at how many of them however much work runs are
_COMPARED, _LEAST = 4, 2
_MAX_SHOWN = 4


def probes(declaration: Declaration, runs: Runs) -> Iterator[dict[str, int]]:
    """Declared sizes: one of them changed at a time, those next to the example first; then all of them."""
    choices = {name: _choices(declaration, name, runs.example[name]) for name in declaration.roots}
    for place in range(_TOGETHER):
        together = {n: v[(place + i) % len(v)] for i, (n, v) in enumerate(choices.items()) if v}
        if len(together) > 1:
            yield together
    for place in range(_PER_SIZE):
        yield from ({n: v[place]} for n, v in choices.items() if place < len(v))


def _choices(declaration: Declaration, name: str, example: int) -> list[int]:
    """Sizes to test for one name. An undeclared end of the range is next to the example."""
    root = declaration.roots[name]
    low = root.low if root.low is not None else max(2, example - 1)
    high = root.high if root.high is not None else example + 1
    found = [v for v in near(low, high, example) if low <= v <= high]
    ends = [v for v in (low, high) if v in found]
    first = [v for v in (example + 1, example - 1, *ends) if v in found]
    return list(dict.fromkeys([*first, *found]))[:_PER_SIZE]


def probed(
    declaration: Declaration,
    runs: Runs,
    graph: Unguarded | None,
    told: Callable[[Sizes], bool],
) -> list[SourceFinding]:
    """Findings for sizes at which the module fails or the graph differs, without those found earlier."""
    failed: list[Ran] = []
    ran: list[Ran] = []
    for sizes in list(probes(declaration, runs))[:_MAX_PROBES]:
        if told(runs.complete(sizes)):
            continue
        if runs.is_much and len(ran) + len(failed) >= _LEAST:
            break
        one = runs.at(sizes)
        if one.state == "fails":
            failed.append(one)
        elif one.state == "runs":
            ran.append(one)
    lines = dict.fromkeys(r.origin.place for r in failed)
    findings = [_failing(runs, [r for r in failed if r.origin.place == line], ran) for line in lines]
    if not findings and graph is not None:
        count = _LEAST if runs.is_much else _COMPARED
        differing = (r for r in ran[:count] if graph.agrees(dict(r.sizes)) is False)
        findings += [_differing(runs, r, graph) for r in itertools.islice(differing, 1)]
    return findings


def _changed(runs: Runs, ran: Ran) -> tuple[tuple[str, int], ...]:
    return tuple((n, v) for n, v in ran.sizes if runs.example[n] != v)


def _failing(runs: Runs, failed: Sequence[Ran], ran: Sequence[Ran]) -> SourceFinding:
    first = min(failed, key=lambda r: len(_changed(runs, r)))
    changed = _changed(runs, first)
    names = [n for n, _ in changed]
    like = [r for r in ran if {n for n, _ in _changed(runs, r)} <= set(names)][:_MAX_SHOWN]
    also = [r for r in failed if r is not first][: _MAX_SHOWN - 1]
    notes = [f"declared: {runs.declaration.quote(n)}" for n in names]
    notes.append(f"the module fails at {sizes_text(changed)}: {first.words.partition(chr(10))[0]}")
    notes += [f"it fails at {sizes_text(_changed(runs, r))} too" for r in also]
    notes += [f"it runs at {'; '.join(sizes_text(_changed(runs, r)) for r in like)}"] if like else []
    return SourceFinding(
        "SS609",
        f"the module fails at {sizes_text(changed)}, which is declared",
        notes=tuple(notes),
        origin=first.origin,
        declared="; ".join(runs.declaration.quote(n) for n in names),
        counterexample=changed,
        verdict="module",
    )


def _differing(runs: Runs, ran: Ran, graph: Unguarded) -> SourceFinding:
    """The finding that the graph differs from the module, with the first differing line if it is known. The exporter's
    decomposition is then the cause.
    """
    changed = _changed(runs, ran)
    if graph.in_file(dict(ran.sizes)) and graph.file is not None:
        return _differing_file(runs, ran, graph.file.failing_node(ran))
    line = graph.strays(dict(ran.sizes))
    why = (
        "torch.export's program follows the module; what the exporter makes of this line holds for the example's sizes"
        if line
        else "at the example's sizes they agree: a size or a value became a number while the module was traced"
    )
    return SourceFinding(
        "SS609",
        f"the exported graph does not compute what the module computes at {sizes_text(changed)}",
        notes=(
            *(f"declared: {runs.declaration.quote(n)}" for n, _ in changed),
            f"tried: both were run there on the same data; {why}",
        ),
        origin=line,
        declared="; ".join(runs.declaration.quote(n) for n, _ in changed),
        counterexample=changed,
        verdict="graph",
    )


def _differing_file(runs: Runs, ran: Ran, node: str) -> SourceFinding:
    """The finding that the graph follows the module and the file does not. `node` fails in onnxruntime."""
    changed = _changed(runs, ran)
    what = f"{node} fails in onnxruntime" if node else "onnxruntime computes something else"
    return SourceFinding(
        "SS609",
        f"the exported file does not compute what the module computes at {sizes_text(changed)}",
        node,
        notes=(
            *(f"declared: {runs.declaration.quote(n)}" for n, _ in changed),
            f"tried: torch.export's program follows the module there; in the file that is written of it, {what}",
        ),
        declared="; ".join(runs.declaration.quote(n) for n, _ in changed),
        counterexample=changed,
        verdict="graph",
    )
