"""How the time of an analysis grows with the size of a model.

The exponent is the slope of log time over log size by least squares: 1 is linear, 2 is quadratic.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Sequence
from typing import NamedTuple

from .engines import Engine, quiet
from .families import Family
from .measure import alarm


class Growth(NamedTuple):
    """Size and seconds of each model; what ended the family early, if anything did."""

    points: list[tuple[int, float]]
    error: str


def exponent(points: Sequence[tuple[int, float]]) -> float | None:
    """The slope of log seconds over log size; None for fewer than two points."""
    if len(points) < 2:
        return None
    xs, ys = [math.log(n) for n, _ in points], [math.log(max(s, 1e-9)) for _, s in points]
    return statistics.linear_regression(xs, ys).slope


def grow(family: Family, engine: Engine, rounds: int, limit: float) -> Growth:
    """Measure size by size; ends at the first that fails or takes longer than `limit` seconds."""
    points: list[tuple[int, float]] = []
    for n in family.sizes:
        model = family.make(n)
        seconds = []
        try:
            with quiet(), alarm(limit):
                for _ in range(rounds):
                    gc.collect()
                    start = time.process_time()
                    engine.infer(model)
                    seconds.append(time.process_time() - start)
        except Exception as failure:  # whatever an engine raises is the result for this size
            return Growth(points, f"{type(failure).__name__}: {' '.join(str(failure).split())[:160]}")
        points.append((n, statistics.median(seconds)))
    return Growth(points, "")
