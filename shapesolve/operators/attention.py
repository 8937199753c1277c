"""Attention operators of the standard, with rotary embeddings."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ..expr import ONE, Dim, Shape, any_of, constant, divides, eq, exact_quotient, floor_div, ge, le
from ..lower.axes import Label, Links, batched, own, sizes
from ..lower.needed import one_type
from ..lower.op import InvalidNode, MalformedNode, Op
from ..lower.reads import positions, up_to
from ..lower.records import Place
from ..lower.registry import lower
from ..lower.signature import Signature
from ..lower.types import Known
from ..lower.work import Operations, Outputs, Work, attend, per

# https://onnx.ai/onnx/operators/onnx__CausalConvWithState.html
_causal_conv = Signature("N C L, C 1 K, C, N C K-1 -> N C L, N C K-1", ("K >= 1",), {})


@lower("CausalConvWithState", runtime=("no kernel",))
def causal_conv_with_state(op: Op) -> list[Known | None]:
    if op.text_attr("activation", "none") not in ("none", "silu", "swish"):
        raise MalformedNode(f"activation {op.attr('activation')!r} must be 'none', 'silu', or 'swish'")
    return _causal_conv(op)


Part = Literal["batch", "heads", "length", "size"]
_PARTS: tuple[Part, ...] = ("batch", "heads", "length", "size")


class Heads(NamedTuple):
    """Axes of a query, key or value split into heads: ``[batch, heads, length, size]``."""

    batch: Dim
    heads: Dim
    length: Dim
    size: Dim
    places: tuple[Place, Place, Place, Place]


def heads_of(op: Op, i: int, shape: Shape, heads: int) -> Heads:
    """Return the axes of input `i`, required to fit `heads`; raises `InvalidNode` at rank 3 without heads.

    It is ``[batch, heads, length, size]`` or ``[batch, length, heads*size]``.
    """
    if len(shape) == 4:
        if heads:
            why = "the number of heads must be the attribute's"
            op.same(shape[1], constant(heads), why, (i, 1))
        return Heads(*shape, ((i, 0), (i, 1), (i, 2), (i, 3)))
    if heads < 1:
        raise InvalidNode(f"{op.name_of(i)} has rank 3: the number of heads must be given by an attribute")
    return Heads(
        shape[0], constant(heads), shape[1], per_head(op, i, shape, heads), ((i, 0), (i, 2), (i, 1), (i, 2))
    )


def per_head(op: Op, i: int, shape: Shape, heads: int) -> Dim:
    """Size of one head, of a last axis that holds `heads` heads; requires that it divides."""
    last = len(shape) - 1
    op.require(divides(heads, shape[last]), f"the hidden size must split into {heads} heads", (i, last))
    exact = exact_quotient(shape[last], constant(heads))
    return exact if exact is not None else floor_div(shape[last], constant(heads))


def share_heads(op: Op, q: Heads, k: Heads) -> None:
    """Require that the number of query heads is a multiple of the number of key heads."""
    op.require(
        divides(k.heads, q.heads), "query heads must be a multiple of key heads", q.places[1], k.places[1]
    )


def attention_work(op: Op, outputs: Outputs) -> Operations | None:
    """Return the work of an attention; see `attend`."""
    shapes = [op.shape(i) for i in range(3)]
    if not all(s is not None and 3 <= len(s) <= 4 for s in shapes):
        return None
    kv_heads = op.int_attr("kv_num_heads", 0)
    q, k, v = (
        heads_of(op, i, s, kv_heads if i else op.int_attr("q_num_heads", 0))
        for i, s in enumerate(shapes)
        if s is not None
    )
    past = op.shape(4)
    if op.has(4) and (past is None or len(past) != 4):
        return None
    keys = k.length if past is None else past[2] + k.length
    return attend(q.batch, q.heads, q.length, keys, q.size, v.size)


def _attention_axes(op: Op, outputs: Outputs) -> Links:
    """Links of an attention: query positions are one axis, key and value positions another. A mask has both, unless one
    row serves all.
    """
    inputs: list[list[Label]] = [own(op, i) for i in range(op.n_in)]
    for i, labels in enumerate(inputs):
        if i != 3 and len(labels) > 2:
            labels[0] = "B"
            if i < 3:
                labels[len(labels) - 2 if len(labels) > 3 else 1] = "keys" if i else "queries"
    if op.has(3):
        mask, given = inputs[3], sizes(op, 3)
        keys = mask[-1] if op.has(4) and mask else "keys"
        named: list[tuple[int, Label]] = [(-2, "queries"), (-1, keys), (-4, "B")]
        for k, label in named:
            if k >= -len(mask) and len(mask) > 1 and given[k] is not ONE:
                mask[k] = label
    if op.has(6):
        inputs[6] = ["B"]
    return Links(inputs, [batched(outputs, i) if o else None for i, o in enumerate(op.node.outputs)])


# https://onnx.ai/onnx/operators/onnx__Attention.html
@lower(
    "Attention",
    reads={6: up_to(1, -2, 1, "lengths of keys")},
    elements=(6,),
    work=Work(attention_work),
    axes=_attention_axes,
)
def attention(op: Op) -> list[Known]:
    """Lower Attention: output Y, then present keys and values, then the scores."""
    rank = next((r for r in (op.rank(0), op.rank(1), op.rank(2)) if r is not None), None)
    if rank is None:
        return [op.out(None) for _ in range(op.n_out)]
    if not 3 <= rank <= 4:
        raise InvalidNode(f"query, key and value must have rank 3 or 4, got {rank}")
    shapes = [op.shape(i, rank) for i in range(3)]
    for name in ("left_window_size", "right_window_size"):
        if op.int_attr(name, -1) < -1:
            raise MalformedNode(f"{name} must be -1 or not negative, got {op.attr(name)}")
    kv_heads = op.int_attr("kv_num_heads", 0)
    q, k, v = (
        heads_of(op, i, s, kv_heads if i else op.int_attr("q_num_heads", 0))
        for i, s in enumerate(shapes)
        if s is not None
    )
    batch = _agree(op, "batch", "query, key and value must have the same batch", q, k, v)
    _agree(op, "heads", "key and value must have the same heads", k, v)
    size = _agree(op, "size", "the heads of query and key must have the same size", q, k)
    length = _agree(op, "length", "key and value must have the same length", k, v)
    share_heads(op, q, k)
    for part in (q, k, v):
        for d, place in zip(part[:4], part.places, strict=True):
            op.require(ge(d, 1), "attention needs something to attend to", place)
    if op.as_onnxruntime("body-types"):
        one_type(op, 0, 1, 2)
    past = _past(op, batch, k.heads, size, v.size)
    all_keys = length if past is None else past + length
    _mask(op, Shape([batch, q.heads, q.length, all_keys]))
    _padding(op, batch, all_keys)
    y = [batch, q.heads, q.length, v.size] if rank == 4 else [batch, q.length, q.heads * v.size]
    keys, values = [batch, k.heads, all_keys, size], [batch, k.heads, all_keys, v.size]
    return [op.out(y), op.out(keys), op.out(values), op.out([batch, q.heads, q.length, all_keys])]


def _agree(op: Op, part: Part, why: str, first: Heads, *others: Heads) -> Dim:
    """Require that inputs agree in one size (batch, heads, length or size); returns it."""
    at = _PARTS.index(part)
    size: Dim = getattr(first, part)
    for other in others:
        size = op.same(size, getattr(other, part), why, first.places[at], other.places[at])
    return size


def _past(op: Op, batch: Dim, heads: Dim, size: Dim, value_size: Dim) -> Dim | None:
    """Return the length of the cached keys and values (past), which are required to fit; None without a past."""
    if op.has(4) != op.has(5):
        raise InvalidNode("past key and past value must be given together")
    if not op.has(4):
        return None
    past = op.same_shapes((4, 5), "past key and past value must have the same shape", skip=3)
    key, value = op.sized(4, 4), op.sized(5, 4)
    for i, shape, last in ((4, key, size), (5, value, value_size)):
        for axis, need in ((0, batch), (1, heads), (3, last)):
            op.same(shape[axis], need, "past must match key and value", (i, axis))
    return past[2] if past is not None and len(past) == 4 else key[2]


def _mask(op: Op, scores: Shape) -> None:
    """Require that the mask broadcasts to the scores. Since version 24 it may be shorter than the keys (see
    "attention-mask").
    """
    mask = op.shape(3)
    if mask is None:
        return
    if len(mask) > 4 or (len(mask) < 2 and op.version < 25 and op.as_onnxruntime("attention-mask")):
        raise InvalidNode(f"the mask {op.name_of(3)} must have rank 2 to 4, got {mask}")
    why = "the mask must broadcast to [batch, heads, queries, keys]"
    for k, (d, need) in enumerate(zip(mask, scores[4 - len(mask) :], strict=True)):
        axis = k + 4 - len(mask)
        if axis >= 2 and op.as_onnxruntime("attention-mask"):
            if op.version >= 25:  # no kernel of onnxruntime: it runs the body, whose additions broadcast
                if axis == 2:
                    op.require(any_of((eq(d, need), eq(d, 1))), why, (3, k))
                continue  # the body pads a mask that ends early, and cuts one that is too long
            op.same(d, need, "the mask must be as long as queries and keys", (3, k))
        elif axis == 3 and op.version >= 24:
            op.require(le(d, need), "the mask must not be longer than the keys", (3, k))
        else:
            op.require(any_of((eq(d, need), eq(d, 1))), why, (3, k))


def _padding(op: Op, batch: Dim, keys: Dim) -> None:
    """Require one number of unpadded keys per sample (input 6)."""
    if not op.has(6):
        return
    if op.has(4):
        raise InvalidNode("nonpad_kv_seqlen cannot be used together with a past")
    counts = op.shape(6, 1)
    if counts is not None:
        op.same(counts[0], batch, "nonpad_kv_seqlen must have one element per sample", (6, 0), (0, 0))
    known = op.value(6)
    lo, hi = known.bounds if known is not None and known.reached else (None, None)
    if lo is not None:
        op.require(ge(lo, 0), "nonpad_kv_seqlen must not be negative", (6, None))
    if hi is not None:
        op.require(le(hi, keys), "nonpad_kv_seqlen must not exceed the keys", (6, None))


# https://onnx.ai/onnx/operators/onnx_aionnxpreview_FlexAttention.html
@lower("FlexAttention", domain="ai.onnx.preview")
def flex_attention(op: Op) -> Known:
    """Lower FlexAttention; its subgraphs must keep the shape of scores and probabilities."""
    shapes = [op.shape(i, 4) for i in range(3)]
    q, k, v = (heads_of(op, i, s, 0) for i, s in enumerate(shapes) if s is not None)
    batch = _agree(op, "batch", "query, key and value must have the same batch", q, k, v)
    _agree(op, "heads", "key and value must have the same heads", k, v)
    _agree(op, "size", "the heads of query and key must have the same size", q, k)
    _agree(op, "length", "key and value must have the same length", k, v)
    share_heads(op, q, k)
    return op.out([batch, q.heads, q.length, v.size])


# https://onnx.ai/onnx/operators/onnx__LinearAttention.html
@lower("LinearAttention", runtime=("no kernel",))
def linear_attention(op: Op) -> list[Known]:
    """Lower LinearAttention: the output, and the state ``[batch, heads, key size, value size]``."""
    _check_update_rule(op)
    kv_heads, q_heads = op.int_attr("kv_num_heads", 0), op.int_attr("q_num_heads", 0)
    shapes = [op.shape(i, 3) for i in range(3)]
    q, k, v = (heads_of(op, i, s, kv_heads if i else q_heads) for i, s in enumerate(shapes) if s is not None)
    share_heads(op, q, k)
    batch = _agree(op, "batch", "query, key and value must have the same batch", q, k, v)
    length = _agree(op, "length", "query, key and value must have the same length", q, k, v)
    size = _agree(op, "size", "the heads of query and key must have the same size", q, k)
    state = Shape([batch, kv_heads, size, v.size])
    state = _fits(op, 3, state, "past state must be [batch, kv_heads, key size, value size]")
    batch, size, value_size = state[0], state[2], state[3]
    for i in (4, 5):
        given = op.shape(i, 3) if op.has(i) else None
        if given is not None:
            why = "decay and beta must be given for each position, by head or finer"
            op.same(given[0], batch, why, (i, 0), q.places[0])
            op.same(given[1], length, why, (i, 1), q.places[2])
            finer = kv_heads * size if i == 4 else constant(1)
            op.require(any_of((eq(given[2], kv_heads), eq(given[2], finer))), why, (i, 2))
    return [op.out([batch, length, q_heads * value_size]), op.out(state, op.dtype(3) or op.dtype(0))]


def _check_update_rule(op: Op) -> None:
    """Check that decay and beta (inputs 4 and 5) are given exactly where the update rule takes them."""
    rule = op.text_attr("update_rule", "gated_delta")
    if rule not in ("linear", "gated", "delta", "gated_delta"):
        raise MalformedNode(f"update_rule {rule!r} must be 'linear', 'gated', 'delta', or 'gated_delta'")
    for i, name, word in ((4, "decay", "gated"), (5, "beta", "delta")):
        if op.has(i) != (word in rule):
            raise MalformedNode(
                f"update_rule {rule} {'does not take' if op.has(i) else 'needs'} the input {name}"
            )


def _fits(op: Op, i: int, need: Shape, why: str) -> Shape:
    """Require that input `i`, if connected, has this shape; returns the shape, simplified."""
    given = op.shape(i, len(need)) if op.has(i) else None
    return need if given is None else Shape(op.same(d, need[k], why, (i, k)) for k, d in enumerate(given))


def rotary_work(op: Op, outputs: Outputs) -> Operations | None:
    """Return the work of a rotary embedding: two products and a sum per rotated element."""
    x, part = op.shape(0), op.int_attr("rotary_embedding_dim", 0)
    if x is None or not part:
        return per(x, 3)
    if len(x) == 4:
        return per(Shape(x[:3]), 3 * part)
    return per(Shape(x[:2]), 3 * part * op.int_attr("num_heads", 0)) if op.int_attr("num_heads", 0) else None


def _rotary_axes(op: Op, outputs: Outputs) -> Links:
    tables: list[list[Label]] = [own(op, 1), own(op, 2)]
    if not op.has(3):
        tables = [["B", "s", *labels[2:]] for labels in tables]
    x: list[Label] = ["B", *own(op)[1:]]
    x[-2] = "s"
    return Links([x, *tables, *([["B", "s"]] if op.has(3) else [])], [batched(outputs)])


# https://onnx.ai/onnx/operators/onnx__RotaryEmbedding.html
@lower(
    "RotaryEmbedding",
    reads={3: positions(1, 3)},
    elements=(3,),
    work=Work(rotary_work, "over"),
    axes=_rotary_axes,
)
def rotary_embedding(op: Op) -> Known:
    """Lower RotaryEmbedding: output like the input; each cache has one angle per rotated pair."""
    x = op.shape(0)
    if x is None:
        return op.out(None)
    if not 3 <= len(x) <= 4:
        raise InvalidNode(f"input {op.name_of(0)} must have rank 3 or 4, got {x}")
    heads = heads_of(op, 0, x, op.int_attr("num_heads", 0) if len(x) == 3 else 0)
    part = op.int_attr("rotary_embedding_dim", 0)
    if part:
        op.require(
            le(part, heads.size), "rotary_embedding_dim must be at most the head size", heads.places[3]
        )
    angles = floor_div(constant(part) if part else heads.size, constant(2))
    if not op.has(3):
        for i in (1, 2):
            _fits(op, i, Shape([heads.batch, heads.length, angles]), "expected one angle per position")
        return op.out(x)
    cache = op.sized(1, 2)
    op.shape(2, 2)
    op.same_shapes((1, 2), "the caches of cosines and sines must have the same shape")
    _fits(op, 3, Shape([heads.batch, heads.length]), "position_ids must be [batch, length]")
    op.same(cache[1], angles, "the caches must have one angle per pair of a head", (1, 1), heads.places[3])
    op.require(le(heads.length, cache[0]), "the caches must cover the sequence", (1, 0), heads.places[2])
    _positions(op, heads, cache[0])
    return op.out(x)


def _positions(op: Op, heads: Heads, size: Dim) -> None:
    """Require that positions (input 3) are row indices of the caches."""
    positions = op.value(3)
    if positions is None or not positions.reached:
        return
    lo, hi = positions.bounds
    empty = eq(heads.batch * heads.length, 0)
    if hi is not None:
        op.require(any_of((le(hi, size - 1), empty)), "position_ids must be in the caches", (3, None), (1, 0))
    if lo is not None:
        op.require(any_of((ge(lo, 0), empty)), "position_ids must not be negative", (3, None))
