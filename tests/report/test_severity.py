"""Sizes that stay behind in an export, put into models that run: each is a warning, and the models as they are have none."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.corpus import model_files
from benchmarks.severity import KINDS, Case, baked_cases, worst

from ..building import EVERYTHING

FILES = model_files(Path(__file__).resolve().parents[1] / "models", "")


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.parent.name)
def test_a_model_that_runs_as_it_is_declared_has_no_finding_above_info(file: Path) -> None:
    assert worst(file) in ("info", "none")


def test_every_kind_of_size_that_stays_behind_is_a_warning() -> None:
    cases: list[Case] = []
    for file in sorted(FILES, key=lambda f: f.stat().st_size):
        if EVERYTHING or {case.kind for case in cases} != set(KINDS):
            cases += baked_cases(file, 2 if EVERYTHING else 1)
    assert {case.kind for case in cases} == set(KINDS)
    assert [case for case in cases if case.severity not in ("error", "warning")] == []
