"""Nodes that run, and the same with one operand changed: an axis more or fewer, another size, another element type.

`operands.jsonl` holds one node a line: operator, domain, opset, attributes, operands and the number of outputs. An operand is
its element type, shape, values (null: ones, or zeros of integers) and whether it is an initializer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import shapesolve

from ..fuzz.runtime import Failed, Session

#: element type: a similar one, which an operator need not take in its place; float for all others
_OTHER_TYPES = {
    TensorProto.FLOAT: TensorProto.DOUBLE,
    TensorProto.INT64: TensorProto.INT32,
    TensorProto.INT32: TensorProto.INT64,
}


class Operand(NamedTuple):
    """An operand of a node: `values` are repeated to fill its shape."""

    kind: int
    shape: tuple[int, ...]
    values: tuple[Any, ...] | None
    stored: bool

    @property
    def array(self) -> Any:
        """The operand's data."""
        kind = helper.tensor_dtype_to_np_dtype(self.kind)
        text = self.kind == TensorProto.STRING
        fallback: Any = "a" if text else 0 if kind.kind in "iub" else 1
        values = np.array(self.values or [fallback], object if text else None)
        return np.resize(values, self.shape).astype(object if text else kind)


class Node(NamedTuple):
    """A single node with its operands."""

    op_type: str
    domain: str
    opset: int
    attributes: dict[str, Any]
    operands: tuple[Operand | None, ...]
    n_out: int

    @property
    def name(self) -> str:
        """Domain, operator and opset."""
        return f"{self.domain}.{self.op_type}" if self.domain else f"{self.op_type}-{self.opset}"

    def model(self, names: bool) -> onnx.ModelProto:
        """The model of this node alone; with `names`, every input dim is a name of its own."""
        inputs, stored = [], []
        labels = ["" if o is None else f"x{i}" for i, o in enumerate(self.operands)]
        for label, operand in zip(labels, self.operands, strict=True):
            if operand is None:
                continue
            if operand.stored:
                stored.append(numpy_helper.from_array(operand.array, label))
                continue
            dims = [f"{label}_{k}" for k in range(len(operand.shape))] if names else operand.shape
            inputs.append(helper.make_tensor_value_info(label, operand.kind, dims))
        attributes = {
            k: helper.make_tensor(k, v["t"], v["d"], v["v"]) if isinstance(v, dict) else v
            for k, v in self.attributes.items()
        }
        outputs = [f"y{i}" for i in range(self.n_out)]
        node = helper.make_node(self.op_type, labels, outputs, domain=self.domain, name="node", **attributes)
        graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name=o) for o in outputs], stored)
        imports = [helper.make_opsetid("", 21 if self.domain else self.opset)]
        if self.domain:
            imports.append(helper.make_opsetid(self.domain, self.opset))
        return helper.make_model(graph, opset_imports=imports, ir_version=11 if self.opset > 22 else 10)

    @property
    def feeds(self) -> dict[str, Any]:
        """Data of the inputs."""
        return {f"x{i}": o.array for i, o in enumerate(self.operands) if o is not None and not o.stored}

    def changed(self) -> Iterator[tuple[str, Node]]:
        """Yields this node with one operand changed, and what was changed."""
        for i, operand in enumerate(self.operands):
            if operand is None:
                continue
            shape = operand.shape
            shapes = [(*shape, 1), (1, *shape)]
            if shape:
                shapes.append(shape[:-1])
            for k, d in enumerate(shape):
                shapes += [(*shape[:k], other, *shape[k + 1 :]) for other in (d + 1, 1)]
            for other in dict.fromkeys(s for s in shapes if s != shape):
                yield f"x{i} {list(shape)} -> {list(other)}", self._with(i, operand._replace(shape=other))
            kind = _OTHER_TYPES.get(operand.kind, TensorProto.FLOAT)
            values = operand.values if operand.kind != TensorProto.STRING else None
            what = f"x{i} {TensorProto.DataType.Name(operand.kind)} -> {TensorProto.DataType.Name(kind)}"
            yield what, self._with(i, operand._replace(kind=kind, values=values))

    def _with(self, i: int, operand: Operand) -> Node:
        return self._replace(operands=(*self.operands[:i], operand, *self.operands[i + 1 :]))


@cache
def nodes() -> tuple[Node, ...]:
    """All nodes of `operands.jsonl`."""
    lines = (Path(__file__).parent / "operands.jsonl").read_text().splitlines()
    return tuple(_node(*json.loads(line)) for line in lines)


def _node(op_type: str, domain: str, opset: int, attributes: Any, operands: Any, n_out: int) -> Node:
    made = [
        None if o is None else Operand(o[0], tuple(o[1]), None if o[2] is None else tuple(o[2]), o[3])
        for o in operands
    ]
    return Node(op_type, domain, opset, attributes, tuple(made), n_out)


def truth(node: Node, names: bool) -> tuple[str, list[tuple[int, ...] | None]]:
    """What onnxruntime does with the node (``runs``, ``limit`` for a kernel it lacks, or its message), and output shapes."""
    try:
        results = Session(node.model(names)).run(node.feeds)
    except Failed as failed:
        return ("limit" if failed.own_limit else " ".join(str(failed).split()) or "fails"), []
    return "runs", [getattr(r, "shape", None) for r in results.values()]


def verdict(node: Node, names: bool, shapes: Sequence[tuple[int, ...] | None]) -> tuple[str, str]:
    """What the analysis says of the node ("" if it accepts it), and an output shape that it got wrong."""
    a = shapesolve.analyze(node.model(names))
    given = {name: array.shape for name, array in node.feeds.items()}
    refused = "; ".join(map(str, a.check_inputs(given) if given else a.conflicts))
    if refused or not shapes:
        return refused, ""
    sizes = a.bind_inputs(given)
    for k, shape in enumerate(shapes):
        predicted = a.shapes.get(f"y{k}")
        if shape is None or predicted is None:
            continue
        dims = [d.evaluate(sizes) for d in predicted]
        if len(dims) != len(shape) or any(d not in (None, s) for d, s in zip(dims, shape, strict=True)):
            return "", f"y{k} is {list(shape)}, predicted {predicted} = {dims}"
    return "", ""
