"""Small models made node by node, and their runs with onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from . import building


def info(name: str, dims: Sequence[int | str | None] | None, dtype: int = TensorProto.FLOAT) -> Any:
    return helper.make_tensor_value_info(name, dtype, dims)


def ints(name: str, value: Any) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(value, np.int64), name)


def model(nodes: Any, inputs: Any, outputs: Sequence[str], stored: Sequence[Any] = ()) -> onnx.ModelProto:
    outs = [onnx.ValueInfoProto(name=o) for o in outputs]
    graph = helper.make_graph(list(nodes), "g", list(inputs), outs, list(stored))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def body(nodes: Any, outputs: Sequence[Any], inputs: Sequence[Any]) -> onnx.GraphProto:
    outs = [onnx.ValueInfoProto(name=o) if isinstance(o, str) else o for o in outputs]
    return helper.make_graph(list(nodes), "body", list(inputs), outs)


def run(m: onnx.ModelProto, **feeds: Any) -> list[np.ndarray[Any, Any]]:
    session = building.session(m)
    return list(session.run(None, feeds))


def z(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, np.float32)
