"""Attention operators of onnxruntime (``com.microsoft``).

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MultiHeadAttention

B batch, S queries, L keys, P past keys, T all keys, N heads, H head size, D hidden size, Dv of values
"""

from __future__ import annotations

from ...expr import ONE, ZERO, Cond, Dim, Shape, all_of, any_of, as_dim, constant, divides, eq, ge, le
from ...lower.axes import Links, batch_first, batched, first_axes, rank
from ...lower.op import InvalidNode, Op
from ...lower.reads import positions
from ...lower.records import Place
from ...lower.types import Known
from ...lower.work import MOVES, Operations, Outputs, Work, attend
from ..attention import rotary_work
from .contrib import match, ms_function, need_rank, no_cpu, no_cpu_function


def heads(op: Op, name: str = "num_heads") -> int:
    """Return the attribute for the number of heads; at least 1."""
    n = op.int_attr(name, 0)
    if n < 1:
        raise InvalidNode(f"attribute {name} must be positive, got {n}")
    return n


def match_bias(op: Op, i: int, batch: Dim, n: int, queries: Dim, total: Dim | None) -> None:
    """Require an attention bias of shape ``[B or 1, N or 1, S, T]``."""
    shape = need_rank(op, i, 4)
    if shape is None:
        return
    why = "attention_bias must have shape [batch or 1, num_heads or 1, sequence, total length]"
    for k, want in enumerate((batch, constant(n))):
        op.require(any_of((eq(shape[k], want), eq(shape[k], 1))), why, (i, k))
    match(op, i, (None, None, queries, total), why)


def one_of(op: Op, i: int, cases: tuple[tuple[Dim, ...], ...]) -> None:
    """Require that the shape of a mask (input `i`) is one of these cases."""
    shape = op.shape(i)
    if shape is None:
        return
    fits = [c for c in cases if len(c) == len(shape)]
    if not fits:
        raise InvalidNode(f"input {op.name_of(i)} must have the rank of a mask, got {shape}")
    wanted: list[Cond] = [all_of(eq(a, b) for a, b in zip(shape, case, strict=True)) for case in fits]
    places: tuple[Place, ...] = tuple((i, k) for k in range(len(shape)))
    op.require(any_of(wanted), "mask must cover the batch and all keys", *places)


# ---------------------------------------------------------------------- Attention


def merged_work(op: Op, outputs: Outputs) -> Operations | None:
    """Return the work of an attention with projections: these, their bias, and attention (see `attend`)."""
    x, weights, past = op.shape(0), op.shape(1), op.shape(4)
    n, known = op.int_attr("num_heads", 0), not op.has(4) or past is not None
    shared = op.int_attr("past_present_share_buffer", 0) or op.int_attr("do_rotary", 0)
    if x is None or weights is None or len(x) != 3 or len(weights) != 2 or n < 1 or not known or shared:
        return None
    sizes = op.ints_attr("qkv_hidden_sizes") or (weights[1] // 3,) * 3
    keys = x[1] if past is None else x[1] + past[3]
    made = x[0] * x[1] * weights[1]
    core = attend(x[0], constant(n), x[1], keys, as_dim(sizes[0]) // n, as_dim(sizes[2]) // n)
    return Operations(made * x[2] + core.macs, core.other + (made if op.has(2) else 0))


def _merged_axes(op: Op, outputs: Outputs) -> Links:
    """Return the links of an attention whose past and present are ``[2, batch, ...]`` (keys, values)."""
    found = first_axes(op, outputs, (0, 3), (5,))
    inputs = [[*(labels or ())] for labels in found.inputs]
    if op.has(4):
        inputs[4][1] = "B"
    return Links(inputs, [found.outputs[0], *(batched(outputs, i, 1) for i in range(1, op.n_out))])


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Attention
@ms_function("Attention", data=(6,), work=Work(merged_work), axes=_merged_axes)
def attention(op: Op) -> list[Known | None]:
    return merged_projection(op, bias=2, mask=3, past=4, scores=5, shared=6)


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QAttention
@ms_function("QAttention")
def quantized_attention(op: Op) -> list[Known | None]:
    weights = op.shape(1)
    for i in (4, 7):  # shape [1], or one element per column
        parameter = need_rank(op, i, 0, 1)
        if parameter and weights:
            fits = any_of((eq(parameter[0], 1), eq(parameter[0], weights[-1])))
            op.require(fits, "expected one element or one per column", (i, 0), (1, len(weights) - 1))
    return merged_projection(op, bias=2, mask=5, past=8)


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.DecoderMaskedSelfAttention
@no_cpu_function("DecoderMaskedSelfAttention", data=(6,))
def decoder_masked_self_attention(op: Op) -> list[Known | None]:
    return merged_projection(op, bias=2, mask=3, past=4, scores=5, shared=6)


def merged_projection(
    op: Op, bias: int, mask: int, past: int, scores: int | None = None, shared: int | None = None
) -> list[Known | None]:
    """Lower an attention that projects its input ``[B, S, Di]`` by weights ``[Di, D + D + Dv]``."""
    x, n = op.sized(0, 3), heads(op)
    hidden, values = projected(op, bias, n)
    batch, queries = x[0], x[1]
    op.require(eq(hidden % n, 0), "the hidden size must be a multiple of num_heads", (1, 1))
    head, total = hidden // n, queries
    held = need_rank(op, past, 5)
    if held is not None:
        match(op, past, (2, batch, n, None, head), "past must have shape [2, B, heads, L, head size]")
        sharing = op.int_attr("past_present_share_buffer", 0)
        before = None if sharing else held[3]
        if sharing and shared is not None:
            before = op.scalar(shared)
        total = before + queries if before is not None else op.fresh("the number of keys")
        if sharing:
            op.require(ge(held[3], total), "shared buffer must have room for all keys", (past, 3))
    length = total if held is None or not op.int_attr("past_present_share_buffer", 0) else held[3]
    match_mask(op, mask, batch, queries, total)
    if scores is not None:
        if held is not None and op.has(scores):
            raise InvalidNode("Attention cannot have both a past and an attention bias")
        match_bias(op, scores, batch, n, queries, total)
    return [op.out([batch, queries, values]), op.out([2, batch, n, length, head])]


def projected(op: Op, bias: int, n: int) -> tuple[Dim, Dim]:
    """``(D, Dv)``, the widths of keys and values, from the merged weights at input 1 and the bias."""
    x, weights = op.shape(0), op.sized(1, 2)
    if x:
        op.same(x[-1], weights[0], "weights must have one row per input feature", (0, len(x) - 1), (1, 0))
    width = weights[1]
    if op.has(bias):
        match(op, bias, (width,), "expected one bias per column of the weights")
    sizes = op.ints_attr("qkv_hidden_sizes")
    if not sizes:
        op.require(eq(width % 3, 0), "weights must divide into three equal projections", (1, 1))
        return width // 3, width // 3
    if len(sizes) != 3 or any(s % n for s in sizes) or sizes[0] != sizes[1]:
        raise InvalidNode(
            f"qkv_hidden_sizes {list(sizes)} must be three multiples of {n} heads, the first two equal"
        )
    op.same(width, sum(sizes), "weights must cover all three projections", (1, 1))
    return constant(sizes[0]), constant(sizes[2])


def match_mask(op: Op, i: int, batch: Dim, queries: Dim, total: Dim) -> None:
    """Require the shape of an `Attention` mask: one of the forms of rank 1 to 4."""
    shape = op.shape(i)
    if shape is not None and len(shape) == 4:
        match(op, i, (batch, 1, shape[3], None), "mask must cover the batch and all keys")
        op.require(ge(shape[3], total), "the mask must cover all keys", (i, 3))
        return
    one_of(op, i, (
        (batch,), (2 * batch,), (3 * batch + 2,),
        (batch, total), (batch, ONE), (ONE, ONE),
        (batch, queries, total),
    ))  # fmt: skip


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.PackedAttention
@no_cpu_function("PackedAttention")
def packed_attention(op: Op) -> Known:
    x = op.sized(0, 2)
    return op.out([x[0], projected(op, 2, heads(op))[1]])


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QOrderedAttention
no_cpu(
    "QOrderedAttention",
    "B S I, ., ?, ?, ?, I D, I D, I V, ?, ?, ?, D, D, V, ?, ?, ?, ?, ?, ? -> B S V",
)
no_cpu(
    "LongformerAttention",
    "B S D, D 3*D, 3*D, B S, D 3*D, 3*D, B S -> B S D",
)
no_cpu(
    "QOrderedLongformerAttention",
    "B S D, ?, D 3*D, ?, 3*D, ?, ?, B S, D 3*D, ?, 3*D, ?, B S, ? -> B S D",
)


# ---------------------------------------------------------------------- MultiHeadAttention


def multi_head_work(op: Op, outputs: Outputs) -> Operations | None:
    """Return the work of a multi-head attention (see `attend`), with one addition per separate operand."""
    q, k, v, past, n = op.shape(0), op.shape(1), op.shape(2), op.shape(6), op.int_attr("num_heads", 0)
    if q is None or k is None or v is None or len(q) != 3 or n < 1 or not len(k) == len(v) in (3, 4):
        return None
    if op.has(8) or (op.has(6) and (past is None or len(past) != 4)):
        return None
    new, values = (k[1], v[2] // n) if len(k) == 3 else (k[2], v[3])
    core = attend(q[0], constant(n), q[1], new if past is None else new + past[2], q[2] // n, values)
    biased = (q.numel + k.numel + v.numel) if op.has(3) else ZERO
    return Operations(core.macs, core.other + biased)


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MultiHeadAttention
@ms_function(
    "MultiHeadAttention",
    types=(0,),
    together=((6, 7),),
    data=(8,),
    work=Work(multi_head_work),
    axes=batch_first(0, 1, 2, 4, 6, 7, shared=(5,)),
)
def multi_head_attention(op: Op) -> list[Known | None]:
    """Lower MultiHeadAttention; queries, keys, values are separate, or packed ``[B, S, N, 3, H]``."""
    n = heads(op)
    q = need_rank(op, 0, 3, 5)
    if q is None:
        return unknown_attention(op)
    batch, queries = q[0], q[1]
    if len(q) == 5:
        match(op, 0, (None, None, n, 3, None), "query must have shape [B, S, heads, 3, head size]")
    hidden = q[2] if len(q) == 3 else q[4].scale(n)
    divided(op, hidden, n, batch * queries, "the hidden size", (0, len(q) - 1))
    head = hidden // n
    found = keys_of(op, batch, queries, hidden, n)
    if found is None:
        return unknown_attention(op)
    keys, values = found
    if op.has(3):
        match(op, 3, (2 * hidden + values,), "expected one bias per projected feature")
    past = need_rank(op, 6, 4)
    total = length = keys
    if past is not None:
        match(op, 6, (batch, n, None, head), "past_key must have shape [batch, heads, length, head size]")
        match(op, 7, (batch, n, past[2], head), "past values must match past keys")
        total = length = keys + past[2]
        if op.has(8):
            before, length = op.scalar(8), past[2]
            total = before + keys if before is not None else op.fresh("the number of keys")
    one_of(op, 4, ((batch,), (3 * batch + 2,), (batch, total), (batch, queries, total)))
    match_bias(op, 5, batch, n, queries, total)
    return [
        op.out([batch, queries, values]),
        op.out([batch, n, length, head]),
        op.out([batch, n, length, values // n]),
        op.out([batch, n, queries, total]),
    ]


def divided(op: Op, hidden: Dim, n: int, rows: Dim, what: str, place: Place) -> None:
    """Require that a hidden size is a multiple of the number of heads, unless there are no rows."""
    op.require(any_of((eq(hidden % n, 0), eq(rows, 0))), f"{what} must be a multiple of num_heads", place)


def unknown_attention(op: Op) -> list[Known | None]:
    """Outputs of known rank and unknown sizes."""
    return [op.out(op.fresh_shape(r, "a size of the attention")) for r in (3, 4, 4, 4)[: op.n_out]]


def keys_of(op: Op, batch: Dim, queries: Dim, hidden: Dim, n: int) -> tuple[Dim, Dim] | None:
    """``(L, Dv)``, key length and value width, by the rank of the keys; None if that is unknown."""
    if not op.has(1):
        if op.rank(0) == 3:
            raise InvalidNode(f"without key, query must have shape [B, S, heads, 3, size], got {op.shape(0)}")
        return queries, hidden
    k, v = need_rank(op, 1, 3, 4, 5), op.shape(2)
    if k is None:
        return None
    if len(k) == 5:
        match(op, 1, (batch, None, n, 2, hidden // n), "key must have shape [B, L, heads, 2, head size]")
        return k[1], hidden
    if len(k) == 4:
        match(op, 1, (batch, n, None, hidden // n), "key must have shape [B, heads, L, head size]")
        match(op, 2, (batch, n, k[2], hidden // n), "value must have shape [B, heads, L, head size]")
        return k[2], hidden
    match(op, 1, (batch, None, hidden), "queries and keys must have the same batch and hidden size")
    if v is None:
        return None
    match(op, 2, (batch, k[1], None), "keys and values must have the same batch and length")
    divided(op, hidden, n, batch * k[1], "the hidden size", (1, 2))
    divided(op, v[2], n, batch * k[1], "the hidden size of values", (2, 2))
    return k[1], v[2]


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.DecoderMaskedMultiHeadAttention
@ms_function("DecoderMaskedMultiHeadAttention", types=(0,))
def decoder_masked_attention(op: Op) -> list[Known | None]:
    """Lower DecoderMaskedMultiHeadAttention: one query, with new, cached or packed keys and values."""
    n, q = heads(op), op.sized(0, 3)
    op.same(q[1], 1, "expected one query", (0, 1))
    k, v, past = need_rank(op, 1, 3, 4), need_rank(op, 2, 3, 4), need_rank(op, 5, 4)
    if (op.has(1) and k is None) or (op.has(2) and v is None):
        return unknown_attention(op)
    hidden = q[2] if op.has(1) else q[2] // 3
    op.require(eq(hidden % n, 0), "the hidden size must be a multiple of num_heads", (0, 2))
    batch, head, values, length = q[0], hidden // n, hidden, ONE
    if v is not None:
        values = v[1] * v[3] if len(v) == 4 else v[-1]
    if k is not None and len(k) == 4:
        length = k[2]
        match(op, 1, (batch, n, None, head), "key must have shape [B, heads, L, head size]")
        match(op, 2, (batch, n, length, head), "value must have shape [B, heads, L, head size]")
    elif k is not None:
        match(op, 1, (batch, 1, hidden), "queries and keys must have the same shape")
        match(op, 2, (batch, 1, None), "keys and values must have the same batch and length")
    if past is not None:
        shared = op.int_attr("past_present_share_buffer", 0)
        length = past[2] if shared else past[2] + 1
        match(op, 5, (batch, n, None, head), "past_key must have shape [batch, heads, length, head size]")
        match(op, 6, (batch, n, past[2], values // n), "past values must match past keys")
    if op.has(10):
        match(op, 10, (2 * hidden + values,), "expected one bias per projected feature")
    total = length
    if op.int_attr("past_present_share_buffer", 0) and past is not None:
        held, before = need_rank(op, 7, 0, 1), op.scalar(7)
        if held:
            op.same(held[0], 1, "past_sequence_length must have one element", (7, 0))
        total = op.fresh("the number of keys") if before is None else before + 1
    one_of(op, 3, ((batch, total),))
    match_bias(op, 4, batch, n, ONE, total)
    return [
        op.out([q[0], 1, values]),
        op.out([q[0], n, length, hidden // n]),
        op.out([q[0], n, length, values // n]),
        op.out([q[0], n, 1, total]),
    ]


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.PackedMultiHeadAttention
@no_cpu_function("PackedMultiHeadAttention")
def packed_multi_head_attention(op: Op) -> Known:
    q, v = need_rank(op, 0, 2, 4), op.shape(2)
    if q is None:
        return op.out(op.fresh_shape(2, "a size of the attention"))
    if len(q) == 4:
        return op.out([q[0], q[1] * q[3]])
    return op.out([q[0], v[1] if v is not None and len(v) == 2 else op.fresh("the hidden size of values")])


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.DecoderAttention
no_cpu(  # how many keys there are depends on flags that are data
    "DecoderAttention", "T B D, ?, D D, D 2*D, 3*D, ?... -> T B D, B n keys D//n, B n keys D//n", n="num_heads",
    where="n >= 1",
)  # fmt: skip


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.RelativePositionBias
@no_cpu_function("RelativePositionBias", data=(1, 2))
def relative_position_bias(op: Op) -> Known:
    table, queries, keys = op.sized(0, 2), op.scalar(1), op.scalar(2)
    queries = queries if queries is not None else op.fresh("the number of queries")
    return op.out([1, table[1], queries, keys if keys is not None else op.fresh("the number of keys")])


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GatedRelativePositionBias
@no_cpu_function("GatedRelativePositionBias")
def gated_relative_position_bias(op: Op) -> Known:
    query, offsets = op.shape(0), op.shape(6)
    rows = query if query is not None and len(query) == 3 else offsets
    if rows is None:
        return op.out(op.fresh_shape(4, "a size of the bias"))
    return op.out([rows[0], heads(op), rows[1], rows[1]])


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.RemovePadding
@no_cpu_function("RemovePadding", work=MOVES)
def remove_padding(op: Op) -> list[Known | None]:
    x = op.sized(0, 3)
    match(op, 1, (x[0],), "expected one count per sequence")
    tokens = op.fresh("the number of tokens without padding", 0, x[0] * x[1])
    return [op.out([tokens, x[2]]), op.out(x[:2]), op.out([x[0] + 1]), op.out([1])]


no_cpu("RestorePadding", "T H, B S -> B S H", work=MOVES)


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.RotaryEmbedding
@ms_function(
    "RotaryEmbedding",
    reads={1: positions(2, 1)},
    elements=(1,),
    work=Work(rotary_work, "over"),
    axes=lambda op, outputs: first_axes(op, outputs, (0, 1) if rank(op, 1) > 1 else (0,)),
)
def rotary_embedding(op: Op) -> Known:
    x = need_rank(op, 0, 3, 4)
    positions, cosines = need_rank(op, 1, 0, 1, 2), op.sized(2, 2)
    if positions is not None and len(positions) == 1:
        op.same(positions[0], 1, "a vector of positions must have one element, the first position", (1, 0))
    match(op, 3, tuple(cosines), "cosines and sines must have the same shape")
    axis = 1 if x is None or len(x) == 3 else 2
    if x is not None:
        op.require(le(x[axis], cosines[0]), "expected a row per position", (0, axis), (2, 0))
        _angles(op, x, cosines[1])
    if x is not None and positions is not None and len(positions) == 2:
        op.same(x[0], positions[0], "expected positions for each batch item", (0, 0), (1, 0))
        op.same(x[axis], positions[1], "expected one position per token", (0, axis), (1, 1))
    value = op.value(1)
    if value is not None and positions is not None and len(positions) == 2:
        op.in_range(value, cosines[0], (positions.numel,), "expected a row per position", (1, None), (2, 0))
    return op.like()


def _angles(op: Op, x: Shape, angles: Dim) -> None:
    """Requires one angle per pair of elements of a head, or of its rotated part. Without heads the table gives its length."""
    part, n, last = op.int_attr("rotary_embedding_dim", 0), op.int_attr("num_heads", 0), len(x) - 1
    if part > 0 and n < 1:
        raise InvalidNode("num_heads must be given with rotary_embedding_dim")
    places: tuple[Place, ...] = ((0, last), (2, 1))
    nothing = eq(x[:last].numel, 0)  # then onnxruntime does not meet a head of no size
    if last == 2 and n < 1:
        whole = all_of((ge(angles, 1), divides(2 * angles, x[2])))
        fits = any_of((eq(x[2], 0), whole, all_of((eq(angles, 0), nothing))))
        op.require(fits, "twice the columns of cos_cache must divide the hidden size", *places)
        return
    head = x[3] if last == 3 else x[2] // n
    if last == 2:
        op.require(divides(constant(n), x[2]), "num_heads must divide the hidden size", (0, 2))
    fits = any_of((eq(angles, head // 2), all_of((eq(head, 0), nothing))))
    if part > 0:
        op.require(ge(head, part), "rotary_embedding_dim must be at most the head size", (0, last))
        fits = any_of((fits, eq(angles, part // 2)))
    op.require(fits, "cos_cache must have half as many columns as a head", *places)


@ms_function("MRotaryEmbedding")
def multi_rotary_embedding(op: Op) -> Known:
    """Lower MRotaryEmbedding, with a row of positions for each section (time, height, width)."""
    x, cosines = need_rank(op, 0, 3, 4), op.sized(2, 2)
    match(op, 3, tuple(cosines), "cos_cache and sin_cache must have the same shape")
    if x is None:
        return op.out(None)
    tokens = x[1] if len(x) == 3 else x[2]
    if len(x) == 3:
        heads(op)
    _angles(op, x, cosines[1])
    if len(x) == 4 and not op.int_attr("rotary_embedding_dim", 0):
        op.require(any_of((eq(x[3] % 2, 0), eq(x.numel, 0))), "a head must have an even size", (0, 3))
    match(op, 1, (3, x[0], tokens), "position_ids must have shape [3, batch, sequence]")
    return op.like()
