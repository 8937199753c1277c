"""Small programs that compute a tensor from sizes, run in numpy for checks and written as nodes.

A rule is a function of a `Builder`. What it builds with `Numbers` at the sizes of an export has to be the stored tensor,
element by element; what it builds with `Nodes` goes into the model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from ..change.refused import Refused
from ..expr import Dim
from .sizes import Sizes

Array: TypeAlias = NDArray[Any]
#: opsets since which operators are there in the form that is used
_SINCE = {
    "Range": 11, "Where": 9, "Less": 9, "Greater": 9, "Expand": 8, "Slice": 10, "Equal": 7, "Not": 1, "Cast": 6,
}  # fmt: skip


class Builder(ABC):
    """Interface for writing a rule: sizes, constants, and standard operators."""

    @abstractmethod
    def vector(self, dims: Seq[Dim]) -> Any:
        """These sizes as int64[n]."""

    @abstractmethod
    def scalar(self, dim: Dim) -> Any:
        """A size as an int64 scalar."""

    @abstractmethod
    def constant(self, array: Array) -> Any:
        """A stored tensor."""

    @abstractmethod
    def op(self, op_type: str, *operands: Any, **attributes: int) -> Any:
        """The output of a node."""

    # ------------------------------------------------------------------ words

    def numbers(self, size: Dim, axis: int, rank: int) -> Any:
        """``0, 1, .. size-1`` along one axis of an int64 tensor of this rank."""
        ends = [self.constant(np.array(n, np.int64)) for n in (0, 1)]
        made = self.op("Range", ends[0], self.scalar(size), ends[1])
        shape = np.array([-1 if k == axis else 1 for k in range(rank)], np.int64)
        return made if rank == 1 else self.op("Reshape", made, self.constant(shape))

    def cut(self, x: Any, starts: Seq[Dim], sizes: Mapping[int, Dim], whole: Seq[Dim]) -> Any:
        """Slices of these sizes along some axes, from these starts. `whole` is the required shape of the result."""
        axes = self.constant(np.array([*sizes], np.int64))
        ends = self.vector([start + size for start, size in zip(starts, sizes.values(), strict=True)])
        made = self.op("Slice", x, self.vector(starts), ends, axes)
        return self.guarded(self.op("Reshape", made, self.vector(whole)))

    def guarded(self, x: Any) -> Any:
        """The output of a node that asks for what has to be there."""
        return x


Rule: TypeAlias = Callable[[Builder], Any]


class Numbers(Builder):
    """Runs a rule with numpy, at some sizes."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes

    def _at(self, dim: Dim) -> int:
        found = dim.evaluate(self.sizes)
        assert found is not None
        return int(found)

    def vector(self, dims: Seq[Dim]) -> Array:
        """See `Builder`."""
        return np.array([self._at(d) for d in dims], np.int64)

    def scalar(self, dim: Dim) -> Array:
        """See `Builder`."""
        return np.array(self._at(dim), np.int64)

    def constant(self, array: Array) -> Array:
        """See `Builder`."""
        return array

    def op(self, op_type: str, *operands: Any, **attributes: int) -> Any:
        """See `Builder`."""
        return _RUN[op_type](*operands, **attributes)


class Nodes(Builder):
    """Writes a rule as nodes at the start of a graph.

    Args:
        sizes: writes sizes there.
        settled: what generated symbols turned out to be.
    """

    def __init__(self, sizes: Sizes, settled: Mapping[str, Dim]) -> None:
        self.sizes, self.settled = sizes, settled
        #: outputs of nodes that ask for what has to be there: no simplification may drop them
        self.guards: list[str] = []

    def guarded(self, x: str) -> str:
        """See `Builder`."""
        self.guards.append(x)
        return x

    def vector(self, dims: Seq[Dim]) -> str:
        """See `Builder`."""
        return self.sizes.vector([d.subs(self.settled) for d in dims], "sizes")

    def scalar(self, dim: Dim) -> str:
        """See `Builder`."""
        return self.sizes.scalar(dim.subs(self.settled), "size")

    def constant(self, array: Array) -> str:
        """See `Builder`."""
        return self.sizes.draft.graph.constant(array, "stored")

    def op(self, op_type: str, *operands: Any, **attributes: int) -> str:
        """See `Builder`."""
        if self.sizes.opset < _SINCE.get(op_type, 1):
            raise Refused(
                f"{op_type} is needed, which opset {self.sizes.opset} does not have: export with a later one"
            )
        return self.sizes.node(op_type, [*operands], 1, op_type.lower(), **attributes)


def _cast(x: Array, to: int) -> Array:
    return x.astype(helper.tensor_dtype_to_np_dtype(to))


def _slice(x: Array, starts: Array, ends: Array, axes: Array) -> Array:
    at = [slice(None)] * x.ndim
    for start, end, axis in zip(starts.tolist(), ends.tolist(), axes.tolist(), strict=True):
        at[axis] = slice(start, end)
    return x[tuple(at)]


def _div(x: Array, y: Array) -> Array:
    return np.trunc(x / y).astype(x.dtype) if x.dtype.kind in "iu" else x / y


_RUN: dict[str, Callable[..., Array]] = {
    "Range": lambda a, b, c: np.arange(int(a), int(b), int(c), dtype=np.int64),
    "Reshape": lambda x, shape: x.reshape(shape.tolist()),
    "Expand": lambda x, shape: x * np.ones(shape, x.dtype) if x.dtype.kind not in "b" else x & np.ones(shape, bool),
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": _div,
    "Less": np.less, "Greater": np.greater, "Equal": np.equal, "And": np.logical_and, "Not": np.logical_not,
    "Where": np.where, "Cast": _cast, "Slice": _slice,
    "Concat": lambda *xs, axis: np.concatenate(xs, axis=axis),
}  # fmt: skip

__all__ = ["Array", "Builder", "Nodes", "Numbers", "Rule"]
