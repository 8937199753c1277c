"""Commands annotate and report, which write a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from .app import app
from .console import Progress, fail, print_text
from .options import Assume, Bind, Broadcast, Model, end, find, load, page_title, write_file
from .parameters import Option

Out = Annotated[Path, Option("-o", "--output", metavar="FILE", help="Where to write.")]
Weights = Annotated[
    str | None,
    Option(
        "--weights",
        metavar="copy|link",
        help="In another folder: copy weight files, or hard-link them (onnx.load refuses links).",
    ),
]


@app.command()
def annotate(
    model: Model,
    output: Out,
    policy: Annotated[
        str,
        Option(
            "--policy",
            metavar="skip|override|refine|strict",
            help="Shapes that are declared already: keep, replace, replace what says less, or fail if wrong.",
        ),
    ] = "refine",
    contract: Annotated[
        bool, Option("--contract", help="Write the contract into the metadata, as a JSON document.")
    ] = False,
    force: Annotated[bool, Option("--force", help="Replace a file that is there already.")] = False,
    assume: Assume = None,
    broadcast: Broadcast = "named",
    weights: Weights = None,
) -> None:
    """Write a copy of the model with every shape in it.

    The original is never touched; weights in files of their own stay there. The document of --contract stands in metadata_props
    under shapesolve.contract. Exit code 1 when the model contradicts itself (with a message). Examples:

        shapesolve annotate model.onnx -o annotated.onnx --policy override

        shapesolve annotate model.onnx -o annotated.onnx --contract
    """
    a = load(model, assume, None, broadcast)
    find(a, findings=False)
    from ..report.annotate_file import check_target, save_annotated

    try:
        check_target(a.model, output)
        if output.exists() and not force:
            fail(f"{output} is there already: --force replaces it")
        save_annotated(a, output, policy, weights, contract=contract)  # type: ignore[arg-type]
    except ValueError as e:
        fail(str(e))
    except OSError as e:
        fail(f"cannot write {output}: {e.strerror or e}")
    print_text(f"wrote {output}")
    end(a)


@app.command()
def report(
    model: Model,
    output: Out,
    assume: Assume = None,
    bind: Bind = None,
    broadcast: Broadcast = "named",
) -> None:
    """Write the explorer: one HTML page that works offline.

    The graph with its shapes, the contract, the findings, and sliders that give sizes to names.

    Example:

        shapesolve report model.onnx -o report.html
    """
    a = load(model, assume, bind, broadcast)
    find(a)
    with Progress("page"):
        text = a.to_html(page_title(model))
    write_file(output, text.encode("utf-8"), a.model)
    print_text(f"wrote {output}")
    end(a)
