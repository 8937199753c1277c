"""`python -m benchmarks.growth`: how the time of an analysis grows with the size of a model.

The exponent is the slope of log time over log size by least squares: 1 is linear, 2 is quadratic. `last` is
the same between the two largest sizes only. Times are medians; `first` is the first round, before anything
about this size was remembered.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import re
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .engines import ENGINES, Engine, quiet
from .families import FAMILIES, Family
from .measure import alarm


def exponent(points: Sequence[tuple[int, float]]) -> float | None:
    """The slope of log seconds over log size; None for fewer than two points."""
    if len(points) < 2:
        return None
    xs, ys = [math.log(n) for n, _ in points], [math.log(max(s, 1e-9)) for _, s in points]
    return statistics.linear_regression(xs, ys).slope


def grow(family: Family, engine: Engine, rounds: int, limit: float) -> dict[str, Any]:
    """Measure size by size; ends at the first that fails or takes longer than `limit` seconds."""
    points: list[tuple[int, float]] = []
    error = None
    print(f"\n{family.name}: {family.what}")
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
            error = f"{type(failure).__name__}: {' '.join(str(failure).split())[:160]}"
        if error:
            print(f"  {n:>6}  failed: {error}")
            break
        points.append((n, statistics.median(seconds)))
        nodes = len(model.graph.node)
        times = f"{1000 * points[-1][1]:>10,.1f} ms  first {1000 * seconds[0]:>10,.1f} ms"
        print(f"  {n:>6}  {nodes:>7,} nodes  {times}", flush=True)
    fitted, last = exponent(points), exponent(points[-2:])
    if fitted is not None and last is not None:
        print(f"  exponent {fitted:.2f}, last {last:.2f}")
    return {"family": family.name, "seconds": points, "exponent": fitted, "last": last, "error": error}


def main() -> int:
    """Measure and print; the exit status is 1 when a size failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument(
        "-k", dest="pattern", default="", metavar="REGEX", help="only families with such a name"
    )
    parser.add_argument("--engine", choices=[e.name for e in ENGINES], default=ENGINES[0].name)
    parser.add_argument("--rounds", type=int, default=3, help="rounds to take the median of (default 3)")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for the rounds of one size")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured")
    args = parser.parse_args()
    engine = next(e for e in ENGINES if e.name == args.engine)
    families = [f for f in FAMILIES if re.search(args.pattern, f.name)]
    results = [grow(f, engine, max(args.rounds, 1), args.limit) for f in families]
    if args.json:
        args.json.write_text(
            json.dumps({"engine": engine.name, "families": results}, indent=1) + "\n", "utf-8"
        )
    return int(any(r["error"] for r in results))


if __name__ == "__main__":
    sys.exit(main())
