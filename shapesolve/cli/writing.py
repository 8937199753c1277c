"""Commands that write a file or show a page: annotate, report, view, serve."""

from __future__ import annotations

import re
import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ..lines import Line, line
from .app import app
from .console import Progress, fail, print_raw, print_text, show
from .options import Assume, Bind, Broadcast, Model, end, find, load, page_title, write_file
from .parameters import Option

if TYPE_CHECKING:
    from ..analysis import Analysis


@app.command()
def view(
    model: Model,
    assume: Assume = None,
    bind: Bind = None,
    broadcast: Broadcast = "named",
) -> None:
    """Open the explorer of a model in the browser.

    It is written to a temporary file first, which stays: `report` writes one where you want it.

    Example:

        shapesolve view model.onnx
    """
    a = load(model, assume, bind, broadcast)
    find(a)
    with Progress("page"):
        text = a.to_html(page_title(model))
    prefix = re.sub(r"[^\w.-]+", "_", model.stem)[:40]
    try:
        with tempfile.NamedTemporaryFile("wb", prefix=f"{prefix}-", suffix=".html", delete=False) as file:
            file.write(text.encode("utf-8"))
    except OSError as e:
        fail(f"cannot write a temporary file: {e.strerror or e}")
    opened = webbrowser.open(Path(file.name).as_uri())
    print_text(f"wrote {file.name}" if opened else f"wrote {file.name}, but found no browser to open it in")
    end(a)


@app.command()
def serve(
    port: Annotated[
        int,
        Option("--port", metavar="N", min=0, max=65535, help="Where to listen; 0 for any free port."),
    ] = 0,
    largest: Annotated[
        int, Option("--max-size", metavar="MB", min=1, help="Largest file that is taken.")
    ] = 1024,
    quiet: Annotated[bool, Option("--no-browser", help="Print the address only.")] = False,
) -> None:
    """Show a page on this machine that models can be dropped onto.

    Each file is analyzed here and shown in the explorer. Only programs on this machine reach the server, and only with the
    address that it prints. Ctrl-C ends it.

    Example:

        shapesolve serve --port 8080
    """
    from ..analysis import analyze
    from ..explorer.server import ExplorerServer

    try:
        server = ExplorerServer(analyze, port, largest * 1_000_000)
    except OSError as e:
        fail(f"cannot listen on port {port}: {e.strerror or e}")
    with server:
        print_text(f"drop models onto {server.url}")
        if not quiet:
            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print_raw("ended")


Out = Annotated[Path, Option("-o", "--output", metavar="FILE", help="Where to write.")]
Weights = Annotated[
    str | None,
    Option(
        "--weights",
        metavar="copy|link",
        help="In another folder: copy weight files, or hard-link them (onnx.load refuses links).",
    ),
]


def interface_line(analysis: Analysis) -> Line:
    """``image [batch, 3, 32, 32] -> logits [batch, 10]``."""
    from ..explain.names import grouped
    from ..report.limits import MAX_NAMES
    from ..report.text import shown_shapes

    def side(names: list[str]) -> str:
        groups = grouped(names, shown_shapes(analysis, names), analysis.dtypes)
        more = sum(g.more for g in groups) + sum(1 for _ in groups[MAX_NAMES:])
        text = ", ".join(f"{g.name} {g.shape}" for g in groups[:MAX_NAMES])
        return f"{text} and {more} more" if more else text

    outputs = [name for name, _ in analysis.model.graph.outputs]
    return line(("shape", side([*analysis.inputs])), ("dim", " -> "), ("shape", side(outputs)))


def contract_text(analysis: Analysis) -> str:
    """The contract in one line."""
    return (
        f"sizes must satisfy {', '.join(map(str, analysis.contract))}"
        if analysis.contract
        else "every size runs"
    )


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
    names = [n for n in a.dtypes if n]
    known = sum(n in a.shapes for n in names)
    show([interface_line(a)])
    print_text(f"wrote {output}: {known:,} of {len(names):,} tensors have a shape")
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
