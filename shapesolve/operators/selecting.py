"""Operators that select elements by value: TopK, NonZero, Unique, Compress."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..expr import (
    ONE,
    TRUE,
    ZERO,
    Cond,
    Dim,
    Shape,
    all_of,
    any_of,
    constant,
    eq,
    ge,
    ite,
    le,
    maximum,
    minimum,
    ne,
    total,
    truth,
)
from ..lower.axes import TOGETHER, Links, Unfollowed, axis_of, links_along, links_kept, mixes, rank
from ..lower.needed import const_dims, vector
from ..lower.op import InvalidNode, Op
from ..lower.reads import up_to
from ..lower.reason import MOST
from ..lower.registry import lower
from ..lower.types import Known
from ..lower.values import Value
from ..lower.work import MOVES, Outputs
from .indexing import whole_numbers
from .layout import held


def _top_k_axes(op: Op, _: Outputs) -> Links:
    axis = axis_of(op, -1)
    found = links_kept(op, [k != axis for k in range(rank(op))])
    return Links(found.inputs, [*found.outputs] * 2)


# https://onnx.ai/onnx/operators/onnx__TopK.html
@lower("TopK", until=10, values=True, axes=_top_k_axes)
def top_k_by_attribute(op: Op) -> list[Known]:
    return top_k(op, constant(op.int_attr("k", -1)))


@lower(
    "TopK",
    since=10,
    reads={1: up_to(0, -1, 1, "a count of elements")},
    values=True,
    data=(1,),
    axes=_top_k_axes,
)
def top_k_by_input(op: Op) -> list[Known]:
    length = op.shape(1, 1)
    if length is not None:
        op.require(eq(length[0], 1), "K is a vector of one element", (1, 0))
    return top_k(op, op.scalar(1))


def top_k(op: Op, k: Dim | None) -> list[Known]:
    """Lower TopK: the `k` largest elements along an axis, and their indices."""
    shape, value = op.shape(0), op.value(0)
    loose = value and value.loose
    if shape is None:
        return [op.out(None, value=loose), op.out(None)]
    axis = op.axis(op.int_attr("axis", -1), len(shape))
    d = shape[axis]
    if k is None:
        k = op.fresh("k of TopK", 0, d)
    op.require(ge(k, 0), "k is at least 0", (1, 0))
    op.require(le(k, d), MOST, (1, 0), (0, axis))
    dims = shape.with_dim(axis, k)
    found = _largest_of_known(op, value, k, axis)
    if found is not None:
        return [op.out(dims, value=found[0]), op.out(dims, value=found[1])]
    return [op.out(dims, value=loose), op.out(dims, value=Value.between(ZERO, d - 1))]


def _largest_of_known(
    op: Op, value: Value | None, k: Dim, axis: int
) -> tuple[Value | None, Value | None] | None:
    """Known data of a TopK of known integers: elements and their indices."""
    numbers, array = whole_numbers(value), value.array if value is not None else None
    if numbers is None or array is None or k.terms or not 0 <= k.const <= array.shape[axis]:
        return None
    if not op.int_attr("sorted", 1):
        return None
    order = np.argsort(-numbers if op.int_attr("largest", 1) else numbers, axis=axis, kind="stable")
    places = np.take(order, range(k.const), axis=axis)
    return (
        Value.of(np.take_along_axis(array, places, axis)),
        Value.of(np.frompyfunc(lambda i: constant(int(i)), 1, 1)(places)),
    )


# https://onnx.ai/onnx/operators/onnx__NonZero.html
@lower("NonZero", values=True, elements=(0,), work=MOVES, axes=mixes(TOGETHER, "coordinates"))
def non_zero(op: Op) -> Known:
    """Lower NonZero; the result of a scalar is unknown, because the standard and onnxruntime differ."""
    shape, value = op.shape(0), op.value(0)
    if shape is None:
        return op.out([op.fresh("rank of the input"), op.fresh("number of non-zero elements")])
    places = _nonzero_places(value)
    if places is not None:
        return op.out(places.shape, value=Value(places.shape, const_dims(places.reshape(-1).tolist())))
    count = _nonzero_count(op, value, shape)
    exact = count is not None and count is shape.numel
    if count is None:
        count = op.fresh("number of non-zero elements", 0, shape.numel)
    rows = constant(len(shape)) if shape else op.fresh("rows of NonZero for a scalar", 0, 1)
    top = maximum(*(d - 1 for d in shape)) if shape else ZERO
    return op.out([rows, count], value=Value.between(ZERO, top, reached=exact and len(shape) == 1))


def _nonzero_places(value: Value | None) -> Any:
    array = value.array if value is not None else None
    if array is None or not array.ndim:
        return None
    truths = [_is_nonzero(e) for e in array.reshape(-1).tolist()]
    if any(t is None or t.free for t in truths):
        return None
    return np.stack(np.nonzero(np.array([t is TRUE for t in truths], dtype=bool).reshape(array.shape)))


def _nonzero_count(op: Op, value: Value | None, shape: Shape) -> Dim | None:
    """Return the number of nonzero elements, if data or bounds determine it."""
    if value is None:
        return None
    if value.elems is not None:
        truths = [_is_nonzero(e) for e in value.elems]
        if len(truths) > 16 or None in truths:
            return None
        return total(ite(t, ONE, ZERO) for t in truths if t is not None)
    lo, hi = value.bounds
    above = lo is not None and held(op, ge(lo, 1))
    return shape.numel if above or (hi is not None and held(op, le(hi, -1))) else None


def _is_nonzero(e: Any) -> Cond | None:
    if isinstance(e, Dim):
        return ne(e, 0)
    if isinstance(e, Cond):
        return e
    return truth(e != 0) if isinstance(e, float) else None


# https://onnx.ai/onnx/operators/onnx__Unique.html
@lower("Unique", elements=(0,), passes=(0,), held=1, axes=mixes(TOGETHER))
def unique(op: Op) -> list[Known]:
    shape, value = op.shape(0), op.value(0)
    loose = value and value.loose
    axis = op.attr("axis")
    if shape is None:
        found = op.fresh("number of distinct elements")
        counts = op.out([found])
        y = op.out([found], value=loose) if axis is None else op.out(None, value=loose)
        return [y, counts, op.out([op.fresh("number of elements")]), counts]
    if axis is not None:
        axis = op.axis(axis, len(shape))
    of = shape.numel if axis is None else shape[axis]
    known = of if of.value in (0, 1) else _distinct(op, axis)
    found = op.fresh("number of distinct elements", 0, of) if known is None else known
    if found is not of and found.terms:
        op.define(any_of((ge(found, 1), eq(of, 0))), "a tensor with elements has a distinct one")
    y = op.out([found] if axis is None else shape.with_dim(axis, found), value=loose)
    return [
        y,
        op.out([found], value=Value.between(ZERO, of - 1)),
        op.out([of], value=Value.between(ZERO, found - 1)),
        op.out([found], value=Value.between(ONE, of)),
    ]


def _distinct(op: Op, axis: int | None) -> Dim | None:
    """Return the number of distinct elements, or slices along `axis`, if the data is known integers."""
    numbers, known = op.const_ints(0), op.value(0)
    if not numbers or known is None or known.shape is None:
        return None
    if axis is None:
        return constant(len(set(numbers)))
    array = np.array(numbers, dtype=object).reshape(known.shape)
    rows = np.moveaxis(array, axis, 0).reshape(known.shape[axis], -1)
    return constant(len({tuple(row) for row in rows.tolist()}))


def _compress_axes(op: Op, _: Outputs) -> Links:
    if op.attr("axis") is None:
        raise Unfollowed
    return links_along(op, [axis_of(op)])


# https://onnx.ai/onnx/operators/onnx__Compress.html
@lower("Compress", passes=(0,), values=True, elements=(1,), work=MOVES, axes=_compress_axes)
def compress(op: Op) -> Known:
    shape, length = op.shape(0), vector(op, 1)
    value, chosen = op.value(0), op.value(1)
    loose = value and value.loose
    axis = op.attr("axis")
    if shape is None:
        if axis is not None:
            return op.out(None, value=loose)
        return op.out([op.fresh("number of elements kept")], value=loose)
    if not shape:
        raise InvalidNode("Compress needs an input of rank 1 or more")
    if axis is not None:
        axis = op.axis(axis, len(shape))
    of = shape.numel if axis is None else shape[axis]
    kept = _kept(chosen, of)
    if kept is None:
        limit = of if length is None else minimum(of, length)
        kept = op.fresh("number of elements kept", 0, limit)
    return op.out([kept] if axis is None else shape.with_dim(axis, kept), value=loose)


def _kept(chosen: Value | None, of: Dim) -> Dim | None:
    """Return the number of true conditions among the first `of`."""
    elems = chosen.elems if chosen is not None else None
    if elems is None or not all(isinstance(e, Cond) for e in elems):
        return None
    terms = [ite(all_of((e, ge(of, i + 1))), ONE, ZERO) for i, e in enumerate(elems) if isinstance(e, Cond)]
    return total(terms) if sum(bool(t.terms) for t in terms) <= 8 else None
