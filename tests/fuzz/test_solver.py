"""A short campaign of questions with a fixed seed, and that wrong answers are seen."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from types import SimpleNamespace
from typing import Any

import pytest

import shapesolve

from ..building import EVERYTHING
from ..expr.trees import Undefined, points, text, value
from . import solver
from .solver import Answers, batch, campaign

#: not yet kept: that what is printed reads as the same object
OPEN = {"printing"}


def test_answers_agree_with_brute_force() -> None:
    count = 8_000 if EVERYTHING else 1_000
    totals = campaign(count, seed=0)
    assert totals.asked >= count
    assert totals.decided > count / 20
    assert [f for f in totals.faults if f[1] not in OPEN] == []


def test_trees_mean_what_python_means() -> None:
    tree = ("if", ("<", "a", 3), ("//", ("max", "a", 5), 2), ("-", "b", -1))
    assert text(tree) == "((max(a, 5) // 2) if a < 3 else (b - (-1)))"
    for at in points(("a", "b")):
        a, b = at["a"], at["b"]
        assert value(tree, at) == (max(a, 5) // 2 if a < 3 else b + 1)
    with pytest.raises(Undefined):
        value(("%", "a", "b"), {"a": 1, "b": 0})


def run(steps: Iterator[str]) -> Any:
    """The answer of a generator."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return stop.value


class _Wrong:
    """A dim or condition of which everything is a little off."""

    def __init__(self, real: Any) -> None:
        self.real = real
        self.free_symbols = {"z"}
        self.is_true = self.is_false = True

    def evaluate(self, at: Any) -> Any:
        got = self.real.evaluate(at)
        return (
            None
            if got is None
            else got + 1
            if isinstance(got, int) and not isinstance(got, bool)
            else not got
        )

    def bounds(self) -> tuple[int, int]:
        return 100, 101

    def subs(self, changes: Any) -> _Wrong:
        return _Wrong(self.real)

    def __str__(self) -> str:
        return str(self.real)


def test_wrong_algebra_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = SimpleNamespace(
        DimSyntaxError=shapesolve.DimSyntaxError,
        analyze=shapesolve.analyze,
        parse_dim=lambda t: _Wrong(shapesolve.parse_dim(t)),
        parse_cond=lambda t: _Wrong(shapesolve.parse_cond(t)),
    )
    monkeypatch.setattr(solver, "shapesolve", wrong)
    monkeypatch.setattr(solver, "_sympy", lambda *_: None)
    monkeypatch.setattr(solver, "_z3", lambda *_: None)
    seen = {category for seed in range(3) for category, _ in run(batch(seed, claims=0)).wrong}
    assert {"free symbols", "value", "bounds", "printing", "subs", "truth", "is_true", "is_false"} <= seen


def test_wrong_proofs_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = cycle(("Proved", "Refuted"))

    def prove(claim: str) -> Any:
        at = {"a": 1, "b": 1, "c": 1}
        return type(next(kinds), (), {"assumptions": (), "counterexample": at})()

    def analyze(model: Any, assume: list[str]) -> Any:
        conflicts = ["a conflict"] if len(assume) == 1 else []
        measures = {"bounds": lambda t: (50, 51), "divisor": lambda t: 1000}
        return SimpleNamespace(conflicts=conflicts, prove=prove, **measures)

    monkeypatch.setattr(
        solver,
        "shapesolve",
        SimpleNamespace(analyze=analyze, DimSyntaxError=shapesolve.DimSyntaxError),
    )
    seen = {category for seed in range(30) for category, _ in run(batch(seed, expressions=0)).wrong}
    assert {"false proof", "false refutation", "false conflict", "false bounds", "false divisor"} <= seen
    assert isinstance(run(batch(1, 0, 0)), Answers)
