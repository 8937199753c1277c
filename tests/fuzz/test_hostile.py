"""A short campaign of damaged files with a fixed seed, and that what goes wrong is seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

import shapesolve
from shapesolve import ModelError
from tests.building import seeds

from .hostile import MUTATIONS, campaign, damaged, original, tried
from .isolate import Worker, answers
from .test_solver import run

COUNT = len(seeds(0, 200, share=10))


def test_damaged_files_are_analyzed_or_refused_in_a_sentence() -> None:
    totals = campaign(range(COUNT))
    assert totals.files == COUNT
    assert COUNT / 4 < totals.refused < COUNT * 0.9
    assert totals.faults == []


@pytest.mark.parametrize("mutation", sorted(set(MUTATIONS), key=str), ids=lambda m: m.__name__)
def test_each_mutation_changes_most_files(mutation: Callable[[Random, bytes], bytes]) -> None:
    changed = 0
    for seed in range(12):
        data = original(Random(seed))
        changed += mutation(Random(seed), data) != data
    assert changed >= 6


def test_the_same_seed_damages_in_the_same_way() -> None:
    assert damaged(5) == damaged(5) != damaged(6)


class _Error(ModelError):
    """Refuses in two lines."""

    def __str__(self) -> str:
        return "one\n\x1b[31mtwo"


@pytest.mark.parametrize(
    ("category", "error"),
    [("message", _Error("x")), ("traceback", ValueError("x")), ("traceback", KeyError("x"))],
)
def test_what_goes_wrong_is_seen(monkeypatch: pytest.MonkeyPatch, category: str, error: Exception) -> None:
    def analyze(_: bytes) -> Any:
        raise error

    monkeypatch.setattr(shapesolve, "analyze", analyze)
    assert category in {c for c, _ in run(tried(3)).wrong}


def test_a_file_that_takes_too_long_or_too_much_is_seen() -> None:
    causes = []
    for work in (_forever, _greedy, _crash):
        ((_, lost),) = answers(Worker(work, (0,), seconds=0), range(1, 2))
        causes.append(lost.cause.split()[0])
    assert causes == ["hang", "memory", "crash"]


def _forever(seed: int) -> Iterator[str]:
    yield "analysis"
    while seed:
        pass
    return seed


def _greedy(seed: int) -> Iterator[str]:
    yield "analysis"
    return len(bytearray(3 << 30)) if seed else 0


def _crash(seed: int) -> Iterator[str]:
    import os

    yield "analysis"
    if seed:
        os.abort()
    return seed
