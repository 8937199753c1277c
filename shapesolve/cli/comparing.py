"""Comparing two models: diff."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .app import app
from .console import FOUND, OK, Progress, say, show
from .options import AsJson, Broadcast, load


@app.command()
def diff(
    before: Annotated[Path, typer.Argument(metavar="A", help="The one model.", show_default=False)],
    after: Annotated[Path, typer.Argument(metavar="B", help="The other.", show_default=False)],
    broadcast: Broadcast = "named",
    json: AsJson = False,
) -> None:
    """What differs between two models' shapes and contracts.

    Are the outputs that both have provably the same? Exit code 0 when the interface is provably the same, 1 when not. Example:

        shapesolve diff exported.onnx optimized.onnx
    """
    from ..report.diff import compare, diff_data, diff_lines

    models = load(before, broadcast=broadcast), load(after, broadcast=broadcast)
    with Progress("comparison"):
        found = compare(*models)
    if json:
        import json as writer

        say(writer.dumps(diff_data(found), indent=1, ensure_ascii=False))
    else:
        show(diff_lines(found))
    raise typer.Exit(OK if found.same else FOUND)
