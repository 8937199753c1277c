"""Small models on which an earlier version was wrong, found by random graphs and damaged files."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import shapesolve

from ..operators.conftest import agrees, one, text

I64 = np.int64


def declared(*shapes: list[int | str]) -> onnx.ModelProto:
    """A model whose inputs ``x0``, ``x1`` ... declare these dims."""
    inputs = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, s) for i, s in enumerate(shapes)]
    nodes = [helper.make_node("Relu", ["x0"], ["y"])]
    return helper.make_model(helper.make_graph(nodes, "g", inputs, [onnx.ValueInfoProto(name="y")]))


@pytest.mark.parametrize(
    ("dims", "sizes", "fit"),
    [
        (["2*H"], (6,), True),
        (["2*H", "H + 1"], (6, 4), True),
        (["2*H", "H + 1"], (6, 5), False),
        (["M + S", "M"], (7, 3), True),
        (["M + S", "M + S", "2*Q + 1"], (7, 7, 5), True),
        (["M + S", "M + S", "2*Q + 1"], (7, 6, 5), False),
        (["M + S", "S + Q", "Q"], (7, 5, 2), True),
        (["M + S", "M - S"], (7, 3), True),
        (["M + S", "M - S"], (7, 4), False),
        (["M*S"], (6,), True),
        (["2*H"], (3,), False),
        (["M + S", "M"], (2, 3), False),
        (["M*S", "M"], (0, 0), True),
        (["M*S", "M"], (4, 0), False),
        (["M*S", "M", "S + Q"], (0, 0, 3), True),
        (["M//S"], (3,), True),
        (["M//S", "M", "S"], (2, 4, 2), True),
        (["M//S", "M", "S"], (2, 4, 0), False),
    ],
)
def test_declared_expressions_are_checked_and_bind_their_symbols(
    dims: Any, sizes: tuple[int, ...], fit: bool
) -> None:
    a = shapesolve.analyze(declared(dims))
    assert (a.check_inputs({"x0": sizes}) == []) == fit
    if fit:
        bound = a.bind_inputs({"x0": sizes})
        assert tuple(d.evaluate(bound) for d in a.inputs["x0"].shape) == sizes


@pytest.mark.parametrize("kind", [tuple, list, np.array])
def test_shapes_are_given_as_any_sequence(kind: Any) -> None:
    analysis = shapesolve.analyze(one("Add", ["N 3", "N 3"]))
    assert analysis.check_inputs({"x0": kind([2, 3]), "x1": kind([2, 3])}) == []
    assert analysis.check_inputs({"x0": kind([2, 3]), "x1": kind([4, 3])})


def test_a_user_who_speaks_of_a_symbol_does_not_get_an_arbitrary_one() -> None:
    analysis = shapesolve.analyze(declared(["M + S"]), assume=["M == S"])
    assert analysis.check_inputs({"x0": (4,)}) == []


def test_requirements_on_declared_expressions_are_checked() -> None:
    model = one("Add", ["N 2*H"], consts={1: np.ones(10, np.float32)})
    analysis = shapesolve.analyze(model)
    assert analysis.check_inputs({"x0": (3, 4)})
    assert not analysis.check_inputs({"x0": (3, 10)})


def test_rows_that_are_never_made() -> None:
    """A number that only requirements, or data that is followed, tell us is not one that onnxruntime knows."""
    loop = """
        n = Size(x)  yes = Constant<value=bool {1}>()
        w = LayerNormalization(x, one, one)
        y = Loop(n, yes) <body = b (int64 i, bool c) => (bool d, float[K] r) { d = Identity(c)  r = Identity(x) }>
    """
    source = f'<ir_version: 10, opset_import: ["": 21]> g (float[N, M] x) => (y, w) <float[2] one = {{1, 1}}> {{ {loop} }}'
    model = onnx.parser.parse_model(source.replace("float[K] r", "float[K, L] r"))
    analysis = agrees(model, N=(0, 1, 2), M=(2,))
    assert analysis.shapes["y"][2].evaluate({"N": 3, "M": 2}) == 2


def test_a_size_plus_the_largest_integer_wraps() -> None:
    nodes = "s = Shape(x)  k = Constant<value_ints=[9223372036854775807]>()  y = Add(s, k)"
    agrees(text("float[N, 3] x", nodes), N=(0, 1, 4))


@pytest.mark.parametrize("factor", [-(2**63), 2**62 + 3, 2**33, -(2**40)])
@pytest.mark.parametrize("to", [TensorProto.INT64, TensorProto.INT32])
def test_a_size_times_a_large_number_wraps(factor: int, to: int) -> None:
    nodes = f"s = Shape(x)  i = Cast<to={to}>(s)  f = Constant<value_ints=[{factor}]>()  k = Cast<to={to}>(f)"
    products = f"{nodes}  once = Mul(i, k)  y = Mul(once, k)"
    agrees(text("float[N, 2] x", products), N=(0, 1, 4, 5))
    agrees(text("int64[3] x", f"k = Constant<value_int={factor}>()  a = Abs(x)  y = Mul(a, k)"))


@pytest.mark.parametrize("to", [TensorProto.INT64, TensorProto.INT32])
@pytest.mark.parametrize("factors", range(2, 7))
def test_powers_of_a_size_wrap(to: int, factors: int) -> None:
    """What is said of them is so for sizes below 2**15, and nothing is lost up to a cube (in int32 a square)."""
    powers = "".join(f"p{i + 1} = Mul(p{i}, s)  " for i in range(1, factors))
    nodes = f"i = Shape(x)  s = Cast<to={to}>(i)  p1 = Identity(s)  {powers} y = Cast<to=7>(p{factors})"
    analysis = agrees(text("float[N] x", nodes), N=(0, 1, 3, 8192, 2**15 - 1))
    assert ("y" in analysis.values) == (factors <= (3 if to == TensorProto.INT64 else 2))


@pytest.mark.parametrize("factors", range(2, 8))
def test_long_products_of_sizes_wrap(factors: int) -> None:
    inputs = ", ".join(f"float[N{i}] x{i}" for i in range(factors))
    sizes = "".join(f"s{i} = Shape(x{i})  " for i in range(factors))
    products = "".join(f"p{i} = Mul({f'p{i - 1}' if i > 1 else 's0'}, s{i})  " for i in range(1, factors))
    model = text(inputs, f"{sizes} {products} y = Identity(p{factors - 1})")
    analysis = shapesolve.analyze(model)
    for size in (2, 2**12 - 1, 2**11):
        agrees(model, **{f"N{i}": (size,) for i in range(factors)})
    assert ("y" in analysis.values) == (factors <= 5)


def test_pad_that_crops_its_own_padding() -> None:
    nodes = "p = Constant<value_ints=[2, -1]>()  e = Shape<start=1>(x)  y = Pad(e, p)"
    analysis = agrees(text("float[3] x", nodes))
    assert str(analysis.shapes["y"]) == "[1]"


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("kernel", "stride"), [(1, 2), (2, 3), (1, 3), (2, 2), (3, 2)])
def test_same_pooling_with_gaps(auto_pad: str, kernel: int, stride: int) -> None:
    attributes = {"kernel_shape": [kernel], "strides": [stride], "auto_pad": auto_pad}
    sizes: Any = {"N": (0, 1), "H": (1, 2, 3, 4, 5, 6)}
    for op_type in ("MaxPool", "AveragePool"):
        agrees(one(op_type, ["N 1 H"], attributes), **sizes)
    agrees(one("MaxPool", ["N 1 H"], attributes, n_out=2), **sizes)
    agrees(one("MaxPool", ["N 1 H"], attributes, dtypes=TensorProto.DOUBLE), **sizes)
    cube = {key: v * 3 if isinstance(v, list) else v for key, v in attributes.items()}
    agrees(one("MaxPool", ["N 1 H 3 4"], cube), **sizes)


@pytest.mark.parametrize(
    ("op_type", "data"),
    [
        ("Reshape", I64([[3]])), ("Reshape", I64(3)), ("Tile", I64([[1, 1]])), ("Squeeze", I64([[0]])),
        ("Squeeze", I64(0)), ("Unsqueeze", I64([[0]])), ("Unsqueeze", I64(0)), ("Split", I64([[1]])),
        ("CumSum", I64([[0]])), ("CumSum", I64([0])), ("Trilu", I64([[0]])),
    ],
)  # fmt: skip
def test_ranks_of_what_says_what_to_do(op_type: str, data: Any) -> None:
    agrees(one(op_type, ["1 3"], consts={1: data}))


def test_trips_and_condition_of_a_loop_are_single() -> None:
    body = "<body = b (int64 i, bool c, float[K] v) => (bool d, o) { d = Identity(c)  o = Relu(v) }>"
    loop = f"s = Shape<end=1>(x)  yes = Constant<value=bool {{1}}>()  t = Expand(s, s)  y = Loop(t, yes, x) {body}"
    analysis = agrees(text("float[N] x", loop), N=(1, 2, 3))
    assert analysis.check_inputs({"x": (0,)})  # there onnxruntime ends the process


def test_an_opset_beyond_all_integers() -> None:
    model = declared(["N"])
    model.opset_import[0].version = 2**62
    assert shapesolve.analyze(model).shapes["y"]


def test_element_types_without_a_name() -> None:
    model = declared(["N"], ["N"])
    model.graph.node[0].op_type = "Add"
    model.graph.node[0].input.append("x1")
    model.graph.input[1].type.tensor_type.elem_type = 2**31 - 1
    assert any("type 2147483647" in c.message for c in shapesolve.analyze(model).conflicts)


@pytest.mark.parametrize("target", [[-2], [2, -1], [-1, 2, 3]])
def test_expanding_data_to_a_negative_size(target: list[int]) -> None:
    agrees(one("Expand", consts={0: I64([[1]]), 1: I64(target)}))
    agrees(one("Tile", consts={0: I64([1]), 1: I64([-1])}))
