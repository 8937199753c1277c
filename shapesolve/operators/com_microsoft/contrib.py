"""Operators of onnxruntime (``com.microsoft``): activations, normalizations, embeddings, others.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md

Where the page is silent, the rules state what onnxruntime's CPU kernels accept.
`ms` declares signatures in that domain, `ms_function` functions; `no_cpu` and `no_cpu_function` do so where onnxruntime
has no kernel on the CPU.
"""

from __future__ import annotations

from functools import partial

from onnx import TensorProto

from ...expr import ONE, Dim, Shape, all_of, any_of, constant, eq, ge, le, maximum
from ...lines import join_names
from ...lower.axes import EACH, SAME, Links, first_axes, others, plain, rank, sizes
from ...lower.op import InvalidNode, MalformedNode, Op
from ...lower.reads import rows
from ...lower.registry import lower, signature
from ...lower.signature import Signature
from ...lower.types import Known
from ...lower.work import MOVES, VIEW, Operations, Outputs, Work, each, per
from ...model.types import type_name
from ..rewiring import lower_as

MICROSOFT = "com.microsoft"
no_cpu = partial(signature, domain=MICROSOFT)
no_cpu_function = partial(lower, domain=MICROSOFT)
ms = partial(no_cpu, runtime=("kernel",))
ms_function = partial(no_cpu_function, runtime=("kernel",))


def need_rank(op: Op, i: int, *ranks: int) -> Shape | None:
    """Return the shape of input `i`, required to have one of these ranks; None if absent or unknown."""
    shape = op.shape(i, ranks[0] if len(ranks) == 1 else None)
    if shape is not None and len(shape) not in ranks:
        wanted = join_names([*map(str, ranks)], last="or")
        raise InvalidNode(f"input {op.name_of(i)} must have rank {wanted}, got rank {len(shape)}: {shape}")
    return shape


def match(op: Op, i: int, wanted: tuple[Dim | int | None, ...], why: str) -> None:
    """Require sizes of input `i`, if connected; None in `wanted` allows any size."""
    shape = need_rank(op, i, len(wanted))
    for k, (size, want) in enumerate(zip(shape or (), wanted, strict=False)):
        if want is not None:
            op.same(want, size, why, (i, k))


# ---------------------------------------------------------------------- element by element

for name in ("Gelu", "QuickGelu", "SampleOp"):
    ms(name, "*S -> *S", work=each(), axes="=")
ms("Inverse", "*S N N -> *S N N", axes="*S n n -> *S M N")
ms("ScaledSiLU", "*S, . -> *S", work=each(2), axes="=")
ms("BiasGelu", "*S C, C -> *S C", work=each(2), axes="=")
_fast_gelu = Signature("*S C, C -> *S C", (), {})


@ms_function("FastGelu", work=each(1, 1), axes=EACH)
def fast_gelu(op: Op) -> Known | list[Known | None]:
    if op.dtype(0) not in (0, TensorProto.FLOAT) and op.as_onnxruntime("fastgelu-body"):
        return op.out(op.broadcast())
    return _fast_gelu(op)


ms("GatedAdd", "*S C, *S C, *S 1 -> *S C", axes="=")
ms(
    "GatedRMSNorm", "*S K, [C], *S K -> *S K", where=("C >= 1", "K % C == 0"),
    axes="*S K, ?, *S K -> *S ^K",
)  # fmt: skip
no_cpu("BiasAdd", "N S C, C, N S C -> N S C", work=each(2), axes="=")
no_cpu("BiasSplitGelu", "N S D, D -> N S D//2")
no_cpu("BiasSoftmax", "*S, ? -> *S", work=each(6))
no_cpu("IsAllFinite", "?... -> .")
no_cpu(
    "GemmaRotaryEmbedding",
    "B T D, B N T D, B N T D, B M T D, B M T D -> B N T D, B M T D",
)
no_cpu("ComplexMul", "~S 2, ~S 2 -> ~S 2")
no_cpu("ComplexMulConj", "~S 2, ~S 2 -> ~S 2")
no_cpu("BiasDropout", "*S, ?, *S, ?, ? -> *S, *S")


_linear_attention_gate = Signature("*S H, [H], [H], *S H -> *S H, *S H", (), {})


@ms_function("LinearAttentionGate", axes="*S H, ?, ?, *S H -> *S H, *S H")
def linear_attention_gate(op: Op) -> list[Known | None]:
    if op.wants(1) and not op.has(3):
        raise MalformedNode("the second output of LinearAttentionGate needs the input b")
    return _linear_attention_gate(op)


@ms_function("MurmurHash3", axes=SAME)
def murmur_hash(op: Op) -> Known:
    return op.out(op.shape(0), 12 if op.int_attr("positive", 1) else 6)


@no_cpu_function("BitmaskDropout")
@no_cpu_function("BitmaskBiasDropout")
def bitmask_dropout(op: Op) -> list[Known | None]:
    """Lower BitmaskDropout: the output, and a mask with one bit per element, packed into words of 32 bits."""
    shape = op.shape(0)
    words = op.fresh("the words of the mask") if shape is None else (shape.numel + 31) // 32
    return [op.like(), op.out([words])]


# ---------------------------------------------------------------------- normalizations


def _skip_axes(op: Op, _: Outputs) -> Links:
    """Return links for a normalized sum of two tensors along the last axis, without the mean and deviation outputs."""
    x, skip = ([*range(-rank(op, i), -1), "h"] for i in (0, 1))
    return Links([x, skip, *others(op, 2)], [plain([*x[:-1], "H"]), None, None, plain(x)], broadcasts=True)


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.SkipLayerNormalization
@ms_function(
    "SkipLayerNormalization",
    work=each(6, 2, 3, 4),
    axes=_skip_axes,
)
@ms_function(
    "SkipSimplifiedLayerNormalization",
    work=each(4, 2, 3),
    axes=_skip_axes,
)
def skip_layer_normalization(op: Op) -> list[Known | None]:
    """Lower SkipLayerNormalization; input `skip` broadcasts along the batch."""
    shape, skip = op.shape(0), op.shape(1)
    if shape is None:
        return [None, None, None, None]
    if len(shape) not in (2, 3):
        raise InvalidNode(f"input {op.name_of(0)} must have rank 2 or 3, got {shape}")
    last = len(shape) - 1
    if skip is not None:
        if not 2 <= len(skip) <= len(shape):
            raise InvalidNode(f"skip must have rank 2 to {len(shape)}, got {skip}")
        for k in (1, 2):
            places = (0, len(shape) - k), (1, len(skip) - k)
            op.same(shape[-k], skip[-k], "the last two axes of skip must have the input's sizes", *places)
    for i in range(2, op.n_in):
        scale = op.shape(i, 1)
        if scale is not None:
            op.same(shape[-1], scale[0], "expected one weight per feature", (0, last), (i, 0))
    op.require(ge(shape[-1], 1), "expected at least one feature", (0, last))
    row = shape.with_dim(last, ONE)
    return [op.like(), op.out(row), op.out(row), op.like()]


def _embedding_work(op: Op, outputs: Outputs) -> Operations | None:
    """Return the work of an embedding layer: two or three embeddings added, then normalized."""
    return per(outputs[0], 8 + op.has(1))


def _embedding_axes(op: Op, outputs: Outputs) -> Links:
    """Return the links of an embedding layer: ids ``[B, S]``; positions may have a single row."""
    found = first_axes(op, outputs, ())
    inputs = [labels or () for labels in found.inputs]
    for i in (i for i in (0, 1, 7, 8) if op.has(i)):
        inputs[i] = ["B" if i < 8 or sizes(op, 8)[0] is not ONE else "one", "s"]
    return Links(inputs, found.outputs)


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.EmbedLayerNormalization
@ms_function(
    "EmbedLayerNormalization",
    work=Work(_embedding_work),
    axes=_embedding_axes,
    reads={0: rows(2), 1: rows(4)},
    elements=(0, 1, 8),
)
def embed_layer_normalization(op: Op) -> list[Known | None]:
    return embedded(op, mask=7, positions=8, vectors=(5, 6))


@ms_function("QEmbedLayerNormalization")
def quantized_embed_layer_normalization(op: Op) -> list[Known | None]:
    return embedded(op, mask=7, positions=None, vectors=(5, 6))[:2]


def embedded(op: Op, mask: int, positions: int | None, vectors: tuple[int, ...]) -> list[Known | None]:
    """Lower an embedding layer with ids ``[B, S]`` at inputs 0 and 1, and tables at 2, 3, 4."""
    op.same_shapes((0, 1, mask), "ids, segments and mask must have the same shape")
    ids = op.sized(0, 2)
    words = op.sized(2, 2)
    hidden, length = words[1], ids[1]
    for i in (3, 4):
        table = op.shape(i, 2)
        if table is not None:
            op.same(hidden, table[1], "all embeddings must have the same size", (2, 1), (i, 1))
    for i in vectors:
        weight = op.shape(i, 1)
        if weight is not None:
            op.same(hidden, weight[0], "expected one weight per feature", (2, 1), (i, 0))
    table = op.shape(3)
    if positions is None and any(d.terms for d in words) and op.as_onnxruntime("sizes-at-load"):
        raise InvalidNode(f"the word embedding {op.name_of(2)} must have fixed sizes, got {words}")
    for i, k in ((0, 2), (1, 4), (positions or op.n_in, 3)):
        rows_of = op.shape(k)
        if op.has(i) and rows_of:
            op.in_range(op.value(i), rows_of[0], (), "an id must be an embedding's row", (i, None), (k, 0))
    if positions is not None and op.has(positions):
        at = op.shape(positions)
        at = op.shape(positions, 2) if at is None or len(at) < 2 else at
        assert at is not None
        op.same(at[1], length, "expected one position per word", (0, 1), (positions, 1))
        shared = any_of((eq(at[0], ids[0]), eq(at[0], 1)))
        op.require(shared, "positions must be given for each row, or once", (0, 0), (positions, 0))
    elif table is not None and len(table) == 2:
        enough = any_of((le(length, table[0]), eq(ids[0], 0)))
        op.require(enough, "expected one embedding per position", (0, 1), (3, 0))
    out = op.out([*ids, hidden])
    return [out, op.out([ids[0]]), out]


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GroupNorm
@no_cpu_function("GroupNorm")
@no_cpu_function("SkipGroupNorm")
def group_norm(op: Op) -> list[Known | None]:
    shape = op.sized(0, 4)
    axis = 3 if op.int_attr("channels_last", 1) else 1
    for i in (1, 2, 4):
        weight = op.shape(i, 1)
        if weight is not None:
            op.same(shape[axis], weight[0], "expected one weight per channel", (0, axis), (i, 0))
    return [op.out(shape), op.out(shape)]


# ---------------------------------------------------------------------- hyper-connections


@ms_function("BranchwiseRMSNorm")
def branchwise_rms_norm(op: Op) -> Known:
    found, scale = streams(op), need_rank(op, 1, 1, 2)
    if found is not None and scale:
        _, count, size = found
        fits = eq(scale[-1], size)
        if len(scale) == 1:
            fits = any_of((fits, eq(scale[0], count * size)))
        else:
            op.same(scale[0], count, "expected one row of scales per stream", (1, 0))
        op.require(fits, "expected one scale per feature", (1, len(scale) - 1))
    return op.like()


@ms_function("HyperConnectionPostMix")
def add_to_streams(op: Op) -> Known:
    found = streams(op)
    if found is not None:
        lead, count, size = found
        match(op, 1, (*lead, size), "block_output must have the shape of a stream")
        _gate(op, *found, 2)
        match(op, 3, (*lead, count, count), "stream_mix must have shape [..., C, C]")
    return op.like()


@ms_function("HyperConnectionPreMix")
def mix_streams(op: Op) -> Known:
    found = streams(op)
    if found is not None:
        _gate(op, *found, 1)
    return op.out(None if found is None else [*found[0], found[2]])


def _gate(op: Op, lead: Shape, count: Dim, size: Dim, i: int) -> None:
    """Require that input `i` weighs streams: ``(..., C)``, ``(..., C, 1)`` or ``(..., C, H)``."""
    n = len(lead)
    gate = need_rank(op, i, n + 1, n + 2)
    if gate is not None:
        match(
            op,
            i,
            (*lead, count, None)[: len(gate)],
            "a gate must have shape [..., C], [..., C, 1], or [..., C, H]",
        )
    if gate is not None and len(gate) == n + 2:
        fits = any_of((eq(gate[-1], 1), eq(gate[-1], size)))
        op.require(fits, "the last axis of a gate must have size 1 or the stream size", (i, n + 1))


def streams(op: Op) -> tuple[Shape, Dim, Dim] | None:
    """Split ``(..., C, H)`` or ``(..., C * H)`` into leading axes, number of streams C, and size H."""
    shape, count = op.shape(0), op.int_attr("num_branches", 0)
    if count < 0:
        raise MalformedNode(f"num_branches must not be negative, got {count}")
    if shape is None:
        return None
    if len(shape) < (1 if count else 2):
        raise InvalidNode(f"streams {shape} lack an axis")
    op.require(ge(shape[-1], 1), "expected at least one feature", (0, len(shape) - 1))
    if not count:
        return shape[:-2], shape[-2], shape[-1]
    op.require(eq(shape[-1] % count, 0), f"features must divide into {count} streams", (0, len(shape) - 1))
    return shape[:-1], constant(count), shape[-1] // count


# ---------------------------------------------------------------------- as in the standard

for name, version, operands, data in (
    ("Pad", 13, (0, 1, 2), (1,)), ("GatherND", 13, (0, 1), (1,)),
    ("Trilu", 14, (0, 1), (1,)), ("GridSample", 16, (0, 1), ()),
    ("Range", 11, (0, 1, 2), (0, 1, 2)),
):  # fmt: skip
    ms_function(name, types=(0,), values=True, data=data)(
        partial(lower_as, op_type=name, version=version, inputs=operands)
    )


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.ExpandDims
@ms_function("ExpandDims", data=(1,), work=VIEW)
def expand_dims(op: Op) -> Known:
    shape, at = op.shape(0), op.const_ints(1)
    if shape is None:
        return op.out(None)
    if at is None:
        return op.out(op.fresh_shape(len(shape) + 1, "a size (the new axis is unknown)"))
    axis = op.axis(at[0], len(shape) + 1)
    return op.out([*shape[:axis], ONE, *shape[axis:]])


ms("CDist", "M K, N K -> M N", where="K >= 1")
no_cpu("TorchEmbedding", "N M, *I, ., . -> *I M", work=MOVES)
ms("NGramRepeatBlock", "B S, B V -> B V", axes="B s, B V -> B ^V")


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.CropAndResize
@ms_function(
    "CropAndResize",
    operands="N C H W, number_of_regions 4, number_of_regions, 2",
    data=(3,),
    axes="n C h w, R k, R, # -> R C *S",
)
def crop_and_resize(op: Op) -> Known:
    image, rois, size = op.sized(0, 4), op.sized(1, 2), op.ints(3)
    height, width = size if size is not None and len(size) == 2 else op.fresh_dims(2, "the crop size")
    return op.out([rois[0], image[1], height, width])


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Unique
@ms_function("Unique")
def unique(op: Op) -> list[Known | None]:
    shape = op.sized(0, 1)
    found = op.fresh("the number of different elements", 0, shape[0])
    op.define(any_of((ge(found, 1), eq(shape[0], 0))), "there is one unless there are no elements")
    return [op.out([found]), op.out(shape), op.out([found])]


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.UnfoldTensor
@ms_function("UnfoldTensor", work=MOVES)
def unfold(op: Op) -> Known:
    shape, size, step = op.shape(0), op.int_attr("size", 1), op.int_attr("step", 1)
    if op.dtype(0) not in (0, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32, TensorProto.INT64):
        raise InvalidNode(f"its kernel does not take {type_name(op.dtype(0))}")
    if shape is None:
        return op.out(None)
    axis = op.axis(op.int_attr("dim", -1), len(shape), "dim")
    op.require(ge(shape[axis], size), "slice must not exceed the axis", (0, axis))
    return op.out([*shape.with_dim(axis, (shape[axis] - size) // step + 1), size])


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.DynamicTimeWarping
@ms_function("DynamicTimeWarping")
def dynamic_time_warping(op: Op) -> Known:
    shape = op.shape(0)
    steps = op.fresh("the length of the cheapest path")
    if shape is None:
        return op.out([2, steps])
    if len(shape) not in (2, 3):
        raise InvalidNode(f"input {op.name_of(0)} must have rank 2, or 3 with one matrix, got {shape}")
    if len(shape) == 3:
        op.same(shape[0], 1, "expected one matrix", (0, 0))
    rows, columns = shape[-2:]
    crosses = all_of((ge(steps, maximum(rows, columns)), le(steps, rows + columns - 1)))
    nothing = all_of((eq(rows * columns, 0), eq(steps, 0)))
    op.define(any_of((crosses, nothing)), "a path crosses the matrix and moves on at each step")
    return op.out([2, steps])


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Tokenizer
@ms_function("Tokenizer")
def tokenizer(op: Op) -> Known:
    """Lower Tokenizer: ``[C]`` becomes ``[C, D]``, but an empty input stays ``[0]``."""
    shape = need_rank(op, 0, 1, 2)
    if shape is None or not ge(shape.numel, 1).is_true:
        return op.out(None)
    return op.out([*shape, op.fresh("the most tokens of a text")])


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.WordConvEmbedding
ms(
    "WordConvEmbedding", "S W *a, F _ K D *b, F, _ D *c -> S F", where="W >= K",
    axes="S w *x, F k l d, F, v d -> S F",
)  # fmt: skip


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Rfft
no_cpu("Rfft", "*S N -> *S N//2+1 2")
no_cpu("Irfft", "*S N _ -> *S 2*(N-1)")


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.BifurcationDetector
@ms_function("BifurcationDetector", operands="_, _, ?, _", data=(2,))
def bifurcation_detector(op: Op) -> list[Known | None]:
    current = op.sized(1, 1)
    tokens = op.fresh("the number of tokens accepted") if op.has(3) else current[0]
    found, predicted = op.const_ints(2), op.shape(3) if op.has(3) else None
    source = op.shape(0)
    if predicted and source and found and len(found) == 1:
        op.same(predicted[0], source[0] + 1 - found[0], "expected a prediction per new token", (3, 0), (0, 0))
    return [op.out([tokens]), op.like(2)]


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.EPContext
@no_cpu_function("EPContext", types=("undefined",))
@no_cpu_function("Snpe", types=("undefined",))
def opaque(op: Op) -> list[Known | None]:
    """Lower a compiled part of a model: outputs are unknown."""
    op.pure = False
    return [None] * op.n_out
