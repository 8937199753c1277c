"""The campaign of graphs: draw, judge in a process of its own, count, and write down what fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import onnx

from .isolate import Lost, Worker, answers
from .judge import FAILURES, Fault, Judge, Verdict
from .model import Drawn, drawn_model

_EMPTY = Drawn(onnx.ModelProto(), {}, {})
_MODES = ("named", "named", "named", "strict", "named", "equal", "named", "strict")


def judged(seed: int) -> Iterator[str]:
    """Draws and judges the model of a seed."""
    yield "draw"
    drawn = drawn_model(seed)
    judge = Judge(drawn, seed, mode_of(seed))
    yield from judge.run(drawn.bindings(Random(seed)))
    return judge.verdict


def asked(drawn: Drawn, seed: int) -> Iterator[str]:
    """What a judge asks of an analysis, in a process in which onnxruntime ran nothing; no answer is judged."""
    judge = Judge(drawn, seed, mode_of(seed))
    yield "analysis"
    judge.analyze()
    judge.ask(drawn.bindings(Random(seed)))
    return judge.verdict


def mode_of(seed: int) -> str:
    """The broadcast mode in which a seed's model is analyzed."""
    return _MODES[seed % len(_MODES)]


@dataclass
class Totals:
    """What a campaign saw."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[int, Fault]] = field(default_factory=list)
    misses: Counter[str] = field(default_factory=Counter)

    def add(self, seed: int, verdict: Verdict) -> None:
        """One model's."""
        self.counts["graphs"] += 1
        for name in ("ran", "refused", "failed", "dims", "unknown", "proofs"):
            self.counts[name] += getattr(verdict, name)
        self.counts["misses"] += len(verdict.misses)
        self.misses.update(f"{m.kind}  (seed {seed})" for m in verdict.misses[:1])
        for fault in verdict.faults:
            self.faults.append((seed, fault))

    def __str__(self) -> str:
        c = self.counts
        found = Counter(f.category for _, f in self.faults)
        lines = [
            f"{c['graphs']} graphs, {c['ran']} runs ({c['refused']} of them refused by intent), "
            f"{c['failed']} runs that failed ({c['misses']} of them accepted), "
            f"{c['dims']} dims ({c['unknown']} unknown), {c['proofs']} proofs, {c['lost']} lost to onnxruntime",
            ", ".join(f"{name}: {found[name]}" for name in FAILURES),
        ]
        return "\n".join(lines)


def told(answer: Any) -> Verdict:
    """The verdict, also of an analysis that never came back."""
    if not isinstance(answer, Lost):
        return answer
    if answer.phase != "analysis":
        return Verdict()
    cause = "traceback" if answer.cause.startswith("crash") else answer.cause
    return Verdict([Fault(cause, f"{answer.cause} during the analysis", {}, "lost")])


class Campaign:
    """Judges the models of seeds one after the other; writes what fails (and `misses`) to a folder."""

    def __init__(
        self, out: Path | None = None, say: Callable[[str], None] = lambda _: None, misses: bool = False
    ) -> None:
        self.totals, self._out, self._say, self._misses = Totals(), out, say, misses
        self._worker, self._unharmed = Worker(judged, (0,)), Worker(asked, (_EMPTY, 0))
        self._written: set[str] = set()

    def run(self, seeds: range, seconds: float | None = None) -> Totals:
        """All seeds, or as many as there is time for."""
        for seed, answer in answers(self._worker, seeds, seconds):
            if isinstance(answer, Lost) and answer.phase == "analysis" and answer.cause.startswith("crash"):
                answer = self._crashed(seed, answer)
            self.totals.counts["lost"] += isinstance(answer, Lost) and answer.phase != "analysis"
            self._take(seed, told(answer))
        self._worker.close()
        self._unharmed.close()
        return self.totals

    def _crashed(self, seed: int, lost: Lost) -> Lost:
        """Whose crash is it? onnxruntime may have damaged the memory of the process that analyzes."""
        try:
            self._unharmed.ask(drawn_model(seed), seed)
        except Lost as again:
            return again
        return Lost("runtime", lost.cause)

    def _take(self, seed: int, verdict: Verdict) -> None:
        self.totals.add(seed, verdict)
        for fault in verdict.faults:
            self._say(f"seed {seed}: {fault.category} at {dict(fault.sizes)}: {fault.text}")
        new = [m for m in verdict.misses if self._misses and m.kind not in self._written]
        self._written.update(m.kind for m in new)
        for fault in [*verdict.faults, *new] if self._out is not None else ():
            self._write(seed, fault, self._out)

    def _write(self, seed: int, fault: Fault, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{fault.category.replace(' ', '_')}_{seed}"
        onnx.save(drawn_model(seed).model, folder / f"{name}.onnx")
        claim = f"\nclaim: {fault.claim}" if fault.claim else ""
        told = f"{fault.category} at {dict(fault.sizes)}: {fault.text}\nbroadcast: {mode_of(seed)}{claim}\n"
        (folder / f"{name}.txt").write_text(told, "utf-8")
