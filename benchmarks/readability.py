"""`python -m benchmarks.readability`: how long what people read is, in characters and in operators.

For every model of a corpus, and for a few stems that the corpus lacks: the longest term of the contract, and the longest dim of
an input or output in its exact form and as it is shown. `--before FILE` puts the figures of an earlier run beside these.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import onnx

import shapesolve
from shapesolve import Analysis

from .corpus import default_corpus, model_files
from .stems import STEMS

BEFORE = Path(__file__).with_name("readability_before.json")
LONGEST_DIM, LONGEST_TERM = 40, 60
_OPERATOR = re.compile(r"//|[<>=!]=|\*\*|[-+*%<>]|\b(?:max|min|abs|broadcast|if|or|and)\b")
_NAME = re.compile(r"`[^`]*`")


@dataclass(frozen=True)
class Length:
    """One text: characters and operators."""

    text: str

    @property
    def chars(self) -> int:
        """Its length."""
        return len(self.text)

    @property
    def operators(self) -> int:
        """Arithmetic, comparisons, named functions and junctions in it; names in backticks count for nothing."""
        return len(_OPERATOR.findall(_NAME.sub("x", self.text)))

    def __str__(self) -> str:
        return f"{self.chars} / {self.operators}"


@dataclass(frozen=True)
class Figures:
    """The longest texts of one model."""

    model: str
    term: str
    exact: str
    shown: str


def longest(texts: Iterable[str]) -> str:
    """The longest of some texts; of equally long ones the first in order."""
    return max(sorted(texts), key=len, default="")


def figures_of(name: str, analysis: Analysis) -> Figures:
    """The longest texts that the analysis of a model has for people."""
    named = [*analysis.inputs, *(name for name, _ in analysis.model.graph.outputs)]
    known = [n for n in named if n in analysis.shapes]
    return Figures(
        name,
        longest(term.text for term in (analysis.contract.usual or analysis.contract)),
        longest(str(d) for n in known for d in analysis.shapes[n]),
        longest(str(d) for n in known for d in analysis._solved.simple_shapes.usual(n)[0]),
    )


def measure_readability(corpus: Path, pattern: str = "") -> Iterator[Figures]:
    """The models of a corpus, then the stems."""
    for file in model_files(corpus, pattern):
        yield figures_of(file.parent.name, shapesolve.analyze(file))
    for stem in STEMS:
        yield figures_of(f"stem: {stem.name}", shapesolve.analyze(onnx.parser.parse_model(stem.source)))


def readability_table(found: list[Figures], before: dict[str, dict[str, str]]) -> list[list[str]]:
    """Rows for the models that have a long text now or had one before; each cell is characters / operators."""
    rows = [["model", "term before", "term now", "dim before", "dim exact", "dim shown"]]
    for f in found:
        past = before.get(f.model, {})
        cells = [past.get("term", ""), f.term, past.get("shown", ""), f.exact, f.shown]
        limits = [LONGEST_TERM, LONGEST_TERM, LONGEST_DIM, LONGEST_DIM, LONGEST_DIM]
        if any(len(c) > limit for c, limit in zip(cells, limits, strict=True)):
            rows.append([f.model, *(str(Length(c)) if c else "-" for c in cells)])
    return rows


def verdict(found: list[Figures], before: dict[str, dict[str, str]]) -> str:
    """How many models meet the two limits, before and now."""
    terms = sum(len(f.term) > LONGEST_TERM for f in found)
    dims = sum(len(f.shown) > LONGEST_DIM for f in found)
    past = [before[f.model] for f in found if f.model in before]
    past_terms = sum(len(p["term"]) > LONGEST_TERM for p in past)
    past_dims = sum(len(p["shown"]) > LONGEST_DIM for p in past)
    total = sum(len(f.term) + len(f.shown) for f in found)
    past_total = sum(len(p["term"]) + len(p["shown"]) for p in past)
    return (
        f"Of {len(found)} models, {terms} have a contract term over {LONGEST_TERM} characters (before: {past_terms}), {dims} "
        f"show a dim of an input or output over {LONGEST_DIM} (before: {past_dims}). "
        f"The longest texts of all of them together: {total:,} characters (before: {past_total:,})."
    )


def read_before(path: Path = BEFORE) -> dict[str, dict[str, str]]:
    """The figures of an earlier run by model."""
    data: dict[str, dict[str, str]] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return data


def write_figures(found: list[Figures], path: Path) -> None:
    """Figures for a later run to be compared with."""
    data = {f.model: {k: v for k, v in asdict(f).items() if k != "model"} for f in found}
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", "utf-8")


def main() -> None:
    """Print the table; `--save` keeps the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.readability", description=__doc__)
    parser.add_argument("--corpus", type=Path, default=default_corpus())
    parser.add_argument("--only", default="", metavar="REGEX", help="models whose folder's name matches")
    parser.add_argument("--before", type=Path, default=BEFORE, metavar="FILE")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the figures of this run")
    args = parser.parse_args()
    found = list(measure_readability(args.corpus, args.only))
    before = read_before(args.before)
    for row in readability_table(found, before):
        print(
            "  ".join(cell.ljust(w) for cell, w in zip(row, (44, 12, 12, 12, 12, 12), strict=True)).rstrip()
        )
    print(verdict(found, before))
    if args.save:
        write_figures(found, args.save)


if __name__ == "__main__":
    main()
