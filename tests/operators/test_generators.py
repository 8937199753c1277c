"""Constants, ranges, windows, random numbers and one-hot codes, against onnxruntime."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from .conftest import BOOL, FLOAT, INT64, agrees, one, shapes, text, value

SIZES = (0, 1, 2, 3, 7)
SPARSE = helper.make_sparse_tensor(
    helper.make_tensor("v", TensorProto.FLOAT, [1], [2.0]),
    helper.make_tensor("i", TensorProto.INT64, [1], [1]),
    [2, 3],
)


@pytest.mark.parametrize(
    ("attrs", "shape", "data"),
    [
        ({"value": helper.make_tensor("v", TensorProto.INT64, [2], [3, -1])}, "[2]", "[3, -1]"),
        ({"value": helper.make_tensor("v", TensorProto.BOOL, [], [True])}, "[]", "true"),
        ({"value_int": 4}, "[]", "4"),
        ({"value_ints": [4, 5]}, "[2]", "[4, 5]"),
        ({"value_float": 0.1}, "[]", str(float(np.float32(0.1)))),
        ({"value_floats": [0.5, 2.0]}, "[2]", "[0.5, 2.0]"),
        ({"value_string": "a"}, "[]", "a"),
        ({"value_strings": ["a", "b"]}, "[2]", "[a, b]"),
        ({"sparse_value": SPARSE}, "[2, 3]", None),
    ],
)
def test_constant(attrs: dict[str, Any], shape: str, data: str | None) -> None:
    model = one("Constant", [], attrs)
    assert shapes(model) == [shape]
    assert value(model) == data
    agrees(model)


def test_constant_without_a_value() -> None:
    assert shapes(one("Constant", [], {})) == [None]


@pytest.mark.parametrize(
    ("nodes", "shape", "data"),
    [
        ("y = ConstantOfShape(s)", "[N, 3]", None),
        ("y = ConstantOfShape<value = int64[1] {-1}>(s)", "[N, 3]", "[-1 .. -1]"),
        ("t = Shape<start=1>(x) y = ConstantOfShape<value = int64[1] {7}>(t)", "[3]", "[7, 7, 7]"),
        ("t = Shape<start=2>(x) y = ConstantOfShape(t)", "[]", "0.0"),
        ("two = Constant<value_ints=[2]>() t = Sub(s, two) y = ConstantOfShape(t)", "[N - 2, 1]", None),
    ],
)
def test_constant_of_shape(nodes: str, shape: str, data: str | None) -> None:
    model = text("float[N, 3] x", f"s = Shape(x) {nodes}")
    assert shapes(model) == [shape]
    assert value(model) == data
    agrees(model, N=SIZES)


def test_constant_of_shape_given_at_run_time() -> None:
    model = one("ConstantOfShape", ["2"], dtypes=INT64)
    agrees(model, {"x0": np.array([2, 3])})
    assert shapes(one("ConstantOfShape", ["K"], dtypes=INT64)) == [None]


# ---------------------------------------------------------------------- ranges

NUMBERS = {"zero": 0, "one": 1, "two": 2, "three": 3, "m2": -2, "five": 5}


@pytest.mark.parametrize(
    ("arguments", "shape", "data"),
    [
        ("zero, n, one", "[N]", "[0 .. N - 1]"),
        ("three, n, one", "[max(N - 3, 0)]", "[3 .. N - 1]"),
        ("zero, n, two", "[(N + 1)//2]", "[0 .. N - 1]"),
        ("one, n, three", None, "[1 .. N - 1]"),
        ("n, zero, m2", "[(N + 1)//2]", "[1 .. N]"),
        ("n, three, one", "[max(3 - N, 0)]", "[N .. 2]"),
        ("n, end, one", "[3]", "[N, N + 1, N + 2]"),
        ("five, two, one", "[0]", "[]"),
        ("five, zero, m2", "[3]", "[5, 3, 1]"),
    ],
)
def test_range(arguments: str, shape: str | None, data: str) -> None:
    numbers = " ".join(f"{k} = Constant<value_int={v}>()" for k, v in NUMBERS.items())
    nodes = f"{numbers} s = Shape(x) n = Gather<axis=0>(s, zero) end = Add(n, three) y = Range({arguments})"
    model = text("float[N] x", nodes)
    if shape is not None:
        assert shapes(model) == [shape]
    assert value(model) == data
    agrees(model, N=(0, 1, 2, 3, 4, 5, 8))


@pytest.mark.parametrize(
    ("start", "limit", "delta"),
    [(0.0, 1.0, 0.1), (0.0, 1.0, 0.3), (1.0, 0.0, 0.1), (5.0, 1.0, -1.5), (0.0, 0.0, 1.0)],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_range_of_floats(start: float, limit: float, delta: float, dtype: Any) -> None:
    agrees(one("Range", [], consts=dict(enumerate(map(dtype, (start, limit, delta))))))


@pytest.mark.parametrize("delta", [1.0, 0.5, 2.0, -1.0, 3.0, 0.1])
@pytest.mark.parametrize("factor", [1.0, 0.5, 0.3])
def test_range_of_floats_up_to_a_size(delta: float, factor: float) -> None:
    nodes = f"""zero = Constant<value_float=0.0>() delta = Constant<value_float={delta}>()
        i0 = Constant<value_int=0>() s = Shape(x) n = Gather<axis=0>(s, i0)
        f = Cast<to=1>(n) k = Constant<value_float={factor}>() limit = Mul(f, k)
        y = Range(zero, limit, delta)"""
    agrees(text("float[N] x", nodes), N=(0, 1, 2, 3, 7, 10))


def test_range_given_at_run_time() -> None:
    model = one("Range", ["", "", ""], dtypes=INT64)
    for feeds in ((0, 5, 1), (5, 0, -2), (0, 5, -1)):
        agrees(model, {f"x{i}": np.array(v) for i, v in enumerate(feeds)})
    assert shapes(one("Range", [""], consts={0: 0, 2: 1}, dtypes=INT64)) == ["[max(_v0, 0)]"]
    agrees(one("Range", ["", "K"], consts={2: 0}, dtypes=INT64), K=(0, 1, 2))
    agrees(one("Range", ["", "K"], consts={2: 1}, dtypes=INT64), K=(0, 1, 2))


# ---------------------------------------------------------------------- codes, windows, random numbers


@pytest.mark.parametrize("axis", [None, 0, 1, -1, -2, 2, -4])
def test_one_hot(axis: int | None) -> None:
    attrs = {} if axis is None else {"axis": axis}
    consts = {1: 4, 2: [0, 1]}
    agrees(one("OneHot", ["N M"], attrs, consts, dtypes=INT64), N=(0, 2), M=(1, 3))


def test_one_hot_depth() -> None:
    for depth in (0, 1, -1, 3.7, [5], [5, 5]):
        agrees(one("OneHot", ["N"], consts={1: depth, 2: [0.0, 1.0]}, dtypes=INT64), N=(0, 2))
    agrees(one("OneHot", ["N", "K"], consts={1: 3}, dtypes=[INT64, FLOAT]), N=(0, 2), K=(1, 2, 3))
    agrees(one("OneHot", [""], consts={1: 3, 2: [0, 1]}, dtypes=INT64))
    nodes = "s = Shape(x) v = Constant<value_floats=[0.0, 1.0]>() y = OneHot(i, s, v)"
    model = text("float[D] x, int64[N] i", nodes)
    assert shapes(model) == ["[N, D]"]
    agrees(model, D=(0, 1, 4), N=(0, 3))
    model = one("OneHot", ["N", ""], consts={2: [0.0, 1.0]}, dtypes=INT64)
    agrees(model, {"x1": np.array(6)}, N=(0, 3))


@pytest.mark.parametrize("op_type", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_window(op_type: str) -> None:
    for size in (5, -1, [4, 4]):
        agrees(one(op_type, [], {"output_datatype": 11}, {0: size}))
    model = text("float[N] x", f"s = Shape(x) y = {op_type}(s)")
    assert shapes(model) == ["[N]"]
    agrees(model, N=(0, 1, 5))
    agrees(one(op_type, [""], dtypes=INT64), {"x0": np.array(6)})
    agrees(one(op_type, ["K"], dtypes=INT64), K=(0, 1, 2))


def test_random() -> None:
    agrees(one("RandomNormal", [], {"shape": [2, 0], "dtype": 11}))
    agrees(one("RandomUniform", [], {"shape": [3]}))
    agrees(one("RandomUniform", [], {"shape": [3, -1]}))
    agrees(one("RandomNormalLike", ["N 3"]), N=SIZES)
    agrees(one("RandomUniformLike", ["N 3"], {"dtype": 11}), N=SIZES)
    agrees(
        one("Bernoulli", ["N 3"], {"dtype": 7}),
        {"x0": lambda at: np.full((at["N"], 3), 0.5, np.float32)},
        N=SIZES,
    )
    agrees(one("Bernoulli", ["N"], opset=15), {"x0": lambda at: np.full(at["N"], 0.5, np.float32)}, N=SIZES)
    agrees(one("Multinomial", ["N M"], {"sample_size": 4}), N=(0, 1, 3), M=(0, 1, 3))
    agrees(one("Multinomial", ["N 3"], {"sample_size": 0, "dtype": 7}), N=(0, 1))
    for chance in (-np.inf, np.inf, np.nan):
        agrees(one("Multinomial", ["2 3"], {"sample_size": 9}), {"x0": np.full((2, 3), chance, np.float32)})


def test_eye_like() -> None:
    agrees(one("EyeLike", ["N M"]), N=SIZES, M=SIZES)
    agrees(one("EyeLike", ["N 3"], {"dtype": 7, "k": 1}), N=SIZES)
    agrees(one("EyeLike", ["N 3 1"]), N=(2,))
    assert shapes(one("EyeLike", ["N M"], {"dtype": int(BOOL)})) == ["[N, M]"]


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot_of_known_indices(axis: int) -> None:
    nodes = f"""i = Constant<value_ints=[1, -1, 5]>() d = Constant<value_int=3>() v = Constant<value_ints=[4, 7]>()
    y = OneHot<axis={axis}>(i, d, v)"""
    model = text("float[N] x", nodes, "y")
    agrees(model, N=(1, 2))
    rows = [[4, 7, 4], [4, 4, 7], [4, 4, 4]]
    wanted = rows if axis != 0 else [list(column) for column in zip(*rows, strict=True)]
    assert value(model) == str(wanted).replace("], [", ", ").replace("[[", "[").replace("]]", "]")


def test_eye_of_known_size() -> None:
    assert value(text("int64[2, 3] x", "y = EyeLike<k=1>(x)", "y")) == "[0, 1, 0, 0, 0, 1]"
