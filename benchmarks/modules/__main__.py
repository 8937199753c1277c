"""The whole bench of cases drawn by construction: ``python -m benchmarks.modules [NAME ...]``.

One line per case, then how many mistakes were found on a line where eager PyTorch fails, and the verdicts on the rest.
"""

from __future__ import annotations

import collections
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime as ort
import torch
from torch.export import Dim

from shapesolve.expr import parse_cond
from shapesolve.torch import Report, check
from shapesolve.torch.declared import bounds_of, derivation

from . import attention, blocks, idioms, images, parts, places, sequences, signals, streams
from .built import Built

CASES: list[Built] = [
    case
    for module in (
        images,
        places,
        sequences,
        signals,
        attention,
        parts,
        blocks,
        streams,
        idioms,
    )
    for case in module.cases
]


@dataclass(frozen=True)
class Judged:
    """The verdict on a report by runs of eager PyTorch; `not written` where the exporter refuses the module."""

    case: Built
    report: Report
    verdict: str
    after: str = ""

    def __str__(self) -> str:
        findings = "; ".join(
            f"{f.severity} {f.code} {f.place.line if f.place else '-'} {f.title}"
            for f in self.report.findings
        )
        return f"{self.verdict:12} {self.after:8} {self.case.name:32} {sorted(self.case.lines)} {findings}"


def judged(case: Built) -> Judged:
    """Check a case; a corrected declaration is taken over and checked again."""
    report = checked(case, case.dynamic_shapes)
    wrong = bool(case.failures)
    if not wrong:
        return Judged(case, report, _of_correct(case, report))
    blamed = [
        f for f in report.errors if f.code not in ("SS608", "SS611")
    ] or report.errors  # the exporter's own limits are no mistake
    lines = {f.place.line if f.place and f.place.file == case.file else 0 for f in blamed}
    found = "missed" if not lines else "right line" if lines <= case.lines else "wrong line"
    return Judged(case, report, found, _after(case, report) if report.corrected else "")


def _of_correct(case: Built, report: Report) -> str:
    """Verdict on a report about a module that runs at all its sizes: `missed` if a graph is astray and no finding has it."""
    if report.errors:
        if all(f.verdict == "export" and f.place for f in report.errors):
            return "false alarm" if _exports(case) else "not written"
        right = all(astray(case, report, dict(f.counterexample)) for f in report.errors)
        return "graph astray" if right else "false alarm"
    stated = () if report.corrected else [parse_cond(f.term) for f in report.findings if f.term]
    tried = [t for t in case.tried() if all(c.evaluate(t) for c in stated)]
    return "graph missed" if astray(case, report, *tried[:: len(tried) // 8 + 1]) else _quiet(report)


def astray(case: Built, report: Report, *tried: dict[str, int]) -> bool:
    """True if onnxruntime fails on the exported model at one of these sizes, or differs from the module."""
    if report.model is None:
        return False
    session = ort.InferenceSession(report.model.SerializeToString(), providers=["CPUExecutionProvider"])
    return any(_differs(case, session, {**case.example, **sizes}) for sizes in tried)


def _differs(case: Built, session: Any, sizes: dict[str, int]) -> bool:
    args = case.args(sizes)
    wanted = [t.numpy() for t in torch.utils._pytree.tree_leaves(case.outputs(sizes))]
    try:
        found = session.run(
            None, {i.name: a.numpy() for i, a in zip(session.get_inputs(), args, strict=True)}
        )
    except Exception:
        return True
    same = (
        np.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True)
        for a, b in zip(wanted, found, strict=True)
        if a.shape == b.shape
    )
    return any(a.shape != b.shape for a, b in zip(wanted, found, strict=True)) or not all(same)


def _exports(case: Built) -> bool:
    """True if the exporter writes the module as declared."""
    try:
        torch.onnx.export(case.module(), case.args(), dynamic_shapes=case.dynamic_shapes, verbose=False)
    except Exception:
        return False
    return True


def _quiet(report: Report) -> str:
    return "warned" if any(f.severity == "warning" for f in report.findings) else "silent"


def checked(case: Built, shapes: Any) -> Report:
    return check(case.module(), case.args(), dynamic_shapes=shapes)


def pasted(text: str) -> Any:
    """The `dynamic_shapes` of a text to paste, executed as in a user's file."""
    names: dict[str, Any] = {"torch": torch, "Dim": Dim}
    exec(text, names)  # noqa: S102 - what a user does with it
    return names["dynamic_shapes"]


def _after(case: Built, report: Report) -> str:
    """Verdict on the corrected declaration: `silent`, the `next` mistake, or the same `again`."""
    again = checked(case, pasted(report.corrected))
    if not again.errors:
        return "silent"
    lines = {f.place.line if f.place else 0 for f in again.errors}
    terms = {f.term for f in report.errors if f.term}
    return "next" if lines <= case.lines and terms.isdisjoint(f.term for f in again.errors) else "again"


def suggestion(case: Built, report: Report) -> str:
    """`holds`: what is suggested is exported by torch.onnx.export, and its file follows the module at two sizes.

    Else `fails`; `untried` if the report says so; empty without a suggestion.
    """
    if not report.corrected or not report.tried:
        return "untried" if report.corrected else ""
    shapes = pasted(report.corrected)
    try:
        made = torch.onnx.export(case.module(), case.args(), dynamic_shapes=shapes, verbose=False)
    except Exception:
        return "fails"
    model = made.model_proto.SerializeToString()
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    allowed = [t for t in case.tried() if _allows(shapes, case, t) and case.fails(t) is None]
    others = [t for t in allowed if t != case.example] or allowed
    return "fails" if any(_differs(case, session, t) for t in (others[0], others[-1])) else "holds"


def _allows(shapes: Any, case: Built, sizes: dict[str, int]) -> bool:
    """True if these sizes are within a declaration."""
    roots: dict[str, int] = {}
    given = zip(case.inputs, case.args(), case.args(sizes), strict=True)
    for entries, example, now in ((shapes.get(name) or {}, a, b) for name, a, b in given):
        for axis, size in enumerate(now.shape):
            entry = entries.get(axis) if isinstance(entries, dict) else entries[axis]
            if entry is None and size != example.shape[axis]:
                return False
            low, high = bounds_of(entry) if entry is not None else (None, None)
            if isinstance(entry, Dim):
                root, form = derivation(entry)
                least, step = (form.evaluate({root.__name__: n}) for n in (0, 1))
                value, rest = divmod(size - least, step - least)
                if rest or roots.setdefault(root.__name__, value) != value:
                    return False
                size, (low, high) = value, bounds_of(root)
            if (low is not None and size < low) or (high is not None and size > high):
                return False
    return True


def run(names: list[str]) -> Iterator[Judged]:
    for case in CASES:
        if not names or case.name in names:
            yield judged(case)


def main(names: list[str]) -> None:
    counts: collections.Counter[str] = collections.Counter()
    started = time.perf_counter()
    for one in run(names):
        kind = "mistake" if one.case.failures else "correct"
        counts[f"{kind}: {one.verdict}"] += 1
        counts[f"corrected declaration: {one.after or 'none'}"] += 1
        counts[f"suggestion: {suggestion(one.case, one.report) or 'none'}"] += 1
        print(f"{kind} {one}", flush=True)
        if names:
            print(one.report)
    for what, count in sorted(counts.items()):
        print(f"{count:4}  {what}")
    print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
