"""Commands about many models or many operators: scan, ops."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .app import app
from .console import FOUND, OK, UNUSABLE, Progress, fail, say, show
from .options import AsJson, Broadcast

if TYPE_CHECKING:
    from ..report.scan import ScanRow


@app.command()
def scan(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH", help="Files, or folders that are searched for *.onnx.", show_default=False
        ),
    ],
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", metavar="N", min=0, help="Processes; 0: one per processor.")
    ] = 0,
    broadcast: Broadcast = "named",
    json: AsJson = False,
    sarif: Annotated[bool, typer.Option("--sarif", help="Print SARIF.")] = False,
    github: Annotated[bool, typer.Option("--github", help="Print GitHub workflow commands.")] = False,
    dask: Annotated[
        str | None, typer.Option("--dask", metavar="ADDRESS", help="Use this Dask scheduler.")
    ] = None,
) -> None:
    """Analyze many models in parallel, one row each.

    Exit code 0 when no model has an error, 1 when one has, 2 when one could not be read. Examples:

        shapesolve scan models/ other.onnx

        shapesolve scan models/ --sarif > shapes.sarif
    """
    from ..report.scan import find_models

    missing = [p for p in paths if not p.exists()]
    if missing:
        fail(f"there is no file {str(missing[0])!r}")
    files = find_models(paths)
    if not files:
        fail(f"no .onnx file in {', '.join(map(str, paths))}")
    rows = _rows(files, jobs, broadcast, dask)
    if json:
        import json as writer

        from ..report.scan import scan_data

        say(writer.dumps(scan_data(rows), indent=1, ensure_ascii=False))
    elif sarif:
        from ..report.sarif import sarif_text

        broken = {r.path: r.message for r in rows if r.status in ("unusable", "failed")}
        say(sarif_text([(r.path, r.findings) for r in rows], broken))
    elif github:
        from ..report.github import annotation_lines, command

        lines = [*annotation_lines([(r.path, r.findings) for r in rows])]
        lines += [command("error", r.message, r.path) for r in rows if r.status in ("unusable", "failed")]
        say("\n".join(lines))
    else:
        from ..report.scan import scan_lines

        show(scan_lines(rows))
    states = {r.status for r in rows}
    raise typer.Exit(UNUSABLE if states & {"unusable", "failed"} else FOUND if "conflict" in states else OK)


def _rows(files: list[Path], jobs: int, broadcast: str, dask: str | None) -> list[ScanRow]:
    from ..report.scan import scan as run

    mode: Any = broadcast
    if mode not in ("strict", "named", "equal"):
        fail(f"--broadcast is strict, named or equal, not {broadcast!r}")
    with Progress("models") as progress:
        if dask is None:
            return run(files, jobs=jobs or None, broadcast=mode, progress=progress)
        try:
            from distributed import Client
        except ImportError:
            fail("--dask needs the package distributed: pip install 'shapesolve[dask]'")
        try:
            client = Client(dask, timeout="10s")
        except (OSError, ValueError) as e:
            fail(f"no Dask scheduler answers at {dask}: {e}")
        with client:
            absolute = [p.absolute() for p in files]  # workers have a folder of their own
            return run(absolute, client.get_executor(), broadcast=mode, progress=progress)


@app.command()
def ops(
    pattern: Annotated[
        str | None, typer.Argument(metavar="OPERATOR", help="Only this one, e.g. 'Conv*'.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Which operators are covered, since which versions, and how.

    A rule is a signature (one line that names the dims), a function, the operator's body (expanded into standard
    operators), or the fallback to onnx's own inference for that node. Data of small integer tensors is followed
    through operators that say so. Example:

        shapesolve ops 'Conv*'
    """
    from fnmatch import fnmatchcase

    from ..report.coverage import coverage, coverage_lines

    rows = [r for r in coverage() if pattern is None or fnmatchcase(r.op_type, pattern)]
    if not rows:
        fail(f"no operator matches {pattern!r}")
    if json:
        import json as writer
        from dataclasses import asdict

        say(writer.dumps([asdict(r) for r in rows], indent=1))
    else:
        show(coverage_lines(rows))
