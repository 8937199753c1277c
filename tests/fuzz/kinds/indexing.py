"""Operators that take elements by index, sort them, and those whose sizes only the data decides."""

from __future__ import annotations

import numpy as np

from ..builder import FLOAT, INT, Builder, Unfit
from .registry import kind
from .shaping import size


def indices(b: Builder, below: int, rank: int) -> str:
    """Stored indices that are in range here."""
    shape = [b.choice(1, 2, 3) for _ in range(rank)]
    if below <= 0:
        raise Unfit
    array = np.array(
        [b.random.randrange(-below if b.chance(0.3) else 0, below) for _ in range(int(np.prod(shape)))]
    )
    return b.const(array.reshape(shape) if shape else array[0])


@kind("Gather", weight=4)
def gather(b: Builder) -> None:
    x = b.pick((1, 4), dtype=b.choice(FLOAT, FLOAT, INT))
    axis = b.axis(x)
    at = b.pick((0, 2), INT) if b.chance(0.25) else indices(b, b.shape(x)[axis], b.choice(0, 0, 1, 2))
    b.add("Gather", [x, at], axis=axis)


@kind("GatherElements", weight=1.5)
def gather_elements(b: Builder) -> None:
    x = b.pick((1, 3))
    axis = b.axis(x)
    shape = [d if b.chance(0.6) else b.random.randint(0, d) for d in b.shape(x)]
    b.add("GatherElements", [x, b.const(np.zeros(shape))], axis=axis)


@kind("GatherND", weight=1.5)
def gather_nd(b: Builder) -> None:
    x = b.pick((1, 4))
    rank = b.rank(x)
    batch = {"batch_dims": 1} if rank >= 2 and b.opset >= 12 and b.chance(0.3) else {}
    lead = [b.shape(x)[0]] if batch else []
    k = b.random.randint(1, rank - len(lead))
    b.add("GatherND", [x, b.const(np.zeros([*lead, b.choice(1, 2, 3), k]))], **batch)


@kind("ScatterElements", weight=1.2)
def scatter_elements(b: Builder) -> None:
    x = b.pick((1, 3))
    shape = [b.random.randint(0, d) for d in b.shape(x)]
    updates = b.const(np.ones(shape), np.float32)
    b.add("ScatterElements", [x, b.const(np.zeros(shape)), updates], axis=b.axis(x))


@kind("ScatterND", weight=1.5)
def scatter_nd(b: Builder) -> None:
    x = b.pick((1, 3))
    rank = b.rank(x)
    k, n = b.random.randint(1, rank), b.choice(1, 2)
    shape = [n, *b.shape(x)[k:]]
    updates = b.const(np.ones(shape), np.float32)
    if k == 1 and b.chance(0.5):
        updates = b.add("Slice", [x, b.const([0]), b.const([n]), b.const([0])])
    b.add("ScatterND", [x, b.const(np.zeros((n, k))), updates])


@kind("TopK", weight=2)
def top_k(b: Builder) -> None:
    x = b.pick((1, 3))
    k = size(b) if b.chance(0.4) else b.const([b.choice(0, 1, 1, 2, 3)])
    b.add("TopK", [x, k], 2, axis=b.axis(x), largest=b.choice(0, 1))


@kind("NonZero", weight=1)
def non_zero(b: Builder) -> None:
    b.add("NonZero", [b.pick((0, 3))])


@kind("Unique", weight=0.8)
def unique(b: Builder) -> None:
    x = b.pick((1, 3))
    b.add("Unique", [x], b.choice(1, 2, 3, 4), **({"axis": b.axis(x)} if b.chance(0.4) else {}))


@kind("NonMaxSuppression", weight=0.5)
def boxes(b: Builder) -> None:
    x = b.pick((1, 3))
    n = b.size_at(x, 0)
    boxed = b.add(
        "Expand",
        [b.const(np.ones((1, 1, 4)), np.float32), b.add("Concat", [b.const([1]), n, b.const([4])], axis=0)],
    )
    scores = b.add(
        "Expand", [b.const(np.ones((1, 1, 1)), np.float32), b.add("Concat", [b.const([1, 2]), n], axis=0)]
    )
    most = b.const([b.choice(1, 2, 3)])
    b.add("NonMaxSuppression", [boxed, scores, *([most] if b.chance(0.8) else [])])


@kind("Multinomial", weight=0.3)
def multinomial(b: Builder) -> None:
    b.add("Multinomial", [b.pick(2)], sample_size=b.choice(1, 3))


@kind("TensorScatter", since=24, weight=1)
def tensor_scatter(b: Builder) -> None:
    x = b.pick((2, 4))
    axis = b.random.randrange(1, b.rank(x))
    update = b.add("Slice", [x, b.const([0]), b.const([b.choice(1, 2)]), b.const([axis])])
    at = b.const(np.zeros(b.shape(x)[0]))
    b.add("TensorScatter", [x, update, *([at] if b.chance(0.6) else [])], axis=axis)
