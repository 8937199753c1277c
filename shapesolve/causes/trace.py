"""Traces a dim: the chain of nodes from inputs and initializers to a tensor's axis, or to its elements.

A dim is followed backwards through the tensors that carry it, as a size or as an element of shape arithmetic. A node that
passes it on unchanged is a link; a node that computes it is a source, and the dims that it is computed from are
followed in turn.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from ..expr import Dim, Shape, symbol
from ..lower.records import Entry
from ..lower.types import Known, Tensor
from ..lower.values import Value
from ..model import Node
from ..solve.facts.constraint import Site
from .limits import MAX_LINKS, MAX_PROBES
from .operands import input_sites, sites_of, size_at, with_other_inputs

if TYPE_CHECKING:
    from ..lower.lowered import Lowered

#: probe symbol that replaces a size to see which results depend on it
_PROBE = symbol("size in question", 1, made=True)
#: a tensor that carries a dim, as the size of an axis or (None) as an element
Carrier: TypeAlias = tuple[str, int | None, Dim]


@dataclass(frozen=True, slots=True)
class Link:
    """One tensor in the chain by which a dim is passed on. ``kind`` is ``input``, ``initializer``, ``passes``
    (unchanged) or ``computes``.
    """

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
    """Traces dims backwards through a lowered model."""

    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        self.walk = lowered.walk
        self._probes = 0

    def links(self, site: Site, *, to_inputs: bool = False, most: int | None = None) -> list[Link]:
        """Links from a site backwards to the node that computes it. With `to_inputs`, on to the inputs.

        A size is traced through the tensors that have it, an element through the arithmetic that made it. There are no more
        links than `most`; by default those are counted that compute a dim, not those that pass it on.
        """
        found = self._follow(self._starts(site), to_inputs=to_inputs, most=most)
        return (
            found
            if found or (not site.data and site.tensor in self.lowered.shapes)
            else self._of_nodes(site.tensor)
        )

    def _starts(self, site: Site) -> list[Carrier]:
        if site.data:
            size, value = size_at(site, self.lowered), self.lowered.values.get(site.tensor)
            held = value.elems or () if value is not None and site.axis is None else ()
            return [(site.tensor, None, e) for e in (held if size is None else (size,)) if isinstance(e, Dim)]
        shape = self._shape(site.tensor) or ()
        axis, rank = site.axis, len(shape)
        axes = range(rank) if axis is None else [axis if axis >= 0 else axis + rank]
        return [(site.tensor, a, shape[a]) for a in axes if 0 <= a < rank]

    def labels(self, site: Site) -> tuple[str, ...]:
        """Nodes between the site and the inputs, nearest first."""
        found = dict.fromkeys(self.nodes(self.links(site, to_inputs=True)))
        made = self.lowered.producers.get(site.tensor)
        if made is not None:
            found[f"{made[1]}{made[0].label}"] = None
            if site.data and (
                len(found) == 1 or site.axis is None
            ):  # how many elements there are matters too
                found.update(dict.fromkeys(self._feeding(site.tensor)))
        return tuple(found)

    def rank_makers(self, site: Site) -> tuple[str, ...]:
        """Nodes that computed the shape argument which determines the rank of a tensor."""
        made = self.lowered.producers.get(site.tensor)
        while made is not None:
            node, prefix = made
            data = [s for s in input_sites(node, prefix, self.lowered) if s.data]
            if data:
                labels = [f"{prefix}{node.label}", *(n for s in data for n in self._feeding(s.tensor))]
                return tuple(dict.fromkeys(labels))
            made = self.lowered.producers.get(
                self.lowered.full_name(next(filter(None, node.inputs), ""), prefix)
            )
        return ()

    def behind(self, entry: Entry) -> tuple[str, ...]:
        """Return the nodes that compute the sites of a condition.

        If it names only one tensor, the nodes that compute any input of its node.
        """
        sites = with_other_inputs(sites_of(entry, self.lowered), entry.node, entry.prefix, self.lowered)
        labels = [label for site in sites for label in reversed(self.labels(site))]
        return tuple(dict.fromkeys((*self.lowered.owners(entry.prefix), *labels)))

    def _feeding(self, tensor: str) -> list[str]:
        made = (self.lowered.producers.get(name) for name in self.lowered.behind(tensor))
        labels = (f"{prefix}{node.label}" for node, prefix in filter(None, made))
        return list(dict.fromkeys(islice(labels, MAX_LINKS)))

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
        """Labels of the nodes on a chain, nearest first, without duplicates."""
        return tuple(dict.fromkeys(link.label for link in links if link.node is not None))

    def _of_nodes(self, tensor: str) -> list[Link]:
        made = self.lowered.producers.get(tensor)
        return [Link("computes", tensor, None, Dim(0), *made)] if made else []

    def _shape(self, tensor: str) -> Shape | None:
        return self.lowered.shapes.get(tensor)

    def _step(self, tensor: str, axis: int | None, dim: Dim) -> tuple[Link, list[Carrier]]:
        tensor = self.lowered.outer(tensor)
        made = self.lowered.producers.get(tensor)
        if made is None:
            kind = "input" if tensor in self.lowered.inputs else "initializer"
            return Link(kind, tensor, axis, dim), []
        node, prefix = made
        names = [self.lowered.full_name(name, prefix) for name in node.inputs if name]
        data = self.lowered.data_inputs(node, prefix)
        read = {self.lowered.full_name(node.inputs[i], prefix) for i in data if i < len(node.inputs)}
        carriers = [c for name in names for c in self._carries(name, axis, dim, tensor, name in read)]
        if carriers:
            ranked: Sequence[Carrier] = [c for _, c in sorted(carriers, key=lambda c: c[0])]
            if not dim.terms:
                ranked = self._deciding(node, prefix, tensor, axis, dim, ranked, read)
            if ranked:
                return Link("passes", tensor, axis, dim, node, prefix), [*ranked[:1]]
        return Link("computes", tensor, axis, dim, node, prefix), self._ingredients(names, read, dim)

    def _deciding(
        self,
        node: Node,
        prefix: str,
        tensor: str,
        axis: int | None,
        dim: Dim,
        carriers: Sequence[Carrier],
        read: Container[str],
    ) -> Sequence[Carrier]:
        """Of inputs with this number, those that the output dim comes from; none if the node makes it itself.

        The node is lowered on its own with a symbol in place of each number; a result that holds the symbol follows it.
        Numbers that cannot be tried stay, except the number of elements of an input that is `read` as data.
        """
        if node.subgraphs:
            return carriers
        inputs = {n: k for n in node.inputs if n and (k := self._known(n, prefix)) is not None}
        names = {self.lowered.full_name(n, prefix): n for n in node.inputs if n}
        output = next((n for n in node.outputs if n and tensor.endswith(n)), "")
        found, untried = list[Carrier](), list[Carrier]()
        for carrier in carriers:
            name = names.get(carrier[0], "")
            known = inputs.get(name)
            changed = None
            if self._probes < MAX_PROBES and isinstance(known, Tensor):
                self._probes += 1
                changed = self._with_probe(known, carrier)
            made = {} if changed is None else self.walk.probe(node, {**inputs, name: changed}, prefix)
            if made.get(output) is None:
                if carrier[1] is None or carrier[0] not in read:
                    untried.append(carrier)
            elif _holds_probe(made.get(output), axis, dim):
                found.append(carrier)
        return found or untried

    def _known(self, name: str, prefix: str) -> Known | None:
        """Return an input of a node with all that the analysis knows of it."""
        full = self.lowered.full_name(name, prefix)
        known = self.lowered.tensors.get(full)
        if not isinstance(known, Tensor):
            return known
        return self.walk.interner.tensor(known.dtype, self._shape(full), self.lowered.values.get(full))

    def _with_probe(self, known: Tensor, carrier: Carrier) -> Tensor | None:
        """Return the tensor with a symbol in place of a size or of equal elements, to see where it reappears."""
        _, axis, dim = carrier
        if axis is not None:
            return self.walk.interner.tensor(known.dtype, known.shape and known.shape.with_dim(axis, _PROBE))
        value = known.value
        if value is None or value.elems is None or value.shape is None:
            return None
        elems = tuple([_PROBE if e is dim else e for e in value.elems])
        return self.walk.interner.tensor(known.dtype, known.shape, Value.known(value.shape, elems))

    def _carries(
        self, name: str, axis: int | None, dim: Dim, result: str, as_data: bool
    ) -> list[tuple[tuple[int, ...], Carrier]]:
        """Return axes or elements of tensor `name` equal to `dim`, best candidate first.

        Sizes precede elements, near axes precede far ones, and computed tensors precede initializers. The number of
        elements
        comes last if a node reads these (`as_data`).
        """
        out: list[tuple[tuple[int, ...], Carrier]] = []
        stored = int(name not in self.lowered.producers and name not in self.lowered.inputs)
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
        """Input dims that a computed dim may depend on.

        Of inputs that are `read` as data, it is the elements that count, and not how many there are.
        """
        out: list[Carrier] = []
        for name in names:
            if name not in self.lowered.producers and name not in self.lowered.inputs:
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


def _holds_probe(known: Known | None, axis: int | None, dim: Dim) -> bool:
    """Return True if a size or element contains the probe symbol."""
    if not isinstance(known, Tensor):
        return False
    if axis is not None:
        return known.shape is not None and axis < len(known.shape) and _PROBE.free <= known.shape[axis].free
    elems = known.value.elems if known.value is not None else None
    return any(isinstance(e, Dim) and _PROBE.free <= e.free for e in elems or ())
