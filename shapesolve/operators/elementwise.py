# compiled: see CONTRIBUTING.md
"""Elementwise operators: arithmetic, comparisons, logic, activations, casts, choices.

https://onnx.ai/onnx/operators/ has a page of each, named ``onnx__Add.html`` and so on.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial, reduce
from math import prod

from onnx import TensorProto, helper

from ..expr import ONE, ZERO, Dim, Shape, any_of, eq, ne
from ..lower import arith, elements
from ..lower.arith import Function
from ..lower.axes import EACH, FIRST, SAME, Links, along_axis, links_along, rank
from ..lower.elements import OnRanges
from ..lower.limits import MAX_ELEMENTS
from ..lower.op import InvalidNode, Op
from ..lower.precision import INT_LIMITS
from ..lower.reads import DIVISORS, one_of
from ..lower.registry import lower, signature
from ..lower.signature import Signature
from ..lower.types import Known
from ..lower.values import Elem, Value
from ..lower.work import VIEW, Operations, Outputs, Work, each, joins, per

# ---------------------------------------------------------------------- one input, same shape


_SAME_SHAPE = """
    Acos Acosh Asin Asinh Atan Atanh Celu Cos Cosh Elu Erf Exp HardSigmoid IsInf IsNaN
    LeakyRelu Log Selu Shrink Sigmoid Sin Sinh Softplus Softsign Tan Tanh
"""


@lower(*_SAME_SHAPE.split(), axes=SAME, work=each())
@lower("HardSwish", "Mish", "Swish", axes=SAME, runtime=("no kernel",), work=each())
@lower("ThresholdedRelu", axes=SAME, runtime=("early",), work=each())
@lower("Gelu", choices={"approximate": ("none", "tanh")}, axes=SAME, work=each())
def same_shape(op: Op) -> Known:
    return op.like(0)


def _unary(function: Function, intervals: OnRanges | None) -> Callable[[Op], Known]:
    def rule(op: Op) -> Known:
        return op.out(op.shape(0), value=elements.apply(op, function, (0,), op.dtype(0), intervals))

    return rule


_UNARY: tuple[tuple[str, Function, OnRanges | None], ...] = (
    ("Abs", arith.magnitude, elements.magnitude),
    ("BitwiseNot", arith.invert, None),
    ("Ceil", arith.ceil, None),
    ("Floor", arith.floor, None),
    ("Neg", arith.negative, elements.negative),
    ("Not", arith.invert, None),
    ("Reciprocal", arith.reciprocal, None),
    ("Relu", arith.relu, elements.relu),
    ("Round", arith.round_half_even, None),
    ("Sign", arith.sign_of, elements.one_sign),
    ("Sqrt", arith.sqrt, None),
)
for _name, _function, _intervals in _UNARY:
    lower(_name, values=True, axes=SAME, work=each())(_unary(_function, _intervals))


@lower("Identity", passes=(0,), values=True, axes=SAME, work=VIEW)
def identity(op: Op) -> Known | None:
    return op.known(0)


# https://onnx.ai/onnx/operators/onnx__Softmax.html
def _along_axis(default: int, always: bool, op: Op) -> Known:
    """Lower an operator along an axis (softmax), which old versions check only for non-empty input."""
    shape = op.shape(0)
    if shape is not None:
        axis, rank = op.int_attr("axis", default), len(shape)
        if always:
            op.axis(axis, rank)
        elif not -rank <= axis < rank:
            op.require(eq(shape.numel, 0), f"axis {axis} is outside [-{rank}, {rank - 1}]", (0, None))
    return op.out(shape)


for _since, _default, _always in ((0, 1, False), (11, 1, True), (13, -1, True)):
    _rule, _axes = partial(_along_axis, _default, _always), along_axis(_default, rest=_since < 13)
    lower("Softmax", "LogSoftmax", since=_since, ranks="first", work=each(5), axes=_axes)(_rule)
    lower("Hardmax", since=_since, ranks="first", work=each(2), axes=_axes)(_rule)


# ---------------------------------------------------------------------- two inputs

_LEGACY = {
    "Add": arith.add, "Sub": arith.sub, "Mul": arith.mul, "Div": arith.div, "Pow": arith.power,
    "And": arith.both, "Or": arith.either, "Xor": arith.one_of,
    "Equal": arith.equal, "Less": arith.less, "Greater": arith.greater,
}  # fmt: skip


def _binary(function: Function, intervals: OnRanges | None = None) -> Callable[[Op], Known]:
    def rule(op: Op) -> Known:
        return op.out(op.broadcast((0, 1)), value=elements.apply(op, function, (0, 1), _type(op), intervals))

    return rule


def _type(op: Op) -> int:
    return op.dtype(0) or op.dtype(1)


_BINARY: tuple[tuple[str, Function, OnRanges | None], ...] = (
    ("Add", arith.add, elements.add),
    ("Sub", arith.sub, elements.sub),
    ("Mul", arith.mul, elements.mul),
    ("Pow", arith.power, None),
    ("And", arith.both, None),
    ("Or", arith.either, None),
    ("Xor", arith.one_of, None),
    ("Equal", arith.equal, None),
    ("Less", arith.less, None),
    ("LessOrEqual", arith.less_equal, None),
    ("Greater", arith.greater, None),
    ("GreaterOrEqual", arith.greater_equal, None),
    ("BitwiseAnd", arith.bitwise(operator.and_), None),
    ("BitwiseOr", arith.bitwise(operator.or_), None),
    ("BitwiseXor", arith.bitwise(operator.xor), None),
)
_COMMUTE = frozenset(("Add", "Mul", "And", "Or", "Xor", "Equal", "BitwiseAnd", "BitwiseOr", "BitwiseXor"))
for _name, _function, _intervals in _BINARY:
    lower(_name, values=True, axes=EACH, work=each(), commutes=_name in _COMMUTE)(
        _binary(_function, _intervals)
    )


@lower("Div", reads={1: DIVISORS}, values=True, axes=EACH, work=each())
def divide(op: Op) -> Known:
    _need_divisor(op)
    return _binary(arith.div, elements.div)(op)


def _modulo(op: Op) -> Known:
    _need_divisor(op)
    if op.int_attr("fmod", 0):
        return _binary(arith.fmod, elements.fmod)(op)
    return _binary(arith.mod, elements.mod)(op)


@lower("Mod", reads={1: DIVISORS}, values=True, axes=EACH, work=each())
def modulo_10(op: Op) -> Known:
    if _type(op) and _type(op) not in INT_LIMITS and not op.int_attr("fmod", 0):
        raise InvalidNode("Mod of floats requires fmod=1")
    return _modulo(op)


lower("Mod", since=28, reads={1: DIVISORS}, values=True, axes=EACH, work=each())(_modulo)


def _need_divisor(op: Op) -> None:
    """Require that integer divisors are not 0, which onnxruntime checks even for empty inputs."""
    value = op.value(1)
    if value is None or value.elems is None or _type(op) not in INT_LIMITS:
        return
    for d in dict.fromkeys(value.elems):
        if isinstance(d, Dim):
            op.require(ne(d, 0), "an integer divisor must not be 0", (1, None))


@lower("BitShift", values=True, choices={"direction": ("LEFT", "RIGHT")}, axes=EACH, work=each())
def bit_shift(op: Op) -> Known:
    return _binary(arith.shift(op.text_attr("direction", "")))(op)


# https://onnx.ai/onnx/operators/onnx__Add.html (version 6), and the like
def _legacy(function: Function, op: Op) -> Known:
    """Lower a binary operator of opset 6 or older, with one-way broadcast by attributes."""
    value = elements.apply(op, function, (0, 1), _type(op)) if op.attr("axis") is None else None
    if not op.int_attr("broadcast", 0):
        return op.out(
            op.same_shapes((0, 1), "without the attribute broadcast, both inputs must have the same shape"),
            value=value,
        )
    shape, small = op.shape(0), op.shape(1)
    if shape is not None and small is not None:
        _fits_from(op, shape, small)
    return op.out(shape, value=value)


def _fits_from(op: Op, shape: Shape, small: Shape) -> None:
    """Require that the second shape is a part of the first from `axis` on, or one element."""
    single = eq(small.numel, 1)
    if single.is_true:
        return
    start = op.int_attr("axis", len(shape) - len(small))
    start += len(shape) if start < 0 <= start + len(shape) else 0
    if not 0 <= start <= len(shape) - len(small):
        raise InvalidNode(f"{op.name_of(1)} {small} is not a part of {op.name_of(0)} {shape} at axis {start}")
    for i, d in enumerate(small):
        fits = any_of((eq(d, shape[start + i]), single))
        op.require(fits, "the second shape must be a part of the first", (0, start + i), (1, i))


for _name, _function in _LEGACY.items():
    lower(_name, until=7, values=True, axes=EACH, work=each())(partial(_legacy, _function))


# https://onnx.ai/onnx/operators/onnx__PRelu.html
_PRELU_ONE_WAY, _PRELU_BOTH_WAYS = Signature("*S, <S -> *S", (), {}), Signature("~S, ~S -> ~S", (), {})


@lower("PRelu", since=7, ranks="first", work=each(), axes=EACH)
def prelu(op: Op) -> list[Known | None]:
    return (_PRELU_BOTH_WAYS if op.as_onnxruntime("prelu-slope") else _PRELU_ONE_WAY)(op)


@lower("PRelu", until=7, ranks="first", work=each(), axes=EACH)
def prelu_1(op: Op) -> Known:
    shape, slope = op.shape(0), op.shape(1)
    if shape is not None and slope is not None and len(shape) > 1:
        shared_or_each = any_of((eq(slope.numel, 1), eq(slope.numel, shape[1])))
        op.require(shared_or_each, "one slope, or one for each channel", (0, 1), (1, None))
    return op.out(shape)


signature("SwiGLU", "*S, *S -> *S", runtime=("no kernel",), work=each(3), axes="=")

# ---------------------------------------------------------------------- any number of inputs


def _variadic(function: Function, intervals: OnRanges, op: Op) -> Known:
    return op.out(op.broadcast(), value=_folded(op, function, intervals))


def _variadic_same(function: Function, intervals: OnRanges, op: Op) -> Known:
    shape = op.same_shapes(range(op.n_in), "all inputs must have the same shape")
    return op.out(shape, value=_folded(op, function, intervals))


def _folded(op: Op, function: Function, intervals: OnRanges) -> Value | None:
    def together(*elems: Elem) -> Elem:
        return arith.fold(function, elems, op.dtype(0), None)

    values = [op.value(i) for i in range(op.n_in)]
    if all(v is None for v in values):
        return None
    found = elements.broadcast_elements(together, values)
    if found is not None:
        return found
    bounds = reduce(intervals, map(elements.interval, values))
    return elements.within(bounds, op.dtype(0), elements.extremes_meet(op, range(op.n_in)))


for _name, _function, _join in (
    ("Sum", arith.add, elements.add),
    ("Max", arith.max_, elements.higher_of),
    ("Min", arith.min_, elements.lower_of),
):
    lower(_name, values=True, axes=EACH, work=joins())(partial(_variadic, _function, _join))
    lower(_name, until=8, values=True, ranks="all", work=joins(), axes=EACH)(
        partial(_variadic_same, _function, _join)
    )


@lower("Mean", axes=EACH, work=joins(0))
def mean(op: Op) -> Known:
    return op.out(op.broadcast())


@lower("Mean", until=8, ranks="all", work=joins(0), axes=EACH)
def mean_1(op: Op) -> Known:
    return op.out(op.same_shapes(range(op.n_in), "all inputs must have the same shape"))


# ---------------------------------------------------------------------- limits and choices


# https://onnx.ai/onnx/operators/onnx__Clip.html
@lower("Clip", until=11, values=True, axes=SAME, work=each())
def clip_6(op: Op) -> Known:
    value = op.value(0)
    if value is not None and value.elems is not None:
        for name, function in (("min", arith.max_), ("max", arith.min_)):
            limit = op.attr(name)
            if limit is not None and value is not None:
                value = value.map(partial(_limited, function, float(limit), op.dtype(0)))
        return op.out(op.shape(0), value=value)
    return op.out(op.shape(0))


def _limited(function: Function, limit: Elem, dtype: int, e: Elem) -> Elem:
    return None if e is None or limit is None else function(e, limit, dtype)


@lower("Clip", since=11, values=True, axes=FIRST, work=each())
def clip(op: Op) -> Known:
    value = op.value(0)
    bounds = elements.interval(value)
    for i, function, join in ((1, arith.max_, elements.higher_of), (2, arith.min_, elements.lower_of)):
        if not op.has(i):
            continue
        _need_single(op, i, "a limit of Clip must be a scalar")
        limit = op.value(i)
        if value is not None and value.elems is not None:
            e = limit.elems[0] if limit is not None and limit.elems else None
            value = value.map(partial(_limited, function, e, op.dtype(0)))
        bounds = join(bounds, elements.interval(limit))
    if value is None or value.elems is None:
        given = [i for i in range(3) if op.has(i)]
        value = elements.within(bounds, op.dtype(0), elements.extremes_meet(op, given))
    return op.out(op.shape(0), value=value)


def _need_single(op: Op, i: int, why: str) -> None:
    """Require that input `i` is a scalar or a vector of one element."""
    shape = op.shape(i)
    if shape is not None and len(shape) > 1:
        raise InvalidNode(f"{why}, {op.name_of(i)} is {shape}")
    if shape:
        op.require(eq(shape[0], 1), why, (i, 0))


# https://onnx.ai/onnx/operators/onnx__Where.html
@lower("Where", passes=(1, 2), values=True, axes=EACH, work=each(0))
def where(op: Op) -> Known:
    shape, dtype = op.broadcast((0, 1, 2)), op.dtype(1) or op.dtype(2)
    cond, a, b = op.value(0), op.value(1), op.value(2)
    value = None
    if (a or b) and (cond or (a and b)):
        parts = [_elements_or_none(op, i) for i in range(3)]
        value = elements.broadcast_elements(partial(_chosen, dtype), parts)
    if value is None and a is not None and b is not None:
        value = elements.within(elements.hull(a.bounds, b.bounds), dtype)
    return op.out(shape, value=value)


def _chosen(dtype: int, cond: Elem, a: Elem, b: Elem) -> Elem:
    if cond is None:
        return a if a == b else None
    return arith.choose(cond, a, b, dtype)


def _elements_or_none(op: Op, i: int) -> Value | None:
    """Return the elements of an input, unknown ones as None; None if their number is unknown."""
    value, shape = op.value(i), op.shape(i)
    if value is not None and value.elems is not None:
        return value
    if shape is None or any(d.terms for d in shape):
        return None
    sizes = tuple([d.const for d in shape])
    return None if prod(sizes) > MAX_ELEMENTS else Value(sizes, (None,) * prod(sizes))


# ---------------------------------------------------------------------- types


# https://onnx.ai/onnx/operators/onnx__Cast.html
@lower("Cast", passes=(0,), values=True, axes=SAME, work=each(0))
def cast(op: Op) -> Known:
    return _cast(op, op.int_attr("to", 0))


@lower("Cast", until=6, passes=(0,), values=True, axes=SAME, work=each(0))
def cast_1(op: Op) -> Known:
    name = op.text_attr("to", "")
    if name not in TensorProto.DataType.keys():  # noqa: SIM118  (a protobuf enum, not a dict)
        raise InvalidNode(f"unknown element type {name!r} in attribute to")
    return _cast(op, int(TensorProto.DataType.Value(name)))


@lower("CastLike", values=True, axes=FIRST, runtime=("no kernel",), work=each(0))
def cast_like(op: Op) -> Known:
    return _cast(op, op.dtype(1))


def _cast(op: Op, to: int) -> Known:
    if not to:
        return op.out(op.shape(0))
    if to == op.dtype(0):
        return op.out(op.shape(0), to, op.value(0))
    value = elements.apply(op, arith.cast, (0,), to)
    if value is None:
        bounds = elements.interval(op.value(0))
        if op.dtype(0) == TensorProto.BOOL:
            bounds = (ZERO, ONE)
        value = elements.within(bounds, to, op.dtype(0) in INT_LIMITS and elements.extremes_meet(op, (0,)))
    return op.out(op.shape(0), to, value)


# https://onnx.ai/onnx/operators/onnx__BitCast.html
@lower("BitCast", work=each(0), axes=SAME)
def bit_cast(op: Op) -> Known:
    to, given = op.int_attr("to", 0), op.dtype(0)
    if given and to and _width(given) and _width(to) and _width(given) != _width(to):
        raise InvalidNode(f"BitCast between types of {_width(given)} and {_width(to)} bits")
    return op.out(op.shape(0), to)


def _width(dtype: int) -> int:
    """Bits of a numpy type; 0 for text and for types that numpy lacks."""
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    return 8 * kind.itemsize if kind.kind in "iufbc" else 0


# ---------------------------------------------------------------------- dropout


# https://onnx.ai/onnx/operators/onnx__Dropout.html
@lower("Dropout", passes=(0,), values=True, draws=True, ranks="first", work=each(0), axes="*S -> *S, *S")
def dropout(op: Op) -> list[Known]:
    return [op.out(op.shape(0), value=op.value(0)), op.like(0)]


def _dropout_work(op: Op, outputs: Outputs) -> Operations | None:
    """Return the work of a Dropout: none (training mode is not counted)."""
    return None if _trains(op) else per(outputs[0], 0)


def _dropout_axes(op: Op, _: Outputs) -> Links:
    """Return the links of a Dropout; in training mode rows are combined, as one mask is drawn for all."""
    return links_along(op, range(rank(op)) if op.has(2) else ())


def _trains(op: Op) -> bool:
    training = op.value(2)
    return op.has(2) and not (training is not None and training.concrete == [False])


@lower(
    "Dropout",
    since=12,
    passes=(0,),
    reads={1: one_of((0.0, 0.25, 0.5), "a ratio")},
    values=True,
    draws=True,
    ranks="first",
    work=Work(_dropout_work, "over"),
    axes=_dropout_axes,
)
def dropout_12(op: Op) -> list[Known]:
    for i, what in ((1, "ratio"), (2, "training_mode")):
        if op.has(i) and op.rank(i):
            raise InvalidNode(f"{what} of Dropout must be a scalar, {op.name_of(i)} is {op.shape(i)}")
    return [op.out(op.shape(0), value=None if _trains(op) else op.value(0)), op.like(0)]
