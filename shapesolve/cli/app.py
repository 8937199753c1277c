"""The application that commands register with."""

from __future__ import annotations

import typer

#: as they are listed: questions about one model, then two, many and none, then what writes files
_ORDER = (
    "analyze", "check", "contract", "explain", "evaluate", "prove", "verify",
    "diff", "scan", "ops", "annotate", "report",
)  # fmt: skip

app = typer.Typer(
    name="shapesolve",
    help="Symbolic shapes of ONNX models: proved shapes, contracts on input sizes, explained conflicts.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def in_order() -> None:
    """List the commands in the order of their use, once all are registered."""
    app.registered_commands.sort(key=lambda c: _ORDER.index(c.name or getattr(c.callback, "__name__", "")))
