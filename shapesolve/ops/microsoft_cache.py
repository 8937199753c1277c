"""Attention of onnxruntime (``com.microsoft``) with caches that are buffers; other operators with a state.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GroupQueryAttention
"""

from __future__ import annotations

from ..dims import Dim, Shape, all_of, any_of, constant, eq, ge, le, maximum
from .microsoft import ms, ms_function
from .microsoft_attention import heads, match, match_bias, need_rank
from .op import InvalidNode, Op
from .types import Known


def grouped(op: Op, query: Shape, key: int = 1) -> tuple[int, int, Dim]:
    """``(N, Nk, H)``; without a key the query's last axis holds queries, keys and values."""
    n, few = heads(op), heads(op, "kv_num_heads")
    if n % few:
        raise InvalidNode(f"num_heads {n} must be a multiple of kv_num_heads {few}")
    parts = n if op.has(key) else n + 2 * few
    axis = len(query) - 1
    op.require(eq(query[axis] % parts, 0), f"the query must divide into {parts} heads", (0, axis))
    return n, few, query[axis] // parts


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GroupQueryAttention
@ms_function("GroupQueryAttention", types=(0, 3, 4, 0))
def group_query_attention(op: Op) -> list[Known | None]:
    """The caches grow to the total length, given as a value, or are buffers that hold it already."""
    q = op.shape(0, 3)
    assert q is not None
    n, few, head = grouped(op, q)
    batch, queries, size = q[0], q[1], head.scale(few)
    match(op, 1, (batch, queries, size), "keys must fit the queries")
    match(op, 2, (batch, queries, size), "values must fit the queries")
    past = need_rank(op, 3, 4)
    held = head if past is None else past[3]
    match(
        op,
        3,
        (batch, few, None, None if op.int_attr("kv_cache_bit_width", 0) == 4 else head),
        "past keys must fit",
    )
    if past is not None:
        match(op, 4, (batch, few, past[2], held), "past values must fit past keys")
    match(op, 5, (batch,), "there must be a length for each row")
    total = op.scalar(6)
    if total is None:
        total = op.fresh("the number of keys")
    require_rows(op, 7, total)
    require_rows(op, 8, total)
    match_bias(op, 10, batch, n, queries, total)
    op.require(eq(head % 8, 0), "the head size must be a multiple of 8", (0, 2))
    require_steps(op, batch, queries, past, total)
    length = present_length(op, past, total)
    cache = op.out([batch, few, length, held])
    return [op.out([batch, queries, head.scale(n)]), cache, cache, op.out([batch, n, queries, total])]


def require_steps(op: Op, batch: Dim, queries: Dim, past: Shape | None, total: Dim) -> None:
    """Require a total length that fits: a cache grows by the new tokens, or is a buffer that holds all."""
    if past is not None or not op.has(3):
        held = past[2] if past is not None else constant(0)
        fits = any_of((eq(total, held + queries), le(total, held)))
        op.require(
            fits, "the total length must be past and new tokens, or fit the buffer", (3, 2), (0, 1), (6, None)
        )
    if not op.int_attr("sliding_window_cache", 0):
        op.require(ge(total, queries), "the total length counts the new tokens", (0, 1), (6, None))
    single = any_of((eq(queries, total), eq(queries, 1), all_of((ge(queries, 2), eq(batch, 1)))))
    op.require(single, "several new tokens with a past need a batch of 1", (0, 0), (0, 1), (6, None))


def present_length(op: Op, past: Shape | None, total: Dim) -> Dim:
    """Length of the caches after the step."""
    if past is None:
        return total if not op.has(3) else op.fresh("the length of the cache")
    return past[2] if op.int_attr("sliding_window_cache", 0) else maximum(past[2], total)


def require_rows(op: Op, i: int, total: Dim) -> None:
    """Require a rotary table with a row for each key."""
    table = need_rank(op, i, 2)
    if table is not None:
        op.require(ge(table[0], total), "the rotary table must cover all keys", (i, 0), (6, None))


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.SparseAttention
@ms_function("SparseAttention", types=(0, 3, 4))
def sparse_attention(op: Op) -> list[Known | None]:
    q = op.shape(0, 3)
    assert q is not None
    n, few, head = grouped(op, q)
    for i in (1, 2):
        match(op, i, (q[0], q[1], head.scale(few)), "keys and values must fit the queries")
    for i in (3, 4):
        match(op, i, (q[0], few, None, head), "the caches must fit the queries")
    return [op.out([q[0], q[1], head.scale(n)]), op.like(3), op.like(4)]


@ms_function("DynamicSparseAttention", types=(0, 3, 4))
def dynamic_sparse_attention(op: Op) -> list[Known | None]:
    q = op.shape(0, 3)
    assert q is not None
    n, few, head = grouped(op, q)
    past, total = op.shape(3), op.scalar(10)
    length = op.fresh("the length of the cache")
    if total is not None and (past is not None or not op.has(3)):
        length = total if past is None else maximum(past[2], total)
    cache = op.out([q[0], few, length, head])
    return [op.out([q[0], q[1], head.scale(n)]), cache, cache]


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.PagedAttention
@ms_function("PagedAttention", "SparsePagedAttention", types=(0, 3, 4))
def paged_attention(op: Op) -> list[Known | None]:
    """Tokens of all sequences in one row; the caches are blocks that are written in place."""
    q, narrow = op.shape(0, 2), op.int_attr("v_head_size", 0)
    assert q is not None
    if op.text_attr("kv_cache_layout", "") == "LATENT":
        n, head = heads(op), q[1] // heads(op)
    else:
        n, _, head = grouped(op, q)
    return [op.out([q[0], (constant(narrow) if narrow else head).scale(n)]), op.like(3), op.like(4)]


# ---------------------------------------------------------------------- linear attention and other states


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.LinearAttention
@ms_function("LinearAttention")
def linear_attention(op: Op) -> list[Known | None]:
    q, k, v = op.shape(0, 3), op.shape(1, 3), op.shape(2, 3)
    assert q is not None
    assert k is not None
    assert v is not None
    n, few, window = heads(op, "q_num_heads"), heads(op, "kv_num_heads"), op.int_attr("state_window", 0)
    for other in (1, 2):
        match(op, other, (q[0], q[1], None), "queries, keys and values must have one batch and length")
    for i, shape, parts in ((0, q, n), (1, k, few), (2, v, few)):
        op.require(eq(shape[2] % parts, 0), f"there must be {parts} heads of equal size", (i, 2))
    size = v[2] // few
    state: list[Dim | int] = [q[0], few, k[2] // few, size]
    past = op.dtype(3) or op.dtype(0)
    return [
        op.out([q[0], q[1], size.scale(max(n, few))], op.dtype(0)),
        op.out([window, *state] if window else state, past),
    ]


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GatedDeltaNet
@ms_function("GatedDeltaNet", types=(0, "float", "float"))
def gated_delta_net(op: Op) -> list[Known | None]:
    q, v, state = op.shape(0), op.shape(2), op.shape(6, 4)
    final = state if state is not None else op.fresh_shape(4, "a size of the state")
    if q is None or (v is None and len(q) not in (2, 3)):
        return [None, op.out(final), None]
    rows = q[:-2] if op.has(1) else q[:-1]
    return [op.out([*rows, final[1], final[2]]), op.out(final), None]


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.CausalConvWithState
@ms_function("CausalConvWithState", types=(0,))
def causal_conv_with_state(op: Op) -> list[Known | None]:
    """The state holds the inputs that the kernel still reaches back to; `state_window` keeps several."""
    x, kernel, ndim = op.shape(0), op.shape(1), op.int_attr("ndim", 1)
    if x is None or kernel is None or ndim != 1 or len(kernel) != 3:
        return [op.like(), None]
    last = op.int_attr("channels_last", 0)
    op.same(kernel[0], x[2:].numel if last else x[1], "there must be a kernel for each channel", (1, 0))
    reach = (kernel[2] - 1) * op.int_attr("dilation", 1)
    state = [x[0], reach, *x[2:]] if last else [x[0], x[1], reach]
    window = op.int_attr("state_window", 0)
    return [op.like(), op.out([window, *state] if window else state)]


@ms_function("VarlenCausalConvWithState", types=(0,))
def varlen_causal_conv_with_state(op: Op) -> list[Known | None]:
    x, state = op.shape(0, 2), op.shape(4, 3)
    assert x is not None
    assert state is not None
    update = op.out([state[0], op.int_attr("state_update_capacity", 0), x[1]])
    return [op.out(x), op.out(state), update]


ms("EngramGate", "B S M H, B S M H, B S H, M H, M H, M H -> B S M H, B S M H")


@ms_function("NGramHashMapping", types=(0,))
def ngram_hash_mapping(op: Op) -> list[Known | None]:
    ids, n = op.shape(0, 2), op.int_attr("max_ngram_size", 3)
    assert ids is not None
    hashes = (n - 1) * op.int_attr("n_head_per_ngram", 1)
    return [op.out([*ids, hashes]), op.out([ids[0], n - 1])]


@ms_function("VarlenNGramHashMapping", types=(0, 0, "int32", 0))
def varlen_ngram_hash_mapping(op: Op) -> list[Known | None]:
    ids, n, ends = op.shape(0, 1), op.int_attr("max_ngram_size", 3), op.shape(3, 1)
    assert ids is not None
    assert ends is not None
    batch, hashes = ends[0] - 1, (n - 1) * op.int_attr("n_head_per_ngram", 1)
    past = op.out([batch, n - 1])
    return [
        op.out([ids[0], hashes]),
        past,
        past,
        op.out([batch, op.int_attr("state_update_capacity", 0), n - 1]),
    ]


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.SparseAttentionIndexer
@ms_function("SparseAttentionIndexer", types=("int32", 0))
def sparse_attention_indexer(op: Op) -> list[Known | None]:
    q, past, compressed = op.shape(0, 3), op.shape(7, 3), op.text_attr("policy_mode", "qsa") == "csa"
    assert q is not None
    assert past is not None
    keys = past[1]
    if not op.has(12):
        keys = op.fresh("the number of compressed keys") if compressed else past[1] + q[1]
    picked = op.out([q[0], q[1], indexed(op, compressed)])
    return [picked, op.out([past[0], keys, past[2]]), None]


@ms_function("PackedSparseAttentionIndexer", types=("int32", "int32", 0, 0, 0, "int32", 0))
def packed_sparse_attention_indexer(op: Op) -> list[Known | None]:
    q, compressed = op.shape(0, 2), op.text_attr("policy_mode", "qsa") == "csa"
    assert q is not None
    states = [op.like(i) for i in (12, 13, 14, 15)]
    return [op.out([q[0], indexed(op, compressed)]), op.out([q[0]]), *states, None]


def indexed(op: Op, compressed: bool) -> Dim:
    """How many entries the indexer selects."""
    if compressed:
        return constant(op.int_attr("index_topk", 0))
    return constant(op.int_attr("token_budget", 0) + op.int_attr("compress_ratio", 1) - 1)
