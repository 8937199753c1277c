"""What was measured beside the peers, as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .engines import OURS, PEERS, Engine
from .measure import Row

# A Python peer that answers less than this share of the dims is not one to be compared with.
ENOUGH = 0.80

#: marks the time of an engine that in the end raises an error
REFUSED = "†"
#: models of more nodes are those that the targets speak of
LARGE = 200

Cells = list[str]


def best_peer(row: Row) -> str | None:
    """The fastest Python peer that resolves enough dims of this model."""
    able = []
    for peer in PEERS:
        timing = row.timings.get(peer.name)
        if peer.is_python and timing and timing.ms is not None and timing.resolved >= ENOUGH:
            able.append((timing.ms, peer.name))
    return min(able)[1] if able else None


def ratio(row: Row, peer: str | None) -> float | None:
    """How many times longer the peer takes than shapesolve."""
    ours = row.timings.get(OURS.name)
    theirs = row.timings.get(peer) if peer else None
    if ours is None or theirs is None or ours.ms is None or theirs.ms is None:
        return None
    return theirs.ms / ours.ms


def verdicts(rows: Sequence[Row]) -> str:
    """What the table says of the targets, in sentences."""
    large = [row for row in rows if row.nodes > LARGE]
    best = [(x, row.model) for row in large if (x := ratio(row, best_peer(row))) is not None]
    behind = [
        f"{row.model} ({peer.label} {x:.2f}{REFUSED * row.timings[peer.name].refused})"
        for row in large
        for peer in PEERS
        if peer.is_python and (x := ratio(row, peer.name)) is not None and x < 1
    ]
    lines = [
        f"Of {len(best)} models over {LARGE} nodes, {sum(x >= 3 for x, _ in best)} are at least 3 times as fast as the best "
        f"Python peer that gives {ENOUGH:.0%} of the dims; lowest: "
        + ", ".join(f"{name} {x:.2f}" for x, name in sorted(best)[:3])
        + ".",
        f"Slower than a Python peer over {LARGE} nodes, whatever it answers: {', '.join(behind) or 'none'}.",
    ]
    if any(t.refused for row in rows for t in row.timings.values()):
        lines.append(
            f"{REFUSED} the peer's entry point raises an error on this model (`Incomplete symbolic shape inference`)."
        )
    return "\n\n".join(lines)


def header(engines: Sequence[Engine]) -> Cells:
    """The names of the columns."""
    cells = ["model", "nodes", *(f"ms {e.label}" for e in engines)]
    cells += [f"x {e.label}" for e in engines if e is not OURS]
    return [*cells, "x best py", *(f"dims {e.label}" for e in engines)]


def cells(row: Row, engines: Sequence[Engine]) -> Cells:
    """One model."""
    timings = [row.timings[e.name] for e in engines]
    out = [row.model, str(row.nodes), *(_number(t.ms, 2) + REFUSED * t.refused for t in timings)]
    out += [_number(ratio(row, e.name), 2) for e in engines if e is not OURS]
    out.append(_number(ratio(row, best_peer(row)), 2))
    return out + ["-" if t.error else f"{100 * t.resolved:.0f} %" for t in timings]


def totals(rows: Sequence[Row], engines: Sequence[Engine]) -> list[Cells]:
    """Sums over the models that an engine finished, and summaries of the ratios."""
    peers = [e.name for e in engines if e is not OURS]
    done = {e.name: [r for r in rows if r.timings[e.name].ms is not None] for e in engines}
    sums: Cells = ["total", str(sum(r.nodes for r in rows))]
    sums += [_number(sum(r.timings[e.name].ms or 0.0 for r in done[e.name]), 1) for e in engines]
    sums += [_number(_ratio_of_totals(rows, {r.model: p for r in rows}), 2) for p in peers]
    sums.append(_number(_ratio_of_totals(rows, {r.model: best_peer(r) for r in rows}), 2))
    sums += [
        f"{100 * sum(r.timings[e.name].resolved for r in rows) / len(rows):.0f} %" if rows else "-"
        for e in engines
    ]
    per_column = [[ratio(r, p) for r in rows] for p in peers] + [[ratio(r, best_peer(r)) for r in rows]]
    ratios = [[x for x in column if x is not None] for column in per_column]
    blank_before, blank_after = [""] * (1 + len(engines)), [""] * len(engines)
    counts = [str(len(done[e.name])) for e in engines]
    return [
        sums,
        ["geometric mean", *blank_before, *(_number(_geomean(c), 2) for c in ratios), *blank_after],
        ["lowest ratio", *blank_before, *(_number(min(c, default=None), 2) for c in ratios), *blank_after],
        ["models compared", str(len(rows)), *counts, *(str(len(c)) for c in ratios), *blank_after],
    ]


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with aligned columns, for a terminal too; the first row is its head."""
    widths = [max(3, *map(len, column)) for column in zip(*rows, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [rows[0], rule, *rows[1:]]
    return "\n".join(
        "| " + " | ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) + " |"
        for line in lines
    )


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _geomean(values: Sequence[float]) -> float | None:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def _ratio_of_totals(rows: Sequence[Row], peer_of: dict[str, str | None]) -> float | None:
    """Total time of the peers over ours, on the models that both finished."""
    ours = theirs = 0.0
    for row in rows:
        peer = peer_of[row.model]
        if peer is not None and ratio(row, peer) is not None:
            ours += row.timings[OURS.name].ms or 0.0
            theirs += row.timings[peer].ms or 0.0
    return theirs / ours if ours else None
