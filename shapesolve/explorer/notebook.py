"""Notebook display of an analysis: sortable tables, and the explorer widget.

The display needs only a browser: no extra package, network, or script. If the front end runs scripts, a small one
sorts and filters the tables; they are readable without it.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from ..answers.names import dtype_name, shape_text
from ..deploy.cost.text import left_out, totals
from ..lines import Line, Row, tables
from ..report.text import report_lines
from .deployment import deployment_of
from .limits import MAX_ROWS, MAX_TEXT
from .page import asset

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..deploy.profiles.profiles import Profile

_ids = count()


def render_notebook(analysis: Analysis) -> str:
    """Return HTML tables of inputs, outputs, contract, findings, and tensors."""
    parts = [
        f"<style>{asset('notebook.css')}</style>",
        *map(_printed, tables(report_lines(analysis))),
        _deployment(analysis),
        _all_tensors(analysis),
    ]
    number = next(_ids)
    script = f"<script>{asset('notebook.js')}({number})</script>"
    return f"<div class='shapesolve' data-shapesolve='{number}'>{''.join(parts)}</div>{script}"


def explore(analysis: Analysis, height: int = 640) -> Any:
    """Return the explorer as a notebook widget (Jupyter, VS Code, Colab, marimo).

    This requires the extra ``notebook`` (anywidget). Without it, return a `PlainExplorer`, which shows installation
    instructions and the text report.
    """
    try:
        from .notebook_widget import ExplorerWidget
    except ImportError:
        return PlainExplorer(analysis)
    from .tables import explorer_data

    return ExplorerWidget(data=explorer_data(analysis), height=height)


class PlainExplorer:
    """Result of `explore` without anywidget: the tables, or the text report."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis

    def __repr__(self) -> str:
        hint = "The interactive explorer needs anywidget: pip install 'shapesolve[notebook]'"
        return f"{hint}\n\n{self.analysis}"

    def _repr_html_(self) -> str:
        return (
            "<p>The interactive explorer needs anywidget: <code>pip install 'shapesolve[notebook]'</code>. "
            "<code>to_html()</code> writes the same as a page.</p>" + render_notebook(self.analysis)
        )


# ---------------------------------------------------------------------- tables


def _printed(part: Line | list[Row]) -> str:
    """Return a line of the text report, or consecutive rows of it, as HTML."""
    if isinstance(part, list):
        cells = ("".join(f"<td>{_line(cell)}</td>" for cell in r.cells) for r in part)
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"
    return f"<div class='ss-line'>{_line(part)}</div>"


def _line(pieces: Line) -> str:
    return "".join(f"<span class='ss-{style or 'prose'}'>{_text(text)}</span>" for style, text in pieces)


def _all_tensors(analysis: Analysis) -> str:
    names = list(analysis._solved.lowered.producers)
    rows = []
    for name in names[:MAX_ROWS]:
        node, prefix = analysis._solved.lowered.producers[name]
        dtype = dtype_name(analysis.dtypes.get(name, 0))
        rows.append(
            (
                name,
                dtype,
                shape_text(analysis._solved.simple_shapes.get(name)),
                f"{node.op_type} {prefix}{node.label}",
            )
        )
    more = (
        f"<p>The first {MAX_ROWS} of {len(names):,}; <code>shapes</code> has all.</p>"
        if len(names) > MAX_ROWS
        else ""
    )
    table = _table("", ("name", "type", "shape", "computed by"), rows, sortable=True) + more
    count = f"{len(names):,} computed tensor{'' if len(names) == 1 else 's'}"
    return f"<details><summary>{count}</summary>{table}</details>"


def _deployment(analysis: Analysis) -> str:
    found = deployment_of(analysis)
    if found is None:
        return ""
    numbers = found.cost.decided(found.usual)
    heads = ("size", *(str(k + 1) for k in range(len(found.sizes))))
    sizes = [(n, *(str(s[n]) for s in found.sizes)) for n in found.names]
    parts = [
        _table("Smallest accepted sizes", heads, sizes, code=0) if found.sizes else "",
        *(_profile(found.names, p) for p in found.profiles),
        _table(
            f"Cost at {_sizes(found.usual)}" if found.usual else "Cost",
            ("", "expression", "number"),
            totals(found.cost, numbers),
            code=1,
        ),
        *(f"<p>{_text(remark)}</p>" for remark in left_out(found.cost)),
    ]
    if found.ways and numbers is not None:
        way = found.ways[0]
        kept = {n: size for n, size in found.usual.items() if n not in (way.name, way.follows)}
        parts.append(found.cost.plot(way.name, kept))
    title = "Deployment: sizes, profile, cost"
    return f"<details><summary>{title}</summary>{''.join(parts)}</details>"


def _profile(names: Iterable[str], profile: Profile) -> str:
    rows = [(n, str(profile.min[n]), str(profile.opt[n]), str(profile.max[n])) for n in names]
    kept = ", ".join(f"<code>{_text(c)}</code>" for c in profile.conditions)
    note = f"<p>Sizes between must keep {kept}.</p>" if kept else ""
    return _table("Compiler profile", ("size", "min", "opt", "max"), rows, code=0) + note


def _sizes(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{_text(n)} = {size}" for n, size in sizes.items())


def _table(
    title: str, heads: Sequence[str], rows: Iterable[Sequence[str]], *, sortable: bool = False, code: int = 2
) -> str:
    head = "".join(f"<th scope='col'>{h}</th>" for h in heads)
    body = "".join(
        f"<tr>{''.join(_cell(text, i == code) for i, text in enumerate(row))}</tr>" for row in rows
    )
    caption = f"<h4>{title}</h4>" if title else ""
    mark = " data-sort" if sortable else ""
    return f"{caption}<table{mark}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(text: str, code: bool) -> str:
    mark = " class='ss-code'" if code else ""
    if len(text) <= MAX_TEXT:
        return f"<td{mark}>{_text(text)}</td>"
    return f"<td{mark} title='{_text(text[:2000])}'>{_text(text[: MAX_TEXT - 1])}…</td>"


def _text(text: str) -> str:
    return html.escape(text, quote=True)
