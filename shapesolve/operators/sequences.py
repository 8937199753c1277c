"""Sequence and optional operators.

A sequence keeps its elements one by one if they are known, otherwise its length and the elements' common properties.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np

from ..expr import (
    FALSE,
    ONE,
    TRUE,
    Cond,
    Dim,
    any_of,
    ceil_div,
    constant,
    eq,
    exact_quotient,
    ge,
    le,
    lt,
    minimum,
    total,
)
from ..lower.axes import Links, Unfollowed, axis_of, own, plain, rank
from ..lower.declared import declared_known
from ..lower.join import closed, common, element
from ..lower.limits import MAX_ELEMENTS
from ..lower.op import InvalidNode, Op
from ..lower.reads import PARTS, between
from ..lower.reason import JOIN_ELEMENTS
from ..lower.records import Body, Steps
from ..lower.registry import lower, lower_bodies
from ..lower.scopes import rehearsal
from ..lower.types import OPEN, Known, Optional, Sequence, Tensor
from ..lower.values import Value
from ..lower.work import MOVES, Outputs
from .control import lower_inside, visible_symbols
from .joining import joined_sizes, sizes_if_all_empty
from .limits import MAX_ITEMS, MAX_TRIPS


def _any(op: Op, i: int) -> Known:
    """Return the known value of input `i`, or a tensor of unknown type."""
    return op.known(i) or op.walk.interner.tensor(0, None)


def _of_items(op: Op, items: tuple[Known, ...], dtype: int = 0) -> Sequence:
    elem = common(op, items) if items else op.walk.interner.tensor(dtype, None)
    return Sequence(elem, constant(len(items)), items if len(items) <= MAX_ITEMS else None)


def _elem_type(seq: Sequence) -> int:
    return seq.elem.dtype if isinstance(seq.elem, Tensor) else 0


def _position(op: Op, i: int, length: Dim | None, extra: int = 0) -> int | None:
    """Return the constant position in input `i` (non-negative if the length is known), or None."""
    value = op.value(i)
    if length is not None:
        why = f"the position must be in the sequence ([-n, n{'' if extra else ' - 1'}] for n elements)"
        low, high = value.bounds if value is not None else (None, None)
        if high is not None:
            op.require(ge(length + extra - 1, high), why, (0, None), (i, None))
        if low is not None:
            op.require(ge(low + length, 0), why, (0, None), (i, None))
    known = op.const_ints(i)
    if known is None or len(known) != 1:
        return None
    at = known[0]
    if at < 0 and length is not None and length.value is not None:
        at += length.const
    return at


_PLACE = between(0, 0, "a position")


# https://onnx.ai/onnx/operators/onnx__SequenceConstruct.html A sequence is modeled as one tensor with the common
# properties of its elements.
@lower("SequenceConstruct", values=True, work=MOVES, axes="*S... -> *S")
def construct(op: Op) -> Known:
    if not op.n_in:
        raise InvalidNode("SequenceConstruct requires at least one tensor; SequenceEmpty takes none")
    return _of_items(op, tuple(_any(op, i) for i in range(op.n_in)))


# https://onnx.ai/onnx/operators/onnx__SequenceEmpty.html
@lower("SequenceEmpty", values=True, work=MOVES)
def empty(op: Op) -> Known:
    return _of_items(op, (), op.int_attr("dtype", 1))


# https://onnx.ai/onnx/operators/onnx__SequenceInsert.html
@lower("SequenceInsert", reads={2: _PLACE}, values=True, data=(2,), work=MOVES, axes="*S, *S, ? -> *S")
def insert(op: Op) -> Known:
    seq, new = op.sequence(0) or Sequence(None), _any(op, 1)
    at = _position(op, 2, seq.length, 1) if op.has(2) else None
    if seq.items is not None and (at is not None or not op.has(2)):
        k = len(seq.items) if at is None else at
        if 0 <= k <= len(seq.items):
            return _of_items(op, (*seq.items[:k], new, *seq.items[k:]))
    is_empty = seq.length is not None and seq.length.value == 0
    elem, parts = new if is_empty else common(op, (seq.elem, new)), None
    if seq.parts is not None and isinstance(new, Tensor) and new.shape and len(new.shape) > seq.parts[0]:
        parts = seq.parts[0], (*seq.parts[1], new.shape[seq.parts[0]])
    return Sequence(elem, None if seq.length is None else seq.length + 1, parts=parts)


# https://onnx.ai/onnx/operators/onnx__SequenceErase.html
@lower("SequenceErase", reads={1: _PLACE}, values=True, data=(1,), work=MOVES, axes="*S, ? -> *S")
def erase(op: Op) -> Known:
    seq = op.sequence(0) or Sequence(None)
    at: int | None = -1
    if op.has(1):
        at = _position(op, 1, seq.length)
    elif seq.length is not None:
        op.require(ge(seq.length, 1), "cannot erase from an empty sequence", (0, None))
    if seq.items is not None and at is not None and -len(seq.items) <= at < len(seq.items):
        kept = list(seq.items)
        del kept[at]
        return _of_items(op, tuple(kept), _elem_type(seq))
    return Sequence(seq.elem, None if seq.length is None else seq.length - 1)


# https://onnx.ai/onnx/operators/onnx__SequenceAt.html
@lower("SequenceAt", reads={1: _PLACE}, values=True, data=(1,), work=MOVES, axes="*S, ? -> *S")
def at(op: Op) -> Known | None:
    seq = op.sequence(0) or Sequence(None)
    position = _position(op, 1, seq.length)
    if seq.items is not None and position is not None and -len(seq.items) <= position < len(seq.items):
        return seq.items[position]
    found = element(op, seq.elem)
    if (
        seq.parts is not None
        and seq.length is not None
        and position is not None
        and isinstance(found, Tensor)
    ):
        axis, (size, part, *more) = seq.parts
        if more:
            return found
        start = part * position if position >= 0 else (seq.length + position) * part
        if found.shape is not None:
            return op.out(found.shape.with_dim(axis, minimum(part, size - start)), found.dtype)
    return found


# https://onnx.ai/onnx/operators/onnx__SequenceLength.html
@lower("SequenceLength", values=True, work=MOVES)
def length(op: Op) -> Known:
    seq = op.sequence(0)
    return op.out([], value=Value.scalar(seq.length) if seq is not None else None)


def _split_axes(op: Op, _: Outputs) -> Links:
    labels, axis = own(op), axis_of(op)
    if op.has(1) and not (op.rank(1) or op.int_attr("keepdims", 1)):
        raise Unfollowed
    is_kept = op.has(1) or op.int_attr("keepdims", 1)
    return Links(
        [labels, own(op, 1)], [plain([*labels[:axis], *(["part"] if is_kept else []), *labels[axis + 1 :]])]
    )


# https://onnx.ai/onnx/operators/onnx__SplitToSequence.html
@lower(
    "SplitToSequence",
    reads={1: PARTS},
    values=True,
    data=(1,),
    fault="cannot split its input into these parts",
    work=MOVES,
    axes=_split_axes,
)
def split(op: Op) -> Known:
    shape, dtype = op.shape(0), op.dtype(0)
    if shape is None:
        return Sequence(op.out(None, dtype))
    axis = op.axis(op.int_attr("axis", 0), len(shape))
    size = shape[axis]

    def part(d: Dim, keep: bool = True) -> Tensor:
        return op.out([*shape[:axis], *([d] if keep else []), *shape[axis + 1 :]], dtype)

    if not op.has(1):
        one = part(ONE, op.int_attr("keepdims", 1) != 0)
        return Sequence(
            one, size, (one,) * size.const if size.value is not None and size.const <= MAX_ITEMS else None
        )
    rank = op.rank(1)
    if rank is None:
        return Sequence(part(OPEN))
    if rank == 0:
        # The standard's text ignores keepdims here, but onnxruntime does not: without it, the rank is unknown.
        return _chunks(op, axis, size, part) if op.int_attr("keepdims", 1) else Sequence(op.out(None, dtype))
    sizes = op.ints(1)
    if sizes is None:
        count = op.shape(1, 1)
        return Sequence(part(OPEN), count[0] if count is not None else None)
    for d in sizes:
        op.require(ge(d, 0), "the parts of a split must not be negative", (1, 0))
    op.require(eq(total(sizes), size), "the parts of a split must add up to the size", (0, axis), (1, None))
    return _of_items(op, tuple(part(d) for d in sizes))


def _chunks(op: Op, axis: int, size: Dim, part: Callable[[Dim], Tensor]) -> Sequence:
    """A sequence of parts of equal size, except that the last may be smaller."""
    chunk = op.scalar(1)
    if chunk is None:
        return Sequence(part(OPEN))
    op.require(ge(chunk, 1), "the size of the parts must be positive", (1, None))
    if chunk.value is not None and chunk.const < 1:
        return Sequence(part(OPEN))
    n = ceil_div(size, chunk)
    if chunk.value is not None and size.value is not None and n.const <= MAX_ITEMS:
        rest = [min(chunk.const, size.const - k * chunk.const) for k in range(n.const)]
        return _of_items(op, tuple(part(constant(d)) for d in rest), op.dtype(0))
    whole = exact_quotient(size, chunk) is not None
    return Sequence(part(chunk if whole else OPEN), n, parts=(axis, (size, chunk)))


def _concat_axes(op: Op, _: Outputs) -> Links:
    labels, stacks = own(op), bool(op.int_attr("new_axis", 0))
    axis = op.axis(op.int_attr("axis", None), rank(op) + stacks)
    return Links([labels], [plain([*labels[:axis], "joined", *labels[axis + (not stacks) :]])])


# https://onnx.ai/onnx/operators/onnx__ConcatFromSequence.html
@lower("ConcatFromSequence", values=True, work=MOVES, axes=_concat_axes)
def concat(op: Op) -> Known | None:
    seq, stacks = op.sequence(0) or Sequence(None), op.int_attr("new_axis", 0) != 0
    axis, dtype = op.int_attr("axis", 0), _elem_type(seq)
    if seq.length is not None:
        op.require(ge(seq.length, 1), "expected at least one tensor to concatenate", (0, None))
    items = seq.items
    if items is None or not items:
        return _concat_unknown(op, seq, axis, stacks)
    shapes = [t.shape for t in items if isinstance(t, Tensor) and t.shape is not None]
    if len(shapes) < len(items):
        return op.out(None, dtype)
    rank = len(shapes[0])
    if any(len(s) != rank for s in shapes):
        raise InvalidNode(f"tensors of different ranks cannot be joined: {', '.join(map(str, shapes))}")
    k = op.axis(axis, rank + stacks)
    parts = [p for p in enumerate(shapes) if p[1].numel.value != 0] or [(0, shapes[0])]
    dims = joined_sizes(op, parts, None if stacks else k, JOIN_ELEMENTS, lambda i, axis: (0, None))
    if parts[0][0] > 0:
        dims = sizes_if_all_empty(op, shapes[0], parts, dims)
    if stacks:
        dims.insert(k, constant(len(items)))
    else:
        dims[k] = total(s[k] for s in shapes)
    return op.out(dims, dtype, _joined_value(items, k, stacks))


def _concat_unknown(op: Op, seq: Sequence, axis: int, stacks: bool) -> Known | None:
    elem = seq.elem
    if not isinstance(elem, Tensor) or elem.shape is None:
        return op.out(None, _elem_type(seq))
    k = op.axis(axis, len(elem.shape) + stacks)
    n = seq.length if seq.length is not None else op.fresh("the length of a sequence", 1)
    dims = []
    shape = list(elem.shape)
    if seq.parts is not None:
        axis, (size, part, *more) = seq.parts
        if not stacks and axis == k:
            return op.out(elem.shape.with_dim(axis, total((size, *more))), elem.dtype)
        op.require(any_of((eq(size % part, 0), le(size, part), lt(part, 1))), JOIN_ELEMENTS, (0, None))
        for d in more:
            op.require(any_of((eq(d, minimum(size, part)), eq(size, 0))), JOIN_ELEMENTS, (0, None))
        shape[axis] = more[0] if more else minimum(size, part) if shape[axis] is OPEN else shape[axis]
    for i, d in enumerate(shape):
        if not stacks and i == k:
            dims.append(op.fresh("the sum of sizes of a sequence") if d is OPEN else d * n)
        else:
            dims.append(op.fresh("a size of all elements of a sequence") if d is OPEN else d)
    if stacks:
        dims.insert(k, n)
    return op.out(dims, elem.dtype)


def _joined_value(items: tuple[Known, ...], axis: int, stacks: bool) -> Value | None:
    arrays = [t.value.array if isinstance(t, Tensor) and t.value is not None else None for t in items]
    known = [a for a in arrays if a is not None]
    if (
        len(known) < len(items)
        or sum(a.size for a in known) > MAX_ELEMENTS
        or len({a.ndim for a in known}) > 1
    ):
        return None
    try:
        return Value.of((np.stack if stacks else np.concatenate)(known, axis=axis))
    except ValueError:
        return None  # shapes that do not fit are reported from the shapes


# https://onnx.ai/onnx/operators/onnx__SequenceMap.html
@lower_bodies("SequenceMap", bodies="elements", runtime=("no kernel",))
def sequence_map(op: Op) -> Steps:
    body = op.graph_attr("body")
    if len(body.inputs) != op.n_in or len(body.outputs) < op.n_out:
        raise InvalidNode(f"the body must have {op.n_in} inputs, got {len(body.inputs)}")
    lengths = [s.length if (s := op.sequence(i)) is not None else None for i in range(op.n_in)]
    length = lengths[0] if lengths and lengths[0] is not None else op.fresh("the length of a sequence")
    for i, other in enumerate(lengths[1:], 1):
        if other is not None:
            op.require(ge(other, length), "other sequences must not be shorter", (0, None), (i, None))
    visible = visible_symbols(op)
    items = yield from _mapped_one_by_one(op, length)
    given = [
        element(op, s.elem) if (s := op.sequence(i)) is not None else op.known(i) for i in range(op.n_in)
    ]
    if length.value == 0:
        with rehearsal(op.walk):
            outs = yield from lower_inside(op, "body", given, TRUE)
    else:
        outs = yield from lower_inside(op, "body", given, ge(length, 1))
    made: list[Known | None] = []
    for k, out in enumerate(outs):
        each = None if items is None else tuple(item[k] for item in items)
        whole = (
            None if each is None or any(e is None for e in each) else tuple(e for e in each if e is not None)
        )
        elem = closed(op, out, visible) if not whole else common(op, whole)
        made.append(Sequence(elem, length, whole))
    return made


def _mapped_one_by_one(op: Op, length: Dim) -> Generator[Body, None, list[list[Known | None]] | None]:
    """Lower SequenceMap's body for each of few known elements; None if there are many."""
    if length.value is None or length.const > MAX_TRIPS:
        return None
    sequences = {i: s.items for i in range(op.n_in) if (s := op.sequence(i)) is not None}
    if any(items is None or len(items) < length.const for items in sequences.values()):
        return None
    visible = visible_symbols(op)
    made = []
    for k in range(length.const):
        given = [items[k] if (items := sequences.get(i)) is not None else op.known(i) for i in range(op.n_in)]
        with rehearsal(op.walk):
            outs = yield from lower_inside(op, "body", given, TRUE)
        made.append([_kept(op, out, visible) for out in outs])
    return made


def _kept(op: Op, out: Known | None, visible: frozenset[str]) -> Known | None:
    """A body result as an element of a sequence; sizes that differ by element become new symbols."""
    return out if out is None or out.free <= visible else element(op, closed(op, out, visible))


# ---------------------------------------------------------------------- optionals


# https://onnx.ai/onnx/operators/onnx__Optional.html
@lower("Optional", values=True, work=MOVES)
def optional(op: Op) -> Known:
    if op.has(0):
        return Optional(op.known(0), TRUE)
    declared = op.attr("type")
    return Optional(declared_known(op.walk, declared) if declared is not None else None, FALSE)


# https://onnx.ai/onnx/operators/onnx__OptionalHasElement.html
@lower("OptionalHasElement", values=True, work=MOVES)
def has_element(op: Op) -> Known:
    return op.out([], value=Value.scalar(_present(op)))


def _present(op: Op) -> Cond | None:
    """Condition that the optional in input 0 holds a value. From opset 18 on a plain tensor or sequence always does."""
    known = op.known(0)
    if not op.has(0):
        return FALSE
    if isinstance(known, Optional):
        return known.present
    return TRUE if isinstance(known, Sequence) or (isinstance(known, Tensor) and known.dtype) else None


# https://onnx.ai/onnx/operators/onnx__OptionalGetElement.html
@lower("OptionalGetElement", values=True, work=MOVES)
def get_element(op: Op) -> Known | None:
    present = _present(op)
    if present is not None:
        op.require(present, "an empty optional has no element", (0, None))
    known = op.known(0)
    return element(op, known.elem) if isinstance(known, Optional) else known
