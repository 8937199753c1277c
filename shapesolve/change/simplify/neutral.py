"""Rules of `simplify` that drop nodes whose output always equals one of their inputs."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
from onnx import TensorProto

from .site import At, Become, Change, Use, same

#: element types by how they nest: each holds every value of those to the left in its row exactly
_WIDER = (
    "BOOL INT8 INT16 INT32 INT64", "BOOL UINT8 UINT16 UINT32 UINT64", "BOOL UINT8 INT16 INT32 INT64",
    "BOOL UINT8 UINT16 INT32 INT64", "BOOL UINT8 UINT16 UINT32 INT64", "BOOL FLOAT16 FLOAT DOUBLE",
    "BOOL BFLOAT16 FLOAT DOUBLE", "INT8 FLOAT16", "UINT8 FLOAT16", "INT8 INT16 FLOAT", "UINT8 UINT16 FLOAT",
    "INT16 FLOAT DOUBLE", "UINT16 FLOAT", "INT32 DOUBLE", "UINT32 DOUBLE",
)  # fmt: skip
_EXACT = frozenset(
    tuple(map(TensorProto.DataType.Value, pair))
    for row in _WIDER
    for pair in combinations_with_replacement(row.split(), 2)
)
_FLOATS = frozenset((1, 10, 11, 16))


def first_input(site: At) -> Change | None:
    """Replacement of a node of one input and one output by that input (Identity, Concat of one); or None."""
    node = site.node
    given = node.inputs[:1] if node.op_type == "Split" else node.inputs
    return Use(given[0]) if len(given) == len(node.outputs) == 1 and given[0] else None


def drops_nothing(site: At) -> Change | None:
    """Drops a Dropout that is not in training mode."""
    node = site.node
    if any(name and site.is_read(name) for name in node.outputs[1:]) or site.opset < 7:
        return None
    if site.opset >= 12 and site.has(2):
        training = site.known.array(site.input(2))
        if training is None or training.any():
            return None
    return Use(node.inputs[0])


def casts_nothing(site: At) -> Change | None:
    """Drops a Cast to the element type that its input has."""
    to = site.node.attribute("to")
    return Use(site.input(0)) if to and site.known.dtype(site.input(0)) == to else None


def cast_of_cast(site: At) -> Change | None:
    """Merges two Casts if the type between them holds every value of the first type."""
    inner, to = site.producer(0, "Cast"), site.node.attribute("to")
    if inner is None or not isinstance(to, int):
        return None
    first, middle = site.known.dtype(inner.input(0)), inner.node.attribute("to")
    if (first, middle) not in _EXACT or (first in _FLOATS and to not in _FLOATS):
        return None
    return Use(inner.input(0)) if first == to else Become("Cast", (inner.input(0),))


def done_already(site: At) -> Change | None:
    """Drops a node applied to the output of the same idempotent operator (Relu of Relu)."""
    return Use(site.input(0)) if site.producer(0, site.node.op_type) else None


def repeats_nothing(site: At) -> Change | None:
    """Drops a Tile with repeats of 1."""
    repeats = site.known.sizes(site.input(1))
    return Use(site.input(0)) if repeats is not None and all(r == 1 for r in repeats) else None


def slices_nothing(site: At) -> Change | None:
    """Drops a Slice with positive steps that keeps every size."""
    if not same(site.shape(0), site.out):
        return None
    if site.opset >= 10 and site.has(4):
        steps = site.ints(4)
        if steps is None or set(steps) - {1}:
            return None
    return Use(site.input(0))


def pads_nothing(site: At) -> Change | None:
    """Drops a Pad by zeros."""
    pads = site.parameter("pads", 1)
    return Use(site.input(0)) if pads is not None and not any(pads) else None


def chosen_beforehand(site: At) -> Change | None:
    """Replaces a Where with a constant condition by the operand it selects."""
    cond = site.known.array(site.input(0))
    if cond is None or not cond.size or cond.all() != cond.any():
        return None
    i = 1 if cond.all() else 2
    return Use(site.input(i)) if same(site.shape(i), site.out) else None


#: by operator: the operand that changes nothing, and may it stand on the left as well?
_NEUTRAL = {
    "Mul": (1, True), "Div": (1, False), "Sub": (0, False), "Add": (0, True), "And": (1, True), "Or": (0, True),
}  # fmt: skip


def leaves_as_is(site: At) -> Change | None:
    """Drops an operation with a neutral operand (x * 1; x + 0 of integers only, as it turns -0 into 0)."""
    op_type = site.node.op_type
    neutral, either_side = _NEUTRAL[op_type]
    for i in (1, 0) if either_side else (1,):
        array = site.known.array(site.input(i))
        if array is None or not array.size or not (array == neutral).all():
            continue
        if array.dtype.kind == "f" and neutral == 0 and (op_type == "Add" or np.signbit(array).any()):
            continue
        if same(site.shape(1 - i), site.out):
            return Use(site.input(1 - i))
    return None
