"""Views of one model agree at drawn sizes: what `check_inputs` accepts is what an analysis bound to these sizes accepts."""

from __future__ import annotations

import contextlib
import random
import zlib
from pathlib import Path

import pytest

import shapesolve as ss
from shapesolve.deploy.sizes import NoSizes, Sizes
from shapesolve.lower.types import Tensor

from .building import EVERYTHING, bundled_files, corpus_files
from .fuzz.model import drawn_model

SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 16, 32)
FILES = bundled_files(broken=True) + corpus_files()
SEEDS = range(200 if EVERYTHING else 20)


def drawn_sizes(a: ss.Analysis, rng: random.Random) -> list[dict[str, int]]:
    """Sizes drawn anyhow, and some that the contract accepts."""
    found = [{name: rng.choice(SIZES) for name in a.symbols} for _ in range(3)]
    with contextlib.suppress(NoSizes):
        found.append(Sizes(a, {}).drawn(rng))
    return found


def judge(model: object, seed: int) -> None:
    a = ss.analyze(model)
    if not all(isinstance(known, Tensor) and known.shape is not None for known in a.inputs.values()):
        return
    for sizes in drawn_sizes(a, random.Random(seed)):
        shapes = {n: tuple(d.evaluate(sizes) for d in known.shape) for n, known in a.inputs.items()}
        if any(d is None or d < 0 for shape in shapes.values() for d in shape):
            continue
        accepted = not a.check_inputs(shapes)
        assert accepted == (not a.evaluate(sizes).violations), sizes
        if accepted:
            assert ss.analyze(model, bind=sizes).ok, sizes
    for term in a.contract:  # the conditions that findings state
        assert isinstance(a.prove(term.cond), ss.Proved), term
    for finding in a.diagnostics:
        if len(finding.runs) == len(a.symbols):
            assert not a.evaluate(dict(finding.runs)).violations, finding
        if len(finding.fails) == len(a.symbols):
            assert not finding.fails or a.evaluate(dict(finding.fails)).violations, finding


@pytest.mark.parametrize("file", FILES, ids=lambda f: f"{f.parent.name}-{f.stem}")
def test_files(file: Path) -> None:
    judge(file, zlib.crc32(str(file.name).encode()))


@pytest.mark.parametrize("seed", SEEDS)
def test_drawn_graphs(seed: int) -> None:
    judge(drawn_model(seed).model, seed)
