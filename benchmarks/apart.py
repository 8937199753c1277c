"""Work on one model after the other, each in a process of its own: a runtime may end its process."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

Told = TypeVar("Told")


def apart(
    work: Callable[[Path], Told], files: Iterable[Path], seconds: float
) -> Iterator[tuple[Path, Told | str]]:
    """What `work` returns for each file; the text of what it raises, ``timeout``, or ``died``."""
    context = multiprocessing.get_context("spawn")
    for file in files:
        ours, theirs = context.Pipe(False)
        process = context.Process(target=_tell, args=(theirs, work, file))
        process.start()
        theirs.close()
        try:
            told = ours.recv() if ours.poll(seconds) else "timeout"
        except EOFError:
            told = "died"
        process.kill()
        process.join()
        yield file, told


def _tell(connection: Connection, work: Callable[[Path], Any], file: Path) -> None:
    try:
        connection.send(work(file))
    except Exception as error:  # what a tool raises on a model is an answer
        connection.send(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
