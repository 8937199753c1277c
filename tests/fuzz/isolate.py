"""Work done in another process, with a limit on its time and memory, so that a hang or a crash is an answer too."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

#: CPU seconds for one phase of work, and bytes beyond those in use at the start
SECONDS, BYTES = 5, 1 << 30
#: seconds of waiting after which even a process that uses no CPU has hung, and not only waited for a core of a busy machine
_PATIENCE = 600
#: the exit code of a copy that asked for more memory than it may have
_OUT_OF_MEMORY = 3

#: yields the names of its phases and returns its answer
Work = Callable[..., Iterator[str]]


class Lost(Exception):
    """The process ended without an answer: in this phase, of this cause (``hang``, ``memory`` or ``crash``)."""

    def __init__(self, phase: str, cause: str) -> None:
        super().__init__(phase, cause)
        self.phase, self.cause = phase, cause


def _limit_time(seconds: int) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + seconds + 1, hard))


def _limit_memory() -> None:
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + BYTES, resource.RLIM_INFINITY))


def _serve(connection: Connection, work: Work, seconds: int) -> int:
    """Answers one question after the other, until nobody asks any more; returns the exit code."""
    _limit_memory()
    while True:
        try:
            arguments = connection.recv()
        except EOFError:
            return 0
        steps = work(*arguments)
        while True:
            try:
                phase = next(steps)
            except StopIteration as stop:
                connection.send(("answer", stop.value))
                break
            except MemoryError:
                return _OUT_OF_MEMORY
            except Exception:  # a fault of the fuzzer's own is no verdict
                connection.send(("error", traceback.format_exc()))
                break
            connection.send(("phase", phase))
            _limit_time(seconds)


def _keep_serving(connection: Connection, work: Work, warm: tuple[Any, ...], seconds: int) -> None:
    """Does the work once, so that all is imported, and serves in copies of this process: a new one after each loss."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for _ in work(*warm):
        continue
    gc.collect()
    gc.freeze()
    while True:
        copy, code = os.fork(), 1
        if copy == 0:
            try:
                code = _serve(connection, work, seconds)
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])
        if code == 0:
            return
        causes = {-signal.SIGXCPU: "hang", _OUT_OF_MEMORY: "memory"}
        connection.send(("lost", causes.get(code, f"crash {code}")))


class Worker:
    """A process that does one kind of work in a copy of itself, made anew after each loss."""

    def __init__(self, work: Work, warm: tuple[Any, ...], seconds: int = SECONDS) -> None:
        self._work, self._warm, self._seconds = work, warm, seconds
        self._process: Any = None
        self._connection: Any = None

    def ask(self, *arguments: Any) -> Any:
        """The answer to these arguments, or `Lost`."""
        if self._process is None or not self._process.is_alive():
            self._start()
        self._connection.send(arguments)
        phase = "start"
        while True:
            try:
                if not self._connection.poll(_PATIENCE):
                    self.close()
                    raise Lost(phase, "hang")
                what, value = self._connection.recv()
            except (EOFError, ConnectionError):
                self.close()
                raise Lost(phase, "crash of all") from None
            if what == "answer":
                return value
            if what == "error":
                raise RuntimeError(f"work on {arguments} failed: {value}")
            if what == "lost":
                raise Lost(phase, value)
            phase = value

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_keep_serving, args=(theirs, self._work, self._warm, self._seconds), daemon=True
        )
        self._process.start()
        theirs.close()

    def close(self) -> None:
        """Ends the process and its copy."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):  # not yet begun, or all ended by themselves
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
            self._process.join()
            self._connection.close()
            self._process = None


def answers(worker: Worker, seeds: range, seconds: float | None = None) -> Iterator[tuple[int, Any]]:
    """Each seed with its answer or how it was lost, as many as there is time for."""
    start = time.monotonic()
    for seed in seeds:
        if seconds is not None and time.monotonic() - start > seconds:
            break
        try:
            yield seed, worker.ask(seed)
        except Lost as lost:
            yield seed, lost
    worker.close()
