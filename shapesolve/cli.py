"""The command line."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from .analysis import Analysis
    from .report.lines import Line

OK, FOUND, UNUSABLE = 0, 1, 2

app = typer.Typer(
    name="shapesolve",
    help="Symbolic shape analysis of ONNX models: proved shapes, contracts on input sizes, explained conflicts.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="The ONNX file.", show_default=False)]
Assume = Annotated[
    list[str] | None,
    typer.Option("--assume", metavar="CONDITION", help='What you know of the sizes, e.g. "total == past + seq".'),
]
Bind = Annotated[list[str] | None, typer.Option("--bind", metavar="NAME=SIZE", help="A size for a dim name, e.g. batch=2.")]
Broadcast = Annotated[
    str, typer.Option("--broadcast", metavar="MODE", help="Open broadcasts: strict, named or equal (see the docs).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_STYLES = {
    "bold": "bold", "dim": "dim", "error": "bold red", "warning": "bold yellow", "info": "bold cyan", "good": "green",
    "shape": "cyan", "name": "", "code": "magenta", "": "",
}  # fmt: skip


def fail(message: str) -> NoReturn:
    """One clear error, and the exit code for unusable input."""
    print(f"error: {message}", file=sys.stderr)
    raise typer.Exit(UNUSABLE)


def show(lines: Iterable[Line]) -> None:
    """Print styled lines; without colour when piped."""
    if not sys.stdout.isatty():
        from .report.lines import plain

        print(plain(lines))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for pieces in lines:
        console.print(Text.assemble(*((text, _STYLES[style]) for style, text in pieces)))


def load(model: Path, assume: list[str] | None, bind: list[str] | None, broadcast: str) -> Analysis:
    """Analyze a file for a command; problems with the input end the command."""
    from .analysis import analyze
    from .dims import DimSyntaxError
    from .graph import ModelError

    try:
        sizes = dict(_binding(b) for b in bind or [])
        return analyze(model, assume=assume or (), bind=sizes, broadcast=broadcast, progress=progress_bar())  # type: ignore[arg-type]
    except ModelError as e:
        fail(f"{model}: {e}")
    except (DimSyntaxError, ValueError) as e:
        fail(str(e))
    finally:
        clear_progress()


def _binding(text: str) -> tuple[str, int]:
    name, equals, size = text.partition("=")
    if not equals or not size.strip().isdigit():
        raise ValueError(f"--bind takes NAME=SIZE with a size >= 0, not {text!r}")
    return name.strip(), int(size)


_progress: dict[str, Any] = {}


def progress_bar() -> Any:
    """A progress callback that shows a line on a terminal once the work takes over a second."""
    if not sys.stderr.isatty():
        return None
    start = time.monotonic()

    def report(done: int, total: int) -> None:
        if time.monotonic() - start > 1:
            _progress["shown"] = True
            print(f"\r{done:,} of {total:,} nodes", end="", file=sys.stderr, flush=True)

    return report


def clear_progress() -> None:
    """Remove the progress line."""
    if _progress.pop("shown", False):
        print("\r\033[K", end="", file=sys.stderr, flush=True)


@app.command()
def analyze(
    model: Model,
    tensors: Annotated[str | None, typer.Option("--tensors", metavar="PATTERN", help="Show these tensors, e.g. '*attn*'.")] = None,
    assume: Assume = None,
    bind: Bind = None,
    broadcast: Broadcast = "named",
    json: AsJson = False,
) -> None:
    """Shapes of inputs and outputs, the contract, and all findings.

    Example: shapesolve analyze model.onnx --tensors '*attn*' --assume "total == past + seq"
    """
    start = time.perf_counter()
    a = load(model, assume, bind, broadcast)
    if json:
        print(a.to_json())
        return
    from .report.text import report_lines, tensor_lines

    if tensors is not None:
        names = [n for n in a.dtypes if fnmatch(n, tensors) or tensors == n]
        if not names:
            fail(f"no tensor matches {tensors!r}")
        show(tensor_lines(a, names))
        return
    show(list(report_lines(a, time.perf_counter() - start)))


@app.command()
def check(
    model: Model, assume: Assume = None, bind: Bind = None, broadcast: Broadcast = "named", json: AsJson = False
) -> None:
    """Findings only; exit code 0 when none is an error, 1 when one is, 2 when the input is unusable.

    Example: shapesolve check model.onnx || exit 1
    """
    a = load(model, assume, bind, broadcast)
    errors = sum(f.severity == "error" for f in a.diagnostics)
    if json:
        print(a.to_json())
    else:
        from .report.text import headline, summary_lines

        show([headline(a), *summary_lines(a)])
    raise typer.Exit(FOUND if errors else OK)


@app.command()
def prove(
    model: Model,
    claim: Annotated[str, typer.Argument(help='A condition, e.g. "Z[1] == 2*seq".', show_default=False)],
    assume: Assume = None,
    bind: Bind = None,
    broadcast: Broadcast = "named",
) -> None:
    """Is a condition on shapes true for every input that the model accepts?

    Exit code 0 when proved, 1 when refuted or not decided. Example: shapesolve prove model.onnx "logits[1] == seq"
    """
    from .dims import DimSyntaxError

    a = load(model, assume, bind, broadcast)
    try:
        proof = a.prove(claim)
    except (DimSyntaxError, KeyError, IndexError) as e:
        fail(str(e.args[0]) if e.args else str(e))
    print(proof)
    raise typer.Exit(OK if proof else FOUND)


def main() -> None:
    """Entry point."""
    try:
        app()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
