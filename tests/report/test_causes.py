"""Where equal numbers meet, `explain` and conflicts name the one that the size follows."""

from __future__ import annotations

import numpy as np
import pytest

import shapesolve as ss

from ..building import parsed


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


#: model, weights, and where the size of ``y[1]`` comes from: never from x, which holds the same number
CASES = {
    "square product": ("g (float[n, 8] x) => (y) { y = MatMul(x, w) }", {"w": [8, 8]}, "initializer w"),
    "channels": ("g (float[n, 16, h, k] x) => (y) { y = Conv(x, w) }", {"w": [16, 16, 3, 3]}, "initializer w"),
    "Gemm": ("g (float[n, 8] x) => (y) { y = Gemm<transB = 1>(x, w, b) }", {"w": [8, 8], "b": [8]}, "initializer w"),
    "table": ("g (float[n, 4] x, int64[4, m] at) => (y) { y = Gather<axis = 1>(x, at) }", {}, "input at"),
    "Einsum": ("g (float[n, 8] x) => (y) { y = Einsum<equation = \"ab,bc->ac\">(x, w) }", {"w": [8, 8]}, "initializer w"),
    "part": ("g (float[n, 4, 4] x) => (y) { y, i = TopK<axis = 1>(x, k) }", {"k": ints(4)}, "initializer k"),
    "target": ("g (float[n, 6] x) => (y) { y = Reshape(x, t) }", {"t": ints(-1, 6)}, "initializer t"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_place_that_a_size_follows_is_named(name: str) -> None:
    text, weights, cause = CASES[name]
    told = str(ss.analyze(parsed(text, **weights)).explain("y", 1))
    assert cause in told
    assert "input x" not in told


@pytest.mark.parametrize(("w", "bad"), [((8, 8), (9, 5)), ((16, 16), (12, 16)), ((8, 8), (7, 8))])
def test_a_conflict_names_the_weight_and_not_the_input(w: tuple[int, int], bad: tuple[int, int]) -> None:
    text = f"g (float[n, {w[0]}] x) => (y) {{ a = MatMul(x, w1)  b = MatMul(a, w2)  y = MatMul(b, w3) }}"
    (finding,) = ss.analyze(parsed(text, w1=w, w2=w, w3=bad)).diagnostics
    assert f"b[1] is {w[1]}: initializer w2" in finding.steps[0].text
