"""Command check: pass or fail by findings, for CI."""

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

#: loaded by name on demand, because PyTorch is optional
_COMMAND, _FORMATS = "shapesolve.torch.checking", "shapesolve.torch.report"


def check_source(
    target: str, assume: list[str] | None, broadcast: str, format: Format, infer: bool = False
) -> NoReturn:
    """Check the module returned by ``package.module:factory``, print findings, and exit."""
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
        "--fail-on",
        metavar="error|warning|info",
        help="Minimum severity that makes the command fail.  [default: error]",
    ),
]
Select = Annotated[
    list[str] | None,
    Option(
        "--select",
        metavar="CODES",
        help="Show only these codes or prefixes of codes: SS2,SS401.",
    ),
]
Ignore = Annotated[
    list[str] | None, Option("--ignore", metavar="CODES", help="Hide these codes or prefixes of codes.")
]
Limits = Annotated[
    bool, Option("--limits", help="Also show size limits, such as the length of a table (SS403).")
]
Baseline = Annotated[
    Path | None,
    Option("--baseline", metavar="FILE", help="Hide the findings listed in this baseline file."),
]
WriteBaseline = Annotated[
    Path | None,
    Option("--write-baseline", metavar="FILE", help="Write all findings to a baseline file."),
]


@app.command()
def check(
    models: Annotated[
        list[str] | None,
        Argument(metavar="[MODEL]...", help="ONNX files, folders of ONNX files, or - for standard input."),
    ] = None,
    torch: Annotated[
        str | None,
        Option("--torch", metavar="MODULE:FACTORY", help="Check the PyTorch module returned by a function."),
    ] = None,
    infer: Annotated[
        bool, Option("--infer", help="With --torch: suggest a declaration of dynamic sizes to paste.")
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
    """Find shape problems in models; fail if there are any.

    With several models, those without findings print nothing. Exit code: 0 if no finding fails (errors; see
    --fail-on), 1 if one does, 2 if an input is unusable. Options can also be set in pyproject.toml under
    [tool.shapesolve]. Examples:

        shapesolve check model.onnx || exit 1

        shapesolve check exports/ --fail-on warning --baseline known.json

        shapesolve check model.onnx --format github

        shapesolve check --torch package.module:factory

        shapesolve check --torch package.module:factory --infer
    """
    style = Format.json if json else format
    if torch is not None:
        if models or bind:
            fail("--torch cannot be combined with a model or --bind: the factory defines both")
        check_source(torch, assume, broadcast, style, infer)
    if infer:
        fail("--infer requires --torch package.module:factory")
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
                f"wrote {count} findings to {write_baseline}; use --baseline {write_baseline} to hide them"
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
    """Return the project's gate settings, overridden by command line options."""
    from ..report.gate import read_settings
    from ..settings import SettingsError

    try:
        return read_settings().changed(fail_on, select, ignore, baseline, limits)
    except SettingsError as e:
        fail(str(e))


def _sources(models: list[str]) -> list[tuple[str, Any]]:
    """Return pairs (name, source) of the models to check."""
    from ..report.scan import find_models

    if not models:
        fail("expected a model, or --torch package.module:factory")
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
            return  # with several files, clean ones print nothing
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
