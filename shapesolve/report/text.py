"""The text report, and findings printed the way compilers print them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from .lines import Line, line, plain
from .names import Row, grouped

if TYPE_CHECKING:
    from ..analysis import Analysis, Finding

_WIDTH = 10
_MAX_TERMS = 20
_MAX_NODES = 3


def render_text(analysis: Analysis) -> str:
    """The whole report as plain text."""
    return plain(report_lines(analysis))


def report_lines(analysis: Analysis, seconds: float | None = None) -> Iterator[Line]:
    """Headline, inputs, outputs, contract, findings."""
    yield headline(analysis, seconds)
    yield ()
    inputs = list(analysis.inputs)
    outputs = [name for name, _ in analysis.model.graph.outputs]
    rows = {"inputs": _rows(analysis, inputs), "outputs": _rows(analysis, outputs)}
    widths = _widths([r for group in rows.values() for r in group])
    for title, group in rows.items():
        yield from _table(title, group, widths)
    yield ()
    yield from contract_lines(analysis)
    yield ()
    yield from summary_lines(analysis)


def headline(analysis: Analysis, seconds: float | None = None) -> Line:
    """``model.onnx   8,175 nodes · opset 17 · 0.21 s``."""
    model = analysis.model
    name = model.path.name if model.path is not None else (model.graph.name or "model")
    facts = [f"{len(model.graph.nodes):,} nodes"]
    if "" in model.opsets:
        facts.append(f"opset {model.opsets['']}")
    if seconds is not None:
        facts.append(f"{seconds:.2f} s")
    return line(("bold", name), "   ", ("dim", " · ".join(facts)))


def _rows(analysis: Analysis, names: list[str]) -> list[Row]:
    return grouped(names, analysis.shapes, analysis.dtypes)


def _widths(rows: list[Row]) -> tuple[int, int]:
    return max((len(r.name) for r in rows), default=0), max((len(r.dtype) for r in rows), default=0)


def _table(title: str, rows: list[Row], widths: tuple[int, int]) -> Iterator[Line]:
    for i, row in enumerate(rows):
        label = title if i == 0 else ""
        more = f"   (and {row.more} more like it)" if row.more else ""
        yield line(
            ("dim", label.ljust(_WIDTH)),
            ("name", row.name.ljust(widths[0])),
            "  ",
            ("dim", row.dtype.ljust(widths[1])),
            "  ",
            ("shape", row.shape),
            ("dim", more),
        )


def tensor_lines(analysis: Analysis, names: list[str]) -> Iterator[Line]:
    """A table of tensors."""
    rows = [Row(n, *_one(analysis, n), 0) for n in names]
    yield from _table("tensors", rows, _widths(rows))


def _one(analysis: Analysis, name: str) -> tuple[str, str]:
    (row,) = grouped([name], analysis.shapes, analysis.dtypes)
    return row.dtype, row.shape


def contract_lines(analysis: Analysis) -> Iterator[Line]:
    """What the input sizes must satisfy, and which nodes need it."""
    if analysis.conflicts:
        yield line(("dim", "contract".ljust(_WIDTH)), ("error", "no input sizes run: the model contradicts itself"))
        return
    terms = list(analysis.contract)
    if not terms:
        yield line(("dim", "contract".ljust(_WIDTH)), "none: every input size runs, as far as the rules know")
        return
    assumed = "for non-empty inputs" if analysis.contract.assumptions else "for all inputs"
    yield line(("dim", "contract".ljust(_WIDTH)), ("dim", assumed))
    width = min(max(len(t.text) for t in terms[:_MAX_TERMS]), 48)
    for term in terms[:_MAX_TERMS]:
        yield line(" " * _WIDTH, ("shape", term.text.ljust(width)), "  ", ("dim", _needed_by(term.nodes)))
    if len(terms) > _MAX_TERMS:
        yield line(" " * _WIDTH, ("dim", f"and {len(terms) - _MAX_TERMS} more: shapesolve contract"))


def _needed_by(nodes: tuple[str, ...]) -> str:
    if not nodes:
        return ""
    shown = ", ".join(nodes[:_MAX_NODES]) + (" …" if len(nodes) > _MAX_NODES else "")
    return f"needed by {len(nodes)} node{'s' if len(nodes) > 1 else ''}   {shown}"


def summary_lines(analysis: Analysis) -> Iterator[Line]:
    """The count of findings, and each of them."""
    found = analysis.diagnostics
    if not found:
        yield line(("dim", "findings".ljust(_WIDTH)), ("good", "none"))
        return
    counts = {s: sum(f.severity == s for f in found) for s in ("error", "warning", "info")}
    told = ", ".join(f"{n} {s}{'s' if n > 1 and s != 'info' else ''}" for s, n in counts.items() if n)
    worst = next(s for s, n in counts.items() if n)
    yield line(("dim", "findings".ljust(_WIDTH)), (worst, told))
    for finding in found:
        yield ()
        yield from finding_lines(finding)


def findings_text(findings: Iterable[Finding]) -> str:
    """Findings as plain text."""
    return "\n\n".join(plain(finding_lines(f)) for f in findings)


def finding_lines(finding: Finding) -> Iterator[Line]:
    """One finding: code and title, place, operands, the steps that lead to it, notes, help."""
    yield line((finding.severity, f"{finding.severity}[{finding.code}]"), ("bold", f": {finding.title}"))
    if finding.node:
        yield line(("dim", "  --> "), finding.node, ("dim", f"  {finding.op_type}" if finding.op_type else ""))
    if finding.operands:
        name_width = max(len(n) for n, _, _ in finding.operands)
        shape_width = max(len(s) for _, s, _ in finding.operands)
        for name, shape, origin in finding.operands:
            yield line(
                ("dim", "   |  "),
                ("name", name.ljust(name_width)),
                "  ",
                ("shape", shape.ljust(shape_width)),
                "  ",
                ("dim", origin),
            )
    if finding.steps:
        yield line(("dim", "   |"))
        for i, step in enumerate(finding.steps, 1):
            yield line(("dim", f"  {i:>2}  "), step.text)
    for note in finding.notes:
        yield line(("dim", "   = "), note)
    if finding.help:
        yield line(("good", "help: "), finding.help)
