"""Findings as GitHub workflow commands, shown as annotations of a change.

https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ..lines import visible
from .sarif import message_text

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..explain.finding import Finding

_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


def render_github(analysis: Analysis) -> str:
    """Findings of one analysis as workflow commands."""
    path = analysis.model.path
    return "\n".join(annotation_lines([(str(path) if path is not None else "", analysis.diagnostics)]))


def annotation_lines(findings: Iterable[tuple[str, Sequence[Finding]]]) -> Iterator[str]:
    """One workflow command per finding of any number of files (path, findings)."""
    for path, found in findings:
        for finding in found:
            place = getattr(finding, "place", None)  # findings on source code know their line
            yield command(
                _COMMANDS[finding.severity],
                message_text(finding),
                path,
                f"{finding.code} {finding.title}",
                line=place.line if place is not None else 0,
            )


def command(kind: str, message: str, path: str = "", title: str = "", *, line: int = 0) -> str:
    """Text of one workflow command: ``::error file=model.onnx,title=SS201 …::message``, escaped."""
    properties = {"file": path, "line": str(line or ""), "title": title}
    given = ",".join(f"{key}={_property(value)}" for key, value in properties.items() if value)
    lines = "\n".join(map(visible, message.split("\n")))
    return f"::{kind}{' ' if given else ''}{given}::{_data(lines)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(visible(text)).replace(":", "%3A").replace(",", "%2C")
