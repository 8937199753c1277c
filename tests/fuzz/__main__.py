"""``python -m tests.fuzz graphs|solver|bytes``: a campaign with a fixed seed; exit code 1 when something is wrong."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .graphs import Campaign


def main() -> int:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("what", choices=("graphs",))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--seconds", type=float, help="stop after so long")
    parser.add_argument("--out", type=Path, help="a folder for scripts of what fails")
    given = parser.parse_args()
    totals = Campaign(given.out, lambda text: print(text, flush=True)).run(
        range(given.seed, given.seed + given.count), given.seconds
    )
    print(totals)
    for message, count in totals.misses.most_common(20):
        print(f"  accepted, but: {message} x{count}")
    return 1 if totals.faults else 0


if __name__ == "__main__":
    sys.exit(main())
