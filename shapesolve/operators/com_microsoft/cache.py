"""Attention operators of onnxruntime (``com.microsoft``) with caches in preallocated buffers. Other states: `microsoft_states`.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GroupQueryAttention
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Any

from onnx import TensorProto

from ...expr import ONE, ZERO, Dim, Shape, all_of, any_of, constant, divides, eq, ge, le, maximum
from ...lower.axes import batch_first
from ...lower.op import InvalidNode, MalformedNode, Op
from ...lower.rule import Reading
from ...lower.standard import one_number
from ...lower.types import Known
from ...lower.work import Operations, Outputs, Work, attend
from ..limits import MAX_STATES
from .attention import heads, match_bias
from .contrib import match, ms_function, need_rank, no_cpu_function


def grouped(op: Op, query: Shape, key: int = 1) -> tuple[int, int, Dim]:
    """``(N, Nk, H)``: numbers of query and key heads, and head size."""
    n, few = heads(op), heads(op, "kv_num_heads")
    if n % few:
        raise InvalidNode(f"num_heads {n} must be a multiple of kv_num_heads {few}")
    parts = n if op.has(key) else n + 2 * few
    axis = len(query) - 1
    op.require(eq(query[axis] % parts, 0), f"the query must divide into {parts} heads", (0, axis))
    return n, few, query[axis] // parts


def grouped_work(op: Op, outputs: Outputs) -> Operations | None:
    """Work of an attention over the present caches (see `attend`). The rotation of queries and keys is counted too."""
    q, present = op.shape(0), outputs[1] if len(outputs) > 1 else None
    n, few = op.int_attr("num_heads", 0), op.int_attr("kv_num_heads", 0)
    if q is None or present is None or len(q) != 3 or n < 1 or few < 1:
        return None
    head = q[2] // (n if op.has(1) else n + 2 * few)
    core = attend(q[0], constant(n), q[1], present[2], head, head)
    rotated = (q[0] * q[1] * head).scale(3 * (n + few)) if op.int_attr("do_rotary", 0) else ZERO
    return Operations(core.macs, core.other + rotated)


def _total(less: int) -> Reading:
    """Accepted total length: past plus new tokens, minus `less`."""

    def limits(_attributes: Mapping[str, Any], shapes: Seq[Shape | None]) -> tuple[Dim, Dim] | None:
        q, past = shapes[0], shapes[3] if len(shapes) > 3 else None
        if not q or len(q) < 2 or (past is not None and len(past) < 3):
            return None
        length = (past[2] if past is not None else ZERO) + q[1] - less
        return length, length

    return Reading("lengths of keys", limits)


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GroupQueryAttention
@ms_function(
    "GroupQueryAttention",
    types=(0, 3, 4, 0),
    together=((1, 2), (7, 8)),
    runtime=("kernel", "never empty"),
    reads={5: _total(1), 6: _total(0)},
    data=(6,),
    work=Work(grouped_work),
    axes=batch_first(0, 1, 2, 3, 4, 5, 9),
)
def group_query_attention(op: Op) -> list[Known | None]:
    """Lower GroupQueryAttention; caches grow to the total length, or are buffers that hold it."""
    q = op.sized(0, 3)
    n, few, head = grouped(op, q)
    batch, queries, size = q[0], q[1], head.scale(few)
    match(op, 1, (batch, queries, size), "key must have shape [batch, sequence, kv_num_heads * head size]")
    match(op, 2, (batch, queries, size), "value must have shape [batch, sequence, kv_num_heads * head size]")
    past = need_rank(op, 3, 4)
    held = head if past is None else past[3]
    match(
        op,
        3,
        (batch, few, None, None if op.int_attr("kv_cache_bit_width", 0) == 4 else head),
        "past keys must have the batch and heads of the keys",
    )
    if past is not None:
        match(op, 4, (batch, few, past[2], held), "past values must match past keys")
    lengths = op.shape(5)
    if lengths is not None:  # any rank except a scalar
        if not lengths:
            raise InvalidNode(f"the lengths {op.name_of(5)} must not be a scalar")
        op.same(lengths.numel, batch, "expected one length per batch item", (5, 0), (0, 0))
    one_number(op, 6)
    total = op.scalar(6)
    if total is None:
        total = op.fresh("the number of keys")
    require_rows(op, 7, total)
    table = op.shape(7)
    if table is not None and op.has(8):
        match(op, 8, tuple(table), "cos_cache and sin_cache must have the same shape")
    positions = op.shape(9, 2) if op.has(9) else None
    if positions is not None:
        match(op, 9, (batch, None), "position_ids must have the batch of the queries")
        op.require(ge(positions[1], queries), "expected a position per query", (9, 1), (0, 1))
    match_bias(op, 10, batch, n, queries, total)
    match(op, 11, (n,), "head_sink must have one element per head")
    op.require(eq(head % 8, 0), "the head size must be a multiple of 8", (0, 2))
    op.require(ge(total, 1), "the total length must be positive", (6, None))
    require_steps(op, batch, queries, past, total)
    length = present_length(op, past, total)
    cache = op.out([batch, few, length, held])
    return [op.out([batch, queries, head.scale(n)]), cache, cache, op.out([batch, n, queries, total])]


def require_steps(op: Op, batch: Dim, queries: Dim, past: Shape | None, total: Dim) -> None:
    """Require that the total length is past plus new tokens, or fits a buffer.

    A sliding window is a buffer that forgets: there the total length may be anything.
    """
    if op.int_attr("sliding_window_cache", 0):
        if past is not None:
            op.require(
                ge(past[2], op.int_attr("local_window_size", -1)),
                "cache must have at least local_window_size positions",
                (3, 2),
            )
    elif past is not None or not op.has(3):
        held = past[2] if past is not None else constant(0)
        fits = any_of((eq(total, held + queries), le(total, held)))
        why = "the total length must be past and new tokens, or fit the buffer"
        op.require(fits, why, (3, 2), (0, 1), (6, None))
    op.require(ge(total, queries), "the total length must include the new tokens", (0, 1), (6, None))
    single = any_of((eq(queries, total), eq(queries, 1), all_of((ge(queries, 2), eq(batch, 1)))))
    op.require(single, "more than one new token with a past needs a batch of 1", (0, 0), (0, 1), (6, None))


def present_length(op: Op, past: Shape | None, total: Dim) -> Dim:
    """Return the length of the caches after this step."""
    if past is None:
        return total if not op.has(3) else op.fresh("the length of the cache")
    return past[2] if op.int_attr("sliding_window_cache", 0) else maximum(past[2], total)


def require_rows(op: Op, i: int, total: Dim) -> None:
    """Require that a rotary table has a row for each key."""
    table = need_rank(op, i, 2)
    if table is not None:
        op.require(ge(table[0], total), "the rotary table must cover all keys", (i, 0), (6, None))


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.SparseAttention
@ms_function("SparseAttention")
def sparse_attention(op: Op) -> list[Known | None]:
    q = op.sized(0, 3)
    n, few, head = grouped(op, q)
    for i in (1, 2):
        match(
            op,
            i,
            (q[0], q[1], head.scale(few)),
            "key and value must have shape [batch, sequence, kv_num_heads * head size]",
        )
    for i in (3, 4):
        match(
            op, i, (q[0], few, None, head), "a cache must have shape [batch, kv_num_heads, length, head size]"
        )
    return [op.out([q[0], q[1], head.scale(n)]), op.like(3), op.like(4)]


@no_cpu_function("DynamicSparseAttention", data=(10,))
def dynamic_sparse_attention(op: Op) -> list[Known | None]:
    """Lower DynamicSparseAttention: caches grow without a past, and are buffers with one."""
    q = op.sized(0, 3)
    together(op, 1, 2, "key and value")
    n, few, head = grouped(op, q)
    one_number(op, 10)
    dtype = TensorProto.BFLOAT16 if op.int_attr("output_bf16", 0) else op.dtype(0)
    output = op.out([q[0], q[1], head.scale(n)], dtype)
    caches: list[Known | None] = []
    for i in (3, 4):
        if op.has(i):
            match(
                op,
                i,
                (q[0], few, None, head),
                "a cache must have shape [batch, kv_num_heads, length, head size]",
            )
            caches.append(op.out(op.shape(i), op.dtype(i)))
        else:
            total = op.scalar(10)
            length = op.fresh("the length of the cache") if total is None else total
            caches.append(op.out([q[0], few, length, head]))
    return [output, *caches, op.out(None, TensorProto.INT32)]


def together(op: Op, a: int, b: int, what: str) -> None:
    """Raise `MalformedNode` unless both of two optional inputs are given, or neither."""
    if op.has(a) != op.has(b):
        raise MalformedNode(f"{op.node.op_type} requires {what} to be given together")


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.PagedAttention
@no_cpu_function("PagedAttention", types=(0, 3, 4))
@no_cpu_function("SparsePagedAttention")
def paged_attention(op: Op) -> list[Known | None]:
    """Lower PagedAttention: tokens of all sequences in one axis, caches in blocks."""
    q, layout = op.sized(0, 2), op.text_attr("kv_cache_layout", "SEPARATE")
    if layout not in ("SEPARATE", "LATENT"):
        raise MalformedNode(f"kv_cache_layout must be 'SEPARATE' or 'LATENT', got {layout!r}")
    caches = [need_rank(op, i, 4) for i in (3, 4)]
    if layout == "LATENT":
        return [op.out([q[0], _latent(op, q, caches[0])]), op.like(3)]
    together(op, 1, 2, "key and value")
    if not op.has(4) or op.n_out == 2:
        raise MalformedNode(f"{op.node.op_type} requires a value cache in addition to the key cache")
    n, _, head = grouped(op, q)
    return [op.out([q[0], head.scale(n)]), op.like(3), op.like(4)]


def _latent(op: Op, q: Shape, cache: Shape | None) -> Dim:
    """Output width where one latent row per token is both key and value. States the requirements of that layout."""
    n, narrow = heads(op), op.int_attr("v_head_size", 0)
    if not op.has(1) or op.has(2) or op.has(4) or heads(op, "kv_num_heads") != 1 or op.n_out > 2:
        raise MalformedNode("the LATENT layout requires one key head, and no values or value cache")
    if narrow < 0:
        raise MalformedNode(f"v_head_size must not be negative, got {narrow}")
    op.require(eq(q[1] % n, 0), f"the query must divide into {n} heads", (0, 1))
    head = q[1] // n
    match(op, 1, (None, head), "a latent key must be as wide as a query head")
    if cache is not None:
        packed = op.text_attr("k_cache_dtype", "") in ("int4", "float4e2m1")
        match(
            op,
            3,
            (None, None, 1, (head + 1) // 2 if packed else head),
            "the cache must be as wide as the latent key",
        )
    if not narrow:
        return q[1]
    op.require(le(narrow, head), "v_head_size must not exceed the query heads", (0, 1))
    if op.attr("scale") is None:
        op.require(eq(head, narrow), "narrower values need the attribute scale", (0, 1))
    return constant(n * narrow)


# ---------------------------------------------------------------------- linear attention


#: update rule: whether it takes a decay and a beta
TERMS = {
    "linear": (False, False),
    "gated": (True, False),
    "delta": (False, True),
    "gated_delta": (True, True),
}


def state_window(op: Op) -> int:
    """Return the number of past states that are returned; 0 if only the last one is."""
    window = op.int_attr("state_window", 0)
    if not 0 <= window <= MAX_STATES:
        raise MalformedNode(f"state_window must be in [0, {MAX_STATES}], got {window}")
    return window


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.LinearAttention
@ms_function(
    "LinearAttention",
    operands="B T I, B T J, B T K",
    choices={"update_rule": tuple(TERMS)},
)
def linear_attention(op: Op) -> list[Known | None]:
    q, k, v = op.sized(0, 3), op.sized(1, 3), op.sized(2, 3)
    n, few, window = heads(op, "q_num_heads"), heads(op, "kv_num_heads"), state_window(op)
    if max(n, few) % min(n, few):
        raise InvalidNode(f"q_num_heads {n} and kv_num_heads {few} must be multiples of one another")
    rule = op.text_attr("update_rule", "gated_delta")
    if (op.has(4), op.has(5)) != TERMS[rule]:
        decay, beta = ("needs" if given else "takes no" for given in TERMS[rule])
        raise MalformedNode(f"update_rule {rule!r} {decay} decay and {beta} beta")
    for i, shape, parts in ((0, q, n), (2, v, few)):
        op.require(eq(shape[2] % parts, 0), f"hidden size must divide into {parts} heads", (i, 2))
    size, key = v[2] // few, q[2] // n
    op.require(divides(key, k[2]), "keys must divide into heads of the size of a query head", (1, 2), (0, 2))
    state: list[Dim | int] = [q[0], few, key, size]
    match(
        op,
        3,
        tuple(state) if not window else (window, *state),
        "past_state must have shape [batch, kv heads, key size, value size]",
    )
    for i, each in ((4, key.scale(few)), (5, ONE)):
        gate = need_rank(op, i, 3)
        match(op, i, (q[0], q[1], None), "decay and beta must have the batch and length of the queries")
        if gate is not None:
            fits = any_of((eq(gate[2], few), eq(gate[2], each)))
            op.require(
                fits, "expected one decay and beta per head, a decay per key element, or one beta", (i, 2)
            )
    past = op.dtype(3) or op.dtype(0)
    return [
        op.out([q[0], q[1], size.scale(max(n, few))], op.dtype(0)),
        op.out([window, *state] if window else state, past),
    ]
