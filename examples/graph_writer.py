"""Writes ONNX graphs with the names that PyTorch's exporter gives: `/attn/q_proj/MatMul_output_0`."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Attribute = int | float | str | Sequence[int] | onnx.TensorProto
OPSET = 17
IR_VERSION = 8


def _tensor(values: np.ndarray) -> onnx.TensorProto:
    return numpy_helper.from_array(values.astype("<i8" if values.dtype.kind == "i" else "<f4"))


class GraphWriter:
    """A graph under construction; values are handed around by name.

    There is no value_info, the dims of outputs are anonymous and weights are zeros: what an analyzer
    is told is the shapes of the inputs and of the weights.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._scope: list[str] = []
        self._used: Counter[str] = Counter()
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    @contextmanager
    def scope(self, part: str) -> Iterator[None]:
        """Nodes that are written inside are named `/.../part/...`."""
        self._scope.append(part)
        yield
        self._scope.pop()

    def input(self, name: str, dims: Sequence[int | str], dtype: int = TensorProto.FLOAT) -> str:
        """Declare a graph input."""
        self._inputs.append(helper.make_tensor_value_info(name, dtype, dims))
        return name

    def output(self, value: str, name: str, rank: int, dtype: int = TensorProto.FLOAT) -> None:
        """Declare `value` a graph output under a name of its own."""
        node = helper.make_node("Identity", [value], [name], name=self._unique("Identity"))
        self._nodes.append(node)
        self._outputs.append(helper.make_tensor_value_info(name, dtype, [None] * rank))

    def weight(self, name: str, *dims: int) -> str:
        """A float32 initializer of zeros."""
        full = ".".join([*self._scope, name])
        self._weights.append(numpy_helper.from_array(np.zeros(dims, "<f4"), full))
        return full

    def op(self, op_type: str, *inputs: str, **attributes: Attribute) -> str:
        """A node with one output; its name follows from the scope. Returns the output's name."""
        return self.ops(op_type, *inputs, outputs=1, **attributes)[0]

    def ops(self, op_type: str, *inputs: str, outputs: int, **attributes: Attribute) -> list[str]:
        """A node with several outputs."""
        name = self._unique(op_type)
        results = [f"{name}_output_{i}" for i in range(outputs)]
        node = helper.make_node(op_type, list(inputs), results, name=name)
        node.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
        self._nodes.append(node)
        return results

    def vector(self, *values: float) -> str:
        """A Constant node that holds a vector: int64 when all values are ints, float32 otherwise."""
        return self.op("Constant", value=_tensor(np.array(values)))

    def scalar(self, value: float) -> str:
        """A Constant node that holds a scalar: int64 for an int, float32 otherwise."""
        return self.op("Constant", value=_tensor(np.array(value)))

    def dim(self, value: str, axis: int) -> str:
        """The size of one axis as a vector of one, the way the exporter reads it."""
        shape = self.op("Shape", value)
        return self.op("Unsqueeze", self.op("Gather", shape, self.scalar(axis), axis=0), self.vector(0))

    def reshape(self, value: str, *target: str | int) -> str:
        """Reshape to a target that is put together from dims that were read and constants."""
        parts = [part if isinstance(part, str) else self.vector(part) for part in target]
        return self.op("Reshape", value, self.op("Concat", *parts, axis=0))

    def model(self) -> onnx.ModelProto:
        """The finished model; the same calls give the same bytes."""
        graph = helper.make_graph(self._nodes, self._name, self._inputs, self._outputs, self._weights)
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(
            graph, producer_name="shapesolve-examples", ir_version=IR_VERSION, opset_imports=opsets
        )

    def _unique(self, op_type: str) -> str:
        name = "/" + "/".join([*self._scope, op_type])
        n = self._used[name]
        self._used[name] += 1
        return f"{name}_{n}" if n else name
