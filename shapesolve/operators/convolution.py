"""Convolutions and pooling.

A window gives ``floor((size + pads - extent) / stride) + 1`` elements; a convolution's window must not exceed its
input.
The functions below describe where onnxruntime departs from the standard.
"""

from __future__ import annotations

from functools import lru_cache

from onnx import TensorProto

from ..expr import (
    FALSE,
    ONE,
    ZERO,
    Dim,
    Shape,
    all_of,
    any_of,
    ceil_div,
    constant,
    divides,
    eq,
    floor_div,
    ge,
    maximum,
    minimum,
    product,
)
from ..lower.op import InvalidNode, MalformedNode, Op
from ..lower.reason import EMPTY_POOL, WINDOW, channels, detailed
from ..lower.registry import lower
from ..lower.types import Known, Tensor
from ..lower.work import MOVES, POOLS, reads, slides, spreads
from .limits import STACKED
from .linear import per_tensor
from .window import Window, kernel_attr, per_axis, require_small_pads, room, slide, spatial_rank, window_of

# ---------------------------------------------------------------------- convolutions


def _kernel_of(op: Op, w: int, weight: Shape) -> tuple[Dim, ...]:
    given, stored = kernel_attr(op), weight[2:]
    if ZERO in stored:
        raise InvalidNode(f"the weight {weight} has an empty window")
    if given is None:
        return tuple(stored)
    if len(given) != len(stored):
        raise InvalidNode(
            f"kernel_shape must have {len(stored)} elements for the weight {weight}, got {len(given)}"
        )
    return tuple(
        op.same(k, d, "kernel_shape must be the weight's spatial size", (w, i + 2))
        for i, (k, d) in enumerate(zip(given, stored, strict=True))
    )


def _group(op: Op) -> int:
    auto = op.text_attr("auto_pad", "NOTSET")
    if not auto and (op.node.op_type != "ConvTranspose" or op.version < 11):
        auto = "NOTSET"  # an empty text counts as absent, but where the standard's own inference looks at it
    if op.attr("pads") is not None and auto != "NOTSET":
        raise MalformedNode("pads and auto_pad cannot be used together")
    group = op.int_attr("group", 1)
    if group < 1:
        raise InvalidNode(f"group {group} must be positive")
    return group


def _data_and_weight(op: Op, x: int, w: int) -> tuple[Shape, Shape] | None:
    """Return the shapes of inputs `x` and `w`, which must have the same rank; None if both ranks are unknown."""
    n = spatial_rank(op, x, w)
    data, weight = (None, None) if n is None else (op.shape(x, n + 2), op.shape(w, n + 2))
    return None if data is None or weight is None else (data, weight)


def conv_shape(op: Op, x: int = 0, w: int = 1, bias: int | None = 2) -> Shape | None:
    """Output shape of a convolution of input `x` with weight `w`; None if the rank is unknown."""
    found = _data_and_weight(op, x, w)
    if found is None:
        return None
    data, weight = found
    group = _group(op)
    op.require(eq(data[1], weight[1] * group), _channels_rule(group, weight[1]), (x, 1), (w, 1))
    op.require(
        divides(group, weight[0]), channels(f"output channels must be a multiple of group {group}"), (w, 0)
    )
    _bias(op, bias, weight[0], w, 0)
    window = window_of(op, _kernel_of(op, w, weight))
    dilated = window.auto.startswith("SAME") and max(per_axis(op, "dilations", len(data) - 2), default=1) > 1
    if dilated and op.as_onnxruntime("conv-dilated-same"):
        raise InvalidNode(f"onnxruntime does not support dilated convolution with auto_pad {window.auto}")
    return Shape((data[0], weight[0], *slide(op, x, data[2:], window)))


def _channels_rule(group: int, share: Dim) -> str:
    if group == 1:
        return channels("the input must have the channels that the weight expects")
    why = channels(f"the input must have {group} times the channels of the weight, one share for each group")
    if share.terms:
        return why
    return detailed(why, f"the input must have {share * group} channels, {group} groups of {share}")


def _bias(op: Op, bias: int | None, n_out: Dim, w: int, axis: int) -> None:
    shape = op.shape(bias, 1) if bias is not None and op.has(bias) else None
    if bias is not None and shape is not None:
        op.require(
            eq(shape[0], n_out), channels("expected one bias per output channel"), (bias, 0), (w, axis)
        )


# https://onnx.ai/onnx/operators/onnx__Conv.html
@lower("Conv", advice="convolution", work=slides(1, 2), axes="N c *s, m *w, m -> N K *S")
def conv(op: Op) -> Known:
    return op.out(conv_shape(op))


# https://onnx.ai/onnx/operators/onnx__ConvInteger.html
@lower("ConvInteger", advice="convolution", work=slides(1), axes="N c *s, m *w -> N K *S")
def conv_integer(op: Op) -> Known:
    per_tensor(op, 2, 3)
    return op.out(conv_shape(op, bias=None))


# https://onnx.ai/onnx/operators/onnx__QLinearConv.html
@lower("QLinearConv", advice="convolution", work=slides(3, 8), axes="N c *s -> N K *S")
def qlinear_conv(op: Op) -> Known:
    per_tensor(op, 1, 2, 6, 7)
    for i in (4, 5):
        shape, weight = op.shape(i), op.shape(3)
        if shape is not None and len(shape) > 1:
            raise InvalidNode(f"{op.name_of(i)} must have one element or one per filter, got {shape}")
        if shape and weight:
            fits = any_of((eq(shape[0], 1), eq(shape[0], weight[0])))
            op.require(fits, "weight parameters must have one element or one per filter", (i, 0), (3, 0))
    return op.out(conv_shape(op, x=0, w=3, bias=8))


def conv_transpose_shape(op: Op, x: int = 0, w: int = 1, bias: int | None = 2) -> Shape | None:
    """Output shape of a transposed convolution, channels first; None if the rank is unknown."""
    found = _data_and_weight(op, x, w)
    if found is None:
        return None
    data, weight = found
    group = _group(op)
    n_out = weight[1] * group
    op.require(
        eq(data[1], weight[0]),
        channels("the input must have the channels that the weight expects"),
        (x, 1),
        (w, 0),
    )
    op.require(
        divides(group, data[1]), channels(f"input channels must be a multiple of group {group}"), (x, 1)
    )
    _bias(op, bias, n_out, w, 1)
    window = window_of(op, _kernel_of(op, w, weight))
    return Shape((data[0], n_out, *_unslide(op, x, data[2:], window)))


def _unslide(op: Op, x: int, spatial: Shape, w: Window) -> list[Dim]:
    """Spatial output sizes of a transposed convolution, by output_shape, auto_pad or pads."""
    n = len(spatial)
    wanted = op.ints_attr("output_shape")
    if wanted and (len(wanted) != n or min(wanted) < 1):
        raise InvalidNode(f"output_shape must have {n} positive elements, got {list(wanted)}")
    extra = op.ints_attr("output_padding") or (0,) * n
    if len(extra) != n:
        raise InvalidNode(f"output_padding must have {n} elements, one per spatial axis, got {list(extra)}")
    if min(extra, default=0) < 0 and all(k.value is not None for k in w.kernel):
        raise MalformedNode(f"output_padding must not be negative, got {list(extra)}")
    out: list[Dim] = []
    for i, size in enumerate(spatial):
        stride = w.strides[i]
        full = (size - 1) * stride + extra[i] + w.extent[i]
        if wanted:
            chosen = constant(wanted[i - n])
            gives_back = floor_div(chosen - w.extent[i], constant(stride)) + 1
            reached = any_of((ge(full, chosen) if extra[i] < stride else FALSE, eq(size, gives_back)))
            op.require(all_of((ge(size, 1), reached)), "the input must reach output_shape", (x, i + 2))
            out.append(chosen)
            continue
        if extra[i]:
            op.require(ge(size, 1), "output_padding needs a non-empty input", (x, i + 2))
        # If the stride exceeds the kernel, onnxruntime does not pad SAME up to size * stride.
        d = minimum(size * stride, full) if w.same else full - (w.begin[i] + w.end[i])
        op.require(ge(d, 1), "the result of a transposed convolution must have a positive size", (x, i + 2))
        out.append(d)
    return out


# https://onnx.ai/onnx/operators/onnx__ConvTranspose.html
@lower("ConvTranspose", work=spreads(1, 2), axes="N c *s, c m *w, m -> N K *S")
def conv_transpose(op: Op) -> Known:
    return op.out(conv_transpose_shape(op))


# https://onnx.ai/onnx/operators/onnx__DeformConv.html
@lower("DeformConv", axes="N c *s, ?, N *o, ?, N *m -> N K *S")
def deform_conv(op: Op) -> Known:
    out, weight = conv_shape(op, bias=3), op.shape(1)
    if out is None or weight is None:
        return op.out(None)
    taps = Shape(weight[2:]).numel * op.int_attr("offset_group", 1)
    n = len(out) - 2
    for i, needed in ((2, taps * n), (4, taps)):
        shape = op.shape(i, n + 2) if op.has(i) else None
        if shape is not None:
            what = "offsets" if i == 2 else "mask"
            op.require(eq(shape[0], out[0]), f"the {what} must have the batch of the input", (i, 0), (0, 0))
            op.require(
                eq(shape[1], needed), f"the {what} must have one channel per tap of the kernel", (i, 1)
            )
            for k in range(2, n + 2):
                op.require(eq(shape[k], out[k]), f"the {what} must have the output's size", (i, k), (0, k))
    return op.out(out)


# ---------------------------------------------------------------------- pools


def _only_batch_empty(op: Op, x: int, shape: Shape, axis: int, always: bool = False) -> None:
    """Require that an axis of a pool's input is not 0, unless the batch is; with `always`, in any case."""
    if always:
        op.require(ge(shape[axis], 1), EMPTY_POOL, (x, axis))
    else:
        batch_empty = eq(shape[0], 0)
        op.require(any_of((ge(shape[axis], 1), batch_empty)), "only a pool's batch may be empty", (x, axis))


def _pooled(op: Op, x: int, shape: Shape, w: Window, i: int, ceil_mode: bool) -> Dim:
    """Return the output size of a pool along spatial axis `i`.

    The standard rounds ``room / stride`` down. onnxruntime rounds toward zero: a window that is too large by less
    than a
    stride still gives one element, by less than two strides none, and only beyond that the run fails. This rule
    follows
    onnxruntime, but rejects a size of 0 with a possibly empty batch if it would need a third formula.
    """
    size, stride = shape[i + 2], w.strides[i]
    if w.same:
        _only_batch_empty(op, x, shape, i + 2)
        covered = ceil_div(size, constant(stride))
        if _is_mlas(op, w):  # only this kernel of onnxruntime refuses windows that leave gaps at the end
            left = (covered - 1) * stride + w.kernel[i] - size
            op.require(any_of((ge(left, 0), eq(shape[0], 0))), "windows must reach the end", (x, i + 2))
        return _dilated_same(op, x, covered, w, i, ceil_mode)
    free, extent = room(size, w, i), w.extent[i].const
    op.usual(ge(free, 0))
    if ceil_mode:
        _only_batch_empty(op, x, shape, i + 2)
        if extent - w.end[i] < stride:  # a last window that would start in the padding at the end is left out
            return ceil_div(size + w.begin[i], constant(stride))
        _require_pool(op, x, i, free, stride)
        return ceil_div(free, constant(stride)) + 1
    at_zero = w.begin[i] + w.end[i] - extent
    full = floor_div(free, constant(stride)) + 1
    nothing = eq(shape[0], 0).is_true
    fits = not nothing and (at_zero >= -1 or op.walk.facts.cond(ge(free, 0)).is_true)
    off_at_zero = -stride <= at_zero < 0 and (not fits or at_zero % stride != 0)
    _only_batch_empty(op, x, shape, i + 2, always=off_at_zero and not nothing)
    if fits:
        return full
    if at_zero >= -stride and not nothing:
        return maximum(full, 1)
    _require_pool(op, x, i, free, stride)
    made = maximum(full, 1) - floor_div(maximum(-free, 0), constant(stride))
    return _simplified(made) if made.size > STACKED and len(made.free) == 1 else made


@lru_cache(maxsize=128)  # a model is analyzed more than once, with sizes bound or to try advice
def _simplified(size: Dim) -> Dim:
    return size.simplify()


def _is_mlas(op: Op, w: Window) -> bool:
    """Return True if onnxruntime runs this node with the pooling kernel of MLAS."""
    plain = all(k is e for k, e in zip(w.kernel, w.extent, strict=True))
    floats = op.dtype(0) == TensorProto.FLOAT and op.node.op_type == "MaxPool"
    dense = max(op.ints_attr("dilations") or (1,)) == 1
    return plain and dense and floats and op.n_out == 1 and not op.int_attr("storage_order", 0)


def _dilated_same(op: Op, x: int, covered: Dim, w: Window, i: int, ceil_mode: bool) -> Dim:
    """Output size along an axis with auto_pad and dilation, which onnxruntime's padding ignores."""
    lost = w.extent[i].const - w.kernel[i].const
    if not lost or not op.as_onnxruntime("pool-dilated-same"):
        return covered
    stride = w.strides[i]
    room = (covered - 1) * stride - lost
    step = constant(stride)
    if ceil_mode:
        found = ceil_div(room, step) + 1
    else:  # the division rounds toward zero
        found = floor_div(maximum(room, 0), step) - floor_div(maximum(-room, 0), step) + 1
    op.require(ge(found, 0), WINDOW, (x, i + 2))
    return found


def _require_pool(op: Op, x: int, i: int, free: Dim, stride: int) -> None:
    op.require(ge(free, 1 - 2 * stride), "the window exceeds the padded input by two strides", (x, i + 2))


def pool_shape(op: Op, x: int = 0) -> Shape | None:
    """Output shape of a pool over input `x`, channels first."""
    kernel = kernel_attr(op)
    if kernel is None:
        raise InvalidNode("a pool needs the attribute kernel_shape")
    shape = op.shape(x, len(kernel) + 2)
    if shape is None:
        return None
    require_small_pads(op, kernel)
    window, ceil_mode = window_of(op, kernel), bool(op.int_attr("ceil_mode", 0))
    _only_batch_empty(op, x, shape, 1)
    return Shape((*shape[:2], *(_pooled(op, x, shape, window, i, ceil_mode) for i in range(len(kernel)))))


# https://onnx.ai/onnx/operators/onnx__AveragePool.html
# https://onnx.ai/onnx/operators/onnx__LpPool.html
@lower("AveragePool", "LpPool", work=POOLS, axes="N C *s -> N C *S")
def pool(op: Op) -> Known:
    return op.out(pool_shape(op))


# https://onnx.ai/onnx/operators/onnx__MaxPool.html
@lower("MaxPool", work=POOLS, axes="N C *s -> N C *S, *I")
def max_pool(op: Op) -> list[Known | None]:
    shape = pool_shape(op)
    return [op.out(shape), op.out(shape)]


# https://onnx.ai/onnx/operators/onnx__GlobalAveragePool.html
# https://onnx.ai/onnx/operators/onnx__GlobalMaxPool.html
# https://onnx.ai/onnx/operators/onnx__GlobalLpPool.html
@lower(
    "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", ranks="first", work=reads(), axes="N C *s -> N C *S"
)
def global_pool(op: Op) -> Tensor:
    shape = op.shape(0)
    if shape is None:
        return op.out(None)
    if len(shape) < 3:
        raise InvalidNode(f"{op.node.op_type} requires rank 3 or more, got {op.name_of(0)} {shape}")
    for axis in range(1, len(shape)):
        _only_batch_empty(op, 0, shape, axis)
    return op.out([*shape[:2], *(ONE,) * (len(shape) - 2)])


# https://onnx.ai/onnx/operators/onnx__MaxUnpool.html
@lower("MaxUnpool", data=(2,), named=(2,), vectors=(2,), work=MOVES)
def max_unpool(op: Op) -> Known:
    kernel = kernel_attr(op)
    if kernel is None:
        raise InvalidNode("MaxUnpool needs the attribute kernel_shape")
    rank = len(kernel) + 2
    shape, indices = op.shape(0, rank), op.shape(1, rank)
    if shape is None or indices is None:
        return op.out(None)
    for k in range(rank):
        op.require(eq(shape[k], indices[k]), "expected one index per element", (0, k), (1, k))
    require_small_pads(op, kernel)
    w = window_of(op, kernel)
    natural = [
        (d - 1) * s + k - (b + e)
        for d, s, k, b, e in zip(shape[2:], w.strides, kernel, w.begin, w.end, strict=True)
    ]
    for i, d in enumerate(natural, 2):
        op.require(ge(d, 1), "the result of the unpooling must have a positive size", (0, i))
    if not op.has(2):
        return op.out([shape[0], shape[1], *natural])
    wanted = op.ints(2)
    if wanted is None:
        return op.out(op.fresh_shape(rank, "a size (output_shape is unknown)"))
    if len(wanted) != rank:
        raise InvalidNode(f"output_shape must have {rank} elements, got {len(wanted)}")
    for k in range(2):
        op.require(eq(wanted[k], shape[k]), "output_shape must keep batch and channels", (2, 0), (0, k))
    rule = "output_shape must have room for the unpooled tensor"
    if op.as_onnxruntime("unpool-output-shape"):
        op.require(ge(product(wanted), product([*shape[:2], *natural])), rule, (2, 0), (0, None))
        for d in wanted:
            op.require(ge(d, 0), "a size is at least 0", (2, 0))
    else:
        for i, d in enumerate(natural, 2):
            op.require(ge(wanted[i], d), rule, (2, 0), (0, i))
    return op.out([shape[0], shape[1], *wanted[2:]])
