"""The one place where facts about a conflict become sentences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ..dims import Cond
from ..solver.constraint import Constraint, Site
from .derivation import Link
from .findings import Step

if TYPE_CHECKING:
    from .result import Analysis

#: what an operator cannot do when its sizes contradict each other
_TITLES = {
    "MatMul": "cannot multiply these shapes",
    "Gemm": "cannot multiply these shapes",
    "FusedMatMul": "cannot multiply these shapes",
    "Concat": "cannot join these shapes",
    "Reshape": "cannot give its input this shape",
    "Conv": "cannot run its kernel over this input",
    "ConvTranspose": "cannot run its kernel over this input",
    "MaxPool": "cannot slide its window over this input",
    "AveragePool": "cannot slide its window over this input",
    "Expand": "cannot expand its input to this shape",
    "Gather": "reads outside of its table",
    "GatherND": "reads outside of its table",
    "GatherElements": "reads outside of its table",
    "Split": "cannot split its input into these parts",
    "Slice": "cannot slice this input",
    "Einsum": "cannot combine these shapes",
    "Where": "cannot broadcast these shapes",
}
_BROADCASTING = "cannot broadcast these shapes"


def title_of(op_type: str, rule: str) -> str:
    """What is wrong, in one line."""
    if op_type in _TITLES:
        return f"{op_type} {_TITLES[op_type]}"
    if "broadcast" in rule:
        return f"{op_type} {_BROADCASTING}"
    return f"{op_type} cannot run on these shapes" if op_type else "these conditions contradict each other"


def side_by_side(cond: Cond) -> str:
    """A condition that cannot hold, as what it compares: ``64 against 65``."""
    parts = cond.args if cond.kind == "or" else (cond,)
    for part in parts:
        if part.kind == "==":
            text = str(part)
            left, _, right = text.partition(" == ")
            return f"{left} against {right}"
    return str(cond)


def shape_text(tensor: str, analysis: Analysis) -> str:
    """``name [shape]`` for a sentence."""
    shape = analysis.shapes.get(tensor)
    return f"{tensor} {shape}" if shape is not None else f"{tensor} of unknown rank"


def origin_text(tensor: str, analysis: Analysis) -> str:
    """Where a tensor comes from: an input, an initializer, or a node."""
    made = analysis.walk.producers.get(tensor)
    if made is not None:
        return f"from {made[1]}{made[0].label}"
    return "an input of the model" if tensor in analysis.inputs else "an initializer"


def link_step(site: Site, links: list[Link], analysis: Analysis) -> Step:
    """What a chain says of the size at its end: where it was first made, and through which nodes it came."""
    source = links[-1]
    through = [link for link in links[:-1] if link.node is not None]
    where = f"{site}" if site.axis is not None else site.tensor
    size = source.dim
    if source.kind == "input":
        text = f"{where} is {size}: input {source.tensor} has shape {analysis.shapes.get(source.tensor)}"
    elif source.kind == "initializer":
        text = f"{where} is {size}: initializer {source.tensor} has shape {analysis.shapes.get(source.tensor)}"
    else:
        text = f"{where} is {size}: {source.label} makes {shape_text(source.tensor, analysis)}"
    if len(through) == 1:
        text += f", passed on by {through[0].label}"
    elif through:
        text += f", passed on by {len(through)} nodes from {through[-1].label} to {through[0].label}"
    op_type = source.node.op_type if source.node is not None else ""
    return Step(source.label, op_type, source.tensor, text)


def need_text(constraint: Constraint) -> str:
    """What one constraint says, as a sentence without its end."""
    origin = constraint.origin
    if constraint.role == "user":
        return f"{constraint.cond} was stated as an assumption"
    if constraint.role == "assumption":
        return f"{constraint.cond} is assumed: {origin.rule}"
    if not origin.node:
        return f"{constraint.cond}: {origin.rule}"
    needs = "needs" if constraint.role == "requirement" else "gives"
    guard = "" if constraint.guard.is_true else f" where {constraint.guard}"
    return f"{origin.node} {needs} {constraint.cond}{guard}: {origin.rule}"


def violation_text(constraint: Constraint, sizes: Mapping[str, int], analysis: Analysis) -> str:
    """A requirement that concrete sizes break: what it needs, what it gets, who needs it."""
    cond, origin = constraint.cond, constraint.origin
    used = ", ".join(f"{n} = {sizes[n]}" for n in sorted(cond.free) if n in sizes)
    what = str(cond) if not cond.is_false else "this branch cannot run"
    text = f"{what} does not hold for {used}" if used else f"{what} does not hold"
    if origin.node:
        seen = [_at_sizes(s, sizes, analysis) for s in _tensors(origin.sites)]
        text += f"; {origin.node} ({origin.rule})"
        if seen:
            text += f" would get {' and '.join(seen)}"
    elif constraint.role == "user":
        text += " (stated as an assumption)"
    return text


def _tensors(sites: Iterable[Site]) -> list[str]:
    return list(dict.fromkeys(s.tensor for s in sites))


def _at_sizes(tensor: str, sizes: Mapping[str, int], analysis: Analysis) -> str:
    shape = analysis.shapes.get(tensor)
    if shape is None:
        return tensor
    dims = [d.evaluate(sizes) for d in shape]
    return f"{tensor} [{', '.join(str(s) if s is not None else str(d) for s, d in zip(dims, shape))}]"


def help_for(constraint: Constraint, analysis: Analysis) -> str:
    """A fix, where the shapes suggest one."""
    origin = constraint.origin
    if constraint.role == "user" or len(origin.sites) < 2:
        return _baked_help(constraint, analysis)
    (a, b) = origin.sites[:2]
    sa, sb = analysis.shapes.get(a.tensor), analysis.shapes.get(b.tensor)
    if sa is None or sb is None or a.axis is None or b.axis is None or a.axis >= len(sa) or b.axis >= len(sb):
        return ""
    da, db = sa[a.axis], sb[b.axis]
    if origin.op_type in ("MatMul", "Gemm") and len(sb) >= 2 and len(sa) >= 2:
        if sa[-1] is sb[-1]:
            return f"{b.tensor} {sb} fits when its last two axes are swapped: is a Transpose missing?"
        if sb[-1] is sa[-2]:
            return f"the operands fit the other way round: {b.tensor} times {a.tensor}"
    if origin.op_type == "Concat":
        for axis in range(len(sa)):
            others = [k for k in range(len(sa)) if k != axis]
            if len(sa) == len(sb) and all(sa[k] is sb[k] for k in others):
                return f"the shapes join along axis {axis}"
    for site, own, other, dim in ((b, sb, a, da), (a, sa, b, db)):
        stored = site.tensor not in analysis.walk.producers and site.tensor not in analysis.inputs
        if stored and not dim.terms and site.axis is not None:
            return f"initializer {site.tensor} would fit with shape {own.with_dim(site.axis, dim)}, or {other} is not meant to be {dim}"
    return _baked_help(constraint, analysis)


def _baked_help(constraint: Constraint, analysis: Analysis) -> str:
    if constraint.origin.op_type in ("Reshape", "Expand"):
        return "the target shape looks like one baked in at export: derive it from Shape of the input"
    return ""
