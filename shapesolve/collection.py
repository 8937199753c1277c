"""Python's cyclic garbage collector, paused while a model is analyzed.

An analysis makes many small objects that all live as long as its result, and no cycles; each pass of the collector
over them finds nothing and costs an eighth of the time. So they go to the oldest generation at once, where two such
passes would bring them.
"""

from __future__ import annotations

import gc
import sys
import threading

#: so many objects are moved before it is asked whether memory grows
_STEP = 200_000

_LOCK = threading.Lock()
_paused = 0
_was_enabled = False
_moved = 0
_limit = sys.maxsize


class _Pause:
    """No collection of cycles within; afterwards as it was before, also when analyses overlap in several threads."""

    __slots__ = ()

    def __enter__(self) -> None:
        global _paused, _was_enabled
        with _LOCK:
            if not _paused:
                _was_enabled = gc.isenabled()
                gc.disable()
            _paused += 1

    def __exit__(self, *_error: object) -> None:
        global _paused
        with _LOCK:
            _paused -= 1
            if not _paused and _was_enabled:
                if not gc.get_freeze_count():  # else somebody's frozen objects would thaw
                    _move()
                gc.enable()


collection_paused = _Pause()


def _move() -> None:
    """Everything goes to the oldest generation.

    Others' objects go too, and some may be garbage. Python looks at that generation when a quarter of it is new, but does
    not count what comes there in this way: it is done here when memory has grown by a quarter.
    """
    global _moved, _limit
    _moved += gc.get_count()[0]
    gc.freeze()
    gc.unfreeze()
    if _moved >= _STEP:
        if sys.getallocatedblocks() > _limit:
            gc.collect()
            _limit = sys.maxsize
        _limit = min(_limit, sys.getallocatedblocks() * 5 // 4 + _STEP)
        _moved = 0


__all__ = ["collection_paused"]
