"""Where a dim comes from: the chain of nodes from inputs and initializers to a tensor's axis.

A dim is followed backwards through the tensors that carry it, as a size or as an element of shape arithmetic. A node that
passes it on unchanged is a link; a node that computes it is a source, and the dims that it is computed from are
followed in turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ..expr import Dim, Shape
from ..model import Node

if TYPE_CHECKING:
    from ..lower.lowered import Lowered

#: links at which a dim is computed that are followed; those that pass it on are not counted
MAX_LINKS = 400
#: a tensor that carries a dim, as the size of an axis or (None) as an element
Carrier: TypeAlias = tuple[str, int | None, Dim]


@dataclass(frozen=True, slots=True)
class Link:
    """A tensor that carries a dim: ``kind`` is ``input``, ``initializer``, ``passes`` (unchanged) or ``computes``."""

    kind: str
    tensor: str
    axis: int | None
    dim: Dim
    node: Node | None = None
    prefix: str = ""

    @property
    def label(self) -> str:
        """The node's label with its scope; empty for inputs and initializers."""
        return f"{self.prefix}{self.node.label}" if self.node is not None else ""


class Tracer:
    """Follows dims backwards through one lowered model."""

    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        self.walk = lowered.walk

    def chain(
        self, tensor: str, axis: int | None, *, to_inputs: bool = False, most: int | None = None
    ) -> list[Link]:
        """Links from a tensor's axis backwards; to the node that computes the dim, or (``to_inputs``) on to the inputs.

        There are no more than `most`; by default those are counted that compute a dim, not those that pass it on.
        """
        shape = self._shape(tensor)
        if shape is None:
            return self._of_nodes(tensor)
        axes = range(len(shape)) if axis is None else [axis if axis >= 0 else axis + len(shape)]
        starts = [(tensor, a, shape[a]) for a in axes if 0 <= a < len(shape)]
        return self._follow(starts, to_inputs=to_inputs, most=most)

    def _follow(self, starts: Iterable[Carrier], *, to_inputs: bool, most: int | None = None) -> list[Link]:
        out: dict[Link, None] = {}
        stack = [*starts][::-1]
        seen: set[tuple[str, int]] = set()
        passed = 0
        while stack and (len(out) - passed < MAX_LINKS if most is None else len(out) < most):
            name, at, dim = stack.pop()
            if (name, id(dim)) in seen:
                continue
            seen.add((name, id(dim)))
            link, sources = self._step(name, at, dim)
            out[link] = None
            passed += link.kind == "passes"
            if link.kind == "passes" or (to_inputs and link.kind == "computes"):
                stack += reversed(sources)
        return list(out)

    def nodes(self, links: Iterable[Link]) -> tuple[str, ...]:
        """Labels of the nodes on a chain, nearest first, once each."""
        return tuple(dict.fromkeys(link.label for link in links if link.node is not None))

    def _of_nodes(self, tensor: str) -> list[Link]:
        made = self.walk.producers.get(tensor)
        return [Link("computes", tensor, None, Dim(0), *made)] if made else []

    def _shape(self, tensor: str) -> Shape | None:
        return self.lowered.shapes.get(tensor)

    def _step(self, tensor: str, axis: int | None, dim: Dim) -> tuple[Link, list[Carrier]]:
        made = self.walk.producers.get(tensor)
        while made is None and tensor in self.walk.aliases:
            tensor = self.lowered.full_name(*self.walk.aliases[tensor])
            made = self.walk.producers.get(tensor)
        if made is None:
            kind = "input" if tensor in self.lowered.inputs else "initializer"
            return Link(kind, tensor, axis, dim), []
        node, prefix = made
        names = [self.lowered.full_name(name, prefix) for name in node.inputs if name]
        data = self.lowered.data_inputs(node, prefix)
        read = {self.lowered.full_name(node.inputs[i], prefix) for i in data if i < len(node.inputs)}
        carriers = [c for name in names for c in self._carries(name, axis, dim, tensor, name in read)]
        if carriers:
            best = min(carriers, key=lambda c: c[0])
            return Link("passes", tensor, axis, dim, node, prefix), [best[1]]
        return Link("computes", tensor, axis, dim, node, prefix), self._ingredients(names, read, dim)

    def _carries(
        self, name: str, axis: int | None, dim: Dim, result: str, as_data: bool
    ) -> list[tuple[tuple[int, ...], Carrier]]:
        """Where tensor `name` carries `dim`, ranked: sizes before elements, near axes first, computed before stored.

        How many elements there are comes last where a node reads these (`as_data`).
        """
        out: list[tuple[tuple[int, ...], Carrier]] = []
        stored = int(name not in self.walk.producers and name not in self.lowered.inputs)
        shape, whole = self._shape(name), self._shape(result)
        for i, d in enumerate(shape or ()):
            if d is dim:
                far = 0
                if axis is not None and whole is not None and shape is not None:
                    far = min(abs(i - axis), abs((i - len(shape)) - (axis - len(whole))))
                out.append(((2 if as_data else 0, far, stored), (name, i, d)))
        value = self.lowered.values.get(name)
        if value is not None and value.elems is not None and any(e is dim for e in value.elems):
            out.append(((1, 0, stored), (name, None, dim)))
        return out

    def _ingredients(self, names: list[str], read: set[str], dim: Dim) -> list[Carrier]:
        """Dims of the inputs that a computed dim may be made of: those that share a symbol, else all changed sizes.

        Of inputs that are `read` as data, it is the elements that count, and not how many there are.
        """
        out: list[Carrier] = []
        for name in names:
            if name not in self.walk.producers and name not in self.lowered.inputs:
                continue
            for i, d in enumerate(() if name in read else self._shape(name) or ()):
                if not d.free.isdisjoint(dim.free) or (not dim.free and not d.free):
                    out.append((name, i, d))
            value = self.lowered.values.get(name)
            for e in (value.elems or ()) if value is not None else ():
                if not isinstance(e, Dim):
                    continue
                if not e.free.isdisjoint(dim.free) or (name in read and not dim.free and not e.free):
                    out.append((name, None, e))
        return out
