"""Sizes that stay behind in an export, put into models that run: each is a warning, and the models as they are have none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import shapesolve
from benchmarks.corpus import model_files
from benchmarks.severity import KINDS, Case, baked_cases, worst

from ..building import EVERYTHING, parsed

FILES = model_files(Path(__file__).resolve().parents[1] / "models", "")
#: models that have a size of each kind
HAVE_ALL = ("bert_eager__ts", "lstm_tagger__ts", "t5_encoder__ts", "unet_interp__dynamo")


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.parent.name)
def test_a_model_that_runs_as_it_is_declared_has_no_finding_above_info(file: Path) -> None:
    assert worst(file) in ("info", "none")


def test_every_kind_of_size_that_stays_behind_is_a_warning() -> None:
    cases: list[Case] = []
    for file in FILES:
        if EVERYTHING or file.parent.name in HAVE_ALL:
            cases += baked_cases(file, 2 if EVERYTHING else 1)
    assert {case.kind for case in cases} == set(KINDS)
    assert [case for case in cases if case.severity not in ("error", "warning")] == []


def test_a_table_of_positions_beside_a_class_token_is_a_size_of_the_example() -> None:
    """Its condition also holds at sizes that leave no patches: the token alone is broadcast."""
    text = """g (float[1, 1, h, h] x) => (y) {
        pooled = MaxPool <kernel_shape = [4, 4], strides = [4, 4]> (x)
        patches = Reshape (pooled, target)
        tokens = Concat <axis = 1> (token, patches)
        y = Add (tokens, positions)
    }"""
    tables = {"token": [1, 1], "positions": [1, 257], "target": np.array([1, -1])}
    (finding,) = [
        f for f in shapesolve.analyze(parsed(text, **tables)).diagnostics if f.severity == "warning"
    ]
    assert finding.code == "SS404"
    assert "64 <= h <= 67" in finding.condition
    assert "[1, 1]" not in finding.help


def test_that_not_every_size_is_0_is_no_restriction() -> None:
    text = """g (float[batch, seq] x) => (y) {
        sizes = Shape <start = 1> (x)
        target = Concat <axis = 0> (rest, sizes)
        y = Reshape <allowzero = 1> (x, target)
    }"""
    analysis = shapesolve.analyze(parsed(text, rest=np.array([-1])))
    assert [term.text for term in analysis.contract] == ["batch >= 1 or seq >= 1"]
    assert list(analysis.diagnostics) == []
