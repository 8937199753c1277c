"""Draws a graph node by node: each node is tried on real data at one binding before it is kept, so most models run.

A `Builder` holds what a graph has so far and the data of every tensor at the sizes that the model is made at. Bodies of
`If`, `Loop`, `Scan` and of local functions are drawn by builders of their own (`Builder.inner`), which see outer names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .runtime import Array, Data, Failed, Session

FLOAT, INT, BOOL = np.dtype(np.float32), np.dtype(np.int64), np.dtype(bool)
#: no tensor of more elements, while a graph is drawn
LARGEST = 3000
#: a local function's domain
DOMAIN = "local"
#: the domain of onnxruntime's own operators
CONTRIB = "com.microsoft"
#: no tensor has data at sizes where a dim is more
WIDEST = 64


class Unfit(Exception):
    """The node that was tried does not run, or nothing fits it."""


def type_of(data: Data, dims: Sequence[int | str | None] | None = None) -> onnx.TypeProto:
    """The ONNX type of some data; of an array with these dims if they are given."""
    if isinstance(data, list):
        kind = helper.np_dtype_to_tensor_dtype(data[0].dtype) if data else onnx.TensorProto.FLOAT
        return helper.make_sequence_type_proto(helper.make_tensor_type_proto(kind, None))
    kind = helper.np_dtype_to_tensor_dtype(data.dtype)
    return helper.make_tensor_type_proto(kind, data.shape if dims is None else dims)


def untyped(name: str) -> onnx.ValueInfoProto:
    """An output that declares nothing."""
    return onnx.ValueInfoProto(name=name)


class Builder:
    """A graph in the making. Kinds of operators take one and add nodes to it."""

    def __init__(self, random: Random, opset: int, outer: Builder | None = None, prefix: str = "") -> None:
        self.random, self.opset, self.outer, self.prefix = random, opset, outer, prefix
        self.nodes: list[onnx.NodeProto] = []
        self.stored: dict[str, Array] = {}
        #: data of every tensor in sight, in order of its making
        self.data: dict[str, Data] = dict(outer.data) if outer else {}
        #: tensors that other nodes may take
        self.free: list[str] = list(outer.free) if outer else []
        self.functions: list[onnx.FunctionProto] = [] if outer is None else outer.functions
        self.counter: list[int] = [0] if outer is None else outer.counter
        self.depth: int = outer.depth + 1 if outer else 0
        #: names of the kinds of operators that may be drawn; None: all
        self.only: frozenset[str] | None = outer.only if outer else None
        #: in the body of a function: nothing from outside, no stored tensors
        self.closed = False

    def inner(self, closed: bool = False) -> Builder:
        """A builder for a body; a closed one (a function's) sees nothing of this graph."""
        body = Builder(self.random, self.opset, self)
        body.closed = closed
        if closed:
            body.data, body.free = {}, []
        return body

    def new(self, stem: str = "t") -> str:
        """A name that nothing has."""
        self.counter[0] += 1
        return f"{stem}{self.counter[0]}"

    # ------------------------------------------------------------------ what nodes take

    def chance(self, share: float) -> bool:
        """True in this share of draws."""
        return self.random.random() < share

    def choice(self, *options: Any) -> Any:
        """One of the options."""
        if not options:
            raise Unfit
        return self.random.choice(options)

    def const(self, values: Any, dtype: Any = np.int64) -> str:
        """A stored tensor, or the output of a Constant."""
        array = np.asarray(values, dtype)
        name = self.new("c")
        if self.closed or self.chance(0.15):
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)))
        else:
            self.stored[name] = array
        self.data[name] = array
        return name

    def pick(
        self,
        rank: int | tuple[int, int] | None = None,
        dtype: Any = FLOAT,
        where: Callable[[Array], bool] | None = None,
    ) -> str:
        """A tensor that fits, more likely a late one."""
        low, high = (0, 9) if rank is None else rank if isinstance(rank, tuple) else (rank, rank)
        found = [
            n
            for n in self.free
            if isinstance(a := self.data[n], np.ndarray)
            and a.dtype == dtype
            and low <= a.ndim <= high
            and (where is None or where(a))
        ]
        if not found:
            raise Unfit
        return str(self.random.choice(found[-6:] if self.chance(0.6) else found))

    def pick_sequence(self) -> str:
        """A sequence."""
        found = [n for n in self.free if isinstance(self.data[n], list)]
        if not found:
            raise Unfit
        return str(self.random.choice(found))

    def rank(self, name: str) -> int:
        """Of a tensor, at the sizes at hand."""
        return int(self.data[name].ndim)

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a tensor, at the sizes at hand."""
        return tuple(self.data[name].shape)

    def axis(self, name: str, negative: bool = True) -> int:
        """An axis of a tensor, counted from either side."""
        rank = self.rank(name)
        if rank == 0:
            raise Unfit
        return int(self.random.randrange(-rank if negative and self.chance(0.3) else 0, rank))

    def ints(self, values: Sequence[int]) -> str:
        """A vector of these numbers: stored, or sometimes made of sizes that have these values."""
        if not self.chance(0.25):
            return self.const(list(values))
        parts = [self.like(v) or self.const([v]) for v in values]
        if not parts:
            return self.const([])
        return parts[0] if len(parts) == 1 else self.add("Concat", parts, axis=0)

    def like(self, value: int) -> str | None:
        """A size of some tensor, as a vector of one element, that has this value here."""
        places = [
            (n, i)
            for n in self.free
            if isinstance(a := self.data[n], np.ndarray)
            for i, d in enumerate(a.shape)
            if d == value
        ]
        if not places:
            return None
        name, i = self.random.choice(places)
        return self.size_at(name, i)

    def size_at(self, name: str, i: int) -> str:
        """One size of a tensor as a vector of one element, the ways that exporters write it."""
        kind = self.random.randrange(4)
        if kind == 0 and self.opset >= 15:
            return self.add("Shape", [name], start=i, end=i + 1)
        shape = self.add("Shape", [name])
        if kind == 1:
            return self.add("Slice", [shape, self.const([i]), self.const([i + 1])])
        if kind == 2:
            scalar = self.add("Gather", [shape, self.const(i)], axis=0)
            return self.unsqueeze(scalar, [0])
        return self.add("Gather", [shape, self.const([i])], axis=0)

    def unsqueeze(self, name: str, axes: list[int]) -> str:
        """Axes as an input, or as an attribute before opset 13."""
        if self.opset >= 13:
            return self.add("Unsqueeze", [name, self.const(axes)])
        return self.add("Unsqueeze", [name], axes=axes)

    # ------------------------------------------------------------------ nodes

    def add(self, op_type: str, inputs: Sequence[str], n: int = 1, /, **attributes: Any) -> str:
        """A node of the standard, if it runs on the data at hand; its first output (empty attributes are left out)."""
        attributes = {name: value for name, value in attributes.items() if value != []}
        return self.put(helper.make_node(op_type, inputs, [self.new() for _ in range(n)], **attributes))[0]

    def contrib(self, op_type: str, inputs: Sequence[str], n: int = 1, /, **attributes: Any) -> str:
        """A node of onnxruntime's own."""
        return self.add(op_type, inputs, n, domain=CONTRIB, **attributes)

    def imports(self) -> list[onnx.OperatorSetIdProto]:
        """What operators come from."""
        return [helper.make_opsetid("", self.opset), helper.make_opsetid(CONTRIB, 1)]

    def put(self, node: onnx.NodeProto) -> list[str]:
        """A node, if it runs on the data at hand; its outputs."""
        node.name = node.name or f"n{self.new('')}"
        names = list(dict.fromkeys([*filter(None, node.input), *captured(node)]))
        if any(name not in self.data for name in names):
            raise Unfit
        graph = helper.make_graph(
            [node],
            "trial",
            [helper.make_value_info(name, type_of(self.data[name])) for name in names],
            [untyped(o) for o in node.output if o],
        )
        try:
            results = Session(self.model_of(graph)).run({name: self.data[name] for name in names})
        except Failed:
            raise Unfit from None
        for result in results.values():
            if not isinstance(result, (np.ndarray, list)):
                raise Unfit
            if isinstance(result, np.ndarray) and (
                result.size > LARGEST or max(result.shape, default=0) > WIDEST
            ):
                raise Unfit
        self.nodes.append(node)
        self.data.update(results)
        self.free += [o for o in node.output if o]
        return [o for o in node.output if o]

    def model_of(self, graph: onnx.GraphProto) -> onnx.ModelProto:
        """A model of a graph that may call the functions at hand."""
        imports = self.imports()
        if self.functions:
            imports.append(helper.make_opsetid(DOMAIN, 1))
        version = 8 if self.opset <= 18 else 10
        return helper.make_model(graph, opset_imports=imports, ir_version=version, functions=self.functions)


def captured(node: onnx.NodeProto) -> list[str]:
    """Outer names that the bodies of a node use."""
    found: list[str] = []
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            body = attribute.g
            own = {i.name for i in body.input} | {t.name for t in body.initializer}
            for inside in body.node:
                found += [n for n in [*inside.input, *captured(inside)] if n and n not in own]
                own.update(inside.output)
            found += [o.name for o in body.output if o.name not in own]
    return found
