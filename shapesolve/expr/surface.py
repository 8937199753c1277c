"""Python interface of a dim: construction, use as an integer, and methods that are bound late.

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
    """The base of what dims are made of."""

    __slots__ = ()

    def __new__(cls, value: str | SupportsIndex) -> Self:
        """The dim of a text, a number or a dim."""
        if value is UNFILLED:
            return object.__new__(cls)
        made: Any = cls._made_of(value)
        return made  # type: ignore[no-any-return]

    @staticmethod
    def _made_of(value: Any) -> Any:
        """The dim of a value; `Dim` overrides it."""
        raise NotImplementedError

    def __setattr__(self, name: str, value: object) -> None:
        """Refuses to change a dim that is made; compiled code does not come by here."""
        if name not in _MEMOS and hasattr(self, "size"):
            raise AttributeError(f"a Dim is immutable: {name} cannot be set")
        super().__setattr__(name, value)

    def __index__(self) -> int:
        value: SupportsInt = self  # type: ignore[assignment]  # `Dim` says which
        return int(value)


def attach(cls: Any) -> None:
    """Let calls of the class go through `Surface.__new__`, which a compiled class does not inherit."""
    cls.__new__ = staticmethod(Surface.__new__)


class Offer(Protocol):
    """Methods of dims and conditions that are bound late: see `offer.Offered`, the only implementation."""

    def parsed(self, text: str) -> Any:
        """The dim that a text says."""

    def text(self, said: Any) -> str:
        """A dim or a condition in Python's syntax."""

    def simplified(self, dims: Iterable[Any], under: Any) -> list[Any]:
        """The dims in the form that is cheapest to read."""

    def z3(self, said: Any, ctx: Any) -> Any:
        """A dim or a condition as a term of Z3."""

    def sympy(self, dim: Any) -> Any:
        """A dim as an expression of SymPy."""

    def from_sympy(self, expr: Any) -> Any:
        """The dim of an expression of SymPy."""


#: set once, when the room is imported
offered: Offer
