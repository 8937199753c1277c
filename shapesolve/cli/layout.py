"""Lines and tables on a terminal: Rich lays them out, wraps them by words, and colours them."""

from __future__ import annotations

from collections.abc import Iterable

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..report.lines import GAP, Line, Printed, Row, clipped, tables

_STYLES = {
    "bold": "bold", "dim": "dim", "error": "bold red", "warning": "bold yellow", "info": "bold cyan",
    "good": "green", "shape": "cyan", "name": "", "code": "magenta", "": "",
}  # fmt: skip
#: what a pipe gets is not wrapped
_UNLIMITED = 1_000_000
#: expressions that nobody reads on a terminal end here; a pipe and JSON have the whole
_LONGEST = 600
#: the longest beginning of a line that what follows is lined up behind, when it is wrapped
_MARK = 16
_DEEPER = 2


def print_styled(printed: Iterable[Printed], *, terminal: bool) -> None:
    """Print to stdout, in the width of the terminal; a pipe (``terminal=False``) gets lines as long as they are."""
    console = Console(highlight=False, width=None if terminal else _UNLIMITED, soft_wrap=False)
    for part in tables(printed):
        if not isinstance(part, list):
            console.print(_line(part, console.width))
            continue
        table = _table(part, console.width)
        for made in [table] if table is not None else [_as_line(r, console.width) for r in part]:
            console.print(made)


def _text(pieces: Line) -> Text:
    parts = ((clipped(text, _LONGEST), _STYLES[style]) for style, text in pieces)
    made = Text.assemble(*parts, overflow="fold")
    made.rstrip()
    return made


def _line(pieces: Line, width: int) -> RenderableType:
    """A line; where it does not fit, its words go on below what follows its mark (``help: ``) or its indentation."""
    text = _text(pieces)
    if text.cell_len <= width:
        return text
    first = pieces[0][1]
    if len(pieces) > 1 and first.endswith(" ") and len(first) <= _MARK:
        grid = Table.grid()
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(Text(first, _STYLES[pieces[0][0]]), _text(pieces[1:]))
        return grid
    indent = len(text.plain) - len(text.plain.lstrip())
    if not indent:
        return text
    text = text[indent:]
    return Padding(text, (0, 0, 0, indent))


def _table(rows: list[Row], width: int) -> Table | None:
    """The table; None where the columns cannot be made so narrow without breaking a word."""
    columns = list(zip(*([_text(c).plain for c in r.cells] for r in rows)))
    first = max(sum(cell_len(text) for _, text in r.cells[0]) for r in rows)
    widths = [max(map(cell_len, column)) for column in columns[1:]]
    words = [max((cell_len(w) for text in column for w in text.split()), default=0) for column in columns[1:]]
    for _ in range(sum(widths, first + GAP * len(widths)) - width):
        loose = [i for i, (has, needs) in enumerate(zip(widths, words)) if has > needs]
        if not loose:
            return None
        widths[max(loose, key=widths.__getitem__)] -= 1
    grid = Table.grid(padding=(0, GAP, 0, 0))
    for has in (first, *widths):
        grid.add_column(width=has, overflow="fold")
    for r in rows:
        grid.add_row(*(_cell(c, i) for i, c in enumerate(r.cells)))
    return grid


def _as_line(r: Row, width: int) -> RenderableType:
    """A row that is too wide for its table, wrapped by words behind its first cell."""
    mark = "".join(text for _, text in r.cells[0])
    rest = [piece for cell in r.cells[1:] for piece in (*cell, ("", " " * GAP))]
    return _line((("dim", f"{mark}{' ' * GAP}"), *rest), width)


def _cell(pieces: Line, column: int) -> Text:
    if column or len(pieces) != 1:
        return _text(pieces)
    (style, text) = pieces[0]
    return Text(text, _STYLES[style], overflow="fold")  # with the blanks that indent it
