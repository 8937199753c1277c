"""Operators that go element by element, and broadcasts."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from ..builder import BOOL, FLOAT, INT, Builder, Unfit
from .registry import kind


@kind(
    "Abs", "Neg", "Relu", "Sigmoid", "Tanh", "Exp", "Sqrt", "Floor", "Ceil", "Round", "Sign", "Erf", "LeakyRelu",
    "Elu", "Selu", "Softplus", "Softsign", "HardSigmoid", "HardSwish", "Celu", "Mish", "Gelu", "ThresholdedRelu",
    "Identity", "Reciprocal", "Cos", "Sin", "Atan", "Cosh", "Shrink", "Log",
)  # fmt: skip
def unary(b: Builder, name: str) -> None:
    b.add(name, [b.pick()])


@kind("IsNaN", "IsInf", weight=0.3)
def tests(b: Builder, name: str) -> None:
    b.add(name, [b.pick()])


@kind("Not", weight=0.2)
def negation(b: Builder) -> None:
    b.add("Not", [b.pick(dtype=BOOL)])


def partner(b: Builder, x: str) -> str:
    """Something to broadcast against `x`: any tensor, a size of 1 or a bias of its last size, or a part of it."""
    draw, dtype, rank = b.random.random(), b.data[x].dtype, b.rank(x)
    if draw < 0.5:
        return b.pick(dtype=dtype)
    shape = list(b.shape(x))
    if draw < 0.75 and rank:
        kept = shape[b.random.randrange(rank) :]
        kept = [1 if b.chance(0.3) else d for d in kept]
        return b.const(np.ones(kept), dtype)
    if draw < 0.85 and rank:
        i = b.axis(x, negative=False)
        starts, ends, axes = b.const([0]), b.const([1]), b.const([i])
        return b.add("Slice", [x, starts, ends, axes])
    if draw < 0.9 and rank >= 2:
        return b.add("Transpose", [x], perm=b.random.sample(range(rank), rank))
    return b.const(b.choice(1, 2), dtype)


@kind("Add", "Sub", "Mul", "Div", weight=8)
def arithmetic(b: Builder, name: str) -> None:
    x = b.pick()
    y = partner(b, x)
    b.add(name, [x, y] if b.chance(0.5) else [y, x])


@kind("Pow", "PRelu", weight=1)
def one_way(b: Builder, name: str) -> None:
    x = b.pick()
    b.add(name, [x, partner(b, x)])


@kind("Max", "Min", "Sum", "Mean", weight=3)
def variadic(b: Builder, name: str) -> None:
    x = b.pick()
    b.add(name, [x, *(partner(b, x) for _ in range(b.random.randrange(3)))])


@kind("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", weight=1.5)
def comparison(b: Builder, name: str) -> None:
    x = b.pick()
    b.add(name, [x, partner(b, x)])


@kind("And", "Or", "Xor", weight=0.5)
def logic(b: Builder, name: str) -> None:
    b.add(name, [b.pick(dtype=BOOL), b.pick(dtype=BOOL)])


@kind("Where", weight=1.5)
def where(b: Builder) -> None:
    x = b.pick()
    try:
        test = b.pick(dtype=BOOL)
    except Unfit:
        test = b.add("Greater", [x, b.const(0, np.float32)])
    b.add("Where", [test, x, partner(b, x)])


@kind("Mod", weight=0.3)
def remainder(b: Builder) -> None:
    x = b.pick()
    b.add("Mod", [x, b.const(3, np.float32)], fmod=1)


@kind("Clip", since=11, weight=0.7)
def clip(b: Builder) -> None:
    limits = [b.const(0, np.float32), b.const(4, np.float32)]
    b.add("Clip", [b.pick(), *limits[: b.random.randrange(3)]])


@kind("Cast", weight=1)
def cast(b: Builder) -> None:
    x = b.pick(dtype=b.choice(FLOAT, FLOAT, INT, BOOL))
    to = b.choice(
        TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.INT32, TensorProto.DOUBLE
    )
    b.add("Cast", [x], to=to)


@kind("CastLike", weight=0.3)
def cast_like(b: Builder) -> None:
    b.add("CastLike", [b.pick(dtype=b.choice(INT, BOOL, FLOAT)), b.pick()])


@kind("Softmax", "LogSoftmax", "Hardmax", weight=1)
def softmax(b: Builder, name: str) -> None:
    x = b.pick((1, 5))
    b.add(name, [x], **({"axis": b.axis(x)} if b.chance(0.7) else {}))


@kind("Dropout", weight=0.5)
def dropout(b: Builder) -> None:
    b.add("Dropout", [b.pick()], b.choice(1, 2))


@kind("CumSum", weight=0.7)
def cumulative(b: Builder) -> None:
    x = b.pick((1, 4))
    axis = b.const(b.axis(x))
    b.add("CumSum", [x, axis], exclusive=b.choice(0, 1), reverse=b.choice(0, 1))


@kind("LpNormalization", weight=0.4)
def lp_normalization(b: Builder) -> None:
    x = b.pick((1, 4))
    b.add("LpNormalization", [x], axis=b.axis(x), p=b.choice(1, 2))


@kind("MeanVarianceNormalization", weight=0.2)
def mean_variance(b: Builder) -> None:
    b.add("MeanVarianceNormalization", [b.pick(4)])


@kind("QuantizeLinear", weight=0.5)
def quantize(b: Builder) -> None:
    x = b.pick((1, 4))
    scale, zero = b.const(0.5, np.float32), b.const(3, np.uint8)
    q = b.add("QuantizeLinear", [x, scale, zero])
    if b.chance(0.7):
        b.add("DequantizeLinear", [q, scale, zero])


@kind("DynamicQuantizeLinear", weight=0.3)
def dynamic_quantize(b: Builder) -> None:
    b.add("DynamicQuantizeLinear", [b.pick((1, 4))], 3)


@kind("Bernoulli", "RandomNormalLike", "RandomUniformLike", weight=0.3)
def random_like(b: Builder, name: str) -> None:
    b.add(name, [b.pick((0, 4))])


@kind("BitShift", weight=0.1)
def shift(b: Builder) -> None:
    u = b.add("Cast", [b.pick(dtype=INT)], to=TensorProto.UINT64)
    b.add("BitShift", [u, b.const(1, np.uint64)], direction=b.choice("LEFT", "RIGHT"))
