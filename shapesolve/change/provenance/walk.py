"""Provenance of every tensor of an analyzed model, node by node, including the subgraphs of If, Loop, and Scan.

A loop-carried value has its batch items on the same axis in every iteration. The condition of an If and the number of
iterations must not depend on any item. A sequence is treated as one tensor that has the common rows of its elements.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from collections.abc import Sequence as Seq
from typing import TYPE_CHECKING, Any, TypeAlias

from ...expr import ZERO, Cond, Dim, Shape
from ...lower.axes import Links, Lists, Unfollowed, links_of
from ...lower.op import Op
from ...lower.scopes import Scopes
from ...lower.types import Known, Sequence, Tensor
from ...model import Graph, Node
from .lists import through_lists
from .provenance import Factors, Mixing, Rows, flow, layout_of

if TYPE_CHECKING:
    from ...analysis import Analysis

#: lookup of the known facts about a tensor by name
Look: TypeAlias = Callable[[str], "Known | None"]

_NOTHING = Rows((), {})


class Provenance:
    """Rows of tensors by name, computed node by node in graph order.

    Args:
        symbols: The symbols whose items are tracked.
        walk: The walk of the analysis.
        look: Returns the known properties of a tensor by name.
        is_expression: Returns True if an element is an expression of the input sizes.
        prefix, own, around: Name prefix of a subgraph, its tensor names, and the rows of the outer graph.
    """

    def __init__(
        self,
        symbols: Seq[str],
        walk: Scopes,
        look: Look,
        is_expression: Callable[[Any], bool],
        prefix: str = "",
        own: Collection[str] = (),
        around: Provenance | None = None,
    ) -> None:
        self.prefix, self.own, self.around = prefix, own, around
        self.symbols, self.walk, self.look, self.is_expression = tuple(symbols), walk, look, is_expression
        self.rows: dict[str, Rows] = {}
        #: sizes that are equal for all items, including data-dependent ones
        self.uniform: set[Dim] = set() if around is None else {*around.uniform}

    def of(self, name: str) -> Rows:
        """Return the rows of a tensor; the rows of a graph input or an initializer are its axes."""
        found = self.rows.get(name)
        if found is None and self.around is not None and name not in self.own:
            return self.around.of(name)
        if found is None:
            found = self.rows[name] = Rows(layout_of(self.tensor(name).shape), {})
        return found

    def view(self, node: Node) -> tuple[Op, list[Shape | None]]:
        """A node as `Op`, with the shapes of its outputs."""
        inputs = tuple(
            self.tensor(name) if name and not self._is_empty(name) else None for name in node.inputs
        )
        opsets = self.walk.model.opsets
        rule = self.walk.operators.rule(node, opsets)
        made = [self.tensor(name).shape if name else None for name in node.outputs]
        return Op(self.walk, node, inputs, opsets.get(node.domain, 1), None, rule), made

    def links(self, node: Node) -> Links | None:
        """Axis links of a node from its operator's declaration. None if there are none."""
        try:
            return links_of(*self.view(node))
        except Unfollowed:
            return None

    def visit(self, node: Node) -> None:
        """Computes the rows of a node's outputs."""
        op, made = self.view(node)
        names = [*node.inputs, *node.captures]
        given = [self.of(name) if name else None for name in names]
        sure = [name == "" or self._is_known(name) for name in names]
        links: Links | str
        lists: Lists = ""
        try:
            links = links_of(op, made) or ""
        except Unfollowed as unfollowed:
            links, lists = str(unfollowed), unfollowed.lists
        found = flow(node, made, links, given, sure, self.symbols)
        if op.rule is not None and op.rule.bodies in ("one", "trips"):
            inside = self._branches if op.rule.bodies == "one" else self._trips
            found = inside(op, [o or _NOTHING for o in given[: len(node.inputs)]], made, found)
        found = through_lists(op, made, links, lists, given, found, self.symbols)
        for name, rows in zip(node.outputs, found, strict=False):
            if name:
                rows = self.rows[name] = self._by_value(name, rows, node)
                if not rows.mixed and isinstance(self.known(name), Tensor):
                    sizes = self.tensor(name).shape or ()
                    self.uniform.update(d for d in sizes if d.free.isdisjoint(self.symbols))

    def _inside(self, node: Node, attribute: str, graph: Graph, given: Mapping[str, Rows]) -> list[Rows]:
        """Return the rows of a subgraph's outputs, given the rows of its inputs."""
        made = {name for inner in graph.nodes for name in inner.outputs}
        own = made | graph.initializers.keys() | given.keys()
        prefix = f"{self.prefix}{node.label}/{attribute}/"
        child = Provenance(self.symbols, self.walk, self.look, self.is_expression, prefix, own, self)
        child.rows.update(given)
        for inner in graph.nodes:
            child.visit(inner)
        return [child.of(name) for name, _ in graph.outputs]

    def _branches(self, op: Op, given: Seq[Rows], made: Seq[Shape | None], found: Seq[Rows]) -> list[Rows]:
        """Return the common rows of both branches of an If, if the condition does not depend on any item."""
        sides = [self._inside(op.node, *inner, {}) for inner in op.node.subgraphs]
        broken = {s for s in self.symbols if given[0].depends(s)}
        return [self._either(broken, *each) for each in zip(found, *sides, strict=True)]

    def _trips(self, op: Op, given: Seq[Rows], made: Seq[Shape | None], found: Seq[Rows]) -> list[Rows]:
        """Rows of the outputs of Loop or Scan: rows stay independent if no row decides the trip count.

        A sequence that starts empty has the rows of its tensors where its result has them.
        """
        ((attribute, body),) = op.node.subgraphs
        scanned = op.node.attributes.get("num_scan_inputs")
        if scanned is None:
            starts = zip(op.node.inputs[2:], given[2:], made, strict=False)
            ends, states = 1, [Rows(layout_of(d), {}) if self._is_empty(n) else o for n, o, d in starts]
            inputs = [_NOTHING, _NOTHING, *states]
        elif op.version < 9:  # before opset 9, Scan has a batch axis
            return [*found]
        else:
            ends, states = 0, list(given[: len(given) - scanned])
            slices = [_slice(op, k, rows) for k, rows in enumerate(given[len(states) :])]
            inputs = [*states, *slices]
        out = self._inside(
            op.node, attribute, body, dict(zip([n for n, _ in body.inputs], inputs, strict=True))
        )
        decides, out = [*(given[:2] if ends else ()), *out[:ends]], out[ends:]
        stacked = enumerate(out[len(states) :])
        out = [*out[: len(states)], *(_stacked(op, k, rows) for k, rows in stacked)]
        broken = {s for s in self.symbols if any(o.depends(s) for o in decides)}
        for before, after in zip(states, out, strict=False):
            broken |= {*before.mixed, *after.mixed}
            broken |= {s for s in self.symbols if _where(before, s) != _where(after, s)}
        results = []
        for whole, rows, shape in zip(found, out, made, strict=True):
            torn = {s for s in self.symbols if not _is_whole(rows, shape, s)}
            results.append(self._either(broken | torn, whole, rows))
        return results

    def _either(self, broken: Collection[str], whole: Rows, *sides: Rows) -> Rows:
        """Return the common rows of alternative tensors.

        For `broken` symbols, and for symbols whose items are on different axes, the rows of `whole` are returned.
        """
        every = [whole, *sides]
        layout = max(every, key=lambda o: sum(o.place(s) is not None for s in self.symbols)).layout
        mixed = dict(whole.mixed)
        for symbol in self.symbols:
            held, where = [o for o in sides if o.depends(symbol)], _where(Rows(layout, {}), symbol)
            same = all(symbol not in o.mixed and _where(o, symbol) == where for o in held)
            if same and symbol not in broken:
                mixed.pop(symbol, None)
        return Rows(layout, mixed)

    def known(self, name: str) -> Known | None:
        """The known facts about a tensor, sequence or map visible in this scope."""
        if self.around is not None and name not in self.own:
            return self.around.known(name)
        return self.look(self.prefix + name)

    def tensor(self, name: str) -> Tensor:
        """The known type, shape and data of a tensor, or those common to the tensors of a sequence.

        Elements of a tensor are given if all are expressions of the input sizes.
        """
        known = self.known(name)
        one = known.elem if isinstance(known, Sequence) else known
        if not isinstance(one, Tensor):
            return Tensor()
        elems = one.value.elems if one is known and one.value is not None else None
        all_known = elems is not None and all(self.is_expression(e) or e in self.uniform for e in elems)
        return one if all_known else Tensor(one.dtype, one.shape)

    def _is_empty(self, name: str) -> bool:
        known = self.known(name)
        return isinstance(known, Sequence) and known.length is ZERO

    def _is_known(self, name: str) -> bool:
        value = self.tensor(name).value
        return value is not None and all(isinstance(e, Dim | Cond) for e in value.elems or ())

    def _by_value(self, name: str, rows: Rows, node: Node) -> Rows:
        """Return the rows of a tensor with known elements, which depends only on the symbols in them."""
        if not self._is_known(name):
            return rows
        known = self.tensor(name)
        free, shape = known.value.free if known.value is not None else (), known.shape or ()
        mixed = {}
        for symbol in self.symbols:
            if symbol in free:
                mixed[symbol] = Mixing(node.label, node.op_type, f"computes with the size of {symbol}")
            elif any(symbol in d.free for d in shape):
                return rows
        return Rows(layout_of(shape), mixed)


def _where(rows: Rows, symbol: str) -> tuple[int, int, Factors] | None:
    """Axis and factor index of a symbol's rows, and all factors of that axis; None if it has none."""
    at = rows.place(symbol)
    return None if at is None or rows.layout is None else (*at, rows.layout[at[0]])


def _is_whole(rows: Rows, made: Shape | None, symbol: str) -> bool:
    """True if the batch axis is the only one whose size depends on the symbol."""
    at = rows.place(symbol)
    return made is not None and [k for k, d in enumerate(made) if symbol in d.free] == (
        [] if at is None else [at[0]]
    )


def _slice(op: Op, k: int, rows: Rows) -> Rows:
    """The rows of the slice of a tensor read by an iteration of a Scan."""
    layout = rows.layout
    if layout is None:
        return rows
    axis, what = _axis(op, "input", k, len(layout)), "goes along the axis that holds the rows of"
    mixed = {s: Mixing(op.node.label, op.node.op_type, f"{what} {s}") for d in layout[axis] for s in d.free}
    return Rows((*layout[:axis], *layout[axis + 1 :]), {**mixed, **rows.mixed})


def _stacked(op: Op, k: int, rows: Rows) -> Rows:
    """The rows of iteration results stacked along a new axis."""
    layout = rows.layout
    if layout is None:
        return rows
    axis = _axis(op, "output", k, len(layout) + 1)
    return Rows((*layout[:axis], (), *layout[axis:]), rows.mixed)


def _axis(op: Op, side: str, k: int, rank: int) -> int:
    axes = op.attr(f"scan_{side}_axes") or ()
    axis = int(axes[k]) if k < len(axes) else 0
    return axis + rank if axis < 0 else axis


def trace(analysis: Analysis, symbols: Seq[str]) -> Provenance:
    """The provenance of every tensor of the main graph of an analyzed model."""
    names, walk = frozenset(analysis.symbols), analysis._solved.walk

    def look(name: str) -> Known | None:
        if name in analysis.shapes:
            return Tensor(analysis.dtypes.get(name, 0), analysis.shapes[name], analysis.values.get(name))
        return analysis._solved.lowered.tensors.get(name)

    found = Provenance(symbols, walk, look, lambda element: getattr(element, "free", names) <= names)
    for node in analysis.model.graph.nodes:
        found.visit(node)
    return found
