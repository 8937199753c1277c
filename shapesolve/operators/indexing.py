"""Operators that read or write elements by index: Gather, Scatter and the like."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from functools import partial
from typing import Any

import numpy as np

from ..expr import Dim, Shape, all_of, any_of, divides, eq, ge, le, ne
from ..lower.axes import Links, Unfollowed, axis_of, own, plain, rank, sizes
from ..lower.needed import rank_made
from ..lower.op import InvalidNode, Op
from ..lower.reads import along, corners
from ..lower.records import Place
from ..lower.registry import lower
from ..lower.rule import Reading
from ..lower.types import Known
from ..lower.values import Array, Value
from ..lower.work import MOVES, Operations, Outputs, Work, per
from .layout import hull, is_empty

_IN_RANGE = "indices must be within the indexed axis"
_HAS_PLACES = "an axis that is indexed must not be empty"

#: an operator whose second input says where it reads or writes in the first
_by_indices = partial(lower, values=True, data=(1,), fault="reads outside of its table")

# ---------------------------------------------------------------------- Gather


def _gather_axes(op: Op, _: Outputs) -> Links:
    data, indices, axis = own(op), own(op, 1), axis_of(op)
    rank(op, 1)
    return Links([data, indices], [plain([*data[:axis], *indices, *data[axis + 1 :]])])


# https://onnx.ai/onnx/operators/onnx__Gather.html
@_by_indices("Gather", passes=(0,), reads={1: along("axis")}, work=MOVES, axes=_gather_axes)
def gather(op: Op) -> Known:
    data, indices = op.shape(0), op.shape(1)
    value, index = op.value(0), op.value(1)
    if data is None:
        return op.out(None, value=value and value.loose)
    axis = op.axis(op.int_attr("axis", 0), len(data))
    if indices is None:
        return op.out(None, value=value and value.loose)
    dims = list(data)
    _indices_fit(op, index, dims[axis], indices, axis)
    dims[axis : axis + 1] = indices
    return op.out(dims, value=None if value is None else _taken(value, index, axis))


def _taken(value: Value, index: Value | None, axis: int) -> Value | None:
    """Known data of a Gather along an axis: elements, or bounds."""
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
    _lie_within(op, index, d, indices, (0, axis))


def _lie_within(op: Op, index: Value | None, d: Dim, checked: Seq[Dim], axis: Place) -> None:
    """Requires indices within an axis of size `d`, which must not be empty. Neither is needed where `checked` holds a size of
    0: no index is looked at then.
    """
    op.require(any_of((ge(d, 1), is_empty(checked))), _HAS_PLACES, axis, (1, None))
    op.in_range(index, d, checked, _IN_RANGE, (1, None), axis)


def whole_numbers(value: Value | None) -> Any:
    """Return the elements as an integer array if all are constant, else None."""
    known = value.concrete if value is not None else None
    if known is None or value is None or not all(type(k) is int for k in known):
        return None
    return np.array(known, dtype=np.int64).reshape(value.shape or ())


def _inside(index: Any, size: int) -> bool:
    return not index.size or bool(index.min() >= -size and index.max() < size)


def gather_elements_axes(op: Op, _: Outputs) -> Links:
    places = list(range(rank(op)))
    axis = axis_of(op)
    return Links([["picked" if k == axis else k for k in places], places], [plain(places)])


# https://onnx.ai/onnx/operators/onnx__GatherElements.html
@_by_indices("GatherElements", passes=(0,), reads={1: along("axis")}, work=MOVES, axes=gather_elements_axes)
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
    """Return True if the indices are legal along `axis` of an array of these sizes."""
    if index.ndim != len(sizes) or not _inside(index, sizes[axis]):
        return False
    return all(k == axis or n <= sizes[k] for k, n in enumerate(index.shape))


def _same_rank(op: Op, *inputs: int) -> tuple[Shape | None, ...]:
    """Return the shapes of inputs that must have the same rank, and give that rank to inputs of unknown rank."""
    rank = next((len(s) for s in map(op.shape, inputs) if s is not None), None)
    return tuple(op.shape(i, rank) for i in inputs)


def _within(op: Op, data: Shape, indices: Shape, axis: int, name: str) -> None:
    for k, (n, m) in enumerate(zip(indices, data, strict=True)):
        if k != axis:
            op.require(le(n, m), f"{name}: the index tensor must not be larger than the data", (1, k), (0, k))


def _gather_nd_axes(op: Op, _: Outputs) -> Links:
    batch, length = op.int_attr("batch_dims", 0), sizes(op, 1)[-1].value
    if length is None:
        raise Unfollowed
    data, indices = ([k if k < batch else (i, k) for k in range(rank(op, i))] for i in (0, 1))
    return Links([data, indices], [plain([*indices[:-1], *data[batch + length :]])])


# https://onnx.ai/onnx/operators/onnx__GatherND.html
@_by_indices("GatherND", passes=(0,), reads={1: corners("batch_dims")}, work=MOVES, axes=_gather_nd_axes)
def gather_nd(op: Op) -> Known:
    data, indices = op.shape(0), op.shape(1)
    value = op.value(0)
    loose = value and value.loose
    batch = op.int_attr("batch_dims", 0)
    if data is None or indices is None:
        return op.out(None, value=loose)
    if not 0 <= batch < max(min(len(data), len(indices)), 1) or not len(indices):
        raise InvalidNode(f"batch_dims must be below the ranks of {data} and indices {indices}, got {batch}")
    k = indices[-1].value
    if k is None:
        fits = le(indices[-1], len(data) - batch)
        op.require(fits, "an index has no more components than there are axes", (1, -1))
        rank = rank_made(op, len(data) - batch + len(indices) - 1 - indices[-1], (1, -1))
        return op.out(None if rank is None else op.fresh_shape(rank, "a dim after GatherND"), value=loose)
    if batch + k > len(data):
        raise InvalidNode(f"GatherND has {k} components for {op.name_of(0)} {data} after {batch} batch axes")
    dims = Shape([*indices[:-1], *data[batch + k :]])
    _batches_fit(op, data, indices, batch, dims)
    components_fit(op, data[batch : batch + k], [*indices, *data[batch + k :]], batch)
    array, at = value.array if value is not None else None, whole_numbers(op.value(1))
    if array is None or at is None or batch or not _all_inside(at, array.shape[:k]):
        return op.out(dims, value=loose)
    return op.out(dims, value=Value.of(_as_array(array[tuple(np.moveaxis(at, -1, 0))])))


def _batches_fit(op: Op, data: Shape, indices: Shape, batch: int, out: Shape) -> None:
    if all(data[i] is indices[i] for i in range(batch)):
        return
    if not op.as_onnxruntime("gathernd-batch"):
        for i in range(batch):
            op.same(data[i], indices[i], "data and indices must have the same batch sizes", (0, i), (1, i))
        return
    batches, tuples = data[:batch].numel, indices[:-1].numel
    fits = any_of((eq(out.numel, 0), all_of((ne(batches, 0), divides(batches, tuples)))))
    op.require(fits, "the index tuples must be shared out evenly among the batches", (0, 0), (1, 0))


def _as_array(found: Any) -> Array:
    """Return the result of numpy indexing as an array, also for a single element."""
    if isinstance(found, np.ndarray):
        return found
    out = np.empty((), dtype=object)
    out[()] = found
    return out


def components_fit(op: Op, sizes: Seq[Dim], checked: Seq[Dim], first: int) -> None:
    """Require that each component of an index tuple (last axis) lies within its axis."""
    index = op.value(1)
    parts = index.components(len(sizes)) if index is not None else None
    if parts is None:
        parts = (index if len(sizes) == 1 else None,) * len(sizes)
    for j, (d, part) in enumerate(zip(sizes, parts, strict=True)):
        _lie_within(op, part, d, checked, (0, first + j))


def _all_inside(index: Any, sizes: tuple[int, ...]) -> bool:
    return all(_inside(index[..., j], n) for j, n in enumerate(sizes))


# ---------------------------------------------------------------------- Scatter


def _added(op: Op, outputs: Outputs) -> Operations | None:
    """Return the work of a Scatter: one operation per update with a reduction, none otherwise."""
    return Operations() if op.text_attr("reduction", "none") == "none" else per(op.shape(2), 1)


SCATTERS = Work(_added)


def _scatter_elements_axes(op: Op, _: Outputs) -> Links:
    places, axis = range(rank(op)), axis_of(op)
    data, index, out = ([name if k == axis else k for k in places] for name in ("place", "from", "new"))
    return Links([data, index, index], [plain(out)])


# https://onnx.ai/onnx/operators/onnx__Scatter.html https://onnx.ai/onnx/operators/onnx__ScatterElements.html
@_by_indices(
    "Scatter", "ScatterElements", reads={1: along("axis")}, work=SCATTERS, axes=_scatter_elements_axes
)
def scatter_elements(op: Op) -> Known:
    data, indices, _ = _same_rank(op, 0, 1, 2)
    if data is None or indices is None:
        return op.out(data)
    axis = op.axis(op.int_attr("axis", 0), len(data))
    op.same_shapes((1, 2), "updates must have the shape of the indices")
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
    """Data, indices and updates of a Scatter, each None if unknown; all None with a reduction."""
    if op.text_attr("reduction", "none") != "none":
        return None, None, None
    value, updates = op.value(0), op.value(2)
    array = value.array if value is not None else None
    return array, whole_numbers(op.value(1)), updates.array if updates is not None else None


def _scattered_bounds(op: Op) -> Value | None:
    return hull([op.value(0), op.value(2)]) if op.text_attr("reduction", "none") == "none" else None


def _scatter_nd_axes(op: Op, _: Outputs) -> Links:
    length = sizes(op, 1)[-1].value
    if length is None:
        raise Unfollowed
    kept = [("kept", k) for k in range(length, rank(op))]
    index = [("from", k) for k in range(rank(op, 1) - 1)]
    data, out = ([*((name, k) for k in range(length)), *kept] for name in ("place", "new"))
    return Links([data, [*index, "which"], [*index, *kept]], [plain(out)])


# https://onnx.ai/onnx/operators/onnx__ScatterND.html
@_by_indices("ScatterND", reads={1: corners()}, work=SCATTERS, axes=_scatter_nd_axes)
def scatter_nd(op: Op) -> Known:
    data, indices, updates = op.shape(0), op.shape(1), op.shape(2)
    k = indices[-1].value if indices else None
    if data is not None and indices and updates is not None and k is None:  # the ranks say it
        k = len(indices) - 1 + len(data) - len(updates)
        if not 0 <= k <= len(data):
            raise InvalidNode(f"ScatterND cannot write updates {updates} at indices {indices} of {data}")
        op.same(indices[-1], k, "the ranks give the number of components", (1, len(indices) - 1))
    if data is None or indices is None or k is None:
        return op.out(data, value=_scattered_bounds(op))
    if k > len(data):
        raise InvalidNode(f"ScatterND has {k} index components for {op.name_of(0)} {data}")
    needed = [*indices[:-1], *data[k:]]
    updates = op.shape(2, len(needed))
    for i, (have, need) in enumerate(zip(updates or (), needed, strict=False)):
        place = (1, i) if i < len(indices) - 1 else (0, i - len(indices) + 1 + k)
        op.same(have, need, "updates must have the shape of the replaced slices", (2, i), place)
    components_fit(op, data[:k], indices, 0)
    array, at, new = _scatter_data(op)
    if array is None or at is None or new is None or not at.ndim or not _all_inside(at, array.shape[:k]):
        return op.out(data, value=_scattered_bounds(op))
    if new.shape != (*at.shape[:-1], *array.shape[k:]):
        return op.out(data)
    for row in np.ndindex(*at.shape[:-1]):
        array[tuple(at[row])] = new[row]
    return op.out(data, value=Value.of(array))


def _room(attributes: Mapping[str, Any], shapes: Seq[Shape | None]) -> tuple[int, Dim] | None:
    past, update, axis = shapes[0], shapes[1], attributes.get("axis", -2)
    if past is None or update is None or len(past) != len(update) or not -len(past) <= axis < len(past):
        return None
    return 0, past[axis] - update[axis]


# https://onnx.ai/onnx/operators/onnx__TensorScatter.html
@lower("TensorScatter", reads={2: Reading("places in the cache", _room)}, elements=(2,), work=MOVES)
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
    op.require(ge(room, 0), "update must not exceed the cache", (1, axis), (0, axis))
    if op.has(2):
        starts = op.shape(2, 1)
        if starts is not None:
            op.same(starts[0], past[0], "write_indices must have one entry per batch item", (2, 0), (0, 0))
        value = op.value(2)
        lo, hi = value.bounds if value is not None and value.reached else (None, None)
        none = is_empty(past[:1])
        if lo is not None:
            op.require(any_of((ge(lo, 0), none)), "write_indices must be >= 0", (2, 0))
        if hi is not None and op.text_attr("mode", "linear") == "linear":
            op.require(any_of((le(hi, room), none)), "update must not exceed the cache", (2, 0), (0, axis))
    return op.out(past)
