# compiled: see CONTRIBUTING.md
"""Shapes, types and values of a draft's tensors by scope, updated as changes edit it.

The graph inside a node is one scope of the analysis. The body of a function is as many as there are calls, and a change
to it must be right in each: a size that differs from call to call is one symbol for all of them together, so what is
proved of that symbol holds in every call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from ...analysis import Analysis
from ...expr import Dim, constant, symbol
from ...lower.limits import MAX_ELEMENTS, MAX_FLOATS
from ...model import AttrRef, Constant, Function
from ..draft import Draft, DraftGraph, DraftNode
from ..limits import MAX_CALLS

#: element types of integers and booleans, whose values an analysis follows exactly
_WHOLE = frozenset((2, 3, 4, 5, 6, 7, 9, 12, 13))
_FLOATS = frozenset((1, 10, 11))
Dims = tuple[Dim, ...]


class Knowledge:
    """The known facts about the tensors of one graph or body.

    Attributes:
        graph: the graph.
        opset: version of the standard operators in it.
        facts: what the constraints settle.
    """

    def __init__(
        self, analysis: Analysis, graph: DraftGraph, scopes: Sequence[str], around: Knowledge | None = None
    ) -> None:
        self.analysis, self.graph, self.scopes, self.around = analysis, graph, tuple(scopes), around
        self.facts = analysis._solved.facts
        self.opset: int = analysis.model.opsets.get("", 1)
        if isinstance(graph.origin, Function):
            self.opset = graph.origin.opsets.get("", 1)
        elif around is not None:
            self.opset = around.opset
        self._own = graph.given | {name for node in graph.nodes for name in node.outputs}
        self._elsewhere: dict[str, tuple[Knowledge, str]] = {}
        self._added: dict[str, tuple[int, Dims | None]] = {}
        self._arrays: dict[str, NDArray[Any] | None] = {}
        self._joint: dict[Dims, Dim] = {}
        self._drawing: dict[tuple[str, str], bool] = {}

    # ------------------------------------------------------------------ asking

    def shape(self, name: str) -> Dims | None:
        """The shape of a tensor; None if its rank is unknown (or not the same in all calls)."""
        if name in self._added:
            return self._added[name][1]
        place = self._place(name)
        if place is not None:
            return place[0].shape(place[1])
        shapes = [self.analysis.shapes.get(scope + name) for scope in self.scopes]
        if not shapes or shapes[0] is None:
            return None
        first = tuple(shapes[0])
        if len(shapes) == 1:
            return first
        others = [tuple(shape) for shape in shapes if shape is not None and len(shape) == len(first)]
        return tuple(map(self._join, *others)) if len(others) == len(shapes) else None

    def dtype(self, name: str) -> int:
        """The element type of a tensor, 0 if it is unknown."""
        if name in self._added:
            return self._added[name][0]
        place = self._place(name)
        if place is not None:
            return place[0].dtype(place[1])
        dtypes = self.analysis.dtypes
        if len(self.scopes) == 1:
            return dtypes.get(self.scopes[0] + name, 0)
        types = {dtypes.get(scope + name, 0) for scope in self.scopes}
        return types.pop() if len(types) == 1 else 0

    def sizes(self, name: str) -> Dims | None:
        """The elements of an integer scalar or vector when all are known, as numbers or expressions."""
        array = self.array(name)
        if array is not None:
            whole = array.dtype.kind in "iu" and array.ndim < 2
            return tuple([constant(v) for v in array.reshape(-1).tolist()]) if whole else None
        place = self._place(name)
        if place is not None:
            return place[0].sizes(place[1])
        if len(self.scopes) != 1:
            return None
        value = self.analysis.values.get(self.scopes[0] + name)
        if value is None or value.elems is None or value.shape is None or len(value.shape) > 1:
            return None
        found = tuple([e for e in value.elems if isinstance(e, Dim)])
        return found if len(found) == len(value.elems) else None

    def array(self, name: str) -> NDArray[Any] | None:
        """The data of a small tensor that is the same for every input, or None."""
        if name not in self._arrays:
            place = self._place(name)
            self._arrays[name] = self._constant(name) if place is None else place[0].array(place[1])
        return self._arrays[name]

    def ints(self, name: str) -> tuple[int, ...] | None:
        """The data of a small constant tensor of integers, flat."""
        array = self.array(name) if name else None
        return None if array is None or array.dtype.kind not in "iu" else tuple(array.reshape(-1).tolist())

    def at_least_one(self, d: Dim) -> bool:
        """True if the size is at least 1 at all accepted sizes."""
        low = d.const if not d.terms else self.facts.bounds(d)[0]
        return low is not None and low >= 1

    # ------------------------------------------------------------------ telling

    def record(self, name: str, dtype: int, shape: Dims | None) -> None:
        """Records type and shape of a tensor that an edit adds."""
        self._added[name] = dtype, shape

    def record_array(self, name: str, array: NDArray[Any]) -> None:
        """Records the data of a constant that an edit adds."""
        self._arrays[name] = array
        shape = tuple([constant(n) for n in array.shape])
        self.record(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape)

    def constant(self, array: NDArray[Any], hint: str) -> str:
        """Adds a constant to this graph and returns its name."""
        name = self.graph.constant(array, hint)
        self.record_array(name, array)
        return name

    def moved(self, name: str, source: Knowledge, old: str) -> None:
        """Records that tensor `name` is a tensor moved here, called `old` in the graph of `source`."""
        self._elsewhere[name] = source, old

    def is_own(self, name: str) -> bool:
        """True if it is a tensor of this graph, not of an outer one."""
        return name in self._own or name in self._added or name in self._elsewhere

    def draws(self, node: DraftNode) -> bool:
        """True if the node's operator is declared nondeterministic."""
        key = node.domain, node.op_type
        if key not in self._drawing:
            rule = self.analysis._solved.request.rules.lookup(*key, self.opset)
            self._drawing[key] = rule is not None and rule.draws
        return self._drawing[key]

    # ------------------------------------------------------------------ finding

    def _place(self, name: str) -> tuple[Knowledge, str] | None:
        """Graph and name of a tensor of an outer graph, or of one moved here; None for others."""
        if name in self._elsewhere:
            return self._elsewhere[name]
        if self.around is not None and name not in self._own and name not in self._added:
            return self.around, name
        return None

    def _join(self, *dims: Dim) -> Dim:
        if all(d is dims[0] for d in dims) and not dims[0].terms:
            return dims[0]
        if dims not in self._joint:
            lows = [self.facts.bounds(d)[0] for d in dims]
            least = min([0 if low is None else max(low, 0) for low in lows])
            self._joint[dims] = symbol(f"each call {len(self._joint)}", least)
        return self._joint[dims]

    def _constant(self, name: str) -> NDArray[Any] | None:
        found = self._stored(name)
        if found is not None or not self.scopes:
            return found
        arrays = [self._value(scope + name) for scope in self.scopes]
        first = arrays[0]
        same = first is not None and all(array is not None and _same(first, array) for array in arrays)
        return first if same else None

    def _value(self, full: str) -> NDArray[Any] | None:
        value, dtype = self.analysis.values.get(full), self.analysis.dtypes.get(full, 0)
        if value is None or dtype not in _WHOLE or value.shape is None:
            return None
        flat = value.concrete
        if flat is None or len(flat) > MAX_ELEMENTS:
            return None
        made = helper.tensor_dtype_to_np_dtype(dtype)
        if made.kind != "b" and flat:
            limits = np.iinfo(made)
            if min(flat) < limits.min or max(flat) > limits.max:
                return None
        return np.array(flat, dtype=made).reshape(value.shape)

    def _stored(self, name: str) -> NDArray[Any] | None:
        """Data of a small stored float tensor, with the sign of zero, which an analysis loses."""
        origin = self.graph.origin
        stored = None if isinstance(origin, Function) else origin.initializers.get(name)
        if not isinstance(stored, Constant) or stored.numel > MAX_FLOATS or stored.dtype not in _FLOATS:
            return None
        return stored.array(MAX_FLOATS)

    def record_stored(self, node: DraftNode) -> None:
        """Records the data of a Constant node that holds few floats."""
        value = node.attribute("value")
        single = node.attribute("value_float")
        if isinstance(value, Constant) and value.dtype in _FLOATS and value.numel <= MAX_FLOATS:
            array = value.array(MAX_FLOATS)
            if array is not None:
                self._arrays[node.outputs[0]] = array
        elif single is not None and not isinstance(single, AttrRef):
            self._arrays[node.outputs[0]] = np.array(single, np.float32)


def _same(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def bodies(analysis: Analysis, draft: Draft) -> Iterator[Knowledge]:
    """Knowledge of the main graph, each function body, and their inner graphs, outer ones first."""
    calls = _calls(draft)
    clear = _clear(draft, calls)
    main = Knowledge(analysis, draft.graph, [""])
    yield main
    yield from _inside(main, clear)
    for key, body in draft.functions.items():
        scopes = calls.get(key, [])
        known = scopes if len(scopes) <= MAX_CALLS and all(scope in clear for scope in scopes) else []
        knowledge = Knowledge(analysis, body, known)
        yield knowledge
        yield from _inside(knowledge, clear)


def _inside(knowledge: Knowledge, clear: set[str]) -> Iterator[Knowledge]:
    for node in knowledge.graph.nodes:
        for attribute, graph in node.graphs.items():
            scopes = [f"{scope}{node.label}/{attribute}/" for scope in knowledge.scopes]
            if not all(scope in clear for scope in scopes):
                scopes = []
            inner = Knowledge(knowledge.analysis, graph, scopes, knowledge)
            yield inner
            yield from _inside(inner, clear)


def _calls(draft: Draft) -> dict[Any, list[str]]:
    found: dict[Any, list[str]] = {}
    waiting: list[tuple[DraftGraph, str]] = [(draft.graph, "")]
    while waiting:
        graph, scope = waiting.pop()
        for node in graph.nodes:
            key = node.domain, node.op_type, "" if node.origin is None else node.origin.overload
            if key in draft.functions:
                scopes = found.setdefault(key, [])
                scopes.append(f"{scope}{node.label}/")
                if len(scopes) <= MAX_CALLS:
                    waiting.append((draft.functions[key], scopes[-1]))
            for attribute, inner in node.graphs.items():
                waiting.append((inner, f"{scope}{node.label}/{attribute}/"))
    return found


def _clear(draft: Draft, calls: dict[Any, list[str]]) -> set[str]:
    """Scopes with unambiguous names, as node labels can repeat or look like a scope."""
    scopes: list[tuple[str, DraftGraph]] = [("", draft.graph)]
    scopes += [(scope, draft.functions[key]) for key, found in calls.items() for scope in found]
    full: list[tuple[str, DraftGraph]] = []
    while scopes:
        scope, graph = scopes.pop()
        full.append((scope, graph))
        scopes += [
            (f"{scope}{node.label}/{attribute}/", inner)
            for node in graph.nodes
            for attribute, inner in node.graphs.items()
        ]
    if len(full) == 1:
        return {""}
    names = Counter(
        scope + name
        for scope, graph in full
        for name in graph.given.union(*[node.outputs for node in graph.nodes])
    )
    return {
        scope
        for scope, graph in full
        if all(names[scope + name] == 1 for name in graph.given.union(*[n.outputs for n in graph.nodes]))
    }
