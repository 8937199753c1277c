"""One truth: what is accepted, proved and refuted never disagrees, in whatever way one asks.

Where sizes are accepted, `evaluate` gives them all and the analysis bound to them has no conflict. Generated graphs are held
against onnxruntime by `tests.fuzz`; here are the bundled models, and the corpus if there is one.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import onnx
import pytest

import shapesolve
from shapesolve.deploy.sizes import NoSizes, Sizes

from ..building import EVERYTHING, ROOT, bundled_files, corpus_files, seeds, share
from ..fuzz.judge import Claim, drawn_claims
from ..fuzz.model import drawn_model
from .views import Views

#: a corpus model of more nodes is left to the benchmarks
MOST_NODES = 3000
#: accepted sizes of a model to which an analysis is bound
BOUND = 3


def name_of(path: Path) -> str:
    """The folder of a model, or the file of an example."""
    return path.parent.name if path.name == "model.onnx" else path.stem


def disagreements(views: Views, model: Any, tried: list[dict[str, int]]) -> Iterator[str]:
    """Sizes at which the views differ."""
    a, bound = views.analysis, 0
    for sizes in tried:
        if found := views.disagreement(sizes):
            yield found
        if not views.accepts(tuple(sizes.items())):
            continue
        evaluated = views.evaluated(tuple(sizes.items()))
        negative = {n: s for n, s in evaluated.items() if any(d < 0 for d in s)}
        if negative:
            yield f"at {sizes}: {negative}"
        missing = {n for n, s in a.shapes.items() if s.free_symbols() <= set(sizes)} - set(evaluated)
        if missing:
            yield f"at {sizes}: evaluate leaves out {sorted(missing)[:3]}"
        bound += 1
        if bound <= BOUND and not shapesolve.analyze(model, bind=sizes).ok:
            yield f"at {sizes}: accepted, but not by the analysis bound to them"


def mistold(a: shapesolve.Analysis) -> Iterator[str]:
    """Terms of the contract that are not proved, and findings whose sizes do not run or fail as they say."""
    yield from (
        f"{term} is not proved"
        for term in a.contract
        if not isinstance(a.prove(term.cond), shapesolve.Proved)
    )
    for finding in a.diagnostics:
        if len(finding.runs) == len(a.symbols) and a.evaluate(dict(finding.runs)).violations:
            yield f"{finding}: these sizes do not run"
        if (
            finding.fails
            and len(finding.fails) == len(a.symbols)
            and not a.evaluate(dict(finding.fails)).violations
        ):
            yield f"{finding}: these sizes run"


def unfounded(views: Views, model: Any, tried: list[dict[str, int]], random: Random) -> Iterator[str]:
    """Proofs that an accepted input makes false, refutations that nothing accepted falsifies."""
    a = views.analysis
    if a.conflicts:
        return
    shapes = {n: s for n, s in a.shapes.items() if s is not None}
    accepted = [s for s in tried if views.accepts(tuple(s.items()))]
    for claim in drawn_claims(shapes, random, 6):
        proof = a.prove(str(claim))
        if isinstance(proof, shapesolve.Proved) and not proof.assumptions:
            for sizes in accepted:
                if claim.holds(views.evaluated(tuple(sizes.items()))) is False:
                    yield f"{claim} is {proof}, but not at {sizes}"
        elif isinstance(proof, shapesolve.Refuted):
            yield from (f"{claim} is {proof}, {why}" for why in _unconfirmed(views, model, claim, proof))


def _is_false(bound: Any, claim: Claim, numbers: Mapping[str, Any]) -> bool:
    """Is the claim false at these sizes? Where data decides a size of which it speaks, it is whatever the data are."""
    places = [claim.left, *([claim.right] if claim.right else [])]
    if any(numbers[t][i] is None for t, i in places):
        return isinstance(bound.prove(str(claim)), shapesolve.Refuted)
    return claim.holds(numbers) is False


def _unconfirmed(views: Views, model: Any, claim: Claim, proof: shapesolve.Refuted) -> Iterator[str]:
    sizes = dict(proof.counterexample)
    missing = set(views.analysis.symbols) - set(sizes)
    if missing:
        yield f"which says nothing of {sorted(missing)}"
        return
    broken = views.analysis.check_inputs(views.shapes(sizes))
    if broken:
        yield f"but {broken[0].message}"
    bound = shapesolve.analyze(model, bind={n: sizes[n] for n in views.analysis.symbols})
    if bound.conflicts:
        yield f"but {bound.conflicts[0].message}"
    numbers = {n: [d.evaluate({}) for d in shape] for n, shape in bound.shapes.items()}
    if not _is_false(bound, claim, numbers):
        yield "but there it is not false"


def wrong(model: Any, views: Views, seed: int | str) -> list[str]:
    """All that is said of a model and is not so."""
    random = Random(seed)
    tried = views.tried(random)
    with contextlib.suppress(NoSizes, ValueError):
        tried.append(Sizes(views.analysis, {}).drawn(random))
    said = (
        *disagreements(views, model, tried),
        *mistold(views.analysis),
        *unfounded(views, model, tried, random),
    )
    return list(said)


@pytest.mark.parametrize("path", share(bundled_files(broken=True), 4) + corpus_files(), ids=name_of)
def test_all_that_is_said_of_a_model_agrees(path: Path) -> None:
    if len(onnx.load(path, load_external_data=False).graph.node) > MOST_NODES:
        return
    views = Views(str(path))
    assert wrong(str(path), views, name_of(path)) == []
    enumerated = (
        EVERYTHING or "vgg" not in path.parent.name
    )  # a million pairs of sizes are tried to list its buckets
    if (
        ROOT in path.parents and not views.analysis.conflicts and enumerated
    ):  # the explorer starts at accepted sizes
        page = views.analysis.to_html()
        data = json.loads(page.split('<script type="application/json" id="data">')[1].split("</script>")[0])
        sample = {s["name"]: s["sample"] for s in data["symbols"] if s["input"]}
        assert views.analysis.check_inputs(views.shapes(sample)) == []


@pytest.mark.parametrize("seed", seeds(0, 120))
def test_all_that_is_said_of_a_generated_graph_agrees(seed: int) -> None:
    model = drawn_model(seed).model
    assert wrong(model, Views(model), seed) == []
