"""``shapesolve check --torch``: checks a PyTorch module."""

from __future__ import annotations

import importlib
from typing import Any, NoReturn

from .console import FOUND, OK, Format, fail, print_raw, show

#: loaded by name when asked for: PyTorch is optional
_COMMAND, _FORMATS = "shapesolve.torch.command", "shapesolve.torch.report"


def check_source(
    target: str, assume: list[str] | None, broadcast: str, format: Format, infer: bool = False
) -> NoReturn:
    """Checks the module that ``package.module:factory`` returns, prints findings, and exits."""
    try:
        command: Any = importlib.import_module(_COMMAND)
    except ImportError as e:
        fail(str(e))
    try:
        report = command.check_target(target, assume or (), broadcast, infer)
    except ValueError as e:
        fail(str(e))
    if format is Format.text:
        show(report.lines())
    elif format is Format.json:
        from ..report.json import envelope

        formats: Any = importlib.import_module(_FORMATS)
        print_raw(envelope("check", formats.report_data(report)))
    elif text := report.to_sarif() if format is Format.sarif else report.to_github():
        print_raw(text)
    raise SystemExit(OK if report.ok else FOUND)
