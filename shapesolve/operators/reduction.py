"""Reductions along axes, and CumSum.

https://onnx.ai/onnx/operators/onnx__ReduceSum.html and related operators
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from functools import partial

import numpy as np

from ..expr import ONE, ZERO, Dim, IntoDim, Shape, any_of, constant, eq, ge, maximum, minimum, product
from ..lower import arith, elements
from ..lower.arith import Function
from ..lower.axes import Items, Links, axis_of, links_along, numbers, own, rank
from ..lower.elements import DimRange
from ..lower.op import InvalidNode, Op
from ..lower.reads import AXES
from ..lower.registry import lower
from ..lower.types import Known
from ..lower.values import Array, Elem, Value
from ..lower.work import Outputs, each, reads

#: axes to reduce; None if unknown
Axes = tuple[int, ...] | None
_AXES = "axes must be axes of the input"
#: bounds of the reduced value, computed from the elements' bounds and count
OnBounds = Callable[[DimRange, Dim], DimRange]


def _square(a: Elem, dtype: int) -> Elem:
    return arith.mul(a, a, dtype)


def _itself(a: Elem, dtype: int) -> Elem:
    return a


class _Reducer:
    """Functions of a reduction on elements (`each`, then `join` from `start`) and on bounds."""

    def __init__(
        self, join: Function, start: int | None, each: Function = _itself, bounds: OnBounds | None = None
    ) -> None:
        self.join, self.start, self.each, self.bounds = join, start, each, bounds

    def elements(self, elems: list[Elem], dtype: int) -> Elem:
        """Return the reduction of these elements to one."""
        done = [None if e is None else self.each(e, dtype) for e in elems]
        start = None if self.start is None else arith.cast(ONE * self.start, dtype)
        return arith.fold(self.join, done, dtype, start)


def _bounds_of_one(bounds: DimRange, count: Dim) -> DimRange:
    """Return the bounds of a maximum or minimum, which is one of the elements if there is one."""
    return bounds if count.lo is not None and count.lo >= 1 else (None, None)


def _bounds_of_sum(bounds: DimRange, count: Dim) -> DimRange:
    lo, hi = bounds
    return (None if lo is None else lo * count), (None if hi is None else hi * count)


_REDUCERS: dict[str, _Reducer | None] = {
    "ReduceSum": _Reducer(arith.add, 0, bounds=_bounds_of_sum),
    "ReduceProd": _Reducer(arith.mul, 1),
    "ReduceMax": _Reducer(arith.max_, None, bounds=_bounds_of_one),
    "ReduceMin": _Reducer(arith.min_, None, bounds=_bounds_of_one),
    "ReduceL1": _Reducer(arith.add, 0, arith.magnitude),
    "ReduceSumSquare": _Reducer(arith.add, 0, _square),
    "ReduceL2": None,
    "ReduceLogSum": None,
    "ReduceLogSumExp": None,
    "ReduceMean": None,
}

#: reductions that do something to each element before it is joined to the others
_TWO_STEPS = frozenset(("ReduceL1", "ReduceSumSquare", "ReduceL2", "ReduceLogSumExp"))


def _by_attribute(reducer: _Reducer | None, op: Op) -> Known:
    return _reduce(op, reducer, op.ints_attr("axes") or None, known=True)


def _by_input(reducer: _Reducer | None, op: Op) -> Known:
    if not op.has(1):
        return _default_axes(op, reducer)
    length = op.shape(1, 1)
    given = op.const_ints(1)
    if given == () or (length is not None and length[0].value == 0):
        return _default_axes(op, reducer)
    return _reduce(op, reducer, given, known=given is not None)


def _default_axes(op: Op, reducer: _Reducer | None) -> Known:
    if op.int_attr("noop_with_empty_axes", 0):
        return op.out(op.shape(0), value=_noop_value(op, reducer))
    return _reduce(op, reducer, None, known=True)


def _noop_value(op: Op, reducer: _Reducer | None) -> Value | None:
    """Known data of a reduction over no axes: the function on each element."""
    if reducer is None:
        return None
    return op.value(0) if reducer.each is _itself else elements.apply(op, reducer.each, (0,), op.dtype(0))


def _reduce(op: Op, reducer: _Reducer | None, axes: Axes, known: bool) -> Known:
    """Lower a reduction of `axes` (None: all), or of unknown axes (`known` false)."""
    shape, keep = op.shape(0), op.int_attr("keepdims", 1) != 0
    if shape is None:
        return op.out(() if known and axes is None and not keep else None)
    if not known:
        if shape:  # For a scalar, onnxruntime ignores axes that are known only at run time.
            op.in_range(op.value(1), constant(len(shape)), op.shape(1) or (), _AXES, (1, None))
        return op.out(_unknown_axes(op, shape, keep))
    rank = len(shape)
    # onnxruntime takes an axis given twice for once
    chosen = range(rank) if axes is None else sorted({op.axis(a, rank) for a in axes})
    return op.out(_left(shape, chosen, keep), value=_reduced_value(op, reducer, chosen, shape))


def _left(shape: Shape, chosen: Seq[int], keep: bool) -> list[Dim]:
    if keep:
        return [ONE if i in chosen else d for i, d in enumerate(shape)]
    return [d for i, d in enumerate(shape) if i not in chosen]


def _unknown_axes(op: Op, shape: Shape, keep: bool) -> Shape | None:
    length = op.shape(1)
    count = length[0].value if length else None
    if not keep:  # an axis may be given twice
        return (
            op.fresh_shape(len(shape) - 1, "a dim that is left by axes known at run time")
            if count == 1
            else None
        )
    if count == len(shape) == 1:
        return Shape((ONE,))
    dims = []
    for d in shape:
        if d is ONE:
            dims.append(ONE)
            continue
        kept = op.fresh("a dim reduced or not by axes known at run time")
        op.define(any_of((eq(kept, d), eq(kept, 1))), "an axis is reduced to 1 or kept")
        dims.append(kept)
    return Shape(dims)


def _reduced_value(op: Op, reducer: _Reducer | None, axes: Seq[int], shape: Shape) -> Value | None:
    value, dtype = op.value(0), op.dtype(0)
    if reducer is None or value is None:
        return None
    keep = op.int_attr("keepdims", 1) != 0
    array = value.array
    if array is not None:
        return Value.of(_reduced_array(reducer, array, axes, keep, dtype))
    if reducer.bounds is None:
        return None
    return elements.within(reducer.bounds(value.bounds, product(shape[i] for i in axes)), dtype)


def _reduced_array(reducer: _Reducer, array: Array, axes: Seq[int], keep: bool, dtype: int) -> Array:
    rest = [i for i in range(array.ndim) if i not in axes]
    kept_shape = tuple(array.shape[i] for i in rest)
    rows = array.transpose(*rest, *axes).reshape(int(np.prod(kept_shape)), -1 if array.size else 0)
    result = np.empty(len(rows), dtype=object)
    result[:] = [reducer.elements(list(row), dtype) for row in rows]
    return result.reshape([1 if i in axes else n for i, n in enumerate(array.shape)] if keep else kept_shape)


def _reduce_axes(op: Op, _: Outputs) -> Links:
    named = op.ints_attr("axes")
    if named is None and op.has(1):
        named = numbers(op, 1)
    nothing = () if op.attr("noop_with_empty_axes", 0) else range(rank(op))
    return _links_left(op, named or nothing)


def _links_left(op: Op, axes: Iterable[int]) -> Links:
    gone, labels, keep = {a % rank(op) for a in axes}, own(op), op.attr("keepdims", 1)
    out: list[Items] = [
        [] if k in gone else [label] for k, label in enumerate(labels) if keep or k not in gone
    ]
    return Links([labels, *[None] * (op.n_in - 1)], [out])


for _name, _reducer in _REDUCERS.items():
    _declared = partial(
        lower,
        _name,
        values=True,
        work=reads(2 if _name in _TWO_STEPS else 1),
        passes=(0,) if _reducer is not None and _reducer.bounds is _bounds_of_one else (),
        axes=_reduce_axes,
    )
    _declared()(partial(_by_attribute, _reducer))
    _declared(since=13 if _name == "ReduceSum" else 18, reads={1: AXES}, data=(1,))(
        partial(_by_input, _reducer)
    )


# https://onnx.ai/onnx/operators/onnx__ArgMax.html
@lower("ArgMax", "ArgMin", values=True, work=reads(), axes=lambda op, _: _links_left(op, [axis_of(op)]))
def arg_extreme(op: Op) -> Known:
    shape, keep = op.shape(0), op.int_attr("keepdims", 1) != 0
    if shape is None:
        return op.out(None)
    axis = op.axis(op.int_attr("axis", 0), len(shape))
    others = shape[:axis] + shape[axis + 1 :]
    there = any_of((ge(shape[axis], 1), eq(others.numel, 0)))
    op.require(there, "expected at least one element to choose from", (0, axis))
    return op.out(_left(shape, (axis,), keep), value=Value.between(ZERO, shape[axis] - 1))


def _running_axes(op: Op, _: Outputs) -> Links:
    return links_along(op, [numbers(op, 1)[0] % max(rank(op), 1)])


# https://onnx.ai/onnx/operators/onnx__CumSum.html
def _running(reducer: _Reducer, op: Op) -> Known:
    shape, value = op.shape(0), op.value(0)
    axis_shape = op.shape(1)
    if shape is None:
        return op.out(None)
    if not shape:
        raise InvalidNode(f"{op.node.op_type} requires an axis, but {op.name_of(0)} is a scalar")
    nothing = eq(shape.numel, 0)  # onnxruntime looks at the axis only when there is data
    if axis_shape is not None:
        op.require(any_of((eq(axis_shape.numel, 1), nothing)), "expected one axis", (1, None))
    given = op.const_ints(1)
    if given is None or len(given) != 1:
        op.in_range(op.value(1), constant(len(shape)), shape, _AXES, (1, None))
        return op.out(shape)
    axis, rank = given[0], len(shape)
    if not -rank <= axis < rank:
        op.require(nothing, f"axis {axis} is outside [-{rank}, {rank - 1}]", (1, None))
        return op.out(shape)
    return op.out(shape, value=_running_value(op, reducer, value, shape[axis], axis % rank))


def _running_value(op: Op, reducer: _Reducer, value: Value | None, size: Dim, axis: int) -> Value | None:
    if value is None:
        return None
    exclusive, backwards, dtype = op.int_attr("exclusive", 0), op.int_attr("reverse", 0), op.dtype(0)
    array = value.array
    if array is None:
        if reducer.bounds is None:
            return None
        return elements.within(_running_bounds(value.bounds, size, bool(exclusive)), dtype)
    moved = np.moveaxis(array, axis, -1)
    rows = moved.reshape(-1, moved.shape[-1]) if array.size else moved
    result = np.empty(rows.shape, dtype=object)
    for i, row in enumerate(rows if array.size else ()):
        result[i] = _running_row(reducer, list(row), bool(exclusive), bool(backwards), dtype)
    return Value.of(np.moveaxis(result.reshape(moved.shape), -1, axis))


def _running_row(
    reducer: _Reducer, row: list[Elem], exclusive: bool, backwards: bool, dtype: int
) -> list[Elem]:
    row = row[::-1] if backwards else row
    sums = [reducer.elements(row[: i + (not exclusive)], dtype) for i in range(len(row))]
    return sums[::-1] if backwards else sums


def _running_bounds(bounds: DimRange, size: Dim, exclusive: bool) -> DimRange:
    """Return the bounds of a running sum: from no term (or one) to all terms."""
    lo, hi = bounds
    first: tuple[IntoDim | None, IntoDim | None] = (0, 0) if exclusive else bounds
    return (
        None if lo is None or first[0] is None else minimum(first[0], lo * size),
        None if hi is None or first[1] is None else maximum(first[1], hi * size),
    )


lower(
    "CumSum",
    reads={1: AXES},
    values=True,
    choices={"exclusive": (0, 1), "reverse": (0, 1)},
    data=(1,),
    flat=(1,),
    ranks="first",
    work=each(),
    axes=_running_axes,
)(partial(_running, _Reducer(arith.add, 0, bounds=_bounds_of_sum)))
lower("CumProd", reads={1: AXES}, values=True, data=(1,), ranks="first", work=each(), axes=_running_axes)(
    partial(_running, _Reducer(arith.mul, 1))
)
