"""The provenance of every tensor of an analyzed model, node by node. Graphs of If, Loop and Scan are included.

Inside, a carried value keeps its rows where they are: what a trip hands on has them on the axis on which it got them. What
decides which graph runs, and how often, depends on no row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from collections.abc import Sequence as Seq
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ..expr import ONE, Cond, Dim, Shape
from ..lower.axes import Links, Lists, Unfollowed, links_of
from ..lower.op import Op
from ..lower.scopes import Scopes
from ..lower.types import Known, Sequence, Tensor
from ..lower.values import Value
from ..model import Graph, Node
from .provenance import SEQUENCE, Made, Mixing, Origin, factors_of, flow
from .provenance_lists import through_lists

if TYPE_CHECKING:
    from ..analysis import Analysis

#: lookup of the known facts about a tensor by name
Look: TypeAlias = Callable[[str], "Known | None"]
#: the origins of a graph's outputs, from its attribute's name, the graph, and the origins of its inputs
Follow: TypeAlias = Callable[[str, Graph, Mapping[str, Origin]], list[Origin]]

_NOTHING = Origin((), {})
#: a sequence without tensors: all that are in it have their rows wherever one likes
_EMPTY = Origin((), {})


class Provenance:
    """Origins of tensors by name, made node by node in graph order.

    Args:
        symbols: whose rows are followed.
        walk: of the analysis.
        look: what is known of a tensor by name.
        is_told: is an element known as an expression of the inputs' sizes?
        prefix, own, around: of a graph inside a node, what its names start with, its names, and what is around it.
    """

    def __init__(
        self,
        symbols: Seq[str],
        walk: Scopes,
        look: Look,
        is_told: Callable[[Any], bool],
        prefix: str = "",
        own: Collection[str] = (),
        around: Provenance | None = None,
    ) -> None:
        self.prefix, self.own, self.around = prefix, own, around
        self.symbols, self.walk, self.look, self.is_told = tuple(symbols), walk, look, is_told
        self.origins: dict[str, Origin] = {}
        #: sizes that data decides, and that are the same for every row alone
        self.uniform: set[Dim] = set() if around is None else around.uniform

    def of(self, name: str) -> Origin:
        """The origin of a tensor; one that no node made comes from itself."""
        found = self.origins.get(name)
        if found is None and self.around is not None and name not in self.own:
            return self.around.of(name)
        if found is None:
            shape = self.tensor(name).shape
            found = Origin(None if shape is None else tuple(factors_of(d) for d in shape), {})
            self.origins[name] = found
        return found

    def view(self, node: Node) -> tuple[Op, Made]:
        """A node as its declaration sees it, and the sizes of its outputs."""
        inputs = tuple(self._input(name) if name else None for name in node.inputs)
        opsets = self.walk.model.opsets
        rule = self.walk.operators.rule(node, opsets)
        made = [self._made(name) if name else None for name in node.outputs]
        return Op(self.walk, node, inputs, opsets.get(node.domain, 1), None, rule), made

    def _input(self, name: str) -> Known:
        """The known facts about an input. A sequence is represented by one of its tensors, with only its rank known."""
        if isinstance(self.known(name), Sequence):
            layout = self.of(name).layout
            return Tensor(0, None if layout is None else Shape([ONE] * len(layout)))
        return self.tensor(name)

    def _made(self, name: str) -> Seq[Dim] | None:
        known = self.known(name)
        return SEQUENCE if isinstance(known, Sequence) else known.shape if isinstance(known, Tensor) else None

    def links(self, node: Node) -> Links | None:
        """Axis links of a node from its operator's declaration. None if there are none."""
        op, made = self.view(node)
        try:
            return links_of(op, _shapes(made))
        except Unfollowed:
            return None

    def visit(self, node: Node) -> None:
        """Find the origins of a node's outputs."""
        op, made = self.view(node)
        names = [*node.inputs, *node.captures]
        given = [self.of(name) if name else None for name in names]
        sure = [name == "" or self._is_known(name) for name in names]
        links: Links | str
        lists: Lists = ""
        try:
            links = links_of(op, _shapes(made)) or ""
        except Unfollowed as unfollowed:
            links, lists = str(unfollowed), unfollowed.lists
        found = flow(op, made, links, given, sure, self.symbols)
        if made[:1] == [SEQUENCE] and not node.inputs:
            found = [_EMPTY]
        if op.rule is not None and op.rule.bodies:
            inside = partial(self._inside, node)
            found = _through_bodies(op, made, given[: len(node.inputs)], found, self.symbols, inside)
        found = through_lists(op, made, links, lists, given, found, self.symbols)
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
        child = Provenance(self.symbols, self.walk, self.look, self.is_told, prefix, own, self)
        child.origins.update(given)
        for inner in graph.nodes:
            child.visit(inner)
        return [child.of(name) for name, _ in graph.outputs]

    def known(self, name: str) -> Known | None:
        """The known facts about a tensor, sequence or map visible in this scope."""
        if self.around is not None and name not in self.own:
            return self.around.known(name)
        return self.look(self.prefix + name)

    def tensor(self, name: str) -> Tensor:
        """The known facts about a tensor. Elements are given if all are expressions of the input sizes."""
        known = self.known(name)
        if not isinstance(known, Tensor):
            return Tensor()
        elems = None if known.value is None else known.value.elems
        if (
            known.value is None
            or elems is None
            or not all(self.is_told(e) or e in self.uniform for e in elems)
        ):
            return Tensor(known.dtype, known.shape)
        return Tensor(known.dtype, known.shape, Value(known.value.shape, elems))

    def _note_sizes(self, name: str) -> None:
        """Records sizes that are equal for each row alone: rows are separable, or the tensor depends on none."""
        origin, shape = self.origins[name], self.tensor(name).shape
        if shape is not None and origin.layout is not None and not origin.mixed:
            self.uniform.update(d for d in shape if not self.is_told(d) and d.free.isdisjoint(self.symbols))

    def _is_known(self, name: str) -> bool:
        value = self.tensor(name).value
        return value is not None and all(isinstance(e, Dim | Cond) for e in value.elems or ())

    def _by_value(self, name: str, origin: Origin, node: Node) -> Origin:
        """Elements that are known as expressions of the sizes depend on what these say, and on nothing else."""
        if not self._is_known(name):
            return origin
        known = self.tensor(name)
        free, shape = known.value.free if known.value is not None else (), known.shape or ()
        mixed = {}
        for symbol in self.symbols:
            if symbol in free:
                mixed[symbol] = Mixing(node.label, node.op_type, f"computes with the size of {symbol}")
            elif any(symbol in d.free for d in shape):
                return origin
        return Origin(tuple(factors_of(d) for d in shape), mixed)


def _shapes(made: Made) -> list[Shape | None]:
    return [None if sizes is None or sizes is SEQUENCE else Shape(sizes) for sizes in made]


def trace(analysis: Analysis, symbols: Seq[str]) -> Provenance:
    """The provenance of every tensor of the main graph of an analyzed model."""
    names, walk = frozenset(analysis.symbols), analysis._solved.walk

    def look(name: str) -> Known | None:
        if name in analysis.shapes:
            return Tensor(analysis.dtypes.get(name, 0), analysis.shapes[name], analysis.values.get(name))
        return walk.state.tensors.get(name)

    def is_told(element: Any) -> bool:
        return getattr(element, "free", names) <= names

    found = Provenance(symbols, walk, look, is_told)
    for node in analysis.model.graph.nodes:
        found.visit(node)
    return found


# ---------------------------------------------------------------------- graphs inside nodes


def _through_bodies(
    op: Op, made: Made, given: Seq[Origin | None], found: Seq[Origin], symbols: Seq[str], follow: Follow
) -> list[Origin]:
    """`found`, but for symbols whose rows are shown to stay apart inside."""
    results = list(found)
    for symbol in symbols:
        inside = _inside(op, [o or _NOTHING for o in given], symbol, follow)
        for i, origin in enumerate(inside if inside is not None and len(inside) == len(results) else ()):
            # tensors of a sequence that was empty at first, if any, are those of the trips
            settled = len(op.node.subgraphs) > 1 or (i + 2 < len(given) and given[i + 2] is _EMPTY)
            if symbol in origin.mixed or not (settled or _is_whole(origin, made[i], symbol)):
                continue
            mixed = {k: v for k, v in results[i].mixed.items() if k != symbol}
            results[i] = Origin(
                origin.layout if origin.rows(symbol) is not None else results[i].layout, mixed
            )
    return results


def _inside(op: Op, given: Seq[Origin], symbol: str, follow: Follow) -> list[Origin] | None:
    node = op.node
    if node.op_type == "If":
        return _either_graph(op, given, symbol, follow)
    if node.op_type == "Loop":
        return _loop(op, given, symbol, follow)
    # before opset 9 Scan has a batch axis of its own
    return _scan(op, given, symbol, follow) if node.op_type == "Scan" and op.version >= 9 else None


def _is_whole(origin: Origin, made: Seq[Dim] | None, symbol: str) -> bool:
    """True if the rows are on the only axis whose size depends on the symbol."""
    if made is None or made is SEQUENCE:
        return False
    at = origin.rows(symbol)
    return [k for k, size in enumerate(made) if symbol in size.free] == ([] if at is None else [at[0]])


def _same(a: Origin, b: Origin, symbol: str) -> bool:
    """True if two tensors have the rows of a symbol in the same place, or neither has them."""
    at = a.rows(symbol)
    if symbol in a.mixed or symbol in b.mixed or at != b.rows(symbol):
        return False
    return at is None or (a.layout or ())[at[0]] == (b.layout or ())[at[0]]


def _either_graph(op: Op, given: Seq[Origin], symbol: str, follow: Follow) -> list[Origin] | None:
    if given[0].depends(symbol):
        return None
    then, otherwise = (follow(name, graph, {}) for name, graph in sorted(op.node.subgraphs, reverse=True))
    return [_either(op.node, a, b, symbol) for a, b in zip(then, otherwise, strict=True)]


def _either(node: Node, a: Origin, b: Origin, symbol: str) -> Origin:
    """One of two tensors, the same one for all rows: one that depends on no row goes with any."""
    if not a.depends(symbol) or _same(a, b, symbol):
        return b
    if not b.depends(symbol):
        return a
    what = f"gives rows of {symbol} that are elsewhere in its branches"
    found = a.mixed.get(symbol) or b.mixed.get(symbol) or Mixing(node.label, node.op_type, what)
    return Origin(a.layout, {symbol: found})


def _loop(op: Op, given: Seq[Origin], symbol: str, follow: Follow) -> list[Origin] | None:
    body, carried = dict(op.node.subgraphs)["body"], given[2:]
    if any(origin.depends(symbol) for origin in given[:2]):
        return None
    names = [name for name, _ in body.inputs]
    made = follow("body", body, dict(zip(names, [_NOTHING, _NOTHING, *carried], strict=True)))
    if any(o is _EMPTY for o in carried):  # filled on the way: it has the rows where the first trip puts them
        pairs = zip(carried, made[1:], strict=False)
        carried = [after if before is _EMPTY else before for before, after in pairs]
        made = follow("body", body, dict(zip(names, [_NOTHING, _NOTHING, *carried], strict=True)))
    if made[0].depends(symbol) or not _hands_on(carried, made[1:], symbol):
        return None
    return [*made[1 : 1 + len(carried)], *(_stacked(o, 0) for o in made[1 + len(carried) :])]


def _scan(op: Op, given: Seq[Origin], symbol: str, follow: Follow) -> list[Origin] | None:
    body, states = dict(op.node.subgraphs)["body"], len(given) - op.int_attr("num_scan_inputs", None)
    slices = []
    for k, origin in enumerate(given[states:]):
        axis = _axis(op, "input", k, len(origin.layout or ()))
        at = origin.rows(symbol)
        if at is not None and at[0] == axis:
            return None
        layout = None if origin.layout is None else (*origin.layout[:axis], *origin.layout[axis + 1 :])
        slices.append(Origin(layout, origin.mixed))
    names = [name for name, _ in body.inputs]
    made = follow("body", body, dict(zip(names, [*given[:states], *slices], strict=True)))
    if not _hands_on(given[:states], made, symbol):
        return None
    stacked = [
        _stacked(o, _axis(op, "output", k, len(o.layout or ()) + 1)) for k, o in enumerate(made[states:])
    ]
    return [*made[:states], *stacked]


def _hands_on(carried: Seq[Origin], made: Seq[Origin], symbol: str) -> bool:
    return all(_same(a, b, symbol) for a, b in zip(carried, made, strict=False))


def _stacked(origin: Origin, axis: int) -> Origin:
    """The origin with one more axis for the trips, of unknown provenance."""
    layout = origin.layout
    return origin if layout is None else Origin((*layout[:axis], (), *layout[axis:]), origin.mixed)


def _axis(op: Op, side: str, k: int, rank: int) -> int:
    axes = op.attr(f"scan_{side}_axes") or ()
    axis = int(axes[k]) if k < len(axes) else 0
    return axis + rank if axis < 0 else axis
