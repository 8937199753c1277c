"""`cached_property` without a lock: computed at first use, then an attribute of the instance.

On Python 3.11, `functools.cached_property` holds one lock per class while it computes: a slow model in one thread
would stop every other thread, and a process forked meanwhile would inherit the held lock. Without the lock,
concurrent threads may compute the same value twice; the first one stored is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property:  # noqa: N801  # same name as functools' class
        """Property that is computed once per instance and kept in its ``__dict__``."""

        def __init__(self, function: Callable[[Any], Any]) -> None:
            self.function = function
            self.__doc__ = function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            return instance.__dict__.setdefault(self.name, self.function(instance))


__all__ = ["cached_property"]
