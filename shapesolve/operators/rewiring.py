"""Lowers operators by the rule of another one, with inputs reordered or in another layout.

``QLinearConv`` is a ``Conv`` of its inputs 0 and 3; ``NhwcMaxPool`` a ``MaxPool`` whose channels come last.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq

from ..expr import Shape
from ..lower.op import InvalidNode, Op
from ..lower.records import Outputs, Place
from ..lower.types import Known, Map, Optional, Sequence, Tensor

#: the axes of an operand in a new order, by its position among the inputs
Orders = Mapping[int, tuple[int, ...]]


def lower_as(
    op: Op, op_type: str, version: int, inputs: Seq[int], orders: Orders | None = None
) -> list[Known | None]:
    """Lower a node by the rule of a standard operator, with these inputs and axis orders.

    The rule's requirements are expressed in terms of `op` itself.
    """
    rule = op.walk.request.rules.lookup("", op_type, version)
    if rule is None:
        return [None] * op.n_out
    orders = orders or {}
    operands = tuple(reordered(op, i, orders[i]) if i in orders else op.known(i) for i in inputs)
    view = Op(op.walk, op.node, operands, version, op.attrs)
    view.names = tuple(op.names[i] if i < len(op.names) else "" for i in inputs)
    found = as_list(rule.lower(view))

    def original(place: Place) -> Place:
        i, axis = place
        i = inputs[i]
        return i, orders[i][axis] if i in orders and axis is not None else axis

    for cond, why, places in view.requirements:
        op.require(cond, why, *map(original, places))
    for a, b, places in view.ambiguous:
        op.ambiguous.append((a, b, tuple(map(original, places))))
    op.pure = op.pure and view.pure
    return (
        found
        if op.rule is None or op.rule.types is None
        else [_retyped(op, i, k) for i, k in enumerate(found)]
    )


def _retyped(op: Op, i: int, known: Known | None) -> Known | None:
    """Return the output with the element type that the node's own operator declares."""
    if not isinstance(known, Tensor):
        return known
    return op.walk.interner.tensor(op.output_dtype(i), known.shape, known.value)


def lower_channels_last(
    op: Op, op_type: str, version: int, inputs: Seq[int], moved: Seq[int] = (0,), rank: int | None = None
) -> list[Known | None]:
    """`lower_as` for tensors with channels in the last axis instead of axis 1."""
    orders = {}
    for i in moved:
        shape = op.shape(i, rank)
        if shape is None:
            if op.has(i):
                return [None] * op.n_out
            continue
        if len(shape) < 2:
            raise InvalidNode(f"input {op.name_of(i)} must have a batch and a channel axis, got {shape}")
        orders[i] = (0, len(shape) - 1, *range(1, len(shape) - 1))
    return [channels_to_end(op, known) for known in lower_as(op, op_type, version, inputs, orders)]


def reordered(op: Op, i: int, order: tuple[int, ...]) -> Tensor:
    """Input `i` with its axes permuted."""
    shape = op.shape(i)
    return op.out(Shape(shape[k] for k in order) if shape is not None else None, op.dtype(i))


def channels_to_end(op: Op, known: Known | None) -> Known | None:
    """An output with its axis 1 moved to the end."""
    if not isinstance(known, Tensor) or known.shape is None or len(known.shape) < 2:
        return known
    batch, channels, *spatial = known.shape
    return op.out([batch, *spatial, channels], known.dtype)


def as_list(found: Outputs) -> list[Known | None]:
    """Return the outputs that a rule returned, as a list."""
    if found is None or isinstance(found, Tensor | Sequence | Optional | Map):
        return [found]
    return list(found)
