"""One truth: what is accepted, proved and refuted never disagrees, in whatever way one asks.

The views of acceptance at some sizes are `check_inputs`, `Contract.holds`, the generated checker, the conditions as text
and as SMT-LIB, and the sample that the explorer starts at; where sizes are accepted, `evaluate` gives them all. Generated
graphs are held against onnxruntime by `tests.fuzz`; here are the bundled models, and the corpus where there is one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from inspect import signature
from pathlib import Path
from random import Random
from typing import Any

import onnx
import pytest
import z3

import shapesolve

from ..building import bundled_files, corpus_files, seeds
from ..fuzz.judge import Claim, drawn_claims
from ..fuzz.model import drawn_model

ROOT = Path(__file__).parents[2]
#: sizes that are drawn: nothing, one, few, odd, large
SIZES = (0, 1, 2, 3, 7, 8, 33, 64, 100, 1001)
#: a corpus model of more nodes is left to the benchmarks
MOST_NODES = 3000


def models() -> list[Path]:
    """The bundled models, the examples, and the corpus."""
    return bundled_files(broken=True) + corpus_files()


def name_of(path: Path) -> str:
    """The folder of a model, or the file of an example."""
    return path.parent.name if path.name == "model.onnx" else path.stem


class Views:
    """All ways to ask whether a model accepts some sizes."""

    def __init__(self, model: Any) -> None:
        self.analysis = a = shapesolve.analyze(model)
        self.contract = a.contract
        self.conditions = [shapesolve.parse_cond(t["condition"]) for t in a.contract.to_json()["terms"]]
        namespace: dict[str, Any] = {}
        exec(compile(a.contract.to_python(), "checker", "exec"), namespace)  # noqa: S102 - it is what users run
        self.checker = namespace["check_sizes"]
        self.smtlib = a.contract.to_smtlib()

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """Shapes of the inputs, as declared."""
        declared = {
            n: i.shape for n, i in self.analysis.inputs.items() if getattr(i, "shape", None) is not None
        }
        return {n: tuple(d.evaluate(sizes) for d in shape) for n, shape in declared.items()}

    def tried(self, random: Random) -> list[dict[str, int]]:
        """Sizes at which no declared expression is negative."""
        sizes = drawn_sizes(self.analysis, random, 12)
        return [
            s for s in sizes if min((d for shape in self.shapes(s).values() for d in shape), default=0) >= 0
        ]

    def said(self, sizes: Mapping[str, int]) -> dict[str, bool | None]:
        """Accepted or not, by every view; None where a view cannot tell."""
        a = self.analysis
        arguments = signature(self.checker).parameters  # some names cannot be those of arguments
        asked = dict(zip(arguments, (sizes[n] for n in self.contract.symbols), strict=True))
        truths = [c.evaluate(sizes) for c in self.conditions]
        impossible = bool(self.contract.impossible)
        return {
            "check_inputs": a.check_inputs(self.shapes(sizes)) == [],
            "contract": self.contract.holds(sizes),
            "checker": self.checker(**asked) == [],
            "conditions": None if None in truths else all(truths) and not impossible,
            "smtlib": self._satisfiable(sizes),
        }

    def _satisfiable(self, sizes: Mapping[str, int]) -> bool | None:
        solver = z3.Solver(ctx=z3.Context())
        solver.set("rlimit", 2_000_000)
        solver.from_string(self.smtlib)
        declared = re.findall(r"declare-const (\|[^|]*\||\S+) Int", self.smtlib)
        for name in declared:
            plain = name.strip("|")
            if plain in sizes:
                solver.add(z3.Int(plain, ctx=solver.ctx) == sizes[plain])
        verdict = solver.check()
        return None if verdict == z3.unknown else verdict == z3.sat


def drawn_sizes(analysis: Any, random: Random, count: int) -> list[dict[str, int]]:
    """Sizes of all symbols: alike, drawn, and near some that are accepted."""
    names = list(analysis.symbols)
    found = [dict.fromkeys(names, s) for s in (0, 1, 2)]
    accepted = example(analysis)
    if accepted:
        found.append(accepted)
        found += [
            {**accepted, random.choice(names): random.choice(SIZES)} for _ in range(count // 2) if names
        ]
    found += [{n: random.choice(SIZES) for n in names} for _ in range(count // 2)]
    return list({tuple(s.items()): s for s in found}.values())


def example(analysis: Any) -> dict[str, int]:
    """Sizes that are accepted: those that refute what is never true."""
    proof = analysis.prove("1 == 2")
    return dict(proof.counterexample) if type(proof).__name__ == "Refuted" else {}


@cache
def views_of(path: Path) -> Views | None:
    """Of a file; None when it is too large."""
    model = onnx.load(path, load_external_data=False)
    return Views(str(path)) if len(model.graph.node) <= MOST_NODES else None


def disagreements(views: Views, label: str) -> Iterator[str]:
    """Sizes at which the views differ."""
    for sizes in views.tried(Random(label)):
        said = views.said(sizes)
        if len(set(said.values()) - {None}) > 1:
            yield f"{label} at {sizes}: {said} [{views.contract}]"
        if said["check_inputs"]:
            evaluated = views.analysis.evaluate(sizes)
            negative = {n: s for n, s in evaluated.items() if any(d < 0 for d in s)}
            if negative:
                yield f"{label} at {sizes}: {negative}"
            missing = {n for n, s in views.analysis.shapes.items() if s.free_symbols() <= set(sizes)} - set(
                evaluated
            )
            if missing:
                yield f"{label} at {sizes}: evaluate leaves out {sorted(missing)[:3]}"


def unfounded(views: Views, model: Any, label: str) -> Iterator[str]:
    """Proofs that an accepted input makes false, refutations that nothing accepted falsifies."""
    a, random = views.analysis, Random(label)
    if a.conflicts:
        return
    shapes = {n: s for n, s in a.shapes.items() if s is not None}
    tried = [s for s in views.tried(random) if a.check_inputs(views.shapes(s)) == []]
    for claim in drawn_claims(shapes, random, 6):
        proof = a.prove(str(claim))
        kind = type(proof).__name__
        if kind == "Proved" and not proof.assumptions:
            for sizes in tried:
                if claim.holds(a.evaluate(sizes)) is False:
                    yield f"{label}: {claim} is {proof}, but not at {sizes}"
        elif kind == "Refuted":
            yield from _unconfirmed(views, model, claim, proof, label)


def _is_false(bound: Any, claim: Claim, numbers: Mapping[str, Any]) -> bool:
    """Is the claim false at these sizes? Where data decides a size of which it speaks, it is whatever the data are."""
    places = [claim.left, *([claim.right] if claim.right else [])]
    if any(numbers[t][i] is None for t, i in places):
        return type(bound.prove(str(claim))).__name__ == "Refuted"
    return claim.holds(numbers) is False


def _unconfirmed(views: Views, model: Any, claim: Claim, proof: Any, label: str) -> Iterator[str]:
    sizes = dict(proof.counterexample)
    missing = set(views.analysis.symbols) - set(sizes)
    if missing:
        yield f"{label}: {claim} is {proof}, which says nothing of {sorted(missing)}"
        return
    broken = views.analysis.check_inputs(views.shapes(sizes))
    if broken:
        yield f"{label}: {claim} is {proof}, but {broken[0].message}"
    bound = shapesolve.analyze(model, bind={n: sizes[n] for n in views.analysis.symbols})
    if bound.conflicts:
        yield f"{label}: {claim} is {proof}, but {bound.conflicts[0].message}"
    numbers = {n: [d.evaluate({}) for d in shape] for n, shape in bound.shapes.items()}
    if not _is_false(bound, claim, numbers):
        yield f"{label}: {claim} is {proof}, but there it is not false"


@pytest.mark.parametrize("path", models(), ids=name_of)
def test_views_of_models_agree(path: Path) -> None:
    views = views_of(path)
    assert views is None or list(disagreements(views, name_of(path))) == []


@pytest.mark.parametrize("path", models(), ids=name_of)
def test_proofs_about_models_hold(path: Path) -> None:
    views = views_of(path)
    assert views is None or list(unfounded(views, str(path), name_of(path))) == []


@pytest.mark.parametrize("first", seeds(0, 120, 20))
def test_views_of_generated_graphs_agree(first: int) -> None:
    found = []
    for seed in range(first, first + 20):
        model = drawn_model(seed).model
        views = Views(model)
        found += [*disagreements(views, f"seed {seed}"), *unfounded(views, model, f"seed {seed}")]
    assert found == []


@pytest.mark.parametrize("path", [p for p in models() if ROOT in p.parents], ids=name_of)
def test_the_explorer_starts_at_accepted_sizes(path: Path) -> None:
    views = views_of(path)
    assert views is not None
    if views.analysis.conflicts:
        return
    page = views.analysis.to_html()
    data = json.loads(page.split('<script type="application/json" id="data">')[1].split("</script>")[0])
    sample = {s["name"]: s["sample"] for s in data["symbols"] if s["input"]}
    assert views.analysis.check_inputs(views.shapes(sample)) == []
