"""Operators of onnxruntime (``com.microsoft``) for linear attention with the gated delta rule.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GatedDeltaNet

Queries, keys, and values are ``[..., heads, size]``, or one packed input; the leading axes are tokens, or batch and
tokens.
The state is ``[batch, value heads, value size, key size]``.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...expr import Dim, Shape, all_of, any_of, eq, ge
from ...lower.op import InvalidNode, MalformedNode, Op
from ...lower.types import Known
from .cache import TERMS, together
from .contrib import match, ms_function, need_rank
from .states import captured, sequences

_GATES = {"none": False, "softplus": True, "qwen": True, "sigmoid": True, "kda": True}


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Token axes, and number and size of heads of queries, keys and values."""

    tokens: Shape
    key_heads: Dim
    key: Dim
    heads: Dim
    value: Dim


@ms_function(
    "GatedDeltaNet",
    choices={"update_rule": tuple(TERMS), "gate_activation": tuple(_GATES)},
)
def gated_delta_net(op: Op) -> list[Known | None]:
    together(op, 1, 2, "key and value")
    decay, beta = TERMS[op.text_attr("update_rule", "gated_delta")]
    gated = _GATES[op.text_attr("gate_activation", "none")]
    if (op.has(4), op.has(5), op.has(7), op.has(8)) != (decay, beta, gated, gated):
        raise MalformedNode("update_rule takes decay and beta; gate_activation takes a_log and dt_bias")
    packed = not op.has(2)
    if packed and not op.has(6):
        raise MalformedNode("queries, keys, and values in one input need an initial_state")
    q = need_rank(op, 0, *((2, 3) if packed else (3, 4)))
    state = op.shape(6, 4) if op.has(6) else None
    if q is None:
        return [None, op.out(state) if state is not None else None, None]
    s = _packed(op, q, state) if packed and state is not None else _separate(op, q)
    batch = _batch(op, s.tokens, state)
    held = (batch, s.heads, s.value, s.key)
    match(op, 6, held, "the state must have shape [batch, value heads, value size, key size]")
    width = _gates(op, s)
    updates = op.out([batch, (width + s.key_heads * s.key + s.heads * s.value).scale(captured(op, 9, batch))])
    return [op.out([*s.tokens, s.heads, s.value]), op.out(held), updates if op.wants(2) else None]


def _separate(op: Op, q: Shape) -> _Sizes:
    v, tokens = op.sized(2, len(q)), Shape(q[:-2])
    match(op, 1, tuple(q), "keys must have the shape of the queries")
    match(op, 2, (*tokens, None, None), "expected one value per token")
    axis = len(tokens)
    for i, shape in ((0, q), (2, v)):
        for k in (axis, axis + 1):
            op.require(ge(shape[k], 1), "head counts and head sizes must be positive", (i, k))
    op.require(eq(v[-2] % q[-2], 0), "value heads must be a multiple of key heads", (2, axis), (0, axis))
    return _Sizes(tokens, q[-2], q[-1], v[-2], v[-1])


def _packed(op: Op, q: Shape, state: Shape) -> _Sizes:
    """Return the sizes for queries, keys and values packed in the last axis."""
    _, heads, value, key = state
    axis = len(q) - 1
    for k in (1, 2, 3):
        op.require(ge(state[k], 1), "head counts and head sizes must be positive", (6, k))
    rest = q[axis] - heads * value
    op.require(ge(rest, 1), "packed input must be wider than its values", (0, axis), (6, 1))
    op.require(eq(rest % (key * 2), 0), "queries and keys must divide into heads", (0, axis), (6, 3))
    key_heads = rest // (key * 2)
    op.require(eq(heads % key_heads, 0), "value heads must be a multiple of key heads", (6, 1), (0, axis))
    return _Sizes(Shape(q[:-1]), key_heads, key, heads, value)


def _batch(op: Op, tokens: Shape, state: Shape | None) -> Dim:
    """Return the number of sequences: the batch axis or, for tokens packed along one axis, from cu_seqlens or the state."""
    for axis, d in enumerate(tokens):
        op.require(ge(d, 1), "expected at least one token", (0, axis))
    if op.has(3):
        if len(tokens) > 1:
            raise InvalidNode("with cu_seqlens, all tokens must be packed along one axis")
        return sequences(op, 3)
    if len(tokens) > 1:
        return tokens[0]
    if state is None:
        if op.has(6):
            return op.fresh("the number of sequences")
        raise MalformedNode("without cu_seqlens, initial_state gives the number of sequences")
    even = all_of((ge(state[0], 1), eq(tokens[0] % state[0], 0)))
    op.require(even, "tokens must divide into sequences", (0, 0), (6, 0))
    return state[0]


def _gates(op: Op, s: _Sizes) -> Dim:
    """Check the inputs for decay and beta; returns the number of decay elements per token."""
    rows, by_key = (*s.tokens, s.heads), (*s.tokens, s.heads, s.key)
    match(op, 5, rows, "expected one beta per token and head")
    match(op, 7, (s.heads,), "expected one a_log per head")
    decay = need_rank(op, 4, len(rows), len(by_key))
    if decay is not None:
        match(op, 4, by_key[: len(decay)], "expected a decay per token and head, or per key element too")
    each = decay is not None and len(decay) == len(by_key)
    bias = need_rank(op, 8, 1, 2)
    if bias is not None and len(bias) == 2:
        match(op, 8, (s.heads, s.key), "dt_bias must have one element per head, or per key element")
    elif bias is not None:
        fits = [eq(bias[0], s.heads), *([eq(bias[0], s.heads * s.key)] if each else [])]
        op.require(any_of(fits), "dt_bias must have one element per head, or per key element", (8, 0))
    if bias is not None and len(bias) == 2 and decay is not None and not each:
        raise InvalidNode("dt_bias for each key size needs such a decay")
    if op.has(4) and decay is None:
        return op.fresh("the width of the decay")
    return s.heads * s.key if each else s.heads
