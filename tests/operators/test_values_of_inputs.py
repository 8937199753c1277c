"""Integers that are inputs: what is computed of them keeps its relation to them."""

from __future__ import annotations

import numpy as np
import pytest

import shapesolve as ss

from ..building import parsed, run

#: constants: numbers, and vectors of one number with an underscore
STORED = {
    f"{name}{mark}": np.array([n] if mark else n)
    for name, n in {"z": 0, "one": 1, "two": 2, "four": 4}.items()
    for mark in ("", "_")
}
SCALAR, VECTOR = "int64 k", "int64[1] k"


@pytest.mark.parametrize(
    ("given", "nodes"),
    [
        (SCALAR, "e = Add(k, four) y = Range(k, e, one)"),
        (SCALAR, "e = Sub(k, two) y = Range(e, k, one)"),
        (SCALAR, "d = Mul(k, two) e = Add(d, four) y = Range(d, e, two)"),
        (SCALAR, "c = Cast<to = 6>(k) b = Cast<to = 7>(c) e = Add(b, four) y = Range(k, e, one)"),
        (SCALAR, "u = Unsqueeze(k, z_) t = Concat<axis = 0>(u, u) y = Expand(f, t)"),
        (SCALAR, "m = Max(k, four) t = Unsqueeze(m, z_) y = ConstantOfShape(t)"),
        (VECTOR, "t = Concat<axis = 0>(k, k) y = Expand(f, t)"),
        (VECTOR, "t = Concat<axis = 0>(k, four_, k) y = ConstantOfShape(t)"),
        (VECTOR, "t = Add(k, one_) y = Tile(v, t)"),
        (VECTOR, "m = Mul(k, two_) t = Concat<axis = 0>(m, k) y = Expand(f, t)"),
        (VECTOR, "e = Add(k, four_) y = Slice(table, k, e)"),
        (VECTOR, "s = Squeeze(k, z_) e = Add(s, four) y = Range(s, e, one)"),
        (VECTOR, "q = Div(k, two_) e = Add(q, one_) t = Concat<axis = 0>(q, e) y = ConstantOfShape(t)"),
        ("int64[2] k", "a = Gather(k, z) b = Gather(k, one) e = Add(a, b) y = Range(b, e, one)"),
    ],
)  # fmt: skip
def test_sizes_are_expressions_of_the_input(given: str, nodes: str) -> None:
    model = parsed(
        f"g ({given}) => (y) {{ {nodes} }}",
        f=np.float32([1]),
        v=np.zeros(3, np.float32),
        table=(64, 3),
        **STORED,
    )
    a = ss.analyze(model)
    names = [n for n, why in a._solved.walk.state.reasons.items() if why == "k" or why.endswith("of k")]
    for number in (0, 1, 3, 10, 62):
        numbers = [number] if "2" not in given else [number, number + 1]
        feed = np.array(numbers).reshape(() if given == SCALAR else (-1,))
        shape = run(model, {"k": feed})[0].shape
        assert [d.evaluate(dict(zip(names, numbers, strict=False))) for d in a.shapes["y"]] == list(shape), (
            a.shapes["y"]
        )


@pytest.mark.parametrize("rows", [16, 64])
@pytest.mark.parametrize("joined", ["w = Add(x, y)", "w = Mul(y, x)", "w = Where(b, x, y)"])
def test_a_limit_of_positions_is_found(joined: str, rows: int) -> None:
    """Rows from an offset on of a table, added to as many tokens: they must end within it."""
    text = f"g (int64[1] k, float[t, 3] x) => (w) {{ s = Shape<end = 1>(x) e = Add(k, s) y = Slice(table, k, e, z_) {joined} }}"
    model = parsed(text, table=(rows, 3), b=np.array([True]), **STORED)
    a = ss.analyze(model)
    (finding,) = a.diagnostics
    assert finding.node
    (term,) = a.contract.internal
    (symbol,) = term.cond.free - {"t"}
    for t in (2, 5):
        for k in (0, rows - t, rows - t + 1):
            feeds = {"k": np.array([k]), "x": np.zeros((t, 3), np.float32)}
            try:
                run(model, feeds)
                runs = True
            except Exception:
                runs = False
            assert term.cond.evaluate({symbol: k, "t": t}) == runs, (t, k)
