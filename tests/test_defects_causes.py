"""Findings name the node that is at fault, where its sizes come from, and what makes it run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

import shapesolve as ss

from .test_defects_proofs import info, ints, model, run, z

N = helper.make_node


def weight(name: str, *shape: int) -> Any:
    return numpy_helper.from_array(np.zeros(shape, np.float32), name)


def patches(table: int) -> Any:
    """Patches of 4 x 4 with a token before them, to which a table of positions is added."""
    nodes = [
        N("Conv", ["x", "w"], ["c"], strides=[4, 4], name="patch"),
        N("Reshape", ["c", "flat"], ["f"]),
        N("Transpose", ["f"], ["p"], perm=[0, 2, 1]),
        N("Shape", ["x"], ["batch"], end=1),
        N("Concat", ["batch", "rest"], ["wide"], axis=0),
        N("Expand", ["token", "wide"], ["t"]),
        N("Concat", ["t", "p"], ["e"], axis=1),
        N("Add", ["e", "table"], ["y"], name="embed"),
    ]
    stored = [weight("w", 8, 3, 4, 4), weight("token", 1, 1, 8), weight("table", 1, table, 8)]
    stored += [ints("flat", [0, 8, -1]), ints("rest", [1, 8])]
    return model(nodes, [info("x", ["n", 3, "h", "w_"])], ["y"], stored)


def test_a_table_of_positions_is_named_where_it_decides() -> None:
    m = patches(5)
    assert run(m, x=z(1, 3, 8, 8))[0].shape == (1, 5, 8)
    with pytest.raises(Exception, match="embed"):
        run(m, x=z(1, 3, 12, 12))
    a = ss.analyze(m)
    (term,) = (t for t in a.contract if set(t.symbols) == {"h", "w_"})
    assert "embed" in term.nodes
    (found,) = (f for f in a.diagnostics if f.code == "SS404")
    assert (found.node, found.operands[0][0]) == ("embed", "table")


def scores(swapped: bool) -> Any:
    """Scores of queries against keys, whose heads were joined along the wrong axis (`swapped`: the operands are)."""
    nodes = [
        N("Reshape", ["x", "heads"], ["q"], name="split"),
        N("Transpose", ["q"], ["qt"], perm=[0, 2, 1, 3]),
        N("Concat", ["past", "qt"], ["k"], axis=1),
        N("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        N("MatMul", ["kt", "qt"] if swapped else ["qt", "kt"], ["y"], name="scores"),
    ]
    inputs = [info("x", ["n", "s", 32]), info("past", ["n", 2, "s", 16])]
    return model(nodes, inputs, ["y"], [ints("heads", [0, 0, 2, 16])])


@pytest.mark.parametrize("swapped", [False, True])
def test_operands_that_fit_no_way_round_are_not_advised_to(swapped: bool) -> None:
    for one in (False, True):
        with pytest.raises(Exception, match="scores"):
            run(scores(one), x=z(1, 3, 32), past=z(1, 2, 3, 16))
    (found,) = ss.analyze(scores(swapped)).diagnostics
    assert (found.node, found.help) == ("scores", "")


def test_an_element_is_not_taken_for_the_number_of_elements() -> None:
    m = model(
        [N("Reshape", ["x", "t"], ["r"]), N("Mul", ["r", "w"], ["y"], name="mul")],
        [info("x", ["n", 8])],
        ["y"],
        [ints("t", [0, 2, 3]), weight("w", 2)],
    )
    (found, *_) = ss.analyze(m).diagnostics
    assert not any("t has shape" in step.text for step in found.steps)


def test_what_a_fix_settles_as_well_is_not_told() -> None:
    def fully_connected(**attributes: int) -> Any:
        node = N("Gemm", ["x", "w", "b"], ["y"], name="fc", **attributes)
        return model([node], [info("x", ["n", 64])], ["y"], [weight("w", 10, 64), weight("b", 10)])

    assert run(fully_connected(transB=1), x=z(2, 64))[0].shape == (2, 10)
    (found,) = ss.analyze(fully_connected()).diagnostics
    assert found.help.endswith("fits with transB = 1")
    assert not ss.analyze(fully_connected(transB=1)).diagnostics


def test_a_weight_is_advised_with_those_that_must_fit_beside_it() -> None:
    def normed(n: int) -> Any:
        node = N("BatchNormalization", ["x", *"abcd"], ["y"])
        return model([node], [info("x", ["n", 6, "w"])], ["y"], [weight(name, n) for name in "abcd"])

    (found,) = ss.analyze(normed(4)).diagnostics
    assert found.help.startswith("a, b, c and d would fit with shape [6]")
    assert run(normed(6), x=z(2, 6, 3))[0].shape == (2, 6, 3)
