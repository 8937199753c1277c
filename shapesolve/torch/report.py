"""`Report`: the findings of a check, as text, JSON, GitHub annotations and SARIF."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from ..analysis import Analysis
from ..lines import Printed, json_text, line, plain
from ..report.gate import SEVERITIES
from ..report.json import VERSION, data_of
from ..report.json import report_data as analysis_data
from ..report.sarif import github_text, sarif_text
from ..report.text import counted, finding_lines
from .declared import Declaration, Root
from .limits import MAX_SHOWN
from .places import SourceFinding, shown_path
from .verdicts import Judged, Restriction


@dataclass(frozen=True)
class SizeOutcome:
    """Outcome of a declared size. `state` is free, failing, fixed, tied, range, restricted or unknown."""

    root: Root
    declared: str
    state: str
    text: str
    restrictions: tuple[Restriction, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return f"{self.declared}: {self.text}"


def outcomes(judged: Judged) -> tuple[SizeOutcome, ...]:
    """One outcome per declared size, in the order of declaration."""
    lost = judged.export.refusal is not None and judged.export.proto is None
    failing = {name: failure for failure in judged.failures for name, _ in failure.sizes}
    found: list[SizeOutcome] = []
    for name, root in judged.declaration.roots.items():
        own = tuple(r for r in judged.real if name in r.roots)
        state, text = (
            ("unknown", "not known, because the export fails") if lost else ("free", "free, as declared")
        )
        if own:
            state = next(k for k in ("fixed", "tied", "restricted", "range") if any(r.kind == k for r in own))
            text = ", ".join(r.term.text for r in own)
        elif name in failing:
            state, text = "failing", str(failing[name])
        found.append(SizeOutcome(root, judged.declaration.quote(name), state, text, own))
    return tuple(found)


@dataclass(frozen=True)
class Report:
    """The result of `check`. True when no finding is an error.

    Attributes:
        findings: everything found, errors first, each with its Python line where the exporter left one.
        sizes: per declared size what came out (`SizeOutcome`).
        corrected: ``dynamic_shapes`` to paste, or empty when the declaration is right as it is.
        tried: `corrected` was exported, and its file was run at sizes that it promises.
        refusal: torch.export's own words when it refused; empty when it did not.
        analysis: the `Analysis` of the exported model, or None when there is none to analyze.
        program: the `ExportedProgram`; when torch.export refused the declaration, the one in which it was free to choose.
        model: the exported ONNX model, its dims named as declared.
        inferred: the declaration was not given but found: it is `corrected`.
    """

    name: str
    findings: tuple[SourceFinding, ...]
    declaration: Declaration
    sizes: tuple[SizeOutcome, ...] = ()
    corrected: str = ""
    refusal: str = ""
    analysis: Analysis | None = field(default=None, repr=False)
    program: Any = field(default=None, repr=False)
    model: Any = field(default=None, repr=False)
    inferred: bool = False
    tried: bool = False

    @property
    def ok(self) -> bool:
        """True if no finding is an error."""
        return not self.errors

    def __bool__(self) -> bool:
        return self.ok

    @property
    def errors(self) -> tuple[SourceFinding, ...]:
        """The findings of error level."""
        return tuple(f for f in self.findings if f.severity == "error")

    # ------------------------------------------------------------------ media

    def lines(self) -> Iterator[Printed]:
        """The report in styled lines."""
        yield line(("bold", self.name), "   ", ("dim", self._facts()))
        for i, size in enumerate(self.sizes):
            state = "good" if size.state == "free" else "warning"
            label = "" if i else "inferred" if self.inferred else "declared"
            text = str(size).replace(", as declared", "") if self.inferred else str(size)
            yield line(("dim", label.ljust(10)), (state, text))
        counts: dict[str, int] = {s: sum(f.severity == s for f in self.findings) for s in SEVERITIES}
        worst = next((s for s, n in counts.items() if n), "good")
        yield line(("dim", "findings".ljust(10)), (worst, counted(counts) or "none"))
        shown: set[str] = set()
        for finding in self.findings:
            yield ()
            yield from source_lines(finding, shown)

    def _facts(self) -> str:
        if self.analysis is None:
            return "not exported"
        count = len(self.analysis.model.graph.nodes)
        return f"exported · {count:,} node{'s' if count != 1 else ''}"

    def __str__(self) -> str:
        return plain(self.lines())

    def to_json(self) -> str:
        """Everything, as JSON text."""
        return json_text({"version": VERSION, **report_data(self)})

    def to_github(self) -> str:
        """GitHub workflow commands: annotations on the Python lines."""
        return github_text([(self._file(f), [f]) for f in self.findings])

    def to_sarif(self) -> str:
        """SARIF 2.1.0, with the Python lines as locations."""
        return sarif_text([(self._file(f), [f]) for f in self.findings])

    def _file(self, finding: SourceFinding) -> str:
        if finding.place is not None:
            return shown_path(finding.place.file)
        path = self.analysis.model.path if self.analysis is not None else None
        return str(path) if path is not None else ""


def source_lines(finding: SourceFinding, shown: set[str]) -> Iterator[Printed]:
    """Lines of one finding, its Python line first. `shown` is the help printed before."""
    notes = tuple(row for note in finding.notes for row in note.splitlines() if row.strip())
    first, *rest = finding_lines(replace(finding, help="", notes=notes))
    yield first
    place = finding.place
    if place is not None:
        module = finding.origin.module or "the module itself"
        kind = f", {finding.origin.kind.rpartition('.')[2]}" if finding.origin.kind else ""
        yield line(("dim", "  --> "), f"{place}", ("dim", f"  in {place.function or '?'}  ({module}{kind})"))
        if place.code:
            yield line(("dim", "   |  "), ("code", place.code))
        above = [p for p in reversed(finding.origin.trace[:-1]) if str(p) != str(place)]
        for caller in above[:MAX_SHOWN]:
            yield line(("dim", "   |  called from "), f"{caller}", ("dim", f"  {caller.code}"))
    elif finding.origin.module:
        yield line(("dim", "  --> "), f"module {finding.origin.module}")
    yield from rest
    head, _, paste = finding.help.partition("\n")
    if paste and paste in shown:
        yield line(("good", "help: "), head.rstrip(":"), ("dim", " (as above)"))
    elif head:
        shown.add(paste)
        yield line(("good", "help: "), head)
        yield from (line("      ", ("code", row)) for row in paste.splitlines())


def report_data(report: Report) -> dict[str, Any]:
    """The report as plain data, without the version of the layout."""
    return {
        "module": report.name,
        "ok": report.ok,
        "refusal": report.refusal,
        "declared": [
            {
                "name": s.root.name,
                "declaration": s.declared,
                "state": s.state,
                "conditions": [
                    {
                        "condition": r.term.text,
                        "verdict": r.answer.kind,
                        "counterexample": dict(r.counterexample),
                    }
                    for r in s.restrictions
                ],
            }
            for s in report.sizes
        ],
        "corrected": report.corrected,
        "findings": data_of(report.findings),
        "analysis": None if report.analysis is None else data_of(analysis_data(report.analysis)),
    }
