"""Comparing two models: diff."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from .app import app
from .console import FOUND, OK, UNDECIDED, Progress, fail, say, show
from .options import AsJson, Broadcast, load
from .parameters import Argument, Option

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..change.gate import Gate, Runs


@app.command()
def diff(
    before: Annotated[Path, Argument(metavar="A", help="The one model.")],
    after: Annotated[Path, Argument(metavar="B", help="The other.")],
    prove: Annotated[
        bool,
        Option(
            "--prove", help="Prove outputs and accepted sizes the same, or show sizes at which they are not."
        ),
    ] = False,
    run: Annotated[
        int,
        Option(
            "--run", metavar="N", min=0, max=1000, help="With --prove: compare values at N accepted sizes."
        ),
    ] = 0,
    values: Annotated[
        bool,
        Option("--values", help="With --prove: prove the values of outputs equal where they are."),
    ] = False,
    broadcast: Broadcast = "named",
    json: AsJson = False,
) -> None:
    """Differences between the shapes and contracts of two models.

    Are the outputs that both have provably the same? Exit code 0 when the interface is provably the same, 1 when not, 3 when
    that is not decided. With --prove, outputs of other names are matched by position, the sizes that the models accept are
    compared as sets (the second may accept more), nothing is assumed about broadcasts, and each difference comes with sizes
    that show it. --values proves values equal where both graphs, simplified, compute the same; elsewhere they are not known,
    and what is not known is not decided. Examples:

        shapesolve diff exported.onnx optimized.onnx --prove --run 5

        shapesolve diff exported.onnx simplified.onnx --prove --values
    """
    if (run or values) and not prove:
        fail(f"{'--run' if run else '--values'} goes with --prove")
    mode = "strict" if prove else broadcast
    models = load(before, broadcast=mode), load(after, broadcast=mode)
    if prove:
        _gate(*models, run, values, json)
    from ..report.diff import diff, diff_data, diff_lines

    with Progress("comparison"):
        found = diff(*models)
    if json:
        from ..report.json import envelope

        say(envelope("diff", diff_data(found)))
    else:
        show(diff_lines(found))
    raise SystemExit(OK if found.same else FOUND if found.decided else UNDECIDED)


def _gate(before: Analysis, after: Analysis, count: int, values: bool, json: bool) -> None:
    from dataclasses import asdict, replace

    from ..change.gate import GATE_LABEL, gate_lines, hold
    from ..report.lines import line

    with Progress("proofs"):
        found = hold(before, after, values=values)
    if count:
        with Progress("runs"):
            found = replace(found, runs=_runs(before, after, found, count))
    if json:
        from ..report.json import envelope

        say(envelope("diff", {"passed": found.passed, **asdict(found)}))
    else:
        show(line(text[:GATE_LABEL], text[GATE_LABEL:]) for text in gate_lines(found))
    raise SystemExit(OK if found.passed else FOUND if found.decided else UNDECIDED)


def _runs(before: Analysis, after: Analysis, found: Gate, count: int) -> Runs:
    """Runs at sizes of the model that accepts fewer."""
    from ..change.gate import matched, run_both
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
