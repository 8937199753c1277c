"""Operators that move elements: reshapes, joins, slices, pads."""

from __future__ import annotations

import numpy as np

from ..builder import BOOL, FLOAT, INT, Builder, Unfit
from .registry import kind
from .shaping import size, target_of

LAST, FIRST = 2**63 - 1, -(2**63)


@kind("Reshape", weight=9)
def reshape(b: Builder) -> None:
    x = b.pick(dtype=b.choice(FLOAT, FLOAT, FLOAT, INT))
    draw = b.random.random()
    zero = {"allowzero": 1} if b.opset >= 14 and b.chance(0.08) else {}
    if draw < 0.55:
        b.add("Reshape", [x, target_of(b, x)], **zero)
    elif draw < 0.7:
        b.add("Reshape", [x, b.ints([-1] if b.chance(0.5) else [*b.shape(x), 1])], **zero)
    elif draw < 0.85:
        b.add("Reshape", [x, b.add("Shape", [b.pick()])], **zero)
    else:
        parts = [size(b) for _ in range(b.random.randint(1, 3))]
        b.add("Reshape", [x, b.add("Concat", parts, axis=0)], **zero)


@kind("Transpose", weight=3)
def transpose(b: Builder) -> None:
    x = b.pick((1, 5), dtype=b.choice(FLOAT, FLOAT, INT))
    rank = b.rank(x)
    b.add("Transpose", [x], **({"perm": b.random.sample(range(rank), rank)} if b.chance(0.9) else {}))


@kind("Flatten", weight=1.5)
def flatten(b: Builder) -> None:
    x = b.pick()
    rank = b.rank(x)
    b.add("Flatten", [x], axis=b.random.randint(-rank, rank))


@kind("Squeeze", weight=2)
def squeeze(b: Builder) -> None:
    x = b.pick((1, 6))
    ones = [i for i, d in enumerate(b.shape(x)) if d == 1]
    axes = sorted(b.random.sample(ones, b.random.randint(0, len(ones))))
    axes = [a - b.rank(x) if b.chance(0.3) else a for a in axes]
    if not axes and b.chance(0.6):
        b.add("Squeeze", [x])
    elif b.opset >= 13:
        b.add("Squeeze", [x, b.ints(axes)])
    else:
        b.add("Squeeze", [x], axes=axes)


@kind("Unsqueeze", weight=2)
def unsqueeze(b: Builder) -> None:
    x = b.pick((0, 4))
    rank, n = b.rank(x), b.choice(1, 1, 2)
    axes = b.random.sample(range(rank + n), n)
    b.unsqueeze(x, [a - rank - n if b.chance(0.3) else a for a in axes])


@kind("Expand", weight=4)
def expand(b: Builder) -> None:
    x = b.pick()
    draw = b.random.random()
    if draw < 0.4:
        b.add("Expand", [x, b.add("Shape", [b.pick()])])
    elif draw < 0.7:
        wanted = [b.choice(1, d) if d != 1 else b.choice(1, 2, 3) for d in b.shape(x)]
        b.add("Expand", [x, b.ints(([b.choice(1, 2)] if b.chance(0.3) else []) + wanted)])
    else:
        parts = [size(b) for _ in range(b.random.randint(1, 3))]
        b.add("Expand", [x, b.add("Concat", parts, axis=0)])


@kind("Tile", weight=1.5)
def tile(b: Builder) -> None:
    x = b.pick((0, 4))
    if b.rank(x) and b.chance(0.3):
        parts = [size(b) if b.chance(0.5) else b.const([1]) for _ in b.shape(x)]
        b.add("Tile", [x, b.add("Concat", parts, axis=0)])
    else:
        b.add("Tile", [x, b.ints([b.choice(1, 1, 2, 3, 0) for _ in b.shape(x)])])


@kind("Concat", weight=6)
def concat(b: Builder) -> None:
    x = b.pick((1, 5), dtype=b.choice(FLOAT, FLOAT, FLOAT, INT))
    rank, axis, dtype = b.rank(x), b.axis(x), b.data[x].dtype
    rest = b.shape(x)

    def fits(a: np.ndarray) -> bool:
        return all(d == e for i, (d, e) in enumerate(zip(a.shape, rest)) if i != axis % rank)

    others = [b.pick(rank, dtype, fits) for _ in range(b.choice(1, 1, 2))]
    b.add("Concat", [x, *others], axis=axis)


@kind("Split", weight=3)
def split(b: Builder) -> None:
    x = b.pick((1, 5))
    axis = b.axis(x)
    d = b.shape(x)[axis]
    if b.opset >= 18 and b.chance(0.4):
        n = b.random.randint(1, 3)
        b.add("Split", [x], n, axis=axis, num_outputs=n)
    elif b.chance(0.4):
        b.add("Split", [x], b.choice(1, 2, 3), axis=axis)
    else:
        first = b.random.randint(0, d)
        if b.opset >= 13:
            b.add("Split", [x, b.ints([first, d - first])], 2, axis=axis)
        else:
            b.add("Split", [x], 2, axis=axis, split=[first, d - first])


@kind("Slice", weight=6)
def slices(b: Builder) -> None:
    x = b.pick((1, 5), dtype=b.choice(FLOAT, FLOAT, FLOAT, INT))
    rank = b.rank(x)
    axes = b.random.sample(range(rank), b.random.randint(1, min(2, rank)))
    steps = [b.choice(1, 1, 1, 2, 3, -1, -2) for _ in axes]

    def limit(start: bool, step: int) -> str:
        if b.chance(0.25):
            return size(b)
        far = (0, 0, 1, 2, -1, -2, -100) if start is (step > 0) else (1, 2, 3, -1, 100, LAST, -LAST, FIRST)
        return b.const([b.choice(*far)])

    def joined(parts: list[str]) -> str:
        return parts[0] if len(parts) == 1 else b.add("Concat", parts, axis=0)

    starts = joined([limit(True, s) for s in steps])
    ends = joined([limit(False, s) for s in steps])
    axes = [a - rank if b.chance(0.3) else a for a in axes]
    named = [b.const(axes), b.const(steps)] if b.chance(0.85) else []
    b.add("Slice", [x, starts, ends, *named])


@kind("Pad", weight=2.5)
def pad(b: Builder) -> None:
    x = b.pick((1, 4))
    rank = b.rank(x)
    mode = b.choice("constant", "constant", "reflect", "edge", "wrap" if b.opset >= 19 else "edge")
    if b.opset >= 18 and b.chance(0.3):
        axis = b.axis(x)
        b.add("Pad", [x, b.ints([b.choice(0, 1, 2, -1), b.choice(0, 1)]), "", b.const([axis])], mode=mode)
    elif b.opset >= 11:
        b.add("Pad", [x, b.ints([b.choice(0, 0, 1, 2, -1) for _ in range(2 * rank)])], mode=mode)


@kind("Trilu", weight=1)
def trilu(b: Builder) -> None:
    x = b.pick((2, 4))
    b.add("Trilu", [x, b.const(b.choice(0, 1, -1))], upper=b.choice(0, 1))


@kind("EyeLike", weight=0.6)
def eye_like(b: Builder) -> None:
    b.add("EyeLike", [b.pick(2)], k=b.choice(0, 1, -1))


@kind("CenterCropPad", weight=1)
def center_crop_pad(b: Builder) -> None:
    x = b.pick((1, 4))
    if b.chance(0.5):
        b.add("CenterCropPad", [x, b.ints([b.choice(1, 2, 3, 4) for _ in b.shape(x)])])
    else:
        b.add("CenterCropPad", [x, size(b)], axes=[b.axis(x)])


@kind("ReverseSequence", weight=1)
def reverse_sequence(b: Builder) -> None:
    x = b.pick((2, 4))
    time = b.choice(0, 1)
    lengths = [1] * b.shape(x)[1 - time]
    source = b.const(lengths)
    if b.chance(0.5):
        ones = b.size_at(x, 1 - time)
        source = b.add("Expand", [b.const([1]), ones])
    b.add("ReverseSequence", [x, source], time_axis=time, batch_axis=1 - time)


@kind("SpaceToDepth", "DepthToSpace", weight=2)
def blocks(b: Builder, name: str) -> None:
    x = b.pick(4)
    extra = {"mode": b.choice("DCR", "CRD")} if name == "DepthToSpace" else {}
    b.add(name, [x], blocksize=b.choice(1, 2, 2, 3), **extra)


@kind("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
      "ReduceLogSumExp", "ReduceSumSquare", weight=4)  # fmt: skip
def reduce(b: Builder, name: str) -> None:
    x = b.pick((0, 5))
    rank = b.rank(x)
    axes = b.random.sample(range(rank), b.random.randint(0, min(2, rank)))
    axes = [a - rank if b.chance(0.3) else a for a in axes]
    keep = {"keepdims": b.choice(0, 1)} if b.chance(0.7) else {}
    as_input = b.opset >= (13 if name == "ReduceSum" else 18)
    if not axes and b.chance(0.7):
        b.add(name, [x], **keep)
    elif as_input:
        noop = {"noop_with_empty_axes": b.choice(0, 1)} if b.chance(0.2) else {}
        b.add(name, [x, b.ints(axes)], **keep, **noop)
    else:
        b.add(name, [x], axes=axes, **keep)


@kind("ArgMax", "ArgMin", weight=1)
def arg(b: Builder, name: str) -> None:
    x = b.pick((1, 4))
    b.add(name, [x], axis=b.axis(x), keepdims=b.choice(0, 1))


@kind("Compress", weight=0.7)
def compress(b: Builder) -> None:
    x = b.pick((0, 3))
    try:
        picked = b.pick(1, BOOL)
    except Unfit:
        picked = b.const([b.choice(True, False) for _ in range(3)], bool)
    b.add("Compress", [x, picked], **({"axis": b.axis(x)} if b.rank(x) and b.chance(0.6) else {}))
