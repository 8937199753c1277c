"""Notebook display of an analysis: sortable tables, and the explorer widget.

The display needs only a browser: no extra package, network, or script. If the front end runs scripts, a small one
sorts and filters the tables; they are readable without it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from ..answers.names import dtype_name, grouped, shape_text
from ..deploy.cost.text import left_out, totals
from ..report.limits import MAX_NAMES
from ..report.text import model_name, shown_shapes
from .deployment import deployment_of
from .limits import MAX_ROWS, MAX_TEXT
from .page import asset

if TYPE_CHECKING:
    from ..analysis import Analysis
    from ..causes.finding import Finding
    from ..deploy.profiles.profiles import Profile

#: max. rows in the table of all tensors; a note says if there are more
_CODE = re.compile(r"`([^`]+)`")
_ids = count()


def render_notebook(analysis: Analysis) -> str:
    """Return HTML tables of inputs, outputs, contract, findings, and tensors."""
    model = analysis.model
    name = model_name(analysis)
    outputs = [n for n, _ in model.graph.outputs]
    verdict = "no conflicts" if analysis.ok else _counted(len(analysis.conflicts), "conflict")
    parts = [
        f"<style>{asset('notebook.css')}</style>",
        f"<p><b>{_text(name)}</b> · {_counted(len(model.graph.nodes), 'node')} · "
        f"<span class='{'ss-good' if analysis.ok else 'ss-error'}'>{verdict}</span></p>",
        _tensors("Inputs", analysis, list(analysis.inputs)),
        _tensors("Outputs", analysis, outputs),
        _contract(analysis),
        _findings(analysis.findings),
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


def _tensors(title: str, analysis: Analysis, names: list[str]) -> str:
    rows = [
        (f"{r.name}  (and {r.more} more like it)" if r.more else r.name, r.dtype, r.shape)
        for r in grouped(
            names, shown_shapes(analysis, names), analysis.dtypes, analysis._solved.lowered.poisoned
        )
    ]
    return _table(title, ("name", "type", "shape"), rows)


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
    return f"<details><summary>{_counted(len(names), 'computed tensor')}</summary>{table}</details>"


def _contract(analysis: Analysis) -> str:
    if analysis.conflicts:
        return "<h4>Contract</h4><p class='ss-error'>No input sizes run: the model contradicts itself.</p>"
    if analysis.contract.impossible:
        return "<h4>Contract</h4><p class='ss-error'>No input sizes satisfy all requirements.</p>"
    rows = [(t.text, _nodes(t.nodes)) for t in analysis.contract]
    if not rows:
        return f"<h4>Contract</h4><p>{_text(analysis.contract.nothing)}</p>"
    limits = f"<p>{_text(analysis.contract.limits)}</p>" if analysis.contract.limits else ""
    return _table("Contract", ("condition", "needed by"), rows, code=0) + limits


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


def _nodes(nodes: Sequence[str]) -> str:
    return ", ".join(nodes[:MAX_NAMES]) + (
        f" and {len(nodes) - MAX_NAMES} more" if len(nodes) > MAX_NAMES else ""
    )


def _findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return "<h4>Findings</h4><p class='ss-good'>None.</p>"
    items = [
        f"<li><span class='ss-{f.severity}'>{f.severity} {f.code}</span> {_prose(f.title)}"
        f"{f' <code>{_text(f.node)}</code>' if f.node else ''}"
        f"{''.join(f'<br>{_prose(t)}' for t in (*(s.text for s in f.steps), *f.notes))}"
        f"{f'<br><b>help:</b> {_prose(f.help)}' if f.help else ''}</li>"
        for f in findings
    ]
    return f"<h4>Findings</h4><ul>{''.join(items)}</ul>"


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


def _prose(text: str) -> str:
    """Return HTML of a string, with parts in backticks as code."""
    return _CODE.sub(r"<code>\1</code>", _text(text))


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
