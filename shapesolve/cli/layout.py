"""Output of styled lines and tables on a terminal with Rich, wrapped at words."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable
from typing import Literal

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..lines import GAP, Line, Printed, Row, clipped, tables
from .limits import MAX_EXPRESSION, UNLIMITED

_STYLES = {
    "bold": "bold", "dim": "dim", "error": "bold red", "warning": "bold yellow", "info": "bold cyan",
    "good": "green", "shape": "cyan", "name": "", "code": "magenta", "prose": "", "": "",
}  # fmt: skip


def print_styled(printed: Iterable[Printed], *, width: int | None, stderr: bool = False) -> None:
    """Print lines and tables wrapped at `width`, or at the terminal's width if it is None."""
    _print(
        printed,
        Console(highlight=False, width=width, soft_wrap=False, stderr=stderr, color_system=colours()),
    )


def wrapped(printed: Iterable[Printed], width: int) -> str:
    """Return the text without styles, wrapped at `width`."""
    out = io.StringIO()
    _print(printed, Console(file=out, highlight=False, width=width, soft_wrap=False, color_system=None))
    return "\n".join(text.rstrip() for text in out.getvalue().splitlines())


def _print(printed: Iterable[Printed], console: Console) -> None:
    for part in tables(printed):
        if not isinstance(part, list):
            console.print(_line(part, console.width))
            continue
        table = _table(part, console.width)
        for made in [table] if table is not None else [_as_line(r, console.width) for r in part]:
            console.print(made)


def colours() -> Literal["auto"] | None:
    """Return Rich's color system. NO_COLOR also disables bold and dim, which Rich would keep."""
    return None if os.environ.get("NO_COLOR") else "auto"


def _text(pieces: Line, width: int = UNLIMITED) -> Text:
    """Return styled Rich text wrapped at `width`. Longer node paths are shortened in the middle."""
    parts = ((text if style == "prose" else _short(text, width), _STYLES[style]) for style, text in pieces)
    made = Text.assemble(*parts, overflow="fold")
    made.rstrip()
    return _in_lines(made, width)


def _in_lines(text: Text, width: int) -> Text:
    """Return the lines of styled text at this width."""
    if text.cell_len <= width:
        return text
    return Text("\n", overflow="fold").join(text[begin:end] for begin, end in lines_of(text.plain, width))


def _short(text: str, width: int) -> str:
    """Return the text, cut at the end of a word if it is long, with words that fit on a line."""
    if len(text) > MAX_EXPRESSION:
        text = clipped(text, len(text[:MAX_EXPRESSION].rpartition(" ")[0]) + 2)
    if len(text) <= width:
        return text
    return " ".join(shortened(word, width) for word in text.split(" "))


def shortened(name: str, width: int) -> str:
    """Shorten a path to at most `width` columns by replacing its middle parts with an ellipsis."""
    if cell_len(name) <= width:
        return name
    joints = [m.end() for m in _JOINTS.finditer(name) if m.end() < len(name)]
    heads = [name[:at] for at in joints if cell_len(name[:at]) <= width // 3]
    head = heads[-1] if heads else ""
    tails = (name[at - 1 :] for at in joints if at > len(head))
    for tail in tails:
        if cell_len(head) + 1 + cell_len(tail) <= width:
            return f"{head}…{tail}"
    left = max(width // 3, 1)
    return f"{name[:left]}…{name[len(name) - max(width - left - 1, 0) :]}"


def _line(pieces: Line, width: int) -> RenderableType:
    """Wrap a line with a hanging indent after its label (``help: ``) or indentation."""
    text = _text(pieces)
    if text.cell_len <= width:
        return text
    first = pieces[0][1]
    if len(pieces) > 1 and first.endswith(" ") and len(first) <= 16:
        grid = Table.grid()
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(Text(first, _STYLES[pieces[0][0]]), _text(pieces[1:], width - cell_len(first)))
        return grid
    indent = len(text.plain) - len(text.plain.lstrip())
    if not indent:
        return _text(pieces, width)
    text = _in_lines(_text(pieces, width - indent)[indent:], width - indent)
    return Padding(text, (0, 0, 0, indent))


def _table(rows: list[Row], width: int) -> Table | None:
    """Return a Rich table, or None if its columns cannot be narrow enough."""
    columns = list(zip(*([_text(c).plain for c in r.cells] for r in rows)))
    first = max(sum(cell_len(text) for _, text in r.cells[0]) for r in rows)
    widths = [max(map(cell_len, column)) for column in columns[1:]]
    words = [
        max((min(cell_len(w), width // 2) for text in column for w in text.split()), default=0)
        for column in columns[1:]
    ]
    for _ in range(sum(widths, first + GAP * len(widths)) - width):
        loose = [i for i, (has, needs) in enumerate(zip(widths, words)) if has > needs]
        if not loose:
            return None
        widths[max(loose, key=widths.__getitem__)] -= 1
    grid = Table.grid(padding=(0, GAP, 0, 0))
    for has in (first, *widths):
        grid.add_column(width=has, overflow="fold")
    for r in rows:
        grid.add_row(*map(_cell, r.cells, (None, *widths)))
    return grid


def _as_line(r: Row, width: int) -> RenderableType:
    """Return a table row that is too wide as a line, wrapped after its first cell."""
    mark = "".join(text for _, text in r.cells[0])
    rest = [piece for cell in r.cells[1:] for piece in (*cell, ("", " " * GAP))]
    return _line((("dim", f"{mark}{' ' * GAP}"), *rest), width)


def _cell(pieces: Line, width: int | None) -> Text:
    """Return a cell wrapped at this width (None: unwrapped)."""
    if width is not None or len(pieces) != 1:
        return _text(pieces, width or UNLIMITED)
    (style, text) = pieces[0]
    return Text(text, _STYLES[style], overflow="fold")  # keeps the indentation


#: break points inside a name: after a separator
_JOINTS = re.compile("[/._]")
_BLANKS = re.compile(" +")
_OPERATORS = frozenset(("+", "-", "*", "**", "/", "//", "%", "=", "==", "!=", "<", "<=", ">", ">="))


def lines_of(text: str, width: int) -> list[tuple[int, int]]:
    """Return the start and end of each line at this width. Lines break at spaces, or inside words that are too long."""
    found, at = [], 0
    while cell_len(text[at:]) > width:
        rest = text[at:]
        end = _end(rest, width)
        part = _part(rest, width) if end is None else end
        found.append((at, at + part))
        at += part + (end is not None)
    return [*found, (at, len(text))]


def _part(word: str, width: int) -> int:
    """Return the break position in a long word: after a separator in its second half if possible, at the width
    otherwise.
    """
    full = next((i for i in range(1, len(word)) if cell_len(word[: i + 1]) > width), len(word))
    late = [m.end() for m in _JOINTS.finditer(word, 0, full) if m.end() > width // 2]
    return max(late, default=full)


def _end(text: str, width: int) -> int | None:
    """Return the best break position in a line: a space in its second half that splits no expression."""
    ends: list[tuple[int, int]] = []
    for blanks in _BLANKS.finditer(text):
        before, after = text[: blanks.start()], text[blanks.end() :]
        if cell_len(before) > width:
            break
        if before:
            depth = sum(map(before.count, "([")) - sum(map(before.count, ")]"))
            beside = (before.rpartition(" ")[2] in _OPERATORS) + 2 * (after.partition(" ")[0] in _OPERATORS)
            ends.append((3 * depth + beside, blanks.end() - 1))  # do not break after an operator
    late = [(cost, -at) for cost, at in ends if at >= width // 2]
    return -min(late)[1] if late else max((at for _, at in ends), default=None)
