"""What may hold a size that is no number of rows without any shape that shows it: such a model is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..expr import Dim
from ..model import Node
from .free_bodies import Stored, holds, inner_nodes
from .free_parts import follows
from .free_patterns import steps_of
from .free_state import Freeing
from .refused import Refused

#: numbers below are more often something else
_TELLING = 4
#: so many numbers stored together may be sizes, or amounts that follow from them
_FEW = 16
#: an integer from here on that is exactly one size, or one stride, is no coincidence
_CERTAIN = 256
#: operators in which a number of elements may take part as a value
_COUNTING = frozenset(
    (
        "Add",
        "Clip",
        "Div",
        "Equal",
        "Greater",
        "GreaterOrEqual",
        "Less",
        "LessOrEqual",
        "Max",
        "Min",
        "Mod",
        "Mul",
    )
).union(("Pow", "Sub", "TopK", "Where"))
#: those that keep places within an axis: they say a size however small it is
_WITHIN = frozenset(("Clip", "Max", "Min", "Mod"))
#: those that are given lengths as integers
_LENGTHS = frozenset(("DFT", "GRU", "LSTM", "RNN", "ReverseSequence"))
_INT32 = 6
#: of so few numbers nothing shows that they go on evenly
_EVEN = 2
_POOLS = frozenset(("AveragePool", "LpPool", "MaxPool"))


def check_suspects(freeing: Freeing, node: Node) -> Node:
    """The node, where nothing of it may hold a size that no shape shows; a number that surely is one follows it."""
    follows = [
        d
        for name in (*node.inputs, *node.captures)
        if name
        for d in freeing.shape(name) or ()
        if freeing.is_other(d)
    ]
    if follows:
        _check_bodies(freeing, node, follows[0])
        _check_attributes(freeing, node, follows[0])
    if node.op_type == "GroupQueryAttention" and node.domain:
        node = _grouped_attention(freeing, node)
    for i, name in enumerate(node.inputs):
        sure = _followed(freeing, node, name)
        if sure is not None:
            is_scalar = freeing.shape(name) == ()
            made = (
                freeing.scalar(sure, f"{name}_free") if is_scalar else freeing.vector([sure], f"{name}_free")
            )
            node = freeing.with_input(node, i, made)
    held = _held(freeing, node, freeing.stored)
    if held is not None:
        raise Refused(
            f"{node.label} ({node.op_type}) computes with {held:g}, which may follow from a size that was baked in",
            node=node.label,
        )
    return node


def _check_bodies(freeing: Freeing, node: Node, size: Dim) -> None:
    sizes = {n for n in _sizes(freeing) if n >= 2}
    for _, graph in node.subgraphs:
        for inner, stored in inner_nodes(graph, freeing.stored):
            if holds(inner, stored, sizes) or _held(freeing, inner, stored) is not None:
                raise Refused(
                    f"{inner.label} ({inner.op_type}) inside {node.label} ({node.op_type}) may hold the size {size}",
                    node=node.label,
                )


def _check_attributes(freeing: Freeing, node: Node, size: Dim) -> None:
    given = freeing.shape(node.inputs[0]) or ()
    kernel = node.attributes.get("kernel_shape") or ()
    if node.op_type in _POOLS and len(given) == len(kernel) + 2:
        whole = next(
            (
                d
                for d, k in zip(given[2:], kernel, strict=True)
                if freeing.is_other(d) and freeing.old(d) == k
            ),
            None,
        )
        if whole is not None:
            raise Refused(
                f"{node.label} ({node.op_type}) takes all of {whole} together, or just as many",
                node=node.label,
            )


def _sizes(freeing: Freeing) -> set[int]:
    """Old sizes of axes that follow a symbol that is no number of rows."""
    return {n for n, dims in freeing.seen.items() if any(map(freeing.is_other, dims))}


def _asked_for(freeing: Freeing) -> set[int]:
    return {
        was for name, was in freeing.baked.items() if name in freeing.symbols and name not in freeing.rows
    }


def _held(freeing: Freeing, node: Node, stored: Stored) -> float | None:
    """A stored number among few that may have followed from a size."""
    for name in node.inputs:
        found = stored(name) if name else None
        array = None if found is None or not 0 < found.numel <= _FEW else found.array(_FEW)
        array = array if array is None or array.size < 2 or (array != array.flat[0]).any() else array.flat[:1]
        if array is None or array.dtype.kind not in "iuf" or _numbers_places(freeing, array):
            continue
        by = _held_by_floats if array.dtype.kind == "f" else _held_by_integers
        held = by(freeing, node, array.reshape(-1).tolist())
        if held is not None:
            return held
    return None


def _numbers_places(freeing: Freeing, array: NDArray[Any]) -> bool:
    """Does it go on evenly along an axis that may follow a size? Where it does, it is said anew, or refused."""
    if array.size > 1 and steps_of(array) is not None:
        return True
    along = [a for a, n in enumerate(array.shape) if n > _EVEN and n in freeing.seen]
    return any(bool((d := np.diff(array, axis=a)).all() and (d == d.flat[0]).all()) for a in along)


def _held_by_integers(freeing: Freeing, node: Node, numbers: list[float]) -> float | None:
    """A number that is a size, a stride, or a last place, where integers are computed with."""
    if not node.domain and node.op_type not in _COUNTING | _LENGTHS:
        return None
    sizes = _asked_for(freeing) if node.domain else _sizes(freeing) | freeing.strides.keys()
    least = _TELLING if node.domain or node.op_type not in _WITHIN else 2
    told = {n for n in sizes if n >= least}
    last = set() if node.domain else {n - 1 for n in told if n > least}
    return next((n for n in numbers if abs(n) in told or abs(n) in last), None)


def _held_by_floats(freeing: Freeing, node: Node, numbers: list[float]) -> float | None:
    """A number that something is divided by or held against and that is a size, or a last place."""
    if node.domain or node.op_type not in _COUNTING:
        return None
    asked = {n for n in _asked_for(freeing) if n >= _TELLING}
    wide = {n for n in _sizes(freeing) | freeing.strides.keys() if n >= _TELLING * _TELLING}
    if len(numbers) == 1 and node.op_type in ("Div", "Mul"):
        by = [1 / x if node.op_type == "Mul" else x for x in numbers if x]
        wide |= _gone(freeing, node, by)  # of small numbers, those by which a mean may be taken
        ratios = {a / b for a in asked for b in asked if a != b}
        found = (x for x in by if _is_any(x, wide) or any(abs(x - r) < r * 1e-6 for r in ratios))
        return next(found, None) or next(
            (x for x in (*by, *numbers) if any(follows(x, n) for n in asked)), None
        )
    if node.op_type in ("Div", "Mul"):
        numbers = [*numbers, *(1 / x for x in numbers if x)]
    told = asked | {n for n in wide if n in _sizes(freeing)}
    return next((x for x in numbers if _is_any(x, told) or any(x == n - 1 for n in told)), None)


def _gone(freeing: Freeing, node: Node, numbers: list[float]) -> set[int]:
    """Sizes that were asked for, or their last places, among these numbers, of axes that were reduced on the way here."""
    shapes = [freeing.shape(name) for name in node.inputs]
    if any(shape is None for shape in shapes):
        return set()
    there = frozenset[str]().union(*(d.free for shape in shapes for d in shape or ()))
    gone = [n for n in freeing.symbols if n not in there and n not in freeing.rows]
    meant = {n: {freeing.baked[n], freeing.baked[n] - 1} - {-1, 0, 1} for n in gone}
    asked = {n for n, sizes in meant.items() if any(_is_any(x, sizes) for x in numbers)}
    return set[int]().union(*(meant[n] for n in asked & _before(freeing, node))) if asked else set()


def _before(freeing: Freeing, node: Node) -> set[str]:
    """Symbols that an axis of a tensor follows from which a node's operands are computed."""
    made, found = freeing.producers, set[str]()
    waiting, seen = [*node.inputs], set[str]()
    while waiting:
        name = waiting.pop()
        if not name or name in seen:
            continue
        seen.add(name)
        found.update(*(d.free for d in freeing.shape(name) or ()))
        waiting += [*made[name].inputs, *made[name].captures] if name in made else []
    return found


def _is_any(number: float, sizes: set[int]) -> bool:
    return any(abs(number - n) < n * 1e-6 for n in sizes)


def _grouped_attention(freeing: Freeing, node: Node) -> Node:
    """The number of all positions is an operand: one size that was the same is that number."""
    stored = freeing.stored(node.inputs[6])
    array = None if stored is None else stored.array(_FEW)
    if array is None or array.size != 1:
        return node
    asked = {d for name in freeing.given for d in freeing.shape(name) or ()}
    found = [d for d in freeing.seen.get(int(array.reshape(-1)[0]), ()) if d in asked and freeing.is_other(d)]
    if len(found) != 1:
        return node
    made = freeing.insert("Cast", [freeing.scalar(found[0], "positions")], "positions", to=_INT32)
    return freeing.with_input(node, 6, made)


def _followed(freeing: Freeing, node: Node, name: str) -> Dim | None:
    """The size or stride that a stored integer surely is."""
    stored = freeing.stored(name) if name and not node.domain and node.op_type in _COUNTING else None
    array = None if stored is None or stored.numel != 1 else stored.array(1)
    if array is None or array.dtype != np.int64 or int(array.reshape(-1)[0]) < _CERTAIN:
        return None
    number = int(array.reshape(-1)[0])
    sizes = {*freeing.strides.get(number, ()), *freeing.seen.get(number, ())}
    found = {
        size for size in sizes if freeing.is_other(size)
    }  # of rows alone: that was one, and may be none of it
    return found.pop() if len(found) == 1 else None


def joined(freeing: Freeing, node: Node) -> Node:
    """A cache: an input that new entries are appended to says how many came before, which positions depend on.

    Where the number of new entries is free as well, what depends on positions has an axis of that size, and shows itself there.
    """
    axis = int(node.attributes.get("axis", 0))
    sizes = [shape[axis] if (shape := freeing.shape(name)) else None for name in node.inputs]
    for name, size in zip(node.inputs, sizes, strict=True):
        if name not in freeing.given or size is None or not freeing.is_other(size):
            continue
        fixed = [
            d for other, d in zip(node.inputs, sizes, strict=True) if other != name and not _moves(freeing, d)
        ]
        if fixed:
            raise Refused(
                f"{node.label} (Concat) appends {fixed[0]} entries to {name}, whose number of entries {size} positions may "
                "depend on: nothing shows where they were baked in, unless the number of new entries is freed as well",
                node=node.label,
            )
    return node


def _moves(freeing: Freeing, size: Dim | None) -> bool:
    return size is not None and freeing.is_other(size) and not size.free.isdisjoint(freeing.symbols)
