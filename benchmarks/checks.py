"""Microseconds of `Analysis.check_inputs` after its first call, model by model.

The sizes are those of the corpus's measured runs, so nothing is violated. `repeated`: sizes that were checked before, which is
what a server sees; `new`: sizes that were not (the answers remembered are dropped before every call). The target is 50 µs.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import shapesolve

from .corpus import model_files, read_case

_CALLS = 200


def measure_checks(corpus: Path) -> Iterator[tuple[str, int, float, float]]:
    """Model, number of constraints, median microseconds of a call at repeated and at new sizes."""
    for file in model_files(corpus, ""):
        shapes = _measured_inputs(file)
        if not shapes:
            continue
        analysis = shapesolve.analyze(read_case(file).model)
        analysis.check_inputs(shapes)
        repeated, new = [], []
        for _ in range(_CALLS):
            start = time.perf_counter()
            analysis.check_inputs(shapes)
            repeated.append(time.perf_counter() - start)
            analysis._solved._checker.checker.forget()
            start = time.perf_counter()
            analysis.check_inputs(shapes)
            new.append(time.perf_counter() - start)
        medians = 1e6 * statistics.median(repeated), 1e6 * statistics.median(new)
        yield file.parent.name, len(analysis._solved.stated), *medians


def _measured_inputs(file: Path) -> dict[str, tuple[int, ...]]:
    truth = file.with_name("truth.json")
    if not truth.exists():
        return {}
    given = json.loads(truth.read_text("utf-8"))["runs"][0]["inputs"]
    return {name: tuple(dims) for name, dims in given.items() if dims is not None}
