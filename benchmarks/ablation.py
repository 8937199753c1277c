"""`python -m benchmarks.ablation`: what each optional mechanism of the solver is worth.

Each one is switched off alone, over the bundled models and those of a corpus (`--corpus`; `default_corpus`).
The table has its lines, the models whose contracts, findings or simple shapes change, and the CPU seconds of all models.
A mechanism that changes fewer than 3 models, and costs no time when it is off, is to go.
"""

from __future__ import annotations

import argparse
import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import shapesolve
from shapesolve.expr.plain import factors_paired
from shapesolve.solve import cases, engine, search
from shapesolve.solve.contract import attribute, build, conjunction
from shapesolve.solve.facts.linear import infeasible
from shapesolve.solve.simplify import forms, ranges, rules, simplifier, univariate

from .corpus import ROOT, default_corpus, model_files

#: parts of an answer that are compared
_PARTS = ("contract", "findings", "shapes")


class Mechanism(NamedTuple):
    """A part that can be left out: what replaces `name` of `owner` then, and the code that is not needed any more."""

    title: str
    owner: Any
    name: str
    instead: Callable[..., Any]
    code: tuple[Any, ...]

    def off(self) -> AbstractContextManager[Any]:
        """Without it, as long as the context lasts."""
        return patch.object(self.owner, self.name, self.instead)

    @property
    def lines(self) -> int:
        """Lines of source."""
        return sum(len(inspect.getsourcelines(part)[0]) for part in self.code)


def _none(*_args: Any, **_options: Any) -> None:
    return None


def _nothing(*_args: Any, **_options: Any) -> Iterator[Any]:
    return iter(())


def _second(_first: Any, second: Any, *_more: Any) -> Any:
    return second


def _first(first: Any, *_more: Any) -> Any:
    return first


def _false(*_args: Any, **_options: Any) -> bool:
    return False


def _no_attribution(*_args: Any, **_options: Any) -> dict[Any, Any]:
    return {}


MECHANISMS = (
    Mechanism("all of search, cases and propagation: Z3 alone", engine.Engine, "_without_z3", _none,
              (cases, search.Search, engine.Engine._without_z3)),
    Mechanism("cases", engine, "decide", _none, (cases,)),
    Mechanism("linear elimination in a search", search, "infeasible", _false, (infeasible,)),
    Mechanism("conditions on one symbol decided by tables", engine.Engine, "equivalent", _none, (engine.Engine.equivalent,)),
    Mechanism("contract: shorter forms", conjunction.Conjunction, "shorten", _none,
              (conjunction.Conjunction.shorten, forms.Forms)),
    Mechanism("contract: forms by rules", forms.Forms, "_by_rules", _nothing, (forms.Forms._by_rules,)),
    Mechanism("contract: forms by ranges", forms.Forms, "_by_ranges", _nothing, (forms.Forms._by_ranges,)),
    Mechanism("contract: forms by parts", forms.Forms, "_by_parts", _nothing, (forms.Forms._by_parts,)),
    Mechanism("contract: forms by simpler expressions", forms.Forms, "_by_expressions", _nothing,
              (forms.Forms._by_expressions,)),
    Mechanism("contract: equal products as equal factors", conjunction, "factors_paired", _none, (factors_paired,)),
    Mechanism("contract: ranges of single sizes", conjunction, "separated", _none, (ranges,)),
    Mechanism("contract: choices at the top", conjunction, "by_choices", _first, (forms.by_choices,)),
    Mechanism("contract: factors of all terms", conjunction, "by_factors", _first, (forms.by_factors,)),
    Mechanism("contract: alternatives that are excluded", conjunction.Conjunction, "_drop_impossible_alternatives", _none,
              (conjunction.Conjunction._drop_impossible_alternatives,)),
    Mechanism("contract: nodes found by sizes that break a term", build, "needed_by", _no_attribution, (attribute,)),
    Mechanism("shapes: rules", simplifier.Simplifier, "_ruled", _second, (rules, simplifier.Simplifier._ruled)),
    Mechanism("shapes: expressions of one symbol", simplifier.Simplifier, "_fit", _second, (univariate,)),
    Mechanism("shapes: constants", simplifier.Simplifier, "_constant", _second,
              (simplifier.Simplifier._constant,)),
)  # fmt: skip


@contextmanager
def _clock(spent: list[float]) -> Iterator[None]:
    start = time.process_time()
    yield
    spent.append(time.process_time() - start)


def answers(files: Sequence[Path]) -> tuple[dict[str, tuple[list[str], ...]], float]:
    """What the analysis says of each model, and the CPU seconds that it takes."""
    found: dict[str, tuple[list[str], ...]] = {}
    spent: list[float] = []
    for file in files:
        with _clock(spent):
            try:
                a = shapesolve.analyze(file)
                found[str(file)] = (
                    sorted(f"{t} {t.nodes}" for t in (*a.contract, *a.contract.usual)),
                    sorted(str(f) for f in a.diagnostics),
                    [f"{n} {a.shape(n, 'simple')}" for n in a.shapes],
                )
            except shapesolve.ModelError as error:
                found[str(file)] = ([str(error)],) * len(_PARTS)
    return found, sum(spent)


def ablated(files: Sequence[Path], rounds: int) -> str:
    """The table of all mechanisms."""
    whole, rows = answers(files)[0], []
    for mechanism in (None, *MECHANISMS):
        with nullcontext() if mechanism is None else mechanism.off():
            runs = [answers(files) for _ in range(rounds)]
        found, spent = runs[0][0], min(seconds for _, seconds in runs)
        changed = [sum(whole[f][i] != found[f][i] for f in whole) for i in range(len(_PARTS))]
        title, lines = ("all on", "") if mechanism is None else (mechanism.title, str(mechanism.lines))
        rows.append([title, lines, *map(str, changed), f"{spent:.2f}"])
    header = ["switched off", "lines", *(f"{part} that change" for part in _PARTS), "CPU s"]
    table = [header, ["---"] * len(header), *rows]
    return "\n".join([f"{len(files)} models", "", *(f"| {' | '.join(line)} |" for line in table)])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ablation", description=__doc__)
    parser.add_argument("--corpus", type=Path, default=default_corpus(), help="folder of <name>/model.onnx")
    parser.add_argument(
        "--rounds", type=int, default=2, help="rounds of which the fastest counts (default 2)"
    )
    args = parser.parse_args()
    files = list(
        dict.fromkeys(
            [*model_files(ROOT / "tests" / "models", ""), *sorted(args.corpus.glob("**/model.onnx"))]
        )
    )
    files += sorted((ROOT / "examples").glob("*.onnx"))
    print(ablated(files, args.rounds))


if __name__ == "__main__":
    main()
