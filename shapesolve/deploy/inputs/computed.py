"""Check that indices computed from integer inputs stay within their tables.

The range of such an index depends on sizes and data together, so no condition on sizes describes it. The tensors that
it is computed from are small, and are evaluated for the generated inputs by ONNX's reference evaluator. If they are
not small, or depend on floating-point results, nothing is reported. https://onnx.ai/onnx/api/reference.html
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ...lazy import cached_property
from ...model import Constant, Node
from ..limits import MAX_COMPUTED, MAX_NODES
from .values import Use, uses_of_computed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...analysis import Analysis

    Arrays = Mapping[str, NDArray[Any]]

#: values tried for an input that an index depends on, in addition to sizes; max. number of tried values
_SMALL, _MOST_TRIED = range(-4, 17), 64


@dataclass(frozen=True, slots=True)
class _Path:
    """Computed index: the nodes that compute it, and the inputs they read."""

    index: str
    use: Use
    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    shapes: tuple[str, ...]


class ComputedIndices:
    """Computed indices of a model, and inputs for which they are valid."""

    def __init__(self, analysis: Analysis, stored: Collection[str] = ()) -> None:
        #: if `stored` is given, only indices computed from these tensors, which are no longer inputs
        self.analysis, self.stored = analysis, stored

    def outside(self, feed: Arrays, at: Mapping[str, int]) -> Use | None:
        """Return the use of the first computed index that is out of range for these inputs, or None."""
        path = self._outside(self._paths, feed, {**self.analysis.bindings, **at})
        return None if path is None else path.use

    def mended(
        self, feed: Arrays, at: Mapping[str, int], free: Collection[str], rng: np.random.Generator
    ) -> dict[str, NDArray[Any]] | None:
        """Return the inputs, with integers in `free` replaced until computed indices are in range; None if that fails.

        Candidates are values that work for all elements at once.
        """
        known, out = {**self.analysis.bindings, **at}, dict(feed)
        for _ in self._paths:
            path = self._outside(self._paths, out, known)
            if path is None:
                return out
            drawn = (self._inside(name, out, known, rng) for name in path.inputs if name in free)
            found = next((arrays for arrays in drawn if arrays is not None), None)
            if found is None:
                return None
            out.update(found)
        return None if self._outside(self._paths, out, known) is not None else out

    def _inside(
        self, name: str, feed: Arrays, known: Mapping[str, int], rng: np.random.Generator
    ) -> Arrays | None:
        """Return values for one input that keep the indices computed from it in range, or None if none are found."""
        paths = [path for path in self._paths if name in path.inputs]
        array = feed[name]
        sizes = {n + k for n in known.values() for k in (-1, 0)}
        info = np.iinfo(array.dtype)
        tried = [n for n in sorted({*_SMALL, *sizes, *(-n for n in sizes)}) if info.min <= n <= info.max]

        def suits(candidate: NDArray[Any]) -> bool:
            return self._outside(paths, {**feed, name: candidate}, known) is None

        alike = [np.full_like(array, n) for n in tried[:_MOST_TRIED]]
        inside = [candidate for candidate in alike if suits(candidate)]
        if not inside or not array.size:
            return None
        mixed = np.asarray(rng.choice([c.flat[0] for c in inside], array.shape), array.dtype)
        return {name: mixed if suits(mixed) else inside[int(rng.integers(len(inside)))]}

    def _outside(self, paths: Iterable[_Path], feed: Arrays, known: Mapping[str, int]) -> _Path | None:
        for path in paths:
            ends = [high.evaluate(known) for high in path.use.highs]
            found = None if None in ends else self._computed(path, feed, known)
            if found is None or not found.size:
                continue
            high = np.array(ends if len(ends) > 1 else ends[0])
            # Negative indices count from the end, unless the axis is empty.
            if np.any((found > high) | (found < -high - 1)):
                return path
        return None

    @cached_property
    def _paths(self) -> tuple[_Path, ...]:
        graph = self.analysis.model.graph
        producers = {name: node for node in graph.nodes for name in node.outputs if name}
        found = (self._path(name, use, producers) for name, use in uses_of_computed(self.analysis))
        return tuple(path for path in found if path is not None)

    def _path(self, index: str, use: Use, producers: Mapping[str, Node]) -> _Path | None:
        nodes: dict[int, Node] = {}
        inputs: set[str] = set()
        shapes: set[str] = set()
        read = False
        waiting = [index]
        while waiting:
            name = waiting.pop()
            node = producers.get(name)
            read |= name in self.stored
            if node is None:
                if self._constant(name) is None:
                    if name not in self.analysis.inputs or not self._is_whole(name):
                        return None
                    inputs.add(name)
            elif not node.is_constant and node.index not in nodes:
                rule = None if node.domain else self.analysis._solved.lowered.rule(node, "")
                if rule is None or rule.draws or node.subgraphs or len(nodes) >= MAX_NODES:
                    return None
                nodes[node.index] = node
                if rule.sizes:
                    shapes.add(node.inputs[0])
                else:
                    waiting += [n for n in node.inputs if n]
        if self.stored and (inputs or not read):
            return None
        if not self.stored and not inputs:
            return None
        made = {name for node in nodes.values() for name in node.outputs}
        return _Path(
            index, use, tuple(nodes[k] for k in sorted(nodes)), tuple(sorted(inputs)), tuple(sorted(shapes - made - inputs))
        )  # fmt: skip

    def _is_whole(self, name: str) -> bool:
        """Return True if an input has integer or boolean elements."""
        return helper.tensor_dtype_to_np_dtype(self.analysis.dtypes[name]).kind in "iub"

    @cached_property
    def _constants(self) -> Mapping[str, Node]:
        return {n.outputs[0]: n for n in self.analysis.model.graph.nodes if n.is_constant}

    def _constant(self, name: str) -> NDArray[Any] | None:
        graph = self.analysis.model.graph
        stored = graph.initializers.get(name)
        return stored.array(MAX_COMPUTED) if isinstance(stored, Constant) else None

    def _computed(self, path: _Path, feed: Arrays, known: Mapping[str, int]) -> NDArray[Any] | None:
        """Return the value of a computed index for these inputs, or None if it cannot be evaluated."""
        from onnx.reference import ReferenceEvaluator

        given = {name: feed[name] for name in path.inputs}
        for name in path.shapes:
            sizes = self._sizes(name, known)
            if sizes is None:
                return None
            given[name] = np.broadcast_to(
                np.float32(0), sizes
            )  # a single element in memory, broadcast to any size
        if not self._is_small(path, known):
            return None
        model = self._model(path, given)
        if model is None:
            return None
        try:
            (found,) = ReferenceEvaluator(model).run([path.index], dict(given))
        except (
            Exception
        ):  # unsupported by the evaluator: the index is unknown, and onnxruntime reports it if it is invalid
            return None
        return np.asarray(found)

    def _sizes(self, name: str, known: Mapping[str, int]) -> tuple[int, ...] | None:
        shape = self.analysis.shapes.get(name)
        sizes = [None] if shape is None else [d.evaluate(known) for d in shape]
        return None if any(n is None or n < 0 for n in sizes) else tuple(n or 0 for n in sizes)

    def _is_small(self, path: _Path, known: Mapping[str, int]) -> bool:
        names: Iterable[str] = (name for node in path.nodes for name in node.outputs if name)
        shapes = (self._sizes(name, known) for name in names)
        return all(sizes is not None and prod(sizes) <= MAX_COMPUTED for sizes in shapes)

    def _model(self, path: _Path, given: Arrays) -> Any:
        stored = dict(self._stored(path, given))
        if any(array is None for array in stored.values()):
            return None
        graph = helper.make_graph(
            [_of_the_standard(node) for node in path.nodes],
            "indices",
            [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                for name, array in given.items()
            ],
            [helper.make_tensor_value_info(path.index, TensorProto.INT64, None)],
            [
                numpy_helper.from_array(np.array(array), name)
                for name, array in stored.items()
                if array is not None
            ],
        )
        opset = self.analysis.model.opsets.get("", 1)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])

    def _stored(self, path: _Path, given: Arrays) -> Iterator[tuple[str, NDArray[Any] | None]]:
        made = {name for node in path.nodes for name in node.outputs}
        for name in {name for node in path.nodes for name in node.inputs if name} - made - given.keys():
            if name in self._constants:
                value = self._constants[name].attributes.get("value")
                yield name, value.array(MAX_COMPUTED) if isinstance(value, Constant) else None
            else:
                yield name, self._constant(name)


def _of_the_standard(node: Node) -> onnx.NodeProto:
    """Return the node with its domain as the evaluator expects it."""
    if not node.proto.domain:
        return node.proto
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    proto.domain = ""
    return proto
