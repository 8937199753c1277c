"""Convolutions and pools of onnxruntime: fused, channels last (``Nhwc...``), or blocked channels.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.FusedConv
"""

from __future__ import annotations

from functools import partial

from ...expr import ONE, ge
from ...lower.op import InvalidNode, Op
from ...lower.registry import lower
from ...lower.types import Known, Tensor
from ...lower.work import MOVES, POOLS, reads, slides
from ..rewiring import lower_as, lower_channels_last
from .contrib import match, ms_function, no_cpu_function

#: the first axis is the batch; the other axes are undetermined
IMAGES = "N *i -> N *S"
BLOCKED, CHANNELS_LAST = "com.microsoft.nchwc", "com.ms.internal.nhwc"
blocked = partial(lower, domain=BLOCKED)


def match_residual(op: Op, found: list[Known | None], i: int) -> list[Known | None]:
    """Require that the tensor added to the result (input `i`) has the result's shape."""
    result, residual = found[0], op.shape(i)
    if isinstance(result, Tensor) and result.shape is not None and residual is not None:
        match(op, i, tuple(result.shape), "the added tensor must have the shape of the result")
    return found


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.FusedConv
@ms_function("FusedConv", work=slides(1, 2, 3, "activation"), axes=IMAGES)
def fused_conv(op: Op) -> list[Known | None]:
    return match_residual(op, lower_as(op, "Conv", 11, (0, 1, 2)), 3)


@no_cpu_function("NhwcConv", "NhwcFusedConv", work=slides(1, 2, 3, "activation"), axes=IMAGES)
def channels_last_conv(op: Op) -> list[Known | None]:
    return match_residual(op, lower_channels_last(op, "Conv", 11, (0, 1, 2)), 3)


@ms_function("NhwcMaxPool", work=POOLS, axes=IMAGES)
def channels_last_pool(op: Op) -> list[Known | None]:
    return lower_channels_last(op, "MaxPool", 12, (0,))


@ms_function("MaxpoolWithMask", work=POOLS)
def masked_pool(op: Op) -> list[Known | None]:
    x = op.shape(0)
    match(op, 1, () if x is None else (None, None, *x[2:]), "the mask must have the input's spatial size")
    return lower_as(op, "MaxPool", 8, (0,))


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.ConvTransposeWithDynamicPads
@ms_function("ConvTransposeWithDynamicPads", data=(2,), vectors=(2,), together=((2,),))
def conv_transpose_with_dynamic_pads(op: Op) -> Known:
    """Lower ConvTransposeWithDynamicPads, whose pads are an input."""
    found, pads = lower_as(op, "ConvTranspose", 11, (0, 1, 3))[0], op.ints(2)
    shape = found.shape if isinstance(found, Tensor) else None
    if shape is None:
        return op.out(None)
    n = len(shape) - 2
    op.counted(2, 2 * n, "expected two pads per spatial axis")
    if pads is None or len(pads) != 2 * n:
        return op.out([*shape[:2], *op.fresh_dims(n, "a size that depends on pads")])
    return op.out([*shape[:2], *(shape[2 + k] - pads[k] - pads[n + k] for k in range(n))])


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearConv
@ms_function("QLinearConv", work=slides(3, 8), axes=IMAGES)
def quantized_conv(op: Op) -> list[Known | None]:
    return lower_channels_last_if(op, "Conv", 11, (0, 3, 8))


@ms_function(
    "QLinearAveragePool",
    operands="*S, ., ., ., .",
    work=POOLS,
    axes=IMAGES,
)
def quantized_average_pool(op: Op) -> list[Known | None]:
    return lower_channels_last_if(op, "AveragePool", 11, (0,))


@ms_function(
    "QLinearGlobalAveragePool",
    operands="*S, [1], [1], [1], [1]",
    work=reads(),
    axes=IMAGES,
)
def quantized_global_average_pool(op: Op) -> Known:
    """Lower QLinearGlobalAveragePool, whose spatial axes must not be empty."""
    shape = op.shape(0)
    if shape is None:
        return op.out(None)
    if len(shape) < 3:
        raise InvalidNode(f"{op.name_of(0)} {shape} must have a batch, channels and spatial axes")
    spatial = slice(1, -1) if op.int_attr("channels_last", 0) else slice(2, None)
    for axis in range(len(shape))[spatial]:
        op.require(ge(shape[axis], 1), "an average needs elements", (0, axis))
    dims = list(shape)
    dims[spatial] = [ONE] * (len(shape) - 2)
    return op.out(dims)


def lower_channels_last_if(op: Op, op_type: str, version: int, inputs: tuple[int, ...]) -> list[Known | None]:
    """Lower by the standard operator's rule, with channels last if the attribute says so."""
    last = op.int_attr("channels_last", 0)
    return (lower_channels_last if last else lower_as)(op, op_type, version, inputs)


# ---------------------------------------------------------------------- channels in blocks
# https://github.com/microsoft/onnxruntime/blob/main/onnxruntime/core/graph/contrib_ops/nchwc_schema_defs.cc


@blocked("Conv", work=slides(1, 2, 3, "activation"), axes="N *i, ?, ?, N *s -> N *S")
def blocked_conv(op: Op) -> list[Known | None]:
    return match_residual(op, lower_as(op, "Conv", 11, (0, 1, 2)), 3)


for name, version in (("MaxPool", 12), ("AveragePool", 19), ("GlobalMaxPool", 1), ("GlobalAveragePool", 1)):
    blocked(name, work=reads() if "Global" in name else POOLS, axes=IMAGES)(
        partial(lower_as, op_type=name, version=version, inputs=(0,))
    )


@blocked("ReorderInput", work=MOVES, axes=IMAGES)
def reorder_input(op: Op) -> Known:
    """Lower ReorderInput: to channels in blocks of 8 or 16 (by machine), the last one padded."""
    shape = op.sized(0, 4)
    batch, *middle = shape
    channels, *spatial = [middle[-1], *middle[:-1]] if op.int_attr("channels_last", 0) else middle
    if not (channels % 16).terms and (channels % 16).const == 0:
        return op.out([batch, channels, *spatial])
    padded = op.fresh("the channels, filled up to whole blocks")
    op.define(ge(padded, channels), "blocks are filled up")
    op.define(ge(channels + 15, padded), "blocks are filled up")
    return op.out([batch, padded, *spatial])


@blocked("ReorderOutput", work=MOVES, axes=IMAGES)
def reorder_output(op: Op) -> Known:
    """Lower ReorderOutput: from blocks of channels to `channels` of them."""
    shape, channels = op.sized(0, 4), op.int_attr("channels", 0)
    if op.int_attr("channels_last", 0):
        return op.out([shape[0], *shape[2:], channels])
    return op.out([shape[0], channels, *shape[2:]])


@blocked("Upsample", work=MOVES, axes=IMAGES)
def blocked_upsample(op: Op) -> Known:
    shape, scales = op.sized(0, 4), op.ints_attr("scales")
    if scales is None:
        return op.out(shape)
    return op.out([d.scale(s) for d, s in zip(shape, scales, strict=True)])


# ---------------------------------------------------------------------- com.ms.internal.nhwc: channels last

for name, versions, operands in (
    ("Conv", (1, 11), (0, 1, 2)),
    ("ConvTranspose", (1, 11), (0, 1, 2)),
    ("AveragePool", (7, 10, 11, 19), (0,)),
    ("MaxPool", (1, 8, 10, 11, 12), (0,)),
    ("LpPool", (11, 18), (0,)),
    ("GlobalAveragePool", (1,), (0,)),
    ("GlobalMaxPool", (1,), (0,)),
    ("GlobalLpPool", (2,), (0,)),
    ("BatchNormalization", (7, 9, 14, 15), (0, 1, 2, 3, 4)),
    ("InstanceNormalization", (6,), (0, 1, 2)),
    ("LRN", (1, 13), (0,)),
    ("DepthToSpace", (1, 11, 13), (0,)),
    ("SpaceToDepth", (1, 13), (0,)),
    ("GridSample", (16, 20), (0, 1)),
    ("MaxUnpool", (9, 11), (0, 1, 2)),
):
    for version in versions:
        moved = (0, 1) if name == "MaxUnpool" else (0,)
        lower(name, domain=CHANNELS_LAST, since=version)(
            partial(lower_channels_last, op_type=name, version=version, inputs=operands, moved=moved)
        )
for name, standard, operands in (
    ("QLinearConv", "Conv", (0, 3, 8)),
    ("QLinearConvTranspose", "ConvTranspose", (0, 3, 8)),
    ("QLinearAveragePool", "AveragePool", (0,)),
):
    lower(name, domain=CHANNELS_LAST)(
        partial(lower_channels_last, op_type=standard, version=11, inputs=operands)
    )


@lower("Resize", domain=CHANNELS_LAST, data=(1, 2, 3))
def channels_last_resize(op: Op) -> list[Known | None]:
    """Lower a Resize with channels last; scales and sizes are in the order of the tensor's axes."""
    return lower_as(op, "Resize", max(op.version, 11), (0, 1, 2, 3))
