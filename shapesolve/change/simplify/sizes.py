# compiled: see CONTRIBUTING.md
"""Rewrites the nodes that compute sizes, so that each size is computed once.

Each size comes from one Shape of an axis, each vector from sizes.

A vector of sizes is *wanted* if a node other than shape arithmetic reads it (the target of a Reshape, the limit of a Range).
Its elements are known expressions. They are recomputed from axes of tensors that exist before the first consumer, and the old
nodes are removed. The result is kept only if the graph gets smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from onnx import TensorProto

from ...expr import Dim, constant
from ...lower.limits import MAX_RANK
from ..arithmetic import Arithmetic
from ..draft import DraftGraph, DraftNode, as_array
from .knowledge import Dims, Knowledge
from .views import target_entries


class Strategy(NamedTuple):
    """A strategy for computing sizes. The cheapest one is used.

    Attributes:
        whole: the sizes of a tensor are taken from one Shape of it, by Gather.
        runs: sizes of axes in a row are taken together.
        reach: so many nodes may compute an expression for which there is an axis that has that size.
    """

    whole: bool
    runs: bool
    reach: int


class SizeOperand(NamedTuple):
    """An operand from which a node outside shape arithmetic reads sizes, with possible replacements.

    Attributes:
        at: the position of the node.
        node: the node.
        i: which of its inputs they are.
        choices: what would do there, best first.
    """

    at: int
    node: DraftNode
    i: int
    choices: list[Dims]


_STRATEGIES = tuple(Strategy(*strategy) for strategy in product((False, True), (False, True), (1, 4)))


def compute_sizes_once(known: Knowledge, stays: Callable[[DraftNode], bool]) -> list[DraftNode]:
    """Recomputes the size vectors of a graph if that makes it smaller. Returns the nodes whose operands changed."""
    graph, wanted = known.graph, [*_wanted(known, stays)]
    if not wanted:
        return []
    before = [(place.node, place.node.inputs) for place in wanted]
    axes, needed = _Axes(known), _Needed(graph, stays, wanted)
    least, best = needed.cost(()), None
    most = least[1]
    for strategy in _STRATEGIES:
        built = _rebuilt(known, wanted, strategy, axes)
        if built is not None:
            cost = needed.cost([node for _, node in built.nodes])
            if cost < least and cost[1] <= most:
                least, best = cost, strategy
        for node, inputs in before:
            node.inputs = inputs
    built = None if best is None else _rebuilt(known, wanted, best, axes)
    if built is None:
        return []
    graph.nodes = built.placed()
    return [place.node for place in wanted]


class _Needed:
    """Counts the nodes that a graph needs, for different choices of its size vectors.

    The part that needs none is traversed once.
    """

    def __init__(
        self, graph: DraftGraph, stays: Callable[[DraftNode], bool], wanted: Iterable[SizeOperand]
    ) -> None:
        self._makers = {name: node for node in graph.nodes for name in node.outputs if name}
        self._open: dict[int, list[int]] = {}  # the inputs of a node that are such vectors
        for place in wanted:
            self._open.setdefault(id(place.node), []).append(place.i)
        self._fixed: set[int] = set()
        self._readers: list[DraftNode] = []
        ends = [node for node in map(self._makers.get, graph.outputs) if node is not None]
        self._always = self._follow([*ends, *filter(stays, graph.nodes)], self._fixed, {})

    def cost(self, added: Iterable[DraftNode]) -> tuple[int, int]:
        """Cost and number of needed nodes with the current operands, possibly of new nodes. A Shape costs more."""
        made = {name: node for node in added for name in node.outputs}
        read = [node.inputs[i] for node in self._readers for i in self._open[id(node)]]
        begin = [maker for name in read if (maker := made.get(name) or self._makers.get(name))]
        more, shapes = self._follow(begin, set(), made)
        live = self._always[0] + more
        # compilers handle a Shape worse than a Gather of two numbers
        return live + 2 * (self._always[1] + shapes), live

    def _follow(
        self, waiting: list[DraftNode], seen: set[int], made: Mapping[str, DraftNode]
    ) -> tuple[int, int]:
        """Number of nodes needed in addition to those always needed, and the number of Shapes among them."""
        live, shapes, always = 0, 0, seen is self._fixed
        while waiting:
            node = waiting.pop()
            if id(node) in seen or id(node) in self._fixed:
                continue
            seen.add(id(node))
            live += not node.is_standard("Constant")
            shapes += node.is_standard("Shape")
            names = node.reads()
            if always and id(node) in self._open:
                self._readers.append(node)
                names = node.reads(except_for=self._open[id(node)])
            for name in names:
                maker = made.get(name) or self._makers.get(name)
                if maker is not None:
                    waiting.append(maker)
        return live, shapes


def _rebuilt(
    known: Knowledge, wanted: Iterable[SizeOperand], strategy: Strategy, axes: _Axes
) -> _Builder | None:
    """Builds the nodes that compute the vectors with this strategy, and connects their readers to them.

    None if no vector can be computed.
    """
    builder = _Builder(known, strategy, axes)
    changed = False
    for at, node, i, choices in wanted:
        name = node.inputs[i]
        rank, dtype = len(known.shape(name) or ()), known.dtype(name)
        found = next((v for c in choices if (v := builder.vector(c, rank, dtype, at)) is not None), None)
        if found is not None:
            node.inputs = [*node.inputs[:i], found, *node.inputs[i + 1 :]]
            changed = True
    return builder if changed else None


def _wanted(known: Knowledge, stays: Callable[[DraftNode], bool]) -> Iterator[SizeOperand]:
    """Operands from which nodes outside shape arithmetic read sizes."""
    made = {name for node in known.graph.nodes for name in node.outputs}
    for at, node in enumerate(known.graph.nodes):
        given = [i for i, name in enumerate(node.inputs) if name in made and _is_vector(known, name)]
        if not given or stays(node):
            continue
        if all(known.sizes(name) is not None for name in node.outputs if name):
            continue
        for i in given:
            sizes = known.sizes(node.inputs[i])
            if sizes is not None and any(d.terms for d in sizes):
                less = _sufficient(known, node, i)
                yield SizeOperand(at, node, i, [sizes] if less is None else [less, sizes])


def _is_vector(known: Knowledge, name: str) -> bool:
    """True if it is an integer vector or scalar of few elements that are all known sizes."""
    if known.dtype(name) not in (TensorProto.INT64, TensorProto.INT32):
        return False
    sizes = known.sizes(name)
    return sizes is not None and len(sizes) <= MAX_RANK


def _sufficient(known: Knowledge, node: DraftNode, i: int) -> Dims | None:
    """A cheaper target with the same result for Reshape (0 and -1) or Expand (1); None for other nodes."""
    if i != 1 or not node.is_standard("Reshape", "Expand") or node.attribute("allowzero", 0):
        return None
    given, out = known.shape(node.inputs[0]), known.shape(node.outputs[0])
    target = known.sizes(node.inputs[1])
    if given is None or out is None or target is None or len(target) != len(out):
        return None
    if node.op_type == "Expand":
        padded = (constant(1),) * (len(out) - len(given)) + given
        return tuple([constant(1) if a is b else b for a, b in zip(padded, out, strict=True)])
    entries = target_entries(given, out)
    if entries is None:
        return None
    inferred = -1
    for k, entry in enumerate(entries):  # the most expensive size is inferred, if the rest is never 0
        rest = all(known.at_least_one(d) for j, d in enumerate(out) if j != k)
        if entry is None and rest and (inferred < 0 or out[k].size > out[inferred].size):
            inferred = k
    return tuple(
        [
            constant(-1) if k == inferred else out[k] if entry is None else constant(entry)
            for k, entry in enumerate(entries)
        ]
    )


class _Axes:
    """For each size, an axis of a tensor from which a Shape node can read it.

    Attributes:
        positions: Position of the node that makes each tensor; -1 for a given tensor.
        sources: Axis of each size, on a graph input if possible, otherwise on a tensor whose shape the graph reads.
    """

    def __init__(self, known: Knowledge) -> None:
        self.known, self.graph = known, known.graph
        self.positions: dict[str, int] = {}
        self.sources: dict[Dim, tuple[str, int]] = {}
        graph = self.graph
        asked = {node.inputs[0] for node in graph.nodes if node.is_standard("Shape")}
        for name in sorted(graph.given, key=self._order()):
            self.positions[name] = -1
            self._offer(name)
        for at, node in enumerate(graph.nodes):
            for name in filter(None, node.outputs):
                self.positions[name] = at
                if name in asked:
                    self._offer(name)

    def _order(self) -> Callable[[str], tuple[int, str]]:
        origin = self.graph.origin
        names = [n if isinstance(n, str) else n[0] for n in origin.inputs]
        places = {name: i for i, name in enumerate(names)}
        return lambda name: (places.get(name, len(places)), name)

    def _offer(self, name: str) -> None:
        for axis, d in enumerate(self.known.shape(name) or ()):
            if d.terms:
                self.sources.setdefault(d, (name, axis))


class _Builder(Arithmetic):
    """Builds nodes that compute sizes and size vectors, each placed as early in the graph as possible."""

    def __init__(self, known: Knowledge, strategy: Strategy, axes: _Axes) -> None:
        self.known, self.graph, self.strategy, self.opset = known, known.graph, strategy, known.opset
        self.nodes: list[tuple[int, DraftNode]] = []
        self.positions, self.sources = {**axes.positions}, axes.sources
        self.names: dict[Any, str | None] = {}

    def placed(self) -> list[DraftNode]:
        """The nodes of the graph in order, with the new ones inserted."""
        before: dict[int, list[DraftNode]] = {}
        for at, node in self.nodes:
            before.setdefault(at, []).append(node)
        placed = before.get(-1, [])
        for at, node in enumerate(self.graph.nodes):
            placed.append(node)
            placed += before.get(at, ())
        return placed

    # ------------------------------------------------------------------ vectors

    def vector(self, entries: Dims, rank: int, dtype: int, reader: int) -> str | None:
        """Name of a tensor with these elements; None if it cannot be computed before node `reader`."""
        name: str | None
        if rank == 0:
            name = self._memo(("scalar", entries), lambda: self._scalar(entries[0]))
        else:
            name = self._memo(("vector", entries), lambda: self.joined(entries))
        if name is not None and dtype == TensorProto.INT32:
            whole = name
            name = self._memo(
                ("int32", whole), lambda: self._add("Cast", [whole], None, to=TensorProto.INT32)
            )
        return name if name is not None and self.positions[name] < reader else None

    def _scalar(self, d: Dim) -> str | None:
        if self._is_gathered and d in self.sources and d not in self.names:
            name, axis = self.sources[d]
            if (name, axis, axis + 1) not in self.names:
                index = self.known.constant(as_array(axis), "axis")
                self.positions[index] = -1
                return self._add("Gather", [self._whole(name), index], ())
        vector = self.size(d)
        return None if vector is None else self._add("Squeeze", [vector], ())

    @property
    def _is_gathered(self) -> bool:
        return self.strategy.whole or self.opset < 15  # only a Shape of all axes

    def piece(self, entries: Sequence[Dim], k: int) -> tuple[str | None, int]:
        """Name of a tensor with entry `k`, or with a run of entries that are adjacent axes of one tensor."""
        name, start, end = self._run(entries, k)
        if end - start > 1:
            return self._axes(name, start, end), end - start
        return self.size(entries[k]), 1

    def _run(self, entries: Sequence[Dim], k: int) -> tuple[str, int, int]:
        """The longest run of entries from `k` on that are adjacent axes of one tensor: name, start, end."""
        if not self.strategy.runs or entries[k] not in self.sources:
            return "", 0, 0
        name, axis = self.sources[entries[k]]
        shape, n = self.known.shape(name) or (), 1
        while axis + n < len(shape) and k + n < len(entries) and shape[axis + n] is entries[k + n]:
            n += 1
        while n > 1 and not entries[k + n - 1].terms:
            n -= 1
        return name, axis, axis + n

    def number(self, numbers: Iterable[int]) -> str:
        """Name of a constant vector, which can be read anywhere in the graph."""
        name = self.known.constant(as_array([*numbers]), "sizes")
        self.positions[name] = -1
        return name

    # ------------------------------------------------------------------ sizes

    def size(self, d: Dim) -> str | None:
        """Name of a tensor of one element that holds `d`, made by new nodes if needed. None if there can be none."""
        return self._memo(d, lambda: self._size(d))

    def _size(self, d: Dim) -> str | None:
        if not d.terms:
            return self.number([d.const])
        name, begun = None, len(self.nodes)
        if d.atom is None or d.atom.kind in ("//", "pos"):
            name = self.computed(d)
        if d not in self.sources or (name is not None and len(self.nodes) - begun <= self.strategy.reach):
            return name
        source, axis = self.sources[d]
        return self._axes(source, axis, axis + 1)

    def _axes(self, name: str, start: int, end: int) -> str | None:
        return self._memo((name, start, end), lambda: self._part(name, start, end))

    def _part(self, name: str, start: int, end: int) -> str:
        length = (constant(end - start),)
        rank = len(self.known.shape(name) or ())
        if end - start == rank:
            return self._whole(name)
        if not self._is_gathered:
            return self._add("Shape", [name], length, start=start, end=end)
        return self._add("Gather", [self._whole(name), self.number(range(start, end))], length)

    def _whole(self, name: str) -> str:
        rank = constant(len(self.known.shape(name) or ()))
        found = self._memo(("shape", name), lambda: self._add("Shape", [name], (rank,)))
        assert found is not None
        return found

    def rounds_down(self, n: Dim, d: Dim) -> bool:
        """True if the model's conditions on sizes show that the quotient is never negative."""
        low = self.known.facts.bounds(n)[0]
        return low is not None and low >= 0 and self.known.at_least_one(d)

    # ------------------------------------------------------------------ nodes

    def _memo(self, key: Any, make: Callable[[], str | None]) -> str | None:
        if key not in self.names:
            self.names[key] = make()
        return self.names[key]

    def node(self, op_type: str, inputs: list[str], length: int, hint: str = "", **attributes: int) -> str:
        """Adds a node directly after the last of the nodes that make its inputs."""
        key = (op_type, *inputs)
        found = self._memo(key, lambda: self._add(op_type, inputs, (constant(length),), **attributes))
        assert found is not None
        return found

    def _add(self, op_type: str, inputs: list[str], shape: Dims | None, **attributes: Any) -> str:
        node = self.graph.new_node(op_type, inputs, f"{op_type.lower()}_of_sizes", **attributes)
        name = node.outputs[0]
        self.positions[name] = max((self.positions.get(i, -1) for i in inputs), default=-1)
        self.nodes.append((self.positions[name], node))
        to = attributes.get("to", TensorProto.INT64)
        self.known.record(name, to, self.known.shape(inputs[0]) if shape is None else shape)
        return name
