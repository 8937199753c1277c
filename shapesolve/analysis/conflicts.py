"""From the walk's clashes to conflicts: a minimal core each, its nodes, and the chain that leads to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ops.walk import Clash
from ..solver.constraint import Constraint, Site
from .findings import Conflict, Finding, Step
from .wording import help_for, link_step, need_text, origin_text, side_by_side, title_of

if TYPE_CHECKING:
    from .result import Analysis

MAX_CONFLICTS = 100
_MAX_STEPS = 12


def find_conflicts(analysis: Analysis) -> tuple[Conflict, ...]:
    """Every independent conflict of the model, in graph order, each distinct core once."""
    found: dict[tuple[Constraint, ...] | str, Conflict] = {}
    for clash in analysis.walk.clashes[:MAX_CONFLICTS]:
        conflict = _invalid(analysis, clash) if clash.entry is None else _contradiction(analysis, clash)
        found.setdefault(conflict.core or conflict.message, conflict)
    return tuple(found.values())


def _invalid(analysis: Analysis, clash: Clash) -> Conflict:
    """A node that is wrong by itself."""
    label = f"{clash.prefix}{clash.node.label}" if clash.node else ""
    op_type = clash.node.op_type if clash.node else ""
    operands = _operands(analysis, [Site(t) for t in _inputs(analysis, clash)])
    nodes = dict.fromkeys([label])
    for tensor, _, _ in operands:
        nodes.update(dict.fromkeys(analysis.tracer.nodes(analysis.tracer.chain(tensor, None))))
    finding = Finding(
        "SS202", clash.message, label, op_type, tuple(nodes), operands, notes=("no input size makes this model run",)
    )
    return Conflict((), f"{label}: {clash.message}", tuple(nodes), finding)


def _inputs(analysis: Analysis, clash: Clash) -> list[str]:
    names = clash.node.inputs if clash.node is not None else ()
    return [analysis.tracer.full_name(n, clash.prefix) for n in names if n]


def _contradiction(analysis: Analysis, clash: Clash) -> Conflict:
    from ..solver.conflict import minimal_cores

    assert clash.entry is not None
    constraints = analysis.constraints
    candidates = sorted(clash.causes)
    cores = minimal_cores(constraints, candidates, 1) if len(candidates) > 1 else [(clash.entry,)]
    indices = cores[0] if cores else tuple(candidates)
    core = tuple(constraints[i] for i in indices)
    last = constraints[clash.entry] if clash.entry in indices else core[-1]
    steps, nodes = _steps(analysis, core, last)
    code = "SS203" if any(c.role == "user" for c in core) else "SS201"
    title = title_of(last.origin.op_type, last.origin.rule)
    operands = _operands(analysis, last.origin.sites)
    assumed = [str(c.cond) for c in core if c.role in ("assumption", "user")]
    notes = (
        f"under the assumption {' and '.join(assumed)}, no input size makes this model run"
        if assumed
        else "no input size makes this model run",
    )
    finding = Finding(
        code, title, last.origin.node, last.origin.op_type, nodes, operands, steps, notes, help_for(last, analysis)
    )
    return Conflict(core, _message(finding, last), nodes, finding)


def _operands(analysis: Analysis, sites: tuple[Site, ...] | list[Site]) -> tuple[tuple[str, str, str], ...]:
    names = dict.fromkeys(s.tensor for s in sites)
    return tuple((n, str(analysis.shapes.get(n, "of unknown rank")), origin_text(n, analysis)) for n in names)


def _steps(
    analysis: Analysis, core: tuple[Constraint, ...], last: Constraint
) -> tuple[tuple[Step, ...], tuple[str, ...]]:
    """The story in order: where each side's size comes from, what the other constraints say, where they meet."""
    tracer = analysis.tracer
    steps: dict[Step, None] = {}
    nodes: dict[str, None] = {}
    for constraint in core:
        for site in constraint.origin.sites:
            links = tracer.chain(site.tensor, site.axis)
            if links and site.axis is not None:
                steps[link_step(site, links, analysis)] = None
            for label in reversed(tracer.nodes(tracer.chain(site.tensor, site.axis, to_inputs=True))):
                nodes[label] = None
        if constraint is not last:
            steps[Step(constraint.origin.node, constraint.origin.op_type, "", need_text(constraint))] = None
        if constraint.origin.node:
            nodes[constraint.origin.node] = None
    meet = Step(last.origin.node, last.origin.op_type, "", _meeting(last))
    return (*list(steps)[:_MAX_STEPS], meet), tuple(nodes)


def _meeting(last: Constraint) -> str:
    if last.role == "user":
        return need_text(last)
    if last.origin.sites and not last.cond.free:
        return f"{last.origin.op_type}: {last.origin.rule}, but it gets " + _sizes(last)
    return f"{last.origin.op_type} needs {last.cond}: {last.origin.rule}"


def _sizes(last: Constraint) -> str:
    return " and ".join(str(s) for s in last.origin.sites) or side_by_side(last.cond)


def _message(finding: Finding, last: Constraint) -> str:
    where = f" at {finding.node}" if finding.node else ""
    inputs = " and ".join(f"{name} {shape}" for name, shape, _ in finding.operands)
    text = f"{finding.title}{where}"
    if inputs:
        text += f": {inputs}"
    text += f" ({last.origin.rule})"
    story = "; ".join(step.text for step in finding.steps)
    return f"{text}. {story}." if story else f"{text}."
