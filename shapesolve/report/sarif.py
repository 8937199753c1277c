"""Findings as SARIF 2.1.0, the format that code hosts show next to a change.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ..findings.diagnose import CODES
from ..lines import json_text, visible
from .gate import fingerprint
from .rule import rule_page

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..causes.finding import Finding


SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
#: severity -> SARIF level
LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def render_sarif(analysis: Analysis) -> str:
    """Return the findings of one analysis as SARIF."""
    return sarif_text([(str(analysis.model.path or ""), analysis.findings)])


def sarif_text(
    findings: Iterable[tuple[str, Sequence[Finding]]], unusable: Mapping[str, str] | None = None
) -> str:
    """Return one SARIF run over the findings of several files (path, findings); `unusable` maps a path to the reason."""
    codes = list(CODES)
    rules = [
        {
            "id": code,
            "shortDescription": {"text": kind.page()[0]},
            "help": dict.fromkeys(("text", "markdown"), rule_page(code, example=False)),
            "defaultConfiguration": {"level": LEVELS[kind.severity]},
        }
        for code, kind in CODES.items()
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
    place = getattr(finding, "place", None)  # only findings on source code have a line
    location: dict[str, Any] = _place(path, place.line if place is not None else 0) if path else {}
    if finding.named:
        location["logicalLocations"] = [{"fullyQualifiedName": n, "kind": "function"} for n in finding.named]
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": LEVELS[finding.severity],
        "message": {"text": message_text(finding)},
        "partialFingerprints": {"shapesolve/v2": fingerprint(Path(path).name, finding)},
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
    """Return a finding as one paragraph: title, operands, steps, help."""
    parts = [finding.title + (f" at {finding.node}" if finding.node else "")]
    parts += [f"{name} {shape} {origin}" for name, shape, origin in finding.operands]
    parts += [step.text for step in finding.steps]
    for text in (*finding.notes, f"help: {finding.help}" if finding.help else ""):
        parts += filter(None, text.split("\n"))  # text of several lines, such as code to paste
    return "\n".join(map(visible, parts))


def _version() -> str:
    try:
        return version("shapesolve")
    except PackageNotFoundError:
        return "0"


_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


def render_github(analysis: Analysis) -> str:
    """Return the findings of one analysis as workflow commands."""
    return github_text([(str(analysis.model.path or ""), analysis.findings)])


def github_text(
    findings: Iterable[tuple[str, Sequence[Finding]]], unusable: Mapping[str, str] | None = None
) -> str:
    """Return one workflow command per finding of several files, and per unusable file; the arguments of `sarif_text`."""
    lines = []
    for path, found in findings:
        for f in found:
            place = getattr(f, "place", None)  # only findings on source code have a line
            at = place.line if place is not None else 0
            lines.append(
                command(_COMMANDS[f.severity], message_text(f), path, f"{f.code} {f.title}", line=at)
            )
    return "\n".join([*lines, *(command("error", text, path) for path, text in (unusable or {}).items())])


def command(kind: str, message: str, path: str = "", title: str = "", *, line: int = 0) -> str:
    """Return one escaped workflow command: ``::error file=model.onnx,title=SS201 …::message``."""
    properties = {"file": path, "line": str(line or ""), "title": title}
    given = ",".join(f"{key}={_property(value)}" for key, value in properties.items() if value)
    lines = "\n".join(map(visible, message.split("\n")))
    return f"::{kind}{' ' if given else ''}{given}::{_data(lines)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(visible(text)).replace(":", "%3A").replace(",", "%2C")


#: format of findings -> its writer
WRITERS = {"sarif": sarif_text, "github": github_text}
