"""The application that commands register with."""

from __future__ import annotations

import typer

app = typer.Typer(
    name="shapesolve",
    help="Symbolic shapes of ONNX models: proved shapes, contracts on input sizes, explained conflicts.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
