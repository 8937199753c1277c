"""Operands with their axes in another order: what is advised is done by hand, and onnxruntime runs it at other sizes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import shapesolve as ss

from .. import building
from .broken import model

#: a graph with an operand as it is and as it should be, the sizes that have to run, and the advice
SWAPPED = {
    "keys": (
        "g (float[batch, seq, 64] q, float[batch, seq, 64] k) => (float[a, b, c] y) {{ {swap} y = MatMul(q, {operand}) }}",
        "k",
        [0, 2, 1],
        ("batch", "seq"),
        {},
    ),
    "channels_last": (
        "g (float[batch, height, width, 3] x) => (float[a, b, c, d] y) {{ {swap} y = Conv({operand}, w) }}",
        "x",
        [0, 3, 1, 2],
        ("batch", "height", "width"),
        {"w": [8, 3, 3, 3]},
    ),
    "weight": (
        "g (float[batch, seq, 32] x, float[n, 32] w) => (float[a, b, c] y) {{ {swap} y = MatMul(x, {operand}) }}",
        "w",
        [1, 0],
        ("batch", "seq", "n"),
        {},
    ),
}
#: nothing is the other way round there: with the axes swapped another size has only one value
AS_MEANT = {
    "features": ("g (float[batch, feat] x) => (float[a, b] y) { y = MatMul(x, w) }", {"w": [10, 32]}),
    "channels": (
        "g (float[batch, chans, height, width] x) => (float[a, b, c, d] y) { y = Conv(x, w) }",
        {"w": [8, 3, 3, 3]},
    ),
    "both": (
        "g (float[batch, seq, 32] x, float[n, k] w) => (float[a, b, c] y) { y = MatMul(x, w) }",
        {},
    ),
}


def _runs(m: onnx.ModelProto, sizes: dict[str, int]) -> bool:
    session = building.session(m)
    shapes = {i.name: [sizes.get(d, d) for d in i.shape] for i in session.get_inputs()}
    try:
        session.run(None, {name: np.zeros(shape, "f4") for name, shape in shapes.items()})
    except Exception:  # onnxruntime raises a dozen classes of its own
        return False
    return True


@pytest.mark.parametrize("name", SWAPPED)
def test_the_swap_that_is_advised_makes_the_model_run_at_every_size(name: str) -> None:
    text, operand, order, names, weights = SWAPPED[name]
    given = model(text.format(swap="", operand=operand), **weights)
    advice = [f.help for f in ss.analyze(given).diagnostics if f.code in ("SS401", "SS405")]
    assert len(advice) == 1
    assert f"a Transpose (perm = {order}) between {operand} and" in advice[0]
    assert "declare" not in advice[0]
    swap = f"swapped = Transpose<perm = {order}>({operand})"
    mended = model(text.format(swap=swap, operand="swapped"), **weights)
    for sizes in ((3, 4, 5), (1, 9, 7), (2, 3, 6)):
        chosen = dict(zip(names, sizes, strict=False))
        assert _runs(mended, chosen)
    assert not _runs(given, dict(zip(names, (2, 5, 7), strict=False)))


@pytest.mark.parametrize("name", AS_MEANT)
def test_no_swap_is_advised_where_it_fixes_another_size(name: str) -> None:
    text, weights = AS_MEANT[name]
    found = [f for f in ss.analyze(model(text, **weights)).diagnostics if f.code in ("SS401", "SS405")]
    assert found
    assert all("Transpose" not in f.help for f in found)
