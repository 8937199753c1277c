"""`Causes`: finds the stored sizes and numbers that a condition depends on.

The model is lowered again with unknowns in their place. If a node's condition stays the same, it does not depend on them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ..expr import Cond, Dim
from ..lower.fixpoint import lower_model
from ..lower.records import Place as OperandAxis
from ..lower.request import OtherShape
from .limits import MAX_FOR_CAUSES
from .operands import IDLE

if TYPE_CHECKING:
    from ..lower.lowered import Lowered
    from ..lower.records import Entry
    from ..lower.request import Request
    from ..lower.values import Elem

#: a stored tensor, and an axis of it; None for its elements
Place = tuple[str, int | None]
#: label of a node, its scope, the reason of its condition, and the operands that the condition is about
_Key = tuple[str, str, str, tuple[OperandAxis, ...]]


class _Needs(NamedTuple):
    """Requirements of nodes, and the symbols of the unknown sizes and numbers."""

    conds: frozenset[tuple[str, str, str, tuple[OperandAxis, ...], Cond]]
    symbols: dict[Place, frozenset[str]]


class Causes:
    """Dependencies of the conditions of one lowered model, found within a counted budget of lowered nodes."""

    def __init__(self, lowered: Lowered, request: Request) -> None:
        self.lowered, self.request = lowered, request
        self._left = MAX_FOR_CAUSES
        self._needs: dict[tuple[Place, ...], _Needs] = {}

    def first(self, entry: Entry, places: Iterable[Place]) -> Place | None:
        """Return the first of these places that a condition depends on; None if it depends on none."""
        left = tuple(dict.fromkeys(places))
        needs = self.needs_with(left) if left else None
        if needs is None or (*_key(entry), entry.cond) in needs.conds:
            return None
        now = frozenset[str]().union(*(cond.free for *key, cond in needs.conds if tuple(key) == _key(entry)))
        named = [place for place in left if not needs.symbols[place].isdisjoint(now)]
        return named[0] if named else left[0] if len({tensor for tensor, _ in left}) == 1 else None

    def plainest(self, entry: Entry, tensors: Iterable[str]) -> str | None:
        """Return the tensor whose unknown numbers give the shortest condition: `seq == t`, not `8*seq == 9*h`.

        None if the condition depends on none of them.
        """
        lengths: dict[str, int] = {}
        for tensor in dict.fromkeys(tensors):
            needs = self.needs_with(((tensor, None),))
            if needs is not None and (*_key(entry), entry.cond) not in needs.conds:
                symbols = needs.symbols[tensor, None]
                now = [
                    c
                    for *key, c in needs.conds
                    if tuple(key) == _key(entry) and not c.free.isdisjoint(symbols)
                ]
                if now:
                    lengths[tensor] = min(c.size for c in now)
        return min(lengths, key=lambda t: lengths[t], default=None)

    def needs_with(self, places: tuple[Place, ...]) -> _Needs | None:
        """Return the requirements with these sizes and numbers unknown; None if the budget is spent."""
        if places not in self._needs:
            self._left -= len(self.lowered.model.graph.nodes)
            if self._left < 0:
                return None
            request = self.request._replace(instead={**self.request.instead, **self._opened(places)})
            after = lower_model(self.lowered.model, request)
            log = (e for e in after.log if e.node is not None)
            symbols = {place: _symbols(place, after) for place in places}
            self._needs[places] = _Needs(frozenset((*_key(e), e.cond) for e in log), symbols)
        return self._needs[places]

    def _opened(self, places: Iterable[Place]) -> dict[str, tuple[Elem, ...] | OtherShape]:
        """Return the stored tensors with these sizes and numbers unknown; the elements in `IDLE` stay."""
        found: dict[str, tuple[Elem, ...] | OtherShape] = {}
        for tensor, axis in places:
            value = self.lowered.values.get(tensor)
            if axis is None:
                elems = () if value is None or value.elems is None else value.elems
                found[tensor] = tuple([None if _is_size(e) else e for e in elems])
                continue
            dims = found.get(tensor)
            if not isinstance(dims, OtherShape):
                dims = OtherShape(tuple([d.const for d in self.lowered.shapes[tensor]]))
            found[tensor] = OtherShape((*dims.dims[:axis], None, *dims.dims[axis + 1 :]))
        return found


def _key(entry: Entry) -> _Key:
    return "" if entry.node is None else entry.node.label, entry.prefix, entry.why, entry.places


def _symbols(place: Place, lowered: Lowered) -> frozenset[str]:
    tensor, axis = place
    value, shape = lowered.values.get(tensor), lowered.shapes.get(tensor)
    if axis is not None:
        return frozenset() if shape is None else shape[axis].free
    elems = () if value is None or value.elems is None else value.elems
    return frozenset[str]().union(*(e.free for e in elems if isinstance(e, Dim)))


def _is_size(element: Elem) -> bool:
    if isinstance(element, Dim):
        return not element.terms and element.const not in IDLE
    return isinstance(element, float) and element.is_integer() and element not in IDLE
