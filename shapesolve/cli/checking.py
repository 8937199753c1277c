"""Command check: pass or fail by findings, for CI."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ..causes.finding import Finding
from .app import app
from .console import FOUND, OK, UNUSABLE, Format, Result, fail, print_error, print_note
from .options import Assume, Bind, Broadcast, FindingsFormat, find, read_or_say
from .parameters import Argument, Option

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..lines import Printed
    from ..report.gate import Gate, Sifted
    from ..report.json import AnalysisData, Sizes


@dataclass(frozen=True)
class LineData:
    """Line of Python code."""

    file: str
    line: int
    function: str
    code: str


@dataclass(frozen=True)
class OriginData:
    """Origin of a node: the calls that led to it, outermost first, and the path and class of its module."""

    trace: Sequence[LineData]
    module: str
    kind: str


class SourceFindingData(Finding):
    """Finding on a line of Python code; `term` is the condition found in place of `declared`."""

    place: LineData | None
    origin: OriginData
    declared: str
    term: str
    counterexample: Sizes
    verdict: Literal["module", "graph", "export", "unknown"]


@dataclass(frozen=True)
class DeclaredConditionData:
    """Condition that restricts a declared size; `verdict` is the result of its proof."""

    condition: str
    verdict: str
    counterexample: Sizes


@dataclass(frozen=True)
class DeclaredData:
    """Result for a size declared dynamic."""

    name: str
    declaration: str
    state: str
    conditions: Sequence[DeclaredConditionData]


@dataclass(frozen=True)
class CheckSource:
    """`shapesolve check --torch --json`. `refusal` is torch.export's message, `corrected` the corrected declaration."""

    module: str
    ok: bool
    refusal: str
    declared: Sequence[DeclaredData]
    corrected: str
    findings: Sequence[SourceFindingData]
    analysis: AnalysisData | None


def check_source(
    target: str, assume: list[str] | None, broadcast: str, format: Format, infer: bool = False
) -> Result[CheckSource]:
    """Check the module returned by ``package.module:factory``."""
    try:
        command, formats = map(
            importlib.import_module, ("shapesolve.torch.checking", "shapesolve.torch.report")
        )
    except ImportError as e:
        fail(str(e))
    report = command.check_target(target, assume or (), broadcast, infer)
    text = {"sarif": report.to_sarif, "github": report.to_github}.get(format, report.lines)()
    return Result(lambda: formats.report_data(report), text, OK if report.ok else FOUND)


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
    bool,
    Option(
        "--limits",
        help="Also show restrictions that are part of the architecture (SS403), such as a maximum sequence length.",
    ),
]
Baseline = Annotated[
    Path | None,
    Option("--baseline", metavar="FILE", help="Hide the findings listed in this baseline file."),
]
WriteBaseline = Annotated[
    Path | None,
    Option("--write-baseline", metavar="FILE", help="Write all findings to a baseline file."),
]


@dataclass(frozen=True)
class CheckedModel:
    """A model; `ok` is true if it has no contradictions."""

    model: str
    ok: bool
    findings: Sequence[Finding]


@dataclass(frozen=True)
class UnusableModel:
    """A file that cannot be analyzed, with the reason."""

    model: str
    error: str


@dataclass(frozen=True)
class Check:
    """`shapesolve check --json`: the reported findings, by model."""

    models: Sequence[CheckedModel]
    unusable: Sequence[UnusableModel]


@app.command(
    example=[
        "Attention heads that were not merged before the projection; the exit code is 1.",
        "check examples/broken_matmul.onnx",
    ]
)
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
        bool, Option("--infer", help="With --torch: print a dynamic_shapes argument for torch.export.")
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
    format: FindingsFormat = "text",
) -> Result[Check | CheckSource]:
    """Find shape problems in models; fail if there are any.

    With several models, those without findings print nothing. Exit code: 0 if there are no errors (or, with
    --fail-on, no findings of that severity), 1 otherwise, 2 if an input is unusable. Options can also be set in
    pyproject.toml under [tool.shapesolve]. Examples:

        shapesolve check model.onnx || exit 1

        shapesolve check exports/ --fail-on warning --baseline known.json

        shapesolve check model.onnx --format github

        shapesolve check --torch package.module:factory

        shapesolve check --torch package.module:factory --infer
    """
    if torch is not None:
        if models or bind:
            fail("--torch cannot be combined with a model or --bind: the factory defines both")
        return check_source(torch, assume, broadcast, format, infer)
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
    shown = [(name, of.shown) for name, _, of in found]
    lines, code = gated(gate, shown, broken, format, _lines([(a, of) for _, a, of in found], len(broken)))
    if write_baseline is not None:
        count = _write_baseline(write_baseline, [(name, a.findings) for name, a, _ in found])
        code = UNUSABLE if broken else OK
        if not isinstance(lines, str):
            told = f"wrote {count} findings to {write_baseline}; use --baseline {write_baseline} to hide them"
            lines = chain(lines, [told])
    rows = [CheckedModel(name, a.ok, of.shown) for name, a, of in found]
    data = Check(rows, [UnusableModel(name, text) for name, text in broken.items()])
    return Result(lambda: data, lines, code)


def gated(
    gate: Gate,
    found: Sequence[tuple[str, Sequence[Finding]]],
    broken: Mapping[str, str],
    format: Format,
    lines: Iterable[Printed],
) -> tuple[Iterable[Printed | str] | str, int]:
    """Return what is printed about the findings of several files, and the exit code: `lines`, or another format's text."""
    code = UNUSABLE if broken else FOUND if any(gate.fails(findings) for _, findings in found) else OK
    if format not in ("sarif", "github"):
        return lines, code
    from ..report.sarif import WRITERS

    return WRITERS[format](found, broken), code


def gate_of(
    fail_on: str | None,
    select: list[str] | None,
    ignore: list[str] | None,
    baseline: Path | None,
    limits: bool = False,
) -> Gate:
    """Return the project's gate settings, overridden by command line options."""
    from ..report.gate import read_settings

    gate = read_settings().changed(fail_on, select, ignore, baseline, limits)
    if gate.outdated:
        print_note(
            f"an earlier version wrote {gate.baseline}: renew it with --write-baseline {gate.baseline}"
        )
    return gate


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


def _lines(found: list[tuple[Analysis, Sifted]], broken: int) -> Iterator[Printed]:
    from ..report.text import closing_line, headline, summary_lines

    worth = [(a, of) for a, of in found if of.shown]
    for i, (a, of) in enumerate(worth):
        yield from [*([()] if i else []), headline(a), *summary_lines(a, of.shown)]
    if len(found) > 1 and not worth and not broken:
        return  # with several files, clean ones print nothing
    if closing := closing_line([of for _, of in found], broken):
        yield from [*([()] if worth else []), closing]


def _write_baseline(file: Path, found: list[tuple[str, Any]]) -> int:
    from ..report.gate import write_baseline

    try:
        return write_baseline(file, found)
    except OSError as e:
        fail(f"cannot write {file}: {e.strerror or e}")
