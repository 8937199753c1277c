"""What exporters write for whole layers: quantized products, attention over a cache, windows, detections, upsampling."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from ..builder import FLOAT, Builder, Unfit
from .control import body_of, inner, steps
from .registry import kind

_ALL = 2**63 - 1


def weights(b: Builder, *shape: int) -> str:
    """Stored weights."""
    if 0 in shape:
        raise Unfit
    return b.const(np.ones(shape), np.float32)


def joined(b: Builder, *parts: str) -> str:
    """Vectors of sizes, one behind the other."""
    return b.add("Concat", list(parts), axis=0)


def steps_to(b: Builder, end: str, start: str | None = None) -> str:
    """The numbers up to a size, from 0 or from another size; both are vectors of one element."""
    first = b.const(0) if start is None else b.add("Squeeze", [start])
    return b.add("Range", [first, b.add("Squeeze", [end]), b.const(1)])


@kind("dynamic_linear", weight=1)
def dynamic_linear(b: Builder) -> None:
    """A linear layer that quantizes its input as it comes."""
    x = b.pick((2, 4))
    width = b.choice(2, 3)
    weight = b.const(np.ones((b.shape(x)[-1], width)), np.uint8)
    as_bytes = b.add("DynamicQuantizeLinear", [x], 3)
    scale, zero = b.nodes[-1].output[1:]
    made = b.add("MatMulInteger", [as_bytes, weight, zero, b.const(1, np.uint8)])
    factor = b.add("Mul", [scale, b.const(b.choice(0.5, [0.5] * width), np.float32)])
    product = b.add("Mul", [b.add("Cast", [made], to=TensorProto.FLOAT), factor])
    b.add("Add", [b.const(np.ones(width), np.float32), product])


def _split(b: Builder, x: str, heads: int) -> str:
    """``[B, S, D]`` as ``[B, heads, S, D/heads]``."""
    each = b.const([b.shape(x)[2] // heads])
    parts = [b.size_at(x, 0), b.size_at(x, 1) if b.chance(0.7) else b.const([-1]), b.const([heads]), each]
    return b.add("Transpose", [b.add("Reshape", [x, joined(b, *parts)])], perm=[0, 2, 1, 3])


def _causal(b: Builder, old: str, new: str, total: str) -> str:
    """What a query may not see: zeros, and very small numbers."""
    rows = b.unsqueeze(steps_to(b, b.add("Add", [old, new]), old), [1])
    columns = b.unsqueeze(steps_to(b, total), [0])
    hidden = b.add("Greater", [columns, rows])
    return b.add("Where", [hidden, b.const(-1e9, np.float32), b.const(0, np.float32)])


@kind("cached_attention", since=13, weight=2)
def cached_attention(b: Builder) -> None:
    """Attention over a past that is an input or made of zeros, in primitive operators; gives the present, too."""
    x = b.pick(3, where=lambda a: a.size > 0 and a.shape[2] % 2 == 0)
    heads, width = b.choice(1, 2), b.shape(x)[2]
    q, k, v = (_split(b, b.add("MatMul", [x, weights(b, width, width)]), heads) for _ in range(3))
    fitting = b.shape(k)
    past = None
    if b.chance(0.5):
        past = b.pick(4, where=lambda a: a.shape[:2] == fitting[:2] and a.shape[3] == fitting[3])
    elif b.chance(0.5):
        sizes = [b.size_at(x, 0), b.const([heads]), b.const([b.choice(0, 1, 3)]), b.const([width // heads])]
        past = b.add("ConstantOfShape", [joined(b, *sizes)])
    new, old = b.size_at(x, 1), b.const([0])
    if past is not None:
        k, v = (b.add("Concat", [past, t], axis=2) for t in (k, v))
        old = b.size_at(past, 2)
    product = b.add("MatMul", [q, b.add("Transpose", [k], perm=[0, 1, 3, 2])])
    if b.chance(0.6):
        product = b.add("Add", [product, _causal(b, old, new, b.size_at(k, 2))])
    seen = b.add("MatMul", [b.add("Softmax", [product], axis=-1), v])
    back = b.add("Transpose", [seen], perm=[0, 2, 1, 3])
    end = b.add("Shape", [x]) if b.chance(0.5) else b.const([0, 0, -1 if b.chance(0.5) else width])
    b.add("Add", [b.add("Reshape", [back, end]), x])


@kind("windows", since=13, weight=1.5)
def windows(b: Builder) -> None:
    """An image padded to whole windows, cut into them, put together again and cropped."""
    x = b.pick(4, where=lambda a: a.size > 0)
    w = b.choice(2, 3)
    whole, lost = b.const([w]), []
    for i in (1, 2):
        over = b.add("Mod", [b.size_at(x, i), whole])
        lost.append(b.add("Mod", [b.add("Sub", [whole, over]), whole]))
    none = b.const([0])
    padded = b.add("Pad", [x, joined(b, *[none] * 5, *lost, none)])
    tall, wide = (b.add("Div", [b.size_at(padded, i), whole]) for i in (1, 2))
    batch, last = b.size_at(x, 0), b.size_at(x, 3)
    cut = b.add("Reshape", [padded, joined(b, batch, tall, whole, wide, whole, last)])
    order = [0, 1, 3, 2, 4, 5]
    cut = b.add("Transpose", [cut], perm=order)
    rows = b.add("Reshape", [cut, joined(b, b.const([-1]), b.const([w * w]), last)])
    whole_again = b.add("Reshape", [rows, joined(b, b.const([-1]), tall, wide, whole, whole, last)])
    image = b.add("Transpose", [whole_again], perm=order)
    ends = [b.add("Mul", [n, whole]) for n in (tall, wide)]
    image = b.add("Reshape", [image, joined(b, batch, *ends, last)])
    crop = joined(b, b.size_at(x, 1), b.size_at(x, 2))
    image = b.add("Slice", [image, b.const([0, 0]), crop, b.const([1, 2])])
    b.add("Add", [image, x])


@kind("detections", since=13, weight=1)
def detections(b: Builder) -> None:
    """Boxes that suppression keeps, gathered by its indices, and the best of them."""
    x = b.pick((2, 4), where=lambda a: a.size > 0)
    boxes = b.add("Reshape", [x, joined(b, b.size_at(x, 0), b.const([-1, 1]))])
    boxes = b.add("Concat", [boxes] * 4, axis=2)
    scores = b.add("ReduceMax", [boxes], axes=[2], keepdims=0) if b.opset < 18 else None
    scores = scores or b.add("ReduceMax", [boxes, b.const([2])], keepdims=0)
    limits = [b.const([b.choice(1, 3)]), b.const([0.5], np.float32), b.const([0.1], np.float32)]
    kept = b.add("NonMaxSuppression", [boxes, b.unsqueeze(scores, [1]), *limits[: b.choice(1, 3)]])
    if b.chance(0.5):
        at = b.add("Gather", [kept, b.const([0, 2])], axis=1)
        found = b.add("GatherND", [boxes, at])
    else:
        column = b.add("Slice", [kept, b.const([2]), b.const([3]), b.const([1])])
        flat = b.add("Reshape", [column, b.const([-1])])
        found = (
            b.add("Squeeze", [b.add("Gather", [boxes, flat], axis=1)])
            if b.chance(0.3)
            else b.add("Gather", [b.add("Reshape", [boxes, b.const([-1, 4])]), flat])
        )
    if b.chance(0.5):
        best = b.add("Gather", [found, b.const(0)], axis=1)
        most = b.add("Min", [b.size_at(best, 0), b.const([2])])
        b.add("TopK", [best, most], 2)
        b.add("Gather", [found, b.nodes[-1].output[1]])


@kind("scan_states", since=11, weight=1)
def scan_states(b: Builder) -> None:
    """A recurrence with two or three states, of which one may be made of sizes, over one or two sequences."""
    x = b.pick((2, 3), where=lambda a: a.size > 0)
    row = b.data[x][0]
    body, names, formal = inner(b), [], []
    zeros = b.add("ConstantOfShape", [joined(b, *(b.size_at(x, i) for i in range(1, b.rank(x))))])
    states = [zeros, b.const(0, np.float32)]
    if b.chance(0.5):
        states.append(b.pick((1, 2)))
    other = b.pick((1, 3), where=lambda a: a.shape[0] == b.shape(x)[0])
    scanned = [x, other] if b.chance(0.4) else [x]
    for data in [*(b.data[s] for s in states), row, b.data[other][0]][: len(states) + len(scanned)]:
        names.append(body.new("v"))
        body.data[names[-1]] = np.asarray(data)
        body.free.append(names[-1])
        rank = [None] * np.ndim(data) if b.chance(0.5) else None
        formal.append(helper.make_tensor_value_info(names[-1], TensorProto.FLOAT, rank))
    steps(body, b.random.randint(0, 2))
    gate = body.add("Sigmoid", [names[len(states)]])
    after = [body.add("Add", [body.add("Mul", [names[0], gate]), gate])]
    after.append(body.add("Add", [names[1], body.add("ReduceMax", [gate], keepdims=0)]))
    after += [body.add("Identity", [n]) for n in names[2 : len(states)]]
    rows = [body.add("Identity", [after[0]])]
    graph = body_of(body, formal, [*after, *rows])
    options = {"scan_input_directions": [1] * len(scanned)} if b.chance(0.3) else {}
    outputs = [b.new() for _ in (*after, *rows)]
    node = helper.make_node(
        "Scan", [*states, *scanned], outputs, body=graph, num_scan_inputs=len(scanned), **options
    )
    b.put(node)


@kind("upsampled", since=13, weight=1.5)
def upsampled(b: Builder) -> None:
    """A map brought to the resolution of another, or to twice its own, and added to it."""
    x = b.pick(4, where=lambda a: a.size > 0)
    kept = b.add("Slice", [b.add("Shape", [x]), b.const([0]), b.const([2])])
    options = {"mode": b.choice("nearest", "linear"), "coordinate_transformation_mode": "asymmetric"}
    if b.chance(0.5):
        lead = b.shape(x)[:2]
        y = b.pick(4, where=lambda a: a.size > 0 and a.shape[:2] == lead)
        wanted = b.add("Slice", [b.add("Shape", [y]), b.const([2]), b.const([b.choice(4, _ALL)])])
        big = b.add("Resize", [x, "", "", joined(b, kept, wanted)], **options)
        b.add("Add", [big, y])
        return
    twice = []
    for i in (2, 3):
        real = b.add("Cast", [b.size_at(x, i)], to=TensorProto.FLOAT)
        scaled = b.add("Floor", [b.add("Mul", [real, b.const(b.choice(2, 1.5, 0.5), np.float32)])])
        twice.append(b.add("Cast", [scaled], to=TensorProto.INT64))
    big = b.add("Resize", [x, "", "", joined(b, kept, *twice)], **options)
    small = b.add("MaxPool", [big], kernel_shape=[2, 2], strides=[2, 2])
    if b.chance(0.5):
        b.add("Add", [small, x])


@kind("patches", since=13, weight=1)
def patches(b: Builder) -> None:
    """An image as a sequence of patches behind one more of its own, with positions from a table."""
    x = b.pick(4, where=lambda a: a.size > 0)
    k, width = b.choice(1, 2), 4
    made = b.add("Conv", [x, weights(b, width, b.shape(x)[1], k, k)], strides=[k, k])
    flat = b.add("Reshape", [made, joined(b, b.size_at(made, 0), b.const([width, -1]))])
    rows = b.add("Transpose", [flat], perm=[0, 2, 1])
    first = b.add("Expand", [weights(b, 1, 1, width), joined(b, b.size_at(x, 0), b.const([1, 1]))])
    rows = b.add("Concat", [first, rows], axis=1)
    n = b.shape(rows)[1]
    if b.chance(0.5):
        b.add("Add", [rows, weights(b, 1, n, width)])
    else:
        at = b.unsqueeze(steps_to(b, b.size_at(rows, 1)), [0])
        b.add("Add", [rows, b.add("Gather", [weights(b, b.choice(n, 2 * n), width), at])])


@kind("padding_mask", since=13, weight=1)
def padding_mask(b: Builder) -> None:
    """Which steps lie before the end of each sequence, for scores of every pair of steps."""
    x = b.pick(3, dtype=FLOAT)
    ends = b.unsqueeze(b.add("Expand", [b.size_at(x, 1), b.size_at(x, 0)]), [1])
    inside = b.add("Less", [b.unsqueeze(steps_to(b, b.size_at(x, 1)), [0]), ends])
    mask = b.unsqueeze(inside, [1, 2])
    batch, steps_ = b.size_at(x, 0), b.size_at(x, 1)
    full = b.add("Expand", [mask, joined(b, batch, b.const([1]), steps_, steps_)])
    product = b.add("MatMul", [x, b.add("Transpose", [x], perm=[0, 2, 1])])
    hidden = b.add("Squeeze", [full, b.const([1])])
    b.add("Where", [hidden, product, b.const(-1e9, np.float32)])
