"""Graphs inside nodes: no number in them may hold a size; trips and first states follow the sizes from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Seq
from typing import TypeAlias

import numpy as np

from ..expr import ONE, Dim, symbol
from ..model import Constant, Graph, Node
from .free_state import Freeing
from .free_stored import LARGEST
from .refused import Refused

#: operands that are sizes, places or amounts
_NUMBERS = {
    "ConstantOfShape": (0,), "Expand": (1,), "Gather": (1,), "GatherElements": (1,), "GatherND": (1,), "Loop": (0,),
    "OneHot": (1,), "Pad": (1,), "Range": (0, 1, 2), "Reshape": (1,), "Resize": (3,), "ScatterElements": (1,),
    "ScatterND": (1,), "Slice": (1, 2), "Split": (1,), "Tile": (1,), "TopK": (1,),
}  # fmt: skip
#: operators whose stored operands are weights: an axis of theirs that meets a free one is noticed
_WEIGHTED = frozenset(("Conv", "ConvTranspose", "GRU", "Gemm", "LSTM", "MatMul", "RNN"))
_LEAST = 2
#: an end from here on is that of the axis
_ALL = (1 << 31) - 1

Stored: TypeAlias = Callable[[str], "Constant | None"]


def inner_nodes(graph: Graph, stored: Stored) -> Iterator[tuple[Node, Stored]]:
    """The nodes of a graph inside a node and of those inside it, each with what is stored there by name."""
    made = {
        node.outputs[0]: value
        for node in graph.nodes
        if node.is_constant and isinstance(value := node.attributes.get("value"), Constant)
    }

    def here(name: str) -> Constant | None:
        return graph.initializers.get(name) or made.get(name) or stored(name)

    for node in graph.nodes:
        yield node, here
        for _, inner in node.subgraphs:
            yield from inner_nodes(inner, here)


def holds(node: Node, stored: Stored, sizes: set[int]) -> bool:
    """May an operand of a node inside say one of these sizes, or have an axis that had one?"""
    for i, name in enumerate(node.inputs):
        found = stored(name) if name else None
        if found is None:
            continue
        if node.op_type not in _WEIGHTED and not sizes.isdisjoint(found.dims):
            return True
        if i in _NUMBERS.get(node.op_type, ()):
            array = found.array(LARGEST)
            if (
                array is None
                or node.op_type == "Pad"
                or not sizes.isdisjoint(np.abs(array).reshape(-1).tolist())
            ):
                return True
    return False


def looped(freeing: Freeing, node: Node) -> Node:
    """A Loop or Scan whose number of trips, or whose first states, were baked in."""
    states = range(2, len(node.inputs))
    if node.op_type == "Loop":
        node = _trips(freeing, node)
    else:
        states = range(len(node.inputs) - int(node.attributes.get("num_scan_inputs", 0)))
    ways = [
        (size, axis) for size in map(symbol, freeing.symbols) for axis in _axes(freeing, node, states, size)
    ]
    way = freeing.choose(node, len(ways) + 1)
    return node if not way else _widened(freeing, node, states, *ways[way - 1])


def _trips(freeing: Freeing, node: Node) -> Node:
    """The number of trips is the size of an axis that the body goes along, one place a trip."""
    stored = freeing.stored(node.inputs[0]) if node.inputs[0] else None
    array = None if stored is None or stored.numel != 1 else stored.array(1)
    if array is None:
        return node
    trips, body = int(array.reshape(-1)[0]), dict(node.subgraphs)["body"]
    if trips < _LEAST or not any(map(freeing.is_other, freeing.seen.get(trips, ()))):
        return node
    trip = body.inputs[0][0]
    makers = {
        name: (inner, here) for inner, here in inner_nodes(body, freeing.stored) for name in inner.outputs
    }
    for inner, _ in inner_nodes(body, freeing.stored):
        if inner.op_type != "Gather" or inner.inputs[1] != trip:
            continue
        shape = freeing.shape(_whole(inner.inputs[0], makers))
        axis = int(inner.attributes.get("axis", 0))
        if shape and freeing.is_other(shape[axis]) and freeing.old(shape[axis]) == trips:
            size = shape[axis]
            made = freeing.vector([size], "trips") if array.ndim else freeing.scalar(size, "trips")
            return freeing.with_input(node, 0, made)
    raise Refused(
        f"{node.label} ({node.op_type}) makes {trips} trips, as many as a size that is freed: nothing shows whether it follows",
        node=node.label,
    )


def _whole(name: str, made: Mapping[str, tuple[Node, Stored]]) -> str:
    """The tensor that this one is all of."""
    while name in made:
        node, here = made[name]
        if node.domain or node.op_type not in ("Cast", "Identity", "Slice"):
            break
        if node.op_type == "Slice":
            starts, ends, steps = (_numbers(node, i, here) for i in (1, 2, 4))
            if starts is None or ends is None or steps is None or {*starts} != {0} or not {*steps} <= {1}:
                break
            if min(ends) < _ALL:
                break
        name = node.inputs[0]
    return name


def _numbers(node: Node, i: int, here: Stored) -> list[int] | None:
    """The elements of a stored operand, none of one that is left out; None where they are not known."""
    if i >= len(node.inputs) or not node.inputs[i]:
        return []
    found = here(node.inputs[i])
    array = None if found is None else found.array(LARGEST)
    return None if array is None else [int(n) for n in array.reshape(-1)]


def _axes(freeing: Freeing, node: Node, states: Seq[int], size: Dim) -> list[int]:
    """Axes along which a stored first state is the same, and had this size."""
    found: dict[int, None] = {}
    for i in states:
        stored = freeing.stored(node.inputs[i])
        array = None if stored is None else stored.array(LARGEST)
        for axis, count in enumerate(() if array is None or array.dtype == object else array.shape):
            if (
                array is not None
                and count == freeing.old(size)
                and bool((array == np.take(array, [0], axis=axis)).all())
            ):
                found.setdefault(axis)
    return [*found]


def _widened(freeing: Freeing, node: Node, states: Seq[int], size: Dim, axis: int) -> Node:
    """The stored first states that are the same along an axis follow a size there."""
    for i in states:
        name = node.inputs[i]
        if name and axis in _axes(freeing, node, [i], size):
            stored = freeing.stored(name)
            array = None if stored is None else stored.array(LARGEST)
            assert array is not None
            first = freeing.new_constant(np.ascontiguousarray(np.take(array, [0], axis=axis)), f"{name}_row")
            target = freeing.vector([size if k == axis else ONE for k in range(array.ndim)], f"{name}_target")
            node = freeing.with_input(node, i, freeing.insert("Expand", [first, target], name))
    return node


__all__ = ["holds", "inner_nodes", "looped"]
