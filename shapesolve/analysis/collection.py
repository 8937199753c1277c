"""Python's cyclic garbage collector, paused while a model is analyzed.

An analysis makes many small objects that all live as long as its result, and no cycles; each pass of the collector
over them finds nothing and costs an eighth of the time. So they go to the oldest generation at once, where two such
passes would bring them.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_LOCK = threading.Lock()
_paused = 0
_was_enabled = False


@contextmanager
def collection_paused() -> Iterator[None]:
    """No collection of cycles within; afterwards as it was before, also when analyses overlap in several threads."""
    global _paused, _was_enabled
    with _LOCK:
        if not _paused:
            _was_enabled = gc.isenabled()
            gc.disable()
        _paused += 1
    try:
        yield
    finally:
        with _LOCK:
            _paused -= 1
            if not _paused and _was_enabled:
                if not gc.get_freeze_count():  # else somebody's frozen objects would thaw
                    gc.freeze()
                    gc.unfreeze()
                gc.enable()


__all__ = ["collection_paused"]
