"""A report for machines: JSON, GitHub annotations and SARIF, all on Python lines."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ..report.github import annotation_lines
from ..report.json import finding_data
from ..report.json import report_data as analysis_data
from ..report.sarif import sarif_text
from .findings import SourceFinding
from .places import Place, shown_path

if TYPE_CHECKING:
    from .report import Report


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
                        "verdict": repr(r.proof),
                        "counterexample": dict(r.counterexample),
                    }
                    for r in s.restrictions
                ],
            }
            for s in report.sizes
        ],
        "corrected": report.corrected,
        "findings": [source_data(f) for f in report.findings],
        "analysis": None if report.analysis is None else analysis_data(report.analysis),
    }


def source_data(finding: SourceFinding) -> dict[str, Any]:
    """One finding as plain data."""
    data = finding_data(finding)
    data["place"] = None if finding.place is None else asdict(finding.place)
    data["counterexample"] = dict(finding.counterexample)
    data["verdict"] = finding.verdict
    return data


def github_text(report: Report) -> str:
    """One workflow command per finding; on the Python line where there is one."""
    return "\n".join(
        text for f in report.findings for text in annotation_lines([(_file(f.place, report), [f])])
    )


def sarif_of(report: Report) -> str:
    """One SARIF run."""
    return sarif_text([(_file(f.place, report), [f]) for f in report.findings])


def _file(place: Place | None, report: Report) -> str:
    if place is not None:
        return shown_path(place.file)
    path = report.analysis.model.path if report.analysis is not None else None
    return str(path) if path is not None else ""
