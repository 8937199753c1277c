"""Command check: findings as pass or fail, for CI."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from .app import app
from .console import FOUND, OK, UNUSABLE, Format, fail, print_error, print_raw, print_text, show
from .options import AsJson, Assume, Bind, Broadcast, FindingsFormat, find, read_or_say
from .parameters import Argument, Option

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..report.gate import Gate, Sifted


import importlib
from typing import NoReturn

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


FailOn = Annotated[
    str | None,
    Option(
        "--fail-on", metavar="error|warning|info", help="The least severity that fails.  [default: error]"
    ),
]
Select = Annotated[
    list[str] | None,
    Option(
        "--select",
        metavar="CODES",
        help="Only these codes; SS2 is every code that begins with it: SS2,SS401.",
    ),
]
Ignore = Annotated[list[str] | None, Option("--ignore", metavar="CODES", help="None of these codes.")]
Limits = Annotated[
    bool, Option("--limits", help="Show size limits too, such as the length of a table (SS403).")
]
Baseline = Annotated[
    Path | None,
    Option("--baseline", metavar="FILE", help="Findings in this file are known: they are not shown."),
]
WriteBaseline = Annotated[
    Path | None,
    Option("--write-baseline", metavar="FILE", help="Write all findings to a baseline file."),
]


@app.command()
def check(
    models: Annotated[
        list[str] | None,
        Argument(metavar="[MODEL]...", help="ONNX files, folders of them, or - for standard input."),
    ] = None,
    torch: Annotated[
        str | None,
        Option("--torch", metavar="MODULE:FACTORY", help="Check the PyTorch module that a function makes."),
    ] = None,
    infer: Annotated[
        bool, Option("--infer", help="With --torch: find a declaration of dynamic sizes to paste.")
    ] = False,
    assume: Assume = None,
    bind: Bind = None,
    broadcast: Broadcast = "named",
    fail_on: FailOn = None,
    select: Select = None,
    ignore: Ignore = None,
    limits: Limits = False,
    baseline: Baseline = None,
    write_baseline: WriteBaseline = None,
    format: FindingsFormat = Format.text,
    json: AsJson = False,
) -> None:
    """Problems of a model; the exit code fails a script.

    Several models without findings print nothing. Exit code 0 without findings that fail (errors; see --fail-on), 1 with one,
    2 when an input is unusable. Options may stand in pyproject.toml under [tool.shapesolve]. Examples:

        shapesolve check model.onnx || exit 1

        shapesolve check exports/ --fail-on warning --baseline known.json

        shapesolve check model.onnx --format github

        shapesolve check --torch package.module:factory

        shapesolve check --torch package.module:factory --infer
    """
    style = Format.json if json else format
    if torch is not None:
        if models or bind:
            fail("--torch takes the place of the model, and its factory gives the sizes")
        check_source(torch, assume, broadcast, style, infer)
    if infer:
        fail("--infer finds the declaration of a module: give --torch package.module:factory too")
    gate = gate_of(fail_on, select, ignore, baseline, limits)
    found: list[tuple[str, Analysis, Sifted]] = []
    broken: dict[str, str] = {}
    for name, source in _sources(models or []):
        a = read_or_say(source, [*(assume or ()), *gate.expected(name)], bind, broadcast)
        if isinstance(a, str):
            print_error(broken.setdefault(name, a if name in a else f"{name}: {a}"))
            continue
        find(a)
        found.append((name, a, gate.sifted(name, a.findings)))
    if write_baseline is not None:
        count = _write_baseline(write_baseline, [(name, a.findings) for name, a, _ in found])
    _print(found, broken, style)
    if write_baseline is not None:
        if style is Format.text:
            print_text(
                f"wrote {count} findings to {write_baseline}: with --baseline {write_baseline} they are not shown again"
            )
        raise SystemExit(UNUSABLE if broken else OK)
    failed = any(gate.fails(of.shown) for _, _, of in found)
    raise SystemExit(UNUSABLE if broken else FOUND if failed else OK)


def gate_of(
    fail_on: str | None,
    select: list[str] | None,
    ignore: list[str] | None,
    baseline: Path | None,
    limits: bool = False,
) -> Gate:
    """Gate settings of the project, overridden by command line options."""
    from ..report.gate import read_settings
    from ..settings import SettingsError

    try:
        return read_settings().changed(fail_on, select, ignore, baseline, limits)
    except SettingsError as e:
        fail(str(e))


def _sources(models: list[str]) -> list[tuple[str, Any]]:
    """Pairs (name, source) of the models to check."""
    from ..report.scan import find_models

    if not models:
        fail("give a model, or --torch package.module:factory")
    out: list[tuple[str, Any]] = []
    for model in models:
        if model == "-":
            out.append(("<stdin>", sys.stdin.buffer.read()))
            continue
        files = find_models([model])
        if not files:
            fail(f"no .onnx file in {model}")
        out += [(str(f), f) for f in files]
    return out


def _print(found: list[tuple[str, Analysis, Sifted]], broken: dict[str, str], style: Format) -> None:
    if style is Format.json:
        from ..report.json import findings_json

        print_raw(findings_json([(name, a.ok, of.shown) for name, a, of in found], broken))
    elif style is Format.sarif:
        from ..report.sarif import sarif_text

        print_raw(sarif_text([(name, of.shown) for name, _, of in found], broken))
    elif style is Format.github:
        from ..report.sarif import annotation_lines

        lines = list(annotation_lines([(name, of.shown) for name, _, of in found]))
        if lines:
            print_raw("\n".join(lines))
    else:
        from ..report.text import closing_line, headline, summary_lines

        worth = [(a, of) for _, a, of in found if of.shown]
        for i, (a, of) in enumerate(worth):
            show([*([()] if i else []), headline(a), *summary_lines(a, of.shown)])
        if len(found) > 1 and not worth and not broken:
            return  # several clean files need no word
        if closing := closing_line([of for _, _, of in found], len(broken)):
            show([*([()] if worth else []), closing])


def _write_baseline(file: Path, found: list[tuple[str, Any]]) -> int:
    from ..report.gate import write_baseline

    try:
        return write_baseline(file, found)
    except ValueError as e:
        fail(str(e))
    except OSError as e:
        fail(f"cannot write {file}: {e.strerror or e}")
