"""`Shape`: a tuple of dims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, SupportsIndex, overload

from ..arguments import checked, checked_where_it_fails, wrong
from .canonical import broadcast, never_one
from .cond import Cond, any_of, eq
from .core import ZERO, Dim, IntoDim, as_dims, product
from .grammar import DimSyntaxError

if TYPE_CHECKING:
    from .cond import Under


#: types that Python iterates over where a list is expected
_NO_SHAPES = (str, bytes, Mapping)


class Shape(tuple[Dim, ...]):
    """The shape of a tensor: an immutable tuple of `Dim`.

    >>> Shape(["batch", Dim("seq") // 2, 256]).evaluate({"batch": 4, "seq": 128})
    [4, 64, 256]

    Items can be dims, ints, or strings. A shape equals tuples of these: `shape == ("batch", 4)`.
    """

    __slots__ = ()

    def __new__(cls, dims: Iterable[IntoDim | str] = ()) -> Shape:
        """The shape of these sizes."""
        if isinstance(dims, _NO_SHAPES) or not hasattr(dims, "__iter__"):
            raise wrong("a shape is a list of sizes", dims)
        return tuple.__new__(cls, as_dims(dims))

    @property
    def rank(self) -> int:
        """Number of dims."""
        return len(self)

    @property
    def numel(self) -> Dim:
        """Number of elements."""
        return product(self)

    @checked_where_it_fails
    def evaluate(self, bindings: Mapping[str, SupportsIndex]) -> list[int] | None:
        """Return the sizes as ints; None if a symbol is unbound."""
        sizes = [d.evaluate(bindings) for d in self]
        known = [s for s in sizes if s is not None]
        return known if len(known) == len(sizes) else None

    @checked
    def subs(self, bindings: Mapping[str, IntoDim]) -> Shape:
        """The shape with symbols replaced by dims or ints."""
        return Shape(d.subs(bindings) for d in self)

    @checked
    def simplify(self, under: Under = ()) -> Shape:
        """The shape with each dim in its cheapest equal form. It is equal at all sizes that satisfy `under` (see
        `Dim.simplify`).
        """
        from .offer import simplified

        dims = simplified(self, under)
        return self if all(a is b for a, b in zip(self, dims, strict=True)) else Shape(dims)

    def free_symbols(self) -> set[str]:
        """Names of all symbols in it."""
        return {name for d in self for name in d.free}

    @property
    def is_static(self) -> bool:
        """True if all sizes are known."""
        return not any(d.terms for d in self)

    @checked
    def with_dim(self, axis: int, dim: IntoDim) -> Shape:
        """The shape with one dim replaced."""
        dims: list[IntoDim | str] = list(self)
        dims[axis] = dim
        return Shape(dims)

    @overload
    def __getitem__(self, key: SupportsIndex) -> Dim: ...
    @overload
    def __getitem__(self, key: slice) -> Shape: ...
    def __getitem__(self, key: SupportsIndex | slice) -> Dim | Shape:
        if isinstance(key, slice):
            return tuple.__new__(Shape, tuple.__getitem__(self, key))
        return tuple.__getitem__(self, key)

    def __eq__(self, other: object) -> bool:
        if type(other) is tuple and len(other) == len(self) and any(isinstance(d, str) for d in other):
            try:
                return tuple.__eq__(self, Shape(other))
            except (DimSyntaxError, TypeError):
                return False
        return tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __add__(self, other: object) -> Shape:
        if not isinstance(other, tuple):
            return NotImplemented
        return tuple.__new__(Shape, (*self, *Shape(other)))

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self))}]"

    def __repr__(self) -> str:
        return f"Shape({self!s})"


def compatible(a: Dim, b: Dim) -> Cond:
    """Condition that two sizes broadcast: equal, or one of them 1."""
    return any_of((eq(a, b), eq(a, 1), eq(b, 1)))


def broadcast_dim(a: Dim, b: Dim) -> tuple[Dim, Cond]:
    """The broadcast size of two dims and the condition under which they broadcast (equal, or one is 1)."""
    if a is b:
        return a, eq(ZERO, 0)
    return broadcast(a, b), compatible(a, b)


def broadcast_shapes(*shapes: Shape | None) -> Shape | None:
    """Return the NumPy-style broadcast of shapes; None if a rank is unknown or they cannot broadcast.

    Two sizes that may be equal or 1 give `broadcast(a, b)`, never `max`.
    """
    if not shapes or any(s is None for s in shapes):
        return None
    known = [Shape(s) for s in shapes if s is not None]
    rank = max(map(len, known))
    out = [Dim(1)] * rank
    for s in known:
        for i, d in enumerate(s, rank - len(s)):
            out[i], legal = broadcast_dim(out[i], d)
            if legal.is_false:
                return None
    return Shape(out)


__all__ = ["Shape", "broadcast_dim", "broadcast_shapes", "never_one"]
