"""QuantizeLinear, DequantizeLinear and relatives."""

from __future__ import annotations

from onnx import TensorProto

from ..expr import ONE, Shape, any_of, ceil_div, constant, eq, ge
from ..lower.axes import Links, axis_of, mixes, own, plain, rank, sizes
from ..lower.op import InvalidNode, MalformedNode, Op
from ..lower.records import Place
from ..lower.registry import lower, signature
from ..lower.types import Known
from ..lower.work import Outputs, makes, reads

# https://onnx.ai/onnx/operators/onnx__DynamicQuantizeLinear.html
signature(
    "DynamicQuantizeLinear",
    "*S -> *S, ., .",
    work=reads(4),
    axes=mixes("uses one scale for all items of {symbol}"),
)


def scale_fits(op: Op, axis: int) -> None:
    """Require that scale (input 1) and zero point (input 2) fit input 0."""
    block = op.int_attr("block_size", 0)
    if block < 0:
        raise InvalidNode(f"block_size must not be negative, got {block}")
    x, scale = op.shape(0), op.shape(1)
    if scale is None:
        return
    if block:
        _blocked(op, x, scale, axis, block)
    elif len(scale) > 1:
        raise InvalidNode(f"the scale {op.name_of(1)} must be a scalar or a vector, got {scale}")
    elif scale:
        size, places = scale[0], [(1, 0)]
        fits = eq(size, 1)
        if not fits.is_true and x is not None:
            if -len(x) <= axis < len(x):
                axis %= len(x)
                places.append((0, axis))
                fits = any_of((eq(size, x[axis]), fits))
            op.require(fits, f"expected one scale, or one per index of axis {axis}", *places)
    _zero_point(op, scale, bool(block))


def _blocked(op: Op, x: Shape | None, scale: Shape, axis: int, block: int) -> None:
    if len(scale) == 1:  # onnxruntime takes a single element for a scale of the whole tensor
        op.require(ge(scale[0], 2), "a blocked scale must have more than one element", (1, 0))
    x = op.shape(0, len(scale)) if x is None or len(x) != len(scale) else x
    assert x is not None
    axis = op.axis(axis, len(x))
    for k, (d, s) in enumerate(zip(x, scale, strict=True)):
        places: tuple[Place, ...] = ((1, k), (0, k))
        if k == axis:
            op.same(s, ceil_div(d, constant(block)), f"expected one scale per block of {block}", *places)
        else:
            op.same(s, d, "blocked scale must have the input's size on the other axes", *places)


def _zero_point(op: Op, scale: Shape, blocked: bool) -> None:
    zero = op.shape(2)
    if zero is None:
        return
    why = "scale and zero point must have the same number of elements"
    if len(zero) == len(scale):
        for k, (z, s) in enumerate(zip(zero, scale, strict=True)):
            op.same(z, s, why, (2, k), (1, k))
    elif blocked or len(zero) > 1:
        raise InvalidNode(f"scale {scale} and zero point {zero} must have the same shape")
    else:  # a scalar with a one-element vector
        op.require(eq((*zero, *scale)[0], 1), why, (2, None), (1, None))


def quantize_axes(op: Op, _: Outputs) -> Links:
    """Return the links of a quantization, whose scale and zero point may be per element of an axis."""
    labels, per = own(op), []
    for i in range(1, op.n_in):
        of_axis = op.rank(i) == 1 and rank(op) and sizes(op, i)[0] is not ONE
        per.append([labels[axis_of(op, 1)]] if of_axis else own(op, i))
    return Links([labels, *per], [plain(labels)])


# https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html
@lower("QuantizeLinear", ranks="first", work=makes(2), axes=quantize_axes)
def quantize_linear(op: Op) -> Known:
    axis = op.int_attr("axis", 1)
    scale_fits(op, axis)
    x = op.shape(0)
    if op.int_attr("block_size", 0) and x is not None and x:  # onnxruntime aborts
        for k in range(axis % len(x), len(x)):
            op.require(ge(x[k], 1), "blocks cannot be quantized on an empty axis", (0, k))
    chosen = op.int_attr("output_dtype", 0)
    dtype = op.dtype(2) if op.has(2) else chosen or TensorProto.UINT8
    if chosen and dtype and dtype != chosen:
        raise MalformedNode("output_dtype and the zero point must have the same element type")
    return op.out(op.shape(0), dtype)


# https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html
@lower("DequantizeLinear", ranks="first", work=makes(2), axes=quantize_axes)
def dequantize_linear(op: Op) -> Known:
    scale_fits(op, op.int_attr("axis", 1))
    return op.out(op.shape(0), op.int_attr("output_dtype", 0) or op.dtype(1))
