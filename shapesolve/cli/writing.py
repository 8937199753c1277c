"""Commands that write a file or show a page: annotate, report, view, serve."""

from __future__ import annotations

import re
import tempfile
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ..lines import Line, join_names, line
from .app import app
from .console import Progress, Result, fail, print_raw, show
from .options import Assume, Bind, Broadcast, Model, ending, find, load, write_file
from .parameters import Option

if TYPE_CHECKING:
    from ..analysis import Analysis


@app.command(example=["`shapesolve view examples/unet.onnx` opens the page that [report](report.md) writes."])
def view(
    model: Model,
    assume: Assume = None,
    bind: Bind = None,
    broadcast: Broadcast = "named",
) -> Result[None]:
    """Open a model in the explorer, in the browser.

    The page is a temporary file that is not deleted; to choose the file, use `report`.

    Example:

        shapesolve view model.onnx
    """
    a, text = _page(model, assume, bind, broadcast)
    prefix = re.sub(r"[^\w.-]+", "_", model.stem)[:40]
    try:
        with tempfile.NamedTemporaryFile("wb", prefix=f"{prefix}-", suffix=".html", delete=False) as file:
            file.write(text.encode("utf-8"))
    except OSError as e:
        fail(f"cannot write a temporary file: {e.strerror or e}")
    opened = webbrowser.open(Path(file.name).as_uri())
    told = f"wrote {file.name}" if opened else f"wrote {file.name}, but found no browser to open it"
    return Result(None, [told], *ending(a))


def _page(
    model: Path, assume: list[str] | None, bind: list[str] | None, broadcast: str
) -> tuple[Analysis, str]:
    """Return a model's analysis and its page."""
    a = find(load(model, assume, bind, broadcast))
    with Progress("page"):  # many files are named model.onnx: the title has the folder, too
        return a, a.to_html("/".join(model.parts[-2:]))


@app.command(
    example=[
        "`shapesolve serve` prints and opens the address of a page that accepts models; only this machine can open it."
    ]
)
def serve(
    port: Annotated[
        int,
        Option("--port", metavar="N", min=0, max=65535, help="Port to listen on; 0: any free port."),
    ] = 0,
    largest: Annotated[
        int, Option("--max-size", metavar="MB", min=1, help="Maximum size of an uploaded file.")
    ] = 1024,
) -> None:
    """Start a local web page for exploring models.

    Drop a model onto the page to analyze it on this machine and show it in the explorer. The server accepts only
    local connections that use the printed address. Press Ctrl-C to stop it.

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
        show([f"drop models onto {server.url}"])
        webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print_raw("ended")


Out = Annotated[Path, Option("-o", "--output", metavar="FILE", help="File to write.")]
Weights = Annotated[
    str | None,
    Option(
        "--weights",
        metavar="copy|link",
        help="If the output is in another folder: copy weight files, or hard-link them (onnx.load rejects links).",
    ),
]


def interface_line(analysis: Analysis) -> Line:
    """Return the interface: ``image [batch, 3, 32, 32] -> logits [batch, 10]``."""
    from ..answers.names import grouped
    from ..report.limits import MAX_NAMES
    from ..report.text import shown_shapes

    def side(names: list[str]) -> str:
        groups = grouped(names, shown_shapes(analysis, names), analysis.dtypes)
        shown = [f"{g.name} {g.shape}" for g in groups[:MAX_NAMES]]
        more = sum(g.more for g in groups) + len(groups[MAX_NAMES:])
        return join_names([*shown, *[""] * more], len(shown))

    outputs = [name for name, _ in analysis.model.graph.outputs]
    return line(("shape", side([*analysis.inputs])), ("dim", " -> "), ("shape", side(outputs)))


def contract_text(analysis: Analysis) -> str:
    """Return the contract in one line."""
    return (
        f"sizes must satisfy {', '.join(map(str, analysis.contract))}"
        if analysis.contract
        else "every size is accepted"
    )


@app.command(
    example=[
        "The copy has every shape in it; an existing file is not overwritten.",
        "annotate examples/attention.onnx -o annotated.onnx",
        "annotate examples/attention.onnx -o annotated.onnx",
    ]
)
def annotate(
    model: Model,
    output: Out,
    policy: Annotated[
        str,
        Option(
            "--policy",
            metavar="skip|override|refine|strict",
            help="Existing shapes: skip (keep), override (replace), refine (replace if less precise), strict (fail if wrong).",
        ),
    ] = "refine",
    contract: Annotated[
        bool, Option("--contract", help="Write the contract into the metadata, as a JSON document.")
    ] = False,
    assume: Assume = None,
    broadcast: Broadcast = "named",
    weights: Weights = None,
) -> Result[None]:
    """Write a copy of the model with all inferred shapes.

    The original is never modified, and external weight files are left in place. With --contract, the contract is
    stored in metadata_props under shapesolve.contract. If the model contradicts itself, a message says so and the
    exit code is 1. Examples:

        shapesolve annotate model.onnx -o annotated.onnx --policy override

        shapesolve annotate model.onnx -o annotated.onnx --contract
    """
    a = find(load(model, assume, None, broadcast), findings=False)
    from ..change.annotate.file import check_target, save_annotated

    check_target(a.model, output)
    save_annotated(a, output, policy, weights, contract=contract)  # type: ignore[arg-type]
    names = [n for n in a.dtypes if n]
    known = sum(n in a.shapes for n in names)
    told = f"wrote {output}: {known:,} of {len(names):,} tensors have a shape"
    return Result(
        None, [interface_line(a), told, *(_first_loss(a) if known < len(names) else ())], *ending(a)
    )


def _first_loss(a: Analysis) -> Iterator[Line]:
    """Yield the first node after which shapes are unknown, and why."""
    order = {node.label: index for index, node in enumerate(a.model.graph.nodes)}
    causes = [f for f in a.findings if f.code in ("SS101", "SS103", "SS104")]
    for first in sorted(causes, key=lambda f: order.get(f.node, len(order)))[:1]:
        yield line("shapes are lost first at ", ("name", first.node), f": {first.title}")
        if first.help:
            yield line("help: ", first.help)


@app.command(example=["A single file to open in a browser.", "report examples/unet.onnx -o report.html"])
def report(
    model: Model,
    output: Out,
    assume: Assume = None,
    bind: Bind = None,
    broadcast: Broadcast = "named",
) -> Result[None]:
    """Write the explorer as one HTML page that works offline.

    The page shows the graph with its shapes, the contract, and the findings, with a slider for each symbolic dim.

    Example:

        shapesolve report model.onnx -o report.html
    """
    a, text = _page(model, assume, bind, broadcast)
    write_file(output, text.encode("utf-8"), a.model)
    return Result(None, [f"wrote {output}"], *ending(a))
