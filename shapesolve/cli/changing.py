"""Commands that write a changed model: simplify, free, generalize, fix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ..expr.sizes import sizes_text
from ..lines import line
from .app import app
from .asking import At, GivenSizes, asked_sizes
from .console import Refused, Result, fail
from .options import Model, ending, load, read
from .parameters import Argument, Option
from .writing import Out, Weights, contract_text, interface_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from onnx import ModelProto

    from ..analysis import Analysis
    from ..change.generalize.claim import Shown
    from ..change.request import DynamicRequest
    from ..change.simplify.simplify import Removed, Simplified
    from ..change.verify import Run
    from ..lines import Printed
    from ..model import Model as Read


@dataclass(frozen=True)
class Changed:
    """`shapesolve simplify --json` and `fix --json`: the file, node counts before and after, the removed nodes."""

    output: str
    before: int
    after: int
    removed: Sequence[Removed]


@dataclass(frozen=True)
class Freed:
    """`shapesolve free --json`: the file, and the runs of `--verify`."""

    output: str
    runs: Sequence[Run]


@dataclass(frozen=True)
class Generalized:
    """`shapesolve generalize --json`: the file, its contract, each export's input shapes, the sizes, and the runs."""

    output: str
    contract: Sequence[str]
    exports: Sequence[Mapping[str, Sequence[int]]]
    sizes: Sequence[Shown]
    runs: Sequence[Run]


@app.command(
    example=[
        "Two exports for images of fixed sizes become one model for other sizes.",
        "fix examples/unet.onnx -o small.onnx --bind height=64 --bind width=64 --bind batch=1",
        "fix examples/unet.onnx -o wide.onnx --bind height=96 --bind width=160 --bind batch=1",
        "generalize small.onnx wide.onnx -o dynamic.onnx --dim image[2]=height --dim image[3]=width",
        "analyze dynamic.onnx --tensors mask",
    ]
)
def generalize(
    models: Annotated[
        list[Path],
        Argument(metavar="EXPORTS...", help="Exports of the same model at two or more fixed sizes."),
    ],
    output: Out,
    dim: Annotated[
        list[str] | None,
        Option(
            "--dim",
            metavar="INPUT[AXIS]=NAME",
            help="Name for an input axis that differs between the exports; may be repeated. [default: based on the input]",
        ),
    ] = None,
    check: Annotated[
        list[Path] | None,
        Option("--check", metavar="EXPORT", help="Another export that the new model must reproduce."),
    ] = None,
    verify: Annotated[
        bool,
        Option(
            "--verify/--no-verify",
            help="Compare the new model with each export in onnxruntime. [default: on if onnxruntime is installed]",
        ),
    ] = True,
) -> Result[Generalized | Refused]:
    """Merge several fixed-size exports into one dynamic model.

    Equal constants stay. Those that differ become expressions of the input sizes: the simplest that fit all exports
    and let the model run at other sizes. At each export's sizes, the new model's shapes are proved equal to the
    export's, and its values are compared by running both. If the model divides a size, the new
    model accepts only sizes spaced like the exports' (7, 11, 15, ...). The output lists excluded sizes and suggests
    another export. If the exports are ambiguous, nothing is written, the node is named, and the exit code is 1. Example:

        shapesolve generalize at_7.onnx at_11.onnx --dim 'ids[1]=seq' -o dynamic.onnx
    """
    from ..analysis import analyze
    from ..change.annotate.file import save_changed
    from ..change.generalize.model import generalized
    from ..change.verify import verify_exports
    from ..model import read_model
    from ..model.saving import with_weights

    runs: list[Run] = []
    skipped = "" if not verify or find_spec("onnxruntime") else "onnxruntime is not installed"
    exports = [read_model(m) for m in models]
    checks = [read_model(m) for m in check or ()]
    made = generalized(exports, dict(place(text) for text in dim or ()))
    changed = made.model
    if (verify or checks) and not skipped:
        try:
            originals = [with_weights(e.proto, e) for e in (*exports, *checks)]
            runs = verify_exports(originals, with_weights(changed, exports[0]))
        except RuntimeError as e:
            if checks:
                raise
            skipped = str(e)
    elif checks:
        fail("--check runs the models, but onnxruntime is not installed")
    save_changed(exports[0], changed, output)
    dynamic = analyze(changed)
    contract = [str(term) for term in dynamic.contract]
    rests = [
        {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in e.proto.graph.input}
        for e in exports
    ]
    return Result(
        lambda: Generalized(str(output), contract, rests, made.shown, runs),
        [
            interface_line(dynamic),
            *_run_lines(runs, skipped),
            line(("good", "proved: "), f"the shapes of all {len(exports)} exports at their sizes"),
            *_shown_lines(made.shown),
            f"{contract_text(dynamic)}; wrote {output}",
        ],
    )


def _shown_lines(shown: Sequence[Shown]) -> Iterator[Printed]:
    """Return lines on the sizes that the new model rests on, leaves out, and only extrapolates to."""
    rests = (f"{s.name} = {', '.join(map(str, s.exports))}" for s in shown)
    yield line(("info", "rests on: "), f"exports at {'; '.join(rests)}")
    for s in shown:
        if s.condition:
            admits = (
                f"; an export at {s.name} = {s.export} would admit {s.admits}" if s.export is not None else ""
            )
            yield line(("warning", "left out: "), f"all but {s.condition}, because {s.reason}{admits}")
    outside = [text for s in shown for text in s.extrapolated]
    if outside:
        yield line(("info", "extrapolated: "), f"{', '.join(outside)} (no export shows these sizes)")


@app.command(
    example=[
        "A model for a single 64 x 64 image becomes one for batches.",
        "fix examples/unet.onnx -o fixed.onnx --bind batch=1 --bind height=64 --bind width=64",
        "free fixed.onnx -o dynamic.onnx --dim image[0]=batch --verify",
        "analyze dynamic.onnx --tensors mask",
    ]
)
def free(
    model: Model,
    output: Out,
    dim: Annotated[
        list[str],
        Option(
            "--dim",
            metavar="INPUT[AXIS]=NAME",
            help="Axis to make dynamic and its name, e.g. 'images[0]=batch'; or an existing dim name that is stuck at one "
            "size; may be repeated.",
        ),
    ],
    verify: Annotated[
        bool,
        Option(
            "--verify", help="Run both models with onnxruntime at the old sizes, and the new model at others."
        ),
    ] = False,
    weights: Weights = None,
) -> Result[Freed | Refused]:
    """Make fixed input sizes dynamic.

    A size of 1 is treated as a batch size: shapesolve proves that item i of every output depends only on item i of
    the inputs. Any other size becomes dynamic only if no stored constant can depend on it; otherwise, use
    `generalize`. If the proof fails, nothing is written, the node is named, and the exit code is 1. Example:

        shapesolve free fixed.onnx --dim 'images[0]=batch' -o dynamic.onnx --verify
    """
    from ..change.annotate.file import save_changed
    from ..change.free.model import freed
    from ..change.request import asked
    from ..model.saving import with_weights

    dims = dict(place(text) for text in dim)
    runs: list[Run] = []
    original = read(model)
    changed = freed(original, dims)
    if verify:
        from ..change.verify import verify as compared

        originally, dynamic = (with_weights(proto, original) for proto in (original.proto, changed))
        runs = compared(originally, dynamic, dims)
    save_changed(original, changed, output, weights)
    lines = chain(_free_lines(changed, asked([original], dims)), _run_lines(runs, ""), [f"wrote {output}"])
    return Result(lambda: Freed(str(output), runs), lines)


def _free_lines(changed: ModelProto, request: DynamicRequest) -> Iterator[Printed]:
    """Return lines on the interface and the proved properties of the new dynamic dims."""
    from ..analysis import analyze

    yield interface_line(analyze(changed))
    rows = [name for name in request.baked if name in request.rows]
    if rows:
        yield line(("good", "proved: "), f"items of {' and of '.join(rows)} are independent")
    others = [f"{name} (was {size})" for name, size in request.baked.items() if name not in request.rows]
    if others:
        yield line(("good", "proved: "), f"no other constant depends on {', '.join(others)}")


def _run_lines(runs: Sequence[Run], skipped: str) -> Iterator[Printed]:
    """Return lines on the sizes of the test runs and the largest difference between outputs."""
    if skipped:
        yield line(("warning", "not run: "), skipped)
    compared = [run.difference for run in runs if run.difference is not None]
    if compared:
        at = "; ".join(sizes_text(run.sizes) for run in runs if run.difference is not None)
        yield line(("good", "ran: "), f"same outputs, largest difference {max(compared):.2g} (at {at})")
    alone = [sizes_text(run.sizes) for run in runs if run.difference is None]
    if alone:
        yield line(("good", "ran: "), f"shapes as proved (at {'; '.join(alone)})")


def place(text: str) -> tuple[str, str]:
    """Parse ``images[0]=batch`` into axis and name."""
    place, equals, name = text.rpartition("=")
    if not equals and name.strip() and "[" not in name:
        return name.strip(), name.strip()
    if not equals or not place.strip() or not name.strip():
        fail(f"--dim must be INPUT[AXIS]=NAME, got {text[:200]!r}")
    return place.strip(), name.strip()


Keep = Annotated[
    list[str] | None,
    Option(
        "--keep",
        metavar="PATTERN",
        help="Keep nodes that match by name, operator, or output: '*attn*', 'Cast'.",
    ),
]
Explain = Annotated[bool, Option("--explain", help="List removed nodes with the reason for each.")]


@app.command(
    example=[
        "Shape arithmetic is removed; `--explain` lists the reasons.",
        "simplify examples/attention.onnx -o simple.onnx",
    ]
)
def simplify(
    model: Model,
    output: Out,
    explain: Explain = False,
    keep: Keep = None,
    weights: Weights = None,
) -> Result[Changed | Refused]:
    """Remove shape arithmetic and redundant nodes; keep the outputs.

    The copy computes the same outputs, bit for bit, at every size that the model accepts, including 0 and 1, and has
    the same interface. Run `simplify` before optimizers that fuse nodes: without shape arithmetic, they recognize
    more patterns. If no input sizes run, nothing is folded and the exit code is 1. Example:

        shapesolve simplify model.onnx -o simple.onnx --explain
    """
    from ..change.simplify.simplify import simplified_draft

    original = read(model)
    done, a = simplified_draft(original, keep=keep or ())
    return _changed(original, done, a, output, weights, explain, "every accepted size")


@app.command(
    example=[
        "Unsupported sizes are rejected.",
        "fix examples/unet.onnx -o fixed.onnx --bind height=64 --bind width=48",
        "fix examples/unet.onnx -o fixed.onnx --bind height=63",
    ]
)
def fix(
    model: Model,
    output: Out,
    sizes_given: GivenSizes = None,
    bind: Annotated[
        list[str] | None,
        Option(
            "--bind",
            metavar="NAME=SIZE",
            help="Size of a dim, e.g. batch=1; may be repeated.",
        ),
    ] = None,
    at: At = None,
    pad: Annotated[
        bool,
        Option(
            "--pad",
            help="Pad outputs whose sizes depend on data to the largest sizes; the true sizes become further outputs.",
        ),
    ] = False,
    explain: Explain = False,
    keep: Keep = None,
    weights: Weights = None,
) -> Result[Changed | Refused]:
    """Specialize a model to given sizes, and simplify it.

    Sizes that follow from the given ones are fixed too. If the model does not run at these sizes, nothing is written,
    the broken condition and its node are named, and the exit code is 1. Example:

        shapesolve fix model.onnx --bind batch=1 --bind seq=64 -o fixed.onnx
    """
    from ..change.simplify.fix import fixed
    from ..change.simplify.pad import pad_outputs

    original = read(model)
    given = [*(sizes_given or ()), *(bind or ()), *(at or ())]
    if not given:
        fail("expected sizes, e.g. batch=1")
    done, a = fixed(original, asked_sizes(load(model), given), keep=keep or ())
    padded = (
        [
            f"padded: {p.output}[{p.axis}] to {p.size}, true size in {p.true_size}"
            for p in pad_outputs(done.model, a)
        ]
        if pad
        else []
    )
    return _changed(original, done, a, output, weights, explain, "these sizes", padded)


def _changed(
    original: Read,
    done: Simplified,
    a: Analysis,
    output: Path,
    weights: str | None,
    explain: bool,
    where: str,
    padded: Iterable[str] = (),
) -> Result[Changed]:
    """Write the changed model to `output`, and return the changes."""
    from ..change.annotate.file import save_changed

    save_changed(original, done.model, output, weights)
    proved = "nothing, because no input sizes run" if a._solved.stuck else f"same outputs at {where}"
    lines = [
        *(map(str, done.removed) if explain else ()),
        interface_line(a),
        line(("good", "proved: "), proved),
        *padded,
        f"wrote {output}: {done.before:,} nodes became {done.after:,}, not counting Constant nodes",
    ]
    # initializers that callers can override
    given = {t.name for t in done.model.graph.initializer} & {i.name for i in done.model.graph.input}
    if given:
        one = len(given) == 1
        which = (
            f"initializer {min(given)} is also an input"
            if one
            else f"{len(given)} initializers are also inputs"
        )
        them = "it" if one else "them"
        lines.append(
            f"{which}, so callers may override {them}, and nodes that read {them} are not folded;"
            f" to fold them, remove {them} from the inputs"
        )
    return Result(
        lambda: Changed(str(output), done.before, done.after, done.removed),
        lines,
        *ending(a),
    )
