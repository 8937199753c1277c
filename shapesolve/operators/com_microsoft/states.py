"""Operators of onnxruntime (``com.microsoft``) that pass a state from call to call: convolutions, hashes, and others.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.CausalConvWithState

Sequences of different lengths are packed along the token axis; cumulative offsets (one more than sequences) mark
their ends.
"""

from __future__ import annotations

from ...expr import ONE, Dim, Shape, all_of, constant, eq, floor_div, ge, ite, le
from ...expr.limits import INT32_MAX
from ...lines import join_names
from ...lower.op import MalformedNode, Op
from ...lower.types import Known
from ..limits import MAX_STATES
from .cache import state_window
from .contrib import match, ms, ms_function, need_rank, no_cpu, no_cpu_function


def captured(op: Op, i: int, batch: Dim | None) -> int:
    """Return the attribute `state_update_capacity`; if positive, requires one count per sequence (input `i`)."""
    capacity = op.int_attr("state_update_capacity", 0)
    if not 0 <= capacity <= MAX_STATES:
        raise MalformedNode(f"state_update_capacity must be in [0, {MAX_STATES}], got {capacity}")
    if op.has(i) != (capacity > 0):
        raise MalformedNode("capture_count must be given if and only if state_update_capacity is positive")
    match(op, i, (batch,), "expected one capture_count per sequence")
    return capacity


def sequences(op: Op, i: int) -> Dim:
    """Return the number of sequences by the offsets at input `i`, required to be at least 1."""
    offsets = op.sized(i, 1)
    op.require(ge(offsets[0], 2), "expected offsets for at least one sequence", (i, 0))
    known, tokens = op.const_ints(i), op.shape(0)
    if known and tokens:
        op.same(tokens[0], known[-1], "the last offset must be the number of tokens", (0, 0), (i, None))
    return offsets[0] - 1


# ---------------------------------------------------------------------- convolutions


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.CausalConvWithState
@ms_function("CausalConvWithState")
def causal_conv_with_state(op: Op) -> list[Known | None]:
    """Lower CausalConvWithState; the state holds the inputs before the current ones."""
    n, window, dilation = op.int_attr("ndim", 1), state_window(op), _dilation(op)
    if n not in (1, 2, 3):
        raise MalformedNode(f"ndim must be 1, 2, or 3, got {n}")
    last = op.int_attr("channels_last", 0)
    if last not in (0, 1) or (last and n != 1):
        raise MalformedNode("channels_last is 0 or 1, and 1 only for one spatial axis")
    x, kernel = op.sized(0, n + 2), op.sized(1, n + 2)
    channels = x[-1] if last else x[1]
    op.same(kernel[0], channels, "expected one kernel per channel", (1, 0), (0, n + 1 if last else 1))
    reach = (kernel[-1] - 1).scale(dilation)  # along the last spatial axis
    op.same(kernel[1], 1, "the convolution must be depthwise: axis 1 of its kernel must be 1", (1, 1))
    match(op, 2, (channels,), "the bias must have one element per channel")
    state = [x[0], reach, channels] if last else [*x[:-1], reach]
    held = (constant(window), *state) if window else tuple(state)
    match(op, 3, held, "past_state must have shape [batch, channels, (kernel - 1) * dilation]")
    return [op.like(), op.out([constant(window), *state] if window else state)]


def _dilation(op: Op) -> int:
    dilation = op.int_attr("dilation", 1)
    if dilation < 1:
        raise MalformedNode(f"dilation must be at least 1, got {dilation}")
    return dilation


@ms_function("VarlenCausalConvWithState", operands="T C, C 1 K, _, C", elements=(2,))
def varlen_causal_conv_with_state(op: Op) -> list[Known | None]:
    dilation = _dilation(op)
    x, kernel, batch = op.sized(0, 2), op.sized(1, 3), sequences(op, 2)
    capacity = captured(op, 5, batch)
    op.require(ge(x[0], batch), "each sequence must have a token", (0, 0), (2, 0))
    state = (batch, x[1], (kernel[2] - 1).scale(dilation))
    match(op, 4, state, "state must have shape [sequences, channels, (kernel - 1) * dilation]")
    return [op.out(x), op.out(state), op.out([batch, capacity, x[1]])]


# ---------------------------------------------------------------------- engrams and hashes of n-grams


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.EngramGate
@ms_function(
    "EngramGate", operands="B S M H, B S M H, B S H, M H, M H, M H",
    axes="B S M h, B S M h, B S h, ?, ?, ? -> B S M ^H, B S M ^H",
)  # fmt: skip
def engram_gate(op: Op) -> list[Known | None]:
    """Lower EngramGate: ``[B, S, M, H]``, M streams of features; the value has one stream."""
    if op.wants(1) and not op.has(5):
        raise MalformedNode("the second output of EngramGate needs the input conv_norm_scale")
    return [op.like(), op.like()]


def _hashes(op: Op) -> tuple[int, int]:
    """``(past tokens that an n-gram needs, hashes per token)``, from the attributes."""
    n, heads = op.int_attr("max_ngram_size", 0), op.int_attr("n_head_per_ngram", 0)
    if n < 2 or heads < 1:
        raise MalformedNode(f"n-grams must have at least 2 tokens and 1 hash, got {n} and {heads}")
    return n - 1, (n - 1) * heads


def _hash_operands(op: Op, past: int, hashes: int, offsets: int) -> None:
    """Require multipliers, vocabulary sizes, offsets, and an end-of-text token."""
    multipliers = op.sized(1, 1)
    op.require(ge(multipliers[0], past + 1), f"expected {past + 1} or more multipliers", (1, 0))
    for i in (2, offsets):
        match(op, i, (hashes,), f"expected {hashes} elements, one per hash of a token")
    op.shape(offsets + 1, 0)


ms(
    "NGramHashMapping", "B S, m, (n-1)*h, B n-1, (n-1)*h, ., B S -> B S (n-1)*h, B n-1", n="max_ngram_size",
    h="n_head_per_ngram", where=("n >= 2", "h >= 1", "m >= n"), axes="B s, m, h, B p, k, ., B s -> B S K, B P",
)  # fmt: skip


@ms_function(
    "VarlenNGramHashMapping", operands="T, _, _, _, S H, _, ., T, S H", elements=(3,),
)  # fmt: skip
def varlen_ngram_hash_mapping(op: Op) -> list[Known | None]:
    ids, batch = op.sized(0, 1), sequences(op, 3)
    past, hashes = _hashes(op)
    _hash_operands(op, past, hashes, 5)
    op.require(ge(ids[0], batch), "each sequence must have a token", (0, 0), (3, 0))
    for i in (4, 8):
        match(op, i, (batch, past), "the past must have shape [sequences, max_ngram_size - 1]")
    held = op.out([batch, past])
    return [op.out([ids[0], hashes]), held, held, op.out([batch, captured(op, 9, batch), past])]


# ---------------------------------------------------------------------- replays and commits of captured states

no_cpu("ConvStateReplay", "_, _, N, 8 -> N")
no_cpu("GatedDeltaNetStateReplay", "_, _, N, 11 -> N", types=(2,))
no_cpu(
    "Mamba2Verify",
    "R W, L C 3, L H S D, ?, C, H, H, H, H*D, 1 -> R H*D, L C 3, L H S D, R C, R H*D",
    H="heads",
    S="d_state=128",
    D="head_dim=64",
    types=(0, 1, 2, 0, "float"),
)


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.SpeculativePrefixCommit
@no_cpu_function("SpeculativePrefixCommit", types=("int32", 3, 4))
def speculative_prefix_commit(op: Op) -> list[Known | None]:
    predicted = need_rank(op, 0, 1, 2)
    batch = None if predicted is None else [predicted[0] if len(predicted) == 2 else ONE]
    return [op.out(batch), op.like(3), op.like(4)]


# ---------------------------------------------------------------------- indexers of sparse attention

_CSA_INPUTS = {1: "key", 8: "gate", 9: "position_bias", 10: "head_weights", 11: "position_ids"}


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.SparseAttentionIndexer
@no_cpu_function("SparseAttentionIndexer")
def sparse_attention_indexer(op: Op) -> list[Known | None]:
    """Lower SparseAttentionIndexer, by its policy. ``qsa`` keeps a key for each token; ``csa`` merges `compress_ratio`
    tokens into one and keeps what is left over.
    """
    csa = _indexer(op, {**_CSA_INPUTS, 13: "past_proj_buffer"})
    if csa and op.has(6):
        raise MalformedNode("the policy csa takes no mask")
    if op.n_out != 2 + csa:
        raise MalformedNode(f"{op.node.op_type} has {2 + csa} outputs with this policy, not {op.n_out}")
    q, past, head = op.sized(0, 3), op.sized(7, 3), _index_head(op, csa)
    op.same(past[0], q[0], "the past must have the batch of the query", (7, 0), (0, 0))
    picked = op.out([q[0], q[1], _selected(op, csa)])
    if not csa:
        keys = past[1] if op.has(12) else past[1] + q[1]
        return [picked, op.out([q[0], keys, head])]
    merged, kept = _compressed(op, q, head)
    return [picked, op.out([q[0], past[1] if op.has(12) else past[1] + merged, head]), kept]


def _compressed(op: Op, q: Shape, head: Dim) -> tuple[Dim, Known]:
    """``(number of new merged keys, output buffer of tokens not merged yet)``."""
    ratio, buffer = op.int_attr("compress_ratio", 1), op.sized(13, 4)
    match(op, 13, (2, q[0], None, head.scale(2)), "buffer must have shape [2, batch, tokens, 2 * head size]")
    op.require(le(buffer[2], 2 * ratio - 1), "the buffer holds less than two groups of tokens", (13, 2))
    waiting = buffer[2] % ratio + q[1]
    merged = floor_div(waiting, constant(ratio))
    left = ite(ge(waiting, ratio), waiting % ratio + ratio, buffer[2] + q[1])
    return merged, op.out([constant(2), q[0], left, head.scale(2)])


@no_cpu_function(
    "PackedSparseAttentionIndexer",
)
def packed_sparse_attention_indexer(op: Op) -> list[Known | None]:
    csa = _indexer(op, {**_CSA_INPUTS, 14: "past_gate_buffer"})
    capacity = _packed_outputs(op, csa)
    q, states = op.sized(0, 2), [need_rank(op, i, 2 if i == 15 else 3) for i in (12, 13, 14, 15)]
    _index_head(op, csa)
    rows = op.int_attr("state_capacity", 0)
    for i, size in ((12, rows), (13, 2 * op.int_attr("compress_ratio", 1) - 1)):
        match(op, i, (None, size, None), "the state must have the size that the attributes give")
    match(op, 15, (None, 2), "each state must have two lengths")
    keys = states[0]
    update = None if keys is None else op.out([keys[0], capacity, keys[2]])
    shared = op.attr("max_output_entries") is not None
    width = op.fresh("the width of the selection") if shared else constant(_selected(op, csa))
    return [
        op.out([q[0], width]),
        op.out([q[0]]),
        *(op.like(i) for i in (12, 13, 14, 15)),
        update,
        op.out([q[0]]),
        None if keys is None else op.out([keys[0]]),
    ]


no_cpu(
    "PackedSparseAttentionIndexerMerge",
    "R C, R, N, N, N, N A, N -> N W, N, N",
    W="max_output_entries",
)


def _packed_outputs(op: Op, csa: bool) -> int:
    """Check which optional inputs and outputs are given; returns `state_update_capacity`."""
    if not 6 <= op.n_out <= 9 or op.wants(4) != csa:
        raise MalformedNode(f"{op.node.op_type} has 6 to 9 outputs, present_gate_buffer only with csa")
    capacity = op.int_attr("state_update_capacity", 0)
    if op.int_attr("state_capacity", 0) < 1 or not 0 <= capacity <= MAX_STATES:
        raise MalformedNode(f"state_capacity must be positive, state_update_capacity in [0, {MAX_STATES}]")
    if csa and (capacity or op.has(16) or op.wants(6)):
        raise MalformedNode("updates of the state are captured only with the policy qsa")
    if capacity and not op.has(16):
        raise MalformedNode("captured updates need the input state_update_capture_count")
    return capacity


def _indexer(op: Op, merging: dict[int, str]) -> bool:
    """Check the attributes, and that the inputs for merging are given if and only if the policy is csa; return True if
    it is.
    """
    policy, ratio = op.text_attr("policy_mode", ""), op.int_attr("compress_ratio", 0)
    if policy not in ("qsa", "csa"):
        raise MalformedNode(f"policy_mode must be 'qsa' or 'csa', got {policy!r}")
    if not 0 < ratio <= INT32_MAX:
        raise MalformedNode(f"compress_ratio must be positive, got {ratio}")
    csa = policy == "csa"
    count, others = (
        ("index_topk", ("token_budget",)) if csa else ("token_budget", ("index_topk", "head_weight_scale"))
    )
    n = op.int_attr(count, 0)
    if n < 1 or _selected(op, csa) > INT32_MAX or (not csa and n % ratio):
        raise MalformedNode(f"{count} {n} must be positive, and with qsa a multiple of compress_ratio")
    if any(op.attr(name) is not None for name in others):
        raise MalformedNode(f"the policy {policy} does not take {join_names(others)}")
    for i, name in merging.items():
        if csa and not op.has(i):
            raise MalformedNode(f"the policy csa needs the input {name}")
        if not csa and i != 1 and op.has(i):
            raise MalformedNode(f"the policy qsa does not take the input {name}")
    return csa


def _selected(op: Op, csa: bool) -> int:
    """Return the number of entries selected per token."""
    return (
        op.int_attr("index_topk", 0)
        if csa
        else op.int_attr("token_budget", 0) + op.int_attr("compress_ratio", 1) - 1
    )


def _index_head(op: Op, csa: bool) -> Dim:
    """Head size of the index, from the normalization weight of the query."""
    q, norm = op.shape(0), op.sized(2, 1)
    for i in (4, 5):
        need_rank(op, i, 2, 3)
    op.require(ge(norm[0], 1), "a head must not be empty", (2, 0))
    if q:
        last = len(q) - 1
        least = norm[0] if csa or op.has(1) else norm[0].scale(2)
        op.require(
            all_of((eq(q[last] % norm[0], 0), ge(q[last], least))), "expected whole heads", (0, last), (2, 0)
        )
    return norm[0]
