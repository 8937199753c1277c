"""Sizes computed from the shapes of a model's inputs. A dim becomes a few nodes at the start of the graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq

import numpy as np

from ..change.arithmetic import Arithmetic
from ..change.draft import Draft, DraftNode, as_array
from ..change.refused import Refused
from ..expr import Dim
from ..propagate.constraint import Site


class Sizes(Arithmetic):
    """Makes tensors of sizes, each subexpression once.

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
        assert made is not None  # what cannot be computed was refused
        return made

    def scalar(self, dim: Dim, hint: str) -> str:
        """The name of a scalar int64 tensor with this value."""
        empty = self.draft.graph.constant(np.zeros(0, np.int64), "scalar_shape")
        return self.node("Reshape", [self.size(dim), empty], 1, hint)

    def size(self, d: Dim) -> str:
        """The name of an int64 tensor of shape [1]; raises `Refused` where no nodes are known to compute it."""
        if not d.terms:
            return self.number([d.const])
        made = self._symbol(d.name) if d.name is not None else self.computed(d)
        if made is None:
            raise Refused(f"the size {d} is one that no nodes are known to compute")
        return made

    def rounds_down(self, n: Dim, d: Dim) -> bool:
        """By what holds whatever the sizes are."""
        return all(size.lo is not None and size.lo >= 0 for size in (n, d))

    def _symbol(self, name: str) -> str:
        if name not in self.sites:
            raise Refused(f"the size {name} cannot be read from the shape of an input")
        site = self.sites[name]
        assert site.axis is not None
        shape = self.node("Shape", [site.tensor], 1, f"{site.tensor}_shape")
        return self.node("Gather", [shape, self.number([site.axis])], 1, name, axis=0)

    def number(self, numbers: Iterable[int]) -> str:
        """A constant, named after what it begins with."""
        values = [*numbers]
        return self.draft.graph.constant(as_array(values), "size_" + "_".join(map(str, values[:4])))

    def node(self, op_type: str, inputs: list[str], length: int, hint: str = "", **attributes: int) -> str:
        """A new node stands at the start of the graph, in the order in which they are made."""
        key = (op_type, *inputs, *sorted(attributes.items()))
        if key not in self._made:
            node = self.draft.graph.new_node(op_type, inputs, hint or "size", **attributes)
            self.nodes.append(node)
            self._made[key] = node.outputs[0]
        return self._made[key]
