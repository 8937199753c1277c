"""All findings of an analysis, ranked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..dims import Dim
from .findings import Finding

if TYPE_CHECKING:
    from .result import Analysis

_RANK = {"error": 0, "warning": 1, "info": 2}
_NOTE_CODES = {"unknown-op": "SS101", "declared": "SS102", "open": "SS103"}
_UNKNOWN_HELP = "register it: shapesolve.signature('OpType', 'N C -> N C', domain='your.domain') or @shapesolve.register"


def diagnose(analysis: Analysis) -> tuple[Finding, ...]:
    """Findings, errors first, then in graph order; equal ones once."""
    found = dict.fromkeys(
        [
            *(c.finding for c in analysis.conflicts),
            *_notes(analysis),
            *_ambiguities(analysis),
            *_specialised(analysis),
            *_assumed(analysis),
        ]
    )
    return tuple(sorted(found, key=lambda f: _RANK[f.severity]))


def _notes(analysis: Analysis) -> Iterator[Finding]:
    for note in analysis.walk.notes:
        label = f"{note.prefix}{note.node.label}" if note.node else ""
        op_type = note.node.op_type if note.node else ""
        code = _NOTE_CODES[note.kind]
        yield Finding(code, note.message, label, op_type, (label,), help=_UNKNOWN_HELP if code == "SS101" else "")


def _ambiguities(analysis: Analysis) -> Iterator[Finding]:
    for a in analysis.ambiguities:
        first = a.sites[0]
        sites = len(a.sites)
        where = "at 1 node" if sites == 1 else f"at {sites} nodes (first {first})"
        yield Finding(
            "SS301",
            f"broadcast of {a.pair[0]} against {a.pair[1]} is open {where}",
            first,
            nodes=tuple(a.sites),
            notes=("one of: " + ", ".join(str(c) for c in a.cases),),
            help=f'assume "{a.suggestion}" settles it' if a.suggestion else "",
        )


def _specialised(analysis: Analysis) -> Iterator[Finding]:
    """Dims declared dynamic that the graph fixes: the most common export bug."""
    if analysis.conflicts:
        return
    facts, symbols = analysis.facts, analysis.symbols
    for name in symbols:
        to: Dim | None = facts.substitution.get(name)
        if to is None:
            continue
        causes = [analysis.constraints[i] for i in sorted(facts.why([name]))]
        if any(c.role in ("user", "assumption") for c in causes) or not causes:
            continue
        to = facts.dim(symbols[name])
        nodes = tuple(dict.fromkeys(c.origin.node for c in causes if c.origin.node))
        first = causes[-1].origin
        why = tuple(f"{c.origin.node} needs {c.cond}: {c.origin.rule}" for c in causes if c.origin.node)
        if not to.terms:
            title = f"`{name}` is declared dynamic, but {to} is the only size that runs"
            help_ = f"derive the size from Shape of the input, or declare the dim as {to}"
            yield Finding("SS401", title, first.node, first.op_type, nodes, notes=why, help=help_)
        elif to.free <= symbols.keys():
            title = f"`{name}` is declared as a dim of its own, but only {name} == {to} runs"
            help_ = f"declare the dim as {to}, or give the node sizes that may differ"
            yield Finding("SS402", title, first.node, first.op_type, nodes, notes=why, help=help_)


def _assumed(analysis: Analysis) -> Iterator[Finding]:
    for name, value in analysis.bindings.items():
        why = analysis.bindings.why(name)
        if why.assumption:
            nodes = tuple(dict.fromkeys(c.origin.node for c in why.constraints))
            yield Finding(
                "SS501",
                f"`{name}` is {value}, assuming {why.assumption}",
                nodes[0] if nodes else "",
                nodes=nodes,
                notes=tuple(f"{c.origin.node} needs {c.cond}" for c in why.constraints[:3]),
            )
