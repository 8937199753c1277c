"""Cost as text and as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...answers.names import meanings
from ...expr import Dim
from ...expr.sizes import sizes_text
from .memory import Largest
from .trace import NodeCost

if TYPE_CHECKING:
    from .figures import Figures, ScopeCost
    from .limit import Fit

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_SIZES = {u.lower(): 1000**k for k, u in enumerate(_UNITS)} | {
    f"{u[0].lower()}ib": 1024**k for k, u in enumerate(_UNITS) if k
}


def human(n: int, unit: str = "B") -> str:
    """Format a number of bytes or operations in decimal units: ``1.50 GB``."""
    k = 0
    while k + 1 < len(_UNITS) and abs(n) >= (999.5 if k else 1000) * 1000**k:
        k += 1
    prefix = ("", "k", "M", "G", "T", "P", "E")[k]
    return f"{n:,} {unit}" if not k else f"{n / 1000**k:.3g} {prefix}{unit}"


def bytes_in(text: str) -> int:
    """Parse a number of bytes: ``8GB`` (decimal), ``8GiB``, or a plain number.

    Raises:
        ValueError: If the text is not such a number.
    """
    given = text.strip().lower().replace(" ", "")
    number = given.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = given[len(number) :]
    try:
        found = float(number) * _SIZES[unit or "b"]
    except (ValueError, KeyError):
        raise ValueError(
            f"memory must be a number with a unit, such as 8GB or 8GiB, got {text[:100]!r}"
        ) from None
    if not 0 <= found < 1 << 80:
        raise ValueError(f"memory is out of range: {text[:100]!r}")
    return int(found)


def memory_text(n: int) -> str:
    """Format a number of bytes in binary units: ``1.50 GiB``."""
    k = 0
    while k + 1 < len(_UNITS) and abs(n) >= (999.5 if k else 1024) * 1024**k:
        k += 1
    return f"{n / 1024**k:.3g} {_UNITS[k][0].upper()}iB" if k else f"{n:,} B"


def totals(
    cost: Figures, numbers: Mapping[str, int], known: Mapping[str, int] | None = None
) -> list[tuple[str, str, str]]:
    """Return rows of totals: name, expression with the `known` sizes substituted, and the number if known."""
    sizes = known or {}

    def at(figure: Dim | Largest) -> str:
        return str(figure.subs(sizes) if sizes else figure)

    def count(name: str) -> str:
        return human(numbers[name], "").rstrip() if name in numbers else ""

    def size(name: str) -> str:
        return memory_text(numbers[name]) if name in numbers else ""

    return [
        ("parameters", f"{cost.parameters:,}", memory_text(cost.parameter_bytes)),
        ("MACs", at(cost.macs), count("macs")),
        ("FLOPs", at(cost.flops), count("flops")),
        ("activations", at(cost.activation_bytes), size("activation_bytes")),
        ("peak", at(cost.peak), size("peak")),
        ("  reused", at(cost.peak_reused), size("peak_reused")),
    ]


#: descriptions printed next to the figures
_MEANINGS = {
    "MACs": "",
    "FLOPs": "",
    "activations": "all tensors computed by nodes",
    "peak": "maximum held at once",
    "  reused": "if buffers are shared",
}


def as_text(cost: Figures) -> str:
    """Return the totals, one per line, with notes on missing costs."""
    return "\n".join([*map("  ".join, columns(cost, {})), *left_out(cost)])


def columns(
    cost: Figures, numbers: Mapping[str, int], known: Mapping[str, int] | None = None
) -> list[tuple[str, str, str]]:
    """Return rows of totals as columns: the name, and the number with its meaning or the expression."""
    rows = [
        (name, value, _MEANINGS.get(name, text) if value else text)
        for name, text, value in totals(cost, numbers, known)
    ]
    if "peak" in numbers:
        rows.append(("memory", memory_text(cost.parameter_bytes + numbers["peak"]), "parameters + peak"))
    return [(f"{name:<11}", f"{value:>10}", text) for name, value, text in rows]


def fit_text(fit: Fit) -> list[str]:
    """Return lines on `Fit`: the largest size that fits, and memory at the next one."""
    others = sizes_text(fit.sizes, (n for n in fit.sizes if n != fit.symbol))
    lines = [
        f"fits    {fit.symbol} = {fit.size} takes {memory_text(fit.memory)}{f' ({others})' if others else ''}"
    ]
    if fit.above is None or fit.memory_above is None:
        return [*lines, f"        none of the next 4,096 sizes of {fit.symbol} is accepted"]
    return [
        *lines,
        f"        {fit.symbol} = {fit.above}, the next accepted size, takes {memory_text(fit.memory_above)}",
    ]


def left_out(cost: Figures) -> list[str]:
    """Return notes on costs that the figures leave out."""
    lines = []
    if cost.uncounted:
        names = ", ".join(f"{op} ({n})" for op, n in sorted(cost.uncounted.items()))
        lines.append(f"operations not counted: {names}")
    if cost.unmeasured:
        more = f" and {len(cost.unmeasured) - 5} more" if len(cost.unmeasured) > 5 else ""
        lines.append(f"unknown size in bytes: {', '.join(cost.unmeasured[:5])}{more}")
    reasons = meanings(cost.analysis._solved)
    lines += [f"{n} depends on data: {reasons[n]}" for n in sorted(cost.free) if n in reasons]
    return [*lines, *cost.remarks]


def table(rows: Sequence[NodeCost | ScopeCost], sizes: dict[str, int] | None) -> list[str]:
    """Return a table of nodes or scopes: parameters, FLOPs, output bytes, bytes held; numbers if sizes are given."""

    def cell(d: Dim | Largest | None, unit: str = "B") -> str:
        if d is None:
            return "?"
        n = None if sizes is None else d.evaluate(sizes)
        return str(d) if n is None else human(n, unit) if not unit else memory_text(n)

    cells = [(f"{r.parameters:,}", cell(r.flops, ""), cell(r.bytes), cell(r.live), _name(r)) for r in rows]
    heads = ("parameters", "FLOPs", "makes", "holds", "")
    widths = [max(len(h), *(len(c[k]) for c in cells)) for k, h in enumerate(heads[:-1])] if cells else []
    return [
        "  ".join([*(f"{c[k]:>{w}}" for k, w in enumerate(widths)), c[-1]]).rstrip() for c in (heads, *cells)
    ]


def _name(row: NodeCost | ScopeCost) -> str:
    if isinstance(row, NodeCost):
        return f"{row.name}  {row.op_type}"
    return f"{row.name or '(no scope)'}  {row.nodes} nodes"


def as_data(cost: Figures) -> dict[str, Any]:
    """Return the data of `Cost.to_json`."""
    return {
        "parameters": cost.parameters,
        "parameter_bytes": cost.parameter_bytes,
        **_expressions(cost.macs, cost.flops, cost.activation_bytes),
        "peak": [str(d) for d in cost.peak.of],
        "peak_reused": [str(d) for d in cost.peak_reused.of],
        "uncounted": dict(cost.uncounted),
        "unmeasured": list(cost.unmeasured),
        "remarks": list(cost.remarks),
        "scopes": [{"name": s.name, "nodes": s.nodes, **_row(s)} for s in cost.scopes()],
        "nodes": [{"name": n.name, "op_type": n.op_type, **_row(n)} for n in cost.nodes],
    }


def _expressions(macs: Dim | None, flops: Dim | None, made: Dim) -> dict[str, str | None]:
    return {
        "macs": None if macs is None else str(macs),
        "flops": None if flops is None else str(flops),
        "activation_bytes": str(made),
    }


def _row(row: NodeCost | ScopeCost) -> dict[str, Any]:
    return {
        "parameters": row.parameters,
        "parameter_bytes": row.parameter_bytes,
        **_expressions(row.macs, row.flops, row.bytes),
        "live": [str(d) for d in row.live.of],
    }
