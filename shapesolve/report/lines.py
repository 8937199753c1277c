"""Styled lines: text in styled pieces, coloured on a terminal and plain in a pipe."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

#: (style, text); styles: "" plain, "bold", "dim", "error", "warning", "info", "good", "shape", "name", "code",
#: "prose" (never cut)
Piece = tuple[str, str]
Line = tuple[Piece, ...]

#: control characters in untrusted names, which a terminal interprets
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

_BEYOND_ASCII = re.compile(r"[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""The text with control characters written as ``\x1b``, so that a name cannot steer a terminal."""
    return _CONTROL.sub(lambda m: m[0].encode("unicode_escape").decode(), text)


def json_text(data: Any, indent: int | None = 1) -> str:
    """JSON in which what a terminal would obey is escaped too, not only what the standard asks for."""
    import json  # most commands write none

    text = json.dumps(data, indent=indent, ensure_ascii=False)
    return _BEYOND_ASCII.sub(lambda m: f"\\u{ord(m[0]):04x}", text)


def clipped(text: str, length: int) -> str:
    """The text, or its beginning and an ellipsis."""
    return text if len(text) <= length else f"{text[: length - 2]} …"


def line(*pieces: Piece | str) -> Line:
    """A line of pieces; plain strings have no style."""
    return tuple(("", visible(p)) if isinstance(p, str) else (p[0], visible(p[1])) for p in pieces)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: each cell is in one column with those of the rows next to it.

    A cell longer than `most` (0: any length) does not widen its column where the width of the output is not limited.
    """

    cells: tuple[Line, ...]
    most: int = 0


Printed = Line | Row


def row(*cells: Piece | str | Line, most: int = 0) -> Row:
    """A row of cells: a piece, a plain text or a line of pieces each."""
    return Row(tuple(c if _is_line(c) else line(c) for c in cells), most)  # type: ignore[arg-type, misc]


def _is_line(cell: Piece | str | Line) -> bool:
    return not isinstance(cell, str) and (not cell or not isinstance(cell[0], str))


#: between two columns of a table
GAP = 2


def tables(printed: Iterable[Printed]) -> Iterator[Line | list[Row]]:
    """The lines, with the rows that belong to one table together."""
    for width, group in groupby(printed, lambda p: len(p.cells) if isinstance(p, Row) else 0):
        if width:
            yield [r for r in group if isinstance(r, Row)]
        else:
            yield from (p for p in group if not isinstance(p, Row))


def plain(printed: Iterable[Printed]) -> str:
    """The text without styles; lines are as long as they are."""
    out: list[str] = []
    for part in tables(printed):
        out += _plain_table(part) if isinstance(part, list) else ["".join(text for _, text in part).rstrip()]
    return "\n".join(out)


def _plain_table(rows: list[Row]) -> Iterator[str]:
    texts = [["".join(text for _, text in cell) for cell in r.cells] for r in rows]
    counted = [[t for t in column if not rows[0].most or len(t) <= rows[0].most] for column in zip(*texts)]
    widths = [max(map(len, column), default=rows[0].most) for column in counted]
    for cells in texts:
        yield (" " * GAP).join(t.ljust(w) for t, w in zip(cells, widths)).rstrip()
