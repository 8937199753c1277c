"""Signal processing against runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shapesolve
from shapesolve.expr import Shape

from .conftest import INT64, agrees, broken, one, shapes


@pytest.mark.parametrize("inverse", [0, 1])
@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("opset", [17, 20])
def test_dft(inverse: int, onesided: int, opset: int) -> None:
    model = one("DFT", ["B N C"], {"inverse": inverse, "onesided": onesided}, opset=opset)
    real = onesided and not inverse
    agrees(model, B=(0, 2), N=(0, 1, 2, 7), C=(0, 1, 3) if real else (0, 1, 2, 3))
    assert not real or broken(shapesolve.analyze(model), {"B": 2, "N": 2, "C": 2})


@pytest.mark.parametrize("inverse", [0, 1])
@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("length", [0, 1, 4, 9])
def test_dft_of_a_given_length(inverse: int, onesided: int, length: int) -> None:
    attrs = {"inverse": inverse, "onesided": onesided}
    model = one(
        "DFT", [f"B N {1 if onesided and not inverse else 2}"], attrs, {1: np.int64(length)}, opset=20
    )
    agrees(model, B=(0, 2), N=(0, 1, 6))


@pytest.mark.parametrize(("axis", "expected"), [(1, "[B, N//2 + 1, M, 2]"), (-2, "[B, N, M//2 + 1, 2]")])
def test_dft_axis(axis: int, expected: str) -> None:
    model = one("DFT", ["B N M 1", None], {"onesided": 1}, {2: np.int64(axis)}, opset=20)
    assert shapes(model) == [expected]
    agrees(model, B=(2,), N=(1, 6), M=(5,))
    assert shapes(one("DFT", ["B N M 1"], {"onesided": 1, "axis": axis}, opset=17)) == [expected]


def test_dft_along_an_unknown_axis_keeps_the_rank() -> None:
    model = one("DFT", ["B N 1", None, ""], dtypes=[1, INT64, INT64], opset=20)
    found = agrees(model, {"x2": np.int64(0)}, B=(2,), N=(3,))
    assert len(found.shapes["y0"]) == 3


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("signal", ["B L", "B L 1", "B L 2"])
def test_stft_counts_whole_frames(onesided: int, signal: str) -> None:
    model = one("STFT", [signal, "W"], {"onesided": onesided}, {1: np.int64(3)}, opset=17)
    agrees(model, B=(0, 2), L=(1, 7, 8, 9, 20), W=(1, 7, 8))


@pytest.mark.parametrize("step", [-1, 0, 1, 5])
@pytest.mark.parametrize("window", [None, "W"])
def test_stft_frame_length(step: int, window: str | None) -> None:
    consts: dict[int, Any] = {1: np.int64(step), 3: np.int64(8)}
    model = one("STFT", ["B L 1", window], consts=consts, opset=17)
    agrees(model, B=(1,), L=(7, 8, 21), W=(7, 8))


def test_stft_frames_and_frequencies() -> None:
    model = one("STFT", ["B L 1", "W"], consts={1: np.int64(160)}, opset=17)
    assert shapesolve.analyze(model).shapes["y0"] == Shape(["B", "(L - W)//160 + 1", "W//2 + 1", 2])


@pytest.mark.parametrize("bins", [0, 8])
@pytest.mark.parametrize("length", [0, 16])
def test_mel_weight_matrix(bins: int, length: int) -> None:
    consts: dict[int, Any] = {0: np.int64(bins), 1: np.int64(length), 2: np.int64(8192)}
    consts |= {3: np.float32(0), 4: np.float32(4096)}
    model = one("MelWeightMatrix", consts=consts, attrs={"output_datatype": 11}, opset=17)
    assert shapes(model) == [f"[{length // 2 + 1}, {bins}]"]
    agrees(model)
