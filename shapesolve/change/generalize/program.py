"""Rules that compute a tensor from sizes: run in numpy for checks, or written as nodes.

A rule is a function of a `Numbers`. What it computes at the sizes of an export has to be the stored tensor, element by element;
what it writes with `Nodes` goes into the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from ...expr import Dim
from ..refused import Refused
from ..size_nodes import SizeNodes

Array: TypeAlias = NDArray[Any]
#: opsets since which operators are there in the form that is used
_SINCE = {"Range": 11, "Where": 9, "Less": 9, "Greater": 9, "Expand": 8, "Slice": 10, "Equal": 7, "Cast": 6}


class Numbers:
    """Runs a rule with numpy; its methods are the steps that a rule can use.

    Args:
        sizes: Sizes of all symbols.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = sizes

    def vector(self, dims: Seq[Dim]) -> Any:
        """These sizes as an int64 vector."""
        return np.array([d.evaluate(self._sizes) for d in dims], np.int64)

    def scalar(self, dim: Dim) -> Any:
        """A size as an int64 scalar."""
        return np.array(dim.evaluate(self._sizes), np.int64)

    def constant(self, array: Array) -> Any:
        """A stored tensor as operand of further steps."""
        return array

    def op(self, op_type: str, *operands: Any, **attributes: int) -> Any:
        """Applies a standard operator to operands."""
        return _RUN[op_type](*operands, **attributes)

    def guarded(self, x: Any) -> Any:
        """Marks a node that checks a requirement at run time, so that simplification keeps it."""
        return x

    # ------------------------------------------------------------------ words

    def places(self, size: Dim, axis: int, rank: int) -> Any:
        """Return the indices from 0 to ``size - 1`` along one axis of an int64 tensor of this rank."""
        first, step = (self.constant(np.array(n, np.int64)) for n in (0, 1))
        made = self.op("Range", first, self.scalar(size), step)
        shape = np.array([-1 if k == axis else 1 for k in range(rank)], np.int64)
        return made if rank == 1 else self.op("Reshape", made, self.constant(shape))

    def cut(self, x: Any, starts: Seq[Dim], sizes: Mapping[int, Dim], whole: Seq[Dim]) -> Any:
        """Slice from `starts` with `sizes` along some axes. `whole` is the required shape of the result."""
        axes = self.constant(np.array([*sizes], np.int64))
        ends = self.vector([start + size for start, size in zip(starts, sizes.values(), strict=True)])
        made = self.op("Slice", x, self.vector(starts), ends, axes)
        return self.guarded(self.op("Reshape", made, self.vector(whole)))


Rule: TypeAlias = Callable[[Numbers], Any]


class Nodes(Numbers):
    """Writes the steps of a rule as nodes at the start of a graph.

    Args:
        sizes: writes sizes there.
        settled: what generated symbols turned out to be.
    """

    def __init__(self, sizes: SizeNodes, settled: Mapping[str, Dim]) -> None:
        self.sizes, self.settled = sizes, settled
        self.guards: list[str] = []

    def vector(self, dims: Seq[Dim]) -> str:
        """See `Numbers.vector`."""
        return self.sizes.vector([d.subs(self.settled) for d in dims], "sizes")

    def scalar(self, dim: Dim) -> str:
        """See `Numbers.scalar`."""
        return self.sizes.scalar(dim.subs(self.settled), "size")

    def constant(self, array: Array) -> str:
        """See `Numbers.constant`."""
        return self.sizes.draft.graph.constant(array, "stored")

    def op(self, op_type: str, *operands: Any, **attributes: int) -> str:
        """See `Numbers.op`."""
        if self.sizes.opset < _SINCE.get(op_type, 1):
            raise Refused(
                f"the new model uses {op_type}, which opset {self.sizes.opset} does not have: export with a later one"
            )
        return self.sizes.node(op_type, [*operands], 1, op_type.lower(), **attributes)

    def guarded(self, x: str) -> str:
        """See `Numbers.guarded`."""
        self.guards.append(x)
        return x


def _slice(x: Array, starts: Array, ends: Array, axes: Array) -> Array:
    at = [slice(None)] * x.ndim
    for start, end, axis in zip(starts.tolist(), ends.tolist(), axes.tolist(), strict=True):
        at[axis] = slice(start, end)
    return x[tuple(at)]


_RUN: dict[str, Callable[..., Array]] = {
    "Range": lambda a, b, c: np.arange(int(a), int(b), int(c), dtype=np.int64),
    "Reshape": lambda x, shape: x.reshape(shape.tolist()),
    "Expand": lambda x, shape: np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape))),
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.floor_divide,
    "Less": np.less, "Greater": np.greater, "Equal": np.equal, "And": np.logical_and, "Not": np.logical_not,
    "Where": np.where, "Slice": _slice,
    "Cast": lambda x, to: x.astype(helper.tensor_dtype_to_np_dtype(to)),
    "Concat": lambda *xs, axis: np.concatenate(xs, axis=axis),
}  # fmt: skip
