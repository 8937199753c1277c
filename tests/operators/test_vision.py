"""Image, region and box operators, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, NotImplemented

import shapesolve

from ..building import session
from .conftest import FLOAT, INT32, INT64, agrees, one, shapes, tensor_of


def test_grid_sample() -> None:
    sizes = {"N": (0, 1, 2), "M": (0, 1, 2), "H": (0, 1, 3), "P": (0, 2)}
    for opset in (16, 20, 22):
        agrees(one("GridSample", ["N 2 H 4", "M P 5 2"], opset=opset), **sizes)
    agrees(one("GridSample", ["N 2 H 4 3", "N P 5 6 K"], opset=20), N=(0, 1), H=(0, 2), P=(0, 2), K=(2, 3))
    assert shapes(one("GridSample", ["?", "N P Q 2"], opset=16))[0] is not None


@pytest.mark.parametrize("size", [[1, 2, 4, 5], [2, 2, 4, 5], [1, 2, 4, 5, 6], [1, 2, 0, 5], [0, 2, 4, 5]])
def test_affine_grid(size: list[int]) -> None:
    given = {1: np.array(size)}
    agrees(one("AffineGrid", ["N R C"], {}, given, opset=20), N=(0, 1, 2), R=(2, 3), C=(3, 4))


def test_affine_grid_of_a_size_that_is_an_input() -> None:
    assert (
        len(
            shapesolve.analyze(one("AffineGrid", ["N 2 3", "4"], opset=20, dtypes=[FLOAT, INT64])).shapes[
                "y0"
            ]
        )
        == 4
    )


@pytest.mark.parametrize(
    ("attrs", "image", "block"),
    [
        ({}, [6, 6], [3, 3]),
        ({"strides": [2, 2]}, [5, 6], [3, 2]),
        ({"pads": [1, 0, 1, 0]}, [2, 4], [3, 1]),
        ({}, [2, 6], [3, 3]),
    ],
)
def test_col2im(attrs: dict[str, list[int]], image: list[int], block: list[int]) -> None:
    model = one("Col2Im", ["N C L"], attrs, {1: np.array(image), 2: np.array(block)}, opset=18)
    agrees(model, N=(0, 1), C=(0, 6, 9, 17, 18), L=(0, 1, 4, 6, 8, 16))


def test_regions() -> None:
    attrs = {"output_height": 2, "output_width": 3}
    zeros = {"x2": lambda at: np.zeros(at["S"], np.int64)}
    for opset in (10, 16, 21):
        model = one("RoiAlign", ["N 2 3 3", "R F", "S"], attrs, dtypes=[FLOAT, FLOAT, INT64], opset=opset)
        agrees(model, zeros, N=(0, 1, 2), R=(0, 1, 2), F=(4, 5), S=(0, 1, 2))
    zeros = {"x1": lambda at: np.zeros((at["R"], at["F"]), np.float32)}
    agrees(
        one("MaxRoiPool", ["N C 3 3", "R F"], {"pooled_shape": [2, 2]}),
        zeros,
        N=(0, 1),
        C=(1, 2),
        R=(0, 1, 2),
        F=(4, 5),
    )


@pytest.mark.parametrize("most", [None, -1, 0, 1, 3])
def test_non_max_suppression(most: int | None) -> None:
    given = {} if most is None else {2: np.array([most])}
    model = one("NonMaxSuppression", ["B S K", "A C T"], {}, given, opset=11)
    analysis = agrees(model, B=(0, 1), A=(0, 1), S=(0, 2), T=(0, 2), K=(3, 4), C=(0, 2))
    rows = analysis.shapes["y0"][0]
    if most is None or most <= 0:
        assert rows.value == 0
    else:
        at = {"B": 2, "A": 2, "S": 5, "T": 5, "K": 4, "C": 3}
        top = 2 * 3 * min(5, most)
        limits = [
            e.cond.evaluate({**at, rows.name: n})
            for e in analysis._solved.walk.state.log
            for n in (top, top + 1)
            if rows.name in e.cond.free
        ]
        assert limits[-2:] == [True, False]


def test_image_decoder() -> None:
    assert str(shapesolve.analyze(one("ImageDecoder", ["B"], dtypes=2, opset=20)).shapes["y0"][2]) == "3"
    grey = one("ImageDecoder", ["B"], {"pixel_format": "Grayscale"}, dtypes=2, opset=20)
    assert str(shapesolve.analyze(grey).shapes["y0"][2]) == "1"


_NMS = {
    "score_threshold": 0.2, "iou_threshold": 0.4, "max_output_boxes": 7, "box_coding": 0, "score_activation": 0,
    "background_class": -1, "plugin_version": "1",
}  # fmt: skip


@pytest.mark.parametrize("boxes", ["N 9 4", "N 9 1 4", "N 9 5 4"])
def test_efficient_non_max_suppression(boxes: str) -> None:
    """It runs on GPUs only, but onnxruntime infers its shapes: a Concat says whether another one fits."""
    model = one("EfficientNMS_TRT", [boxes, "N 9 5"], _NMS, n_out=4)
    analysis = shapesolve.analyze(model)
    assert not analysis.diagnostics
    for i, (name, dtype) in enumerate((("y0", INT32), ("y1", FLOAT), ("y2", FLOAT), ("y3", INT32))):
        assert analysis.dtypes[name] == dtype
        size = [d.evaluate({"N": 2}) for d in analysis.shapes[name]]
        others = [[s + (k == j) for k, s in enumerate(size)] for j in range(len(size))]
        assert _fits(boxes, i, dtype, size)
        assert not any(_fits(boxes, i, dtype, other) for other in [*others, [*size, 1]])


def _fits(boxes: str, i: int, dtype: int, size: list[int | None]) -> bool:
    """Has output `i` at N = 2 this shape? That the kernel is missing is told after shapes were looked at."""
    model = one("EfficientNMS_TRT", [boxes.replace("N", "2"), "2 9 5"], _NMS, n_out=4)
    zeros = np.zeros((1, *size), helper.tensor_dtype_to_np_dtype(dtype))
    model.graph.initializer.extend([tensor_of(zeros, "zeros"), tensor_of([0], "axis")])
    model.graph.node.append(helper.make_node("Unsqueeze", [f"y{i}", "axis"], ["u"]))
    model.graph.node.append(helper.make_node("Concat", ["u", "zeros"], ["z"], axis=0))
    try:
        session(model)
    except NotImplemented:
        return True
    except Fail:
        return False
    raise AssertionError("it has a kernel now")


def test_detectors_are_exported_with_a_domain_of_tensorrt() -> None:
    for domain in ("TRT", "trt.plugins"):
        model = one("EfficientNMS_TRT", ["N A 4", "N A C"], _NMS, n_out=4, domain=domain)
        assert shapes(model) == ["[N, 1]", "[N, 7, 4]", "[N, 7]", "[N, 7]"]


def test_regions_and_their_images_are_told_in_words() -> None:
    a = shapesolve.analyze(
        one("RoiAlign", ["1 2 3 3", "5 4", "6"], {}, dtypes=[FLOAT, FLOAT, INT64], opset=16)
    )
    assert any("the number of regions must be equal" in step.text for step in a.diagnostics[0].steps)
