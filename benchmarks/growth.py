"""`python -m benchmarks.growth`: how the time of an analysis grows with the size of a model.

The exponent is the slope of log time over log size by least squares: 1 is linear, 2 is quadratic. `last` is
the same between the two largest sizes only. Times are medians of CPU seconds.

`--steps` measures what is asked of an analysis, on models made to be hard, one process for each model: analysis, contract,
findings, check_inputs, a proof, texts, simplify. It prints seconds of CPU of each step and the largest resident memory. A step
that takes longer than `--limit` seconds ends its family.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import shapesolve

from .engines import ENGINES, Engine, quiet
from .families import FAMILIES, HOSTILE, Family
from .measure import alarm

#: time below which a step's growth is noise, in seconds
_NOISE = 0.02
#: wall time after which a model is given up, in limits of a step: other work may share the machine
_PATIENCE = 40


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


def steps_of(family: Family, n: int) -> None:
    """Print a line of JSON for each step on one model: its name and CPU seconds; at the end the peak memory in MB."""
    model = family.make(n)
    shapesolve.analyze(FAMILIES[0].make(1)).diagnostics  # noqa: B018  # what is loaded once
    a = _timed("analyze", lambda: shapesolve.analyze(model))
    shapes = {name: [5 if d.terms else d.const for d in a.shapes[name]] for name in a.inputs}
    first = next(iter(a.model.graph.outputs))[0]
    _timed("contract", lambda: a.contract)
    _timed("findings", lambda: a.diagnostics)
    _timed("check_inputs", lambda: a.check_inputs(shapes))
    _timed("prove", lambda: a.prove(f"`{first}`[0] >= 1"))
    _timed("text", lambda: len(str(a)) + sum(len(str(a.shapes[t])) for t in a.shapes))
    _timed("simplify", lambda: shapesolve.simplify(model))
    print(json.dumps(["MB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def _timed(name: str, step: Callable[[], Any]) -> Any:
    start = time.process_time()
    made = step()
    print(json.dumps([name, time.process_time() - start]), flush=True)
    return made


def grow_steps(family: Family, limit: float) -> dict[str, Any]:
    """The steps of one family, size by size; ends where one takes longer than `limit` seconds."""
    print(f"\n{family.name}: {family.what}")
    points: dict[str, list[tuple[int, float]]] = {}
    error = None
    for n in family.sizes:
        found: dict[str, float] = {}
        command = [sys.executable, "-m", "benchmarks.growth", "--one", family.name, str(n)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            out, err = child.communicate(timeout=_PATIENCE * limit)
        except subprocess.TimeoutExpired:
            child.kill()
            out, err = child.communicate()
            err = f"stopped after {_PATIENCE * limit:g} s"
        for line in out.splitlines():
            name, value = json.loads(line)
            found[name] = value
        for name, value in found.items():
            points.setdefault(name, []).append((n, value))
        print(f"  {n:>6}  " + "  ".join(f"{k} {v:.2f}" for k, v in found.items()), flush=True)
        slow = [k for k, v in found.items() if k != "MB" and v > limit]
        if child.returncode or slow:
            error = f"slow at {n}: {', '.join(slow)}" if slow else f"failed at {n}: {err.strip()[-160:]}"
            print(f"  {error}")
            break
    told = {k: exponent([p for p in v if p[1] > _NOISE]) for k, v in points.items() if k != "MB"}
    print("  exponents: " + "  ".join(f"{k} {v:.2f}" for k, v in told.items() if v is not None))
    return {"family": family.name, "steps": points, "exponents": told, "error": error}


def main() -> int:
    """Measure and print; the exit status is 1 when a size failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument(
        "-k", dest="pattern", default="", metavar="REGEX", help="only families with such a name"
    )
    parser.add_argument("--engine", choices=[e.name for e in ENGINES], default=ENGINES[0].name)
    parser.add_argument("--steps", action="store_true", help="what is asked of an analysis, on hard models")
    parser.add_argument("--one", nargs=2, metavar=("FAMILY", "N"), help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=3, help="rounds to take the median of (default 3)")
    parser.add_argument(
        "--limit", type=float, help="seconds for the rounds of one size (60), or for one step (5)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured")
    args = parser.parse_args()
    if args.one:
        steps_of(next(f for f in (*HOSTILE, *FAMILIES) if f.name == args.one[0]), int(args.one[1]))
        return 0
    engine = next(e for e in ENGINES if e.name == args.engine)
    families = [f for f in (HOSTILE if args.steps else FAMILIES) if re.search(args.pattern, f.name)]
    results = [
        grow_steps(f, args.limit or 5.0)
        if args.steps
        else grow(f, engine, max(args.rounds, 1), args.limit or 60.0)
        for f in families
    ]
    if args.json:
        args.json.write_text(
            json.dumps({"engine": engine.name, "families": results}, indent=1) + "\n", "utf-8"
        )
    return int(any(r["error"] for r in results))


if __name__ == "__main__":
    sys.exit(main())
