"""Findings about wrong declared shapes, of computed tensors and of inputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..answers.solving import opposed_by
from ..causes.finding import Finding
from ..causes.limits import MAX_SHORT
from ..causes.wording import is_short
from ..solve.ambiguity import StaleShape, sharing_memory
from ..solve.contract.contract import text_of

if TYPE_CHECKING:
    from ..answers.solved import Solved

HELP = "correct the declaration, or remove it"


def findings(analysis: Solved) -> Iterator[Finding]:
    """Findings: one per condition under which declared sizes are right, one per contradicted expression."""
    if analysis.request.opaque:
        law = analysis.again(bind={}, assume=(), opaque=frozenset())
        yield from (o.finding() for o in opposed_by(law) if o.declared in analysis.request.opaque)
    outputs = {name for name, _ in analysis.model.graph.outputs}
    for stale in analysis.stale_shapes:
        first = stale.rows[0].origin
        tensors = dict.fromkeys(site.tensor for site in stale.sites)
        more = len(tensors) - 1
        where = text_of(stale.cond)
        notes = [f"they agree only if {where}"] if is_short(where) and "max(" not in where else []
        if more:
            notes.append(f"the same holds for {more} more tensor{'s' if more > 1 else ''}")
        if sharing_memory([stale], outputs):
            notes.append(
                "onnxruntime lets tensors share memory whose declared shapes are equal: a run at other sizes may fail"
            )
        nodes = tuple(dict.fromkeys(row.origin.node for row in stale.rows))
        yield Finding(
            "SS102",
            title(analysis, stale),
            first.node,
            first.op_type,
            nodes,
            notes=tuple(notes),
            help=_help(analysis, stale),
            usual=analysis.usually(stale.cond),
            dims=(str(first.sites[0]),),
        )


def _help(analysis: Solved, stale: StaleShape) -> str:
    """Help text: the declaration that is right, if it is short."""
    site = stale.rows[0].origin.sites[0]
    shape = analysis.simple_shapes.get(site.tensor)
    size = "" if shape is None else str(shape[site.axis or 0])
    if not size or len(size) > MAX_SHORT:
        return f"remove the declared shape of {site.tensor}"
    return f"declare {site.tensor}[{site.axis}] as {size}"


def title(analysis: Solved, stale: StaleShape) -> str:
    """Title: the first wrongly declared dim, and the inferred one."""
    row = stale.rows[0]
    site = row.origin.sites[0]
    shape = analysis.simple_shapes.get(
        site.tensor
    )  # None in a graph whose iterations are not lowered one by one.
    if shape is None:
        return row.origin.rule
    size = shape[site.axis or 0]
    return f"{row.origin.rule}, but " + (f"its size is {size}" if size.terms else f"it is {size}")


def contradictions(analysis: Solved) -> list[str]:
    """Messages on declared element types and shapes that are wrong at all sizes."""
    return [note.message for note in analysis.lowered.notes if note.kind in ("declared", "type")]


def disagreements(analysis: Solved) -> list[str]:
    """Messages on declared types and shapes that are wrong at all or at some sizes."""
    return contradictions(analysis) + [title(analysis, d) for d in analysis.stale_shapes]


def stale_dims(analysis: Solved) -> frozenset[tuple[str, int | None]]:
    """Return the dims (tensor, axis) whose declared size is right only for some sizes."""
    return frozenset((site.tensor, site.axis) for d in analysis.stale_shapes for site in d.sites)
