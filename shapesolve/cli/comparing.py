"""Command diff: comparison of two models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from .app import app
from .console import FOUND, OK, UNDECIDED, Progress, fail, print_raw, show
from .options import AsJson, load
from .parameters import Argument, Option

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..report.differences import Diff, Runs


@app.command()
def diff(
    before: Annotated[Path, Argument(metavar="A", help="The one model.")],
    after: Annotated[Path, Argument(metavar="B", help="The other.")],
    prove: Annotated[
        bool,
        Option(
            "--prove",
            help="Judge if B can replace A: same outputs, and all sizes that A accepts. Print the proofs only.",
        ),
    ] = False,
    run: Annotated[
        int,
        Option("--run", metavar="N", min=0, max=1000, help="Compare values at N accepted sizes."),
    ] = 0,
    values: Annotated[
        bool, Option("--values", help="Prove the values of outputs equal where they are.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Differences between two models in outputs, sizes and tensors.

    Output shapes and types are proved the same, and accepted sizes compared as sets; a difference comes with sizes at which
    it shows. Outputs of other names are matched by position. Exit code 0 when the interface is provably the same, 1 when not,
    3 when that is not decided; with --prove also 0 when B accepts more. --values proves values equal where both graphs,
    simplified, compute the same; elsewhere they are not known, and what is not known is not decided. Examples:

        shapesolve diff exported.onnx optimized.onnx --prove --run 5

        shapesolve diff exported.onnx simplified.onnx --prove --values
    """
    from dataclasses import replace

    from ..change.diff import diff
    from ..report.differences import diff_lines

    models = load(before, broadcast="strict"), load(after, broadcast="strict")
    with Progress("comparison"):
        found = diff(*models, values=values)
    if run:
        with Progress("runs"):
            found = replace(found, runs=_runs(*models, found, run))
    if json:
        from ..report.json import data_of, envelope

        print_raw(envelope("diff", {"same": found.same, "replaces": found.replaces, **data_of(found)}))
    else:
        show(diff_lines(found, brief=prove))
    good = found.replaces if prove else found.same
    raise SystemExit(OK if good else FOUND if found.decided else UNDECIDED)


def _runs(before: Analysis, after: Analysis, found: Diff, count: int) -> Runs:
    """Runs both models at sizes that both accept, and compares their outputs."""
    from ..change.diff import matched
    from ..change.runs import run_both
    from ..deploy import NoSizes, generate_inputs

    inputs = matched([*before.inputs], [*after.inputs])
    outputs = [(o.name, o.other) for o in found.outputs]
    narrow = found.contract.relation == "narrower"
    try:
        feeds = list(generate_inputs(after if narrow else before, count=count))
        if narrow:
            there = {b: a for a, b in inputs}
            feeds = [{there.get(name, name): array for name, array in feed.items()} for feed in feeds]
        return run_both(str(before.model.path), str(after.model.path), feeds, (inputs, outputs))
    except (NoSizes, RuntimeError) as e:
        fail(str(e))
