"""Resize and Upsample, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shapesolve

from .conftest import agrees, one, shapes, text

SIZES = (0, 1, 2, 3, 5, 7, 10, 33, 190)


def scales(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("scale", "result"),
    [
        (2.0, "2*H"),
        (1.0, "H"),
        (0.5, "H//2"),
        (1.5, "3*H//2"),
        (0.25, "H//4"),
        (1 / 3, "H//3"),
        (2 / 3, "2*H//3"),
        (0.1, "H//10"),
        (0.7, "7*H//10"),
    ],
)
def test_scale_is_a_simple_fraction(scale: float, result: str) -> None:
    model = one("Resize", ["N H", None], {}, {2: scales(1, scale)}, opset=13)
    assert str(shapesolve.analyze(model).shapes["y0"][1]) == str(shapesolve.Dim(result))
    agrees(model, N=(0, 2), H=SIZES)


@pytest.mark.parametrize("scale", [1.3, 2.2, 3.14159, 0.0123])
def test_a_scale_that_float32_blurs_stays_within_bounds(scale: float) -> None:
    analysis = agrees(one("Resize", ["H 3", None], {}, {2: scales(scale, 2)}, opset=18), H=SIZES)
    found = analysis.shapes["y0"][0]
    for size in (*range(2000), 65_537, 5_000_001):
        truth = int(np.float32(size) * np.float32(scale))
        at = {"H": size, **({found.name: truth} if found.name != "H" else {})}
        assert found.evaluate(at) == truth
        for entry in analysis._solved.walk.state.log:
            assumed = entry.role == "assumption" and size >= 2**17
            assert assumed or entry.cond.evaluate(at) is not False


@pytest.mark.parametrize("opset", [10, 11, 13, 18, 19, 21])
def test_scales_in_every_version(opset: int) -> None:
    empty = np.zeros(0, np.float32)
    given = {1: scales(2, 0.5)} if opset == 10 else {1: empty, 2: scales(2, 0.5)}
    agrees(one("Resize", ["A B"], {}, given, opset=opset), A=SIZES, B=SIZES)


@pytest.mark.parametrize("bad", [scales(0, 1), scales(-1, 1), scales(1, 1, 1)])
def test_scales_that_cannot_be(bad: Any) -> None:
    assert shapesolve.analyze(one("Resize", ["A B", None], {}, {2: bad}, opset=13)).conflicts


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
@pytest.mark.parametrize("sizes", [(7, 13), (3, 3), (0, 4), (-1, 4), (1, -5), (0, 0), (-1, -2)])
def test_sizes(policy: str, sizes: tuple[int, int]) -> None:
    attrs = {"keep_aspect_ratio_policy": policy}
    given = {3: np.array(sizes)}
    agrees(one("Resize", ["A B", None, None], attrs, given, opset=19), A=(0, 1, 3, 7), B=(0, 1, 3, 7))
    for a, b in ((3, 7), (7, 3), (100, 1), (5, 5)):
        agrees(one("Resize", [f"{a} {b}", None, None], attrs, given, opset=19))


@pytest.mark.parametrize("opset", [11, 13, 18, 21])
@pytest.mark.parametrize("scales", [[], [2.0, 2.0]])
@pytest.mark.parametrize("sizes", [[], [4, 6]])
def test_scales_or_sizes(opset: int, scales: list[float], sizes: list[int]) -> None:
    given = {1: np.zeros(0, "f4"), 2: np.array(scales, "f4"), 3: np.array(sizes, "i8")}
    agrees(one("Resize", ["A B"], {}, given, opset=opset), A=(1, 2), B=(1, 3))


def test_axes() -> None:
    agrees(
        one("Resize", ["A B C", None], {"axes": [2, 0]}, {2: scales(2, 0.5)}, opset=18),
        A=SIZES,
        B=(0, 3),
        C=SIZES,
    )
    attrs = {"axes": [2], "keep_aspect_ratio_policy": "not_larger"}
    model = one("Resize", ["A B C", None, None], attrs, {3: np.array([9])}, opset=18)
    assert shapes(model) == ["[A, B, 9]"]
    agrees(model, A=(0, 2), B=(1, 3), C=(0, 1, 8))


def test_sizes_from_another_tensor() -> None:
    model = text(
        "float[N, 3, H, W] x, float[N, 8, P, Q] z",
        """s = Shape<end = 2>(x)  t = Shape<start = 2>(z)  sizes = Concat<axis = 0>(s, t)
        y = Resize(x, , , sizes)""",
        opset=18,
    )
    assert shapes(model) == ["[N, 3, P, Q]"]
    agrees(model, N=(0, 2), H=(0, 2), W=(1, 3), P=(0, 1, 5), Q=(2,))


def test_crop_and_resize_where_standard_and_runtime_agree() -> None:
    attrs = {"coordinate_transformation_mode": "tf_crop_and_resize"}
    whole = {1: scales(0, 0, 1, 1), 2: scales(1, 2)}
    assert shapes(one("Resize", ["A B"], attrs, whole, opset=13)) == ["[A, 2*B]"]
    part = {1: scales(0, 0, 1, 0.5), 2: scales(1, 2)}
    open_dim = shapesolve.analyze(one("Resize", ["A B"], attrs, part, opset=13)).shapes["y0"][1]
    assert "B" not in open_dim.free


def test_unknown_scales_give_a_rank() -> None:
    analysis = shapesolve.analyze(one("Resize", ["?", None, "4"], opset=13))
    assert len(analysis.shapes["y0"]) == 4
    assert shapes(one("Resize", ["?", None, "K"], opset=13)) == [None]


def test_upsample() -> None:
    agrees(one("Upsample", ["A B"], {}, {1: scales(2, 1.5)}, opset=9), A=SIZES, B=SIZES)
    agrees(one("Upsample", ["A B"], {"scales": [2.0, 3.0]}, opset=7), A=SIZES, B=SIZES)
    model = one("Upsample", ["N C H W"], {"height_scale": 2.0, "width_scale": 1.5}, opset=1)
    assert shapes(model) == ["[N, C, 2*H, W + W//2]"]
    assert shapesolve.analyze(one("Upsample", ["A B"], {}, {1: scales(0.5, 1)}, opset=9)).conflicts
