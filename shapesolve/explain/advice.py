"""What to do about a conflict, where the shapes suggest something."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice
from typing import TYPE_CHECKING, NamedTuple

from ..expr import Dim, Shape
from ..lower.reason import ADDED, BROADCAST, reason_id
from ..lower.records import Clash, Entry
from ..propagate.constraint import Site
from .operands import IDLE, sites_of, size_at
from .trial import Change, Trials, runs_with
from .wording import derived_text, is_short, title_of

if TYPE_CHECKING:
    from ..lower.lowered import Lowered

_MOST_SWAPS = 4
#: elements of a target that are tried as sizes
_MOST_DERIVED = 8


class Remedy(NamedTuple):
    """A change with which the node in conflict runs, in words; `leaves` tells what is wrong elsewhere then, None: not tried.

    `breaks`: that is a node that cannot run then, and not only something that is asked of the sizes.
    """

    text: str
    change: Change
    leaves: str | None = None
    breaks: bool = False

    def __str__(self) -> str:
        if self.leaves is None:
            return f"{self.text} (tried on this node alone)"
        return (
            f"{self.text}{'' if self.text.endswith('?') else '.'} {self.leaves}" if self.leaves else self.text
        )


class Advice(NamedTuple):
    """A fix in words, or nothing; with `remedies` it was tried, and the node runs with any of them."""

    text: str = ""
    remedies: tuple[Remedy, ...] = ()


def advise(entry: Entry, sites: Sequence[Site], lowered: Lowered, trials: Trials | None) -> Advice:
    """What to do about a condition that cannot hold; changes are tried on the whole model where `trials` allow it."""
    if entry.node is None:
        return Advice()
    rule = lowered.rule(entry.node, entry.prefix)
    kind = "" if rule is None else rule.advice
    sizes = [s for s in sites if not s.data and s.axis is not None and s.tensor in lowered.shapes]
    if kind == "target" and any(s.data for s in sites):
        return _tried([_baked(sites, lowered)], entry, trials) or Advice()
    if kind == "parts":
        return Advice(_parts(sites, lowered))
    if len(sizes) < 2:
        return Advice()
    a, b = sizes[:2]
    broadcasts = reason_id(entry.why) == BROADCAST.id and a.tensor != b.tensor
    groups: list[Iterable[Remedy]] = [_weight(entry, a, b, lowered)]
    otherwise = ""
    if kind == "convolution":
        otherwise = _misfit(entry, a, b, lowered)
        weight = [] if otherwise else groups
        groups = [_grouped(entry, a, b, lowered), _channels(entry, a, b, lowered), *weight]
    elif kind in ("product", "gemm") and reason_id(entry.why) != ADDED.id:
        groups.insert(0, (_gemm if kind == "gemm" else _product)(entry, a, b, lowered))
    elif kind == "join":
        groups = [_join(entry, lowered)]
    elif broadcasts:
        groups.insert(0, _broadcast(entry, a, b, lowered))
        otherwise = _projection(a, b, lowered)
    return _tried(groups, entry, trials) or Advice(otherwise)


def _tried(groups: Iterable[Iterable[Remedy]], entry: Entry, trials: Trials | None) -> Advice | None:
    """Of the changes that mend the whole model those of the first group; else those that ask something more of the sizes, else
    all of the first group, with what they leave broken.
    """
    tried = [[r for remedy in g if (r := _on_the_model(remedy, entry, trials)) is not None] for g in groups]
    for fit in (lambda r: r.leaves == "", lambda r: not r.breaks, lambda r: True):
        for group in tried:
            fitting = [r for r in group if fit(r)]
            if fitting:
                return _advice(fitting)
    return None


def _advice(remedies: Sequence[Remedy]) -> Advice:
    """The first of each kind: axes in another order, an axis more."""
    first: dict[bool, Remedy] = {}
    for remedy in remedies:
        first.setdefault(bool(remedy.change.widened), remedy)
    told = tuple(first.values())
    *others, last = map(str, told)
    text = "".join(f"{other}{'' if other.endswith('?') else '.'} Or: " for other in others)
    return Advice(text + last, told)


def _on_the_model(remedy: Remedy, entry: Entry, trials: Trials | None) -> Remedy | None:
    """The remedy with what it leaves broken; None where the node itself cannot run with it."""
    assert entry.node is not None
    inside, derived = bool(entry.prefix), bool(remedy.change.instead)
    found = (
        None if trials is None or (inside and not derived) else trials.broken_after(entry.node, remedy.change)
    )
    if found is None:
        return None if derived else remedy
    after, clashes = found
    if any(
        c.node is not None and (c.prefix, c.node.label) == (entry.prefix, entry.node.label) for c in clashes
    ):
        return None
    if clashes or trials is None:
        return remedy._replace(leaves=_left(after, clashes), breaks=True)
    return remedy._replace(leaves=_asks(trials.asked_after(after)))


def _asks(needs: Sequence[Entry]) -> str:
    """What a change asks of the sizes, in a sentence: the first of the shortest."""
    if not needs:
        return ""
    first = min(needs, key=lambda e: len(str(e.cond)))
    label = f"{first.prefix}{first.node.label}" if first.node is not None else "the model"
    told = str(first.cond) if is_short(str(first.cond)) else "more of the sizes"
    return f"Then {label} needs {told}"


def _left(after: Lowered, clashes: Sequence[Clash]) -> str:
    """What cannot run once a change is made, in a sentence."""
    clash, nodes = clashes[0], {f"{c.prefix}{c.node.label}" for c in clashes if c.node is not None}
    where = f"{clash.prefix}{clash.node.label} fails" if clash.node is not None else "the model fails"
    told = clash.message
    if clash.entry is not None:
        stated = after.walk.log[clash.entry]
        told = title_of(stated, after)
        named = dict.fromkeys(s.tensor for s in sites_of(stated, after))
        shapes = [str(after.shapes[n]) for n in named if n in after.shapes]
        told += f", {' and '.join(shapes)}" if shapes else ""
    more = f", and {len(nodes) - 1} more" if len(nodes) > 1 else ""
    return f"Then {where}: {told}{more}"


def _shapes(a: Site, b: Site, lowered: Lowered) -> tuple[Shape, Shape]:
    return lowered.shapes[a.tensor], lowered.shapes[b.tensor]


def _stored(tensor: str, lowered: Lowered) -> bool:
    return (
        tensor not in lowered.walk.producers
        and tensor not in lowered.inputs
        and tensor not in lowered.walk.aliases
    )


def _baked(sites: Sequence[Site], lowered: Lowered) -> Iterator[Remedy]:
    """A number of a stored target that may be any, as if it were derived from a size."""
    target = next(s.tensor for s in sites if s.data)
    value = lowered.values.get(target)
    elems = () if value is None or not lowered.is_stored(target) else value.elems or ()
    for i, e in islice(enumerate(elems), _MOST_DERIVED):
        if isinstance(e, Dim) and e.const not in IDLE:
            free = tuple(None if k == i else other for k, other in enumerate(elems))
            yield Remedy(derived_text([target]), Change(instead={target: free}))


def _parts(sites: Sequence[Site], lowered: Lowered) -> str:
    axis = next((size_at(s, lowered) for s in sites if not s.data), None)
    parts = next((lowered.values.get(s.tensor) for s in sites if s.data), None)
    if axis is None or axis.terms or parts is None or parts.elems is None:
        return ""
    sizes = [e.const for e in parts.elems if isinstance(e, Dim) and not e.terms]
    return f"the parts add up to {sum(sizes)}, the axis has {axis}" if len(sizes) == len(parts.elems) else ""


def _misfit(entry: Entry, a: Site, b: Site, lowered: Lowered) -> str:
    """What the input of a convolution in groups would have to be."""
    assert entry.node is not None
    x, w = _shapes(a, b, lowered)
    group = entry.node.attributes.get("group", 1)
    have, share = x[a.axis or 0], w[b.axis or 0]
    if have.terms or share.terms or not share.const or not isinstance(group, int) or group == 1:
        return ""
    return f"with group = {group}, {a.tensor} needs {group} * {share} = {group * share.const} channels"


def _grouped(entry: Entry, a: Site, b: Site, lowered: Lowered) -> Iterator[Remedy]:
    """The number of groups that fits the weight."""
    assert entry.node is not None
    x, w = _shapes(a, b, lowered)
    group = entry.node.attributes.get("group", 1)
    have, share, out = x[a.axis or 0], w[b.axis or 0], w[0]
    if (
        have.terms
        or share.terms
        or out.terms
        or not have.const
        or not share.const
        or have.const % share.const
    ):
        return
    fitting = have.const // share.const
    if group != fitting and out.const % fitting == 0 and (group != 1 or share.const == 1):
        text = f"{b.tensor} {w} fits {have} channels with group = {fitting}, not {group}"
        yield Remedy(text, Change(attributes={"group": fitting}))


def _channels(entry: Entry, a: Site, b: Site, lowered: Lowered) -> Iterator[Remedy]:
    """Channels that are the last axis of an image."""
    assert entry.node is not None
    x, w = _shapes(a, b, lowered)
    if len(x) == len(w) == 4 and entry.node.attributes.get("group", 1) == 1:
        change = Change(permuted={a.tensor: (0, 3, 1, 2)})
        if runs_with(lowered, entry, change):
            share = w[b.axis or 0]
            text = f"the last axis of {a.tensor} has {share}: is it channels-last, with a Transpose missing?"
            yield Remedy(text, change)


def _gemm(entry: Entry, a: Site, b: Site, lowered: Lowered) -> Iterator[Remedy]:
    left, right = _shapes(a, b, lowered)
    fits = len(left) >= 2 and b.axis == len(right) - 2 >= 0 and left[a.axis or 0] is right[-1]
    if fits and runs_with(lowered, entry, Change(permuted={b.tensor: (1, 0)})):
        yield Remedy(f"{b.tensor} {right} fits with transB = 1", Change(attributes={"transB": 1}))


def _product(entry: Entry, a: Site, b: Site, lowered: Lowered) -> Iterator[Remedy]:
    assert entry.node is not None
    left, right = _shapes(a, b, lowered)
    if len(left) < 2 or len(right) < 2:
        return
    alone = len(entry.node.inputs) == 2 and lowered.dtypes.get(a.tensor) == lowered.dtypes.get(b.tensor)
    ways = [
        (left[-1] is right[-1], _swap(b, right, -2, -1), ""),
        (alone and right[-1] is left[-2], Change(exchanged=True), f"{b.tensor} times {a.tensor}"),
        (left[-2] is right[-2], _swap(a, left, -2, -1), ""),
    ]
    for agrees, change, other_way in ways:
        if agrees and runs_with(lowered, entry, change):
            text = f"the operands fit the other way round: {other_way}"
            for tensor in change.permuted:
                own = lowered.shapes[tensor]
                text = f"{tensor} {own} fits when its last two axes are swapped: is a Transpose missing?"
            yield Remedy(text, change)
            return


def _join(entry: Entry, lowered: Lowered) -> Iterator[Remedy]:
    assert entry.node is not None
    names = [lowered.full_name(name, entry.prefix) for name in entry.node.inputs]
    first, *others = (lowered.shapes.get(name) for name in names)
    if first is None or any(s is None or len(s) != len(first) for s in others):
        return
    for axis in range(len(first)):
        if all(s is not None and first[k] is s[k] for s in others for k in range(len(first)) if k != axis):
            yield Remedy(f"the shapes join along axis {axis}", Change(attributes={"axis": axis}))
            return


def _broadcast(entry: Entry, a: Site, b: Site, lowered: Lowered) -> Iterator[Remedy]:
    """A swap of axes, or one axis more, that makes the operands fit."""
    x, y = _shapes(a, b, lowered)
    for site, own in ((a, x), (b, y)):
        if not _stored(site.tensor, lowered):
            fitting = ((p, _swap(site, own, *p)) for p in combinations(range(len(own)), 2))
            found = ((p, c) for p, c in fitting if runs_with(lowered, entry, c))
            for (i, j), change in islice(found, _MOST_SWAPS):
                told = f"{site.tensor} {own} fits when axes {i} and {j} are swapped"
                yield Remedy(f"{told}: is a Transpose missing, or one too many?", change)
    for site, own, other in ((a, x, y), (b, y, x)):
        if len(own) < len(other):
            wider = (Change(widened={site.tensor: axis}) for axis in range(1, len(own) + 1))
            for change in islice((c for c in wider if runs_with(lowered, entry, c)), 1):
                shape = change.shapes(lowered)[site.tensor]
                yield Remedy(f"{site.tensor} {own} fits as {shape}: is an Unsqueeze missing?", change)


def _swap(site: Site, shape: Shape, i: int, j: int) -> Change:
    order = list(range(len(shape)))
    order[i], order[j] = order[j], order[i]
    return Change(permuted={site.tensor: tuple(order)})


def _weight(entry: Entry, a: Site, b: Site, lowered: Lowered) -> Iterator[Remedy]:
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
        change = Change(stored=shapes)
        if runs_with(lowered, entry, change):
            told = f"{_listed(list(shapes))} would fit with shape {fitting}"
            yield Remedy(f"{told}, or {other} is not meant to be {wanted}", change)
            return


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
