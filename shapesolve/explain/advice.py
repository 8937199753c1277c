"""What to do about a conflict, where the shapes suggest something."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from ..expr import Dim, Shape
from ..lower.reason import ADDED, BROADCAST, reason_id
from ..lower.records import Entry
from ..propagate.constraint import Site
from .operands import size_at

if TYPE_CHECKING:
    from ..lower.lowered import Lowered


def advise(entry: Entry, sites: Sequence[Site], lowered: Lowered) -> str:
    """A fix in words, or nothing."""
    if entry.node is None:
        return ""
    rule = lowered.rule(entry.node, entry.prefix)
    kind = "" if rule is None else rule.advice
    sizes = [s for s in sites if not s.data and s.axis is not None and s.tensor in lowered.shapes]
    if kind == "target" and any(s.data for s in sites):
        return _baked(sites, lowered)
    if kind == "parts":
        return _parts(sites, lowered)
    if len(sizes) < 2:
        return ""
    a, b = sizes[:2]
    if kind == "convolution":
        return _convolution(entry, a, b, lowered)
    if kind in ("product", "gemm") and reason_id(entry.why) != ADDED.id:
        return (_gemm if kind == "gemm" else _product)(a, b, lowered) or _weight(a, b, lowered)
    if kind == "join":
        return _join(a, b, lowered)
    if reason_id(entry.why) == BROADCAST.id and a.tensor != b.tensor:
        return _broadcast(a, b, lowered) or _weight(a, b, lowered) or _projection(a, b, lowered)
    return _weight(a, b, lowered)


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


def _convolution(entry: Entry, a: Site, b: Site, lowered: Lowered) -> str:
    assert entry.node is not None
    x, w = _shapes(a, b, lowered)
    group = entry.node.attributes.get("group", 1)
    have, share, out = x[a.axis or 0], w[b.axis or 0], w[0]
    if have.terms or share.terms or out.terms or not share.const or not isinstance(group, int):
        return ""
    if (
        have.const
        and have.const % share.const == 0
        and group != have.const // share.const
        and out.const % (have.const // share.const) == 0
    ):
        fitting = have.const // share.const
        if group != 1 or share.const == 1:
            return f"{b.tensor} {w} fits {have} channels with group = {fitting}, not {group}"
    if len(x) == len(w) == 4 and x[-1] is share and group == 1:
        return f"the last axis of {a.tensor} has {share}: is it channels-last, with a Transpose missing?"
    if group == 1:
        return _weight(a, b, lowered)
    return f"with group = {group}, {a.tensor} needs {group} * {share} = {group * share.const} channels"


def _gemm(a: Site, b: Site, lowered: Lowered) -> str:
    left, right = _shapes(a, b, lowered)
    fits = len(left) >= 2 and b.axis == len(right) - 2 >= 0 and left[a.axis or 0] is right[-1]
    return f"{b.tensor} {right} fits with transB = 1" if fits else ""


def _product(a: Site, b: Site, lowered: Lowered) -> str:
    left, right = _shapes(a, b, lowered)
    if len(left) < 2 or len(right) < 2:
        return ""
    if left[-1] is right[-1]:
        return f"{b.tensor} {right} fits when its last two axes are swapped: is a Transpose missing?"
    if right[-1] is left[-2]:
        return f"the operands fit the other way round: {b.tensor} times {a.tensor}"
    if left[-2] is right[-2]:
        return f"{a.tensor} {left} fits when its last two axes are swapped: is a Transpose missing?"
    return ""


def _join(a: Site, b: Site, lowered: Lowered) -> str:
    x, y = _shapes(a, b, lowered)
    if len(x) != len(y):
        return ""
    for axis in range(len(x)):
        if all(x[k] is y[k] for k in range(len(x)) if k != axis):
            return f"the shapes join along axis {axis}"
    return ""


def _fits(x: Sequence[Dim], y: Sequence[Dim]) -> bool:
    """Do these broadcast, as far as one sees at once?"""
    return all(p is q or p.value == 1 or q.value == 1 for p, q in zip(reversed(x), reversed(y)))


def _broadcast(a: Site, b: Site, lowered: Lowered) -> str:
    """One swap of axes, or one axis more, that makes the operands fit."""
    x, y = _shapes(a, b, lowered)
    found = []
    for site, own, other in ((a, x, y), (b, y, x)):
        swap = next((p for p in combinations(range(len(own)), 2) if _fits(_swapped(own, *p), other)), None)
        if swap is not None and not _stored(site.tensor, lowered):
            told = f"{site.tensor} {own} fits when axes {swap[0]} and {swap[1]} are swapped"
            found.append(f"{told}: is a Transpose missing, or one too many?")
            break
    for site, own, other in ((a, x, y), (b, y, x)):
        if len(own) < len(other):
            wider = next((w for k in range(1, len(own) + 1) if _fits(w := _widened(own, k), other)), None)
            if wider is not None:
                found.append(f"{site.tensor} {own} fits as {wider}: is an Unsqueeze missing?")
    return " Or: ".join(found)


def _swapped(shape: Shape, i: int, j: int) -> Shape:
    return shape.with_dim(i, shape[j]).with_dim(j, shape[i])


def _widened(shape: Shape, axis: int) -> Shape:
    return Shape((*shape[:axis], Dim(1), *shape[axis:]))


def _weight(a: Site, b: Site, lowered: Lowered) -> str:
    """A stored tensor that another shape would make fit; of two, the one of lower rank (a bias, a scale)."""
    x, y = _shapes(a, b, lowered)
    sides = sorted(((b, y, a), (a, x, b)), key=lambda side: len(side[1]))
    for site, own, other in sides:
        wanted = size_at(other, lowered)
        if (
            _stored(site.tensor, lowered)
            and wanted is not None
            and not wanted.terms
            and site.axis is not None
        ):
            fitting = own.with_dim(site.axis, wanted)
            return f"{site.tensor} would fit with shape {fitting}, or {other} is not meant to be {wanted}"
    return ""


def _projection(a: Site, b: Site, lowered: Lowered) -> str:
    x, y = _shapes(a, b, lowered)
    p, q = size_at(a, lowered), size_at(b, lowered)
    if len(x) != len(y) or p is None or q is None:
        return ""
    return f"if these belong together, one of them is missing a layer between {p} and {q}"
