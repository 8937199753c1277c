"""Nodes that onnxruntime refuses when it loads the model, whatever the sizes are: each against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

from .conftest import FLOAT, INT32, INT64, agrees, model_of, one

F = np.float32


@pytest.mark.parametrize("op_type", ["Conv", "MaxPool", "AveragePool", "ConvTranspose"])
@pytest.mark.parametrize("auto_pad", ["", "NOTSET", "VALID", "SAME_UPPER", "BOGUS"])
@pytest.mark.parametrize("opset", [7, 11, 22])
def test_pads_beside_auto_pad(op_type: str, auto_pad: str, opset: int) -> None:
    conv = op_type.startswith("Conv")
    attrs: dict[str, Any] = {"auto_pad": auto_pad, "pads": [1, 1, 1, 2], "strides": [2, 2]}
    if not conv:
        attrs["kernel_shape"] = [3, 3]
    agrees(one(op_type, ["N 1 9 W"] + ["1 1 3 3"] * conv, attrs, opset=opset), N=(1, 2), W=(3, 9))


IMAGE = ["1 1 4 4"]
SCALES: dict[int, Any] = {2: [1.0, 1.0, 2.0, 2.0]}
SIZES: dict[int, Any] = {3: [1, 1, 8, 8]}


@pytest.mark.parametrize(
    ("op_type", "inputs", "consts", "attribute", "values", "others"),
    [
        ("Resize", [*IMAGE, None], SCALES, "mode", ["nearest", "linear", "cubic", "nearset", ""], {}),
        ("Resize", [*IMAGE, None], SCALES, "coordinate_transformation_mode", ["half_pixel_symmetric", "half", ""], {}),
        ("Resize", [*IMAGE, None], SCALES, "nearest_mode", ["floor", "ceil", "simple", ""], {}),
        ("Resize", [*IMAGE, None], SCALES, "keep_aspect_ratio_policy", ["stretch", "not_larger", "other"], {}),
        ("Resize", [*IMAGE, None, None], SIZES, "keep_aspect_ratio_policy", ["stretch", "not_larger", "other"], {}),
        ("Pad", IMAGE, {1: [0, 0, 1, 1] * 2}, "mode", ["constant", "reflect", "edge", "wrap", "mirror", ""], {}),
        ("LpNormalization", IMAGE, {}, "p", [1, 2, 3, 0], {}),
        ("LRN", IMAGE, {}, "size", [1, 2, 3, 0, -1], {}),
        ("RoiAlign", [*IMAGE, "1 4"], {2: [0]}, "mode", ["avg", "max", "min"], {}),
        ("GridSample", [*IMAGE, "1 2 2 2"], {}, "mode", ["linear", "bilinear", "nearest", "cubic", "bicubic"], {}),
        ("GridSample", [*IMAGE, "1 2 2 2"], {}, "padding_mode", ["zeros", "border", "wrap"], {}),
        ("DepthToSpace", ["1 4 2 2"], {}, "mode", ["DCR", "CRD", "crd"], {"blocksize": 2}),
        ("Gelu", IMAGE, {}, "approximate", ["none", "tanh", "erf"], {}),
        ("CumSum", IMAGE, {1: 0}, "exclusive", [0, 1, 2], {}),
        ("Multinomial", ["2 3"], {}, "dtype", [6, 7, 1], {}),
        ("ConstantOfShape", [], {0: [2, 3]}, "value",
         [numpy_helper.from_array(np.array(v, F)) for v in ([1], 1, [1, 2], [[1]], [])], {}),
        ("BatchNormalization", [*IMAGE, "1", "1", "1", "1"], {}, "training_mode", [0, 1], {}),
        ("Split", ["7"], {}, "num_outputs", [3, 4], {}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("n_out", [1, 2, 3])
def test_values_of_attributes(
    op_type: str,
    inputs: list[str | None],
    consts: Mapping[int, Any],
    attribute: str,
    values: list[Any],
    others: Mapping[str, Any],
    n_out: int,
) -> None:
    if n_out > 1 and op_type not in ("BatchNormalization", "Split"):
        n_out = 1
    for value in values:
        agrees(one(op_type, inputs, {attribute: value, **others}, consts, n_out=n_out))


def test_bit_shifts_have_a_direction() -> None:
    for direction in ("LEFT", "RIGHT", "UP"):
        agrees(one("BitShift", ["N", "N"], {"direction": direction}, dtypes=2), N=(0, 2))


@pytest.mark.parametrize(
    ("op_type", "opsets", "inputs", "consts", "n_out"),
    [
        ("Upsample", (9, 10, 12), ["1 1 2 2"], {1: [1.0, 1.0, 2.0, 2.0]}, 1),
        ("Gelu", (17, 19, 20), ["N"], {}, 1),
        ("LayerNormalization", (12, 16, 17), ["N 4", "4"], {}, 1),
        ("MeanVarianceNormalization", (8, 9), ["2 3 4 4"], {}, 1),
        ("ThresholdedRelu", (8, 9, 10), ["N"], {}, 1),
        ("GroupNormalization", (17, 18, 21), ["1 4 3 3", "2", "2"], {}, 1),
        ("GroupNormalization", (18,), ["1 4 3 3", "2"], {}, 1),
        ("Split", (18, 22), ["6"], {1: [2, 4]}, 2),
    ],
)
def test_operators_come_and_go(
    op_type: str, opsets: tuple[int, ...], inputs: list[str | None], consts: Mapping[int, Any], n_out: int
) -> None:
    attrs = {"num_groups": 2} if op_type == "GroupNormalization" else {}
    for opset in opsets:
        sizes = {"N": (1, 2)} if "N" in " ".join(map(str, inputs)) else {}
        model = one(op_type, inputs, attrs, consts, opset=opset, n_out=n_out)
        if op_type == "GroupNormalization" and opset == 21:  # there scale and bias are per channel
            continue
        agrees(model, **sizes)


def test_a_withdrawn_scatter() -> None:
    for opset in (9, 11):
        agrees(one("Scatter", ["3 3", "2 3", "2 3"], opset=opset, dtypes=[FLOAT, INT64, FLOAT]))


def test_split_takes_sizes_or_their_number() -> None:
    for attrs in ({}, {"num_outputs": 2}):
        agrees(one("Split", ["6"], attrs, {1: [2, 4]}, opset=18, n_out=2))


def test_an_operator_with_too_few_outputs() -> None:
    node = helper.make_node("StringSplit", ["x"], ["y"], delimiter=" ")
    model = model_of([node], [helper.make_tensor_value_info("x", 8, [3])], ["y"], opset=20)
    agrees(model)


@pytest.mark.parametrize("opset", [1, 11, 22])
@pytest.mark.parametrize("wanted", [[12, 12], [1, 2, 12, 12], [12]])
def test_the_output_shape_of_a_transposed_convolution(opset: int, wanted: list[int]) -> None:
    attrs = {"output_shape": wanted, "strides": [2, 2]}
    agrees(one("ConvTranspose", ["1 4 6 6", "4 2 3 3"], attrs, opset=opset))


# ---------------------------------------------------------------------- com.microsoft


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("shape", [(32, 2, -1), (-1,), (32, -1), (2, 32, -1)])
def test_packed_weights(bits: int, shape: tuple[int, ...]) -> None:
    packed = np.zeros(32 * 2 * 4 * bits, np.uint8).reshape(shape)
    attrs = {"K": 64, "N": 32, "bits": bits, "block_size": 32}
    consts = {1: packed, 2: np.ones(64, F)}
    agrees(one("MatMulNBits", ["n 64"], attrs, consts, domain="com.microsoft"), n=(0, 1, 3))


@pytest.mark.parametrize("scales", [(64,), (32, 2), (2, 32), (64, 1), (1, 64)])
@pytest.mark.parametrize("zeros", [None, (32,), (32, 1), (32, 1, 1), (16, 2)])
def test_scales_and_zero_points(scales: tuple[int, ...], zeros: tuple[int, ...] | None) -> None:
    attrs = {"K": 64, "N": 32, "bits": 4, "block_size": 32}
    consts: dict[int, Any] = {1: np.zeros((32, 2, 16), np.uint8), 2: np.ones(scales, F)}
    if zeros is not None:
        consts[3] = np.zeros(zeros, np.uint8)
    agrees(one("MatMulNBits", ["n 64"], attrs, consts, domain="com.microsoft"), n=(1, 3))


def test_block_sizes() -> None:
    for block in (8, 16, 24, 256):
        blocks = -(-64 // block)
        consts = {1: np.zeros((32, blocks, block // 2), np.uint8), 2: np.ones(32 * blocks, F)}
        attrs = {"K": 64, "N": 32, "bits": 4, "block_size": block}
        agrees(one("MatMulNBits", ["n 64"], attrs, consts, domain="com.microsoft"), n=(1, 3))


@pytest.mark.parametrize("op_type", ["FastGelu", "BiasGelu"])
@pytest.mark.parametrize("bias", ["3", "2", "1", "1 3", "2 3", "N", "6"])
def test_the_bias_of_a_gelu(op_type: str, bias: str) -> None:
    sizes = {"N": (1, 2, 3)} if bias == "N" else {}
    agrees(one(op_type, ["2 3", bias], domain="com.microsoft"), **sizes)


@pytest.mark.parametrize("lengths", ["b", "b 1", "1", "1 b", "b 3", "b 1 1", "", "c"])
def test_lengths_of_any_rank(lengths: str) -> None:
    inputs = ["b 1 32", "b 1 16", "b 1 16", "b 1 4 16", "b 1 4 16", lengths]
    attrs = {"num_heads": 2, "kv_num_heads": 1}
    consts = {6: np.array(5, np.int32)}
    dtypes = [FLOAT] * 5 + [INT32]
    model = one("GroupQueryAttention", inputs, attrs, consts, domain="com.microsoft", n_out=3, dtypes=dtypes)

    def filled(at: Mapping[str, int]) -> Any:
        return np.full([at[t] if t in at else int(t) for t in lengths.split()], 4, np.int32)

    agrees(model, {"x5": filled}, b=(1, 2), **({"c": (1, 2)} if lengths == "c" else {}))


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("scale", [(0,), (0, 16), (1,), (0, 4), (0, 1), (), (0, 16, 1), (16,)])
@pytest.mark.parametrize("zero", [(0,), (0, 16), (1,)])
def test_scales_of_a_quantized_lstm(directions: int, scale: tuple[int, ...], zero: tuple[int, ...]) -> None:
    def of(
        dims: tuple[int, ...],
    ) -> tuple[int, ...]:  # 0 stands for the directions, as a first dim of 1 for one more
        more = {0: directions, 1: directions + 1}
        return tuple(more.get(d, d) if i == 0 else d for i, d in enumerate(dims))

    consts: dict[int, Any] = {
        1: np.ones((directions, 3, 16), np.uint8), 2: np.ones((directions, 4, 16), np.uint8),
        8: np.ones(of(scale), F), 9: np.zeros(of(zero), np.uint8),
        10: np.ones(directions, F), 11: np.zeros(directions, np.uint8),
    }  # fmt: skip
    attrs = {"hidden_size": 4, "direction": "bidirectional" if directions == 2 else "forward"}
    inputs: list[str | None] = ["s b 3", None, None, None, None, None]
    agrees(one("DynamicQuantizeLSTM", inputs, attrs, consts, domain="com.microsoft"), s=(1, 2), b=(1, 3))


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("antialias", [0, 1])
@pytest.mark.parametrize(
    ("x", "sizes"),
    [
        ("N", [8]), ("4 W", [8, 8]), ("N 4 4", [2, 8, 8]), ("N 3 4 4", [2, 3, 8, 8]), ("N 3 4 4", [2, 6, 2, 4]),
        ("N 4 W 3", [2, 8, 8, 3]), ("N 4 W 3", [2, 8, 2, 3]), ("N 3 4 4", [4, 3, 4, 4]), ("N C 4 W", [2, 4, 4, 8]),
        ("N C 4 4 4", [2, 3, 8, 8, 8]), ("1 1 N 3 4 4", [1, 1, 2, 3, 8, 8]),
    ],
)  # fmt: skip
def test_axes_that_interpolation_works_along(mode: str, antialias: int, x: str, sizes: list[int]) -> None:
    attrs = {"mode": mode, "antialias": antialias}
    drawn = {"N": (1, 2, 4), "C": (3, 4), "W": (4, 8)}
    model = one("Resize", [x, None, None], attrs, {3: sizes}, opset=18)
    agrees(model, **{k: v for k, v in drawn.items() if k in x.split()})


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(
    "scales", [[1, 1, 2, 2], [1, 2, 2, 1], [1, 0.5, 2, 1], [2, 1, 1, 1], [1, 1, 0.5, 0.5]]
)
@pytest.mark.parametrize(("op_type", "opset"), [("Resize", 18), ("Resize", 10), ("Upsample", 9)])
def test_axes_that_scales_interpolate_along(mode: str, scales: list[float], op_type: str, opset: int) -> None:
    if mode == "cubic" and opset < 11:
        return
    inputs: list[str | None] = ["N 4 4 4", None] if opset == 18 else ["N 4 4 4"]
    at = 2 if opset == 18 else 1
    model = one(op_type, inputs, {"mode": mode}, {at: [float(s) for s in scales]}, opset=opset)
    agrees(model, N=(1, 2))
