"""Suspension of Python's cyclic garbage collector during an analysis.

An analysis makes many small objects that live as long as its result, but no cycles. Collections find nothing and take
an eighth of the time (measured over the corpus, with and without the pause).
"""

from __future__ import annotations

import gc
import threading
from types import TracebackType

#: held by the analysis that paused the collector
_PAUSED = threading.Lock()


class CollectionPaused:
    """Context manager that disables the cyclic garbage collector.

    If analyses overlap in several threads, the first one pauses and restores the collector, and the others do
    neither. Between analyses, the host's cycles are collected even if many analyses follow each other.
    """

    __slots__ = ("_ours", "_was_enabled")

    def __enter__(self) -> None:
        self._ours = _PAUSED.acquire(blocking=False)
        self._was_enabled = self._ours and gc.isenabled()
        if self._was_enabled:
            gc.disable()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._was_enabled:
            gc.enable()
        if self._ours:
            _PAUSED.release()


__all__ = ["CollectionPaused"]
