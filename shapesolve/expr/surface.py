"""What Python sees of a dim: how one is made, and that it stands where an integer is asked for.

Not compiled: a compiled class can neither return an object that exists already nor say that it is an integer.
"""

from __future__ import annotations

from typing import Any, Self, SupportsIndex, SupportsInt

#: instead of a value: an object that `make_dim` then fills
UNFILLED: Any = object()


class Surface:
    """The base of `Dim`."""

    __slots__ = ()

    def __new__(cls, value: str | SupportsIndex) -> Self:
        """The dim of a text, a number or a dim."""
        if value is UNFILLED:
            return object.__new__(cls)
        from .core import as_dim

        made: Any = as_dim(value)
        return made  # type: ignore[no-any-return]

    def __index__(self) -> int:
        value: SupportsInt = self  # type: ignore[assignment]  # `Dim` says which
        return int(value)


def attach(cls: Any) -> None:
    """Let calls of the class go through `Surface.__new__`, which a compiled class does not inherit."""
    cls.__new__ = staticmethod(Surface.__new__)
