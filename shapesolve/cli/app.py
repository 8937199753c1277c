"""The application that commands register with."""

from __future__ import annotations

from importlib.util import find_spec

import typer

from .. import __version__

#: as they are listed: questions about one model, then two, many and none, then what writes files
_ORDER = (
    "analyze", "check", "contract", "explain", "evaluate", "prove", "verify", "inputs", "sizes",
    "profile", "cost", "diff", "scan", "ops", "rule", "view", "serve", "annotate", "report", "simplify", "free", "fix",
)  # fmt: skip

app = typer.Typer(
    name="shapesolve",
    help="Symbolic shapes of ONNX models: proved shapes, contracts on input sizes, explained conflicts.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _say_version(asked: bool) -> None:
    if asked:
        kind = "compiled" if find_spec("shapesolve.compiled__mypyc") else "pure Python"
        typer.echo(f"shapesolve {__version__} ({kind})")
        raise typer.Exit


@app.callback()
def every_command(
    version: bool = typer.Option(
        False,
        "--version",
        callback=_say_version,
        is_eager=True,
        help="Which shapesolve this is, and whether it is compiled.",
    ),
) -> None:
    """What holds before any command."""


def in_order() -> None:
    """List the commands in the order of their use, once all are registered."""
    app.registered_commands.sort(key=lambda c: _ORDER.index(c.name or getattr(c.callback, "__name__", "")))
