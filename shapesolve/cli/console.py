"""Output of commands: streams, formats, and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, TextIO, TypeVar

from .limits import MAX_ERROR, PATIENCE, REDRAWN, UNLIMITED

if TYPE_CHECKING:
    from ..expr import DimSyntaxError
    from ..lines import Printed

T = TypeVar("T", covariant=True)
#: exit codes: success; a finding or a refutation; unusable input; neither proved nor refuted
OK, FOUND, UNUSABLE, UNDECIDED = range(4)


#: output format of findings
Format = Literal["text", "json", "sarif", "github"]


def print_error(message: str) -> None:
    """Print an error message to stderr."""
    from ..lines import line, visible

    text = visible(" ".join(message.split("\n")))
    if len(text) > MAX_ERROR:
        text = f"{text[:MAX_ERROR]} … ({len(text):,} characters)"
    _show([line(("error", "error: "), ("prose", text))], sys.stderr)


def print_note(message: str) -> None:
    """Print a note to stderr."""
    from ..lines import line, visible

    _show([line("note: ", ("prose", visible(message)))], sys.stderr)


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
    """Return the width of a pipe: COLUMNS if it is set, unlimited otherwise."""
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isascii() and given.isdigit() and given != "0" else UNLIMITED


def fail(message: str) -> NoReturn:
    """Print an error message and exit with the code for unusable input."""
    print_error(message)
    raise SystemExit(UNUSABLE)


def fail_at(error: DimSyntaxError) -> NoReturn:
    """Print a syntax error with a caret under the position, and exit."""
    from ..lines import clipped, visible

    if not 0 <= error.position <= len(error.text):
        fail(str(error))
    print_error(error.problem)
    start = max(0, error.position - 40)
    before = ("… " if start else "") + visible(error.text[start : error.position])
    after = visible(clipped(error.text[error.position :], 40))
    print(f"  {before}{after}\n  {' ' * len(before)}^", file=sys.stderr)
    raise SystemExit(UNUSABLE)


def show(printed: Iterable[Printed | str]) -> None:
    """Print lines and tables, wrapped at the terminal width, or at COLUMNS in a pipe if it is set.

    NO_COLOR disables colors and all styles; FORCE_COLOR enables them in a pipe.
    """
    from ..lines import line

    _show([line(one) if isinstance(one, str) else one for one in printed], sys.stdout)


def print_raw(text: str) -> None:
    """Print text unchanged (JSON, SARIF, workflow commands)."""
    print(text)


@dataclass(frozen=True)
class Result(Generic[T]):
    """Result of a command.

    Attributes:
        data: Maker of the record that ``--json`` prints, or None if there is none.
        lines: Lines and tables, or one string to print unchanged.
        code: Exit code.
        error: Error message, printed last.
    """

    data: Callable[[], T] | None
    lines: Iterable[Printed | str] | str = ()
    code: int = OK
    error: str = ""


@dataclass(frozen=True)
class Refused:
    """Output of a command without a result, because no sizes are accepted or no model can be written."""

    refused: str


#: errors that are an answer, unlike invalid input
_ANSWERS = ("NoSizes", "Refused")


def run(command: str, call: Callable[[], Result[Any] | None], json: bool, output: Path | None) -> int:
    """Call a command, and print its result, or the error that it raises. `output` is the file that it writes."""
    try:
        result = call()
        if result is None:
            return OK
        if json and result.data is not None:
            print_json(command, result.data())
        elif lines := result.lines if isinstance(result.lines, str) else list(result.lines):
            print_raw(lines) if isinstance(lines, str) else show(lines)
    except ValueError as e:
        from ..expr import DimSyntaxError

        if isinstance(e, DimSyntaxError):
            fail_at(e)
        if all(c.__name__ not in _ANSWERS for c in type(e).__mro__):
            fail(str(e))
        if json:
            print_json(command, Refused(str(e)))
        result = Result(None, "", FOUND, "" if json else str(e))
    except RuntimeError as e:
        if type(e) is not RuntimeError:
            raise
        fail(str(e))
    except OSError as e:
        if e.filename is None:
            raise
        fail(f"cannot write {output or e.filename}: {e.strerror or e}")
    if result.error:
        print_error(result.error)
    if result.code:
        raise SystemExit(result.code)
    return OK


def print_json(command: str, data: Any) -> None:
    """Print a record as the ``--json`` output of a command."""
    from ..report.json import data_of, envelope

    print_raw(envelope(command, data_of(data)))


class Progress:
    """Progress bar on stderr, shown after one second and removed at the end.

    It shows the fraction done if it is called with (done, total), the elapsed time otherwise.
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
        """Update the progress."""
        self._counts = done, total

    def _draw(self) -> None:
        if not self._end.wait(PATIENCE):
            from .progress import draw

            draw(self.what, self._end, REDRAWN, lambda: self._counts)
