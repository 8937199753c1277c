"""What onnxruntime's kernels refuse when they are made or run: attributes, quantization parameters, labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import shapesolve

from ..building import run

ort = pytest.importorskip("onnxruntime")
node = helper.make_node
Input = tuple[int, Sequence[int]]


def _judged(
    made: onnx.NodeProto, inputs: Mapping[str, Input], constants: Mapping[str, Any], dynamic: bool
) -> tuple[bool, bool]:
    """Does onnxruntime run it, and does the analysis say so?"""
    names = {n: [f"{n}_{k}" if dynamic else d for k, d in enumerate(dims)] for n, (_, dims) in inputs.items()}
    graph = helper.make_graph(
        [made], "g",
        [helper.make_tensor_value_info(n, kind, names[n]) for n, (kind, _) in inputs.items()],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(c, n) for n, c in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    feeds = {n: np.zeros(dims, helper.tensor_dtype_to_np_dtype(kind)) for n, (kind, dims) in inputs.items()}
    try:
        run(model, feeds)
        runs = True
    except Exception:
        runs = False
    return runs, not shapesolve.analyze(model).check_inputs({n: array.shape for n, array in feeds.items()})


@pytest.mark.parametrize(("op_type", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_attributes_of_recurrent_layers(op_type: str, gates: int) -> None:
    own = {"LSTM": 3, "GRU": 2, "RNN": 1}[op_type]
    cases: list[tuple[str, dict[str, Any]]] = [("forward", {"clip": c}) for c in (-1.0, 0.0, 0.5)]
    names = ("Sigmoid", "sigmoid", "TANH", "Softplus", "softplus", "Nope", "LeakyRelu", "elu")
    cases += [("forward", {"activations": [name] * own}) for name in names]
    cases += [
        (d, {"activations": ["Tanh"] * k})
        for d, k in product(("forward", "reverse", "bidirectional"), range(1, 8))
    ]
    for direction, attributes in cases:
        n = 1 + (direction == "bidirectional")
        weights = {"w": np.ones((n, 2 * gates, 4), np.float32), "r": np.ones((n, 2 * gates, 2), np.float32)}
        made = node(op_type, ["x", "w", "r"], ["y"], hidden_size=2, direction=direction, **attributes)
        runs, said = _judged(made, {"x": (TensorProto.FLOAT, (3, 1, 4))}, weights, False)
        assert runs == said, (direction, attributes)


_A, _B = (TensorProto.UINT8, (4, 3)), (TensorProto.INT8, (3, 2))
_X, _W = (TensorProto.UINT8, (1, 3, 2, 2)), {"w": np.ones((2, 3, 1, 1), np.uint8)}
#: inputs in order, tensors among them, types of the parameters
QUANTIZED: dict[str, tuple[str, dict[str, Input], dict[str, Any], dict[str, Any]]] = {
    "MatMulInteger": ("a b az bz", {"a": _A, "b": _B}, {}, {"az": np.uint8, "bz": np.int8}),
    "QLinearMatMul": (
        "a as az b bs bz ys yz", {"a": _A, "b": _B}, {},
        {"as": np.float32, "az": np.uint8, "bs": np.float32, "bz": np.int8, "ys": np.float32, "yz": np.uint8},
    ),
    "ConvInteger": ("x w xz wz", {"x": _X}, _W, {"xz": np.uint8, "wz": np.uint8}),
    "QLinearConv": (
        "x xs xz w ws wz ys yz", {"x": _X}, _W,
        {"xs": np.float32, "xz": np.uint8, "ws": np.float32, "wz": np.uint8, "ys": np.float32, "yz": np.uint8},
    ),
}  # fmt: skip
SHAPES = [(), (1,), (2,), (3,), (4,), (1, 1), (1, 2), (4, 1), (3, 1), (3, 2), (4, 3), (0,)]


@pytest.mark.parametrize("op_type", QUANTIZED)
def test_sizes_of_quantization_parameters(op_type: str) -> None:
    names, inputs, constants, kinds = QUANTIZED[op_type]
    for parameter, shape in product(kinds, SHAPES):
        given = {n: np.ones(shape if n == parameter else (), kind) for n, kind in kinds.items()}
        runs, said = _judged(node(op_type, names.split(), ["y"]), inputs, {**constants, **given}, False)
        assert runs == said, (parameter, shape)


@pytest.mark.parametrize("op_type", ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_sizes_of_labels(op_type: str, dynamic: bool) -> None:
    shapes = [
        ((2, 4), (1,)),
        ((2, 4), (2,)),
        ((1, 4), (2,)),
        ((2, 4), (2, 1)),
        ((2, 4, 3), (2, 1)),
        ((2, 4, 3), (2, 3)),
        ((2, 4, 3), (1, 3)),
    ]
    for (scores, labels), reduction in product(shapes, ("none", "mean", "sum")):
        inputs = {"x": (TensorProto.FLOAT, scores), "t": (TensorProto.INT32, labels)}
        if dynamic and len(labels) != len(scores) - 1:
            continue  # the rank is declared
        runs, said = _judged(node(op_type, ["x", "t"], ["y"], reduction=reduction), inputs, {}, dynamic)
        assert runs == said, (scores, labels, reduction)
