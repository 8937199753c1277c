"""Tracks the batch row of each entry in row-ordered lists of data-dependent length (NonZero).

An operator that searches for elements visits a tensor in row-major order. If the batch is the outermost factor, its results are
ordered by batch item, and an item's results depend on that item alone. An elementwise result is again such a list. A single
entry is tracked as data: its coordinates are symbols, and operator rules compute expressions of them. If such an expression
indexes a tensor whose outermost factor is the batch, in steps of one item, each entry reads from its own item.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace

from onnx import TensorProto

from ...expr import ONE, ZERO, Dim, Shape, product, symbol
from ...lower.axes import Label, Links, Lists, picks
from ...lower.op import InvalidNode, Op
from ...lower.reads import INDICES
from ...lower.types import Known, Tensor
from ...lower.values import Value
from ...lower.work import Outputs
from .provenance import Mixing, Rows

#: the number of an entry's row
_ROW = symbol("row", made=True)


@dataclass(frozen=True, slots=True)
class Listing(Mixing):
    """A list whose entries are ordered by batch row, each computed from its own row alone.

    Attributes:
        axis: where the entries are.
        entry: one entry, where its elements are known: a tensor of size 1 along `axis`.
        places: the coordinates of an entry within its row, with the sizes below which they stay.
    """

    axis: int
    entry: Tensor | None
    places: tuple[tuple[Dim, Dim], ...]

    @property
    def is_plain(self) -> bool:
        """True if entries do not depend on the row's index: they are the rows' own entries in row order."""
        return self.entry is None or _ROW.free.isdisjoint(self.entry.free)


def through_lists(
    op: Op,
    made: Outputs,
    links: Links | str,
    lists: Lists,
    given: Seq[Rows | None],
    found: Seq[Rows],
    symbols: Seq[str],
) -> list[Rows]:
    """`found`, with the rows of outputs updated that are row-ordered lists."""
    results, node = list(found), op.node
    for name in symbols:
        if not lists and all(result.mixed.get(name) is None for result in results):
            continue
        known = {k: one for k, o in enumerate(given) if o and isinstance(one := o.mixed.get(name), Listing)}
        listed: Mapping[int, Listing] = {}
        if lists and given[0] is not None:
            listed = _listed(op, lists, links, given[0], name)
        elif known and isinstance(links, Links):
            listed = _carried(op, made, links, known, given, name)
        for i, result in enumerate(results):
            mixing: Mixing | None = listed.get(i)
            if mixing is None and isinstance(result.mixed.get(name), Listing):
                what = f"uses the list of elements found in all items of {name}"
                mixing = Mixing(node.label, node.op_type, what)
            if mixing is not None:
                results[i] = Rows(result.layout, {**result.mixed, name: mixing})
    return results


def _rows_outside(rows: Rows, name: str) -> Dim | None:
    """Return the number of elements per item on the first axis if the batch is its outermost factor, or None."""
    if name in rows.mixed or not rows.layout or rows.place(name) != (0, 0):
        return None
    return product(rows.layout[0][1:]) if rows.layout[0][0].name == name else None


def _listed(op: Op, lists: Lists, what: Links | str, data: Rows, name: str) -> Mapping[int, Listing]:
    """The list that an operator creates from a tensor (NonZero and the like), by output."""
    inner, shape = _rows_outside(data, name), op.shape(0)
    if inner is None or shape is None:
        return {}
    purpose = str(what).format(symbol=name)
    if lists == "items":
        return {0: Listing(op.node.label, op.node.op_type, purpose, 0, None, ())} if inner is ONE else {}
    sizes = (inner, *shape[1:])
    places = [(symbol(f"place{k}", made=True), size) for k, size in enumerate(sizes)]
    elems = (_ROW * inner + places[0][0], *(place for place, _ in places[1:]))
    entry = Tensor(TensorProto.INT64, Shape([len(shape), 1]), Value((len(shape), 1), elems))
    return {0: Listing(op.node.label, op.node.op_type, purpose, 1, entry, tuple(places))}


def _carried(
    op: Op, made: Outputs, links: Links, known: Mapping[int, Listing], given: Seq[Rows | None], name: str
) -> Mapping[int, Listing]:
    (first, one), *_ = known.items()
    shape = op.shape(first)
    alone = not any(o is not None and o.depends(name) for k, o in enumerate(given) if k not in known)
    if shape is None:
        return {}
    if links.regroups:
        at = None if first or not alone else _regrouped(one, shape, made[0] or ())
        return {} if at is None else _computed(op, known, {0: at})
    label = (links.inputs[first] or ())[one.axis :][:1]
    if not label or not _goes_together(op, links, known, label[0]):
        return {}
    axes = {}
    for i, items in enumerate(links.outputs):
        places = [axis for axis, parts in enumerate(items or ()) if [*parts] == [*label]]
        if len(places) == 1:
            axes[i] = places[0]
    return _computed(op, known, axes) if alone else _picked(op, links, known, given, axes, name)


def _goes_together(op: Op, links: Links, known: Mapping[int, Listing], label: Label) -> bool:
    """True if all operands with this axis label have there the entry axis of one list."""
    for k, labels in enumerate(links.inputs):
        one, shape = known.get(k), op.shape(k)
        if one is not None and (labels is None or labels[one.axis] != label):
            return False
        for axis, (other, size) in enumerate(zip(labels or (), shape or (), strict=False)):
            if other == label and (
                not (size is ONE and links.broadcasts) if one is None else axis != one.axis
            ):
                return False
    return len({one.node for one in known.values()}) == 1


def _regrouped(one: Listing, shape: Seq[Dim], made: Seq[Dim]) -> int | None:
    """The entry axis after a reshape; None if entries are split or merged."""
    at = next((k for k, d in enumerate(made) if d is not ONE), -1)
    whole = at >= 0 and made[at] is shape[one.axis] and all(d is ONE for d in shape[: one.axis])
    return at if whole else None


def _computed(op: Op, known: Mapping[int, Listing], axes: Mapping[int, int]) -> Mapping[int, Listing]:
    """Lists among these outputs, by output index; `axes` are their entry axes."""
    entries, (one, *_) = _of_one_entry(op, known), known.values()
    found = {}
    for i, axis in axes.items():
        entry = entries[i] if i < len(entries) else None
        if entry is None and not all(other.is_plain for other in known.values()):
            continue
        found[i] = replace(one, axis=axis, entry=entry)
    return found


def _of_one_entry(op: Op, known: Mapping[int, Listing]) -> list[Tensor | None]:
    """Return the outputs of an operator applied to one entry; None for unknown or non-integer outputs."""
    inputs = tuple(known[k].entry if k in known else x for k, x in enumerate(op.inputs))
    if op.rule is None or any(inputs[k] is None for k in known):
        return []
    try:
        outputs = op.rule.lower(Op(op.walk, op.node, inputs, op.version, None, op.rule))
    except InvalidNode:
        return []
    return [
        made if _elements(made) else None
        for made in (outputs if isinstance(outputs, list | tuple) else [outputs])
    ]


def _elements(known: Known | None) -> list[Dim]:
    elems = known.value.elems if isinstance(known, Tensor) and known.value is not None else None
    found = [e for e in elems or () if isinstance(e, Dim)]
    return found if len(found) == len(elems or ()) else []


def _picked(
    op: Op,
    links: Links,
    known: Mapping[int, Listing],
    given: Seq[Rows | None],
    axes: Mapping[int, int],
    name: str,
) -> Mapping[int, Listing]:
    """Lists gathered from the first input by indices that are proved to stay within the entry's row."""
    reading, data, one = ((op.rule and op.rule.reads) or {}).get(1), given[0], known.get(1)
    if reading is None or reading.what != INDICES or len(known) > 1 or one is None or data is None:
        return {}
    inner, numbers, kind = _rows_outside(data, name), _elements(one.entry), picks(links)
    data_axis, labels = (
        (links.inputs[0] or (None,))[0],
        {n for items in links.outputs for p in items or () for n in p},
    )
    if (
        inner is None
        or not numbers
        or one.entry is None
        or one.entry.shape is None
        or not kind
        or data_axis in labels
    ):
        return {}
    if kind == "corners":  # the first coordinate is the item
        count = one.entry.shape[-1].value or 1
        if any(_ROW.free & e.free for k, e in enumerate(numbers) if k % count):
            return {}
        numbers = numbers[::count]
    if not all(_is_within_row(e, inner, one.places) for e in numbers):
        return {}
    return {i: replace(one, axis=axis, entry=None, places=()) for i, axis in axes.items()}


def _is_within_row(number: Dim, inner: Dim, places: Seq[tuple[Dim, Dim]]) -> bool:
    """True if a number is proved to be ``row * inner`` plus an offset from 0 to below `inner`."""
    none = {str(place): ZERO for place in (_ROW, *(p for p, _ in places))}
    base = number.subs(none)
    step = {name: number.subs({**none, name: ONE}) - base for name in none}
    most, linear = base, base + _ROW * step[str(_ROW)]
    for place, size in places:
        most, linear = most + step[str(place)] * (size - 1), linear + step[str(place)] * place
    least = (base, *(step[str(place)] for place, _ in places), inner - most - 1)
    return (
        number is linear and step[str(_ROW)] is inner and all(d.lo is not None and d.lo >= 0 for d in least)
    )
