"""Findings with a Python line: those of the analysis, and those about the declaration (SS6xx)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from ..explain.finding import Finding
from .places import NOWHERE, Origin, Place

#: the module fails at a declared size; the exported graph fails there or computes another thing; only torch.export's trace
#: rules it out; or nothing is exported at all, which says nothing of the module
Verdict = Literal["module", "graph", "tracer", "export", "unknown"]


#: text about a declaration that was tested
TRIED = "tried: the file that torch.onnx.export writes then gives what the module gives"


@dataclass(frozen=True, slots=True)
class SourceFinding(Finding):
    """A finding with the Python code it belongs to.

    Attributes:
        origin: the line that caused it and the module path; empty when the exporter left no trace.
        met: the line where it shows, when that is not the line that caused it.
        declared: the words that declared the dim, where the finding is about a declaration.
        term: the condition that came out instead.
        counterexample: sizes within the declaration that do not run.
        verdict: whose fault it is, where that was found out (`Verdict`).
    """

    origin: Origin = NOWHERE
    met: Place | None = None
    declared: str = ""
    term: str = ""
    counterexample: tuple[tuple[str, int], ...] = ()
    verdict: Verdict = "unknown"

    @property
    def place(self) -> Place | None:
        """The Python line to look at."""
        return self.origin.place


def located(finding: Finding, origin: Origin, **more: Any) -> SourceFinding:
    """A finding of the analysis, with where it comes from."""
    given = {f.name: getattr(finding, f.name) for f in fields(Finding)}
    return SourceFinding(**given, origin=origin, **more)
