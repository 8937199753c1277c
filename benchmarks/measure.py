"""Times of several engines on one model, taken in turns.

Times are CPU seconds of the process: all engines work in one thread, and other work on the machine would distort wall time.
"""

from __future__ import annotations

import gc
import signal
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

import onnx

from .corpus import Case, stand_in_weights
from .engines import Engine, Shapes, quiet, ranks_to_score, resolved_share

# An engine that took this long in the first round is not asked again.
LONG = 20.0


@dataclass
class Timing:
    """One engine on one model: seconds per round, or why there are none; `refused`: the engine gives no answer in the end."""

    seconds: list[float] = field(default_factory=list)
    resolved: float = 0.0
    refused: bool = False
    error: str | None = None

    @property
    def ms(self) -> float | None:
        """The median in milliseconds; None when the engine failed."""
        return None if self.error else 1000 * statistics.median(self.seconds)


@dataclass(frozen=True)
class Row:
    """All engines on one model."""

    model: str
    nodes: int
    timings: dict[str, Timing]


def measure(case: Case, engines: Sequence[Engine], rounds: int, limit: float) -> Row:
    """Run the engines in turns, so that what disturbs the machine disturbs all of them alike."""
    timings = {engine.name: Timing() for engine in engines}
    answers: dict[str, Shapes] = {}
    with stand_in_weights(case.model), quiet():
        for round_ in range(rounds):
            for engine in engines:
                timing = timings[engine.name]
                if timing.error or (timing.seconds and timing.seconds[0] > LONG):
                    continue
                try:
                    shapes = _once(engine, case.model, timing, limit, read=round_ == 0)
                except Exception as error:  # a peer may raise anything; that is a result
                    timing.error = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
                    continue
                if shapes is not None:
                    answers[engine.name] = shapes
    ranks = ranks_to_score(case, list(answers.values()))
    for name, shapes in answers.items():
        timings[name].resolved = resolved_share(shapes, case, ranks)
    return Row(case.name, case.nodes, timings)


def _once(
    engine: Engine, model: onnx.ModelProto, timing: Timing, limit: float, *, read: bool
) -> Shapes | None:
    own = onnx.ModelProto()
    own.CopyFrom(model)  # no engine sees what another one did to its input
    gc.collect()
    with alarm(limit):
        start = time.process_time()
        result = engine.infer(own)
        timing.seconds.append(time.process_time() - start)
    timing.refused = engine.refuses(result)
    return engine.read(result) if read else None


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """TimeoutError after so many seconds, as soon as Python code runs."""

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
