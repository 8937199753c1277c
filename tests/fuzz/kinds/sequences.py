"""Sequences of tensors."""

from __future__ import annotations

import numpy as np

from ..builder import Builder
from .registry import kind


@kind("SequenceConstruct", since=11, weight=1.5)
def construct(b: Builder) -> None:
    x = b.pick((1, 3))
    others = [b.pick(b.rank(x)) if b.chance(0.5) else x for _ in range(b.random.randrange(3))]
    b.add("SequenceConstruct", [x, *others])


@kind("SplitToSequence", since=11, weight=1.5)
def split_to_sequence(b: Builder) -> None:
    x = b.pick((1, 4))
    axis = b.axis(x)
    d = b.shape(x)[axis]
    draw = b.random.random()
    if draw < 0.4:
        b.add("SplitToSequence", [x], axis=axis, keepdims=b.choice(0, 1))
    elif draw < 0.7:
        b.add("SplitToSequence", [x, b.const(b.choice(1, 2))], axis=axis)
    else:
        first = b.random.randint(0, d)
        b.add("SplitToSequence", [x, b.const([first, d - first])], axis=axis)


@kind("SequenceInsert", since=11, weight=0.8)
def insert(b: Builder) -> None:
    b.add("SequenceInsert", [b.pick_sequence(), b.pick((1, 3)), *([b.const(0)] if b.chance(0.5) else [])])


@kind("SequenceErase", since=11, weight=0.6)
def erase(b: Builder) -> None:
    b.add("SequenceErase", [b.pick_sequence(), *([b.const(b.choice(0, -1))] if b.chance(0.5) else [])])


@kind("SequenceAt", since=11, weight=2)
def at(b: Builder) -> None:
    b.add("SequenceAt", [b.pick_sequence(), b.const(b.choice(0, 0, 1, -1))])


@kind("SequenceLength", since=11, weight=0.8)
def length(b: Builder) -> None:
    b.add("SequenceLength", [b.pick_sequence()])


@kind("SequenceEmpty", since=11, weight=0.3)
def empty(b: Builder) -> None:
    b.add("SequenceInsert", [b.add("SequenceEmpty", []), b.pick((1, 3))])


@kind("ConcatFromSequence", since=11, weight=2)
def join(b: Builder) -> None:
    new = b.chance(0.3)
    b.add("ConcatFromSequence", [b.pick_sequence()], axis=b.choice(0, 0, 1, -1), new_axis=int(new))


@kind("Optional", since=15, weight=0.4)
def optional(b: Builder) -> None:
    x = b.pick((1, 3))
    if b.opset >= 18:
        b.add("OptionalGetElement", [x])
        b.add("OptionalHasElement", [x])


@kind("StringNormalizer", since=10, weight=0.1)
def strings(b: Builder) -> None:
    words = b.const(np.array(["a", "b", "c"], dtype=object), object)
    b.add("StringNormalizer", [words], stopwords=["a"], is_case_sensitive=1)
