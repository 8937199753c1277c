"""`scan` over 200 models with two processes against one, in turns.

Wall time, as this is about processors: on a machine where two are not free the ratio says nothing. The target is 1.7.
What two processes cost in CPU time over one holds on any machine: that is to be below 1.1.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from shapesolve.report.scan import scan

from .corpus import model_files
from .isolated import run

MODELS = 200


def scan_ratio(corpus: Path, rounds: int) -> tuple[float, float, float, float]:
    """Median seconds with one process and with two; the medians of the ratios of each round, of wall and of CPU time."""
    files = model_files(corpus, "")
    with tempfile.TemporaryDirectory(prefix="shapesolve-scan-") as folder:
        for i in range(MODELS):
            Path(folder, f"{i:03}.onnx").symlink_to(files[i % len(files)])
        pairs = [tuple(_measured(folder, jobs) for jobs in (1, 2)) for _ in range(rounds)]
    return (
        statistics.median(one[0] for one, _ in pairs),
        statistics.median(two[0] for _, two in pairs),
        statistics.median(one[0] / two[0] for one, two in pairs),
        statistics.median(two[1] / one[1] for one, two in pairs),
    )


def _measured(folder: str, jobs: int) -> tuple[float, float]:
    """Wall and CPU seconds of one scan, in an interpreter of its own."""
    wall, cpu = run("-m", "benchmarks.many", folder, str(jobs)).split()
    return float(wall), float(cpu)


def _scanned(folder: str, jobs: int) -> tuple[float, float]:
    before, start = os.times(), time.perf_counter()
    scan([folder], jobs=jobs)
    wall = time.perf_counter() - start
    after = os.times()
    return wall, sum(after[:4]) - sum(before[:4])


if __name__ == "__main__":
    print(*_scanned(sys.argv[1], int(sys.argv[2])))
