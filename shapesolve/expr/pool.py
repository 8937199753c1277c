# compiled: see CONTRIBUTING.md
"""Hash-consing: keeps one object per content while it is referenced.

A weak reference to each object, with a callback that clears its entry, would cost more than making the object. So a pool
holds what it made, and drops what only it still holds when it has doubled. CPython's reference counts say which that is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from sys import getrefcount
from typing import Any

from .limits import MIN_DROPPED

#: held to make an object, so that two threads do not make it twice
LOCK = threading.RLock()


class Pool:
    """Pool of interned objects, by content.

    Lookups in `recent` need no lock. Objects are evicted only from `settled`, and only while holding `LOCK`, so no
    other thread can be
    about to return one.
    """

    __slots__ = ("limit", "make", "recent", "settled")

    def __init__(self, make: Callable[..., Any]) -> None:
        """A pool whose objects `make` builds from the parts of a key."""
        self.make = make
        self.recent: dict[Any, Any] = {}
        self.settled: dict[Any, Any] = {}
        self.limit = MIN_DROPPED
        _POOLS.append(self)

    def take(self, key: Any) -> Any:
        """Returns the interned object of this content, built if there is none."""
        with LOCK:
            found = self.recent.get(key)
            if found is None:
                found = self.settled.pop(key, None)
                if found is None:
                    found = self.make(*key)
                self.recent[key] = found
                if len(self.recent) > self.limit:
                    drop_unused()
            return found


_POOLS: list[Pool] = []


def drop_unused() -> None:
    """Drop from all pools the objects without other references."""
    with LOCK:
        for pool in _POOLS:
            pool.settled.update(pool.recent)
            pool.recent.clear()
        for _ in range(8):  # an evicted object may have kept others alive
            if not sum([_drop(pool.settled) for pool in _POOLS]):
                break
        for pool in _POOLS:
            pool.limit = max(MIN_DROPPED, len(pool.settled))


def _drop(table: dict[Any, Any]) -> int:
    unused = _held_at_most(table.items(), _IDLE)
    for key in unused:
        del table[key]
    return len(unused)


def _held_at_most(entries: Iterable[tuple[Any, Any]], count: int) -> list[Any]:
    return [key for key, made in entries if getrefcount(made) <= count]


def _idle_count() -> int:
    """Reference count of an object that only its pool holds. It depends on how this file is compiled."""
    table = {None: object()}
    count = 0
    while not _held_at_most(table.items(), count):
        count += 1
    return count


_IDLE = _idle_count()

__all__ = ["LOCK", "Pool", "drop_unused"]
