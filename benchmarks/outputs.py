"""Shapes of outputs computed by generated functions, against runs with onnxruntime.

`python -m benchmarks.outputs [PATTERN] [--sizes 1000]` draws accepted sizes of each corpus model, and compares what its
function says with the shapes of a run. Outputs that data decides are left out, and named.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import shapesolve as ss
from shapesolve.runs import Session

from .corpus import default_corpus, model_files
from .latency import with_weights

Shapes = Mapping[str, tuple[int, ...]]


class NotLoaded(Exception):
    """A model that onnxruntime has no kernels for."""


def judge(file: Path, count: int) -> tuple[int, list[str], str]:
    """Number of compared runs, the differences, and what was left out."""
    a = ss.analyze(file)
    space: dict[str, Any] = {}
    exec(ss.guard(a, outputs=True), space)  # noqa: S102  (it is what is judged)
    output_shapes: Callable[[Mapping[str, Any]], Shapes] = space["output_shapes"]
    names = [name for name, _ in a.model.graph.outputs]
    try:
        runner = Session(with_weights(file).SerializeToString())
    except Exception as error:  # onnxruntime has classes of its own for each reason
        raise NotLoaded(str(error)[:120]) from error
    compared, wrong, missing = 0, list[str](), set[str]()
    seen: set[tuple[tuple[int, ...], ...]] = set()
    for feeds in islice(ss.generate_inputs(a, count=count), count):
        shapes = {name: tuple(array.shape) for name, array in feeds.items()}
        if (key := tuple(shapes.values())) in seen:
            continue
        seen.add(key)
        found = output_shapes(shapes)
        missing |= set(names) - found.keys()
        if not found:
            break
        try:
            made = runner.run(feeds, list(found))
        except Exception as error:
            wrong.append(f"fails at {shapes}: {str(error)[:100]}")
            continue
        compared += 1
        for name, array in zip(found, made, strict=True):
            if hasattr(array, "shape") and tuple(found[name]) != tuple(array.shape):
                wrong.append(f"{name} at {shapes}: {tuple(found[name])}, is {tuple(array.shape)}")
    return compared, wrong, ", ".join(sorted(missing))


def main() -> int:
    """Judge every model; exit code 1 if a shape differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--sizes", type=int, default=1000, help="accepted sizes of each model")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no model after this time")
    options = parser.parse_args()
    begun, models, total, failed = time.perf_counter(), 0, 0, list[str]()
    for file in sorted(model_files(default_corpus(), options.pattern), key=lambda f: f.stat().st_size):
        if time.perf_counter() - begun > options.seconds:
            print(f"stopped before {file.parent.name}")
            break
        try:
            compared, wrong, missing = judge(file, options.sizes)
        except (ss.NoSizes, NotLoaded) as error:
            print(f"{file.parent.name}: not judged: {error}", flush=True)
            continue
        models, total = models + 1, total + compared
        failed += [f"{file.parent.name}: {text}" for text in wrong]
        left = f", left out: {missing}" if missing else ""
        print(f"{file.parent.name}: {compared} runs, {len(wrong)} differences{left}", flush=True)
    print(f"{models} models, {total} runs, {len(failed)} differences")
    print(*failed[:40], sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
