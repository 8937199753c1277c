"""Ranks that later nodes need, and what several operators need of their operands."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Seq

from ..expr import Dim, constant, eq
from ..model.types import type_name
from .limits import MAX_BROADCAST
from .op import InvalidNode, Op
from .records import Place


def axes(n: int | None) -> str:
    """Return a number of axes in words."""
    return "one axis" if n == 1 else f"{n} axes"


def rank_need(op: Op, i: int) -> str:
    """Return a reason in words: later nodes require this rank of output `i`."""
    return f"later nodes need {op.node.outputs[i]} with {axes(op.needed_rank(i))}"


def rank_made(op: Op, made: Dim, *places: Place) -> int | None:
    """Return the rank of the first output: `made` if constant, else the rank that later nodes need, as requirement."""
    if made.value is not None:
        return made.const
    op.pure = False
    lo, hi = made.bounds()
    few = lo is not None and hi is not None and hi - lo < MAX_BROADCAST
    needed = op.needed_rank(0, range(max(lo, 0), hi + 1) if few and lo is not None and hi is not None else ())
    if needed is not None:
        op.require(eq(made, needed), rank_need(op, 0), *places)
    return needed


def need_inside(op: Op, prefix: str, outputs: Seq[str]) -> None:
    """Pass the ranks that later nodes require of a node's outputs to the inner tensors that produce these."""
    walk = op.walk
    for i, name in enumerate(outputs):
        rank, full = op.needed_rank(i), prefix + name
        if rank is None or walk.state.trials or full in walk.state.hints:
            continue
        shape = op.fresh_shape(rank, f"a dim of {name}")
        if shape is not None:
            walk.state.hints[full] = shape


def vector(op: Op, i: int) -> Dim | None:
    """Return the number of elements of input `i`, a vector; onnxruntime accepts a tensor of any rank instead."""
    shape = op.shape(i)
    if shape is None or not op.as_onnxruntime("any-rank"):
        shape = op.shape(i, 1)
    return None if shape is None else shape.numel


def one_type(op: Op, *inputs: int) -> None:
    """Require that these inputs have the same element type."""
    found = {op.dtype(i): i for i in reversed(inputs) if op.dtype(i)}
    if len(found) > 1:
        kinds = " and ".join(f"{type_name(kind)} ({op.name_of(i)})" for kind, i in reversed(found.items()))
        raise InvalidNode(f"inputs must have the same element type, got {kinds}")


def const_dims(values: Iterable[int]) -> tuple[Dim, ...]:
    """Ints as dims."""
    return tuple(constant(v) for v in values)
