"""Sizes as data: Shape, Gather, arithmetic, Concat, and what is made of them."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from ..builder import FLOAT, INT, Builder, Unfit
from .registry import kind


def size(b: Builder, depth: int = 0) -> str:
    """A vector of one size, made of sizes of tensors by arithmetic."""
    r = b.random
    draw = r.randrange(12 if depth < 3 else 4)
    if draw < 4:
        x = b.pick((1, 5))
        return b.size_at(x, b.axis(x, negative=False))
    if draw < 6:
        ways = ("Add", "Sub", "Mul") + (("Max", "Min") if b.opset >= 12 else ())
        return b.add(r.choice(ways), [size(b, depth + 1), size(b, depth + 1)])
    if draw == 6:
        return b.add(r.choice(("Div", "Mod", "Mul")), [size(b, depth + 1), b.const([r.choice((2, 3))])])
    if draw == 7:
        real = b.add("Cast", [size(b, depth + 1)], to=TensorProto.FLOAT)
        way = r.choice(("Div", "Mul"))
        scaled = b.add(way, [real, b.const([b.choice(2, 0.5, 3, 1.5)], np.float32)])
        return b.add("Cast", [b.add(r.choice(("Floor", "Ceil")), [scaled])], to=TensorProto.INT64)
    if draw == 8:
        test = b.add(
            r.choice(("Less", "Equal", "Greater")), [size(b, depth + 1), b.const([b.choice(0, 1, 2, 4)])]
        )
        return b.add("Where", [test, size(b, depth + 1), size(b, depth + 1)])
    if draw == 9:
        return b.add("Reshape", [b.add("Size", [b.pick((0, 3))]), b.const([1])])
    if draw == 10:
        sizes = b.add("Shape", [b.pick((1, 4))])
        return b.add("ReduceProd" if b.chance(0.5) else "ReduceMax", [sizes], keepdims=1)
    return b.const([r.choice((-1, 1, 2, 3, 4, 0))])


def target_of(b: Builder, x: str) -> str:
    """The shape of `x` with dims joined, split, copied or left to -1."""
    r, parts = b.random, list[str]()
    for i in range(b.rank(x)):
        draw = r.randrange(6)
        d = b.size_at(x, i)
        if draw == 0 and parts:
            parts[-1] = b.add("Mul", [parts[-1], d])
        elif draw == 1:
            k = b.const([r.choice((2, 3))])
            parts += [b.add("Div", [d, k]), k]
        else:
            parts.append(b.const([-1]) if draw == 2 else b.const([0]) if draw == 3 else d)
    if not parts:
        return b.const([1])
    return b.add("Concat", parts, axis=0)


@kind("Shape", weight=1.5)
def shape(b: Builder) -> None:
    x = b.pick()
    limits = (
        {"start": b.choice(0, 1, -1), "end": b.choice(1, 2, -1)} if b.opset >= 15 and b.chance(0.4) else {}
    )
    b.add("Shape", [x], **limits)


@kind("Size", weight=0.5)
def number_of_elements(b: Builder) -> None:
    b.add("Size", [b.pick()])


@kind("size_arithmetic", weight=1.5)
def arithmetic(b: Builder) -> None:
    size(b)


@kind("integers", weight=1.5)
def integers(b: Builder) -> None:
    """Arithmetic on whatever integer tensors there are, not only on single sizes."""
    x = b.pick((0, 2), INT)
    ways = ("Add", "Sub", "Mul") + (("Max", "Min") if b.opset >= 12 else ())
    y = b.pick((0, 2), INT) if b.chance(0.6) else b.const(b.choice(1, 2, [2], [1, 2]))
    b.add(b.choice(*ways), [x, y])


@kind("ConstantOfShape", weight=3)
def constant_of_shape(b: Builder) -> None:
    if b.chance(0.4):
        wanted = b.add("Shape", [b.pick()])
    else:
        parts = [size(b) for _ in range(b.random.randint(1, 3))]
        wanted = b.add("Concat", parts, axis=0)
    value = helper.make_tensor("v", TensorProto.FLOAT, [1], [1.0])
    b.add("ConstantOfShape", [wanted], **({"value": value} if b.chance(0.7) else {}))


@kind("Range", weight=2)
def ranges(b: Builder) -> None:
    def scalar() -> str:
        return b.add("Squeeze", [size(b)]) if b.chance(0.6) else b.const(b.choice(0, 1, 2, 5, -3))

    step = b.const(b.choice(1, 1, 2, 3, -1, -2))
    if b.chance(0.15):
        real = [b.add("Cast", [v], to=TensorProto.FLOAT) for v in (scalar(), scalar())]
        b.add("Range", [*real, b.const(b.choice(0.5, 1, 2), np.float32)])
    else:
        b.add("Range", [scalar(), scalar(), step])


@kind("positions", weight=1.5)
def positions(b: Builder) -> None:
    """Rows of a table at positions that follow from sizes."""
    end = b.add("Squeeze", [size(b)])
    at = b.add("Range", [b.const(0), end, b.const(1)])
    table = b.const(np.ones((b.choice(4, 8, 16), 2)), np.float32)
    b.add("Gather", [table, at])


@kind("OneHot", weight=1)
def one_hot(b: Builder) -> None:
    indices = b.pick((0, 2), INT)
    depth = size(b) if b.chance(0.4) else b.const(b.choice([3], 4))
    values = b.const([0, 1], np.float32)
    b.add("OneHot", [indices, depth, values], **({"axis": b.choice(0, -1)} if b.chance(0.6) else {}))


@kind("halves", weight=2)
def halves(b: Builder) -> None:
    """A tensor cut at a size that is computed, and put together again."""
    x = b.pick((1, 4))
    axis = b.axis(x, negative=False)
    d = b.size_at(x, axis)
    half = b.add("Div", [d, b.const([2])])
    axes = b.const([axis])
    first = b.add("Slice", [x, b.const([0]), half, axes])
    second = b.add("Slice", [x, half, d if b.chance(0.5) else b.const([2**63 - 1]), axes])
    b.add(b.choice("Concat", "Concat"), [second, first], axis=axis)
    if b.chance(0.3):
        b.add("Add", [first, second])


@kind("heads", weight=3)
def heads(b: Builder) -> None:
    """Attention's reshape: a last dim into heads, transposed, and back with -1 or the computed size."""
    x = b.pick((2, 3), where=lambda a: a.shape[-1] % 2 == 0 and a.shape[-1] > 0)
    rank = b.rank(x)
    lead = [b.size_at(x, i) for i in range(rank - 1)]
    count = b.choice(1, 2)
    parts = [*lead, b.const([count]), b.const([-1 if b.chance(0.5) else b.shape(x)[-1] // count])]
    y = b.add("Reshape", [x, b.add("Concat", parts, axis=0)])
    order = [*range(rank - 2), rank - 1, rank - 2, rank]
    y = b.add("Transpose", [y], perm=order)
    if b.chance(0.6):
        y = b.add("Transpose", [y], perm=order)
        b.add("Reshape", [y, b.add("Shape", [x]) if b.chance(0.5) else b.const([0] * (rank - 1) + [-1])])


@kind("like_another", weight=2)
def like_another(b: Builder) -> None:
    """A tensor brought to the shape of another by Expand of ones, as exporters do."""
    x, y = b.pick((1, 3)), b.pick((1, 4))
    wanted = b.add("Shape", [y])
    ones = b.add(
        "ConstantOfShape", [b.add("Shape", [wanted])], value=helper.make_tensor("v", INT_KIND, [1], [1])
    )
    minus = b.add("Mul", [ones, b.const(-1)])
    test = b.add("Equal", [wanted, minus])
    b.add("Expand", [x, b.add("Where", [test, ones, wanted])])


INT_KIND = TensorProto.INT64


@kind("random_tensor", weight=0.4)
def random_tensor(b: Builder) -> None:
    name = b.choice("RandomNormal", "RandomUniform")
    b.add(name, [], shape=[b.choice(1, 2, 3) for _ in range(b.random.randint(1, 3))])


@kind("HannWindow", "HammingWindow", "BlackmanWindow", weight=0.5)
def window(b: Builder, name: str) -> None:
    b.add(name, [b.add("Squeeze", [size(b)])])


@kind("constant", weight=0.7)
def constant(b: Builder) -> None:
    """A stored tensor of the sizes of another, so that they meet later."""
    x = b.pick((1, 3), dtype=b.choice(FLOAT, FLOAT, INT))
    shape = b.shape(x)
    if not shape:
        raise Unfit
    b.free.append(b.const(np.ones(shape), b.data[x].dtype))
