"""The provenance of every tensor of an analyzed model, and the proof that the rows of a batch stay apart in its outputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from collections.abc import Sequence as Seq
from functools import partial
from typing import TYPE_CHECKING, Any

from ..expr import Dim
from ..model import Graph, Node
from .provenance import Mixing, Origin, factors_of, flow
from .provenance_bodies import through_bodies
from .provenance_contributed import rule_of
from .provenance_lists import through_lists
from .provenance_notation import Links, Unfollowed, View
from .provenance_sequences import through_sequences

if TYPE_CHECKING:
    from ..analysis import Analysis

#: what is known of a tensor: its sizes, and its elements
Contents = tuple["Seq[Dim] | None", "Seq[Any] | None"]


class Provenance:
    """Origins of tensors by name, made node by node in graph order.

    Args:
        symbols: whose rows are followed.
        opsets: versions by domain.
        look: what is known of a tensor by name.
        is_told: is an element known as an expression of the inputs' sizes?
        prefix, own, around: of a graph inside a node, what its names start with, its names, and what is around it.
    """

    def __init__(
        self,
        symbols: Seq[str],
        opsets: Mapping[str, int],
        look: Callable[[str], Contents],
        is_told: Callable[[Any], bool],
        prefix: str = "",
        own: Collection[str] = (),
        around: Provenance | None = None,
    ) -> None:
        self.prefix, self.own, self.around = prefix, own, around
        self.symbols, self.opsets, self.look, self.is_told = tuple(symbols), opsets, look, is_told
        self.origins: dict[str, Origin] = {}
        #: sizes that data decides, and that are the same for every row alone
        self.uniform: set[Dim] = set() if around is None else around.uniform

    def of(self, name: str) -> Origin:
        """The origin of a tensor; one that no node made comes from itself."""
        found = self.origins.get(name)
        if found is None and self.around is not None and name not in self.own:
            return self.around.of(name)
        if found is None:
            shape, _ = self.known(name)
            found = Origin(None if shape is None else tuple(factors_of(d) for d in shape), {})
            self.origins[name] = found
        return found

    def view(self, node: Node) -> View:
        """A node as its declaration sees it."""
        known = [self.known(name) if name else (None, None) for name in node.inputs]
        made = [self.known(name)[0] if name else None for name in node.outputs]
        version = self.opsets.get(node.domain, 1)
        return View(node, version, [shape for shape, _ in known], [value for _, value in known], made)

    def links(self, view: View) -> Links | None:
        """What the declaration of its operator says of a node."""
        rule = rule_of(view.node.domain, view.node.op_type)
        if rule is None or view.node.subgraphs:
            return None
        try:
            return rule(view)
        except (Unfollowed, IndexError, TypeError, ValueError):
            return None

    def visit(self, node: Node) -> None:
        """Find the origins of a node's outputs."""
        view = self.view(node)
        names = [*node.inputs, *node.captures]
        given = [self.of(name) if name else None for name in names]
        sure = [name == "" or self._is_known(name) for name in names]
        found = flow(view, self.links(view), given, sure, self.symbols)
        found = through_sequences(view, given, found, self.symbols)
        if node.subgraphs:
            inside = partial(self._inside, node)
            found = through_bodies(view, given[: len(node.inputs)], found, self.symbols, inside)
        found = through_lists(view, given, found, self.symbols)
        for name, origin in zip(node.outputs, found, strict=False):
            if name:
                self.origins[name] = self._by_value(name, origin, node)
                self._note_sizes(name)

    def _inside(self, node: Node, attribute: str, graph: Graph, given: Mapping[str, Origin]) -> list[Origin]:
        """The origins of the outputs of a graph inside a node."""
        prefix = f"{self.prefix}{node.label}/{attribute}/"
        own = (
            {name for inner in graph.nodes for name in inner.outputs}
            | graph.initializers.keys()
            | given.keys()
        )
        child = Provenance(self.symbols, self.opsets, self.look, self.is_told, prefix, own, self)
        child.origins.update(given)
        for inner in graph.nodes:
            child.visit(inner)
        return [child.of(name) for name, _ in graph.outputs]

    def known(self, name: str) -> Contents:
        """What is known of a tensor that is seen from here."""
        if self.around is not None and name not in self.own:
            return self.around.known(name)
        shape, elems = self.look(self.prefix + name)
        if elems is not None and not all(self.is_told(e) or e in self.uniform for e in elems):
            elems = None
        return shape, elems

    def _note_sizes(self, name: str) -> None:
        """Each row alone gives a tensor of the same sizes where its rows are told apart, or where it depends on none."""
        origin, (shape, _) = self.origins[name], self.known(name)
        if shape is not None and origin.layout is not None and not origin.mixed:
            self.uniform.update(d for d in shape if not self.is_told(d) and d.free.isdisjoint(self.symbols))

    def _is_known(self, name: str) -> bool:
        _, value = self.known(name)
        return value is not None and all(getattr(e, "free", None) is not None for e in value)

    def _by_value(self, name: str, origin: Origin, node: Node) -> Origin:
        """Elements that are known as expressions of the sizes depend on what these say, and on nothing else."""
        if not self._is_known(name):
            return origin
        shape, value = self.known(name)
        free = frozenset[str]().union(*[e.free for e in value or ()])
        mixed = {}
        for symbol in self.symbols:
            if symbol in free:
                mixed[symbol] = Mixing(node.label, node.op_type, f"computes with the size of {symbol}")
            elif any(symbol in d.free for d in shape or ()):
                return origin
        return Origin(tuple(factors_of(d) for d in shape or ()), mixed)


def trace(analysis: Analysis, symbols: Seq[str]) -> Provenance:
    """The provenance of every tensor of the main graph of an analyzed model."""
    names = frozenset(analysis.symbols)

    def look(name: str) -> Contents:
        value = analysis.values.get(name)
        return analysis.shapes.get(name), None if value is None else value.elems

    def is_told(element: Any) -> bool:
        return getattr(element, "free", names) <= names

    found = Provenance(symbols, analysis.model.opsets, look, is_told)
    for node in analysis.model.graph.nodes:
        found.visit(node)
    return found
