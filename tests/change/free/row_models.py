"""Random models fixed at one row, made of steps of which some mix rows, and the runs that show which do."""

import random
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = tuple[int, ...]


class Builder:
    """A model that grows; every tensor has the shape that it has for one row."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.stored: list[onnx.TensorProto] = []

    def constant(self, array: np.ndarray) -> str:
        name = f"c{len(self.stored)}"
        self.stored.append(numpy_helper.from_array(np.array(array, order="C"), name))
        return name

    def floats(self, shape: Shape) -> str:
        return self.constant(self.numbers.standard_normal(shape).astype(np.float32))

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def node(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: object) -> str:
        names = [f"t{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(
            helper.make_node(op_type, inputs, names, f"n{len(self.nodes)}_{op_type}", **attributes)
        )
        return names[0]

    def axis(self, shape: Shape) -> int:
        return self.rng.randrange(len(shape))


Step = Callable[[Builder, str, Shape], tuple[str, Shape]]


def unary(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    return b.node(b.rng.choice(["Relu", "Tanh", "Sigmoid", "Neg", "Abs"]), x), s


def bias(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    """A constant that spans some axes, the first one with its one row among them."""
    wide = tuple(d if b.rng.random() < 0.6 else 1 for d in s)[b.rng.randrange(len(s)) :]
    return b.node(b.rng.choice(["Add", "Mul", "Sub"]), x, b.floats(wide)), s


def dense(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    n = b.rng.choice([2, 3, 5])
    if len(s) < 2:
        return x, s
    return b.node("MatMul", x, b.floats((s[-1], n))), (*s[:-1], n)


def softmax(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    return b.node(b.rng.choice(["Softmax", "LogSoftmax"]), x, axis=b.axis(s)), s


def running_sum(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    return b.node("CumSum", x, b.constant(np.array(b.axis(s), np.int64))), s


def reduce(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    axis, keep = b.axis(s), b.rng.randrange(2)
    if len(s) == 1 and not keep:
        keep = 1
    made = b.node(
        b.rng.choice(["ReduceMean", "ReduceMax", "ReduceSumSquare"]), x, b.ints(axis), keepdims=keep
    )
    return made, tuple(1 if k == axis else d for k, d in enumerate(s) if keep or k != axis)


def transpose(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    perm = list(range(len(s)))
    b.rng.shuffle(perm)
    return b.node("Transpose", x, perm=perm), tuple(s[k] for k in perm)


def reshape(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    """Merge, split and add axes, with the target as numbers: one row is baked in."""
    made = list(s)
    for _ in range(b.rng.randrange(1, 3)):
        kind = b.rng.randrange(3)
        k = b.rng.randrange(len(made))
        if kind == 0 and len(made) > 1:
            k = b.rng.randrange(len(made) - 1)
            made[k : k + 2] = [made[k] * made[k + 1]]
        elif kind == 1 and len(made) < 5:
            divisors = [d for d in range(2, made[k]) if made[k] % d == 0]
            if divisors:
                d = b.rng.choice(divisors)
                made[k : k + 1] = [d, made[k] // d]
        elif len(made) < 5:
            made.insert(k, 1)
    target = list(made)
    if b.rng.random() < 0.3:
        target[b.rng.randrange(len(target))] = -1
    return b.node("Reshape", x, b.ints(*target)), tuple(made)


def flatten(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    axis = b.rng.randrange(len(s) + 1)
    return b.node("Flatten", x, axis=axis), (int(np.prod(s[:axis])), int(np.prod(s[axis:])))


def squeeze(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    ones = [k for k, d in enumerate(s) if d == 1]
    if not ones or len(s) < 2:
        return x, s
    k = b.rng.choice(ones)
    return b.node("Squeeze", x, b.ints(k)), s[:k] + s[k + 1 :]


def unsqueeze(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    if len(s) > 4:
        return x, s
    k = b.rng.randrange(len(s) + 1)
    return b.node("Unsqueeze", x, b.ints(k)), (*s[:k], 1, *s[k:])


def concat(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    axis, n = b.axis(s), b.rng.randrange(1, 3)
    other = b.floats(tuple(n if k == axis else d for k, d in enumerate(s)))
    made = tuple(d + n if k == axis else d for k, d in enumerate(s))
    return b.node("Concat", *b.rng.sample([x, other], 2), axis=axis), made


def gather(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    axis = b.axis(s)
    index = [b.rng.randrange(s[axis]) for _ in range(b.rng.randrange(1, 4))]
    if b.rng.random() < 0.3 and len(s) > 1:
        return b.node("Gather", x, b.constant(np.array(index[0])), axis=axis), s[:axis] + s[axis + 1 :]
    return b.node("Gather", x, b.ints(*index), axis=axis), (*s[:axis], len(index), *s[axis + 1 :])


def gather_elements(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    axis = b.axis(s)
    return b.node("GatherElements", x, b.constant(b.numbers.integers(0, s[axis], s)), axis=axis), s


def scatter_nd(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    index = np.array([[b.rng.randrange(s[0])]], np.int64)
    return b.node("ScatterND", x, b.constant(index), b.floats((1, *s[1:]))), s


def reverse(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    axis = b.axis(s)
    low = np.iinfo(np.int64).min
    return b.node("Slice", x, b.ints(-1), b.ints(low), b.ints(axis), b.ints(-1)), s


def cut(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    axis = b.axis(s)
    end = b.rng.randrange(1, s[axis] + 1)
    return b.node("Slice", x, b.ints(0), b.ints(end), b.ints(axis)), tuple(
        end if k == axis else d for k, d in enumerate(s)
    )


def pad(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    axis = b.axis(s)
    amounts = [int(k == axis) for k in range(len(s))] + [0] * len(s)
    return b.node("Pad", x, b.ints(*amounts)), tuple(d + int(k == axis) for k, d in enumerate(s))


def expand(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    made = tuple(b.rng.choice([1, 2]) if d == 1 and k else d for k, d in enumerate(s))
    return b.node("Expand", x, b.ints(*made)), made


def tile(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    repeats = [b.rng.choice([1, 1, 2]) for _ in s]
    return b.node("Tile", x, b.ints(*repeats)), tuple(d * r for d, r in zip(s, repeats, strict=True))


def gram(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    """Every row of the last two axes against every other one: over rows of the batch where these are there."""
    if len(s) < 2:
        return x, s
    perm = [*range(len(s) - 2), len(s) - 1, len(s) - 2]
    return b.node("MatMul", x, b.node("Transpose", x, perm=perm)), (*s[:-1], s[-2])


def top_k(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    axis = b.axis(s)
    n = b.rng.randrange(1, s[axis] + 1)
    made = b.node("TopK", x, b.ints(n), outputs=2, axis=axis)
    return made, tuple(n if k == axis else d for k, d in enumerate(s))


def training_norm(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    if len(s) < 2:
        return x, s
    c = (s[1],)
    operands = [b.floats(c), b.floats(c), b.floats(c), b.constant(np.ones(c, np.float32))]
    return b.node("BatchNormalization", x, *operands, outputs=3, training_mode=1), s


def layer_norm(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    return b.node("LayerNormalization", x, b.floats((s[-1],)), axis=-1), s


def einsum(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    letters = "abcde"[: len(s)]
    out = "".join(b.rng.sample(letters, b.rng.randrange(1, len(s) + 1)))
    return b.node("Einsum", x, equation=f"{letters}->{out}"), tuple(s[letters.index(c)] for c in out)


def lstm(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    """A recurrent layer with the states of one row stored."""
    if len(s) != 3:
        return x, s
    weights = b.floats((1, 8, s[2])), b.floats((1, 8, 2)), b.floats((1, 16))
    state = b.floats((1, s[1], 2))
    made = b.node("LSTM", x, *weights, "", state, state, hidden_size=2)
    return made, (s[0], 1, s[1], 2)


def joined(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    """With itself in another order of the axes, where that has the same shape."""
    perm = list(range(len(s)))
    b.rng.shuffle(perm)
    if tuple(s[k] for k in perm) != s:
        return x, s
    return b.node("Add", x, b.node("Transpose", x, perm=perm)), s


def collected(b: Builder, x: str, s: Shape) -> tuple[str, Shape]:
    """Three tensors made one after the other into a sequence that is empty at first, and joined."""
    k = len(b.nodes)
    perm = list(range(len(s)))
    if b.rng.random() < 0.3:
        b.rng.shuffle(perm)
    if tuple(s[p] for p in perm) != s:
        perm = list(range(len(s)))
    axis, new = b.rng.randrange(len(s)), b.rng.randrange(2)
    body = helper.make_graph(
        [
            helper.make_node("Cast", [f"i{k}"], [f"f{k}"], to=TensorProto.FLOAT),
            helper.make_node("Add", [x, f"f{k}"], [f"sum{k}"]),
            helper.make_node("Transpose", [f"sum{k}"], [f"turned{k}"], perm=perm),
            helper.make_node("SequenceInsert", [f"given{k}", f"turned{k}"], [f"more{k}"]),
            helper.make_node("Identity", [f"c{k}_in"], [f"c{k}_out"]),
        ],
        "collect",
        [
            helper.make_tensor_value_info(f"i{k}", TensorProto.INT64, []),
            helper.make_tensor_value_info(f"c{k}_in", TensorProto.BOOL, []),
            helper.make_tensor_sequence_value_info(f"given{k}", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info(f"c{k}_out", TensorProto.BOOL, []),
            helper.make_tensor_sequence_value_info(f"more{k}", TensorProto.FLOAT, None),
        ],
    )
    trips, go = b.constant(np.array(3)), b.constant(np.array(True))
    found = b.node("Loop", trips, go, b.node("SequenceEmpty"), body=body)
    made = b.node("ConcatFromSequence", found, axis=axis, new_axis=new)
    joined_shape = (*s[:axis], 3, *s[axis:]) if new else (*s[:axis], 3 * s[axis], *s[axis + 1 :])
    return made, joined_shape


STEPS: list[Step] = [
    unary, bias, bias, dense, softmax, running_sum, reduce, transpose, reshape, reshape, flatten, squeeze, unsqueeze, concat,
    gather, gather_elements, scatter_nd, reverse, cut, pad, expand, tile, gram, top_k, training_norm, layer_norm, einsum, lstm,
    joined, collected,
]  # fmt: skip


def random_model(seed: int, steps: int = 5) -> onnx.ModelProto:
    """A model of one input `x` of shape [1, ...] and one output."""
    b = Builder(seed)
    shape: Shape = (1, *(b.rng.choice([1, 2, 3, 4]) for _ in range(b.rng.randrange(1, 4))))
    given, name = shape, "x"
    for _ in range(steps):
        name, shape = b.rng.choice(STEPS)(b, name, shape)
        if int(np.prod(shape)) > 4000 or len(shape) > 6:
            break
    b.nodes.append(helper.make_node("Identity", [name], ["y"]))
    graph = helper.make_graph(
        b.nodes,
        "rows",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, given)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        b.stored,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
