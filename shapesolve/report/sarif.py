"""Findings as SARIF 2.1.0, the format that code hosts show next to a change.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ..explain.diagnose import CODES
from ..lines import json_text, visible
from .gate import fingerprint
from .rules import rule_page

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..explain.finding import Finding

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
#: severity -> SARIF level
LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def render_sarif(analysis: Analysis) -> str:
    """Findings of one analysis as SARIF text."""
    path = analysis.model.path
    return sarif_text([(str(path) if path is not None else "", analysis.diagnostics)])


def sarif_text(
    findings: Iterable[tuple[str, Sequence[Finding]]], unusable: Mapping[str, str] | None = None
) -> str:
    """One SARIF run over the findings of any number of files (path, findings); `unusable`: path -> why."""
    codes = list(CODES)
    rules = [
        {
            "id": code,
            "shortDescription": {"text": text},
            "help": {"text": rule_page(code), "markdown": rule_page(code)},
            "defaultConfiguration": {"level": LEVELS[severity]},
        }
        for code, (severity, text) in CODES.items()
    ]
    driver = {"name": "shapesolve", "version": _version(), "rules": rules}
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(path, f, codes) for path, found in findings for f in found],
    }
    notifications = [
        {"level": "error", "message": {"text": text}, "locations": [_place(path)]}
        for path, text in (unusable or {}).items()
    ]
    if notifications:
        run["invocations"] = [{"executionSuccessful": False, "toolExecutionNotifications": notifications}]
    return json_text({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _result(path: str, finding: Finding, codes: list[str]) -> dict[str, Any]:
    place = getattr(finding, "place", None)  # findings on source code know their line
    location: dict[str, Any] = _place(path, place.line if place is not None else 0) if path else {}
    if finding.named:
        location["logicalLocations"] = [{"fullyQualifiedName": n, "kind": "function"} for n in finding.named]
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": LEVELS[finding.severity],
        "message": {"text": message_text(finding)},
        "partialFingerprints": {"shapesolve/v1": fingerprint(Path(path).name, finding)},
    }
    if location:
        result["locations"] = [location]
    return result


def _place(path: str, line: int = 0) -> dict[str, Any]:
    region: dict[str, Any] = {"region": {"startLine": line}} if line else {}
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(path)}, **region}}


def _uri(path: str) -> str:
    return Path(path).as_uri() if Path(path).is_absolute() else quote(Path(path).as_posix())


def message_text(finding: Finding) -> str:
    """A finding as one paragraph: title, operands, steps, help."""
    parts = [finding.title + (f" at {finding.node}" if finding.node else "")]
    parts += [f"{name} {shape} {origin}" for name, shape, origin in finding.operands]
    parts += [step.text for step in finding.steps]
    parts += finding.notes
    if finding.help:
        parts.append(f"help: {finding.help}")
    return "\n".join(map(visible, parts))


def _version() -> str:
    try:
        return version("shapesolve")
    except PackageNotFoundError:
        return "0"
