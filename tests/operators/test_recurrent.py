"""Recurrent layers. Sizes at which the runtime's kernels abort the process are predicted, not run."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import shapesolve

from .conftest import FLOAT, INT32, agrees, broken, one, shapes, text

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
HIDDEN = 4


def layer(
    op_type: str,
    *more: str | None,
    x: str = "S B 3",
    directions: str = "D",
    direction: str = "forward",
    **attrs: int,
) -> onnx.ModelProto:
    wide = GATES[op_type] * HIDDEN
    inputs = [x, f"{directions} {wide} 3", f"{directions} {wide} {HIDDEN}", *more]
    kinds = [INT32 if i == 4 else FLOAT for i in range(len(inputs))]
    opset = attrs.pop("opset", 14)
    return one(
        op_type,
        inputs,
        {"hidden_size": HIDDEN, "direction": direction, **attrs},
        n_out=3 if op_type == "LSTM" else 2,
        dtypes=kinds,
        opset=opset,
    )


@pytest.mark.parametrize("op_type", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("opset", [7, 14, 22])
def test_directions(op_type: str, direction: str, opset: int) -> None:
    agrees(layer(op_type, direction=direction, opset=opset), S=(1, 5), B=(1, 2), D=(1, 2))


@pytest.mark.parametrize("op_type", GATES)
def test_bias_and_states_must_fit(op_type: str) -> None:
    bias = f"1 {2 * GATES[op_type] * HIDDEN}"
    model = layer(op_type, bias, "L", "E C H", directions="1")
    agrees(
        model,
        {"x4": lambda at: np.ones(at["L"], np.int32)},
        S=(3,),
        B=(2,),
        L=(1, 2),
        E=(1, 2),
        C=(1, 2),
        H=(4, 5),
    )


def test_cell_state_and_peepholes() -> None:
    model = layer("LSTM", None, None, None, "1 C 4", "1 P", directions="1")
    agrees(model, S=(2,), B=(2,), C=(1, 2), P=(4, 12))


@pytest.mark.parametrize("op_type", GATES)
def test_batch_first(op_type: str) -> None:
    model = layer(
        op_type, None, None, "B 2 4", x="B S 3", directions="2", direction="bidirectional", layout=1
    )
    expected = ["[B, S, 2, 4]", "[B, 2, 4]", "[B, 2, 4]"]
    assert shapes(model) == expected[: len(model.graph.output)]


@pytest.mark.parametrize(
    ("op_type", "at", "runs"),
    [
        ("LSTM", {"S": 0, "B": 2}, True),
        ("LSTM", {"S": 5, "B": 0}, False),
        ("GRU", {"S": 0, "B": 2}, False),
        ("GRU", {"S": 5, "B": 0}, False),
        ("GRU", {"S": 5, "B": 2}, True),
        ("RNN", {"S": 0, "B": 0}, True),
    ],
)
def test_empty_inputs(op_type: str, at: dict[str, int], runs: bool) -> None:
    analysis = shapesolve.analyze(layer(op_type, directions="1"))
    assert (broken(analysis, at) == "") is runs


def test_known_lengths_must_not_exceed_the_sequence() -> None:
    inputs = ["S 2 3", "1 12 3", "1 12 4", None]
    model = one("GRU", inputs, {"hidden_size": 4}, {4: np.array([3, 5], np.int32)}, n_out=2)
    agrees(model, S=(1, 4, 5, 6))


def test_lengths_of_no_sequences_exceed_nothing() -> None:
    nodes = """s = Shape(x) b = Slice(s, one, two) ends = Expand(one, b) lens = Cast<to=6>(ends)
        y = RNN<hidden_size=4>(x, w, r, , lens)"""
    model = text("float[S, B, 3] x, float[1, 4, 3] w, float[1, 4, 4] r", f"{_NUMBERS} {nodes}")
    analysis = agrees(model, S=(0, 1, 2), B=(0, 1, 2))
    assert [str(t) for t in analysis.contract] == ["B == 0 or S >= 1"]


_NUMBERS = "one = Constant<value_ints=[1]>() two = Constant<value_ints=[2]>()"


def test_hidden_size_comes_from_the_weights_when_the_attribute_is_missing() -> None:
    assert shapes(one("LSTM", ["S B 3", "1 W 3", "1 W H"], n_out=2)) == ["[S, 1, B, H]", "[1, B, H]"]
    assert shapes(one("LSTM", ["S B 3", "1 20 3", "?"], n_out=2)) == ["[S, 1, B, 5]", "[1, B, 5]"]


def test_unknown_direction_cannot_run() -> None:
    assert shapesolve.analyze(layer("LSTM", direction="sideways")).conflicts


@pytest.mark.parametrize(("op_type", "opset"), [("LSTM", 1), ("RNN", 1), ("GRU", 1), ("GRU", 3)])
def test_first_versions(op_type: str, opset: int) -> None:
    model = layer(op_type, directions="1", opset=opset, output_sequence=1)
    assert shapes(model)[:2] == ["[S, 1, B, 4]", "[1, B, 4]"]
