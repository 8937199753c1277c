"""Command free: makes fixed sizes dynamic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from ..expr.sizes import sizes_text
from .app import app
from .console import fail, print_raw, print_text, refuse
from .options import AsJson, Model
from .parameters import Option
from .writing import Out, Weights

if TYPE_CHECKING:
    from collections.abc import Mapping

    import onnx

    from ..dynamic.verify import Run


@app.command()
def free(
    model: Model,
    output: Out,
    dim: Annotated[
        list[str],
        Option(
            "--dim",
            metavar="INPUT[AXIS]=NAME",
            help="An axis with a fixed size, and the name that its size gets, or a declared NAME that has one size only; "
            "may be repeated.",
        ),
    ],
    verify: Annotated[
        bool,
        Option("--verify", help="Run both models with onnxruntime, at the old sizes and at others."),
    ] = False,
    weights: Weights = None,
    json: AsJson = False,
) -> None:
    """Let a model exported with fixed sizes take others.

    A size of 1 is a number of rows, and rows stay apart, which is proved: row i of every output depends on row i of the inputs
    alone. Another size is freed only where nothing that is stored may have followed it; else use `generalize`. Where it cannot
    be shown, nothing is written, the node is named, and the exit code is 1. Example:

        shapesolve free fixed.onnx --dim 'images[0]=batch' -o dynamic.onnx --verify
    """
    from ..change.refused import Refused
    from ..dynamic.free_model import freed
    from ..model import ModelError, read_model
    from ..model.saving import with_weights
    from ..report.annotate_file import save_changed

    dims = dict(place(text) for text in dim)
    runs: list[Run] = []
    try:
        original = read_model(model)
        changed = freed(original, dims)
        if verify:
            runs = _verify(with_weights(original.proto, original), with_weights(changed, original), dims)
        save_changed(original, changed, output, weights)
    except Refused as e:
        refuse("free", str(e), json)
    except ModelError as e:
        fail(str(e) if str(model) in str(e) else f"{model}: {e}")
    except (ValueError, RuntimeError) as e:
        fail(str(e))
    except OSError as e:
        fail(f"cannot write {output}: {e.strerror or e}")
    if json:
        from dataclasses import asdict

        from ..report.json import envelope

        print_raw(envelope("free", {"output": str(output), "runs": [asdict(run) for run in runs]}))
        return
    for run in runs:
        sizes = sizes_text(run.sizes)
        if run.difference is None:
            print_text(f"{sizes}: runs, with the shapes that are proved")
        else:
            print_text(f"{sizes}: the same as the original, largest difference {run.difference:.2g}")
    print_text(f"wrote {output}")


def _verify(original: onnx.ModelProto, changed: onnx.ModelProto, dims: Mapping[str, str]) -> list[Run]:
    from ..dynamic.verify import verify

    return verify(original, changed, dims)


def place(text: str) -> tuple[str, str]:
    """Parses ``images[0]=batch`` into axis and name."""
    place, equals, name = text.rpartition("=")
    if not equals and name.strip() and "[" not in name:
        return name.strip(), name.strip()
    if not equals or not place.strip() or not name.strip():
        fail(f"--dim takes INPUT[AXIS]=NAME, not {text[:200]!r}")
    return place.strip(), name.strip()
