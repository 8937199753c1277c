"""The sections of `RESULTS.md`: each measures one thing and tells it in Markdown, its target first."""

from __future__ import annotations

import gc
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from . import isolated
from .checks import measure_checks
from .contract import MIN_NODES, contract_table, measure_costs
from .corpus import model_files, read_case
from .engines import ENGINES, OURS
from .families import FAMILIES
from .from_file import Pair, from_paths, large_files
from .growth import exponent, grow
from .guard import BASELINE
from .latency import measure_latency
from .many import MODELS, scan_ratio
from .measure import Row, measure
from .table import cells, header, markdown, totals, verdicts

_LIMIT = 120.0
#: contracts that are shown
_SHOWN_RATIO, _SHOWN_NODES = 0.5, 1000
#: weights in a file, in quarters of a GiB: what protobuf reads, and what it does not
_QUARTERS = (6, 12)
#: how many times as fast as `infer_shapes_path` it is to be
_PATH_RATIO = 5
_MEMORY = ("llama_large32_past__ts", "swin__ts", "bert_large24__ts", "wheel_light_densenet121", "mixtral__ts")


def peers(corpus: Path, rounds: int) -> str:
    """All engines on all models, in turns."""
    engines = [e for e in ENGINES if e.installed]
    rows: list[Row] = []
    files = model_files(corpus, "")
    measure(read_case(min(files, key=lambda file: file.stat().st_size)), engines, 1, _LIMIT)
    gc.freeze()  # a pass before each measurement need not go through what the engines loaded
    for file in files:
        print(f"\r{file.parent.name:<60}", end="", file=sys.stderr, flush=True)
        rows.append(measure(read_case(file), engines, rounds, _LIMIT))
    return peers_text(rows, rounds)


def peers_text(rows: Sequence[Row], rounds: int) -> str:
    """The targets, then the table: totals, then the models, those with most nodes first."""
    engines = [e for e in ENGINES if e.installed]
    ordered = sorted(rows, key=lambda row: -row.nodes)
    table = markdown([header(engines), *totals(rows, engines), *(cells(row, engines) for row in ordered)])
    return (
        "Targets: the total at most 5 times that of onnx (`x onnx` at least 0.20); on models over 200 nodes at least 3 times "
        "as fast as the best Python peer that gives 80 % of the dims; geometric means against onnxruntime and "
        f"onnx-shape-inference at least 5.\n\nMedians of {rounds} rounds in one process, engines in turns; ours includes "
        f"constraints and bindings. `x peer` is the peer's time over ours.\n\n{verdicts(rows)}\n\n{table}"
    )


def contract(corpus: Path, rounds: int) -> str:
    """Shapes alone, and what the contract and the ambiguities take beyond them."""
    costs = sorted(measure_costs(corpus, rounds), key=lambda c: -c.ratio)
    met = sum(c.ratio <= 2 for c in costs)
    shown = [c for c in costs if c.ratio > _SHOWN_RATIO or c.nodes > _SHOWN_NODES]
    return (
        f"Target: the contract at most twice the time of the shapes on models over {MIN_NODES} nodes; met on {met} of "
        f"{len(costs)}. Shown are models over {_SHOWN_NODES:,} nodes, and those where it takes more than half the time of the "
        "shapes.\n\n" + markdown(contract_table(shown))
    )


def from_file(corpus: Path, rounds: int) -> str:
    """From a path, and from files of gigabytes."""
    rows = [["weights in the file", "tool", "CPU s", "peak MB", ""]]
    for quarters in _QUARTERS:
        for tool, used in large_files(quarters):
            told = "" if used.ended_well else "cannot read it"
            rows.append([f"{quarters / 4:g} GiB", tool, f"{used.seconds:.2f}", f"{used.mb:.0f}", told])
    found = sorted(from_paths(corpus, rounds), key=lambda pair: pair.ratio)
    met = sum(pair.ratio >= _PATH_RATIO for pair in found)
    theirs, ours = sum(pair.theirs for pair in found), sum(pair.ours for pair in found)
    return (
        "Targets: 1.5 GiB of inline weights in less than 0.15 s beyond the start of the command, and 100 MB; from a path, "
        f"{_PATH_RATIO} times as fast as `infer_shapes_path` on models over 100 nodes.\n\n{markdown(rows)}\n\n"
        f"From a path, models of the corpus, whose weights were taken out: of {len(found)} models over 100 nodes, {met} meet "
        "it; in all, "
        f"`infer_shapes_path` takes {theirs:.0f} ms and shapesolve {ours:.0f} ms. The ends of the table:\n\n"
        + markdown(_pairs([*found[:5], *found[-5:]]))
    )


def _pairs(found: Sequence[Pair]) -> list[list[str]]:
    rows = [["model", "nodes", "ms onnx", "ms ours", "times as fast"]]
    return rows + [
        [p.model, str(p.nodes), f"{p.theirs:.2f}", f"{p.ours:.2f}", f"{p.ratio:.2f}"] for p in found
    ]


def growth(_corpus: Path, rounds: int) -> str:
    """Time over size, generated models."""
    rows = [["family", "sizes", "ms", "exponent", "between the last two", "error"]]
    for family in FAMILIES:
        points, error = grow(family, OURS, rounds, _LIMIT)
        rows.append(
            [
                f"{family.name}: {family.what}",
                " ".join(str(n) for n, _ in points),
                " ".join(f"{1000 * s:.0f}" for _, s in points),
                *("-" if x is None else f"{x:.2f}" for x in (exponent(points), exponent(points[-2:]))),
                error,
            ]
        )
    peak = isolated.run("-m", "benchmarks.isolated", "adversarial").strip()
    return (
        "Targets: exponent at most 1.05 for llama and unet; the others linear or bounded, at most 1 GB, no error.\n\n"
        f"{markdown(rows)}\n\nPeak of resident memory over the largest size of every family: {peak} MB."
    )


def memory(corpus: Path, _rounds: int) -> str:
    """Growth of peak memory beside onnx's own inference."""
    rows = [["model", "MB onnx", "MB ours", "ratio"]]
    for file in (f for f in model_files(corpus, "") if f.parent.name in _MEMORY):
        theirs, ours = (isolated.memory_growth(name, file) for name in ("onnx", OURS.name))
        rows.append(
            [file.parent.name, f"{theirs / 1024:.1f}", f"{ours / 1024:.1f}", f"{ours / max(theirs, 1):.2f}"]
        )
    return f"Target: growth of peak resident memory at most 3 times onnx's.\n\n{markdown(rows)}"


def start_up(corpus: Path, rounds: int) -> str:
    """Imports and the command, in fresh processes."""
    base = isolated.import_seconds("import onnx, networkx", rounds)
    rows = [["fresh process", "CPU ms", "over `import onnx, networkx`"]]
    for code in ("import onnx, networkx", "import shapesolve", "import shapesolve; shapesolve.analyze"):
        seconds = isolated.import_seconds(code, rounds)
        rows.append([f"`{code}`", f"{1000 * seconds:.0f}", f"{seconds / base:.2f}"])
    file = min(model_files(corpus, ""), key=lambda f: abs(read_case(f).nodes - 300))
    wall, cpu = isolated.command_seconds(file, rounds)
    nodes = read_case(file).nodes
    return (
        "Targets: importing at most 1.5 times `import onnx, networkx`; `shapesolve check` on 300 nodes under 0.25 s.\n\n"
        f"{markdown(rows)}\n\n`shapesolve check` on {file.parent.name} ({nodes} nodes), start to end: "
        f"{cpu:.2f} s CPU, {wall:.2f} s wall."
    )


def checks(corpus: Path, _rounds: int) -> str:
    """Calls of check_inputs."""
    found = list(measure_checks(corpus))
    slow = sorted((f for f in found if f[3] >= 50), key=lambda f: -f[3])
    rows = [["model over 50 µs", "constraints", "µs repeated sizes", "µs new sizes"]]
    rows += [[name, str(n), f"{repeated:.1f}", f"{new:.1f}"] for name, n, repeated, new in slow]
    middle = statistics.median(f[2] for f in found), statistics.median(f[3] for f in found)
    return (
        "Target: under 50 µs per call after the first. "
        f"Of {len(found)} contracts, {sum(f[2] < 50 for f in found)} meet it at repeated sizes "
        f"(median {middle[0]:.1f} µs, largest {max(f[2] for f in found):.1f}) and "
        f"{len(found) - len(slow)} at new sizes (median {middle[1]:.1f} µs). Wall time.\n\n{markdown(rows)}"
    )


def many(corpus: Path, rounds: int) -> str:
    """Two processes against one."""
    before = os.getloadavg()[0]
    one, two, gain, cost = scan_ratio(corpus, rounds)
    return (
        f"Target: {MODELS} models with two processes at least 1.7 times as fast as with one, for less than 1.1 times the"
        f" CPU time.\n\nOne process {one:.2f} s, two {two:.2f} s: {gain:.2f} times (wall time; load before: {before:.1f})."
        f" Two take {cost:.2f} times the CPU time of one."
    )


def latency(corpus: Path, rounds: int) -> str:
    """onnxruntime before and after simplifying, beside other simplifiers."""
    rows = list(measure_latency(corpus, rounds))
    first = [float(row[1].split()[0]) for row in rows[1:]]
    ours = [float(row[2]) for row in rows[1:]]
    best = sum(float(row[2]) <= min(float(ms) for ms in row[2::3] if ms != "fails") for row in rows[1:])
    less = statistics.median(1 - b / a for a, b in zip(first, ours, strict=True))
    return (
        "onnxruntime with all of its optimizations on one thread, medians of CPU milliseconds per run; the nodes that each tool"
        f" leaves (without Constant) and the CPU seconds that it takes. Of {len(ours)} models, ours is the fastest on {best};"
        f" the median gain over the original is {100 * less:.0f} %.\n\n{markdown(rows)}"
    )


def guard(_corpus: Path, _rounds: int) -> str:
    """What CI compares with."""
    return (
        "CI counts function calls (`benchmarks/guard.py`) and fails at 30 % above this baseline:\n\n"
        f"```json\n{BASELINE.read_text('utf-8').strip()}\n```"
    )


#: key on the command line: title and measurement
SECTIONS: dict[str, tuple[str, Callable[[Path, int], str]]] = {
    "peers": ("Beside the peers", peers),
    "contract": ("Contract and ambiguities", contract),
    "from-file": ("From a file", from_file),
    "growth": ("Growth", growth),
    "memory": ("Memory", memory),
    "start-up": ("Start-up", start_up),
    "checks": ("check_inputs", checks),
    "many": ("Many models", many),
    "latency": ("Latency of simplified models", latency),
    "guard": ("Guard", guard),
}
