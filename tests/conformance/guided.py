"""Random models that mostly run: each node is tried on real data at one binding before it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

ort.set_default_logger_severity(4)
FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64
Array = np.ndarray[Any, Any]
#: what an input declares of a dim: a number, a name, an expression
Declared = int | str
_LARGEST = 2000


class Unfit(Exception):
    """The node that was tried does not run, or nothing fits it."""


def session(model: onnx.ModelProto) -> Any:
    """A plain onnxruntime session without optimizations."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def size_of(declared: Declared, sizes: Mapping[str, int]) -> int:
    """The size that a declared dim has: expressions here are sums of names and products with a number."""
    if isinstance(declared, int):
        return declared
    total = 0
    for part in declared.split("+"):
        product = 1
        for factor in part.split("*"):
            product *= int(factor) if factor.isdigit() else sizes[factor]
        total += product
    return total


class Guided:
    """Adds nodes whose data is known at the sizes `sizes` (`data`), so that most of them fit."""

    def __init__(self, seed: int) -> None:
        r = self.random = Random(seed)
        self.sizes = {n: r.choice((2, 3, 4, 6, 8)) for n in r.sample(("N", "M", "H", "seq"), r.randint(1, 3))}
        self.nodes: list[onnx.NodeProto] = []
        self.stored: dict[str, Array] = {}
        self.data: dict[str, Array] = {}
        self.declared: dict[str, list[Declared]] = {}
        self.made = 0
        for i in range(r.randint(1, 3)):
            dims = [self.dim() for _ in range(r.choice((1, 2, 2, 3, 4)))]
            self.declared[f"x{i}"] = dims
            self.data[f"x{i}"] = np.ones([size_of(d, self.sizes) for d in dims], np.float32)

    def dim(self) -> Declared:
        """A declared dim."""
        r = self.random
        name, other = r.choice(list(self.sizes)), r.choice(list(self.sizes))
        return r.choice((name,) * 7 + (1, 2, 3, 4, f"2*{name}", f"{name}+{other}"))

    # ------------------------------------------------------------------ pieces

    def const(self, values: Any, dtype: Any = np.int64) -> str:
        """A stored tensor."""
        self.made += 1
        name = f"c{self.made}"
        self.stored[name] = self.data[name] = np.asarray(values, dtype)
        return name

    def floats(self, rank: int = 0, most: int = 9) -> str:
        """A float tensor, more likely a late one."""
        found = [n for n, a in self.data.items() if a.dtype == np.float32 and rank <= a.ndim <= most]
        if not found:
            raise Unfit
        return self.random.choice(found[-5:] if self.random.random() < 0.6 else found)

    def add(self, op_type: str, inputs: list[str], n: int = 1, /, **attributes: Any) -> str:
        """A node, if it runs on the data at hand; its first output."""
        self.made += 1
        outputs = [f"t{self.made}_{k}" for k in range(n)]
        node = helper.make_node(op_type, inputs, outputs, name=f"n{self.made}", **attributes)
        feeds = {i: self.data[i] for i in inputs}
        infos = [
            helper.make_tensor_value_info(i, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for i, a in feeds.items()
        ]
        try:
            results = session(_model([node], infos, outputs, {})).run(None, feeds)
        except Exception:  # onnxruntime raises a dozen classes of its own
            raise Unfit from None
        if any(a.size > _LARGEST for a in results):
            raise Unfit
        self.nodes.append(node)
        self.data.update(zip(outputs, results, strict=True))
        return outputs[0]

    def size(self) -> str:
        """A vector of one size, made of sizes of tensors by arithmetic."""
        r = self.random
        kind = r.randrange(8)
        if kind < 4:
            x = self.floats(1)
            shape = self.add("Shape", [x])
            return self.add("Gather", [shape, self.const([r.randrange(self.data[x].ndim)])])
        if kind < 6:
            return self.add(r.choice(("Add", "Sub", "Mul", "Max", "Min")), [self.size(), self.size()])
        if kind == 6:
            return self.add(r.choice(("Div", "Mod", "Mul")), [self.size(), self.const([r.choice((2, 3))])])
        return self.const([r.choice((-1, 1, 2, 3, 4))])

    def split_sizes(self, x: str) -> str:
        """The shape of `x` with dims joined, split, copied or left to -1."""
        r, parts = self.random, list[str]()
        shape = self.add("Shape", [x])
        for i in range(self.data[x].ndim):
            d = self.add("Gather", [shape, self.const([i])])
            kind = r.randrange(6)
            if kind == 0 and parts:
                parts[-1] = self.add("Mul", [parts[-1], d])
            elif kind == 1:
                k = self.const([r.choice((2, 3))])
                parts += [self.add("Div", [d, k]), k]
            else:
                parts.append(self.const([-1]) if kind == 2 else self.const([0]) if kind == 3 else d)
        return self.add("Concat", parts, axis=0)

    # ------------------------------------------------------------------ nodes

    def step(self) -> None:
        """One random operator."""
        r = self.random
        x = self.floats(1)
        rank, shape = self.data[x].ndim, self.data[x].shape
        axis = r.randrange(rank)
        kind = r.randrange(16)
        if kind == 0:
            self.add(r.choice(("Add", "Mul", "Max")), [x, self.floats()])
        elif kind == 1:
            self.add("MatMul", [x, self.const(np.ones((shape[-1], 2)), np.float32)])
        elif kind == 2:
            self.add("MatMul", [x, self.floats(1)])
        elif kind == 3:
            self.add("Concat", [x, self.floats(rank, rank)], axis=axis)
        elif kind == 4:
            ends = self.size() if r.random() < 0.5 else self.const([r.choice((1, 2, -1, 100))])
            starts, step = self.const([r.choice((0, 1, -2, -100))]), self.const([r.choice((1, 1, 2, -1))])
            self.add("Slice", [x, starts, ends, self.const([axis]), step])
        elif kind == 5:
            self.add("Reshape", [x, self.split_sizes(x)])
        elif kind == 6:
            target = [self.size() for _ in range(r.randint(1, 3))]
            self.add("Reshape", [x, self.add("Concat", target, axis=0)])
        elif kind == 7:
            other = self.add("Shape", [self.floats()])
            self.add("Expand", [x, other])
        elif kind == 8:
            self.add("Transpose", [x], perm=r.sample(range(rank), rank))
        elif kind == 9:
            self.add(r.choice(("ReduceSum", "Softmax")), [x], **({} if r.random() < 0.5 else {"keepdims": 0}))
        elif kind == 10:
            self.add("Unsqueeze", [x, self.const([r.randint(-rank, rank)])])
        elif kind == 11:
            self.add("Split", [x], 2, axis=axis, num_outputs=2)
        elif kind == 12:
            self.add("Tile", [x, self.const([r.choice((1, 2)) for _ in shape])])
        elif kind == 13:
            x = self.floats(3, 4)
            k = [r.choice((1, 2, 3)) for _ in self.data[x].shape[2:]]
            options = {"strides": [r.choice((1, 2)) for _ in k], "pads": [r.choice((0, 1)) for _ in k * 2]}
            weight = self.const(np.ones((2, self.data[x].shape[1], *k)), np.float32)
            self.add("Conv", [x, weight], **options)
        elif kind == 14:
            x = self.floats(3, 4)
            k = [r.choice((1, 2, 3)) for _ in self.data[x].shape[2:]]
            self.add("MaxPool", [x], kernel_shape=k, strides=[2] * len(k), ceil_mode=r.randint(0, 1))
        else:
            less = self.add(r.choice(("Less", "Equal")), [self.size(), self.const([r.choice((1, 2, 4))])])
            self.add("Where", [less, self.size(), self.size()])


def _model(
    nodes: list[onnx.NodeProto], inputs: list[Any], outputs: list[str], stored: Mapping[str, Array]
) -> onnx.ModelProto:
    found = [onnx.ValueInfoProto(name=o) for o in outputs]
    initializers = [numpy_helper.from_array(a, n) for n, a in stored.items()]
    graph = helper.make_graph(nodes, "guided", inputs, found, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def guided_model(seed: int) -> tuple[onnx.ModelProto, Guided]:
    """A model (the same for the same seed) that gives out all of its tensors."""
    made = Guided(seed)
    wanted = made.random.choice((4, 8, 14))
    for _ in range(wanted * 4):
        if len(made.nodes) >= wanted:
            break
        try:
            made.step()
        except Unfit:
            continue
    inputs = [helper.make_tensor_value_info(n, FLOAT, dims) for n, dims in made.declared.items()]
    outputs = [o for node in made.nodes for o in node.output]
    return _model(made.nodes, inputs, outputs, made.stored), made
