"""Ranks that sizes decide, and that later nodes need: what leads to them is required."""

from __future__ import annotations

from collections.abc import Sequence as Seq

from ..expr import Dim, eq
from .limits import MAX_BROADCAST
from .op import Op
from .records import Place


def axes(n: int | None) -> str:
    """A number of axes, in words."""
    return "one axis" if n == 1 else f"{n} axes"


def rank_need(op: Op, i: int) -> str:
    """The reason of what is required because later nodes need a rank of output `i`."""
    return f"later nodes need {op.node.outputs[i]} with {axes(op.needed_rank(i))}"


def rank_made(op: Op, made: Dim, *places: Place) -> int | None:
    """Rank of the first output: `made` if it is one number, else what later nodes need. That is then required."""
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
    """Passes ranks that later nodes need of this node's outputs on to the tensors behind them in a scope."""
    walk = op.walk
    for i, name in enumerate(outputs):
        rank, full = op.needed_rank(i), prefix + name
        if rank is None or walk.state.trials or full in walk.state.hints:
            continue
        shape = op.fresh_shape(rank, f"a dim of {name}")
        if shape is not None:
            walk.state.hints[full] = shape
