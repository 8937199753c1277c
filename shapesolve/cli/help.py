"""Coloured help texts, without loading Rich."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable

import click

_EXAMPLE = re.compile(r"^( +)(shapesolve .*)$", re.MULTILINE)


def coloured() -> bool:
    """True if stdout supports colours. NO_COLOR disables them, FORCE_COLOR enables them in a pipe."""
    if os.environ.get("NO_COLOR"):
        return False
    terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return terminal or bool(os.environ.get("FORCE_COLOR"))


class Formatter(click.HelpFormatter):
    """Help formatter with bold headings and coloured option names."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """Writes the usage line."""
        super().write_usage(_typed(prog), args, f"{_heading(prefix or 'Usage:')} ")

    def write_heading(self, heading: str) -> None:
        """Writes the heading of a section."""
        self.write(f"{'':>{self.current_indent}}{_heading(f'{heading}:')}\n")

    def write_text(self, text: str) -> None:
        """Writes the description of a command, with its examples styled."""
        start = len(self.buffer)
        super().write_text(text)
        self.buffer[start:] = [_EXAMPLE.sub(_example, part) for part in self.buffer[start:]]

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Writes a list of options with their descriptions."""
        super().write_dl([(_typed(name), meaning) for name, meaning in rows], col_max, col_spacing)


class Context(click.Context):
    """A Click context with coloured help."""

    formatter_class = Formatter


def _heading(text: str) -> str:
    return click.style(text, bold=True)


def _typed(text: str) -> str:
    return click.style(text, fg="cyan")


def _example(found: re.Match[str]) -> str:
    return f"{found[1]}{_typed(found[2])}"
