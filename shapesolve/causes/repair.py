"""Repairs: the smallest edit of a model that removes its failures, found by lowering the edited model.

Each candidate from `edits` is lowered once with the whole model. It is a repair if no node fails, or only nodes that
fail
for another reason, and no input gets a new size or relation. The numbers that an edit makes symbolic must have a
unique
value; a weight may take the size of a sibling. If there are several repairs, the one with the smallest change is
reported:
values before nodes, one tensor before several, edits that make a node like its siblings first, near before far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import onnx

from ..expr import Cond, Dim, constant, eq, ge, parse_cond
from ..lazy import cached_property
from ..lower.fixpoint import lower_model
from ..lower.records import Clash, Entry
from ..lower.request import OtherShape, Watch
from ..lower.state import LoweringState
from ..model import Node
from ..solve.accepted import find_accepted
from ..solve.bindings import listed_sizes
from ..solve.facts.constraint import Constraint
from ..solve.facts.facts import Facts
from ..solve.sizes import SizeFinder
from .edits import Edit, edits
from .limits import MAX_EXAMPLES, MAX_FOR_LIMITS, MAX_LISTED, MAX_LOWERED, MAX_STATED

if TYPE_CHECKING:
    from ..lower.lowered import Lowered
    from ..lower.request import Request
    from ..lower.values import Elem

#: kinds of conditions that tie sizes; bounds and multiples leave many
_TYING = ("==", "or")

Place = tuple[str, str]
#: whether an edit is of no use, given the state of its lowering and the conditions recorded since the last query
_StillFails = Callable[[LoweringState, Iterable[Entry]], bool]
_T = TypeVar("_T")


class Repair(NamedTuple):
    """Edit that removes a failure or a restriction, with the sites that it fixes and the number of sites that still fail."""

    edit: Edit
    mends: frozenset[Place]
    remaining: int = 0

    @property
    def derives(self) -> bool:
        """True if the edit replaces stored elements by sizes of inputs."""
        stored = (now for now in self.edit.stored.values() if not isinstance(now, OtherShape))
        return any(isinstance(e, Dim) and bool(e.terms) for elems in stored for e in elems)

    def __str__(self) -> str:
        return self.edit.text()


class Repairs:
    """Searches repairs for one lowered model, within a budget of lowered nodes."""

    def __init__(self, lowered: Lowered, request: Request) -> None:
        self.lowered, self.request = lowered, request
        self._left = MAX_LOWERED
        self._known = {place_of(c, lowered) for c in lowered.clashes}
        self._fixed = lowered.facts.substitution.keys() & lowered.symbols.keys()
        self._asked = self._needs(lowered)
        self._declared = _contradicted(lowered)

    def of(self, clash: Clash) -> tuple[Repair, ...]:
        """Return the best repairs of a failure, best first; empty if no edit removes it."""
        place = place_of(clash, self.lowered)

        def still_fails(state: LoweringState, new: Iterable[Entry]) -> bool:
            broken = {place_in(c, state.log) for c in state.clashes}
            return not broken <= self._known or any(node == place[0] for node, _ in broken)

        return self._best(
            clash.node, clash.prefix, still_fails, lambda after: True, by_itself=clash.entry is None
        )

    def of_limit(self, entry: Entry, names: Iterable[str]) -> tuple[Repair, ...]:
        """Return the best repairs that remove a condition on these symbols.

        One size may be what the model is for. An edit counts only if it asks nothing of any size that was not asked before,
        and if it computes a constant from sizes, gives its node as many siblings as before, changes a node that has none, or
        puts in a node. No size follows an element type.
        """
        tied = {c for c in self._asked if c is entry.cond} or {
            c for c in self._asked if not c.free.isdisjoint(names)
        }

        def mended(after: Lowered) -> bool:
            if not after.facts.substitution.keys().isdisjoint(names):
                return False
            left = self._needs(after)
            return left <= self._asked and (not tied or not tied <= left)

        def rank(edit: Edit) -> int | None:
            if edit.is_of_type:
                return None
            if not self._place(edit):
                return int(edit.is_open)
            return 2 if edit.cost > 1 or edit.stored else 1 if self._is_known(edit) else None

        def still_fails(state: LoweringState, new: Iterable[Entry]) -> bool:
            return bool(state.clashes) or any(e.cond not in self._asked and _is_need(e) for e in new)

        found = self._best(entry.node, entry.prefix, still_fails, mended, rank=rank)
        return tuple(r for r in found if r.derives or rank(r.edit) != 2 or not r.edit.stored)

    def _best(
        self,
        node: Node | None,
        prefix: str,
        still_fails: _StillFails,
        mended: Callable[[Lowered], bool],
        *,
        by_itself: bool = False,
        rank: Callable[[Edit], int | None] | None = None,
    ) -> tuple[Repair, ...]:
        if node is None or prefix or node not in self.lowered.model.graph.nodes:
            return ()
        found: list[tuple[tuple[int, int, int, int, int, int, int], Repair]] = []
        candidates: list[tuple[int, int, int, Edit]] = []
        turns: Counter[int] = Counter()
        for number, edit in enumerate(edits(node, self.lowered, by_itself=by_itself)):
            place = self._place(edit) if rank is None else rank(edit)
            if place is not None:  # With failures, the nearest edits of each rank take turns.
                candidates.append((turns[place] if rank is None else place, place, number, edit))
                turns[place] += 1
        for _, place, number, edit in sorted(candidates, key=lambda c: c[:3]):
            if self._left < len(self.lowered.model.graph.nodes) or (
                rank is not None and self._is_late(place)
            ):
                break
            settled, after = next(
                (pair for pair in self._tried(edit, still_fails) if mended(pair[1])), (None, self.lowered)
            )
            if settled is None:
                continue
            if not self._fixed >= (after.facts.substitution.keys() & after.symbols.keys()):
                continue
            if not self._declared >= _contradicted(after) or (not after.clashes and not _runs(after)):
                continue
            here = len(self._needs(after, node) - self._asked)
            if here and edit.cost > 1:
                continue
            broken = {place_of(c, after) for c in after.clashes}
            asked = len(self._needs(after) - self._asked)
            alike = self._siblings(settled)
            changed = max(len(edit.stored), 1)
            key = (len(broken), here, edit.cost, changed, -alike, asked, number)
            found.append((key, Repair(settled, frozenset(self._known - broken), len(broken))))
        found.sort(key=lambda pair: pair[0])
        best: dict[str, Repair] = {}
        for key, repair in found:
            if key[:6] == found[0][0][:6]:
                best.setdefault(repair.edit.subject, repair)
        return tuple(best.values())[:MAX_EXAMPLES]

    def _is_late(self, place: int) -> bool:
        """Return True if the budget for repairs of restrictions is used up for edits of this rank."""
        return (MAX_LOWERED - self._left) * (4 if place > 1 else 1) >= MAX_FOR_LIMITS

    def _tried(self, edit: Edit, still_fails: _StillFails) -> Iterator[tuple[Edit, Lowered]]:
        """Return the edit with values for its symbolic numbers, and the model lowered with it, unless that still fails.

        If the constraints do not determine a weight's size, the sizes of its siblings are tried.
        """
        after = self._lowered(edit, still_fails)
        settled = None if after.walk.is_stopped else _settled(edit, after, self.lowered)
        for one in self._as_siblings(edit) if settled is None else (settled,):
            after = after if one is edit else self._lowered(one, still_fails)
            if not after.walk.is_stopped and not still_fails(after.walk.state, ()):
                yield one, after

    def _as_siblings(self, edit: Edit) -> Iterator[Edit]:
        """Edits that give a weight the shape of similar weights, most frequent shape first.

        A size of 1 is left out: it fits wherever sizes are broadcast.
        """
        for name, now in edit.stored.items():
            if (
                len(edit.stored) == 1
                and isinstance(now, OtherShape)
                and len(now.dims) > 1
                and None in now.dims
            ):
                own = tuple([d.const for d in self.lowered.shapes[name]])
                at = now.dims.index(None)
                fitting = ((d, n) for d, n in _fitting(self._shapes, now.dims, own) if d[at] != 1)
                for dims, _ in sorted(fitting, key=lambda pair: -pair[1])[:MAX_LISTED]:
                    parts = (edit.text(dims[at]),)
                    yield replace(edit, parts=parts, stored={name: OtherShape(dims)})

    def _lowered(self, edit: Edit, still_fails: _StillFails) -> Lowered:
        self._left -= len(self.lowered.model.graph.nodes)
        request = self.request._replace(instead=edit.stored)
        seen, is_settled = 0, _is_settled(edit)

        def stop(state: LoweringState) -> bool:
            nonlocal seen
            new = state.log[seen:] if is_settled else ()
            seen = len(state.log)
            return still_fails(state, new)

        return lower_model(edit.applied(self.lowered.model), request, Watch(stop=stop))

    @staticmethod
    def _needs(lowered: Lowered, node: Node | None = None) -> set[Cond]:
        """Equations on sizes that the nodes (or one node) require and that some small sizes break."""
        label = None if node is None else node.label
        log = lowered.log
        return {
            e.cond
            for e in log
            if label is None or (e.node is not None and not e.prefix and e.node.label == label)
            if _is_need(e)
        }

    def _place(self, edit: Edit) -> int:
        """Priority of an edit: 0 if it makes the model more uniform, 1 if less, 2 for a new node."""
        return 2 if edit.cost > 1 else int(self._siblings(edit) < 0)

    def _is_known(self, edit: Edit) -> bool:
        """Return True if the edited node equals other nodes, or the original equals none."""
        assert edit.node is not None
        after, before = (self._nodes[self._signature(n)] for n in (edit.nodes[-1], edit.node.proto))
        return after > 0 or before == 1

    def _siblings(self, edit: Edit) -> int:
        """Return the number of nodes or weights equal to the edited one, minus those equal to the original."""
        if edit.node is not None and edit.cost == 1:
            return (
                self._nodes[self._signature(edit.nodes[-1])] - self._nodes[self._signature(edit.node.proto)]
            )
        for name, now in edit.stored.items():
            if isinstance(now, OtherShape):
                dims = tuple([d.const for d in self.lowered.shapes[name]])
                return _count(self._shapes, now.dims, dims) - self._shapes[dims]
            elems = self.lowered.values[name].elems or ()
            wanted = tuple([None if e == constant(-1) else e for e in now]) if edit.computed else now
            return _count(self._elements, wanted, elems) - self._elements[elems]
        return 0

    @cached_property
    def _nodes(self) -> Counter[object]:
        """Counts of nodes with equal operators, attributes and stored inputs."""
        return Counter(self._signature(n.proto) for n in self.lowered.model.graph.nodes)

    @cached_property
    def _shapes(self) -> Counter[tuple[int, ...]]:
        """Counts of the shapes of stored tensors."""
        low = self.lowered
        return Counter(tuple([d.const for d in s]) for n, s in low.shapes.items() if low.is_stored(n))

    @cached_property
    def _elements(self) -> Counter[tuple[Elem, ...]]:
        """Counts of the elements of stored tensors."""
        low = self.lowered
        return Counter(v.elems or () for n, v in low.values.items() if low.is_stored(n))

    def _signature(self, proto: onnx.NodeProto) -> object:
        stored = tuple([bool(n) and self.lowered.is_stored(n) for n in proto.input])
        given = sorted((a.name, a.i, a.f, a.s, *a.ints, *a.floats, *a.strings) for a in proto.attribute)
        return proto.domain, proto.op_type, stored, *given

    # ------------------------------------------------------------------ assumptions

    def granted_behind(self, clash: Clash) -> tuple[Constraint, ...]:
        """All broadcast assumptions if the failure does not occur without them, else none."""
        granted = self.lowered.constraints.role("assumption")
        if not granted or not self.request.granted or place_of(clash, self.lowered) in self._certain:
            return ()
        return tuple(granted)

    def stated_behind(self, clash: Clash) -> tuple[int, ...]:
        """Return the indices of the given conditions that cause the failure, including sizes that determine a rank."""
        place = place_of(clash, self.lowered)
        return tuple([number for number, places in self._without_each.items() if place not in places])

    @cached_property
    def _without_each(self) -> dict[int, set[Place]]:
        """Return, for each given condition, the failures that occur without it."""
        request, symbols = self.request, self.lowered.symbols
        if len(request.bind) + len(request.assume) > MAX_STATED:
            return {}
        fewer: dict[Cond, Request] = {}
        for name, size in request.bind.items():
            if name in symbols:
                left = {n: k for n, k in request.bind.items() if n != name}
                fewer[eq(symbols[name], size)] = request._replace(bind=left)
        for item in request.assume:
            cond = item if isinstance(item, Cond) else parse_cond(item, symbols)
            fewer[cond] = request._replace(assume=tuple(i for i in request.assume if i is not item))
        found = {}
        for number, entry in enumerate(self.lowered.log):
            self._left -= len(self.lowered.model.graph.nodes) if entry.role == "user" else 0
            if entry.role == "user" and entry.cond in fewer and self._left >= 0:
                bare = lower_model(self.lowered.model, fewer[entry.cond])
                found[number] = {place_of(c, bare) for c in bare.clashes}
        return found

    @cached_property
    def _certain(self) -> set[Place]:
        """Failures that occur without any assumption."""
        bare = lower_model(self.lowered.model, self.request._replace(granted=False))
        return {place_of(c, bare) for c in bare.clashes}


def _is_need(e: Entry) -> bool:
    """Return True for a node's equation on sizes that some small sizes break."""
    if e.role != "requirement" or e.cond.kind not in _TYING or not e.guard.is_true:
        return False
    return any(
        e.cond.evaluate(dict.fromkeys(e.cond.free, n)) is False for n in (1, 2, 3, 5, 8) if e.cond.free
    )


def _is_settled(edit: Edit) -> bool:
    """Return True if all numbers of an edit have values."""
    held = [now.dims if isinstance(now, OtherShape) else now for now in edit.stored.values()]
    return not edit.computed and all(None not in now for now in held)


def _contradicted(lowered: Lowered) -> set[object]:
    """Declared shapes of computed tensors that are wrong, at some sizes or at all."""
    notes = {note.message for note in lowered.notes if note.kind == "declared"}
    stated = (e for e in lowered.log if e.role == "declared" and e.guard.is_true)
    return notes | {(str(e.why), e.places) for e in stated if not lowered.facts.cond(e.cond).is_true}


def _runs(lowered: Lowered) -> bool:
    """Return True if some sizes without a 0 are accepted."""
    accepted = find_accepted(lowered.constraints, lowered.facts, lowered.symbols)
    present = (ge(size, 1) for size in lowered.symbols.values())
    return SizeFinder([*accepted.conds, *present]).some() is not None


def _count(held: Counter[tuple[_T, ...]], wanted: tuple[_T | None, ...], own: tuple[_T, ...]) -> int:
    """Count of stored sizes or elements equal to `wanted`, in which None matches any."""
    if None in wanted:
        return max((count for _, count in _fitting(held, wanted, own)), default=0)
    return held[tuple([w for w in wanted if w is not None])]


def _fitting(
    held: Counter[tuple[_T, ...]], wanted: tuple[_T | None, ...], own: tuple[_T, ...]
) -> Iterator[tuple[tuple[_T, ...], int]]:
    """Stored sizes or elements that match `wanted` and differ from `own`, with their counts."""
    for found, count in held.items():
        if len(found) != len(wanted) or found == own:
            continue
        if all(w is None or w == h for w, h in zip(wanted, found, strict=True)):
            yield found, count


def place_of(clash: Clash, lowered: Lowered) -> Place:
    """Identity of a failure: node and reason, the same before and after an edit elsewhere."""
    return place_in(clash, lowered.log)


def place_in(clash: Clash, log: Sequence[Entry]) -> Place:
    """Identity of a failure in a lowering with this log."""
    label = clash.node.label if clash.node is not None else ""
    why = clash.message if clash.entry is None else log[clash.entry].why
    return f"{clash.prefix}{label}", str(why)


def _settled(edit: Edit, after: Lowered, before: Lowered) -> Edit | None:
    """Return the edit with its freed number replaced by the only value possible; None if it is not unique."""
    stored: dict[str, tuple[Elem, ...] | OtherShape] = {}
    sizes: list[Dim] = []
    for name, now in edit.stored.items():
        if isinstance(now, OtherShape) and None in now.dims:
            at, freed = now.dims.index(None), after.shapes.get(name)
            size = None if freed is None else _only(freed[at], after)
            if not size or size.terms or size == before.shapes[name][at]:
                return None
            stored[name] = OtherShape((*now.dims[:at], size.const, *now.dims[at + 1 :]))
            sizes.append(size)
        elif not isinstance(now, OtherShape) and (edit.computed or None in now):
            at = now.index(constant(-1) if edit.computed else None)
            element = _size_at(edit.computed, at, after) if edit.computed else _element_at(name, at, after)
            size = _only(element, after) if isinstance(element, Dim) else None
            if not size or not size.free <= after.symbols.keys() or size is _element_at(name, at, before):
                return None
            stored[name] = (*now[:at], size, *now[at + 1 :])
            sizes.append(size)
    if not sizes:
        return edit
    if len(set(sizes)) > 1:
        return None
    derive = f"compute {edit.subject} from the input's Shape (it is a constant)"
    return replace(edit, parts=(derive if sizes[0].terms else edit.text(sizes[0]),), stored=stored)


def _size_at(tensor: str, axis: int, lowered: Lowered) -> Dim | None:
    shape = lowered.shapes.get(tensor)
    return shape[axis] if shape is not None and axis < len(shape) else None


def _element_at(tensor: str, at: int, lowered: Lowered) -> Elem:
    value = lowered.values.get(tensor)
    return None if value is None or value.elems is None else value.elems[at]


def _only(size: Dim, lowered: Lowered) -> Dim | None:
    """Return the size if inputs determine it, its only possible value other than 1 if there is one, or None."""
    if size.free <= lowered.symbols.keys():
        return size
    name = size.name
    if name is None:
        return None
    several = Facts()  # 0 and 1 stand for other sizes in targets, and 1 in broadcasts
    several.assume(ge(size, 2), 0)
    some = {s: n for n, s in enumerate(sorted(lowered.symbols), 7)}  # the next trial shows if others do
    needed = (e.cond for e in lowered.log if e.role == "requirement" and name in e.cond.free)
    alone = (_at(c, some) for c in needed if c.free - some.keys() == {name})
    listed = [sizes for c in alone if (sizes := listed_sizes(several.cond(c), name)) is not None]
    left = set.intersection(*listed) - {1} if listed else set()
    return constant(left.pop()) if len(left) == 1 else None


def _at(cond: Cond, sizes: Mapping[str, int]) -> Cond:
    """Return the condition with these sizes substituted, if no divisor becomes 0."""
    try:
        return cond.subs(sizes)
    except ZeroDivisionError:
        return cond


__all__ = ["MAX_LOWERED", "Place", "Repair", "Repairs", "place_of"]
