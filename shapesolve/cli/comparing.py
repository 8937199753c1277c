"""Commands that compare: two models (diff), or predicted shapes with a run (verify)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from .app import app
from .console import FOUND, OK, UNDECIDED, Progress, Result, fail
from .options import Assume, Bind, Model, find, load, sizes_of
from .parameters import Argument, Option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..analysis import Analysis
    from ..answers.runtime import Verification
    from ..change.compare.differences import Diff, Runs


@dataclass(frozen=True)
class Verify:
    """`shapesolve verify --json`."""

    runs: Sequence[Verification]


@app.command(
    example=[
        "Every tensor's predicted shape is compared with a run.",
        "verify examples/unet.onnx --bind batch=1 --bind height=8 --bind width=16",
    ]
)
def verify(
    model: Model,
    bind: Bind = None,
    runs: Annotated[
        int, Option("--runs", metavar="N", min=1, max=100, help="Number of sizes to generate.")
    ] = 3,
    seed: Annotated[int, Option("--seed", metavar="N", help="Seed for sizes and inputs.")] = 0,
    assume: Assume = None,
) -> Result[Verify]:
    """Run with onnxruntime and compare every tensor's shape.

    Sizes that are not given are generated to satisfy the contract. Exit code: 0 if all shapes match, 1 if some do
    not, 2 if the model cannot be run. Examples:

        shapesolve verify model.onnx

        shapesolve verify model.onnx --bind batch=2 --bind seq=5
    """
    from importlib.util import find_spec

    if find_spec("onnxruntime") is None:
        fail("verify needs onnxruntime: pip install 'shapesolve[runtime]'")
    a = find(load(model, assume), findings=False)
    from ..report.verification import verification_lines, verify_at_sizes

    with Progress("runs") as progress:
        done = verify_at_sizes(a, sizes_of(bind), runs, seed, progress)
    code = OK if all(run.ok for run in done) else FOUND
    return Result(lambda: Verify(done), verification_lines(a, done), code)


@app.command(
    example=[
        "A simplified copy is proved equivalent.",
        "simplify examples/attention.onnx -o simple.onnx",
        "diff examples/attention.onnx simple.onnx --prove --run 2",
    ]
)
def diff(
    before: Annotated[Path, Argument(metavar="A", help="First model.")],
    after: Annotated[Path, Argument(metavar="B", help="Second model.")],
    prove: Annotated[
        bool,
        Option(
            "--prove",
            help="Check whether B can replace A: same outputs, and accepts all sizes that A accepts. Print only the proofs.",
        ),
    ] = False,
    run: Annotated[
        int,
        Option("--run", metavar="N", min=0, max=1000, help="Compare output values at N accepted sizes."),
    ] = 0,
    values: Annotated[
        bool, Option("--values", help="Prove that output values are equal, if they are.")
    ] = False,
) -> Result[Diff]:
    """Compare the outputs, sizes, and tensors of two models.

    Output shapes and types are proved equal. Accepted sizes are compared as sets. Every difference comes with
    example sizes. Outputs with different names are matched by position. --values also proves that values are
    equal, by comparing the simplified graphs; otherwise, they are unknown. Exit code: 0 if the
    interface is provably the same, 1 if not, 3 if unknown; with --prove, 0 also if B accepts more. Examples:

        shapesolve diff exported.onnx optimized.onnx --prove --run 5

        shapesolve diff exported.onnx simplified.onnx --prove --values
    """
    from ..change.compare.diff import diff
    from ..change.compare.differences import diff_lines

    models = load(before, broadcast="strict"), load(after, broadcast="strict")
    with Progress("comparison"):
        found = diff(*models, values=values)
    if run:
        with Progress("runs"):
            found = replace(found, runs=_runs(*models, found, run))
    good = found.replaces if prove else found.same
    code = OK if good else FOUND if found.decided else UNDECIDED
    return Result(lambda: found, diff_lines(found, brief=prove), code)


def _runs(before: Analysis, after: Analysis, found: Diff, count: int) -> Runs:
    """Run both models at sizes that both accept, and compare their outputs."""
    from ..change.compare.diff import matched
    from ..change.compare.differences import run_both
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
    except NoSizes as e:
        fail(str(e))
