"""Lists of what data decides on in each row of a batch: the entries of one row stay behind those of the row before.

NonZero goes through a tensor in row-major order. Where the rows of a batch are outermost, its entries come row by row, and
those of a row are found in that row alone. What is computed entry by entry stays such a list. Numbers of places are followed
as ``stride * row + place``: where they pick, from a tensor with the rows outermost, in steps of just that stride, each entry
picks from its own row.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeAlias

from ..expr import ONE, ZERO, Dim, as_dim, product
from .provenance import Mixing, Origin
from .provenance_notation import Unfollowed, View

#: stride of the row's number, and what the rest of a number stays below (None: nothing is said)
Number: TypeAlias = tuple[Dim, "Dim | None"]

_ANY: tuple[Number, ...] = ((ZERO, None),)
_INTEGERS = (6, 7)


@dataclass(frozen=True, slots=True)
class Listing(Mixing):
    """A list of entries, those of a row behind those of the row before, each computed of its row alone.

    Attributes:
        axis: where the entries are.
        across: the axis along which each entry has its numbers, None where there is one, or nothing is said of them.
        numbers: what is known of each of them.
    """

    axis: int
    across: int | None
    numbers: tuple[Number, ...]

    @property
    def is_plain(self) -> bool:
        """Is it what the rows alone give, one after the other?"""
        return all(stride is ZERO for stride, _ in self.numbers)

    def of_data(self, axis: int) -> Listing | None:
        """The same list of something else along another axis; None where a row's number would be in it."""
        return replace(self, axis=axis, across=None, numbers=_ANY) if self.is_plain else None


Rule: TypeAlias = Callable[[View, "Seq[Origin]", str], "Seq[Listing | None]"]
_NOTHING = Origin((), {})


def through_lists(
    view: View, given: Seq[Origin | None], found: Seq[Origin], symbols: Seq[str]
) -> list[Origin]:
    """`found`, but for symbols of which the rows are listed one after the other."""
    results = list(found)
    node = view.node
    rule = None if node.subgraphs else _RULES.get((node.domain, node.op_type))
    origins = [origin or _NOTHING for origin in given]
    for symbol in symbols:
        is_listed = any(_list(o, symbol) is not None for o in origins)
        made: Seq[Listing | None] = ()
        if rule is not None and (is_listed or node.op_type in _LISTING):
            with suppress(Unfollowed, IndexError, TypeError, ValueError):
                made = rule(view, origins, symbol)
        for i, result in enumerate(results):
            listing = made[i] if i < len(made) else None
            if listing is not None:
                results[i] = Origin(result.layout, {**result.mixed, symbol: listing})
            elif isinstance(result.mixed.get(symbol), Listing):
                what = f"computes with a list of what is found in all rows of {symbol}"
                results[i] = Origin(
                    result.layout, {**result.mixed, symbol: Mixing(node.label, node.op_type, what)}
                )
    return results


def _list(origin: Origin, symbol: str) -> Listing | None:
    found = origin.mixed.get(symbol)
    return found if isinstance(found, Listing) else None


def _rows_outside(origin: Origin, symbol: str) -> Dim | None:
    """What is inside the rows on the first axis, where they are outermost in the tensor; None where they are not."""
    if symbol in origin.mixed or not origin.layout or origin.rows(symbol) != (0, 0):
        return None
    return product(origin.layout[0][1:]) if origin.layout[0][0].name == symbol else None


# ---------------------------------------------------------------------- operators


def _nonzero(view: View, given: Seq[Origin], symbol: str) -> Seq[Listing | None]:
    inner = _rows_outside(given[0], symbol)
    if inner is None:
        return ()
    numbers = ((inner, inner), *((ZERO, as_dim(size)) for size in view.shape(0)[1:]))
    what = f"lists what it finds in all rows of {symbol} together"
    return [Listing(view.node.label, view.node.op_type, what, axis=1, across=0, numbers=numbers)]


def _maps(view: View, given: Seq[Origin], symbol: str) -> Seq[Listing | None]:
    """One map for each row."""
    if _rows_outside(given[0], symbol) is not ONE:
        return ()
    return [Listing(view.node.label, view.node.op_type, "makes maps", axis=0, across=None, numbers=_ANY)]


def _each(view: View, given: Seq[Origin], symbol: str) -> Seq[Listing | None]:
    """An operator on each element, or the first input of it, with operands that go with all entries."""
    out, lists = len(view.out()), [_list(o, symbol) for o in given]
    found = [(k, one) for k, one in enumerate(lists) if one is not None]
    first, listing = found[0]
    axis = listing.axis - view.rank(first) + out
    for k, one in enumerate(lists):
        behind = axis - out + (view.rank(k) if view.has(k) else 0)
        if one is not None and (one.node != listing.node or one.axis != behind):
            return ()
        if one is None and (given[k].depends(symbol) or (behind >= 0 and view.shape(k)[behind] is not ONE)):
            return ()
    numbers = _computed(view, lists)
    if numbers is not None:
        return [replace(listing, axis=axis, across=None, numbers=(numbers,))]
    return [listing.of_data(axis)] if all(one.is_plain for _, one in found) else ()


def _computed(view: View, lists: Seq[Listing | None]) -> Number | None:
    """What a sum, a product with a constant, or a cast makes of numbers, one for each entry."""
    if len(view.out()) != 1 or any(one is not None and len(one.numbers) != 1 for one in lists):
        return None
    op_type = view.node.op_type
    if op_type == "Identity" or (op_type == "Cast" and view.attr("to") in _INTEGERS):
        return None if lists[0] is None else lists[0].numbers[0]
    if op_type not in ("Add", "Mul") or len(lists) != 2:
        return None
    (a, b), (x, y) = lists, (view.dims(0), view.dims(1))
    if a is not None and b is not None:
        (s, m), (t, n) = a.numbers[0], b.numbers[0]
        return None if op_type == "Mul" or m is None or n is None else (s + t, m + n - 1)
    listing, known = (a, y) if a is not None else (b, x)
    if listing is None or known is None or len(known) != 1 or (known[0].lo or -1) < 0:
        return None
    stride, below = listing.numbers[0]
    by = known[0]
    if op_type == "Add":
        return stride, None if below is None else below + by
    return stride * by, None if below is None else (below - 1) * by + 1


def _gather(view: View, given: Seq[Origin], symbol: str) -> Seq[Listing | None]:
    data, indices = (_list(o, symbol) for o in given)
    axis = view.axis(0)
    if data is not None:
        if given[1].depends(symbol) or axis == data.axis:
            return ()
        wide = view.rank(1)
        at = data.axis if data.axis < axis else data.axis + wide - 1
        picked = view.ints(1)
        if axis != data.across or picked is None or wide > 1:
            return [data.of_data(at)]
        across = None if wide == 0 else axis
        return [replace(data, axis=at, across=across, numbers=tuple(data.numbers[k] for k in picked))]
    if indices is None or len(indices.numbers) != 1:
        return ()
    stride, below = indices.numbers[0]
    if stride is ZERO:
        at = indices.axis + axis
        return () if given[0].depends(symbol) else [indices.of_data(at)]
    inner = _rows_outside(given[0], symbol)
    if axis or inner is None or inner is not stride or below is None:
        return ()
    room = stride - below
    is_own = room.lo is not None and room.lo >= 0
    return [replace(indices, across=None, numbers=_ANY)] if is_own else ()


def _gather_nd(view: View, given: Seq[Origin], symbol: str) -> Seq[Listing | None]:
    indices = _list(given[1], symbol)
    if indices is None or view.attr("batch_dims", 0) or (indices.axis, indices.across) != (0, 1):
        return ()
    if indices.is_plain:
        return () if given[0].depends(symbol) else [indices.of_data(0)]
    is_row = indices.numbers[0] == (ONE, ONE) and all(stride is ZERO for stride, _ in indices.numbers[1:])
    if not is_row or _rows_outside(given[0], symbol) is not ONE:
        return ()
    return [replace(indices, across=None, numbers=_ANY)]


def _regrouped(view: View, given: Seq[Origin], symbol: str) -> Seq[Listing | None]:
    """Entries stay whole where nothing but ones is before them."""
    listing = _list(given[0], symbol)
    if listing is None or any(o.depends(symbol) for o in given[1:]):
        return ()
    shape, made = view.shape(0), view.out()
    size = shape[listing.axis]
    at = next((k for k, d in enumerate(made) if d is not ONE), -1)
    if at < 0 or made[at] is not size or any(d is not ONE for d in shape[: listing.axis]):
        return ()
    if len(made) > 2 or len(listing.numbers) > 1 or product([*made[:at], *made[at + 1 :]]) is not ONE:
        return [listing.of_data(at)]
    return [replace(listing, axis=at, across=None if len(made) == 1 else 1 - at)]


def _concat(view: View, given: Seq[Origin], symbol: str) -> Seq[Listing | None]:
    lists = [_list(o, symbol) for o in given]
    first, along = lists[0], view.axis(0)
    if first is None or along == first.axis:
        return ()
    numbers: list[Number] = []
    for one in lists:
        if one is None or one.node != first.node or one.axis != first.axis:
            return ()
        numbers += one.numbers
    if all(one is not None and one.across == along for one in lists):
        return [replace(first, numbers=tuple(numbers))]
    is_plain = all(one is not None and one.is_plain for one in lists)
    return [first.of_data(first.axis)] if is_plain else ()


def _split(view: View, given: Seq[Origin], symbol: str) -> Seq[Listing | None]:
    listing, along = _list(given[0], symbol), view.axis(0)
    if listing is None or along == listing.axis or any(o.depends(symbol) for o in given[1:]):
        return ()
    sizes = [view.out(i)[along] for i in range(len(view.node.outputs))]
    if along == listing.across and all(size is ONE for size in sizes):
        return [replace(listing, numbers=(number,)) for number in listing.numbers]
    return [listing.of_data(listing.axis)] * len(sizes)


def _transpose(view: View, given: Seq[Origin], symbol: str) -> Seq[Listing | None]:
    listing = _list(given[0], symbol)
    if listing is None:
        return ()
    order = [*view.attr("perm", tuple(reversed(range(view.rank(0)))))]
    across = None if listing.across is None else order.index(listing.across)
    return [replace(listing, axis=order.index(listing.axis), across=across)]


_EACH = "Abs Add Cast Clip Div Exp Floor Identity Log Mul Neg Relu Round Sigmoid Sqrt Sub Tanh Where Max Min"
_LISTING = ("NonZero", "ZipMap")
_STANDARD: dict[str, Rule] = {
    **dict.fromkeys(_EACH.split(), _each),
    **dict.fromkeys(["Flatten", "Reshape", "Squeeze", "Unsqueeze"], _regrouped),
    "Concat": _concat,
    "Gather": _gather,
    "GatherND": _gather_nd,
    "NonZero": _nonzero,
    "Split": _split,
    "Transpose": _transpose,
}
_RULES = {**{("", name): rule for name, rule in _STANDARD.items()}, ("ai.onnx.ml", "ZipMap"): _maps}

__all__ = ["Listing", "through_lists"]
