"""What the integers of an input may be: followed forward to the operators that read them as indices, lengths, axes or sizes.

A range is in the symbols of the model. An input that nothing is known of is filled with 0 and 1, which is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..expr import Dim, Shape
from ..model import Graph, Node

if TYPE_CHECKING:
    from ..analysis import Analysis

#: what a read of places in a table is for
INDICES = "indices"
#: steps forward from one input
_MAX_STEPS = 5_000
#: of the inputs of a node
Shapes = list[Shape | None]


@dataclass(frozen=True, slots=True)
class Use:
    """How a node reads integers: at least `low`, at most `high` (inclusive; in the model's symbols), and what for."""

    low: Dim
    high: Dim
    what: str
    node: str


#: operators whose first output holds the elements of the input at one of these positions, in whatever order
_PASS: Mapping[str, frozenset[int]] = {
    **dict.fromkeys(
        ("Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Transpose", "Flatten", "Expand", "Tile", "Slice",
         "Gather", "GatherElements", "GatherND", "Dropout", "Split", "ReverseSequence", "Compress"),
        frozenset((0,)),
    ),
    "Where": frozenset((1, 2)),
    "Concat": frozenset(range(64)),
    "ReduceMax": frozenset((0,)),
    "ReduceMin": frozenset((0,)),
}  # fmt: skip


def _table(axis_of: Callable[[Node, Shape], int]) -> Callable[[Node, Shapes], tuple[int, Dim] | None]:
    """Indices along an axis of input 0."""

    def limit(node: Node, shapes: Shapes) -> tuple[int, Dim] | None:
        shape = shapes[0]
        if shape is None or not len(shape):
            return None
        axis = axis_of(node, shape)
        return (0, shape[axis] - 1) if -len(shape) <= axis < len(shape) else None

    return limit


def _attr(name: str, default: int) -> Callable[[Node, Shape], int]:
    def axis(node: Node, _shape: Shape) -> int:
        value = node.attributes.get(name, default)
        return value if isinstance(value, int) else default

    return axis


def _size(position: int, axis: int, low: int) -> Callable[[Node, Shapes], tuple[int, Dim] | None]:
    """At most the size of an axis of an input."""

    def limit(_node: Node, shapes: Shapes) -> tuple[int, Dim] | None:
        shape = shapes[position] if position < len(shapes) else None
        return (low, shape[axis]) if shape is not None and -len(shape) <= axis < len(shape) else None

    return limit


def _rows(position: int) -> Callable[[Node, Shapes], tuple[int, Dim] | None]:
    """Indices into the rows of an input."""

    def limit(_node: Node, shapes: Shapes) -> tuple[int, Dim] | None:
        shape = shapes[position] if position < len(shapes) else None
        return (0, shape[0] - 1) if shape is not None and len(shape) else None

    return limit


def _exactly(value: int) -> Callable[[Node, Shapes], tuple[int, Dim] | None]:
    return lambda _node, _shapes: (value, Dim(value))


#: how an operator reads an input as data: (operator, position) -> least value and greatest, and what it is for
_READS: Mapping[tuple[str, int], tuple[Callable[[Node, Shapes], tuple[int, Dim] | None], str]] = {
    ("Gather", 1): (_table(_attr("axis", 0)), INDICES),
    ("GatherElements", 1): (_table(_attr("axis", 0)), INDICES),
    ("ScatterElements", 1): (_table(_attr("axis", 0)), INDICES),
    ("GatherND", 1): (_table(_attr("batch_dims", 0)), INDICES),
    ("ScatterND", 1): (_table(lambda _n, _s: 0), INDICES),
    ("ArrayFeatureExtractor", 1): (_table(lambda _n, _s: -1), INDICES),
    ("EmbedLayerNormalization", 0): (_rows(2), INDICES),
    ("EmbedLayerNormalization", 1): (_rows(4), INDICES),
    ("LSTM", 4): (_size(0, 0, 1), "lengths of sequences"),
    ("GRU", 4): (_size(0, 0, 1), "lengths of sequences"),
    ("RNN", 4): (_size(0, 0, 1), "lengths of sequences"),
    ("ReverseSequence", 1): (_size(0, 0, 1), "lengths of sequences"),
    ("TopK", 1): (_size(0, -1, 1), "a count of elements"),
    ("OneHot", 1): (_exactly(4), "a depth"),
    ("Reshape", 1): (_exactly(-1), "a target shape"),
    ("Expand", 1): (_exactly(1), "a target shape"),
    ("Tile", 1): (_exactly(1), "repeats"),
    ("ConstantOfShape", 0): (_exactly(2), "a shape"),
    ("Pad", 1): (_exactly(0), "pads"),
    ("Slice", 1): (_exactly(0), "starts"),
    ("Slice", 2): (_exactly(2**31 - 1), "ends"),
    ("Slice", 4): (_exactly(1), "steps"),
    ("Squeeze", 1): (_exactly(0), "axes"),
    ("Unsqueeze", 1): (_exactly(0), "axes"),
    ("Range", 0): (_exactly(0), "a start"),
    ("Range", 1): (_exactly(4), "a limit"),
    ("Range", 2): (_exactly(1), "a step"),
    ("Loop", 0): (_exactly(3), "a trip count"),
    ("CumSum", 1): (_exactly(0), "an axis"),
    ("Trilu", 1): (_exactly(0), "a diagonal"),
}  # fmt: skip


def uses_of_inputs(analysis: Analysis) -> dict[str, list[Use]]:
    """How the integers of each input of the main graph are read, in graph order."""
    readers = _Readers(analysis)
    return {name: list(readers.uses(name)) for name in analysis.inputs}


def uses_of_computed(analysis: Analysis) -> Iterator[tuple[str, Use]]:
    """What the main graph reads as indices though it is computed: not stored, and not an input that was passed on."""
    readers = _Readers(analysis)
    graph = analysis.model.graph
    constants = {node.outputs[0] for node in graph.nodes if node.is_constant}
    passed = {name for given in analysis.inputs for name in readers.passed_on(given)}
    for node in graph.nodes:
        for position, name in enumerate(node.inputs):
            if name in passed or name in constants or name in graph.initializers or name in analysis.inputs:
                continue
            use = readers.use(node, position, "") if name else None
            if use is not None and use.what == INDICES:
                yield name, use


class _Readers:
    """Nodes by the tensors that they read, those of subgraphs included."""

    def __init__(self, analysis: Analysis) -> None:
        self.shapes = analysis.shapes
        self.by_tensor: dict[str, list[tuple[Node, int, str]]] = {}
        for node, prefix, names in _nodes(analysis.model.graph, "", {}):
            for position, name in enumerate(node.inputs):
                if name:
                    self.by_tensor.setdefault(names.get(name, prefix + name), []).append(
                        (node, position, prefix)
                    )

    def uses(self, tensor: str) -> Iterator[Use]:
        """Reads of a tensor's elements, directly or after they were passed on."""
        for name in self.passed_on(tensor):
            for node, position, prefix in self.by_tensor.get(name, ()):
                use = self.use(node, position, prefix)
                if use is not None:
                    yield use

    def passed_on(self, tensor: str) -> Iterator[str]:
        """A tensor and those that hold elements of it, with the prefixes of their scopes."""
        waiting, seen = [tensor], {tensor}
        for _ in range(_MAX_STEPS):
            if not waiting:
                return
            yield (reached := waiting.pop())
            for node, position, prefix in self.by_tensor.get(reached, ()):
                if position in _PASS.get(node.op_type, ()) and node.outputs:
                    passed = [o for o in node.outputs if o] if node.op_type == "Split" else [node.outputs[0]]
                    for name in passed:
                        if prefix + name not in seen:
                            seen.add(prefix + name)
                            waiting.append(prefix + name)

    def use(self, node: Node, position: int, prefix: str) -> Use | None:
        """How a node reads the integers of one of its inputs; None when it does not."""
        read = _READS.get((node.op_type, position))
        if read is None:
            return None
        shapes = [self.shapes.get(prefix + n) or self.shapes.get(n) if n else None for n in node.inputs]
        found = read[0](node, shapes)
        return None if found is None else Use(Dim(found[0]), found[1], read[1], f"{prefix}{node.label}")


def _nodes(
    graph: Graph, prefix: str, outside: Mapping[str, str]
) -> Iterator[tuple[Node, str, Mapping[str, str]]]:
    """Nodes with the prefix of their scope and, by name, the full names of tensors of the scopes around it."""
    yield from ((node, prefix, outside) for node in graph.nodes)
    for node in graph.nodes:
        for name, inner in node.subgraphs:
            there = {**outside, **{n: outside.get(n, prefix + n) for n in _given(graph)}}
            own = _given(inner)
            yield from _nodes(
                inner, f"{prefix}{node.label}/{name}/", {k: v for k, v in there.items() if k not in own}
            )


def _given(graph: Graph) -> set[str]:
    names: Iterable[str] = (o for node in graph.nodes for o in node.outputs if o)
    return {*names, *(n for n, _ in graph.inputs), *graph.initializers}
