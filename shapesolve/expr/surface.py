"""`Surface`: base class of `Dim` for construction and immutability; methods bound late.

Not compiled: a compiled class can neither return an object that exists already nor say that it is an integer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, Self, SupportsIndex, SupportsInt

#: instead of a value: an object that `make_dim` then fills
UNFILLED: Any = object()
#: attributes of a dim that are computed at first use
_MEMOS = frozenset(("bounds_memo", "_text", "_order"))


class Surface:
    """Base class of dims: construction and immutability."""

    __slots__ = ()

    def __new__(cls, value: str | SupportsIndex) -> Self:
        """Converts a text, number or dim to a dim."""
        if value is UNFILLED:
            return object.__new__(cls)
        made: Any = cls._made_of(value)
        return made  # type: ignore[no-any-return]

    @staticmethod
    def _made_of(value: Any) -> Any:
        raise NotImplementedError

    def __setattr__(self, name: str, value: object) -> None:
        """Raises an error: dims are immutable."""
        if name not in _MEMOS and hasattr(self, "size"):
            raise AttributeError(f"a Dim is immutable: {name} cannot be set")
        super().__setattr__(name, value)

    def __index__(self) -> int:
        value: SupportsInt = self  # type: ignore[assignment]  # `Dim` says which
        return int(value)


def attach(cls: Any) -> None:
    """Sets `Surface.__new__` as the constructor of a class, which compiled classes do not inherit."""
    cls.__new__ = staticmethod(Surface.__new__)


class Offer(Protocol):
    """Methods of dims and conditions that are bound late: see `offer.Offered`, the only implementation."""

    def parsed(self, text: str) -> Any:
        """Parses a dim."""

    def text(self, expression: Any) -> str:
        """Prints a dim or condition in Python syntax."""

    def simplified(self, dims: Iterable[Any], under: Any) -> list[Any]:
        """Simplifies dims."""

    def z3(self, expression: Any, ctx: Any) -> Any:
        """Converts a dim or condition to a Z3 term."""

    def sympy(self, dim: Any) -> Any:
        """Converts a dim to a SymPy expression."""

    def from_sympy(self, expr: Any) -> Any:
        """Converts a SymPy expression to a dim."""


#: set once, when the package is imported
offered: Offer
