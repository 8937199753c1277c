"""What Python sees of a dim: how one is made, and that it stands where an integer is asked for.

Not compiled: a compiled class can neither return an object that exists already nor say that it is an integer.
"""

from __future__ import annotations

from typing import Any, Self, SupportsInt

#: instead of a value: an object that `make_dim` then fills
UNFILLED: Any = object()


class Surface:
    """The base of `Dim`."""

    __slots__ = ()

    def __new__(cls, value: str | SupportsInt) -> Self:
        """The dim of a text, a number or a dim."""
        made: Any
        if value is UNFILLED:
            made = object.__new__(cls)
        elif isinstance(value, cls):
            made = value
        elif isinstance(value, str):
            from .parse import parse_dim

            made = parse_dim(value)
        else:
            from .core import constant

            made = constant(int(value))
        return made  # type: ignore[no-any-return]

    def __int__(self) -> int:
        raise NotImplementedError

    def __index__(self) -> int:
        return self.__int__()


def attach(cls: Any) -> None:
    """Let calls of the class go through `Surface.__new__`, which a compiled class does not inherit."""
    cls.__new__ = staticmethod(Surface.__new__)
