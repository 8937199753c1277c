"""Findings that know the Python line: what the analysis says, and what became of the declaration."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from ..analysis.findings import Finding, Severity
from .places import NOWHERE, Origin, Place

#: code -> (severity, what it says in one line); pages in docs/findings
TORCH_CODES: dict[str, tuple[Severity, str]] = {
    "SS601": ("error", "a dim declared dynamic came out with one size"),
    "SS602": ("error", "dims declared independent came out tied to each other"),
    "SS603": ("error", "a dim declared dynamic came out restricted to some sizes"),
    "SS604": ("error", "the declared range is wider than what runs"),
    "SS605": ("warning", "the module limits a dim whose declaration has no such limit"),
    "SS606": ("warning", "a dim left to torch.export came out fixed or tied"),
    "SS607": ("error", "torch.export refuses the module"),
    "SS608": ("error", "the exporter cannot write the module as ONNX"),
}


@dataclass(frozen=True, slots=True)
class SourceFinding(Finding):
    """A finding with the Python code it belongs to.

    Attributes:
        origin: the line that caused it and the module path; empty when the exporter left no trace.
        met: the line where it shows, when that is not the line that caused it.
        declared: the words that declared the dim, where the finding is about a declaration.
        term: the condition that came out instead.
        counterexample: sizes within the declaration that do not run.
    """

    origin: Origin = NOWHERE
    met: Place | None = None
    declared: str = ""
    term: str = ""
    counterexample: tuple[tuple[str, int], ...] = ()

    @property
    def place(self) -> Place | None:
        """The Python line to look at."""
        return self.origin.place

    @property
    def severity(self) -> Severity:
        """``error``, ``warning`` or ``info``."""
        known = TORCH_CODES.get(self.code)
        return known[0] if known is not None else Finding.severity.fget(self)  # type: ignore[attr-defined]


def located(finding: Finding, origin: Origin, **more: Any) -> SourceFinding:
    """A finding of the analysis, with where it comes from."""
    given = {f.name: getattr(finding, f.name) for f in fields(Finding)}
    return SourceFinding(**given, origin=origin, **more)
