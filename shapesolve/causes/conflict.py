"""Builds conflicts (with core, message and repairs) from contradictions found by lowering. Each has a minimal core, its
nodes, and the chain that leads to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ..expr import Cond, ge
from ..lower.records import Clash, Entry
from ..solve.engine import Engine
from ..solve.facts.constraint import Constraint, Site
from ..solve.facts.facts import Facts
from ..solve.facts.log import Stated, need
from .contradictions import BrokenFile, BrokenNode, Contradiction, Refuted
from .failure import first_failure
from .finding import Conflict, Finding, Step
from .limits import MAX_CONFLICTS, MAX_SHOWN_STEPS
from .operands import input_sites, sides_of, sites_of
from .repair import Place, Repair, Repairs, place_of
from .trace import Tracer
from .wording import (
    attributes_text,
    chain_step,
    declared_dim,
    need_text,
    operand_rows,
    title_of,
)

if TYPE_CHECKING:
    from ..constraints.cores import Cores
    from ..lower.lowered import Lowered
    from ..lower.request import Request


_NEVER, _NOT_SO = "no input size makes this model run", "the model does not run with the given sizes"


def find_conflicts(
    lowered: Lowered, finder: Cores | None = None, request: Request | None = None
) -> tuple[Conflict, ...]:
    """Return every independent conflict of the model in graph order, without duplicates. `finder` finds their cores.

    With the `request` that the model was lowered for, repairs are searched, except for conflicts that an earlier
    repair
    also resolves.
    """
    repairs = None if request is None else Repairs(lowered, request)
    mended: set[Place] = set()
    found: dict[tuple[Constraint, ...] | str, Conflict] = {}
    for clash in lowered.clashes[:MAX_CONFLICTS]:
        conflict = (_invalid if clash.entry is None else _contradiction)(lowered, clash, finder, repairs)
        stated = any(c.role == "user" for c in conflict.stated)
        if repairs is not None and not stated and place_of(clash, lowered) not in mended:
            conflict = _repaired(conflict, repairs.of(clash))
            mended.update(p for r in conflict.repairs[:1] for p in r.mends)
        found.setdefault(conflict.stated or conflict.message, conflict)
    return tuple(found.values())


def stopping_first(
    found: tuple[Conflict, ...], lowered: Lowered, at: Callable[[Mapping[str, int]], Lowered]
) -> tuple[Conflict, ...]:
    """Put the finding about the node that stops a run at typical sizes into the first conflict.

    An earlier node may allow only tiny sizes, and a later node contradicts those.
    """
    first = found[0]
    stated = any(entry.role == "user" for entry in lowered.log)
    if stated or not lowered.symbols or first.finding.code != Contradiction.code:
        return found
    finding = first_failure(lowered, at)
    named = {conflict.finding.node for conflict in found}
    if finding is None or finding.node in named:
        return found
    nodes = tuple(dict.fromkeys((*finding.nodes, *first.nodes)))
    finding = replace(finding, nodes=nodes, help=first.finding.help)
    others = (conflict for conflict in found[1:] if conflict.finding.node != first.finding.node)
    return (replace(first, finding=finding, nodes=nodes), *others)


def _repaired(conflict: Conflict, repairs: tuple[Repair, ...]) -> Conflict:
    """Return the conflict with its repairs as help text."""
    help_ = ". Or: ".join(map(str, repairs))
    return replace(conflict, repairs=repairs, finding=replace(conflict.finding, help=help_))


def is_after_emptiness(lowered: Lowered, request: Request) -> bool:
    """Return True if a node before the first conflict already restricts the model to empty inputs."""
    clash = lowered.clashes[0]
    if request.bind or request.assume or request.filled or clash.entry is None:
        return False
    facts = Facts()
    for size in lowered.symbols.values():
        facts.assume(ge(size, 1), 0)
    needed = (e.cond for e in lowered.log[: clash.entry] if e.role == "requirement" and e.guard.is_true)
    return any(cond.free and facts.cond(cond).is_false for cond in needed)


def find_contradiction(lowered: Lowered, numbers: Iterable[int]) -> Conflict:
    """Return the conflict of constraints that contradict each other, found by the solver. The walk did not detect it."""
    core = minimal_core(lowered.constraints, numbers)
    entry = lowered.log[core[-1]]
    clash = Clash(core[-1], entry.why, entry.node, entry.prefix, frozenset(core))
    return _contradiction(lowered, clash, None)


def _invalid(lowered: Lowered, clash: Clash, finder: Cores | None, trials: Repairs | None = None) -> Conflict:
    """Return the conflict of a node that cannot run."""
    node = clash.node
    label = f"{clash.prefix}{node.label}" if node is not None else ""
    op_type = node.op_type if node is not None else ""
    sites = input_sites(node, clash.prefix, lowered) if node is not None else ()
    tracer = Tracer(lowered)
    behind = [n for site in sites for n in (*tracer.labels(site), *tracer.rank_makers(site))]
    nodes = dict.fromkeys([*([label] if label else ()), *lowered.owners(clash.prefix), *behind])
    operands = operand_rows(sites, lowered)
    learned = (lowered.constraints[i] for i in _learned(lowered, sites, tracer))
    core = tuple(c for c in learned if c.role == "assumption") or _granted(trials, clash)
    given = attributes_text(node) if node is not None else ()
    behind_it = () if trials is None else trials.stated_behind(clash)
    failures = [f"it fails if {lowered.constraints[i].cond}, as assumed by the user" for i in behind_it]
    notes = (*given, *failures, _ending(lowered, core))
    kind = BrokenNode if node is not None else BrokenFile
    finding = kind.worded(clash.message, label, op_type, nodes=tuple(nodes), operands=operands, notes=notes)
    message = f"{label}: {clash.message}" if label else clash.message
    place = frozenset({(id(node), clash.prefix, clash.message)})
    find = None if finder is None else partial(finder.of_contradiction, place, alone=True)
    return Conflict(core, message, tuple(nodes), finding, find)


def _contradiction(
    lowered: Lowered, clash: Clash, finder: Cores | None, trials: Repairs | None = None
) -> Conflict:
    assert clash.entry is not None
    constraints = lowered.constraints
    indices = minimal_core(constraints, clash.causes) if len(clash.causes) > 1 else (clash.entry,)
    stated_too = () if trials is None else trials.stated_behind(clash)
    indices = tuple(dict.fromkeys((*stated_too, *_behind(lowered, indices), *indices)))
    core = tuple(constraints[i] for i in indices)
    if all(c.role not in ("user", "assumption") for c in core):
        core = (*_granted(trials, clash), *core)
    meeting = clash.entry if clash.entry in indices else indices[-1]
    last, entry = constraints[meeting], lowered.log[meeting]
    steps, nodes = _steps_and_nodes(lowered, indices, meeting)
    stated = [str(c.cond) for c in core if c.role == "user"]
    title = _assumptions_title(stated, core) or title_of(entry, lowered)
    finding = (Refuted if stated else Contradiction).worded(
        title,
        last.origin.node,
        last.origin.op_type,
        nodes=nodes,
        operands=operand_rows(sides_of(entry, lowered), lowered),
        steps=steps,
        notes=_notes(lowered, core, entry),
    )
    behind = map(lowered.log.__getitem__, (*indices, *sorted(clash.causes)))
    places = frozenset((id(e.node), e.prefix, e.why) for e in behind)
    find = None if finder is None else partial(finder.of_contradiction, places)
    return Conflict(core, _message(finding, last), nodes, finding, find)


def minimal_core(constraints: Sequence[Stated], candidates: Iterable[int]) -> tuple[int, ...]:
    """Return the indices of a minimal set of contradictory conditions, or all indices without a proof."""
    first: dict[Cond, int] = {}
    for n in sorted(set(candidates)):
        first.setdefault(need(constraints[n]), n)
    core = Engine().core([*first])
    return tuple(sorted(set(candidates))) if core is None else tuple([*first.values()][i] for i in core)


def _granted(trials: Repairs | None, clash: Clash) -> tuple[Constraint, ...]:
    """Assumptions on which the contradiction depends through data, which tracing sizes does not show."""
    return () if trials is None else trials.granted_behind(clash)


def _behind(lowered: Lowered, indices: Iterable[int]) -> tuple[int, ...]:
    """Return the conditions that fixed the input sizes used by entries without symbols (``64 == 48``).

    A condition that was read through the facts (``64 == 48``) does not name the symbol any more whose size they decided.
    """
    entries = map(lowered.log.__getitem__, indices)
    sites = [s for e in entries if not e.cond.free for s in sites_of(e, lowered)]
    return _learned(lowered, sites, Tracer(lowered))


def _learned(lowered: Lowered, sites: Iterable[Site], tracer: Tracer) -> tuple[int, ...]:
    """Return the conditions that fixed the input symbols from which these sites get their sizes."""
    names: set[str] = set()
    for site in sites:
        for link in tracer.links(site, to_inputs=True):
            declared = declared_dim(link, lowered)
            if declared is not None and declared is not link.dim:
                names |= declared.free
    return tuple(sorted(lowered.facts.why(names))) if names else ()


def _assumptions_title(stated: Sequence[str], core: Sequence[Constraint]) -> str:
    """Title of a conflict with the user's assumptions; empty without any."""
    if not stated:
        return ""
    quoted = [f"`{s}`" for s in stated]
    if len(stated) == len(core) and len(stated) > 1:
        return f"the assumptions {', '.join(quoted[:-1])} and {quoted[-1]} contradict each other"
    if len(stated) == 1:
        return f"the assumption {quoted[0]} contradicts the model"
    return f"the assumptions {', '.join(quoted[:-1])} and {quoted[-1]} contradict the model"


def _notes(lowered: Lowered, core: Sequence[Constraint], entry: Entry) -> tuple[str, ...]:
    given = attributes_text(entry.node) if entry.node is not None else ()
    if any(c.role == "user" for c in core):
        return (*given, "no input size satisfies all of this")
    if any(c.role == "assumption" for c in core):
        return (*given, _ending(lowered, core))
    if not entry.guard.is_true:
        return (
            *given,
            f"no input size lets this node run if {lowered.walk.described(entry.guard)}",
        )
    return (*given, _never(lowered))


def _ending(lowered: Lowered, core: Iterable[Constraint]) -> str:
    """Sentence: no input size runs, under the assumptions among these constraints."""
    assumptions = [c for c in core if c.role == "assumption"]
    assumed = [c.assumption for c in assumptions if not _is_of_filled(c)]
    never = _never(lowered)
    if len(assumed) < len(assumptions):
        never += ": empty inputs pass here, and fail at another node"
    return f"under the assumption {' and '.join(assumed)}, {never}" if assumed else never


def _is_of_filled(constraint: Constraint) -> bool:
    """Return True if the constraint is the assumption that an input is not empty."""
    return constraint.role == "assumption" and not constraint.origin.node


def _never(lowered: Lowered) -> str:
    """Sentence: no input size runs, or none with the user's conditions."""
    return _NOT_SO if any(entry.role == "user" for entry in lowered.log) else _NEVER


def _steps_and_nodes(
    lowered: Lowered, indices: Iterable[int], meeting: int
) -> tuple[tuple[Step, ...], tuple[str, ...]]:
    """Steps of the explanation: origin of each size, other constraints, and where they meet."""
    tracer = Tracer(lowered)
    steps: dict[str, Step] = {}
    nodes: dict[str, None] = {}
    for index in sorted(indices, key=lambda i: (i == meeting, i)):
        constraint, entry = lowered.constraints[index], lowered.log[index]
        for site in sites_of(entry, lowered):
            links = tracer.links(site)
            declared = declared_dim(links[-1], lowered) if links and index != meeting else None
            if declared is not None and declared is not links[-1].dim:
                continue  # The conditions determine this number, so it is a step at its comparison.
            shown = len(links) == 1 and links[0].kind == "initializer" and not site.data  # as an operand
            if links and site.axis is not None and not shown:
                step = chain_step(site, links, lowered)
                steps.setdefault(step.text, step)
        nodes.update(dict.fromkeys(tracer.behind(entry)))
        if index != meeting and not _is_of_filled(constraint):
            text = need_text(constraint, entry, lowered)
            steps.setdefault(text, _stated(constraint, text))
        if constraint.origin.node:
            nodes[constraint.origin.node] = None
    last = lowered.constraints[meeting]
    text = need_text(last, lowered.log[meeting], lowered)
    kept = [s for s in steps.values() if s.text != text]
    if len(kept) > MAX_SHOWN_STEPS:
        left = len(kept) - MAX_SHOWN_STEPS
        kept[MAX_SHOWN_STEPS:] = [
            Step("", "", "", f"and {left} more {'steps' if left > 1 else 'step'} like these")
        ]
    return (*kept, _stated(last, text)), tuple(nodes)


def _stated(constraint: Constraint, text: str) -> Step:
    node = constraint.origin.node
    return Step(node, constraint.origin.op_type, "", text, (node,) if node else ())


def _message(finding: Finding, last: Constraint) -> str:
    where = f" at {finding.node}" if finding.node else ""
    inputs = " and ".join(f"{name} {shape}" for name, shape, _ in finding.operands)
    text = f"{finding.title}{where}"
    if inputs:
        text += f": {inputs}"
    text += f" ({last.origin.rule})"
    story = "; ".join(step.text for step in finding.steps)
    return f"{text}. {story}." if story else f"{text}."
