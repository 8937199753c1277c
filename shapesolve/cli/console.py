"""Output of commands: streams, formats and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from .limits import MAX_ERROR, PATIENCE, REDRAWN, UNLIMITED

if TYPE_CHECKING:
    from ..expr import DimSyntaxError
    from ..lines import Printed

#: exit codes: nothing wrong; something was found or refuted; the input is unusable; neither proved nor refuted
OK, FOUND, UNUSABLE, UNDECIDED = range(4)


class Format(StrEnum):
    """Output format of findings."""

    text = "text"
    json = "json"
    sarif = "sarif"
    github = "github"


class TextOrJson(StrEnum):
    """Output format of results other than findings."""

    text = "text"
    json = "json"


class ContractFormat(StrEnum):
    """Output format of a contract: text, data, or a checker of input shapes."""

    text = "text"
    json = "json"
    smtlib = "smtlib"
    python = "python"
    cpp = "cpp"
    js = "js"
    onnx = "onnx"


def print_error(message: str) -> None:
    """Prints one error message on stderr."""
    from ..lines import line, visible

    text = visible(" ".join(message.split("\n")))
    if len(text) > MAX_ERROR:
        text = f"{text[:MAX_ERROR]} … ({len(text):,} characters)"
    _show([line(("error", "error: "), ("prose", text))], sys.stderr)


def _show(printed: Sequence[Printed], stream: TextIO) -> None:
    """Print to stdout or stderr: laid out on a terminal, plain in a pipe, wrapped at COLUMNS if it is set."""
    terminal = stream.isatty()
    if terminal or (os.environ.get("FORCE_COLOR") and stream is sys.stdout):
        from .layout import print_styled

        print_styled(printed, width=None if terminal else _columns(), stderr=stream is sys.stderr)
        return
    from ..lines import plain

    text, width = plain(printed), _columns()
    if any(len(one) > width for one in text.splitlines()):
        from .layout import wrapped

        text = wrapped(printed, width)
    print(text, file=stream)


def _columns() -> int:
    """Width of a pipe: COLUMNS if it is set, unlimited otherwise."""
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isascii() and given.isdigit() and given != "0" else UNLIMITED


def fail(message: str) -> NoReturn:
    """Prints one error message and exits with the code for unusable input."""
    print_error(message)
    raise SystemExit(UNUSABLE)


def fail_at(error: DimSyntaxError) -> NoReturn:
    """Prints a syntax error with a caret under the position, and exits."""
    from ..lines import clipped, visible

    if not 0 <= error.position <= len(error.text):
        fail(str(error))
    print_error(error.problem)
    start = max(0, error.position - 40)
    before = ("… " if start else "") + visible(error.text[start : error.position])
    after = visible(clipped(error.text[error.position :], 40))
    print(f"  {before}{after}\n  {' ' * len(before)}^", file=sys.stderr)
    raise SystemExit(UNUSABLE)


def show(printed: Iterable[Printed]) -> None:
    """Print styled lines and tables, wrapped at the width of the terminal, or at COLUMNS in a pipe if it is set.

    NO_COLOR disables colors and all styles; FORCE_COLOR enables them in a pipe.
    """
    _show(list(printed), sys.stdout)


def print_text(text: str) -> None:
    """Prints sentences, one per line, wrapped at words on a terminal."""
    from ..lines import line

    show(map(line, text.splitlines() or [""]))


def print_raw(text: str) -> None:
    """Prints text unchanged (JSON, SARIF, workflow commands)."""
    print(text)


def refuse(command: str, why: str, json: bool, lead: str = "") -> NoReturn:
    """Reports that there is no result, as an error or as JSON, and exits."""
    if json:
        from ..report.json import envelope

        print_raw(envelope(command, {"refused": why}))
    else:
        print_error(f"{lead}{why}")
    raise SystemExit(FOUND)


class Progress:
    """A progress bar on stderr, shown after one second and removed at the end.

    It tells how much is done where the work calls it with (done, total), else how long it takes.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._counts: tuple[int, int] | None = None
        self._end = Event()
        self._drawing = Thread(target=self._draw, daemon=True) if sys.stderr.isatty() else None

    def __enter__(self) -> Progress:
        if self._drawing is not None:
            self._drawing.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._end.set()
        if self._drawing is not None:
            self._drawing.join()

    def __call__(self, done: int, total: int, *_: Any) -> None:
        """Updates the progress."""
        self._counts = done, total

    def _draw(self) -> None:
        if not self._end.wait(PATIENCE):
            from .progress import draw

            draw(self.what, self._end, REDRAWN, lambda: self._counts)
