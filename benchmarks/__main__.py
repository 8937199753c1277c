"""`python -m benchmarks [SECTION ...]`: shapesolve beside the peers that are installed, as a table; less than 3 minutes.

Sections measure something else, `all` everything. `--write` puts what was measured into `benchmarks/RESULTS.md`, with a
description of the machine; other sections stay as they stand there.
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
    text = "# Measurements\n\nWritten by `python -m benchmarks --write`. CPU time unless a section says otherwise.\n\n"
    text += "\n".join(f"## {title}\n\n{found[title].strip()}\n" for title in ordered)
    path.write_text(text, "utf-8")


def main() -> int:
    """Measure section by section; what is done is printed or written even when a later one fails."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = [*sections.SECTIONS, "all"]
    parser.add_argument(
        "sections", nargs="*", metavar="SECTION", help=f"any of {', '.join(names)} (default: peers)"
    )
    parser.add_argument(
        "--corpus", type=Path, help="folder of <name>/model.onnx (default: $SHAPESOLVE_CORPUS)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds to take medians of (default 3)")
    parser.add_argument("--write", action="store_true", help=f"write to {RESULTS.name} instead of printing")
    args = parser.parse_args()
    if unknown := set(args.sections).difference(names):
        parser.error(f"no section {', '.join(sorted(unknown))}")
    asked = names[:-1] if "all" in args.sections else args.sections or ["peers"]
    found = read_sections(RESULTS)
    for key in asked:
        title, measure = sections.SECTIONS[key]
        print(f"{title} ...", file=sys.stderr, flush=True)
        where = machine()
        found[title] = f"{measure(args.corpus or default_corpus(), args.rounds)}\n\n*{where}.*\n"
        if args.write:
            write_sections(RESULTS, found)
        else:
            print(f"## {title}\n\n{found[title]}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
