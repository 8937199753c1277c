"""`At`: a node with its surroundings as a rule of `simplify` sees it, and the edits a rule returns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from numpy.typing import NDArray

from ...expr import Dim
from ...lazy import cached_property
from ..draft import DraftNode, as_array
from .knowledge import Dims, Knowledge


class Use(NamedTuple):
    """Edit: the existing tensor `name` replaces the node's first output."""

    name: str


class Store(NamedTuple):
    """Edit: a constant with this array replaces the node's first output."""

    array: NDArray[Any]


class Become(NamedTuple):
    """Edit: the node gets another operator or other inputs, and keeps its outputs.

    Attributes stay where the operator does, but for those given here (None: left out).
    """

    op_type: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, Any] = MappingProxyType({})


Change = Use | Store | Become


class Looked:
    """Tensors and nodes that rules read when they looked at a node, so that a retry can be skipped.

    Until these change, the rules' results are the same.

    Attributes:
        makers: nodes that make what it reads.
        reads: how many read a tensor.
    """

    __slots__ = ("makers", "reads")

    def __init__(self) -> None:
        self.makers: list[DraftNode] = []
        self.reads: dict[str, int] = {}


class At:
    """A node with the known facts and producers around it. Reads by rules are recorded in `looked`."""

    def __init__(
        self,
        node: DraftNode,
        known: Knowledge,
        producers: Mapping[str, DraftNode],
        reads: Mapping[str, int],
        looked: Looked,
    ) -> None:
        self.node, self.known, self.producers, self.reads, self.looked = node, known, producers, reads, looked

    def has(self, i: int) -> bool:
        """True if input `i` is given."""
        return i < len(self.node.inputs) and bool(self.node.inputs[i])

    def input(self, i: int) -> str:
        """The name of input `i`, '' if it is omitted."""
        return self.node.inputs[i] if i < len(self.node.inputs) else ""

    def shape(self, i: int) -> Dims | None:
        """The shape of input `i`."""
        return self.known.shape(self.input(i)) if self.has(i) else None

    @cached_property
    def out(self) -> Dims | None:
        """The shape of the first output."""
        return self.known.shape(self.node.outputs[0])

    @property
    def opset(self) -> int:
        """Version of the standard operators here."""
        return self.known.opset

    def ints(self, i: int) -> tuple[int, ...] | None:
        """The data of input `i`, a small constant of integers."""
        return self.known.ints(self.input(i))

    def parameter(self, name: str, i: int) -> tuple[int, ...] | None:
        """Integers stored in an attribute in older versions of the operator and in an input in newer ones."""
        value = self.node.attribute(name)
        if isinstance(value, tuple) and all(isinstance(v, int) for v in value):
            return value
        return self.ints(i)

    def producer(self, i: int, *op_types: str) -> At | None:
        """The standard node of one of these kinds that makes input `i`, in the same graph."""
        made = self.producers.get(self.input(i))
        if made is not None:
            self.looked.makers.append(made)
        if made is None or not made.is_standard(*op_types) or made.outputs[0] != self.input(i):
            return None
        return At(made, self.known, self.producers, self.reads, self.looked)

    def read_once(self, i: int) -> bool:
        """True if only this node reads input `i`."""
        return self._count(self.input(i)) == 1

    def is_read(self, name: str) -> bool:
        """True if the tensor has a reader."""
        return self._count(name) > 0

    def _count(self, name: str) -> int:
        count = self.looked.reads[name] = self.reads.get(name, 0)
        return count

    def store(self, values: Iterable[int], hint: str) -> str:
        """Adds a constant int64 vector and returns its name."""
        return self.known.constant(as_array([*values]), hint)


def same(a: Dims | None, b: Dims | None) -> bool:
    """True if both shapes are known and equal, dim for dim."""
    return a is not None and b is not None and len(a) == len(b) and all(x is y for x, y in zip(a, b))


def numbers(dims: Sequence[Dim]) -> tuple[int, ...] | None:
    """The sizes if all are numbers, else None."""
    found = tuple([d.const for d in dims if not d.terms])
    return found if len(found) == len(dims) else None
