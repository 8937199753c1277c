"""Operators that take or set some elements of a tensor: by index tensors, or by their values."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any

import numpy as np

from ..dims import (
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
from .layout import held, hull, is_empty
from .op import InvalidNode, Op, const_dims
from .registry import lower
from .types import Known
from .values import Array, Value

_IN_RANGE = "indices must lie within the axis they index"

# ---------------------------------------------------------------------- Gather


# https://onnx.ai/onnx/operators/onnx__Gather.html
@lower("Gather", values=True)
def gather(op: Op) -> Known:
    data, indices = op.shape(0), op.shape(1)
    value, index = op.value(0), op.value(1)
    if data is None:
        return op.out(None, value=value and value.loose)
    axis = op.axis(op.int_attr("axis", 0), len(data))
    if indices is None:
        return op.out(None, value=value and value.loose)
    _indices_fit(op, index, data[axis], indices, axis)
    dims = [*data[:axis], *indices, *data[axis + 1 :]]
    return op.out(dims, value=None if value is None else _taken(value, index, axis))


def _taken(value: Value, index: Value | None, axis: int) -> Value | None:
    """The elements that an index takes along an axis; bounds while they are not known one by one."""
    at = index.concrete if index is not None and value.elems is not None else None
    if at is None or index is None or value.shape is None or not all(type(k) is int for k in at):
        return value.loose
    size = value.shape[axis] if axis < len(value.shape) else 0
    if not all(-size <= k < size for k in at):
        return value.loose
    if len(value.shape) == 1 and value.elems is not None:
        return Value.known(index.shape or (), tuple([value.elems[k] for k in at]))
    array = value.array
    return None if array is None else Value.of(array.take(whole_numbers(index), axis=axis))


def _indices_fit(op: Op, index: Value | None, d: Dim, indices: Shape, axis: int) -> None:
    op.in_range(index, d, indices, _IN_RANGE, (1, None), (0, axis))


def whole_numbers(value: Value | None) -> Any:
    """An integer array when every element is a known number, else None."""
    known = value.concrete if value is not None else None
    if known is None or value is None or not all(type(k) is int for k in known):
        return None
    return np.array(known, dtype=np.int64).reshape(value.shape or ())


def _inside(index: Any, size: int) -> bool:
    return not index.size or bool(index.min() >= -size and index.max() < size)


# https://onnx.ai/onnx/operators/onnx__GatherElements.html
@lower("GatherElements", values=True)
def gather_elements(op: Op) -> Known:
    data, indices = _same_rank(op, 0, 1)
    value, index = op.value(0), op.value(1)
    loose = value and value.loose
    if data is None or indices is None:
        return op.out(indices, value=loose)
    axis = op.axis(op.int_attr("axis", 0), len(data))
    _within(op, data, indices, axis, "GatherElements")
    _indices_fit(op, index, data[axis], indices, axis)
    array, at = value.array if value is not None else None, whole_numbers(index)
    if array is None or at is None or not _fits(at, array.shape, axis):
        return op.out(indices, value=loose)
    part = array[tuple(slice(None) if k == axis else slice(n) for k, n in enumerate(at.shape))]
    return op.out(indices, value=Value.of(np.take_along_axis(part, at, axis)))


def _fits(index: Any, sizes: tuple[int, ...], axis: int) -> bool:
    """May `index` take from, or set in, an array of these sizes along `axis`?"""
    if index.ndim != len(sizes) or not _inside(index, sizes[axis]):
        return False
    return all(k == axis or n <= sizes[k] for k, n in enumerate(index.shape))


def _same_rank(op: Op, *inputs: int) -> tuple[Shape | None, ...]:
    """Shapes of inputs that must have one rank; those of unknown rank get it."""
    rank = next((len(s) for s in map(op.shape, inputs) if s is not None), None)
    return tuple(op.shape(i, rank) for i in inputs)


def _within(op: Op, data: Shape, indices: Shape, axis: int, name: str) -> None:
    for k, (n, m) in enumerate(zip(indices, data, strict=True)):
        if k != axis:
            op.require(le(n, m), f"{name}: the index tensor must not be larger than the data", (1, k), (0, k))


# https://onnx.ai/onnx/operators/onnx__GatherND.html (onnxruntime also takes a multiple of the batch sizes)
@lower("GatherND", values=True)
def gather_nd(op: Op) -> Known:
    data, indices = op.shape(0), op.shape(1)
    value = op.value(0)
    loose = value and value.loose
    batch = op.int_attr("batch_dims", 0)
    if data is None or indices is None:
        return op.out(None, value=loose)
    if not 0 <= batch < max(min(len(data), len(indices)), 1) or not len(indices):
        raise InvalidNode(f"batch_dims {batch} does not fit {data} and indices {indices}")
    k = indices[-1].value
    if k is None:
        fits = le(indices[-1], len(data) - batch)
        op.require(fits, "an index has no more components than there are axes", (1, -1))
        return op.out(None, value=loose)
    if batch + k > len(data):
        raise InvalidNode(
            f"GatherND has {k} index components for {op.name_of(0)} {data} after {batch} batch axes"
        )
    for i in range(batch):
        op.same(data[i], indices[i], "batch sizes must agree", (0, i), (1, i))
    components_fit(op, data[batch : batch + k], [*indices, *data[batch + k :]], batch)
    dims = [*indices[:-1], *data[batch + k :]]
    array, at = value.array if value is not None else None, whole_numbers(op.value(1))
    if array is None or at is None or batch or not _all_inside(at, array.shape[:k]):
        return op.out(dims, value=loose)
    return op.out(dims, value=Value.of(_as_array(array[tuple(np.moveaxis(at, -1, 0))])))


def _as_array(found: Any) -> Array:
    """Indexing with scalars yields the element itself."""
    if isinstance(found, np.ndarray):
        return found
    out = np.empty((), dtype=object)
    out[()] = found
    return out


def components_fit(op: Op, sizes: Seq[Dim], checked: Seq[Dim], first: int) -> None:
    """Each component of an index (its last axis) lies within its axis, unless `checked` holds a size of 0."""
    index = op.value(1)
    if index is None:
        return
    array = index.array
    for j, d in enumerate(sizes):
        if array is not None and array.ndim:
            part = Value.of(array[..., j])
        elif index.parts is not None and len(index.parts) == len(sizes):
            part = index.parts[j]
        else:
            part = index if len(sizes) == 1 else None
        op.in_range(part, d, checked, _IN_RANGE, (1, None), (0, first + j))


def _all_inside(index: Any, sizes: tuple[int, ...]) -> bool:
    return all(_inside(index[..., j], n) for j, n in enumerate(sizes))


# ---------------------------------------------------------------------- Scatter


# https://onnx.ai/onnx/operators/onnx__Scatter.html https://onnx.ai/onnx/operators/onnx__ScatterElements.html
@lower("Scatter", "ScatterElements", values=True)
def scatter_elements(op: Op) -> Known:
    data, indices, _ = _same_rank(op, 0, 1, 2)
    if data is None or indices is None:
        return op.out(data)
    axis = op.axis(op.int_attr("axis", 0), len(data))
    op.same_shapes((1, 2), "updates have the shape of the indices")
    _within(op, data, indices, axis, op.node.op_type)
    _indices_fit(op, op.value(1), data[axis], indices, axis)
    array, at, new = _scatter_data(op)
    if (
        array is None
        or at is None
        or new is None
        or at.shape != new.shape
        or not _fits(at, array.shape, axis)
    ):
        return op.out(data, value=_scattered_bounds(op))
    for place in np.ndindex(*at.shape):
        target = list(place)
        target[axis] = at[place]
        array[tuple(target)] = new[place]
    return op.out(data, value=Value.of(array))


def _scatter_data(op: Op) -> tuple[Array | None, Any, Array | None]:
    """Data, indices and updates when all are known and simply replace each other."""
    if op.text_attr("reduction", "none") != "none":
        return None, None, None
    value, updates = op.value(0), op.value(2)
    array = value.array if value is not None else None
    return array, whole_numbers(op.value(1)), updates.array if updates is not None else None


def _scattered_bounds(op: Op) -> Value | None:
    return hull([op.value(0), op.value(2)]) if op.text_attr("reduction", "none") == "none" else None


# https://onnx.ai/onnx/operators/onnx__ScatterND.html
@lower("ScatterND", values=True)
def scatter_nd(op: Op) -> Known:
    data, indices, updates = op.shape(0), op.shape(1), op.shape(2)
    k = indices[-1].value if indices else None
    if data is None or indices is None or k is None:
        return op.out(data, value=_scattered_bounds(op))
    if k > len(data):
        raise InvalidNode(f"ScatterND has {k} index components for {op.name_of(0)} {data}")
    needed = [*indices[:-1], *data[k:]]
    updates = op.shape(2, len(needed))
    for i, (have, need) in enumerate(zip(updates or (), needed, strict=False)):
        place = (1, i) if i < len(indices) - 1 else (0, i - len(indices) + 1 + k)
        op.same(have, need, "updates have the shape of what they replace", (2, i), place)
    components_fit(op, data[:k], indices, 0)
    array, at, new = _scatter_data(op)
    if array is None or at is None or new is None or not at.ndim or not _all_inside(at, array.shape[:k]):
        return op.out(data, value=_scattered_bounds(op))
    if new.shape != (*at.shape[:-1], *array.shape[k:]):
        return op.out(data)
    for place in np.ndindex(*at.shape[:-1]):
        array[tuple(at[place])] = new[place]
    return op.out(data, value=Value.of(array))


# https://onnx.ai/onnx/operators/onnx__TensorScatter.html
@lower("TensorScatter")
def tensor_scatter(op: Op) -> Known:
    past, update = _same_rank(op, 0, 1)
    if past is None or update is None:
        return op.out(past)
    axis = op.axis(op.int_attr("axis", -2), len(past))
    if axis == 0:
        raise InvalidNode("TensorScatter cannot write along the batch axis")
    for i, (a, b) in enumerate(zip(past, update, strict=True)):
        if i != axis:
            op.same(a, b, "cache and update agree but on the axis written", (0, i), (1, i))
    room = past[axis] - update[axis]
    op.require(ge(room, 0), "the update must fit into the cache", (1, axis), (0, axis))
    if op.has(2):
        starts = op.shape(2, 1)
        if starts is not None:
            op.same(starts[0], past[0], "one write index for each batch element", (2, 0), (0, 0))
        value = op.value(2)
        lo, hi = value.bounds if value is not None and value.reached else (None, None)
        none = is_empty(past[:1])
        if lo is not None:
            op.require(any_of((ge(lo, 0), none)), "a write index is at least 0", (2, 0))
        if hi is not None and op.text_attr("mode", "linear") == "linear":
            op.require(
                any_of((le(hi, room), none)), "the update must fit behind its index", (2, 0), (0, axis)
            )
    return op.out(past)


# ---------------------------------------------------------------------- chosen by value


# https://onnx.ai/onnx/operators/onnx__TopK.html
@lower("TopK", until=10)
def top_k_by_attribute(op: Op) -> list[Known]:
    return top_k(op, constant(op.int_attr("k", -1)))


@lower("TopK", since=10, values=True)
def top_k_by_input(op: Op) -> list[Known]:
    length = op.shape(1, 1)
    if length is not None:
        op.require(eq(length[0], 1), "K is a vector of one element", (1, 0))
    return top_k(op, op.scalar(1))


def top_k(op: Op, k: Dim | None) -> list[Known]:
    """The `k` largest along an axis, and where they are."""
    shape, value = op.shape(0), op.value(0)
    loose = value and value.loose
    if shape is None:
        return [op.out(None, value=loose), op.out(None)]
    axis = op.axis(op.int_attr("axis", -1), len(shape))
    d = shape[axis]
    if k is None:
        k = op.fresh("k of TopK", 0, d)
    op.require(ge(k, 0), "k is at least 0", (1, 0))
    op.require(le(k, d), "k is at most the size of the axis", (1, 0), (0, axis))
    dims = shape.with_dim(axis, k)
    found = _largest_of_known(op, value, k, axis)
    if found is not None:
        return [op.out(dims, value=found[0]), op.out(dims, value=found[1])]
    return [op.out(dims, value=loose), op.out(dims, value=Value.between(ZERO, d - 1))]


def _largest_of_known(
    op: Op, value: Value | None, k: Dim, axis: int
) -> tuple[Value | None, Value | None] | None:
    """The elements chosen of known integers, and their places; of equal ones the first is chosen."""
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
@lower("NonZero", values=True)
def non_zero(op: Op) -> Known:
    """The text gives a scalar 0 rows, onnxruntime gives it 1: that stays open."""
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
    """The answer itself where all data is known."""
    array = value.array if value is not None else None
    if array is None or not array.ndim:
        return None
    truths = [_is_nonzero(e) for e in array.reshape(-1).tolist()]
    if any(t is None or t.free for t in truths):
        return None
    return np.stack(np.nonzero(np.array([t is TRUE for t in truths], dtype=bool).reshape(array.shape)))


def _nonzero_count(op: Op, value: Value | None, shape: Shape) -> Dim | None:
    """How many columns there are, where data or its bounds say it."""
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
@lower("Unique")
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
    """How many distinct elements, or slices along `axis`, known integers have."""
    numbers, known = op.const_ints(0), op.value(0)
    if not numbers or known is None or known.shape is None:
        return None
    if axis is None:
        return constant(len(set(numbers)))
    array = np.array(numbers, dtype=object).reshape(known.shape)
    rows = np.moveaxis(array, axis, 0).reshape(known.shape[axis], -1)
    return constant(len({tuple(row) for row in rows.tolist()}))


# https://onnx.ai/onnx/operators/onnx__Compress.html
@lower("Compress", values=True)
def compress(op: Op) -> Known:
    shape, condition = op.shape(0), op.shape(1, 1)
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
        limit = of if condition is None else minimum(of, condition[0])
        kept = op.fresh("number of elements kept", 0, limit)
    return op.out([kept] if axis is None else shape.with_dim(axis, kept), value=loose)


def _kept(chosen: Value | None, of: Dim) -> Dim | None:
    """How many of the first `of` conditions hold; conditions beyond them do not count."""
    elems = chosen.elems if chosen is not None else None
    if elems is None or not all(isinstance(e, Cond) for e in elems):
        return None
    terms = [ite(all_of((e, ge(of, i + 1))), ONE, ZERO) for i, e in enumerate(elems) if isinstance(e, Cond)]
    return total(terms) if sum(bool(t.terms) for t in terms) <= 8 else None
