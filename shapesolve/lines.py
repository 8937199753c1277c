"""Styled text: pieces with styles, colored on a terminal and plain elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
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
    r"""Escape control characters (``\x1b``), so that names in a model cannot control a terminal."""
    return _CONTROL.sub(lambda m: m[0].encode("unicode_escape").decode(), text)


def json_text(data: Any, indent: int | None = 1) -> str:
    """Return JSON with control characters escaped, safe to print on a terminal."""
    import json  # most commands write no JSON

    text = json.dumps(data, indent=indent, ensure_ascii=False)
    return _BEYOND_ASCII.sub(lambda m: f"\\u{ord(m[0]):04x}", text)


def clipped(text: str, length: int) -> str:
    """Return the text, cut to `length` with an ellipsis."""
    return text if len(text) <= length else f"{text[: length - 2]} …"


def join_names(names: Sequence[str], most: int | None = None, last: str = "and") -> str:
    """Return ``a``, ``a and b``, ``a, b, and c``; with at most `most` names, ``a, b, and 3 more``."""
    parts = [*names[:most]]
    if len(parts) < len(names):
        parts.append(f"{len(names) - len(parts)} more")
    if len(parts) < 3:
        return f" {last} ".join(parts)
    return f"{', '.join(parts[:-1])}, {last} {parts[-1]}"


def shortened(path: str, length: int) -> str:
    """Return a node's path without some of its middle parts (``/m/.../conv1/Conv``) if it is longer than `length`."""
    parts = path.split("/")
    for left_out in range(1, len(parts) - 2):
        if len(path) <= length:
            break
        path = "/".join([*parts[:2], "...", *parts[2 + left_out :]])
    return path


def line(*pieces: Piece | str) -> Line:
    """Return a line of styled pieces and plain strings."""
    return tuple(("", visible(p)) if isinstance(p, str) else (p[0], visible(p[1])) for p in pieces)


@dataclass(frozen=True, slots=True)
class Row:
    """Table row; consecutive rows align in columns.

    A cell longer than `most` (0: any length) does not widen its column if the output has unlimited width.
    """

    cells: tuple[Line, ...]
    most: int = 0


Printed = Line | Row


def row(*cells: Piece | str | Line, most: int = 0) -> Row:
    """Return a table row of cells: pieces, plain strings, or lines."""
    return Row(tuple(c if _is_line(c) else line(c) for c in cells), most)  # type: ignore[arg-type, misc]


def _is_line(cell: Piece | str | Line) -> bool:
    return not isinstance(cell, str) and (not cell or not isinstance(cell[0], str))


#: gap between two columns of a table
GAP = 2


def tables(printed: Iterable[Printed]) -> Iterator[Line | list[Row]]:
    """Group consecutive rows into tables; lines are unchanged."""
    for width, group in groupby(printed, lambda p: len(p.cells) if isinstance(p, Row) else 0):
        if width:
            yield [r for r in group if isinstance(r, Row)]
        else:
            yield from (p for p in group if not isinstance(p, Row))


def plain(printed: Iterable[Printed]) -> str:
    """Return the text without styles, unwrapped."""
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
