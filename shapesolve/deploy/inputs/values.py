"""Uses of integer inputs (indices, lengths, axes, sizes), and the value ranges they imply.

A range is over the model's symbols. An input without known uses is filled with 0 and 1, and reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...expr import Dim, Shape, as_dim, minimum
from ...lower.reads import INDICES as INDICES
from ...lower.rule import Reading, Rule
from ...model import Graph, Node
from ..limits import MAX_STEPS

if TYPE_CHECKING:
    from random import Random

    from ...analysis import Analysis


@dataclass(frozen=True, slots=True)
class Use:
    """Use of an integer input by a node: valid range and purpose.

    The range is `low` to `highs` (inclusive, over the model's symbols). `highs` has one bound, or one per column
    along the last axis.
    """

    low: Dim
    highs: tuple[Dim, ...]
    what: str
    node: str
    reading: Reading | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict, hash=False)
    shapes: tuple[Shape | None, ...] = ()

    @property
    def high(self) -> Dim:
        """The largest accepted value over all columns."""
        return minimum(*self.highs)

    def picked(self, rng: Random, count: int, known: Mapping[str, int]) -> Sequence[float] | None:
        """Return a random list of elements that are valid together, or None if elements are sampled one by one."""
        if self.reading is None or self.reading.pick is None:
            return None
        return self.reading.pick(rng, self.attributes, [_sizes(s, known) for s in self.shapes], count)


def uses_of_inputs(analysis: Analysis) -> dict[str, list[Use]]:
    """Return uses of the graph inputs' integer values, in graph order."""
    readers = _Readers(analysis)
    return {name: list(readers.uses(name)) for name in analysis.inputs}


def deciding_inputs(analysis: Analysis) -> list[str]:
    """Return graph inputs whose elements determine sizes, except positions.

    Arithmetic on small tensors is tracked, also through floats.
    """
    readers = _Readers(analysis)
    return [name for name in analysis.inputs if readers.decides(name)]


def unread_inputs(analysis: Analysis) -> list[str]:
    """Return unused inputs of the main graph."""
    read = {*_Readers(analysis).by_tensor, *(name for name, _ in analysis.model.graph.outputs)}
    return [name for name in analysis.inputs if name not in read]


def uses_of_computed(analysis: Analysis) -> Iterator[tuple[str, Use]]:
    """Return computed tensors that are used as indices, with their use. Stored tensors and inputs passed on are
    excluded.
    """
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


def _sizes(shape: Shape | None, known: Mapping[str, int]) -> tuple[int, ...] | None:
    if shape is None:
        return None
    sizes = [d.evaluate(known) for d in shape]
    return None if None in sizes else tuple(s for s in sizes if s is not None)


class _Readers:
    """Nodes that read each tensor, including those in subgraphs."""

    def __init__(self, analysis: Analysis) -> None:
        self.shapes = analysis.shapes
        self._rules, self._opsets = analysis._solved.request.rules, analysis.model.opsets
        self._found: dict[tuple[str, str], Rule | None] = {}
        self.by_tensor: dict[str, list[tuple[Node, int, str]]] = {}
        for node, prefix, names in _nodes(analysis.model.graph, "", {}):
            for position, name in enumerate(node.inputs):
                if name:
                    self.by_tensor.setdefault(names.get(name, prefix + name), []).append(
                        (node, position, prefix)
                    )

    def uses(self, tensor: str) -> Iterator[Use]:
        """Return the uses of a tensor's elements, also after reshapes and similar nodes."""
        for name in self.passed_on(tensor):
            for node, position, prefix in self.by_tensor.get(name, ()):
                use = self.use(node, position, prefix)
                if use is not None:
                    yield use

    def passed_on(self, tensor: str) -> Iterator[str]:
        """Return the full names of a tensor and of all tensors with the same elements."""
        waiting, seen = [tensor], {tensor}
        for _ in range(MAX_STEPS):
            if not waiting:
                return
            yield (reached := waiting.pop())
            for node, position, prefix in self.by_tensor.get(reached, ()):
                rule = self._rule(node)
                if rule is not None and position in rule.passes:
                    for name in filter(None, node.outputs[: rule.held]):
                        if prefix + name not in seen:
                            seen.add(prefix + name)
                            waiting.append(prefix + name)

    def decides(self, tensor: str) -> bool:
        """Return True if the elements of a tensor determine sizes, directly or through other nodes."""
        waiting, seen = [tensor], {tensor}
        for _ in range(MAX_STEPS):
            if not waiting:
                return False
            for node, position, prefix in self.by_tensor.get(waiting.pop(), ()):
                rule = self._rule(node)
                if rule is None or rule.sizes:
                    continue
                reading = (rule.reads or {}).get(position)
                if reading is not None and reading.pick is not None:
                    return True
                if position in rule.data and (reading is None or reading.what != INDICES):
                    return True
                if rule.values or position in rule.passes:
                    made = {prefix + name for name in node.outputs if name} - seen
                    waiting += filter(self._is_list, made)
                    seen |= made
        return False

    def _is_list(self, tensor: str) -> bool:
        shape = self.shapes.get(tensor)
        return shape is not None and len(shape) < 2

    def use(self, node: Node, position: int, prefix: str) -> Use | None:
        """Return the use of integer input number `position` by a node, or None if it does not use the elements."""
        rule = self._rule(node)
        reading = rule.reads.get(position) if rule is not None and rule.reads is not None else None
        if reading is None:
            return None
        shapes = [self.shapes.get(prefix + n) or self.shapes.get(n) if n else None for n in node.inputs]
        found = reading.limits(node.attributes, shapes)
        if found is None:
            return None
        low, *highs = found
        place = f"{prefix}{node.label}"
        return Use(
            as_dim(low), tuple(map(as_dim, highs)), reading.what, place, reading, node.attributes,
            tuple(shapes),
        )  # fmt: skip

    def _rule(self, node: Node) -> Rule | None:
        key = node.domain, node.op_type
        if key not in self._found:
            self._found[key] = self._rules.lookup(*key, self._opsets.get(node.domain, 0))
        return self._found[key]


def _nodes(
    graph: Graph, prefix: str, outside: Mapping[str, str]
) -> Iterator[tuple[Node, str, Mapping[str, str]]]:
    """Yield all nodes, with the prefix of their scope and the full names of outer tensors."""
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
