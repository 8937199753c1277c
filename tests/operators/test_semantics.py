"""Where the standard and onnxruntime differ: the default is what onnxruntime does, `semantics="onnx"` what the text says."""

from __future__ import annotations

import ast
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import shapesolve
from shapesolve.lower.semantics import DIFFERENCES

from .conftest import FLOAT, INT64, agrees, broken, one, text

ROOM = Path(shapesolve.__file__).parent
#: what the engine itself asks for
ELSEWHERE = {"inverse-squares", "lenient-attributes", "local-functions"}


def test_rules_ask_for_entries_of_the_table() -> None:
    asked = {
        call.args[0].value
        for path in (*ROOM.glob("operators/**/*.py"), *ROOM.glob("lower/*.py"))
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "as_onnxruntime"
        and isinstance(call.args[0], ast.Constant)
    }
    assert asked == DIFFERENCES.keys() - ELSEWHERE


def test_an_unknown_semantics_is_refused() -> None:
    with pytest.raises(ValueError, match="onnxruntime"):
        shapesolve.analyze(one("Relu", ["N"]), semantics="torch")  # type: ignore[arg-type]


def by_the_text(model: onnx.ModelProto) -> Any:
    return shapesolve.analyze(model, semantics="onnx")


# ---------------------------------------------------------------------- pools


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("auto_pad", ["NOTSET", "VALID", "SAME_UPPER"])
@pytest.mark.parametrize("pads", [[1, 0, 0, 1], [2, 0, 0, 0], [0, 0, 0, 3]])
def test_pads_of_a_pool_are_smaller_than_its_kernel(op_type: str, auto_pad: str, pads: list[int]) -> None:
    attrs = {"kernel_shape": [2, 3], "pads": pads, "auto_pad": auto_pad}
    model = one(op_type, ["N 1 H 7"], attrs)
    agrees(model, N=(0, 1, 2), H=(3, 5, 6))
    assert not broken(by_the_text(model), {"N": 1, "H": 7})


@pytest.mark.parametrize("kernel", [1, 2, 3])
@pytest.mark.parametrize(("stride", "dilation"), list(product((1, 2, 3), (1, 2, 3))))
@pytest.mark.parametrize(
    ("op_type", "dtype", "n_out"), [("MaxPool", FLOAT, 1), ("MaxPool", FLOAT, 2), ("LpPool", FLOAT, 1)]
)
def test_dilated_windows_with_same_padding(
    op_type: str, dtype: int, n_out: int, kernel: int, stride: int, dilation: int
) -> None:
    attrs = {
        "kernel_shape": [1, kernel], "auto_pad": "SAME_UPPER", "strides": [1, stride], "dilations": [2, dilation],
    }  # fmt: skip
    model = one(op_type, ["N 1 2 W"], attrs, dtypes=dtype, n_out=n_out)
    agrees(model, N=(0, 1), W=(0, 1, 2, 3, 4, 5, 7, 8, 9))


def test_the_text_pads_for_the_dilated_window() -> None:
    attrs = {"kernel_shape": [3], "auto_pad": "SAME_UPPER", "dilations": [2]}
    model = one("MaxPool", ["N 1 W"], attrs)
    assert str(by_the_text(model).shapes["y0"]) == "[N, 1, W]"
    assert shapesolve.analyze(model).shapes["y0"].evaluate({"N": 1, "W": 9}) == [1, 1, 7]


@pytest.mark.parametrize(
    "wanted", [[1, 1, 8, 8], [1, 1, 6, 6], [1, 1, 4, 16], [1, 1, 4, 4], [2, 2, 4, 4], [36]]
)
def test_the_shape_that_an_unpooling_is_given(wanted: list[int]) -> None:
    attrs = {"kernel_shape": [2, 2], "strides": [2, 2]}
    model = one("MaxUnpool", ["1 1 H 3", "1 1 H 3"], attrs, {2: wanted}, dtypes=[FLOAT, INT64])
    agrees(model, {"x1": lambda at: np.zeros((1, 1, at["H"], 3), np.int64)}, H=(1, 2, 3, 4))


def test_the_text_asks_for_room_on_each_axis() -> None:
    attrs = {"kernel_shape": [2, 2], "strides": [2, 2]}
    model = one("MaxUnpool", ["1 1 3 3", "1 1 3 3"], attrs, {2: [1, 1, 4, 16]}, dtypes=[FLOAT, INT64])
    assert by_the_text(model).conflicts
    assert not shapesolve.analyze(model).conflicts


# ---------------------------------------------------------------------- indices


@pytest.mark.parametrize(
    "end", [2**31 - 2, 2**31 - 1, 2**31, 2**63 - 2, 2**63 - 1, -(2**63), -(2**31), -3, 0, 2]
)
@pytest.mark.parametrize("step", [-1, -2, 1])
@pytest.mark.parametrize("start", [-1, 2, 2**63 - 1])
def test_ends_that_mean_the_rest(start: int, end: int, step: int) -> None:
    model = one("Slice", ["N"], consts={1: [start], 2: [end], 3: [0], 4: [step]})
    agrees(model, N=(0, 1, 2, 3, 5, 8))


def test_the_text_clamps_a_large_end() -> None:
    model = one("Slice", ["N"], consts={1: [-1], 2: [2**63 - 1], 3: [0], 4: [-1]})
    assert str(by_the_text(model).shapes["y0"]) == "[0]"
    assert str(shapesolve.analyze(model).shapes["y0"]) == "[N]"


def test_an_end_that_is_data_may_be_the_mark() -> None:
    model = one("Slice", ["N", "1"], consts={1: [-1], 3: [0], 4: [-1]}, dtypes=[FLOAT, INT64])
    for end in (2**63 - 1, 2**31 - 1, 0, -3):
        agrees(model, {"x2": [end]}, N=(0, 1, 5))


@pytest.mark.parametrize(
    ("data", "indices"),
    [
        ("A 3", "C 1 1"),
        ("A 3", "C D 1"),
        ("2 3", "C D 1"),
        ("A 3", "4 1 1"),
        ("A 3", "A 2 1"),
        ("A 2 E", "C 1 1"),
    ],
)
def test_batches_of_indices_are_shared_out(data: str, indices: str) -> None:
    model = one("GatherND", [data, indices], {"batch_dims": 1}, dtypes=[FLOAT, INT64])
    sizes = {n: (0, 1, 2, 3, 4) for n in "ACDE" if n in f"{data} {indices}".split()}

    def zeros(at: Any) -> Any:
        return np.zeros([at[t] if t in at else int(t) for t in indices.split()], np.int64)

    agrees(model, {"x1": zeros}, **sizes)


def test_two_batch_axes_of_indices() -> None:
    model = one("GatherND", ["A B 4", "C D 1"], {"batch_dims": 2}, dtypes=[FLOAT, INT64])
    feeds = {"x1": lambda at: np.zeros((at["C"], at["D"], 1), np.int64)}
    agrees(model, feeds, A=(0, 1, 2), B=(0, 1, 3), C=(0, 1, 2, 6), D=(1, 3))
    assert broken(by_the_text(model), {"A": 1, "B": 6, "C": 2, "D": 3})


@pytest.mark.parametrize(
    ("x", "slope"), [("A B", "1 C"), ("A B", "C"), ("A", "C D"), ("", "C"), ("2 N", "1 3")]
)
def test_a_slope_broadcasts_both_ways(x: str, slope: str) -> None:
    model = one("PRelu", [x, slope], opset=16)
    names = {n: (0, 1, 2, 3) for n in "ABCDN" if n in f"{x} {slope}".split()}
    agrees(model, **names)


def test_the_text_takes_no_larger_slope() -> None:
    assert broken(by_the_text(one("PRelu", ["2 1", "1 3"], opset=16)), {})


@pytest.mark.parametrize("opset", [16, 19, 20, 22])
def test_volumes_are_sampled_at_every_opset(opset: int) -> None:
    model = one("GridSample", ["N 1 3 2 D", "N 2 4 2 3"], opset=opset)
    agrees(model, N=(0, 1, 2), D=(1, 3))
    assert bool(by_the_text(model).conflicts) is (opset < 20)


# ---------------------------------------------------------------------- attributes


@pytest.mark.parametrize("opset", [12, 17, 23])
@pytest.mark.parametrize(("x", "scale"), [(1, 1), (10, 1), (1, 10)])
@pytest.mark.parametrize("extra", [{}, {"axes": -1}, {"epsion": 1e-5}])
def test_layer_normalization_as_it_was_before_the_standard(
    opset: int, x: int, scale: int, extra: Any
) -> None:
    agrees(one("LayerNormalization", ["N 4", "4"], extra, opset=opset, dtypes=[x, scale]), N=(0, 1, 3))


def test_the_text_knows_the_attributes() -> None:
    model = one("LayerNormalization", ["N 4", "4"], {"axes": -1}, opset=17)
    assert "no attribute axes" in by_the_text(model).conflicts[0].message


# ---------------------------------------------------------------------- roundings


@pytest.mark.parametrize("factor", [1.7, 2.0, 1.5])
def test_a_rounding_that_was_tried_is_an_assumption(factor: float) -> None:
    nodes = "s = Shape(x)  f = Cast<to=1>(s)  g = Mul(f, k)  c = Floor(g)  q = Cast<to=7>(c)  y = ConstantOfShape(q)"
    model = text("float[N] x", nodes)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([factor], np.float32), "k"))
    analysis = agrees(model, N=(0, 1, 2, 10, 99, 131071))
    exact = factor in (2.0, 1.5)
    claim = f"y[0] == {analysis.shapes['y'][0]}"
    assert bool(analysis.prove(claim)) is exact or "_d" in claim
    assert ("SS501" in [f.code for f in analysis.diagnostics]) is not exact
    if not exact:
        assert analysis.prove(claim).assumptions == ("N <= 131071",)


def test_a_scale_that_was_tried_is_an_assumption() -> None:
    model = one("Resize", ["1 1 H", None], consts={2: [1.0, 1.0, 1.7]})
    analysis = agrees(model, H=(1, 2, 10, 99, 1000))
    assert analysis.prove("y0[2] >= H").assumptions == ("H <= 131071",)


# ---------------------------------------------------------------------- what onnxruntime does not run


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("dilations", [[1, 1], [1, 2], [3, 1]])
def test_a_dilated_convolution_has_pads(auto_pad: str, dilations: list[int]) -> None:
    attrs = {"auto_pad": auto_pad, "dilations": dilations}
    model = one("Conv", ["N 2 H W", "3 2 3 1"], attrs)
    agrees(model, N=(0, 1), H=(7, 9), W=(1, 3))
    assert not broken(by_the_text(model), {"N": 1, "H": 9, "W": 3})


@pytest.mark.parametrize("spatial", ["H", "H 3", "H 3 2"])
def test_a_local_response_is_normalized_in_images(spatial: str) -> None:
    model = one("LRN", [f"N C {spatial}"], {"size": 3})
    agrees(model, N=(0, 1), C=(1, 3), H=(1, 4))
    assert not broken(by_the_text(model), {"N": 1, "C": 3, "H": 4})


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_cubic_samples_are_of_images(mode: str) -> None:
    for image, grid in (("N 1 H 3", "N 2 2 2"), ("N 1 H 3 2", "N 2 2 2 3")):
        model = one("GridSample", [image, grid], {"mode": mode}, opset=20)
        agrees(model, N=(0, 1, 2), H=(1, 3))
        assert not broken(by_the_text(model), {"N": 1, "H": 3})
