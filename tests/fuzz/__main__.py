"""``python -m tests.fuzz graphs|solver|bytes``: a campaign with a fixed seed; exit code 1 when something is wrong."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import hostile, solver
from .graphs import Campaign


def _say(text: str) -> None:
    print(text, flush=True)


def _graphs(given: argparse.Namespace) -> bool:
    totals = Campaign(given.out, _say, given.misses).run(
        range(given.seed, given.seed + given.count), given.seconds
    )
    _say(str(totals))
    for message, count in totals.misses.most_common(20):
        _say(f"  accepted, but: {message} x{count}")
    return bool(totals.faults)


def _solver(given: argparse.Namespace) -> bool:
    totals = solver.campaign(given.count, given.seed, given.seconds, _say)
    _say(str(totals))
    return bool(totals.faults)


def _bytes(given: argparse.Namespace) -> bool:
    seeds = range(given.seed, given.seed + given.count)
    totals = hostile.campaign(seeds, given.seconds, given.out, _say)
    _say(str(totals))
    return bool(totals.faults)


def main() -> int:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("what", choices=("graphs", "solver", "bytes"))
    parser.add_argument("--count", type=int, default=1000, help="of graphs, questions or files")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--seconds", type=float, help="stop after so long")
    parser.add_argument("--out", type=Path, help="a folder for what fails: models, files")
    parser.add_argument("--misses", action="store_true", help="models that are accepted and fail, too")
    given = parser.parse_args()
    return int({"graphs": _graphs, "solver": _solver, "bytes": _bytes}[given.what](given))


if __name__ == "__main__":
    sys.exit(main())
