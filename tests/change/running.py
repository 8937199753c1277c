"""Models from text, and what onnxruntime makes of them before and after a change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from tests.fuzz.runtime import Data, Failed, Session

DEFAULT_OPSET = 18


def model_of(body: str, opset: int = DEFAULT_OPSET, functions: str = "") -> onnx.ModelProto:
    """A model from ``(inputs) => (outputs) <stored> { nodes }`` in onnx's own text format."""
    domains = ', "f" : 1' if functions else ""
    text = f'<ir_version: 8, opset_import: ["" : {opset}{domains}]>\ngraph {body}\n{functions}'
    model = onnx.parser.parse_model(text)
    onnx.checker.check_model(model)
    return model


def feeds(model: onnx.ModelProto, sizes: Mapping[str, int]) -> dict[str, Data]:
    """Inputs of these sizes, the same each time."""
    rng, found = np.random.default_rng(0), {}
    stored = {t.name for t in model.graph.initializer}
    for value in model.graph.input:
        if value.name not in stored:
            dims = value.type.tensor_type.shape.dim
            shape = [d.dim_value if d.HasField("dim_value") else sizes[d.dim_param] for d in dims]
            dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            found[value.name] = rng.integers(-4, 5, shape).astype(dtype)
    return found


def symbols(model: onnx.ModelProto) -> list[str]:
    """Names of the input dims."""
    dims = [d for v in model.graph.input for d in v.type.tensor_type.shape.dim]
    return list(dict.fromkeys(d.dim_param for d in dims if d.dim_param))


def ops(model: onnx.ModelProto) -> Counter[str]:
    """How many nodes there are of each operator, Constant left out."""
    return Counter(n.op_type for n in model.graph.node if n.op_type != "Constant")


def assert_same(model: onnx.ModelProto, changed: onnx.ModelProto, sizes: Mapping[str, int]) -> bool:
    """Do both give the same, bit for bit? False where the original does not run at these sizes."""
    given = feeds(model, sizes)
    try:
        want = Session(model).run(given)
    except Failed:
        return False
    got = Session(changed).run(given)
    assert list(want) == list(got)
    for name in want:
        a, b = want[name], got[name]
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()), f"{name} at {sizes}"
    return True


def weighted(path: Path) -> onnx.ModelProto:
    """The model with drawn weights where the corpus has left them out."""
    model = onnx.load(path, load_external_data=False)
    rng = np.random.default_rng(0)
    for tensor in model.graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            kind = helper.tensor_dtype_to_np_dtype(tensor.data_type)
            drawn = (
                rng.standard_normal(tuple(tensor.dims)) * 0.05 if kind.kind == "f" else np.zeros(tensor.dims)
            )
            tensor.CopyFrom(onnx.numpy_helper.from_array(drawn.astype(kind), tensor.name))
    return model
