"""`python -m benchmarks.many`: `scan` over 200 models with two processes against one, in turns.

Wall time, as this is about processors: on a machine where two are not free the ratio says nothing. The target is 1.7.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path

from shapesolve.report.scan import scan

from .corpus import default_corpus, model_files

MODELS = 200


def scan_ratio(corpus: Path, rounds: int = 5) -> tuple[float, float, float]:
    """Median seconds with one process and with two, and the median of the ratios of each round."""
    files = model_files(corpus, "")
    with tempfile.TemporaryDirectory(prefix="shapesolve-scan-") as folder:
        for i in range(MODELS):
            Path(folder, f"{i:03}.onnx").symlink_to(files[i % len(files)])
        one: list[float] = []
        two: list[float] = []
        for _ in range(rounds):
            for jobs, seconds in ((1, one), (2, two)):
                start = time.perf_counter()
                scan([folder], jobs=jobs)
                seconds.append(time.perf_counter() - start)
    ratios = [a / b for a, b in zip(one, two, strict=True)]
    return statistics.median(one), statistics.median(two), statistics.median(ratios)


def load() -> float:
    """How many processes wanted a processor during the last minute."""
    return os.getloadavg()[0]


if __name__ == "__main__":
    before = load()
    alone, together, gain = scan_ratio(default_corpus())
    print(f"{MODELS} models: one process {alone:.2f} s, two {together:.2f} s, ratio {gain:.2f}")
    print(f"load before: {before:.1f} on {os.cpu_count()} processors")
