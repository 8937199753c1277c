"""What commands print, where, and how they end."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NoReturn

import typer

if TYPE_CHECKING:
    from ..report.lines import Line

#: exit codes: nothing wrong; something was found, refuted or not decided; the input is unusable
OK, FOUND, UNUSABLE = 0, 1, 2

_STYLES = {
    "bold": "bold", "dim": "dim", "error": "bold red", "warning": "bold yellow", "info": "bold cyan",
    "good": "green", "shape": "cyan", "name": "", "code": "magenta", "": "",
}  # fmt: skip
_LONGEST_ERROR = 2000


class Format(StrEnum):
    """How findings are printed."""

    text = "text"
    json = "json"
    sarif = "sarif"
    github = "github"


class TextOrJson(StrEnum):
    """How results are printed that are no findings."""

    text = "text"
    json = "json"


def fail(message: str) -> NoReturn:
    """One clear error, and the exit code for unusable input."""
    from ..report.lines import visible

    text = visible(" ".join(message.split("\n")))
    if len(text) > _LONGEST_ERROR:
        text = f"{text[:_LONGEST_ERROR]} … ({len(text):,} characters)"
    print(f"error: {text}", file=sys.stderr)
    raise typer.Exit(UNUSABLE)


def show(lines: Iterable[Line]) -> None:
    """Print styled lines; without colour when piped or when NO_COLOR is set."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        from ..report.lines import plain

        print(plain(lines))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for pieces in lines:
        console.print(Text.assemble(*((text, _STYLES[style]) for style, text in pieces)))


def say(text: str) -> None:
    """Print text as it is (JSON, SARIF, workflow commands)."""
    print(text)


class Progress:
    """A line on a terminal's stderr once the work takes over a second, removed at the end."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.start = time.monotonic()
        self.shown = False
        self.wanted = sys.stderr.isatty()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: Any) -> None:
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def __call__(self, done: int, total: int, *_: Any) -> None:
        """So many are done."""
        if self.wanted and time.monotonic() - self.start > 1:
            self.shown = True
            width = 24
            full = width * done // max(total, 1)
            bar = "━" * full + "╌" * (width - full)
            print(f"\r{bar} {done:,} of {total:,} {self.what}\033[K", end="", file=sys.stderr, flush=True)
