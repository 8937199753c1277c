"""The two layers agree: Z3 alone proves, from the constraints as they were stated, what the fast layer concluded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

import shapesolve
from shapesolve import Analysis
from shapesolve.expr import Cond, all_of, any_of, eq
from shapesolve.expr.cond import symbols_in
from shapesolve.expr.plain import factors_paired
from shapesolve.lower.types import Tensor
from shapesolve.solve.cone_of_influence import cone
from shapesolve.solve.engine import Engine
from shapesolve.solve.facts.log import Stated, need
from shapesolve.solve.facts.residual import TRUSTED, divisors, intervals
from shapesolve.solve.tables import Table

from ..building import bundled_files, corpus_files, seeds
from ..fuzz.model import drawn_model

RLIMIT = 2_000_000


def models() -> list[Path]:
    """The bundled models and those of the corpus that run."""
    return [f for f in bundled_files() if f.name == "model.onnx"] + corpus_files("models")


def is_original(row: Stated) -> bool:
    """Is it stated by a node, the user or an assumption, or the author's name for a size that we had named?"""
    if row.role in TRUSTED:
        return True
    names = symbols_in(row.cond).values()
    return (
        row.role == "declared"
        and row.cond.kind == "=="
        and sum(d.is_made for d in names) == 1
        and len(names) == 2
    )


def conclusions(a: Analysis) -> Iterator[tuple[str, Cond, tuple[Cond, ...]]]:
    """What the fast layer says: a name for it, the claim, and what the claim assumes."""
    facts = a._solved.facts
    for name, to in facts.substitution.items():
        yield f"{name} := {to}", eq(facts.symbols[name], to), ()
    for cond, _ in (*intervals(facts), *divisors(facts)):
        yield str(cond), cond, ()
    for name, size in a.bindings.items():
        assumed = a.bindings.why(name).assumption
        given = tuple(shapesolve.parse_cond(t, a.symbols) for t in assumed.split(" and ")) if assumed else ()
        yield f"binding {name} = {size}", eq(a.symbols[name], size), given
    for equality in a.equalities:
        first = equality.members[0]
        for other in equality.members[1:]:
            yield f"equality {first} == {other}", eq(first, other), ()
    seen = set()
    for tensor, known in a._solved.walk.state.tensors.items():
        if isinstance(known, Tensor) and known.shape is not None and tensor in a.shapes:
            for before, after in zip(known.shape, a.shapes[tensor], strict=True):
                if before is not after and (before, after) not in seen:
                    seen.add((before, after))
                    yield f"simplification {before} -> {after}", eq(before, after), ()


def lemmas(stated: Iterable[Cond]) -> Iterator[Cond]:
    """What Z3 is not told by its rules for products, and gives up on: those of ordered factors are equal where the factors are.

    Each is compared with a table of sizes before it is given to Z3, which proves for itself that no factor is 0.
    """
    for c in (part for cond in stated for part in (cond.args if cond.kind == "or" else (cond,))):
        pairs, needs = factors_paired(c) or ((), ())
        if pairs:
            lemma = any_of([~c, *(~n for n in needs), all_of(pairs)])
            assert len(lemma.free) <= 2, lemma
            grid = np.meshgrid(*[np.arange(130)] * len(lemma.free))
            assert Table(dict(zip(sorted(lemma.free), grid, strict=True))).truth(lemma).all(), lemma
            yield lemma


def disagreements(a: Analysis) -> tuple[list[str], list[str], int]:
    """Claims that Z3 refutes, claims that it cannot decide, and how many were asked."""
    refused = {clash.entry for clash in a._solved.walk.state.clashes}  # from a contradiction anything follows
    rows = [row for n, row in a._solved.stated.stated() if n not in refused and is_original(row)]
    stated = list(dict.fromkeys(map(need, rows)))
    engine = Engine(RLIMIT, shortcuts=False)
    refuted, open_, asked = [], [], 0
    for text, claim, assumed in conclusions(a):
        if claim.is_true:
            continue
        asked += 1
        given = [*cone(claim.free, stated), *assumed]
        verdict = engine.entails(claim, given)
        if not verdict.proved and not verdict.refuted and (more := list(lemmas(given))):
            verdict = engine.entails(claim, [*given, *more])
        if verdict.refuted:
            refuted.append(f"{text}: {verdict.model}")
        elif not verdict.proved:
            open_.append(text)
    return refuted, open_, asked


@pytest.mark.parametrize("path", models(), ids=lambda p: p.parent.name)
def test_z3_proves_what_facts_say_of_a_model(path):
    refuted, open_, _ = disagreements(shapesolve.analyze(path))
    assert not refuted
    assert not open_


@pytest.mark.parametrize("seed", seeds(0, 80))
def test_z3_proves_what_facts_say_of_random_graphs(seed):
    refuted, open_, _ = disagreements(shapesolve.analyze(drawn_model(seed).model))
    assert not refuted
    assert not open_
