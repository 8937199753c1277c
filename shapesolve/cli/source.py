"""The check of PyTorch source (``shapesolve check --torch``)."""

from __future__ import annotations

import importlib
from typing import Any, NoReturn

from .console import FOUND, OK, Format, fail, say, show

#: loaded by name when asked for: PyTorch is optional
_COMMAND = "shapesolve.torch.command"


def check_source(target: str, assume: list[str] | None, broadcast: str, format: Format) -> NoReturn:
    """Check what ``package.module:factory`` makes, print it, and end with the exit code of ``check``."""
    from ..expr import DimSyntaxError

    try:
        command: Any = importlib.import_module(_COMMAND)
    except ImportError as e:
        fail(str(e))
    try:
        report = command.check_target(target, assume or (), broadcast)
    except (command.UnusableTarget, DimSyntaxError, ValueError) as e:
        fail(str(e))
    if format is Format.text:
        show(report.lines())
    else:
        text = {Format.json: report.to_json, Format.sarif: report.to_sarif, Format.github: report.to_github}[
            format
        ]()
        if text:
            say(text)
    raise SystemExit(OK if report.ok else FOUND)
