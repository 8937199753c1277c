"""Command generalize: one dynamic model from fixed exports."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from .app import app
from .console import fail, print_raw, print_text, refuse
from .freeing import place
from .options import AsJson
from .parameters import Argument, Option
from .writing import Out

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx

    from ..dynamic.verify import Run
    from ..model import Model


@app.command()
def generalize(
    models: Annotated[list[Path], Argument(metavar="EXPORTS", help="Exports at two or more fixed sizes.")],
    output: Out,
    dim: Annotated[
        list[str] | None,
        Option(
            "--dim",
            metavar="INPUT[AXIS]=NAME",
            help="A name for an input axis that differs; may be repeated. Without it, axes are named after inputs.",
        ),
    ] = None,
    check: Annotated[
        list[Path] | None,
        Option("--check", metavar="EXPORT", help="A further export, with which the new model has to agree."),
    ] = None,
    verify: Annotated[
        bool,
        Option(
            "--verify/--no-verify",
            help="Run the new model and each export with onnxruntime, where it is installed.",
        ),
    ] = True,
    json: AsJson = False,
) -> None:
    """Make one dynamic model of several fixed exports.

    What is the same in all exports stays. Numbers and tables that differ become expressions of the input sizes: the simplest
    that fits all exports, and with which the model runs at others. At the sizes of each export the new model has the shapes of
    that, which is proved, and its values, which is run. Where the exports leave something open, nothing is written, the node is
    named, and the exit code is 1. Example:

        shapesolve generalize at_7.onnx at_11.onnx --dim 'ids[1]=seq' -o dynamic.onnx
    """
    from ..analysis import analyze
    from ..change.refused import Refused
    from ..dynamic.generalize_model import generalized
    from ..model import ModelError, read_model
    from ..model.saving import with_weights
    from ..report.annotate_file import save_changed

    runs: list[Run] = []
    skipped = "" if not verify or find_spec("onnxruntime") else "onnxruntime is not installed"
    try:
        exports = [read_model(m) for m in models]
        checks = [read_model(m) for m in check or ()]
        changed = generalized(exports, dict(place(text) for text in dim or ()))
        if (verify or checks) and not skipped:
            try:
                runs = _verify([*exports, *checks], with_weights(changed, exports[0]))
            except RuntimeError as e:
                if checks:
                    raise
                skipped = str(e)
        elif checks:
            fail("--check runs the models: onnxruntime is not installed")
        save_changed(exports[0], changed, output)
    except Refused as e:
        refuse("generalize", str(e), json)
    except ModelError as e:
        fail(str(e))
    except (ValueError, RuntimeError) as e:
        fail(str(e))
    except OSError as e:
        fail(f"cannot write {output}: {e.strerror or e}")
    contract = [str(term) for term in analyze(changed).contract]
    rests = [
        {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in e.proto.graph.input}
        for e in exports
    ]
    if json:
        from dataclasses import asdict

        from ..report.json import envelope

        data = {
            "output": str(output),
            "contract": contract,
            "exports": rests,
            "runs": [asdict(r) for r in runs],
        }
        print_raw(envelope("generalize", data))
        return
    for run in runs:
        print_text(
            f"{', '.join(f'{n} = {s}' for n, s in run.sizes.items())}: as the export, largest difference {run.difference:.2g}"
        )
    if skipped:
        print_text(f"not run: {skipped}")
    print_text(f"rests on {len(exports)} exports; contract: {', '.join(contract) or 'every input size runs'}")
    print_text(f"wrote {output}")


def _verify(exports: Sequence[Model], changed: onnx.ModelProto) -> list[Run]:
    from ..dynamic.verify import verify_exports
    from ..model.saving import with_weights

    return verify_exports([with_weights(e.proto, e) for e in exports], changed)
