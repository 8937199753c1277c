"""Commands scan, ops and rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from .app import app
from .checking import Baseline, FailOn, Ignore, Select, gate_of, gated
from .console import Progress, Result, fail
from .options import Assume, Bind, Broadcast, FindingsFormat, sizes_of
from .parameters import Argument, Option

if TYPE_CHECKING:
    from ..report.coverage import Coverage
    from ..report.scan import ScanRow


@dataclass(frozen=True)
class Scan:
    """`shapesolve scan --json`."""

    models: Sequence[ScanRow]


@app.command(example=["One row per model.", "scan examples -j 1"])
def scan(
    paths: Annotated[
        list[Path],
        Argument(metavar="PATH...", help="Files, or folders to search for *.onnx."),
    ],
    jobs: Annotated[
        int, Option("--jobs", "-j", metavar="N", min=0, help="Number of processes; 0: one per processor.")
    ] = 0,
    assume: Assume = None,
    bind: Bind = None,
    broadcast: Broadcast = "named",
    fail_on: FailOn = None,
    select: Select = None,
    ignore: Ignore = None,
    baseline: Baseline = None,
    format: FindingsFormat = "text",
    dask: Annotated[str | None, Option("--dask", metavar="ADDRESS", help="Use this Dask scheduler.")] = None,
) -> Result[Scan]:
    """Analyze many models in parallel, one row each.

    Exit code: 0 if there are no errors (or, with --fail-on, no findings of that severity), 1 otherwise, 2 if a model
    cannot be read. Options can
    also be set in pyproject.toml under [tool.shapesolve]. Examples:

        shapesolve scan models/ other.onnx

        shapesolve scan models/ --format sarif > shapes.sarif
    """
    from ..model.source import no_file
    from ..report.scan import find_models, scan_lines

    missing = [p for p in paths if not p.exists()]
    if missing:
        fail(no_file(missing[0]))
    files = find_models(paths)
    if not files:
        fail(f"no .onnx file in {', '.join(map(str, paths))}")
    gate = gate_of(fail_on, select, ignore, baseline)
    given = {str(f): (*(assume or ()), *gate.expected(str(f))) for f in files}
    rows = [
        replace(r, findings=gate.sifted(r.path, r.findings).shown)
        for r in _rows(files, jobs, broadcast, dask, given, sizes_of(bind))
    ]
    broken = {r.path: r.message for r in rows if r.status in ("unusable", "failed")}
    lines, code = gated(gate, [(r.path, r.findings) for r in rows], broken, format, scan_lines(rows))
    return Result(None if isinstance(lines, str) else lambda: Scan(rows), lines, code)


def _rows(
    files: list[Path],
    jobs: int,
    broadcast: str,
    dask: str | None,
    assume: Mapping[str, tuple[str, ...]],
    bind: Mapping[str, int],
) -> list[ScanRow]:
    from ..report.scan import scan as run

    mode: Any = broadcast
    if mode not in ("strict", "named", "equal"):
        fail(f"--broadcast must be strict, named, or equal, got {broadcast!r}")
    with Progress("models") as progress:
        if dask is None:
            return run(files, jobs=jobs or None, broadcast=mode, progress=progress, assume=assume, bind=bind)
        try:
            from distributed import Client
        except ImportError:
            fail("--dask requires the distributed package: pip install 'shapesolve[dask]'")
        try:
            client = Client(dask, timeout="10s")
        except (OSError, ValueError) as e:
            fail(f"cannot reach a Dask scheduler at {dask}: {e}")
        with client:
            absolute = [p.absolute() for p in files]  # workers may run in another folder
            stated = {str(p.absolute()): assume[str(p)] for p in files}
            rows = run(
                absolute, client.get_executor(), broadcast=mode, progress=progress, assume=stated, bind=bind
            )
            return [replace(r, path=str(p)) for r, p in zip(rows, files, strict=True)]


@dataclass(frozen=True)
class Ops:
    """`shapesolve ops --json`."""

    operators: Sequence[Coverage]


@app.command(example=["One operator.", "ops HardSwish"])
def ops(
    pattern: Annotated[
        str | None, Argument(metavar="[OPERATOR]", help="Show only matching operators, e.g. 'Conv*'.")
    ] = None,
) -> Result[Ops]:
    """List the supported operators, with versions and kinds of rules.

    A rule is a signature (one line that names the dims), a function, the operator's body (expanded into standard
    operators), or the fallback to onnx's own inference for that node. "propagates values": the
    rule also computes small integer tensors, such as shapes. Example:

        shapesolve ops 'Conv*'
    """
    from fnmatch import fnmatchcase

    from ..expr.nearest import like_pattern
    from ..report.coverage import coverage, coverage_lines

    rows = [r for r in coverage() if pattern is None or fnmatchcase(r.op_type, pattern)]
    if not rows:
        near = like_pattern(pattern or "", [r.op_type for r in coverage()])
        fail(f"no operator matches {pattern!r}{near}")
    return Result(lambda: Ops(rows), coverage_lines(rows))


@app.command(example=["One code.", "rule SS502"])
def rule(
    code: Annotated[str, Argument(metavar="CODE", help="Code of a finding, e.g. SS403.")],
) -> Result[None]:
    """Show a finding's documentation: its meaning and how to fix it.

    Example:

        shapesolve rule SS403
    """
    from difflib import get_close_matches

    from ..expr.nearest import did_you_mean
    from ..findings.diagnose import CODES
    from ..report.rule import rule_lines

    if code.upper() not in CODES:
        near = get_close_matches(code.upper(), CODES, 3, 0.8)  # one digit apart
        fail(
            f"unknown finding code {code!r}"
            + (did_you_mean(near) or f"; expected a code from {min(CODES)} to {max(CODES)}")
        )
    return Result(None, rule_lines(code.upper()))
