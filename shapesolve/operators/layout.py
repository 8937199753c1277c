# compiled: see CONTRIBUTING.md
"""Operators that rearrange or repeat elements: Transpose, Squeeze, Expand, Tile and the like."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from functools import partial
from math import prod

import numpy as np
from onnx import TensorProto

from ..expr import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
    Cond,
    Dim,
    Shape,
    all_of,
    any_of,
    eq,
    ge,
    ite,
    le,
    maximum,
    ne,
    product,
    total,
)
from ..lower.axes import Links, Unfollowed, Uniform, dims, links_along, made, own, plain, rank, regroup, sizes
from ..lower.limits import MAX_ELEMENTS
from ..lower.needed import rank_made, vector
from ..lower.op import InvalidNode, Op
from ..lower.reads import AXES, LENGTHS, NEW_AXES, SPREAD, between
from ..lower.registry import lower, signature
from ..lower.standard import one_number
from ..lower.types import Known
from ..lower.values import Array, Value, span
from ..lower.work import MOVES, VIEW, Outputs


def rearranged(value: Value | None, change: Callable[[Array], Array]) -> Value | None:
    """Known data rearranged by `change`; bounds are unchanged."""
    if value is None:
        return None
    array = value.array
    if array is not None:
        return Value.of(change(array))
    return value if value.parts is None else Value.between(*value.bounds, reached=value.reached)


def held(op: Op, cond: Cond) -> bool:
    """Return True if `cond` follows from the facts."""
    return cond.is_true or op.walk.facts.decide(cond) is True


def is_empty(shape: Iterable[Dim]) -> Cond:
    """Return the condition that a tensor of this shape has no elements."""
    return any_of(eq(d, 0) for d in shape)


def _turned(op: Op, _: Outputs) -> Links:
    return Links([own(op)], [plain((0, k) for k in op.attr("perm", range(rank(op))[::-1]))])


# https://onnx.ai/onnx/operators/onnx__Transpose.html
@lower("Transpose", passes=(0,), values=True, ranks="first", work=MOVES, axes=_turned)
def transpose(op: Op) -> Known:
    shape = op.shape(0)
    perm = op.ints_attr("perm")
    if shape is None:
        return op.out(op.shape(0, len(perm)) if perm is not None else None)
    order = tuple(perm) if perm is not None else tuple(reversed(range(len(shape))))
    if sorted(order) != list(range(len(shape))):
        raise InvalidNode(
            f"perm {list(order)} does not permute the {len(shape)} axes of {op.name_of(0)} {shape}"
        )
    dims = list(shape)
    return op.out([dims[i] for i in order], value=rearranged(op.value(0), lambda a: a.transpose(order)))


# https://onnx.ai/onnx/operators/onnx__Shape.html
@lower("Shape", values=True, sizes=True, work=MOVES)
def shape_of(op: Op) -> Known:
    shape = op.shape(0)
    if shape is None:
        return op.out(op.fresh_dims(1, f"rank of {op.name_of(0)}"))
    start, end, _ = slice(op.attr("start", 0), op.attr("end")).indices(len(shape))
    part = Shape(shape[start:end])
    return op.out([len(part)], value=Value.vector(part))


# https://onnx.ai/onnx/operators/onnx__Size.html
@lower("Size", values=True, sizes=True, work=MOVES)
def size(op: Op) -> Known:
    shape = op.shape(0)
    return op.out((), value=Value.scalar(None if shape is None else op.named(shape.numel)))


def same_elements(value: Value | None, x: Seq[Dim], dims: Seq[Dim]) -> Value | None:
    """Known data of a tensor after a reshape to `dims`."""
    if value is None or value.elems is None:
        apart = value is not None and value.parts is not None and not (dims and x and dims[-1] is x[-1])
        return rearranged(value, np.asarray) if apart else value
    sizes = tuple(d.const for d in dims if not d.terms)
    if len(sizes) < len(dims) or prod(sizes) != len(value.elems):
        return None
    return Value(sizes, value.elems)


# ---------------------------------------------------------------------- other shapes around the same elements


# https://onnx.ai/onnx/operators/onnx__Flatten.html (negative axes from version 11)
@lower("Flatten", passes=(0,), values=True, work=VIEW, axes=regroup)
def flatten(op: Op) -> Known:
    shape = op.shape(0)
    axis = op.int_attr("axis", 1)
    if shape is None:
        return op.out(op.fresh_dims(2, "a size of a flattened input of unknown rank"))
    lowest = -len(shape) if op.version >= 11 else 0
    if not lowest <= axis <= len(shape):
        raise InvalidNode(f"axis {axis} is outside [{lowest}, {len(shape)}] for {op.name_of(0)} {shape}")
    axis += len(shape) if axis < 0 else 0
    dims = [product(shape[:axis]), product(shape[axis:])]
    return op.out(dims, value=same_elements(op.value(0), shape, dims))


# https://onnx.ai/onnx/operators/onnx__Squeeze.html
_squeeze = partial(
    lower,
    "Squeeze",
    passes=(0,),
    values=True,
    fault="cannot remove an axis whose size is not 1",
    work=VIEW,
    axes=regroup,
)


@_squeeze(until=13)
def squeeze_by_attribute(op: Op) -> Known:
    return squeezed(op, op.ints_attr("axes") or ())


@_squeeze(since=13, reads={1: AXES}, data=(1,), vectors=(1,), named=(1,))
def squeeze(op: Op) -> Known:
    axes = op.const_ints(1) if op.has(1) else ()
    if axes is not None:
        return squeezed(op, axes)
    shape, listed = op.shape(0), op.shape(1)
    if shape is None or listed is None:
        return op.out(None)
    named, rank = listed.numel, op.needed_rank()
    if named.value == 1 and shape:
        rank = len(shape) - 1
    gone = 1 if rank is None else len(shape) - rank  # one axis may be named twice
    of_size_1 = [eq(d, 1) for d in shape]
    ones = total(ite(one, ONE, ZERO) for one in of_size_1)
    enough = any_of(of_size_1) if gone == 1 else ge(ones, gone) if gone > 1 else FALSE
    all_go = TRUE if rank is None else eq(ones, gone)  # if none is given
    fits = any_of((all_of((eq(named, 0), all_go)), all_of((ge(named, gone), enough))))
    op.require(fits, "Squeeze removes axes of size 1", (0, None))
    return op.out(None if rank is None else op.fresh_shape(rank, "a dim that Squeeze leaves"))


def squeezed(op: Op, axes: Seq[int]) -> Known:
    """Remove `axes` of size 1; without `axes` all axes of size 1, so that the rank may be unknown."""
    shape = op.shape(0)
    value = op.value(0)
    if shape is None:
        return op.out(None, value=value and value.loose)
    if axes:
        gone = {op.axis(a, len(shape)) for a in axes}
        for a in gone:
            op.require(eq(shape[a], 1), "Squeeze removes axes of size 1", (0, a))
    else:
        gone = {i for i, d in enumerate(shape) if held(op, eq(d, 1))}
        if not all(held(op, ne(d, 1)) for i, d in enumerate(shape) if i not in gone):
            possible = range(sum(held(op, ne(d, 1)) for d in shape), len(shape) - len(gone) + 1)
            rank, why = op.needed_rank(0, possible), "Squeeze must leave as many axes as later nodes need"
            if rank is not None and rank != len(shape) - len(gone):
                left = total(ite(eq(d, 1), ZERO, ONE) for d in shape)
                op.require(eq(left, rank), why, (0, None))
            if rank != len(shape) - len(gone):
                return op.out(None)
            for i in sorted(set(range(len(shape))) - gone):
                op.require(ne(shape[i], 1), why, (0, i))
    dims = [d for i, d in enumerate(shape) if i not in gone]
    return op.out(dims, value=same_elements(value, shape, dims))


# https://onnx.ai/onnx/operators/onnx__Unsqueeze.html
@lower("Unsqueeze", until=13, passes=(0,), values=True, work=VIEW, axes=regroup)
def unsqueeze_by_attribute(op: Op) -> Known:
    return unsqueezed(op, op.ints_attr("axes") or ())


@lower(
    "Unsqueeze",
    since=13,
    passes=(0,),
    reads={1: NEW_AXES},
    values=True,
    data=(1,),
    flat=(1,),
    work=VIEW,
    axes=regroup,
)
def unsqueeze(op: Op) -> Known:
    axes = op.const_ints(1)
    if axes is not None:
        return unsqueezed(op, axes)
    shape, listed = op.shape(0), op.shape(1)
    if shape is None or listed is None:
        return op.out(None)
    rank = rank_made(op, listed.numel + len(shape), (1, None))
    return op.out(None if rank is None else op.fresh_shape(rank, "a dim after Unsqueeze"))


def unsqueezed(op: Op, axes: Seq[int]) -> Known:
    """Inserts axes of size 1 at positions `axes` of the result."""
    shape = op.shape(0)
    value = op.value(0)
    if shape is None:
        return op.out(None, value=value and value.loose)
    rank = len(shape) + len(axes)
    new = op.axes(axes, rank)
    rest = iter(shape)
    dims = [ONE if i in new else next(rest) for i in range(rank)]
    return op.out(dims, value=same_elements(value, shape, dims))


# https://onnx.ai/onnx/operators/onnx__DepthToSpace.html
# https://onnx.ai/onnx/operators/onnx__SpaceToDepth.html
signature(
    "DepthToSpace",
    "N C H W -> N C//(b*b) H*b W*b",
    b="blocksize",
    where=("b >= 1", "C % (b*b) == 0"),
    choices={"mode": ("DCR", "CRD")},
    fault="cannot rearrange these sizes",
    work=MOVES,
    axes="=",
)
signature(
    "SpaceToDepth",
    "N C H W -> N C*b*b H//b W//b",
    b="blocksize",
    where=("b >= 1", "H % b == 0", "W % b == 0"),
    fault="cannot rearrange these sizes",
    work=MOVES,
    axes="=",
)


def _reverse_axes(op: Op, _: Outputs) -> Links:
    labels, time = own(op), op.int_attr("time_axis", 0)
    out = plain(("new", k) if k == time else label for k, label in enumerate(labels))
    return Links([labels, [labels[op.int_attr("batch_axis", 1)]]], [out])


# https://onnx.ai/onnx/operators/onnx__ReverseSequence.html
@lower(
    "ReverseSequence",
    passes=(0,),
    reads={1: LENGTHS},
    elements=(1,),
    ranks="first",
    work=MOVES,
    axes=_reverse_axes,
)
def reverse_sequence(op: Op) -> Known:
    shape = op.shape(0)
    lengths = op.shape(1, 1)
    batch, time = op.int_attr("batch_axis", 1), op.int_attr("time_axis", 0)
    if {batch, time} != {0, 1}:
        raise InvalidNode(f"batch_axis {batch} and time_axis {time} must be 0 and 1 in some order")
    if shape is not None:
        if len(shape) < 2:
            raise InvalidNode(f"ReverseSequence requires rank 2 or more, got {op.name_of(0)} {shape}")
        if lengths is not None:
            op.same(lengths[0], shape[batch], "one length for each sequence", (1, 0), (0, batch))
        value = op.value(1)
        if value is not None and value.reached:
            lo, hi = value.bounds
            if lo is not None and hi is not None:
                fits = any_of((all_of((ge(lo, 0), le(hi, shape[time]))), eq(shape[batch], 0)))
                op.require(fits, "sequence lengths must not exceed the time axis", (1, 0), (0, time))
    return op.like(0)


# https://onnx.ai/onnx/operators/onnx__Trilu.html
@lower(
    "Trilu",
    reads={1: between(-2, 2, "a diagonal")},
    values=True,
    data=(1,),
    flat=(1,),
    ranks="first",
    work=MOVES,
    axes=lambda op, _: links_along(op, range(rank(op) - 2, rank(op))),
)
def trilu(op: Op) -> Known:
    shape = op.shape(0)
    if shape is not None and len(shape) < 2:
        raise InvalidNode(f"Trilu requires rank 2 or more, got {op.name_of(0)} {shape}")
    one_number(op, 1)
    value = op.value(0)
    array = value.array if value is not None else None
    k = op.const_ints(1) if op.has(1) else (0,)
    if array is None or array.ndim < 2 or k is None or len(k) != 1:
        return op.out(shape, value=value and hull([value, Value((), (ZERO,))]))
    ones = np.ones(array.shape, dtype=bool)
    kept = np.triu(ones, k[0]) if op.int_attr("upper", 1) else np.tril(ones, k[0])
    out = array.copy()
    out[~kept] = zero_of(op.dtype(0))
    return op.out(shape, value=Value.of(out))


def zero_of(dtype: int) -> Dim | Cond | float | None:
    """Return the element 0 of a TensorProto type."""
    if dtype in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16):
        return 0.0
    return None if dtype in (0, TensorProto.STRING) else FALSE if dtype == TensorProto.BOOL else ZERO


def hull(values: Iterable[Value | None], reached: bool = False) -> Value | None:
    """Return the bounds of all elements of several tensors."""
    bounds = list(dict.fromkeys(v.bounds if v is not None else (None, None) for v in values))
    return span([lo for lo, _ in bounds], [hi for _, hi in bounds], reached) if bounds else None


# ---------------------------------------------------------------------- repeated and joined


def _expand_axes(op: Op, outputs: Outputs) -> Links:
    labels, given, out = own(op), sizes(op), made(outputs)
    before = len(out) - len(given)
    if any(k >= before and given[k - before] not in (d, ONE) for k, d in enumerate(out)):
        raise Unfollowed
    repeated = [
        [labels[k - before]] if k >= before and given[k - before] is d else [Uniform(d)]
        for k, d in enumerate(out)
    ]
    return Links([labels, None], [repeated])


# https://onnx.ai/onnx/operators/onnx__Expand.html (a two-way broadcast with the target)
@lower(
    "Expand",
    passes=(0,),
    reads={1: SPREAD},
    values=True,
    data=(1,),
    fault="cannot expand its input to this shape",
    advice="target",
    work=MOVES,
    axes=_expand_axes,
)
def expand(op: Op) -> Known:
    x, length, target = op.shape(0), vector(op, 1), op.ints(1)
    value = op.value(0)
    if x is None or target is None:
        rank = None
        if x is not None and length is not None:
            rank = rank_made(op, maximum(len(x), length), (1, None))
        shape = None if rank is None else op.fresh_shape(rank, "a dim that Expand broadcasts")
        return op.out(shape, value=value and value.loose)
    for i, t in enumerate(target):
        op.require(ge(t, 0), "a target entry of Expand is a size", (1, 0), (1, i))
    dims = op.broadcast_of([(0, x), (1, Shape(target))])
    return op.out(dims, value=spread(value, dims, lambda a, sizes: np.broadcast_to(a, sizes)))


def spread(
    value: Value | None, dims: Seq[Dim], change: Callable[[Array, tuple[int, ...]], Array]
) -> Value | None:
    """Known data of a tensor whose elements are repeated: elements if few, else bounds."""
    if value is None:
        return None
    if value.elems is None:
        keeps = value.parts is None or (dims and dims[-1].value == len(value.parts))
        return value if keeps else Value.between(*value.bounds, reached=value.reached)
    sizes = tuple(d.const for d in dims if not d.terms)
    if any(n < 0 for n in sizes):
        return None  # the node cannot run
    if len(sizes) < len(dims) or prod(sizes) > MAX_ELEMENTS:
        return Value.between(*value.bounds, reached=True)
    if len(value.elems) == 1:
        return Value.known(sizes, value.elems * prod(sizes))
    array = value.array
    return None if array is None else Value.of(change(array, sizes))


def _tile_axes(op: Op, _: Outputs) -> Links:
    labels, repeats = own(op), dims(op, 1)
    return Links([labels, None], [[[Uniform(r), label] for r, label in zip(repeats, labels, strict=True)]])


# https://onnx.ai/onnx/operators/onnx__Tile.html (version 1: one repeat count for one axis)
_tile = partial(
    lower,
    "Tile",
    passes=(0,),
    reads={1: between(0, 3, "repeats")},
    ranks="first",
    fault="cannot repeat this input",
    work=MOVES,
    axes=_tile_axes,
)


@_tile(until=6, data=(1, 2))
def tile_one_axis(op: Op) -> Known:
    shape = op.shape(0)
    axis = op.const_ints(2)
    if shape is None or axis is None or len(axis) != 1:
        return op.out(None if shape is None else op.fresh_shape(len(shape), "a tiled dim"))
    counts = [ONE] * len(shape)
    tiles = op.scalar(1)
    counts[op.axis(axis[0], len(shape))] = tiles if tiles is not None else op.fresh("a repeat count")
    return op.out([d * n for d, n in zip(shape, counts, strict=True)])


@_tile(since=6, values=True, data=(1,), vectors=(1,))
def tile(op: Op) -> Known:
    shape, repeats = op.shape(0), op.ints(1)
    if shape is None and repeats is not None:
        shape = op.shape(0, len(repeats))
    value = op.value(0)
    if shape is None or repeats is None:
        if shape is not None:
            op.counted(1, len(shape), "Tile needs a repeat count for each axis")
        dims = None if shape is None else op.fresh_shape(len(shape), "a tiled dim")
        return op.out(dims, value=value and Value.between(*value.bounds, reached=value.reached))
    if len(repeats) != len(shape):
        raise InvalidNode(f"Tile requires {len(shape)} repeats, got {len(repeats)}")
    for i, n in enumerate(repeats):
        op.require(ge(n, 0), "repeats must not be negative", (1, 0), (0, i))
    counts = tuple(n.value or 0 for n in repeats)
    dims = Shape(d * n for d, n in zip(shape, repeats, strict=True))
    return op.out(dims, value=spread(value, dims, lambda a, _: np.tile(a, counts)))
