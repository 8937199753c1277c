"""Operators that onnxruntime adds to the standard domain, mostly withdrawn ones, and ATen.

https://github.com/microsoft/onnxruntime/blob/main/onnxruntime/core/graph/contrib_ops/onnx_deprecated_opset_defs.cc
"""

from __future__ import annotations

from ..expr import ge
from ..lower.axes import along_axis
from ..lower.op import InvalidNode, Op
from ..lower.records import Outputs
from ..lower.registry import lower, signature
from ..lower.types import Known
from ..lower.work import MOVES, each
from .com_microsoft.contrib import MICROSOFT, opaque
from .rewiring import lower_as

NORMAL = along_axis(-1, rest=True)

for name in ("MemcpyFromHost", "MemcpyToHost"):
    signature(name, "*S -> *S")
for name in ("Affine", "ParametricSoftplus", "Scale", "ScaledTanh"):  # further inputs are not looked at
    signature(name, "*S, ?... -> *S")


@lower("ImageScaler", work=each())
def image_scaler(op: Op) -> Known:
    shape, bias = op.shape(0), op.attr("bias", ())
    if shape is None:
        return op.out(None)
    if len(shape) < 4:
        raise InvalidNode(f"input {op.name_of(0)} must have rank 4, got rank {len(shape)}: {shape}")
    shape = shape[:4]  # onnxruntime ignores further axes
    op.same(shape[1], len(bias), f"the image must have {len(bias)} channels, one for each bias", (0, 1))
    return op.out(shape)


signature("GRUUnit", "*S, ?, ?, ? -> *S", runtime=("no kernel",))
signature("AllReduce", "*S -> *S", domain=MICROSOFT)

# https://github.com/NVIDIA/TensorRT/tree/main/plugin/efficientNMSPlugin
# onnxruntime declares it in the standard's domain; exporters write it in one of TensorRT's
for domain in ("", "TRT", "trt.plugins"):
    signature(
        "EfficientNMS_TRT", "N *S, ?, ? -> N 1, N K 4, N K, N K", K="max_output_boxes", domain=domain,
        types=("int32", 0, 0, "int32"), runtime=("no kernel",),
    )  # fmt: skip


@lower(
    "LayerNormalization",
    until=17,
    types=(1, "float"),
    runtime=("early", "any attribute"),
    work=each(5, 1, 2),
    axes=NORMAL,
)
@lower("LayerNormalization", domain=MICROSOFT, types=(1, "float"), work=each(5, 1, 2), axes=NORMAL)
def layer_normalization(op: Op) -> list[Known | None]:
    """Lower LayerNormalization in models older than opset 17, where onnxruntime adds it."""
    return lower_as(op, "LayerNormalization", 17, (0, 1, 2))


@lower("SimplifiedLayerNormalization", types=(1, "float"), work=each(3, 1), axes=NORMAL)
@lower("SimplifiedLayerNormalization", domain=MICROSOFT, types=(1, "float"), work=each(3, 1), axes=NORMAL)
def simplified_layer_normalization(op: Op) -> list[Known | None]:
    normal, _, deviation = lower_as(op, "LayerNormalization", 17, (0, 1))
    return [normal, deviation]


@lower("DynamicSlice", values=True, data=(1, 2, 3), vectors=(1, 2, 3), work=MOVES)
def dynamic_slice(op: Op) -> list[Known | None]:
    return lower_as(op, "Slice", 10, (0, 1, 2, 3))


@lower("Crop", work=MOVES)
def crop(op: Op) -> Known:
    """Lower Crop: `border` is left, top, right, bottom; `scale` is the height and width to keep."""
    shape, border, scale = op.sized(0, 4), op.ints_attr("border") or (), op.ints_attr("scale")
    if len(border) < (2 if scale else 4):
        raise InvalidNode(f"border must have at least {2 if scale else 4} elements, got {list(border)}")
    height, width = shape[2:]
    for axis, size, before in ((2, height, border[1]), (3, width, border[0])):
        kept = scale[axis - 2] if scale else border[5 - axis]
        op.require(ge(size, before + kept), "the border must be inside the image", (0, axis))
    if scale:
        return op.out([*shape[:2], *scale])
    return op.out([*shape[:2], height - border[1] - border[3], width - border[0] - border[2]])


@lower("GivenTensorFill", types=("float",), data=(0,), runtime=("no kernel",), work=MOVES)
def given_tensor_fill(op: Op) -> Known:
    extra, shape = op.ints_attr("extra_shape") or (), op.ints_attr("shape")
    if not op.has(0):
        return op.out(None if shape is None else (*shape, *extra))
    found = op.ints(0) if op.int_attr("input_as_shape", 0) else op.shape(0)
    return op.out(None if found is None else (*found, *extra))


@lower("ATen", domain="org.pytorch.aten", types=(0,))
def aten(op: Op) -> Outputs:
    """Lower ATen: only embeddings are supported; other outputs are unknown."""
    weights, indices = op.shape(0), op.shape(1)
    if op.text_attr("operator", "") != "embedding" or weights is None or indices is None:
        return opaque(op)
    return [op.out([*indices, *weights[1:]])]


lower("PythonOp", "PythonOpGrad", domain=MICROSOFT, types=("undefined",))(opaque)
