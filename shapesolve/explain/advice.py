"""What to do about a conflict, where the shapes suggest something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from ..expr import Dim, Shape
from ..lower.reason import ADDED, BROADCAST, reason_id
from ..lower.records import Entry
from ..propagate.constraint import Site
from .operands import sites_of, size_at
from .trial import runs_with

if TYPE_CHECKING:
    from ..lower.lowered import Lowered


class Advice(NamedTuple):
    """A fix in words, or nothing; with `settles` it was tried, and the node runs then."""

    text: str = ""
    settles: bool = False


def advise(entry: Entry, sites: Sequence[Site], lowered: Lowered) -> Advice:
    """What to do about a condition that cannot hold."""
    if entry.node is None:
        return Advice()
    rule = lowered.rule(entry.node, entry.prefix)
    kind = "" if rule is None else rule.advice
    sizes = [s for s in sites if not s.data and s.axis is not None and s.tensor in lowered.shapes]
    if kind == "target" and any(s.data for s in sites):
        return Advice(_baked(sites, lowered))
    if kind == "parts":
        return Advice(_parts(sites, lowered))
    if len(sizes) < 2:
        return Advice()
    a, b = sizes[:2]
    told = ""
    if kind == "convolution":
        other = _convolution(entry, a, b, lowered)
        if other is not None:
            return other
    elif kind in ("product", "gemm") and reason_id(entry.why) != ADDED.id:
        told = (_gemm if kind == "gemm" else _product)(entry, a, b, lowered)
    elif kind == "join":
        return Advice(_join(entry, lowered))
    elif reason_id(entry.why) == BROADCAST.id and a.tensor != b.tensor:
        told = _broadcast(entry, a, b, lowered) or _weight(entry, a, b, lowered)
        return Advice(told, True) if told else Advice(_projection(a, b, lowered))
    told = told or _weight(entry, a, b, lowered)
    return Advice(told, bool(told))


def _shapes(a: Site, b: Site, lowered: Lowered) -> tuple[Shape, Shape]:
    return lowered.shapes[a.tensor], lowered.shapes[b.tensor]


def _stored(tensor: str, lowered: Lowered) -> bool:
    return (
        tensor not in lowered.walk.producers
        and tensor not in lowered.inputs
        and tensor not in lowered.walk.aliases
    )


def _baked(sites: Sequence[Site], lowered: Lowered) -> str:
    target = next(s.tensor for s in sites if s.data)
    if not lowered.is_stored(target):
        return ""
    return f"{target} is a constant, as if baked in at export: derive it from Shape of the input"


def _parts(sites: Sequence[Site], lowered: Lowered) -> str:
    axis = next((size_at(s, lowered) for s in sites if not s.data), None)
    parts = next((lowered.values.get(s.tensor) for s in sites if s.data), None)
    if axis is None or axis.terms or parts is None or parts.elems is None:
        return ""
    sizes = [e.const for e in parts.elems if isinstance(e, Dim) and not e.terms]
    return f"the parts add up to {sum(sizes)}, the axis has {axis}" if len(sizes) == len(parts.elems) else ""


def _convolution(entry: Entry, a: Site, b: Site, lowered: Lowered) -> Advice | None:
    """What group or layout fits; None where only a weight of another shape may."""
    assert entry.node is not None
    x, w = _shapes(a, b, lowered)
    group = entry.node.attributes.get("group", 1)
    have, share, out = x[a.axis or 0], w[b.axis or 0], w[0]
    if have.terms or share.terms or out.terms or not share.const or not isinstance(group, int):
        return Advice()
    if (
        have.const
        and have.const % share.const == 0
        and group != have.const // share.const
        and out.const % (have.const // share.const) == 0
    ):
        fitting = have.const // share.const
        if group != 1 or share.const == 1:
            return Advice(f"{b.tensor} {w} fits {have} channels with group = {fitting}, not {group}")
    last = Shape((x[0], x[-1], *x[1:-1]))
    if len(x) == len(w) == 4 and group == 1 and runs_with(lowered, entry, {a.tensor: last}):
        told = f"the last axis of {a.tensor} has {share}: is it channels-last, with a Transpose missing?"
        return Advice(told, True)
    if group == 1:
        return None
    return Advice(
        f"with group = {group}, {a.tensor} needs {group} * {share} = {group * share.const} channels"
    )


def _gemm(entry: Entry, a: Site, b: Site, lowered: Lowered) -> str:
    left, right = _shapes(a, b, lowered)
    fits = len(left) >= 2 and b.axis == len(right) - 2 >= 0 and left[a.axis or 0] is right[-1]
    fits = fits and runs_with(lowered, entry, {b.tensor: _swapped(right, 0, 1)})
    return f"{b.tensor} {right} fits with transB = 1" if fits else ""


def _product(entry: Entry, a: Site, b: Site, lowered: Lowered) -> str:
    left, right = _shapes(a, b, lowered)
    if len(left) < 2 or len(right) < 2:
        return ""
    if left[-1] is right[-1] and runs_with(lowered, entry, {b.tensor: _swapped(right, -2, -1)}):
        return f"{b.tensor} {right} fits when its last two axes are swapped: is a Transpose missing?"
    if right[-1] is left[-2] and runs_with(lowered, entry, {}, swapped=True):
        return f"the operands fit the other way round: {b.tensor} times {a.tensor}"
    if left[-2] is right[-2] and runs_with(lowered, entry, {a.tensor: _swapped(left, -2, -1)}):
        return f"{a.tensor} {left} fits when its last two axes are swapped: is a Transpose missing?"
    return ""


def _join(entry: Entry, lowered: Lowered) -> str:
    assert entry.node is not None
    names = [lowered.full_name(name, entry.prefix) for name in entry.node.inputs]
    first, *others = (lowered.shapes.get(name) for name in names)
    if first is None or any(s is None or len(s) != len(first) for s in others):
        return ""
    for axis in range(len(first)):
        if all(s is not None and first[k] is s[k] for s in others for k in range(len(first)) if k != axis):
            return f"the shapes join along axis {axis}"
    return ""


def _broadcast(entry: Entry, a: Site, b: Site, lowered: Lowered) -> str:
    """One swap of axes, or one axis more, that makes the operands fit."""
    x, y = _shapes(a, b, lowered)
    found = []
    for site, own in ((a, x), (b, y)):
        if _stored(site.tensor, lowered):
            continue
        pairs = combinations(range(len(own)), 2)
        swap = next((p for p in pairs if runs_with(lowered, entry, {site.tensor: _swapped(own, *p)})), None)
        if swap is not None:
            told = f"{site.tensor} {own} fits when axes {swap[0]} and {swap[1]} are swapped"
            found.append(f"{told}: is a Transpose missing, or one too many?")
            break
    for site, own, other in ((a, x, y), (b, y, x)):
        if len(own) < len(other):
            shapes = (_widened(own, k) for k in range(1, len(own) + 1))
            wider = next((w for w in shapes if runs_with(lowered, entry, {site.tensor: w})), None)
            if wider is not None:
                found.append(f"{site.tensor} {own} fits as {wider}: is an Unsqueeze missing?")
    return " Or: ".join(found)


def _swapped(shape: Shape, i: int, j: int) -> Shape:
    return shape.with_dim(i, shape[j]).with_dim(j, shape[i])


def _widened(shape: Shape, axis: int) -> Shape:
    return Shape((*shape[:axis], Dim(1), *shape[axis:]))


def _weight(entry: Entry, a: Site, b: Site, lowered: Lowered) -> str:
    """Stored tensors that another shape would make fit; of two, the one of lower rank (a bias, a scale)."""
    x, y = _shapes(a, b, lowered)
    for site, own, other in sorted(((b, y, a), (a, x, b)), key=lambda side: len(side[1])):
        wanted = size_at(other, lowered)
        if not _stored(site.tensor, lowered) or wanted is None or wanted.terms or site.axis is None:
            continue
        fitting = own.with_dim(site.axis, wanted)
        shapes = {site.tensor: fitting}
        for beside in _beside(entry, other, lowered):
            if lowered.shapes[beside.tensor] is own and beside.axis == site.axis:
                shapes[beside.tensor] = fitting
        if runs_with(lowered, entry, shapes):
            return f"{_listed(list(shapes))} would fit with shape {fitting}, or {other} is not meant to be {wanted}"
    return ""


def _beside(entry: Entry, other: Site, lowered: Lowered) -> Iterator[Site]:
    """Sites of stored tensors that the same node holds against `other`, for the same reason and in vain."""
    for e in lowered.walk.log:
        if e.node is entry.node and e.prefix == entry.prefix and e.why == entry.why and e.cond.is_false:
            sites = sites_of(e, lowered)
            if other in sites:
                yield from (s for s in sites if s != other and not s.data and _stored(s.tensor, lowered))


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _projection(a: Site, b: Site, lowered: Lowered) -> str:
    x, y = _shapes(a, b, lowered)
    p, q = size_at(a, lowered), size_at(b, lowered)
    if len(x) != len(y) or p is None or q is None:
        return ""
    return f"if these belong together, one of them is missing a layer between {p} and {q}"
