"""Normalization: shapes and what the runtime refuses, held against runs."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

import shapesolve

from .conftest import RunFailed, agrees, one, run, shapes

BATCH = "BatchNormalization"
PER_CHANNEL = [*["C"] * 4]


@pytest.mark.parametrize("opset", [9, 14, 15, 21])
@pytest.mark.parametrize("x", ["N 3", "N 3 L", "N 3 H W"])
def test_batch_normalization_runs_with_one_statistic_per_channel(opset: int, x: str) -> None:
    model = one(BATCH, [x, *PER_CHANNEL], opset=opset)
    agrees(model, N=(0, 1, 2), L=(0, 3), H=(1,), W=(3,), C=(1, 3, 4))


def test_batch_normalization_of_a_vector_has_one_channel() -> None:
    agrees(one(BATCH, ["N", *PER_CHANNEL], opset=15), N=(0, 1, 5), C=(1, 5))


@pytest.mark.parametrize("spatial", [0, 1])
def test_batch_normalization_could_be_per_feature(spatial: int) -> None:
    rank = "C" if spatial else "C L"
    model = one(BATCH, ["N 3 4", *[rank] * 4], {"spatial": spatial}, opset=7)
    agrees(model, N=(0, 2), C=(3, 4), L=(4, 5))


def test_batch_normalization_in_training() -> None:
    model = one(BATCH, ["N 3 L", *PER_CHANNEL], {"training_mode": 1}, opset=15, n_out=3)
    assert shapes(model) == ["[N, 3, L]", "[3]", "[3]"]
    agrees(model, N=(1, 2), L=(1, 3), C=(3, 4))


@pytest.mark.parametrize("opset", [1, 6, 7, 9])
def test_batch_normalization_with_five_outputs(opset: int) -> None:
    attrs = {"consumed_inputs": [0, 0]} if opset == 1 else {}
    model = one(BATCH, ["N 3 L", *PER_CHANNEL], attrs, opset=opset, n_out=5)
    assert shapes(model) == ["[N, 3, L]", *["[3]"] * 4]


def test_instance_normalization() -> None:
    model = one("InstanceNormalization", ["N C L", "D", "E"])
    agrees(model, N=(0, 2), C=(0, 1, 3), L=(0, 1, 4), D=(1, 3), E=(3,))


@pytest.mark.parametrize("opset", [18, 21])
def test_group_normalization(opset: int) -> None:
    model = one("GroupNormalization", ["N C L", "D", "E"], {"num_groups": 2}, opset=opset)
    agrees(model, N=(0, 1, 2), C=(0, 2, 4, 5), L=(0, 3), D=(1, 2, 4), E=(2, 4))


@pytest.mark.parametrize("opset", [18, 21])
def test_groups_of_no_channels_run_in_onnxruntime_and_are_not_accepted(opset: int) -> None:
    """The result has channels that the input has not; of the other empty tensors, none runs."""
    model = one("GroupNormalization", ["N C H W", "D", "D"], {"num_groups": 2}, opset=opset)
    analysis = shapesolve.analyze(model)
    ran = []
    for sizes in product((0, 1, 2), (0, 2), (0, 3), (0, 1)):
        at = dict(zip("NCHWD", (*sizes, 2), strict=True))
        try:
            (result,) = run(model, {}, at)
        except RunFailed:
            continue
        ran += [(sizes, result.shape)] if 0 in sizes else []
        assert analysis.contract.holds(at) == (0 not in sizes)
    assert ran == [((n, 0, 0, 1), (n, 2, 0, 1)) for n in (1, 2)]


@pytest.mark.parametrize(
    ("scale", "axis"), [("D", -1), ("D", 1), ("C D", 1), ("C D", -1), ("B C D", -1), ("", -1)]
)
def test_layer_normalization_broadcasts_scale_and_bias_one_way(scale: str, axis: int) -> None:
    model = one("LayerNormalization", ["N S 4", scale, scale], {"axis": axis}, n_out=3)
    agrees(model, N=(0, 1, 2), S=(0, 1, 3), B=(1, 2), C=(1, 3), D=(1, 4, 3))


def test_layer_normalization_needs_something_to_normalize() -> None:
    agrees(one("LayerNormalization", ["N H", "H"]), N=(0, 2), H=(0, 1, 3))
    agrees(one("RMSNormalization", ["N H", "H"], opset=23), N=(0, 2), H=(0, 1, 3))


def test_statistics_of_layer_normalization_keep_the_axes_as_ones() -> None:
    model = one("LayerNormalization", ["N S H", "H"], {"axis": -2}, n_out=3)
    assert shapes(model) == ["[N, S, H]", "[N, 1, 1]", "[N, 1, 1]"]


@pytest.mark.parametrize(("scale", "axis"), [("D", -1), ("C D", 1), ("B C D", -1)])
def test_rms_normalization(scale: str, axis: int) -> None:
    model = one("RMSNormalization", ["N S 4", scale], {"axis": axis}, opset=23)
    agrees(model, N=(0, 2), S=(1, 3), B=(1, 2), C=(1, 3), D=(1, 4, 3))


@pytest.mark.parametrize(
    ("op_type", "attrs", "opset"),
    [
        ("LRN", {"size": 3}, 13),
        ("MeanVarianceNormalization", {}, 13),
        ("MeanVarianceNormalization", {"axes": [0, 1]}, 9),
        ("LpNormalization", {"axis": 1}, 1),
        ("LpNormalization", {}, 22),
    ],
)
def test_shape_is_kept(op_type: str, attrs: dict[str, Any], opset: int) -> None:
    model = one(op_type, ["N C H 3"], attrs, opset=opset)
    assert shapes(model) == ["[N, C, H, 3]"]
    if opset != 1:
        agrees(model, N=(0, 1, 2), C=(1, 3), H=(1, 5))


def test_an_unknown_rank_stays_unknown() -> None:
    assert shapes(one("LayerNormalization", ["?", "C"], n_out=2)) == [None, None]
    assert shapes(one(BATCH, ["?", *PER_CHANNEL])) == [None]
    assert shapes(one("InstanceNormalization", ["?", "C", "C"])) == [None]
