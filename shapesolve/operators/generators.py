"""Operators that create tensors: constants, ranges, random numbers, one-hot.

https://onnx.ai/onnx/operators/onnx__Constant.html and others
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import TensorProto

from ..expr import ONE, ZERO, Dim, ceil_div, constant, eq, ge, maximum, minimum, ne, pos
from ..lower import arith
from ..lower.axes import Links, Uniform, made, own, plain, rank
from ..lower.limits import MAX_ELEMENTS
from ..lower.needed import const_dims, rank_made, vector
from ..lower.op import InvalidNode, MalformedNode, Op
from ..lower.precision import INT_LIMITS, exact, fit, rounded
from ..lower.reads import between
from ..lower.registry import lower
from ..lower.standard import one_number, ranked_at_load
from ..lower.types import Known
from ..lower.values import Elem, Ratio, Value
from ..lower.work import MOVES, Outputs
from ..model import Constant, SparseConstant

# ---------------------------------------------------------------------- constants


# https://onnx.ai/onnx/operators/onnx__Constant.html
@lower("Constant", values=True, runtime=("no kernel", "any attribute"), work=MOVES)
def constant_of(op: Op) -> Known:
    given = [name for name in op.node.attributes if name in _FORMS and op.attr(name) is not None]
    if len(given) != 1:
        raise InvalidNode(f"Constant needs exactly one of its attributes, got {', '.join(given) or 'none'}")
    name, value = given[0], op.attr(given[0])
    if isinstance(value, Constant | SparseConstant):
        return op.out(const_dims(value.dims), value.dtype, _stored_value(value))
    dtype = _FORMS[name]
    if not name.endswith("s"):
        return op.out((), dtype, Value.scalar(_element(value, dtype)))
    return op.out([len(value)], dtype, Value.vector(_element(v, dtype) for v in value))


def _stored_value(value: Any) -> Value | None:
    return Value.stored(value) if isinstance(value, Constant) else None


_FORMS = {
    "value": 0, "sparse_value": 0, "value_int": TensorProto.INT64, "value_ints": TensorProto.INT64,
    "value_float": TensorProto.FLOAT, "value_floats": TensorProto.FLOAT, "value_string": TensorProto.STRING,
    "value_strings": TensorProto.STRING,
}  # fmt: skip


def _element(value: object, dtype: int) -> Elem:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, int) and dtype == TensorProto.INT64:
        return constant(value)
    if isinstance(value, int | float) and dtype == TensorProto.FLOAT:
        return rounded(float(value), dtype)
    return value if isinstance(value, str) else None


# https://onnx.ai/onnx/operators/onnx__ConstantOfShape.html
@lower(
    "ConstantOfShape",
    reads={0: between(0, 3, "a shape")},
    values=True,
    data=(0,),
    work=MOVES,
    axes=lambda _, outputs: Links([None], [[[Uniform(d)] for d in made(outputs)]]),
)
def constant_of_shape(op: Op) -> Known:
    fill = op.attr("value")
    if isinstance(fill, Constant) and fill.dims != (1,):
        raise MalformedNode(f"the value must be a vector of one element, its shape is {list(fill.dims)}")
    dtype = fill.dtype if isinstance(fill, Constant) else TensorProto.FLOAT
    length = op.sized(0, 1)[0] if op.rank(0) == 0 else vector(op, 0)
    dims = op.ints(0)
    if dims is None:
        rank = rank_made(op, length, (0, None)) if length is not None else None
        return op.out(None if rank is None else op.fresh_shape(rank, "a size given as data"), dtype)
    for i, d in enumerate(dims):
        op.require(ge(d, 0), "a size must not be negative", (0, i))
    stored = _stored_value(fill) if fill is not None else Value.scalar(0.0)
    elem = stored.elems[0] if stored is not None and stored.elems else None
    return op.out(dims, dtype, _filled(dims, elem))


def _filled(dims: tuple[Dim, ...], elem: Elem) -> Value | None:
    if elem is None:
        return None
    sizes = [d.const for d in dims if not d.terms]
    if len(sizes) == len(dims) and math.prod(sizes) <= MAX_ELEMENTS and min(sizes, default=0) >= 0:
        return Value.known(tuple(sizes), (elem,) * math.prod(sizes))
    return Value.between(elem, elem) if isinstance(elem, Dim) else None


# https://onnx.ai/onnx/operators/onnx__EyeLike.html
@lower("EyeLike", values=True, work=MOVES)
def eye_like(op: Op) -> Known:
    dtype = op.int_attr("dtype", 0) or op.dtype(0)
    shape = op.shape(0, 2)
    if dtype not in INT_LIMITS or shape is None:
        return op.out(shape, dtype)
    sizes = [d.const for d in shape if not d.terms]
    if len(sizes) < 2 or sizes[0] * sizes[1] > MAX_ELEMENTS:
        return op.out(shape, dtype, Value.between(ZERO, ONE))
    ones = np.eye(sizes[0], sizes[1], k=op.int_attr("k", 0), dtype=np.int64)
    return op.out(shape, dtype, Value(tuple(sizes), tuple(map(constant, ones.reshape(-1).tolist()))))


# ---------------------------------------------------------------------- random numbers


# https://onnx.ai/onnx/operators/onnx__RandomNormal.html
@lower("RandomNormal", "RandomUniform", draws=True)
def random(op: Op) -> Known:
    sizes = op.ints_attr("shape")
    if sizes is None or min(sizes, default=0) < 0:
        raise InvalidNode(f"attribute shape must list sizes, got {sizes}")
    return op.out(const_dims(sizes), op.int_attr("dtype", TensorProto.FLOAT))


# https://onnx.ai/onnx/operators/onnx__RandomNormalLike.html
@lower("RandomNormalLike", "RandomUniformLike", draws=True)
@lower("Bernoulli", draws=True, runtime=("no kernel",))
def random_like(op: Op) -> Known:
    return op.out(op.shape(0), op.int_attr("dtype", 0) or op.dtype(0))


# https://onnx.ai/onnx/operators/onnx__Multinomial.html
@lower("Multinomial", values=True, draws=True, choices={"dtype": (6, 7)})
def multinomial(op: Op) -> Known:
    dtype, samples = op.int_attr("dtype", TensorProto.INT32), op.int_attr("sample_size", 1)
    shape = op.shape(0, 2)
    if samples < 1:
        raise InvalidNode(f"attribute sample_size must be at least 1, got {samples}")
    if shape is None:
        return op.out(None, dtype)
    for i, what in enumerate(("batch", "class")):
        op.require(ge(shape[i], 1), f"expected at least one {what} to draw from", (0, i))
    # If no class has a finite probability, onnxruntime returns the number of classes, which is not a valid class.
    return op.out([shape[0], samples], dtype, Value.between(ZERO, shape[1]))


# ---------------------------------------------------------------------- sizes given as data


def _one_hot_axes(op: Op, _: Outputs) -> Links:
    labels, axis = own(op), op.int_attr("axis", -1)
    axis = axis + rank(op) + 1 if axis < 0 else axis
    return Links([labels, None, own(op, 2)], [plain([*labels[:axis], "class", *labels[axis:]])])


# https://onnx.ai/onnx/operators/onnx__OneHot.html
@lower(
    "OneHot", reads={1: between(1, 6, "a depth")}, values=True, data=(0, 1), work=MOVES, axes=_one_hot_axes
)
def one_hot(op: Op) -> Known:
    shape, depth = op.shape(0), _depth(op)
    values = op.shape(2, 1)
    if values is not None:
        op.require(eq(values[0], 2), "values are the one for off and the one for on", (2, 0))
    if shape is not None and not shape:
        raise InvalidNode(f"indices of OneHot must not be a scalar, got {op.name_of(0)}")
    if shape is None:
        return op.out(None)
    axis = op.axis(op.int_attr("axis", -1), len(shape) + 1)
    return op.out((*shape[:axis], depth, *shape[axis:]), value=_hot(op, depth, axis) or _off_and_on(op))


def _hot(op: Op, depth: Dim, axis: int) -> Value | None:
    index, choice = op.value(0), op.value(2)
    numbers = index.concrete if index is not None else None
    if numbers is None or index is None or choice is None or choice.elems is None or len(choice.elems) != 2:
        return None
    if depth.terms or depth.const < 1 or depth.const * len(numbers) > MAX_ELEMENTS:
        return None
    at = np.array(numbers, np.int64).reshape(index.shape)
    hot = np.expand_dims(np.where(at < 0, at + depth.const, at), axis)
    places = np.arange(depth.const).reshape([-1 if k == axis else 1 for k in range(hot.ndim)])
    off, on = choice.elems
    return Value.of(np.frompyfunc(lambda same: on if same else off, 1, 1)(hot == places))


def _depth(op: Op) -> Dim:
    given = op.shape(1)
    if given is not None and len(given) > 1:
        raise InvalidNode(f"the depth of OneHot must be one number, {op.name_of(1)} is {given}")
    if given:
        op.require(eq(given[0], 1), "the depth must be one number", (1, 0))
    value = op.value(1)
    elem = value.elems[0] if value is not None and value.elems else None
    whole = arith.cast(elem, TensorProto.INT64) if elem is not None else None
    depth = whole if isinstance(whole, Dim) else op.scalar(1)
    if depth is None:
        return op.fresh(f"the depth {op.name_of(1)}", 1)
    op.require(ge(depth, 1), "the depth must be at least 1", (1, None))
    return depth


def _off_and_on(op: Op) -> Value | None:
    value = op.value(2)
    return None if value is None else Value.between(*value.bounds)


# https://onnx.ai/onnx/operators/onnx__HannWindow.html
@lower("HannWindow", "HammingWindow", "BlackmanWindow", reads={0: between(1, 12, "a size")}, data=(0,))
def window(op: Op) -> Known:
    one_number(op, 0)
    size, dtype = op.scalar(0), op.int_attr("output_datatype", TensorProto.FLOAT)
    if size is None:
        return op.out([op.fresh(f"the size {op.name_of(0)}")], dtype)
    op.require(ge(size, 0), "a size must not be negative", (0, None))
    return op.out([size], dtype)


# https://onnx.ai/onnx/operators/onnx__Range.html
@lower(
    "Range",
    reads={0: between(0, 2, "a start"), 1: between(0, 8, "a limit"), 2: between(1, 2, "a step")},
    values=True,
    data=(0, 1, 2),
    work=MOVES,
)
def range_of(op: Op) -> Known:
    for i, what in enumerate(("start", "limit", "delta")):
        shape = op.shape(i)
        if shape is not None and len(shape) > 1:
            raise InvalidNode(f"the {what} of Range must be one number, {op.name_of(i)} is {shape}")
        if shape:
            op.require(eq(shape[0], 1), f"the {what} must be one number", (i, 0))
            ranked_at_load(op, i, 0)
    dtype = op.dtype(0) or op.dtype(1) or op.dtype(2)
    if dtype and dtype not in INT_LIMITS:
        return _range_of_floats(op, dtype)
    start, limit, delta = op.scalar(0), op.scalar(1), op.scalar(2)
    if delta is not None:
        op.require(ne(delta, 0), "the step must not be 0", (2, None))
    if start is None or limit is None or delta is None or delta.value == 0:
        return op.out([op.fresh("the length of a range")])
    count = _count(op, start, limit, delta)
    return op.out([count], value=_range_value(start, limit, delta, count, dtype))


def _count(op: Op, start: Dim, limit: Dim, delta: Dim) -> Dim:
    """Return the number of elements of a Range: ``max(ceil((limit - start) / delta), 0)``."""
    if delta.lo is not None and delta.lo >= 1:
        return pos(ceil_div(limit - start, delta))
    if delta.hi is not None and delta.hi <= -1:
        return pos(ceil_div(start - limit, -delta))
    return op.fresh("the length of a range whose step may go either way")


def _range_value(start: Dim, limit: Dim, delta: Dim, count: Dim, dtype: int) -> Value | None:
    """Return the elements of a Range if their number is constant, else bounds."""
    if count.value is not None:
        if count.value > MAX_ELEMENTS:
            last = start + delta * (count - 1)
            return Value.between(minimum(start, last), maximum(start, last), reached=True)
        return Value.vector(fit(start + delta * i, dtype) for i in range(count.value))
    if delta.lo is not None and delta.lo >= 1:
        return Value.between(start, limit - 1, reached=delta.value == 1)
    return Value.between(limit + 1, start) if delta.hi is not None and delta.hi <= -1 else None


def _range_of_floats(op: Op, dtype: int) -> Known:
    parts = [_single(op.value(i)) for i in range(3)]
    start, limit, delta = parts
    if isinstance(delta, float) and delta == 0:
        raise InvalidNode("the step of a range must not be 0")
    if isinstance(start, float) and isinstance(limit, float) and isinstance(delta, float):
        gap = arith.sub(limit, start, dtype)
        if isinstance(gap, float) and math.isfinite(gap) and math.isfinite(delta):
            return op.out([max(math.ceil(gap / delta), 0)])  # divided in double, as onnxruntime does
    count = _count_of_ratios(start, limit, delta, dtype)
    return op.out([op.fresh("the length of a range of floats") if count is None else count])


def _count_of_ratios(start: Elem, limit: Elem, delta: Elem, dtype: int) -> Dim | None:
    if start is None or limit is None or not isinstance(delta, float):
        return None
    gap: Elem = limit if start == 0.0 else arith.sub(limit, start, dtype)
    step = exact(delta)
    if not isinstance(gap, Ratio) or step is None or (gap.rounded and abs(delta) != 1):
        return None
    top, bottom = gap.num * step[1], step[0].const * gap.den
    return pos(ceil_div(top, constant(bottom)) if bottom > 0 else ceil_div(-top, constant(-bottom)))


def _single(value: Value | None) -> Elem:
    return value.elems[0] if value is not None and value.elems is not None and len(value.elems) == 1 else None
