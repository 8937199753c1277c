"""Writes sizes as nodes: computed from input shapes, or as entries of a Reshape target.

A Reshape keeps the elements in row-major order, so the factors of its input, read from the left, fill the entries of its
target, read from the left. A size that was 1 when it was baked leaves no trace in the products: where it may go is a list of
candidates, the likeliest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ..expr import ONE, Dim
from ..solve.facts.constraint import Site
from .arithmetic import Arithmetic
from .draft import Draft, DraftNode, as_array
from .limits import MAX_CANDIDATES
from .refused import Refused


class SizeNodes(Arithmetic):
    """Builds nodes that compute sizes from input shapes; equal subexpressions share nodes.

    Args:
        draft: the model that they are for.
        sites: the axis of an input where each symbol is read.
    """

    def __init__(self, draft: Draft, sites: Mapping[str, Site]) -> None:
        self.draft, self.sites, self.opset = draft, sites, draft.model.opsets.get("", 1)
        self.nodes: list[DraftNode] = []
        self._made: dict[object, str] = {}

    def vector(self, dims: Seq[Dim], hint: str) -> str:
        """The name of a one-dimensional int64 tensor with these elements."""
        made = self.joined(dims, hint)
        assert made is not None  # `size` refuses expressions without nodes
        return made

    def scalar(self, dim: Dim, hint: str) -> str:
        """The name of a scalar int64 tensor with this value."""
        empty = self.draft.graph.constant(np.zeros(0, np.int64), "scalar_shape")
        return self.node("Reshape", [self.size(dim), empty], 1, hint)

    def size(self, d: Dim) -> str:
        """The name of an int64[1] tensor with this size; raises `Refused` if no nodes can compute it."""
        if not d.terms:
            return self.number([d.const])
        made = self.computed(d) if d.name is None else self._symbol(d.name)
        if made is None:
            raise Refused(f"the size {d} is one that no nodes are known to compute")
        return made

    def rounds_down(self, n: Dim, d: Dim) -> bool:
        """True if the quotient is never negative at any sizes."""
        return all(size.lo is not None and size.lo >= 0 for size in (n, d))

    def _symbol(self, name: str) -> str:
        if name not in self.sites:
            raise Refused(f"the size {name} cannot be read from the shape of an input")
        site = self.sites[name]
        assert site.axis is not None
        shape = self.node("Shape", [site.tensor], 1, f"{site.tensor}_shape")
        return self.node("Gather", [shape, self.number([site.axis])], 1, name, axis=0)

    def number(self, numbers: Iterable[int]) -> str:
        """Name of a constant vector with these numbers."""
        values = [*numbers]
        return self.draft.graph.constant(as_array(values), "size_" + "_".join(map(str, values[:4])))

    def node(self, op_type: str, inputs: list[str], length: int, hint: str = "", **attributes: int) -> str:
        """Adds a node at the start of the graph; returns the name of its output."""
        key = (op_type, *inputs, *sorted(attributes.items()))
        if key not in self._made:
            node = self.draft.graph.new_node(op_type, inputs, hint or "size", **attributes)
            self.nodes.append(node)
            self._made[key] = node.outputs[0]
        return self._made[key]


# ---------------------------------------------------------------------- targets


def target_of(dims: Seq[Dim], given: Seq[Dim], *, copies: bool) -> list[int] | None:
    """Reshape target from `given` to `dims` made of numbers, 0 and -1; None if there is none.

    None if that is not enough.
    """
    entries = [
        0 if copies and size.terms and k < len(given) and given[k] is size else size.value
        for k, size in enumerate(dims)
    ]
    if entries.count(None) > 1 or (None in entries and 0 in entries):
        return None  # if a copied size is 0, -1 cannot be inferred
    if None not in entries and entries.count(0) == 1 and -1 not in entries:
        entries[entries.index(0)] = None  # the common form
    return [-1 if e is None else e for e in entries]


@dataclass(frozen=True, slots=True)
class AxisFactor:
    """A factor of an axis: its freed size, its size in the original model, and its axis."""

    size: Dim
    baked: int
    axis: int


def pieces_of(layout: Seq[Seq[Dim]], baked: Mapping[str, int]) -> list[AxisFactor] | None:
    """The factors of all axes with their original sizes; None if an original size is unknown."""
    found: list[AxisFactor] = []
    for axis, size in (
        (axis, size) for axis, factors in enumerate(layout) for size in factors if size is not ONE
    ):
        was = size.evaluate(baked)
        if was is None:
            return None
        if not size.terms and found and not found[-1].size.terms:
            last = found.pop()
            found.append(AxisFactor(last.size * size, last.baked * was, last.axis))
        else:
            found.append(AxisFactor(size, was, axis))
    return found


def placements(pieces: Seq[AxisFactor], sizes: Seq[int], raw: Seq[int]) -> list[tuple[Dim, ...]]:
    """Ways to distribute the factors over output axes so that the original sizes are `sizes`. The likeliest is first.

    Args:
        pieces: the input's factors, outermost first, without ones.
        sizes: the output's baked sizes.
        raw: the entries of the target as they stand, 0 and -1 among them.
    """
    if any(piece.baked == 0 for piece in pieces):
        return []  # nothing tells where the factors of an empty tensor went

    def filled(
        i: int, head: int, k: int, need: int, taken: Dim, cost: int
    ) -> Iterator[tuple[int, tuple[Dim, ...]]]:
        """Fills entry `k` from piece `i` on.

        `taken` is its size so far, `need` is missing, `head` is left of the piece.
        """
        if k == len(sizes):
            if i == len(pieces):
                yield cost, ()
            return
        if i < len(pieces):
            size, was = pieces[i].size, head or pieces[i].baked
            if size.terms:
                if need % was == 0 and (need > 1 or was == 1):
                    more = _cost(pieces[i], k, sizes, raw, taken) if was == 1 else 0
                    yield from filled(i + 1, 0, k, need // was, taken * size, cost + more)
            elif need > 1:
                if need % was == 0:
                    yield from filled(i + 1, 0, k, need // was, taken * was, cost)
                elif was % need == 0:
                    yield from filled(i, was // need, k, 1, taken * need, cost)
        if need == 1:
            following = sizes[k + 1] if k + 1 < len(sizes) else 1
            yield from ((c, (taken, *rest)) for c, rest in filled(i, head, k + 1, following, ONE, cost))

    found = [*islice(filled(0, 0, 0, sizes[0] if sizes else 1, ONE, 0), MAX_CANDIDATES)]
    return list(dict.fromkeys(dims for _, dims in sorted(found, key=lambda entry: entry[0])))


def _cost(piece: AxisFactor, k: int, sizes: Seq[int], raw: Seq[int], taken: Dim) -> int:
    """Penalty for placing a batch size (originally 1) in entry `k`."""
    if sizes[k] == 1:
        return 0 if raw[k] == -1 else 1 + (k != piece.axis) + abs(k - piece.axis)
    return 10 if raw[k] == -1 else 20 if taken is not ONE else 30
