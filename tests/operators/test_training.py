"""Losses against runs; optimizer steps and gradients by their text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shapesolve

from .conftest import FLOAT, INT64, agrees, one, shapes

LOSSES = ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"]
TRAINING = "ai.onnx.preview.training"


def labels(*sizes: str) -> Any:
    return lambda at: np.zeros([at[s] for s in sizes], np.int64)


@pytest.mark.parametrize("op_type", LOSSES)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses(op_type: str, reduction: str) -> None:
    inputs = ["N C L", "M K"]
    n_out = 2 if op_type == LOSSES[1] else 1
    model = one(op_type, inputs, {"reduction": reduction}, opset=13, dtypes=[FLOAT, INT64], n_out=n_out)
    agrees(model, {"x1": labels("M", "K")}, N=(0, 1, 3), C=(0, 5), L=(0, 1, 2), M=(0, 1, 3), K=(0, 1, 2))


@pytest.mark.parametrize("op_type", LOSSES)
def test_weighted_loss(op_type: str) -> None:
    model = one(op_type, ["N 5", "N", "5"], opset=13, dtypes=[FLOAT, INT64, FLOAT])
    agrees(model, {"x1": labels("N")}, N=(1, 3))


@pytest.mark.parametrize("op_type", LOSSES)
def test_known_labels_must_be_classes(op_type: str) -> None:
    model = one(op_type, ["2 C"], consts={1: np.array([0, 4])}, opset=13)
    agrees(model, C=(1, 4, 5, 6))


@pytest.mark.parametrize(("op_type", "states"), [("Adagrad", 1), ("Adam", 2), ("Momentum", 1)])
def test_optimizer_steps(op_type: str, states: int) -> None:
    attrs = {"alpha": 0.9, "beta": 0.9, "mode": "standard", "norm_coefficient": 0.1}
    n = 2 * (2 + states)
    kinds = [FLOAT, INT64, *[FLOAT] * n]
    model = one(
        op_type,
        ["", "", *["N 3", "M"] * (n // 2)],
        attrs if op_type == "Momentum" else {},
        opset=1,
        domain=TRAINING,
        dtypes=kinds,
        n_out=2 * (1 + states),
    )
    assert shapes(model) == ["[N, 3]", "[M]"] * (1 + states)
    model = one(
        "Momentum", ["", "", "N", "M", "K"], attrs, opset=1, domain=TRAINING, dtypes=kinds[:5], n_out=2
    )
    conditions = {str(e.cond) for e in shapesolve.analyze(model)._solved.walk.state.log}
    assert len(conditions) == 2


def test_gradients_have_the_shape_of_what_they_are_taken_of() -> None:
    model = one("Gradient", ["N 3", "M"], {"xs": ["x0", "x1"], "y": "y"}, opset=1, domain=TRAINING, n_out=2)
    assert shapes(model) == ["[N, 3]", "[M]"]
