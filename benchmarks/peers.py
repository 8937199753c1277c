"""`python -m benchmarks.peers`: shapesolve beside its peers, model by model, in one run.

Every engine gets the same ModelProto in memory, without value_info. Times are medians over rounds in
which the engines take turns, in CPU milliseconds; ours is with constraints and bindings. `x peer` is the
peer's time over shapesolve's: above 1, shapesolve is faster. A model on which an engine fails has "-"
there and does not count for it. `dims` is the share of dims that an engine gives as an int or as an
expression over the input's symbols; `best py` is, model by model, the fastest Python peer that gives at
least 80 % of them. In the totals, `dims` is the mean over all models, and a failure counts as none.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from .corpus import default_corpus, model_files, read_case
from .engines import ENGINES
from .measure import Row, measure
from .table import cells, header, render_markdown, render_text, to_json, totals, verdicts


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument(
        "--corpus", type=Path, help="folder of <name>/model.onnx (default: $SHAPESOLVE_CORPUS)"
    )
    parser.add_argument(
        "-k", dest="pattern", default="", metavar="REGEX", help="only models with such a name"
    )
    parser.add_argument("--min-nodes", type=int, default=0, help="only models of at least so many nodes")
    parser.add_argument("--rounds", type=int, default=5, help="rounds to take the median of (default 5)")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one engine on one model")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything measured")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table")
    return parser.parse_args()


def main() -> int:
    """Measure and print; the exit status is 1 when there is nothing to measure."""
    args = arguments()
    engines = [engine for engine in ENGINES if engine.installed]
    for engine in ENGINES:
        state = "" if engine in engines else "   left out: not installed"
        print(f"{engine.label:<5} {engine.name}{state}")
    files = model_files(args.corpus or default_corpus(), args.pattern)
    rows: list[Row] = []
    for file in files:
        case = read_case(file)
        if case.nodes < args.min_nodes:
            continue
        print(f"\r{case.name:<60}", end="", file=sys.stderr, flush=True)
        rows.append(measure(case, engines, max(args.rounds, 1), args.limit))
    print(f"\r{'':<60}\r", end="", file=sys.stderr)
    if not rows:
        print("no model to measure", file=sys.stderr)
        return 1
    table = header(engines), [cells(row, engines) for row in rows], totals(rows, engines)
    print(render_text(*table))
    print(f"\n{verdicts(rows)}\n")
    for row in rows:
        for name, timing in row.timings.items():
            if timing.error:
                print(f"failed: {name} on {row.model}: {timing.error}")
    if args.json:
        args.json.write_text(json.dumps(to_json(rows, engines, args.rounds), indent=1) + "\n", "utf-8")
    if args.markdown:
        args.markdown.write_text(render_markdown(*table), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
