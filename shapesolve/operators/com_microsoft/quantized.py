"""Quantized and fused matrix products of onnxruntime (``com.microsoft``). Also its other quantized operators.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulNBits
"""

from __future__ import annotations

from functools import partial

from onnx import TensorProto

from ...expr import ONE, Dim, Shape, all_of, any_of, ceil_div, constant, eq, floor_div, ge
from ...lower.axes import along_axis, mixes
from ...lower.op import InvalidNode, MalformedNode, Op
from ...lower.standard import one_number
from ...lower.types import Known, Tensor
from ...lower.work import MOVES, Work, last_of, makes, number, product_of
from ...model.types import type_name
from ..joining import concat_axes
from ..linear import GEMM, gemm_axes, gemm_inner, per_column, product_axes
from ..normalization import broadcasts_to
from ..quantization import quantize_axes, scale_fits
from ..recurrent import recurrent_work
from ..rewiring import lower_as
from .contrib import match, ms, ms_function, need_rank, no_cpu, no_cpu_function

FLOAT, UINT8, INT32, UINT16, UINT32 = (
    TensorProto.FLOAT,
    TensorProto.UINT8,
    TensorProto.INT32,
    TensorProto.UINT16,
    TensorProto.UINT32,
)

# ---------------------------------------------------------------------- matrix products


def _inner(op: Op) -> Dim | None:
    """Return the product's inner size, from the first operand and its transposition flags; None if unknown."""
    shape = op.shape(0)
    if not shape:
        return None
    if not op.int_attr("transA", 0) or len(shape) < 2:
        return shape[-1]
    return shape[0] if op.int_attr("transBatchA", 0) else shape[-2]


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.FusedMatMul
@ms_function(
    "FusedMatMul",
    "TransposeMatMul",
    fault="cannot multiply these shapes",
    advice="product",
    work=product_of(_inner),
    axes=product_axes(transposed=True),
)
@no_cpu_function("FusedMatMulActivation", work=product_of(_inner, None, "activation"))
def fused_matmul(op: Op) -> list[Known | None]:
    """Lower FusedMatMul: operands transposed by flags, then a MatMul."""
    orders = {}
    batches = op.int_attr("transBatchA", 0) or op.int_attr("transBatchB", 0)
    if batches and None not in (op.rank(0), op.rank(1)) and op.rank(0) != op.rank(1):
        raise InvalidNode(
            f"transBatch requires operands of the same rank, got {op.shape(0)} and {op.shape(1)}"
        )
    for i, side in enumerate("AB"):
        rank, batch = op.rank(i), op.int_attr(f"transBatch{side}", 0)
        swap = op.int_attr(f"trans{side}", 0)
        if batch and rank is not None and rank < 3:
            raise InvalidNode(f"transBatch{side} requires rank 3 or more, got {op.name_of(i)} {op.shape(i)}")
        if not (batch or swap) or (rank is not None and rank < 2):
            continue
        if rank is None:
            return [None]
        order = [*range(1, rank - 1), 0, rank - 1] if batch else list(range(rank))
        if swap:
            order[-2:] = order[-1], order[-2]
        orders[i] = tuple(order)
    return lower_as(op, "MatMul", 13, (0, 1), orders)


def matmul(op: Op, bias: int | None = None) -> Known | None:
    """Lower a MatMul of inputs 0 and 1, with an optional bias per column."""
    found = lower_as(op, "MatMul", 13, (0, 1))[0]
    weights = op.shape(1)
    added = op.shape(bias) if bias is not None and op.has(bias) else None
    if bias is not None and added is not None and weights:
        op.same(added.numel, weights[-1], "expected one bias per column", (bias, None), (1, len(weights) - 1))
    return found


def scaled_matmul(op: Op, scales: tuple[int, ...], zero: int, bias: int) -> Known | None:
    """Lower a quantized MatMul whose scales broadcast to the result; `zero` is the zero point of input 1."""
    found = matmul(op, bias)
    per_column(op, zero, 1, "zero point of the second matrix")
    for i in scales:
        if isinstance(found, Tensor) and found.shape is not None and op.has(i):
            broadcasts_to(op, i, found.shape, "the scale must broadcast to the product")
    return found


no_cpu_function("GemmFastGelu")(partial(matmul, bias=2))
ms_function(
    "DynamicQuantizeMatMul",
    work=product_of(last_of(0), 4),
    axes=mixes("uses one scale for all items of {symbol}"),
)(partial(scaled_matmul, scales=(2,), zero=3, bias=4))
ms_function(
    "MatMulIntegerToFloat",
    operands="*A, *B, ?, ?, [1], ?, ?",
    work=product_of(last_of(0), 6),
    axes=product_axes(),
)(partial(scaled_matmul, scales=(2, 3), zero=5, bias=6))
ms_function("SparseToDenseMatMul", work=product_of(_inner))(fused_matmul)


@ms_function("MatMulInteger16", work=product_of(last_of(0)))
def matmul_integer16(op: Op) -> Known | None:
    found = op.walk.interner.tensor(0, None) if (product := matmul(op)) is None else product
    shape = getattr(found, "shape", None)
    return op.out(shape, UINT32 if op.dtype(0) == op.dtype(1) == UINT16 else INT32)


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.FusedGemm
@ms_function("FusedGemm", work=product_of(gemm_inner, 2, "activation"), axes=gemm_axes())
def fused_gemm(op: Op) -> list[Known | None]:
    return lower_as(op, "Gemm", 13, (0, 1, 2))


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GemmFloat8
@no_cpu_function("GemmFloat8", work=GEMM)
def gemm_float8(op: Op) -> Known:
    found = lower_as(op, "Gemm", 13, (0, 1, 2))[0]
    return op.out(getattr(found, "shape", None), op.int_attr("dtype", FLOAT))


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QGemm
@ms_function("QGemm", axes=gemm_axes(3, 6))
def quantized_gemm(op: Op) -> Known:
    """Lower QGemm; the result is float unless an output scale is given."""
    found = lower_as(op, "Gemm", 13, (0, 3, 6))[0]
    one_number(op, 1)
    one_number(op, 2)
    scale, zero, b = need_rank(op, 4, 0, 1), op.shape(5), op.shape(3, 2)
    if scale is not None and zero is not None and b is not None:
        match(op, 5, tuple(scale), "scale and zero point of the second matrix must have the same shape")
    if scale and b is not None:
        columns = b[0 if op.int_attr("transB", 0) else 1]
        fits = any_of((eq(scale[0], 1), eq(scale[0], columns)))
        op.require(
            fits, "scale of the second matrix: expected one element or one per column", (4, 0), (3, None)
        )
    return op.out(getattr(found, "shape", None), (op.dtype(8) or op.dtype(0)) if op.has(7) else FLOAT)


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulNBits
@ms_function(
    "MatMulNBits",
    fault="cannot multiply these shapes",
    work=product_of(number("K"), 5),
    axes="*S k -> *S N",
)
def matmul_nbits(op: Op) -> Known:
    """Lower MatMulNBits: weights ``[N, K]`` packed in blocks along `K`."""
    n, k, block = op.int_attr("N", 0), op.int_attr("K", 0), op.int_attr("block_size", 0)
    if block not in (16, 32, 64, 128, 256):
        raise MalformedNode(f"block_size must be 16, 32, 64, 128 or 256, got {block}")
    blocks, bits = -(-k // block), op.int_attr("bits", 4)
    if bits not in (2, 4, 8):
        raise MalformedNode(f"bits must be 2, 4 or 8, got {bits}")
    packed = map(constant, (n, blocks, block * bits // 8))
    match(op, 1, tuple(packed), "the packed weights must be [N, blocks, bytes]")
    _rows_or_flat(op, 2, n, blocks, "expected one scale per column and block")
    if op.has(3):
        per_row = -(-blocks * bits // 8) if op.dtype(3) == UINT8 else blocks
        if op.dtype(3) not in (0, UINT8, op.dtype(0)) or (bits != 4 and op.dtype(3) == FLOAT):
            raise InvalidNode(f"{op.name_of(3)} must be uint8, got {type_name(op.dtype(3))}")
        if op.dtype(3):
            _rows_or_flat(op, 3, n, per_row, "expected one zero point per column and block")
    bias = op.shape(5) if op.has(5) else None
    if bias and bias[0].terms and op.as_onnxruntime("sizes-at-load"):
        raise InvalidNode(f"the bias {op.name_of(5)} must have a fixed size, got {bias}")
    if op.has(5):
        match(op, 5, (constant(n),), "expected one bias per column")
    return replace_last(op, k, n)


def _rows_or_flat(op: Op, i: int, rows: int, columns: int, why: str) -> None:
    """Require that input `i` is [rows, columns], or a vector with that number of elements."""
    shape = op.shape(i)
    if shape is None:
        return
    if len(shape) not in (1, 2):
        raise InvalidNode(f"{why}: {op.name_of(i)} must have rank 1 or 2, got {shape}")
    wanted = (rows, columns) if len(shape) == 2 else (rows * columns,)
    for axis, (d, size) in enumerate(zip(shape, wanted, strict=True)):
        op.same(d, size, why, (i, axis))


def replace_last(op: Op, k: int, n: int, i: int = 0) -> Known:
    """Input `i` with its last axis, required to be `k`, replaced by `n`."""
    shape = op.shape(i)
    if shape is None:
        return op.out(None)
    if not shape:
        raise InvalidNode(f"input {op.name_of(i)} must not be a scalar")
    op.same(shape[-1], k, f"the input must have {k} features", (i, len(shape) - 1))
    return op.out([*shape[:-1], n])


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulBnb4
@ms_function("MatMulBnb4", work=product_of(last_of(0)))
def matmul_bnb4(op: Op) -> Known:
    k, n = op.int_attr("K", 0), op.int_attr("N", 0)
    for i, least in ((1, -(-k * n // 2)), (2, -(-k * n // max(op.int_attr("block_size", 0), 1)))):
        stored = op.shape(i)
        if stored is not None:
            op.require(ge(stored.numel, least), f"expected {least} elements or more", (i, None))
    return replace_last(op, k, n) if op.int_attr("transB", 1) else replace_last(op, n, k)


@ms_function("MatMulFpQ4", data=(2,), work=product_of(last_of(0)))
def matmul_fpq4(op: Op) -> Known:
    shape, weights = op.shape(0), op.ints(2)
    if shape is None or weights is None or len(weights) != 2 or not shape:
        return op.out(None)
    op.same(
        shape[-1], weights[0], "inner sizes of a matrix product must be equal", (0, len(shape) - 1), (2, 0)
    )
    return op.out([*shape[:-1], weights[1]])


no_cpu("MatMulBlockQuantizedFp8Weight", "*S K, N K, N _, ?, N -> *S N")
no_cpu("MatMulBlockQuantizedFp4Weight", "*S K, N P, N _, ?, ?, N -> *S N", where="K == 2*P")
no_cpu(
    "MatMulNBitsMlp",
    "*S K, *S K, K, ?, ?, N, ?, ?, N -> *S N, *S K",
    K="K",
    N="N",
)
no_cpu(
    "MatMulNBitsQkv", "*S K, *S K, K, ?, ?, M, ?, ?, N, ?, ?, N -> *S M, *S N, *S N, *S K",
    K="K", M="Nq", N="Nkv",
)  # fmt: skip
no_cpu("QOrderedMatMul", "~B M K, ?, ~B K N, ?, ?, N, ?, ? -> ~B M N")


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MoE
@ms_function("MoE")
@ms_function("QMoE")
def mixture_of_experts(op: Op) -> Known:
    """Lower MoE and QMoE: E experts from hidden size H to inner size I, and back."""
    quantized = op.node.op_type == "QMoE"
    first, second, pack = (2, 5, 8 // op.int_attr("expert_weight_bits", 4)) if quantized else (2, 4, 1)
    tokens, router = need_rank(op, 0, 2, 3), need_rank(op, 1, 2)
    up, down = op.shape(first, 3), op.shape(second, 3)
    if tokens is None or router is None or up is None or down is None:
        return op.like()
    hidden, experts = tokens[-1], router[1]
    op.same(Shape(tokens[:-1]).numel, router[0], "expected one routing row per token", (0, 0), (1, 0))
    op.require(ge(hidden, 1), "a token must have a feature", (0, len(tokens) - 1))
    inner = floor_div((down[1] * down[2]).scale(pack), hidden)
    gated = op.text_attr("activation_type", "relu") == "swiglu" and op.int_attr("swiglu_fusion", 0) != 0
    wide = inner.scale(2 if gated else 1)
    plain = (experts, wide, hidden), (experts, hidden, inner)
    turned = (experts, hidden, wide), (experts, inner, hidden)
    places = tuple((i, k) for i in (first, second) for k in range(3))
    op.require(
        any_of(
            all_of(
                eq(size.scale(pack) if k == 2 else size, want)
                for found, wanted in zip((up, down), layout, strict=True)
                for k, (size, want) in enumerate(zip(found, wanted, strict=True))
            )
            for layout in (plain, turned)
        ),
        "expected weights [E, I, H] and [E, H, I] for E experts, hidden size H, and inner size I",
        *places,
    )
    for i, size in ((first + 1 + quantized, wide), (second + 1 + quantized, hidden)):
        match(op, i, (experts, size), "the bias of the experts must have shape [experts, features]")
    if quantized:
        _expert_scales(op, experts, ((first, wide, hidden), (second, hidden, inner)))
    return op.like()


def _expert_scales(op: Op, experts: Dim, layers: tuple[tuple[int, Dim, Dim], ...]) -> None:
    """Require scales and zero points of QMoE's weights: per output feature, or per block of input features."""
    block = op.int_attr("block_size", 0)
    for k, (i, rows, columns) in enumerate(layers):
        blocks = floor_div(columns, constant(block)) if block > 0 else ONE
        for at, what in ((i + 1, "scale"), (11 + k, "zero point")):
            given = need_rank(op, at, *((3,) if block > 0 else (2, 3)))
            why = f"expected one {what} per expert, output feature, and block"
            if given is not None:
                match(op, at, (experts, rows, blocks)[: len(given)], why)


# ---------------------------------------------------------------------- quantization


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QuantizeLinear
@ms_function("QuantizeLinear", work=makes(2), axes=quantize_axes)
def quantize(op: Op) -> Known:
    scale_fits(op, op.int_attr("axis", 1))
    return op.out(op.shape(0), op.dtype(2) if op.has(2) else UINT8)


@ms_function("DequantizeLinear", work=makes(2), axes=quantize_axes)
def dequantize(op: Op) -> Known:
    scale_fits(op, op.int_attr("axis", 1))
    return op.like()


no_cpu("QuantizeWithOrder", "*S, ? -> *S")


@no_cpu_function("DequantizeWithOrder")
def dequantize_with_order(op: Op) -> Known:
    return op.out(op.shape(0), op.int_attr("to", FLOAT))


@no_cpu_function("QuantizeBFP")
def quantize_bfp(op: Op) -> list[Known | None]:
    rank = op.rank(0)
    dims = op.out([rank if rank is not None else op.fresh("a rank")])
    return [op.out([op.fresh("the bytes of the packed data")]), dims, dims]


@no_cpu_function("DequantizeBFP", data=(1,))
def dequantize_bfp(op: Op) -> Known:
    return op.out(op.ints(1), op.int_attr("dtype", FLOAT))


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GatherBlockQuantized
@ms_function("GatherBlockQuantized")
def gather_block_quantized(op: Op) -> Known:
    """Lower GatherBlockQuantized: a Gather from packed bytes, unpacked along the last axis."""
    data, indices, bits = op.shape(0), op.shape(1), op.int_attr("bits", 4)
    if data is None or indices is None:
        return op.out(None)
    if len(data) < 2:
        raise InvalidNode(f"data {op.name_of(0)} must have rank 2 or more, got {data}")
    axis = op.axis(op.int_attr("gather_axis", 0), len(data), "gather_axis")
    along = op.axis(op.int_attr("quantize_axis", 1), len(data), "quantize_axis")
    packed = 8 // bits if op.dtype(0) == UINT8 else 1
    data = data.with_dim(-1, data[-1].scale(packed))
    block = constant(op.int_attr("block_size", 128))
    scales = [ceil_div(d, block) if k == along else d for k, d in enumerate(data)]
    match(op, 2, tuple(scales), f"expected one scale per block of {block}")
    zeros = [*scales[:-1], ceil_div(scales[-1], constant(packed))]
    match(op, 3, tuple(zeros), f"expected one zero point per block of {block}")
    for i in (2, 3) if op.has(3) and op.as_onnxruntime("sizes-at-load") else ():
        if op.shape(i) is not None and any(d.terms for d in op.shape(i) or ()):
            raise InvalidNode(f"{op.name_of(i)} must have fixed sizes, got {op.shape(i)}")
    return op.out([*data[:axis], *indices, *data[axis + 1 :]])


# ---------------------------------------------------------------------- quantized operators of the standard

ms("QLinearLeakyRelu", "*S, [1], [1], [1], [1] -> *S", axes="=")
ms("QLinearSigmoid", "*S, [1], [1], [1], [1] -> *S", axes="=")
ms(
    "QLinearSoftmax",
    "*S C, [1], [1], [1], [1] -> *S C",
    axes=lambda op, outputs: along_axis(-1, rest=op.int_attr("opset", 13) < 13)(op, outputs),
)
ms("QLinearAdd", "~S, ., ., ~S, ., ., ., . -> ~S", named=(2, 5, 7), axes="=")
ms("QLinearMul", "~S, ., ., ~S, ., ., ., . -> ~S", named=(2, 5, 7), axes="=")
ms("QLinearWhere", "~S, ~S, [1], [1], ~S, [1], [1], [1], [1] -> ~S", axes="=")
no_cpu("MulInteger", "~S, ?, ~S, ? -> ~S")
no_cpu("QOrderedGelu", "*S, ?, ? -> *S")
no_cpu("QOrderedLayerNormalization", "*S, ?, ?, ?, ? -> *S")


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearConcat
@ms_function("QLinearConcat", work=MOVES, axes=concat_axes(2, 3))
def quantized_concat(op: Op) -> list[Known | None]:
    for i in range(2, op.n_in, 3):
        for given, what in zip((i, i + 1, i + 2), (op.dtype(1), FLOAT, op.dtype(1)), strict=True):
            if op.dtype(given) not in (0, what) and what:
                raise InvalidNode(
                    f"{op.name_of(given)} must be {type_name(what)}, got {type_name(op.dtype(given))}"
                )
    return lower_as(op, "Concat", 13, range(2, op.n_in, 3))


@no_cpu_function("QLinearReduceMean")
def quantized_reduce_mean(op: Op) -> list[Known | None]:
    return lower_as(op, "ReduceMean", 13, (0,))


@no_cpu_function("ReduceSumInteger")
def reduce_sum_integer(op: Op) -> Known:
    found = lower_as(op, "ReduceSum", 11, (0,))[0]
    return op.out(getattr(found, "shape", None), INT32 if op.dtype(0) == 3 else UINT32 if op.dtype(0) else 0)


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.DynamicQuantizeLSTM
@ms_function(
    "DynamicQuantizeLSTM",
    elements=(4,),
    work=Work(partial(recurrent_work, gates=4, cell=5)),
    # one scale for all rows
    axes="t B i, d i g, d h g, d b, B, d B h, d B h, d p -> T d ^B H, d ^B H, d ^B H",
)
def quantized_lstm(op: Op) -> list[Known | None]:
    """Lower DynamicQuantizeLSTM: an LSTM with transposed weights."""
    orders = {i: (0, 2, 1) for i in (1, 2) if op.shape(i, 3) is not None}
    for weights, given in ((1, 8), (1, 9), (2, 10), (2, 11)):
        shape = op.shape(weights)
        if shape is not None and op.has(given):
            found = op.shape(given)
            if found is not None and len(found) not in (1, 2):
                raise InvalidNode(f"{op.name_of(given)} must have rank 1 or 2, got {found}")
            why = "expected one scale and zero point per direction, or per row"
            wanted = (shape[0],) if found is not None and len(found) == 1 else (shape[0], shape[2])
            match(op, given, wanted, why)
    return lower_as(op, "LSTM", 14, range(8), orders)


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.AttnLSTM
ms(
    "AttnLSTM",
    "T B I, D 4*H I+A, D 4*H H, D 8*H, B, D B H, D B H, D 3*H, D H Q, D M Q, D Q, B N M, B, D H+M A"
    " -> T D B H, D B H, D B H",
)  # fmt: skip
