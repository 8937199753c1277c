"""Quantization against runs."""

from __future__ import annotations

import onnx
import pytest

import shapesolve

from .conftest import FLOAT, agrees, broken, one, shapes

UINT8, INT8, UINT16 = onnx.TensorProto.UINT8, onnx.TensorProto.INT8, onnx.TensorProto.UINT16
BOTH = [("QuantizeLinear", FLOAT), ("DequantizeLinear", UINT8)]


@pytest.mark.parametrize(("op_type", "kind"), BOTH)
@pytest.mark.parametrize("opset", [10, 13, 19, 21, 23])
@pytest.mark.parametrize("zero", ["", "Z", None])
@pytest.mark.parametrize("scale", ["", "S"])
def test_per_tensor_and_per_axis(op_type: str, kind: int, opset: int, zero: str | None, scale: str) -> None:
    inputs = ["N C 4", scale] + ([] if zero is None else [zero])
    model = one(op_type, inputs, opset=opset, dtypes=[kind, FLOAT, UINT8][: len(inputs)])
    agrees(model, N=(0, 2), C=(0, 1, 3), S=(1, 3, 4), Z=(1, 3))


@pytest.mark.parametrize(("op_type", "kind"), BOTH)
def test_the_axis_may_be_any_one_in_range(op_type: str, kind: int) -> None:
    for axis in (-1, 2):
        agrees(
            one(op_type, ["N C 4", "S"], {"axis": axis}, dtypes=[kind, FLOAT]), N=(2,), C=(3,), S=(1, 3, 4)
        )
    agrees(one(op_type, ["N", "S"], {"axis": 1}, dtypes=[kind, FLOAT]), N=(1, 3), S=(1, 3))


@pytest.mark.parametrize(("op_type", "kind"), BOTH)
def test_blocked(op_type: str, kind: int) -> None:
    model = one(op_type, ["N C 4", "N B 4", "N B 4"], {"block_size": 2}, dtypes=[kind, FLOAT, UINT8])
    agrees(model, N=(0, 2), C=(1, 6, 7, 8, 9), B=(0, 1, 4))
    empty = {"N": 2, "C": 0, "B": 0}  # aborts when it is run
    assert (broken(shapesolve.analyze(model), empty) != "") is (op_type == "QuantizeLinear")
    model = one(op_type, ["N C 4", "M C K"], {"block_size": 2, "axis": -1}, dtypes=[kind, FLOAT])
    agrees(model, N=(2,), C=(3,), M=(1, 2), K=(1, 2, 4))


def test_a_block_needs_the_rank_of_the_input() -> None:
    assert shapesolve.analyze(one("QuantizeLinear", ["N 8", "4"], {"block_size": 2})).conflicts


@pytest.mark.parametrize(
    ("op_type", "kinds", "attrs", "opset", "expected"),
    [
        ("QuantizeLinear", [FLOAT, FLOAT], {}, 21, UINT8),
        ("QuantizeLinear", [FLOAT, FLOAT, INT8], {}, 10, INT8),
        ("QuantizeLinear", [FLOAT, FLOAT], {"output_dtype": UINT16}, 21, UINT16),
        ("DequantizeLinear", [UINT8, FLOAT], {}, 10, FLOAT),
        ("DequantizeLinear", [UINT8, onnx.TensorProto.FLOAT16], {}, 19, onnx.TensorProto.FLOAT16),
        ("DequantizeLinear", [UINT8, FLOAT], {"output_dtype": 10}, 23, onnx.TensorProto.FLOAT16),
    ],
)
def test_element_types(
    op_type: str, kinds: list[int], attrs: dict[str, int], opset: int, expected: int
) -> None:
    model = one(op_type, ["N", "", ""][: len(kinds)], attrs, dtypes=kinds, opset=opset)
    assert shapesolve.analyze(model).dtypes["y0"] == expected


def test_dynamic_quantize_linear() -> None:
    model = one("DynamicQuantizeLinear", ["N 3"], n_out=3)
    assert shapes(model) == ["[N, 3]", "[]", "[]"]
    agrees(model, N=(0, 1, 2))
