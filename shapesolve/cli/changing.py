"""Commands that write a changed model: simplify, fix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from .app import app
from .console import fail, print_raw, print_text, refuse
from .options import AsJson, Model, end, sizes_of
from .parameters import Option
from .writing import Out, Weights

if TYPE_CHECKING:
    from onnx import ModelProto

    from ..analysis import Analysis
    from ..change.simplify import Simplified
    from ..model import Model as Read

Keep = Annotated[
    list[str] | None,
    Option(
        "--keep", metavar="PATTERN", help="Nodes that stay, by name, operator or output: '*attn*', 'Cast'."
    ),
]
Explain = Annotated[bool, Option("--explain", help="List every node that went, and why.")]


@app.command()
def simplify(
    model: Model,
    output: Out,
    explain: Explain = False,
    keep: Keep = None,
    weights: Weights = None,
    json: AsJson = False,
) -> None:
    """Write a copy with everything folded that its sizes prove.

    It computes the same outputs, bit for bit, at every size that the model accepts, 0 and 1 among them; its interface stays.
    Run it before optimizers that fuse nodes: they see more when shape arithmetic is gone. Exit code 1 when no input sizes run:
    then nothing is folded. Example:

        shapesolve simplify model.onnx -o simple.onnx --explain
    """
    from ..change.simplify import simplified_draft

    end(
        _change(
            "simplify",
            model,
            output,
            weights,
            explain,
            json,
            lambda read: simplified_draft(read, keep=keep or ()),
        )
    )


@app.command()
def fix(
    model: Model,
    output: Out,
    bind: Annotated[
        list[str],
        Option(
            "--bind",
            metavar="NAME=SIZE",
            help="A size for a dim name, e.g. batch=1; may be repeated.",
        ),
    ],
    explain: Explain = False,
    keep: Keep = None,
    weights: Weights = None,
    json: AsJson = False,
) -> None:
    """Write a copy of the model for these sizes only, simplified.

    Sizes that follow from those given are fixed too. Sizes at which the model does not run are refused: nothing is written, the
    condition that is broken and its node are named, and the exit code is 1. Example:

        shapesolve fix model.onnx --bind batch=1 --bind seq=64 -o fixed.onnx
    """
    from ..change.fix import fixed

    sizes = sizes_of(bind)
    end(
        _change(
            "fix", model, output, weights, explain, json, lambda read: fixed(read, sizes, keep=keep or ())
        )
    )


def _change(
    command: str,
    model: Path,
    output: Path,
    weights: str | None,
    explain: bool,
    json: bool,
    change: Callable[[Read], tuple[Simplified, Analysis]],
) -> Analysis:
    """Writes the changed model to `output`, prints what changed, and returns the analysis."""
    from ..change.refused import Refused
    from ..model import ModelError, read_model
    from ..report.annotate_file import save_changed

    try:
        read = read_model(model)
        done, analysis = change(read)
        save_changed(read, done.model, output, weights)
    except Refused as e:
        refuse(command, str(e), json)
    except ModelError as e:
        fail(str(e) if str(model) in str(e) else f"{model}: {e}")
    except ValueError as e:
        fail(str(e))
    except OSError as e:
        fail(f"cannot write {output}: {e.strerror or e}")
    if json:
        from dataclasses import asdict

        from ..report.json import envelope

        removed = [asdict(one) for one in done.removed]
        result = {"output": str(output), "before": done.before, "after": done.after, "removed": removed}
        print_raw(envelope(command, result))
        return analysis
    if explain and done.removed:
        print_text("\n".join(map(str, done.removed)))
    print_text(f"wrote {output}: {done.before:,} nodes became {done.after:,}, Constant nodes apart")
    given = _overridable(done.model)
    if given:
        many = len(given) > 1
        which = f"{len(given)} initializers are inputs" if many else f"initializer {min(given)} is an input"
        them = "them" if many else "it"
        print_text(
            f"{which} too, so a caller may override {them}: what reads {them} is not folded; take {them} out of the inputs"
        )
    return analysis


def _overridable(model: ModelProto) -> set[str]:
    """Names of initializers that are also inputs, so that callers can override them."""
    return {t.name for t in model.graph.initializer} & {i.name for i in model.graph.input}
