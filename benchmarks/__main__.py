"""`python -m benchmarks`: every measurement, written to `benchmarks/RESULTS.md` with a description of the machine.

`--only peers,memory` measures some sections anew and keeps the others as they stand in the file.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import sys
import time
from pathlib import Path

from . import sections
from .corpus import default_corpus
from .package import kind

RESULTS = Path(__file__).with_name("RESULTS.md")


def machine() -> str:
    """What the figures were measured on."""
    cpu = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.*)", cpu.read_text("utf-8")) if cpu.exists() else None
    name = found.group(1) if found else platform.processor() or platform.machine()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{name}, {os.cpu_count()} processors, {memory:.0f} GiB, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}; shapesolve: {kind()}; {time.strftime('%Y-%m-%d')}, load {os.getloadavg()[0]:.1f}"
    )


def read_sections(path: Path) -> dict[str, str]:
    """The sections of an earlier report by their title."""
    if not path.exists():
        return {}
    parts = re.split(r"^## (.*)\n", path.read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def write_sections(path: Path, found: dict[str, str]) -> None:
    """The report, in the order in which the sections are defined."""
    ordered = [title for title, _ in sections.SECTIONS.values() if title in found]
    text = (
        "# Measurements\n\nWritten by `python -m benchmarks`. CPU time unless a section says otherwise.\n\n"
    )
    text += "\n".join(f"## {title}\n\n{found[title].strip()}\n" for title in ordered)
    path.write_text(text, "utf-8")


def main() -> int:
    """Measure section by section; what is done is in the file even when a later one fails."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--corpus", type=Path, help="folder of <name>/model.onnx (default: $SHAPESOLVE_CORPUS)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="rounds to take medians of (default 5)")
    parser.add_argument("--only", default=",".join(sections.SECTIONS), help="sections, separated by commas")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE", help="where the report goes")
    args = parser.parse_args()
    found = read_sections(args.results)
    for key in args.only.split(","):
        title, measure = sections.SECTIONS[key]
        print(f"{title} ...", file=sys.stderr, flush=True)
        where = machine()
        found[title] = f"{measure(args.corpus or default_corpus(), args.rounds)}\n\n*{where}.*\n"
        write_sections(args.results, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
