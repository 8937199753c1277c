"""From the walk's clashes to conflicts: a minimal core each, its nodes, and the chain that leads to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..lower.records import Clash, Entry
from ..propagate.constraint import Constraint
from .advice import advise
from .finding import Conflict, Finding, Step
from .operands import Spot, SpotTracer, input_spots, spots_of
from .wording import (
    attributes_text,
    chain_step,
    declared_dim,
    guard_text,
    need_text,
    operand_row,
    title_of,
)

if TYPE_CHECKING:
    from ..analysis import Analysis

MAX_CONFLICTS = 100
_MAX_STEPS = 12
_MAX_OPERANDS = 5
_NEVER = "no input size makes this model run"


def find_conflicts(analysis: Analysis) -> tuple[Conflict, ...]:
    """Every independent conflict of the model, in graph order, each distinct core once."""
    found: dict[tuple[Constraint, ...] | str, Conflict] = {}
    for clash in analysis.walk.clashes[:MAX_CONFLICTS]:
        conflict = _invalid(analysis, clash) if clash.entry is None else _contradiction(analysis, clash)
        found.setdefault(conflict.core or conflict.message, conflict)
    return tuple(found.values())


def _invalid(analysis: Analysis, clash: Clash) -> Conflict:
    """A node that is wrong by itself."""
    node = clash.node
    label = f"{clash.prefix}{node.label}" if node is not None else ""
    op_type = node.op_type if node is not None else ""
    spots = input_spots(node, clash.prefix, analysis) if node is not None else ()
    tracer = SpotTracer(analysis)
    behind = [n for spot in spots for n in (*tracer.labels(spot), *tracer.rank_makers(spot))]
    nodes = dict.fromkeys([label, *tracer.owners(clash.prefix), *behind])
    operands = tuple(operand_row(s.tensor, analysis, s.data) for s in spots[:_MAX_OPERANDS])
    notes = (*attributes_text(node), _NEVER) if node is not None else (_NEVER,)
    finding = Finding("SS202", clash.message, label, op_type, tuple(nodes), operands, notes=notes)
    return Conflict((), f"{label}: {clash.message}", tuple(nodes), finding)


def _contradiction(analysis: Analysis, clash: Clash) -> Conflict:
    from ..solve.core import minimal_cores

    assert clash.entry is not None
    constraints = analysis.constraints
    candidates = sorted(clash.causes)
    cores = minimal_cores(constraints, candidates, 1) if len(candidates) > 1 else [(clash.entry,)]
    indices = cores[0] if cores else tuple(candidates)
    indices = tuple(dict.fromkeys((*_behind(analysis, indices), *indices)))
    core = tuple(constraints[i] for i in indices)
    meeting = clash.entry if clash.entry in indices else indices[-1]
    last, entry = constraints[meeting], analysis.walk.log[meeting]
    spots = spots_of(entry, analysis)
    steps, nodes = _story(analysis, indices, meeting)
    stated = [str(c.cond) for c in core if c.role == "user"]
    title = _accused(stated, core) or title_of(last.origin.op_type, last.origin.rule)
    finding = Finding(
        "SS203" if stated else "SS201",
        title,
        last.origin.node,
        last.origin.op_type,
        nodes,
        _operands(analysis, entry, spots),
        steps,
        _notes(analysis, core, entry),
        "" if stated else advise(entry, spots, analysis),
    )
    return Conflict(core, _message(finding, last), nodes, finding)


def _behind(analysis: Analysis, indices: Iterable[int]) -> tuple[int, ...]:
    """Why input symbols have the sizes that these conditions were stated with.

    A condition that was read through the facts (``64 == 48``) does not name the symbol any more whose size they told.
    """
    tracer = SpotTracer(analysis)
    names: set[str] = set()
    for index in indices:
        entry = analysis.walk.log[index]
        if entry.cond.free:
            continue
        for spot in spots_of(entry, analysis):
            for link in tracer.links(spot, to_inputs=True):
                declared = declared_dim(link, analysis)
                if declared is not None and declared is not link.dim:
                    names |= declared.free
    return tuple(sorted(analysis.facts.why(names))) if names else ()


def _accused(stated: Sequence[str], core: Sequence[Constraint]) -> str:
    """The title when the user's own assumptions take part."""
    if not stated:
        return ""
    quoted = [f"`{s}`" for s in stated]
    if len(stated) == len(core) and len(stated) > 1:
        return f"the assumptions {', '.join(quoted[:-1])} and {quoted[-1]} contradict each other"
    if len(stated) == 1:
        return f"the assumption {quoted[0]} contradicts the model"
    return f"the assumptions {', '.join(quoted[:-1])} and {quoted[-1]} contradict the model"


def _notes(analysis: Analysis, core: Sequence[Constraint], entry: Entry) -> tuple[str, ...]:
    given = attributes_text(entry.node) if entry.node is not None else ()
    stated = any(c.role == "user" for c in core)
    assumed = [str(c.cond) for c in core if c.role == "assumption"]
    if stated:
        return (*given, "no input size satisfies all of this")
    if assumed:
        return (*given, f"under the assumption {' and '.join(assumed)}, {_NEVER}")
    if not entry.guard.is_true:
        return (
            *given,
            f"no input size lets this node run where it is reached: {guard_text(entry.guard, analysis)}",
        )
    return (*given, _NEVER)


def _operands(analysis: Analysis, entry: Entry, spots: Sequence[Spot]) -> tuple[tuple[str, str, str], ...]:
    """The two sides; where the rule speaks of one tensor only, what else the node reads."""
    rows = {s.tensor: s.data for s in spots}
    if len(rows) < 2 and entry.node is not None:
        for s in input_spots(entry.node, entry.prefix, analysis):
            rows.setdefault(s.tensor, s.data)
    return tuple(operand_row(name, analysis, data) for name, data in list(rows.items())[:_MAX_OPERANDS])


def _story(
    analysis: Analysis, indices: Iterable[int], meeting: int
) -> tuple[tuple[Step, ...], tuple[str, ...]]:
    """In order: where each side's size comes from, what the other constraints say, where they meet."""
    tracer = SpotTracer(analysis)
    steps: dict[str, Step] = {}
    nodes: dict[str, None] = {}
    for index in sorted(indices, key=lambda i: (i == meeting, i)):
        constraint, entry = analysis.constraints[index], analysis.walk.log[index]
        for spot in spots_of(entry, analysis):
            links = tracer.links(spot)
            if links and spot.axis is not None:
                step = chain_step(spot, links, analysis)
                steps.setdefault(step.text, step)
        nodes.update(dict.fromkeys(tracer.behind(entry)))
        if index != meeting:
            text = need_text(constraint, entry, analysis)
            steps.setdefault(text, Step(constraint.origin.node, constraint.origin.op_type, "", text))
        if constraint.origin.node:
            nodes[constraint.origin.node] = None
    last = analysis.constraints[meeting]
    text = need_text(last, analysis.walk.log[meeting], analysis)
    end = Step(last.origin.node, last.origin.op_type, "", text)
    kept = [s for s in list(steps.values())[:_MAX_STEPS] if s.text != text]
    return (*kept, end), tuple(nodes)


def _message(finding: Finding, last: Constraint) -> str:
    where = f" at {finding.node}" if finding.node else ""
    inputs = " and ".join(f"{name} {shape}" for name, shape, _ in finding.operands)
    text = f"{finding.title}{where}"
    if inputs:
        text += f": {inputs}"
    text += f" ({last.origin.rule})"
    story = "; ".join(step.text for step in finding.steps)
    return f"{text}. {story}." if story else f"{text}."
