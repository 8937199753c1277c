"""Loop and Scan whose first states were stored for one row: they follow the number of rows."""

from __future__ import annotations

import numpy as np

from ..expr import ONE, Dim, symbol
from ..model import Node
from .free_state import LARGEST, Freeing


def widened(freeing: Freeing, node: Node) -> Node:
    """A Loop or Scan with stored first states of which an axis of one element follows a number of rows."""
    scanned = int(node.attributes.get("num_scan_inputs", 0))
    states = range(2, len(node.inputs)) if node.op_type == "Loop" else range(len(node.inputs) - scanned)
    ways = [(size, axis) for size in map(symbol, freeing.rows) for axis in _axes(freeing, node, states)]
    way = freeing.choose(node, len(ways) + 1, node.label)
    return node if not way else _widened(freeing, node, states, *ways[way - 1])


def _axes(freeing: Freeing, node: Node, states: range) -> list[int]:
    """Axes of one element of the stored first states."""
    stored = [freeing.stored(node.inputs[i]) for i in states if node.inputs[i]]
    return sorted({axis for s in stored if s is not None for axis, n in enumerate(s.dims) if n == 1})


def _widened(freeing: Freeing, node: Node, states: range, size: Dim, axis: int) -> Node:
    for i in states:
        name = node.inputs[i]
        if name and axis in _axes(freeing, node, range(i, i + 1)):
            stored = freeing.stored(name)
            array = None if stored is None else stored.array(LARGEST)
            if array is None:
                continue
            kept = freeing.new_constant(np.array(array), name)
            target = freeing.vector([size if k == axis else ONE for k in range(array.ndim)], f"{name}_target")
            node = freeing.with_input(node, i, freeing.insert("Expand", [kept, target], name))
    return node


__all__ = ["widened"]
