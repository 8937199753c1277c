"""Collects all findings of an analysis, ranked."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from ..answers.names import unknown_operators
from ..causes.finding import CODES, Conflict, Finding, Severity
from ..causes.limits import MAX_FOR_LIMITS, MAX_LISTED
from ..causes.operands import SiteTracer, sides_of
from ..causes.wording import is_short, operand_rows, quoted_conditions
from ..expr import Cond, Dim, broadcast, eq, ge, parse_cond
from ..expr.traverse import atoms_of
from ..lower import Registry
from ..lower.standard import stops_loading
from ..model import Node
from ..solve.contract.contract import heading
from ..solve.facts.constraint import Constraint
from ..solve.groups import members, text_of
from ..solve.simplify import Simplifier
from . import declared, restriction, specialised

if TYPE_CHECKING:
    from ..answers.solved import Solved
    from ..lower.rule import Bodies
    from ..solve.contract.contract import Term

_RANK = {"error": 0, "warning": 1, "info": 2}
#: names of axes, by rank
_AXES = {1: "N", 2: "NC", 3: "NTC", 4: "NCHW", 5: "NCDHW"}
_NOTE_CODES = {
    "unknown-op": "SS101",
    "declared": "SS102",
    "memory": "SS102",
    "open": "SS103",
    "default": "SS502",
    "file": "SS104",
    "rule": "SS105",
    "load": "SS206",
    "outside": "SS206",
}
_DEAD = "`shapesolve simplify` removes the branch"
_OUTSIDE = "`shapesolve annotate` writes it into the model"
#: reason that a node is not reached, by the kind of the graphs around it
_WAYS_ROUND: dict[Bodies, str] = {
    "one": "the branch around it must not be taken",
    "trips": "the loop around it must have no iterations",
}
#: characters that a shell does not interpret between double quotes
_HARMLESS = re.compile(r"[^$`\"\\!]*")

#: atoms that a person reads at a glance: of the others (``max``, ``broadcast``) one is enough
_PLAIN = frozenset(("sym", "//", "%"))

Finder = Callable[["Solved"], Iterator[Finding]]
#: functions that yield findings, in the order of the report
FINDERS: list[Finder] = []


def finds(**codes: tuple[Severity, str]) -> Callable[[Finder], Finder]:
    """Decorator for a function that yields findings; `codes` are their severity and summary."""
    everything = sorted({**CODES, **codes}.items())
    CODES.clear()
    CODES.update(everything)

    def decorate(finder: Finder) -> Finder:
        FINDERS.append(finder)
        return finder

    return decorate


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


@finds(SS204=("warning", "a branch or a loop body cannot run for any sizes"))
def _dead_branches(analysis: Solved) -> Iterator[Finding]:
    """Yield nodes that cannot run in a branch or a loop body: the model runs only if they are not reached."""
    tracer = SiteTracer(analysis.lowered)
    reported = {node for conflict in analysis.conflicts for node in conflict.nodes}
    for number, entry in enumerate(analysis.lowered.log):
        if entry.guard.is_true or not entry.cond.is_false or entry.role != "requirement":
            continue
        origin = analysis.stated[number].origin
        if origin.node not in reported:
            around = set(tracer.around(entry.prefix))
            way = _WAYS_ROUND.get(around.pop(), "") if len(around) == 1 else ""
            way = way or "it must not be reached"
            title = f"{origin.op_type} cannot run, so {way}"
            notes: tuple[str, ...] = (
                origin.rule,
                f"it is reached if {analysis.walk.described(entry.guard)}",
            )
            if entry.node is not None and stops_loading(analysis.walk, entry.node):
                notes += ("onnxruntime does not load the file, even if this node is never reached",)
            yield Finding("SS204", title, origin.node, origin.op_type, (origin.node,), notes=notes)


@finds(
    SS101=("warning", "unknown operator"),
    SS102=("warning", "a declared shape disagrees with the inferred one"),
    SS103=("info", "a rule does not support a node"),
    SS104=("warning", "the file departs from the standard, in a way that onnxruntime understands"),
    SS105=("warning", "the rule of an operator failed"),
    SS206=("warning", "onnxruntime does not load the file, although its sizes are valid"),
    SS502=("info", "the analysis assumes the default value of an input that callers can override"),
)
def _notes(analysis: Solved) -> Iterator[Finding]:
    suggested: dict[tuple[str, str], str] = {}
    trials = iter(range(MAX_FOR_LIMITS // max(len(analysis.model.graph.nodes), 1)))
    for note in analysis.lowered.notes:
        label = f"{note.prefix}{note.node.label}" if note.node else ""
        op_type = note.node.op_type if note.node else ""
        code = _NOTE_CODES.get(note.kind)
        if code is None or (
            note.kind == "memory" and analysis.stale_shapes
        ):  # a conflict, or told with these
            continue
        help_ = ""
        if code == "SS101" and note.node is not None:
            key = (note.node.domain, note.node.op_type)
            if key not in suggested:
                suggested[key] = _registration(analysis, note.node, note.prefix, trials)
            help_ = suggested[key]
        help_ = {
            "declared": declared.HELP,
            "type": declared.HELP,
            "memory": declared.HELP,
            "load": _DEAD,
            "outside": _OUTSIDE,
        }.get(note.kind, help_)
        yield Finding(code, note.message, label, op_type, (label,) if label else (), help=help_)


@finds()
def _stale_shapes(analysis: Solved) -> Iterator[Finding]:
    yield from declared.findings(analysis)


@finds()
def _unranked(analysis: Solved) -> Iterator[Finding]:
    """Findings for tensors of unknown rank, at the first one without another explanation."""
    explained = {
        f"{note.prefix}{note.node.label}" for note in analysis.lowered.notes if note.node is not None
    } | analysis.lowered.failed
    explained.update(label for conflict in analysis.conflicts for label in conflict.nodes)
    for name in (n for n, begins in analysis.lowered.unranked.items() if begins):
        node, prefix = analysis.lowered.producers.get(name, (None, ""))
        if node is None:
            if name in analysis.inputs:
                title = f"input {name} has unknown rank: it declares no shape, and no node implies one"
                yield Finding("SS103", title, dims=(name,))
        elif f"{prefix}{node.label}" not in explained:
            label = f"{prefix}{node.label}"
            title = (
                f"the rank of {name} is unknown: it depends on input data, or the operator has no shape rule"
            )
            yield Finding("SS103", title, label, node.op_type, (label,))


def _registration(analysis: Solved, node: Node, prefix: str, trials: Iterator[int]) -> str:
    """Help text: the line of Python that declares the operator's shapes. It was tried on this model."""
    domain = f", domain={node.domain!r}" if node.domain else ""
    for dims, _ in zip(_signatures(analysis, node, prefix), trials):
        rules = Registry()
        rules.signature(node.op_type, dims, domain=node.domain)
        trial = analysis.again(rules=rules.over(analysis.request.rules), trial=True)
        if not trial.stuck and not trial.contract.impossible:
            call = f"shapesolve.signature({node.op_type!r}, {dims!r}{domain})"
            return f"save {call} in my_ops.py, with the real output sizes, and add --plugin my_ops"
    return ""


def _signatures(analysis: Solved, node: Node, prefix: str) -> Iterator[str]:
    """Signatures that fit the ranks of a node's inputs: outputs like the first input, or of its rank."""
    letters: dict[Dim, str] = {}

    def named(name: str) -> list[str]:
        shape = analysis.shapes.get(f"{prefix}{name}") if name else None
        if shape is None:
            return ["?"]
        axes = _AXES.get(len(shape), "")
        for d, letter in zip_longest(shape, axes):
            if d not in letters:
                letters[d] = letter if letter and letter not in letters.values() else f"D{len(letters)}"
        return [letters[d] for d in shape] or ["."]

    inputs = [named(name) for name in node.inputs]
    first = inputs[0] if inputs and inputs[0] != ["?"] else []
    for kept in dict.fromkeys((len(first), *range(min(2, len(first)), -1, -1))) if first else ():
        out = [*first[:kept], *["_"] * (len(first) - kept)]
        yield f"{', '.join(map(' '.join, inputs))} -> {', '.join([' '.join(out)] * len(node.outputs))}"


def _size_text(size: Dim) -> str:
    """Return a size of a broadcast as text for a title."""
    text = str(size)
    return f"`{text}`" if is_short(text) else "a long expression"


@finds(SS302=("info", "a node's precondition depends on input data"))
def _undecided(analysis: Solved) -> Iterator[Finding]:
    """Yield requirements that depend on input data rather than on input sizes."""
    if analysis.conflicts:
        return
    reported = {  # reported separately
        (node, left.free | right.free)
        for a in analysis.ambiguities
        for left, right in (a.pair,)
        for node in a.sites
    }
    groups: dict[tuple[str, str, str], list[Term]] = {}
    behind = _behind_unknown(analysis)
    for term in analysis.contract.internal:
        needs = [c for c in term.constraints if c.role == "requirement"]
        own = next((c for c in needs if c.cond is term.cond), needs[-1] if needs else None)
        if own is None or own.cond.is_false or own.node in behind:  # another finding tells it
            continue
        if (own.node, term.cond.free) not in reported:
            groups.setdefault((own.node, own.op_type, own.rule), []).append(term)
    reasons = analysis.lowered.reasons
    for (node, op_type, rule), terms in groups.items():
        needed = quoted_conditions([term.text for term in terms])
        named = dict.fromkeys(f"{n}: {reasons[n]}" for t in terms for n in t.symbols if n in reasons)
        yield Finding(
            "SS302",
            f"{needed} must hold, which depends on data, not on input sizes",
            node,
            op_type,
            tuple(dict.fromkeys((node, *(n for term in terms for n in term.nodes)))),
            notes=(rule, *named)[:MAX_LISTED],
            dims=tuple(dict.fromkeys(n for t in terms for n in t.symbols)),
        )


def _behind_unknown(analysis: Solved) -> set[str]:
    """Nodes of the main graph whose inputs depend on an operator without a rule, which SS101 says."""
    unknown = unknown_operators(analysis.lowered).keys()
    return {n.label for n in analysis.model.graph.nodes if not unknown.isdisjoint(n.inputs)}


def _quoted(text: str) -> str:
    """Return the text quoted for a shell."""
    return f'"{text}"' if _HARMLESS.fullmatch(text) else shlex.quote(text)


def _may_be_assumed(text: str, analysis: Solved) -> bool:
    """Return True if the text is a condition on inputs that some accepted sizes of at least 2 satisfy."""
    if not text:
        return False
    cond = parse_cond(text, analysis.symbols)
    if not is_short(text) or sum(a.kind not in _PLAIN for a in atoms_of(cond)) > 1:
        return False  # too complex for a user to check
    if not cond.free <= analysis.symbols.keys():
        return False
    several = [ge(analysis.symbols[name], 2) for name in sorted(cond.free)]
    return analysis.prover.engine.satisfiable([cond, *several, *analysis.accepted.conds], cheap=True).sat


@finds(
    SS401=("warning", "the model runs at only one size of a dim declared dynamic"),
    SS402=("warning", "two dims declared as different names must be equal"),
    SS405=("info", "a dim declared dynamic is a width or a number of channels that the model has fixed"),
    SS403=("info", "a dim declared dynamic is restricted to a range or to multiples"),
    SS404=("warning", "a dim declared dynamic is limited by a size that was baked in at export"),
    SS406=("warning", "the model runs only on empty inputs"),
)
def _restricted(analysis: Solved) -> Iterator[Finding]:
    """Findings for dims declared dynamic that the graph fixes or restricts. This is the most common export bug."""
    if analysis.conflicts:
        return
    yield from specialised.findings(analysis)
    found = restriction.findings(analysis)
    yield from _of_the_model(found, analysis) if analysis.request.bind else found


def _of_the_model(found: Iterable[Finding], analysis: Solved) -> Iterator[Finding]:
    """Drop findings that are caused only by sizes that the user bound."""
    nodes: set[str] | None = None
    for finding in found:
        if nodes is None:
            unbound = analysis.again(bind={})
            nodes = {n for f in _restricted(unbound) for n in f.nodes}
        if not finding.nodes or not nodes.isdisjoint(finding.nodes):
            yield finding


@finds(SS301=("warning", "ambiguous broadcast"))
def _ambiguities(analysis: Solved) -> Iterator[Finding]:
    opens = {f"{o.prefix}{o.node.label}": o for o in reversed(analysis.lowered.opens)}
    behind = _behind_unknown(analysis)
    for a in analysis.ambiguities:
        left, right = a.pair
        if a.sites[0] in behind or not analysis.lowered.poisoned.isdisjoint(left.free | right.free):
            continue  # caused by a node that cannot run
        first, usual = a.sites[0], analysis.usually(eq(left, right))
        rows = operand_rows(sides_of(opens[first], analysis.lowered), analysis.lowered)
        notes: tuple[str, ...] = (
            "it runs if one of these holds: " + quoted_conditions([str(c) for c in a.cases], quote=""),
        )
        where = "" if len(a.sites) == 1 else f" ({len(a.sites)} nodes, this one first)"
        title = f"{_open_text(left, right)}{where}"
        suggestion = a.suggestion
        if usual:
            scope = analysis.contract.usual.whole
            simplifier = Simplifier([*scope.sizes, *scope.fits])
            left, right = sorted((simplifier.dim(left), simplifier.dim(right)), key=lambda d: d.name is None)
            if left is right:
                continue  # they differ only outside the scope
            limited = f", {heading(scope.fits)}" if scope.fits else ""
            if is_short(f"{left}{right}") and "broadcast(" not in f"{left}{right}":
                title = f"{left} and {right} are broadcast: they must be equal, or one of them 1{limited}"
                notes = ()
            suggestion = f"{left} == {right}"
            rows = () if any("broadcast(" in shape for _, shape, _ in rows) else rows
        may_be = _may_be_assumed(suggestion, analysis)
        op_type, advice = opens[first].node.op_type, f"--assume {_quoted(suggestion)} if it always holds"
        parts = ("SS301", title, first, op_type, tuple(a.sites), rows)
        dims = tuple(sorted(a.pair[0].free | a.pair[1].free))
        yield Finding(*parts, notes=notes, help=advice if may_be else "", usual=usual, dims=dims)


def _open_text(left: Dim, right: Dim) -> str:
    """Describe an ambiguity: whether two sizes are equal, or all sizes of a group."""
    group = members(broadcast(left, right))
    if group is not None and len(group) >= MAX_LISTED:
        return f"{len(group)} sizes are broadcast together: {text_of(group, MAX_LISTED)}"
    return f"cannot determine whether {_size_text(left)} equals {_size_text(right)} in a broadcast"


@finds(SS407=("info", "unused input"))
def _unread(analysis: Solved) -> Iterator[Finding]:
    """Findings for inputs that no node reads. Inputs with a default are optional and are skipped."""
    graph = analysis.model.graph
    read = {name for node in graph.nodes for name in (*node.inputs, *node.captures)}
    read.update(name for name, _ in graph.outputs)
    for name in analysis.inputs:
        if name not in read and name not in graph.initializers:
            yield Finding("SS407", f"input {name} is unused: no output depends on it", dims=(name,))


@finds(SS501=("info", "something was assumed that the model does not decide"))
def _assumed(analysis: Solved) -> Iterator[Finding]:
    assumed: set[Cond] = set()
    for name, value in analysis.bindings.items():
        why = analysis.bindings.why(name)
        if why.assumption:
            nodes = tuple(dict.fromkeys(c.origin.node for c in why.constraints))
            own = why.assumption == f"{name} != 1" and analysis.request.broadcast == "named"
            left = ", which `--broadcast strict` does not assume" if own else ""
            yield Finding(
                "SS501",
                f"`{name}` is set to {value}, assuming {why.assumption}{left}",
                nodes[0] if nodes else "",
                why.constraints[0].origin.op_type if why.constraints else "",
                nodes=nodes,
                notes=tuple(f"{c.origin.node} needs {c.cond}: {c.origin.rule}" for c in why.constraints[:3]),
                dims=(name,),
            )
            assumed.update(c.cond for c in why.constraints if c.role == "assumption")
    granted: dict[str, list[Constraint]] = {}
    for c in analysis.stated.role("assumption"):
        if c.cond not in assumed:
            granted.setdefault(c.assumption, []).append(c)
    for text, same in granted.items():
        origin = same[0].origin
        nodes = tuple(dict.fromkeys(c.origin.node for c in same))
        notes = (origin.rule,) if text is not origin.rule else ()
        title = f"{text} is assumed" if notes else f"{text}, which is assumed"
        yield Finding("SS501", title, origin.node, origin.op_type, nodes, notes=notes, dims=(text,))


__all__ = ["CODES", "FINDERS", "diagnose", "finds"]
