"""`python -m benchmarks.guard`: function calls that analyses make, against the counts of `baseline.json`.

Calls (Python's and C's) are counted, not seconds: the count does not depend on the machine or on its load, and what makes an
analysis slower almost always makes it call more. It is the sources of the checkout that are counted, whatever is
installed: calls within compiled modules cannot be seen. CI fails when a count is 30 % above its baseline; after a change
that is worth its cost, `--write` sets the baseline anew.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import onnx

import shapesolve

from .corpus import ROOT, model_files, read_case
from .families import FAMILIES
from .package import kind

BASELINE = Path(__file__).with_name("baseline.json")
TOLERANCE = 1.3
#: sizes that take a moment each
_SIZES = {
    "llama": 16,
    "unet": 16,
    "odd-convolutions": 100,
    "doublings": 100,
    "broadcasts": 40,
    "nested-ifs": 20,
    "products": 30,
    "selections": 60,
}


def workloads() -> Iterator[tuple[str, list[onnx.ModelProto]]]:
    """Generated models by family, and the bundled ones together."""
    for family in FAMILIES:
        if family.name in _SIZES:
            yield family.name, [family.make(_SIZES[family.name])]
    yield "bundled models", [read_case(f).model for f in model_files(ROOT / "tests" / "models", "")]


def count_calls(models: list[onnx.ModelProto]) -> int:
    """Calls made by analyzing the models, when everything that is prepared once is prepared."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    for model in models:
        shapesolve.analyze(model)
    gc.collect()
    gc.disable()  # or what is freed when would be counted
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for model in models:
            shapesolve.analyze(model)
    finally:
        sys.setprofile(before)
        gc.enable()
    return calls


def regressions(counts: Mapping[str, int]) -> list[str]:
    """The workloads that call too much, in words."""
    baseline = json.loads(BASELINE.read_text("utf-8"))
    return [
        f"{name}: {calls:,} calls, {calls / baseline[name] - 1:+.0%} against the baseline of {baseline[name]:,}"
        for name, calls in counts.items()
        if calls > TOLERANCE * baseline[name]
    ]


def main() -> int:
    """Count and compare; the exit status is 1 when something regressed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guard", description=__doc__)
    parser.add_argument("--write", action="store_true", help="set the baseline to what is counted now")
    args = parser.parse_args()
    if kind() == "compiled":
        sys.exit("calls within compiled modules cannot be counted: run this where the sources are")
    counts = {name: count_calls(models) for name, models in workloads()}
    for name, calls in counts.items():
        print(f"{name:<20} {calls:>10,} calls")
    if args.write:
        BASELINE.write_text(json.dumps(counts, indent=1) + "\n", "utf-8")
        return 0
    worse = regressions(counts)
    print("\n".join(worse) or "no regression")
    return int(bool(worse))


if __name__ == "__main__":
    sys.exit(main())
