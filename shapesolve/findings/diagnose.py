"""Collects all findings of an analysis, ranked. Kinds of findings stand in the modules beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..causes.finding import KINDS, Conflict, Finding, Kind
from ..causes.limits import MAX_LISTED
from . import branches, broadcasts, data, declared, inputs, pytorch, restriction, unknown  # noqa: F401

if TYPE_CHECKING:
    from ..answers.solved import Solved

#: functions that yield findings, in the order of the report
FINDERS = (
    branches.find,
    unknown.find,
    declared.find,
    data.find,
    restriction.find,
    broadcasts.find,
    inputs.find,
)
_RANK = {"error": 0, "warning": 1, "info": 2}
#: the kinds of findings by their codes, in order
CODES: dict[str, type[Kind]] = dict(sorted(KINDS.items()))


def diagnose(analysis: Solved) -> tuple[Finding, ...]:
    """All findings, errors first, then in graph order, without duplicates."""
    if analysis.rejected_request:
        return tuple(c.finding for c in analysis.rejected_request)
    found = dict.fromkeys(
        [
            *_merged(analysis.conflicts),
            *(finding for finder in FINDERS for finding in finder(analysis)),
        ]
    )
    return tuple(sorted(_once(found), key=lambda f: (_RANK[f.severity], f.code == "SS102")))


def _once(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Merge equal findings at nodes with the same operator and input shapes into one, at the first node."""
    alike: dict[tuple[object, ...], list[Finding]] = {}
    for f in findings:
        shapes = tuple(shape for _, shape, _ in f.operands)
        key = (f.code, f.title, f.op_type, shapes, f.notes) if f.op_type else (f,)
        alike.setdefault(key, []).append(f)
    for first, *others in alike.values():
        elsewhere = [n for n in dict.fromkeys(f.node for f in others) if n != first.node]
        nodes = tuple(dict.fromkeys(n for f in (first, *others) for n in f.nodes))
        notes = first.notes
        if elsewhere:
            shown = ", ".join(elsewhere[:MAX_LISTED]) + (" …" if len(elsewhere) > MAX_LISTED else "")
            more = f"{len(elsewhere)} more {'nodes' if len(elsewhere) > 1 else 'node'}"
            notes = (*notes, f"and at {more}: {shown}")
        yield replace(first, nodes=nodes, notes=notes) if others else first


def _merged(conflicts: Iterable[Conflict]) -> Iterator[Finding]:
    """Return one finding per node for conflicts with the same text for different axes or operands.

    Nodes that an earlier finding's repair also fixes have the same cause; a note of that finding lists them.
    """
    groups: dict[tuple[str, str, str], Finding] = {}
    mended: dict[str, tuple[str, str, str]] = {}
    follow: dict[tuple[str, str, str], dict[str, None]] = {}
    for conflict in conflicts:
        f = conflict.finding
        key = (f.code, f.title, f.node)
        first = groups.get(key)
        if first is not None:
            groups[key] = _joined(first, f)
        elif f.node in mended:
            follow.setdefault(mended[f.node], {})[f.node] = None
        else:
            groups[key] = f
        for repair in conflict.repairs[:1]:
            for node, _ in repair.mends:
                mended.setdefault(node, key)
    for key, f in groups.items():
        others = [n for n in follow.get(key, ()) if n != f.node]
        yield replace(f, notes=(*f.notes, _for_the_same_cause(others))) if others else f


def _for_the_same_cause(nodes: Sequence[str]) -> str:
    shown = ", ".join(nodes[:MAX_LISTED]) + (" …" if len(nodes) > MAX_LISTED else "")
    return f"{len(nodes)} more {'nodes fail' if len(nodes) > 1 else 'node fails'} for the same cause: {shown}"


def _joined(a: Finding, b: Finding) -> Finding:
    return replace(
        a,
        nodes=tuple(dict.fromkeys((*a.nodes, *b.nodes))),
        operands=tuple(dict.fromkeys((*a.operands, *b.operands))),
        steps=tuple(dict.fromkeys((*a.steps, *b.steps))),
        notes=tuple(dict.fromkeys((*a.notes, *b.notes))),
        help=a.help or b.help,
    )


__all__ = ["CODES", "diagnose"]
