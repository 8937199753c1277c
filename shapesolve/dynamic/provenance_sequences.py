"""Sequences of tensors: their rows stay apart where all tensors have them in the same place."""

from __future__ import annotations

from collections.abc import Sequence as Seq

from ..expr import product
from .provenance import Factors, Mixing, Origin, factors_of
from .provenance_notation import View

#: a sequence without tensors: all that are in it have their rows wherever one likes
EMPTY = Origin(None, {})
#: operators on sequences: which inputs are in the sequence that comes out, and which say where
_KEPT = {"SequenceInsert": (slice(0, 2), slice(2, 3)), "SequenceErase": (slice(0, 1), slice(1, 2))}
_KEPT |= {"SequenceConstruct": (slice(0, None), slice(0, 0)), "SequenceAt": (slice(0, 1), slice(1, 2))}


def through_sequences(
    view: View, given: Seq[Origin | None], found: Seq[Origin], symbols: Seq[str]
) -> list[Origin]:
    """`found`, but for symbols whose rows are in the same place in all tensors that may come out."""
    node = view.node
    if node.domain:
        return list(found)
    if node.op_type == "SequenceEmpty":
        return [EMPTY]
    if node.op_type == "ConcatFromSequence":
        return [_concatenated(view, given[0], found[0], symbols)]
    if node.op_type == "SplitToSequence":
        return [_split(view, given, found[0], symbols)]
    if node.op_type not in _KEPT:
        return list(found)
    kept, where = _KEPT[node.op_type]
    tensors = [o for o in given[kept] if o is not None and o is not EMPTY]
    result = found[0]
    for symbol in symbols:
        if any(o is not None and o.depends(symbol) for o in given[where]):
            continue
        made = _joined(view, tensors, symbol) if tensors else None
        if made is not None:
            mixed = {k: v for k, v in result.mixed.items() if k != symbol}
            result = Origin(made.layout, {**mixed, **made.mixed})
    return [result]


def _joined(view: View, tensors: Seq[Origin], symbol: str) -> Origin | None:
    """The place that the rows have in each of some tensors."""
    first = tensors[0]
    at = first.rows(symbol)
    if any(symbol in o.mixed or o.layout is None or o.rows(symbol) != at for o in tensors):
        return None
    layouts = [o.layout or () for o in tensors]
    if (
        at is None
        or len({len(layout) for layout in layouts}) > 1
        or len({layout[at[0]] for layout in layouts}) > 1
    ):
        return None
    layout = layouts[0]
    made = view.made[0]
    if made is None:  # a sequence: of the other axes nothing is said
        return Origin(tuple(f if k == at[0] else () for k, f in enumerate(layout)), {})
    if len(made) != len(layout) or [k for k, d in enumerate(made) if symbol in d.free] != [at[0]]:
        return None
    if product(layout[at[0]]) is not made[at[0]]:
        return None
    return Origin(tuple(f if k == at[0] else factors_of(made[k]) for k, f in enumerate(layout)), {})


def _split(view: View, given: Seq[Origin | None], found: Origin, symbols: Seq[str]) -> Origin:
    """Parts of a tensor along one axis: each has the rows that are on another where the tensor has them."""
    whole, *where = given
    if whole is None or whole.layout is None:
        return found
    rank = len(whole.layout)
    along = int(view.attr("axis", 0)) % rank
    is_gone = not view.has(1) and not view.attr("keepdims", 1)
    layout: list[Factors] = [() for k in range(rank) if not (is_gone and k == along)]
    mixed = dict(found.mixed)
    for symbol in symbols:
        at = whole.rows(symbol)
        if symbol in whole.mixed or at is None or any(o is not None and o.depends(symbol) for o in where):
            continue
        if at[0] == along:
            what = f"takes the rows of {symbol} apart, as many tensors as there are"
            mixed[symbol] = Mixing(view.node.label, view.node.op_type, what)
        else:
            layout[at[0] - (is_gone and along < at[0])] = whole.layout[at[0]]
            mixed.pop(symbol, None)
    return Origin(tuple(layout), mixed)


def _concatenated(view: View, given: Origin | None, found: Origin, symbols: Seq[str]) -> Origin:
    """The tensors of a sequence one after the other along an axis, or stacked along a new one: others keep their places."""
    made = view.made[0]
    if given is None or given.layout is None or made is None:
        return found
    is_new = bool(view.attr("new_axis", 0))
    rank = len(given.layout) + is_new
    along = int(view.attr("axis")) % rank
    if len(made) != rank:
        return found
    layout, mixed = [factors_of(d) for d in made], dict(found.mixed)
    for symbol in symbols:
        at = given.rows(symbol)
        if symbol in given.mixed or at is None:
            continue
        axis = at[0] + (is_new and along <= at[0])
        factors = given.layout[at[0]]
        if axis == along or product(factors) is not made[axis]:
            continue
        if [k for k, d in enumerate(made) if symbol in d.free] == [axis]:
            layout[axis] = factors
            mixed.pop(symbol, None)
    return Origin(tuple(layout), mixed)


__all__ = ["EMPTY", "through_sequences"]
