"""Command verify: runs the model and compares shapes."""

from __future__ import annotations

from typing import Annotated

from .app import app
from .console import FOUND, OK, Progress, fail, print_raw, show
from .options import AsJson, Assume, Bind, Model, find, load, sizes_of
from .parameters import Option


@app.command()
def verify(
    model: Model,
    bind: Bind = None,
    runs: Annotated[int, Option("--runs", metavar="N", min=1, max=100, help="How many sizes to draw.")] = 3,
    seed: Annotated[int, Option("--seed", metavar="N", help="Other sizes and inputs.")] = 0,
    assume: Assume = None,
    json: AsJson = False,
) -> None:
    """Run with onnxruntime and compare every tensor's shape.

    Sizes that are not given are drawn so that they satisfy the contract. Exit code 0 when everything agrees,
    1 when something does not, 2 when the model cannot be run. Examples:

        shapesolve verify model.onnx

        shapesolve verify model.onnx --bind batch=2 --bind seq=5
    """
    from importlib.util import find_spec

    if find_spec("onnxruntime") is None:
        fail("verify needs onnxruntime: pip install 'shapesolve[runtime]'")
    a = load(model, assume)
    find(a, findings=False)
    from ..report.verification import CannotRun, verification_data, verification_lines, verify_at_sizes

    try:
        with Progress("runs") as progress:
            done = verify_at_sizes(a, sizes_of(bind), runs, seed, progress)
    except CannotRun as e:
        fail(f"{model}: {e}")
    if json:
        from ..report.json import envelope

        print_raw(envelope("verify", {"runs": verification_data(done)}))
    else:
        show(verification_lines(a, done))
    raise SystemExit(OK if all(run.ok for run in done) else FOUND)
