"""Comparing two models."""

from __future__ import annotations

import pytest

from shapesolve.change.compare.diff import diff

from .broken import ints, model

HALF = "g (float[N, 4] x) => (y) { [a] s = Slice(x, zero, big, axis, two) [b] y = Relu(s) }"
STEPS = {"zero": ints(0), "big": ints(2**31), "axis": ints(0), "two": ints(2)}
BASE = model(HALF, **STEPS)


def test_a_model_and_itself() -> None:
    found = diff(BASE, BASE)
    assert found.same
    assert [o.verdict for o in found.outputs] == ["same"]
    assert "unchanged" in str(found)


def test_other_names_for_the_same_dims_do_not_matter() -> None:
    found = diff(BASE, model(HALF.replace("[N, 4]", "[rows, 4]"), **STEPS))
    assert found.same
    assert found.renamed == {"rows": "N"}


def test_two_expressions_of_one_size_are_proved_the_same() -> None:
    other = model(
        "g (float[N, 4] x) => (y) { [a] y = MaxPool1(x) }".replace(
            "MaxPool1(x)", "Slice(x, zero, big, axis, two)"
        ),
        **STEPS,
    )
    found = diff(BASE, other)
    assert found.outputs[0].verdict == "same"
    assert found.same


def test_an_output_that_differs_comes_with_sizes() -> None:
    found = diff(BASE, model("g (float[N, 4] x) => (y) { [a] y = Relu(x) }"))
    (out,) = found.outputs
    assert out.verdict == "differs"
    assert "N = " in out.why
    assert not found.same


def test_contracts_and_requirements_are_compared() -> None:
    free = model("g (float[N, K] x) => (y) { [a] y = Relu(x) }")
    bound = model(
        "g (float[N, K] x) => (y) { [a] h = MatMul(x, w) [b] y = Concat<axis: int = 1>(h, x) }", w=[6, 6]
    )
    found = diff(free, bound)
    assert found.contract.added == ("K == 6",)
    assert found.requirements_added == ("a: K == 6",)
    assert not found.same


@pytest.mark.parametrize("swap", [False, True])
def test_names_that_mean_other_things_are_kept_apart(swap: bool) -> None:
    a = model("g (float[M, N] x) => (y) { [a] y = Relu(x) }")
    b = model("g (float[N, M] x) => (y) { [a] y = Relu(x) }")
    found = diff(b, a) if swap else diff(a, b)
    assert found.same


def test_sizes_that_depend_on_data_are_not_decided() -> None:
    m = model("g (float[N] x) => (y) { [a] y = NonZero(x) }")
    assert diff(m, m).outputs[0].verdict == "open"
