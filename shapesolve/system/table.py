"""A constraint system as a table: for terminals by Rich, for notebooks as HTML."""

from __future__ import annotations

import html
from collections.abc import Iterator
from io import StringIO
from typing import TYPE_CHECKING, Any

from ..report.lines import clipped, visible

if TYPE_CHECKING:
    from .constraints import ConstraintSystem

#: most rows that a table shows, of a text and of a notebook
_MOST, _MOST_HTML = 200, 1000
_LONGEST = 400
_WIDTH = 140
_HEADS = ("#", "role", "node", "constraint", "over the inputs")


def render_text(system: ConstraintSystem) -> str:
    """The table as plain text."""
    from rich.console import Console

    page = StringIO()
    console = Console(
        file=page,
        width=_WIDTH,
        highlight=False,
        force_terminal=False,
        force_jupyter=False,
        color_system=None,
    )
    console.print(rich_table(system))
    return "\n".join(line.rstrip() for line in page.getvalue().splitlines())


def rich_table(system: ConstraintSystem) -> Any:
    """The table for Rich."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    left = len(system) - _MOST
    caption = f"and {left:,} more: select by role, for_node, for_tensor, for_symbol" if left > 0 else None
    table = Table(box=SIMPLE_HEAD, caption=caption, caption_justify="left", padding=(0, 1))
    for head in _HEADS:
        table.add_column(head, justify="right" if head == "#" else "left", overflow="fold")
    for cells in _rows(system, _MOST):
        table.add_row(*map(Text, cells))
    return table


def render_html(system: ConstraintSystem) -> str:
    """The table as HTML, without script or style of its own."""
    heads = "".join(f"<th style='text-align:left'>{head}</th>" for head in _HEADS)
    body = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{html.escape(cell)}</td>" for cell in cells) + "</tr>"
        for cells in _rows(system, _MOST_HTML)
    )
    left = len(system) - _MOST_HTML
    more = f"<p>and {left:,} more</p>" if left > 0 else ""
    title = html.escape(repr(system).strip("<>"))
    return f"<p>{title}</p><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{more}"


def _rows(system: ConstraintSystem, most: int) -> Iterator[tuple[str, ...]]:
    for number, c in zip(system.numbers[:most], system, strict=False):
        over = c.text_over_inputs
        where = c.node or (str(c.origin.sites[0].tensor) if c.origin.sites else "")
        yield tuple(map(_shown, (str(number), c.role, where, c.text, over if over != c.text else "")))


def _shown(text: str) -> str:
    return visible(clipped(text, _LONGEST))
