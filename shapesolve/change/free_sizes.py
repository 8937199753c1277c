"""Sizes computed in a model from the shapes of its inputs: a dim becomes a few nodes at the start of the graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq

import numpy as np

from ..expr import Atom, Dim
from .draft import Draft, DraftNode
from .refused import Refused

#: where a symbol is read: input and axis
Place = tuple[str, int]


class Sizes:
    """Makes tensors of sizes, each subexpression once.

    Args:
        draft: the model that they are for.
        places: where each symbol is read.
    """

    def __init__(self, draft: Draft, places: Mapping[str, Place]) -> None:
        self.draft, self.places = draft, places
        self.nodes: list[DraftNode] = []
        self._made: dict[object, str] = {}

    def vector(self, dims: Seq[Dim], hint: str) -> str:
        """The name of a one-dimensional int64 tensor with these elements."""
        parts: list[str] = []
        numbers: list[int] = []
        for dim in (*dims, None):
            if dim is not None and dim.value is not None:
                numbers.append(dim.value)
                continue
            if numbers:
                parts.append(self._number(*numbers))
                numbers = []
            if dim is not None:
                parts.append(self.one(dim))
        if len(parts) == 1:
            return parts[0]
        return self._node("Concat", parts, hint, axis=0)

    def scalar(self, dim: Dim, hint: str) -> str:
        """The name of a scalar int64 tensor with this value."""
        empty = self.draft.graph.constant(np.zeros(0, np.int64), "scalar_shape")
        return self._node("Reshape", [self.one(dim), empty], hint)

    def one(self, dim: Dim) -> str:
        """The name of an int64 tensor of shape [1]."""
        if dim.value is not None:
            return self._number(dim.value)
        total: str | None = None
        for monomial, coefficient in dim.terms:
            product: str | None = None if coefficient == 1 else self._number(coefficient)
            for atom in monomial:
                made = self._atom(atom)
                product = made if product is None else self._node("Mul", [product, made], "size")
            assert product is not None
            total = product if total is None else self._node("Add", [total, product], "size")
        assert total is not None
        return self._node("Add", [total, self._number(dim.const)], "size") if dim.const else total

    def _atom(self, atom: Atom) -> str:
        if atom.kind == "sym":
            return self._symbol(atom.args[0])
        if atom.kind == "//" and _is_size(atom.args[0]) and _is_size(atom.args[1]):
            return self._node("Div", [self.one(atom.args[0]), self.one(atom.args[1])], "size")
        if atom.kind == "pos" and self.draft.model.opsets.get("", 1) >= 12:
            return self._node("Max", [self.one(atom.args[0]), self._number(0)], "size")
        raise Refused(f"the size {atom} is one that no nodes are known to compute")

    def _symbol(self, name: str) -> str:
        if name not in self.places:
            raise Refused(f"the size {name} cannot be read from the shape of an input")
        tensor, axis = self.places[name]
        shape = self._node("Shape", [tensor], f"{tensor}_shape")
        return self._node("Gather", [shape, self._number(axis)], name, axis=0)

    def _number(self, *values: int) -> str:
        return self.draft.graph.constant(np.array(values, np.int64), "size_" + "_".join(map(str, values[:4])))

    def _node(self, op_type: str, inputs: Iterable[str], hint: str, **attributes: int) -> str:
        key = (op_type, *inputs, *sorted(attributes.items()))
        if key not in self._made:
            node = self.draft.graph.new_node(op_type, inputs, hint, **attributes)
            self.nodes.append(node)
            self._made[key] = node.outputs[0]
        return self._made[key]


def _is_size(dim: Dim) -> bool:
    """Is it never negative, so that division rounds down in the runtime too?"""
    lo = dim.lo
    return lo is not None and lo >= 0
