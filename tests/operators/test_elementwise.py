"""Arithmetic, comparisons, logic, activations, casts and choices, against onnxruntime."""

import numpy as np
import onnx
import pytest

import shapesolve
from shapesolve.expr import Dim
from shapesolve.operators import default_registry

from .conftest import BOOL, FLOAT, INT32, INT64, agrees, one, shapes, text, value

SIZES = (0, 1, 2, 3, 5)


@pytest.mark.parametrize(
    ("shapes_in", "expected"),
    [
        (["N 3", "3"], "[N, 3]"),
        (["N", "1"], "[N]"),
        (["N 1", "M"], "[N, M]"),
        (["N", "M"], "[broadcast(M, N)]"),
        (["N 3", ""], "[N, 3]"),
        (["N 1 4", "N 5 1"], "[N, 5, 4]"),
        (["2 N", "2 N"], "[2, N]"),
    ],
)
@pytest.mark.parametrize("op_type", ["Add", "Less", "Pow"])
def test_broadcast(op_type: str, shapes_in: list[str], expected: str) -> None:
    model = one(op_type, shapes_in)
    assert shapes(model) == [expected]
    names = {n for s in shapes_in for n in s.split() if n.isalpha()}
    agrees(model, **dict.fromkeys(sorted(names), SIZES))


@pytest.mark.parametrize("op_type", ["Sum", "Max", "Min", "Mean"])
@pytest.mark.parametrize("opset", [6, 8, 13])
def test_variadic(op_type: str, opset: int) -> None:
    agrees(one(op_type, ["N 3", "N 3"], opset=opset), N=SIZES)
    agrees(one(op_type, ["N", "M", "N"], opset=opset), N=SIZES, M=SIZES)
    agrees(one(op_type, ["N 3"], opset=opset), N=SIZES)


def test_where_broadcasts_three_ways() -> None:
    agrees(one("Where", ["N 1", "M", "1 3"], dtypes=[BOOL, FLOAT, FLOAT]), N=SIZES, M=SIZES)


UNARY = """
    Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish
    Identity IsInf IsNaN LeakyRelu Log Mish Neg Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh
    Softplus Softsign Sqrt Tan Tanh ThresholdedRelu
"""


@pytest.mark.parametrize("op_type", UNARY.split())
def test_same_shape(op_type: str) -> None:
    model = one(op_type, ["N 3"])
    assert shapes(model) == ["[N, 3]"]
    agrees(model, N=(0, 1, 3))


FAMILY = """
    And BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike Clip Div Dropout Equal
    Greater GreaterOrEqual Hardmax Less LessOrEqual LogSoftmax Mod Mul Not Or PRelu Pow Softmax Sub SwiGLU
    Swish Where Xor ArgMax ArgMin ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean
    ReduceMin ReduceProd ReduceSum ReduceSumSquare CumSum CumProd Constant ConstantOfShape Range EyeLike
    RandomNormal RandomNormalLike RandomUniform RandomUniformLike Bernoulli Multinomial OneHot BlackmanWindow
    HannWindow HammingWindow
"""


@pytest.mark.parametrize("op_type", (UNARY + FAMILY).split())
def test_every_version_is_declared(op_type: str) -> None:
    registry = default_registry()
    assert all(registry.lookup("", op_type, version) for version in range(1, 29))


@pytest.mark.parametrize("opset", [7, 11, 13])
@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize(
    ("shape", "axis"), [("N 3", None), ("N", None), ("N 3", -2), ("N 3", 2), ("3 N", -3), ("N", 0)]
)
def test_along_axis(op_type: str, opset: int, shape: str, axis: int | None) -> None:
    agrees(one(op_type, [shape], {} if axis is None else {"axis": axis}, opset=opset), N=SIZES)


# ---------------------------------------------------------------------- old forms of broadcasting


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div", "Pow"])
def test_broadcast_attribute(op_type: str) -> None:
    assert shapes(one(op_type, ["N C H W", "C"], {"broadcast": 1, "axis": 1}, opset=6)) == ["[N, C, H, W]"]
    assert shapes(one(op_type, ["N C H W", "H W"], {"broadcast": 1}, opset=6)) == ["[N, C, H, W]"]
    assert shapes(one(op_type, ["N C", "1 1"], {"broadcast": 1}, opset=6)) == ["[N, C]"]
    assert shapes(one(op_type, ["N 3", "N 3"], opset=6)) == ["[N, 3]"]


# ---------------------------------------------------------------------- what a node needs


@pytest.mark.parametrize(
    ("op_type", "shapes_in", "opset"),
    [
        ("Clip", ["3", "N"], 13),
        ("Clip", ["3", "N"], 11),
        ("Clip", ["3", "1 1"], 13),
        ("PRelu", ["N 3", "3"], 16),
        ("PRelu", ["2 N", "N"], 16),
        ("Dropout", ["N 3"], 7),
        ("Dropout", ["N 3"], 10),
        ("Dropout", ["N 3"], 13),
    ],
)
def test_requirements(op_type: str, shapes_in: list[str], opset: int) -> None:
    agrees(one(op_type, shapes_in, opset=opset, n_out=1 + (op_type == "Dropout")), N=SIZES)


@pytest.mark.parametrize("nodes", ["y = Div(a, n)", "y = Mod(a, n)", "y = Mod<fmod=1>(a, n)"])
def test_an_integer_divisor_is_not_zero(nodes: str) -> None:
    numbers = "two = Constant<value_int=2>() a = Constant<value_ints=[7, -7]>()"
    agrees(text("float[N] x", f"{numbers} s = Shape(x) n = Sub(s, two) {nodes}"), N=(0, 1, 2, 3, 5))


# ---------------------------------------------------------------------- values

FLOATS = {"one_half": 0.5, "two": 2.0, "three": 3.0, "f1_7": 1.7, "f1_3": 1.3, "far": 1e9, "near": -1e9}
INTS = {"zero": 0, "one": 1, "i2": 2, "i3": 3, "m1": -1}


def chain(nodes: str) -> onnx.ModelProto:
    """`nodes` compute y from the sizes ``n = N`` and ``s = [N, M]``."""
    numbers = [f"{k} = Constant<value_float={v}>()" for k, v in FLOATS.items()]
    numbers += [f"{k} = Constant<value_int={v}>()" for k, v in INTS.items()]
    return text("float[N, M] x", f"{' '.join(numbers)} s = Shape(x) n = Gather<axis=0>(s, zero) {nodes}")


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("f = Cast<to=1>(n) h = Mul(f, one_half) g = Floor(h) y = Cast<to=7>(g)", "N//2"),
        ("f = Cast<to=1>(n) h = Div(f, two) y = Cast<to=7>(h)", "N//2"),
        ("f = Cast<to=1>(n) h = Mul(f, one_half) g = Ceil(h) y = Cast<to=7>(g)", "(N + 1)//2"),
        ("f = Cast<to=1>(n) h = Div(f, three) g = Floor(h) y = Cast<to=7>(g)", "N//3"),
        ("f = Cast<to=1>(n) h = Mul(f, three) g = Mul(h, one_half) y = Floor(g)", None),
        ("f = Cast<to=11>(n) t = Cast<to=11>(i3) h = Div(f, t) g = Ceil(h) y = Cast<to=7>(g)", "(N + 2)//3"),
        ("f = Cast<to=1>(n) h = Mul(f, one_half) g = Round(h) y = Cast<to=7>(g)", None),
        ("f = Cast<to=1>(n) h = Div(f, three) g = Round(h) y = Cast<to=7>(g)", "(N + 1)//3"),
        ("f = Cast<to=1>(n) g = Neg(f) h = Mul(g, one_half) y = Cast<to=7>(h)", "-(N//2)"),
        ("f = Cast<to=1>(n) g = Neg(f) h = Mul(g, one_half) k = Floor(h) y = Cast<to=7>(k)", "-((N + 1)//2)"),
        ("f = Cast<to=1>(n) h = Mul(f, f1_7) y = Cast<to=7>(h)", "2*N - (3*N + 9)//10"),
        ("f = Cast<to=1>(n) g = Neg(f) h = Mul(f1_7, g) k = Ceil(h) y = Cast<to=7>(k)", None),
        ("f = Cast<to=1>(n) g = Mul(f, one_half) h = Mul(g, f1_7) k = Round(h) y = Cast<to=7>(k)", None),
        ("f = Cast<to=1>(n) h = Mul(f, f1_3) y = Cast<to=7>(h)", None),  # 10 gives 12 or 13
        ("y = Div(n, i2)", "N//2"),
        ("a = Neg(n) y = Div(a, i2)", "-(N//2)"),
        ("a = Neg(n) y = Mod(a, i3)", None),
        ("a = Neg(n) y = Mod<fmod=1>(a, i3)", None),
        ("y = Mod(n, i2)", "N % 2"),
        ("y = Mul(s, s)", "[N**2, M**2]"),
        ("y = Pow(s, i2)", "[N**2, M**2]"),
        ("y = Equal(n, m1)", "false"),
        ("y = Greater(n, i2)", "N >= 3"),
        ("a = Greater(n, i2) b = Not(a) y = Cast<to=7>(b)", None),
        ("a = Equal(s, m1) ones = Constant<value_ints=[1, 1]>() y = Where(a, ones, s)", "[N, M]"),
        ("a = Greater(s, i2) y = Where(a, s, i2)", None),
        ("y = Max(n, i2)", "max(N, 2)"),
        ("y = Min(s, i2)", "[min(N, 2), min(M, 2)]"),
        ("f = Cast<to=1>(s) a = Min(f, far) b = Max(a, near) y = Cast<to=7>(b)", "[N, M]"),
        ("f = Cast<to=1>(s) h = Div(f, two) a = Max(far, h) y = Cast<to=7>(a)", "[1000000000, 1000000000]"),
        ("y = Clip(s, i2, i3)", None),
        ("f = Cast<to=1>(n) y = Sum(f, f)", None),
        ("y = Cast<to=9>(s)", "[N != 0, M != 0]"),
        ("y = Cast<to=6>(s)", "[N, M]"),
        ("f = Cast<to=10>(n) y = Cast<to=7>(f)", None),
        ("a = Sub(n, i2) b = Cast<to=1>(a) c = Relu(b) y = Cast<to=7>(c)", "max(N - 2, 0)"),
        ("a = Sub(n, i2) y = Abs(a)", None),
        ("a = Sub(n, i2) y = Sign(a)", None),
        ("a = Equal(n, i2) b = Equal(n, i3) y = Or(a, b)", None),
        ("a = Greater(n, i2) b = Equal(n, i3) y = Xor(a, b)", None),
        ("a = Sqrt(two) y = Mul(a, a)", None),
        ("f = Cast<to=1>(s) d = Dropout(f) y = Cast<to=7>(d)", "[N, M]"),
    ],
)  # fmt: skip
def test_values(nodes: str, expected: str | None) -> None:
    model = chain(nodes)
    if expected is not None:
        assert value(model) == expected
    agrees(model, N=(0, 1, 2, 3, 4, 5, 6, 7, 10, 11), M=(0, 1, 3))


@pytest.mark.parametrize(
    ("nodes", "most"),
    [
        ("k = Add(b, one) d = Div(k, i2) l = Sub(d, one) e = Div(l, i2) r = Add(d, one) f = Div(r, i2) y = Min(e, f)", 50),
        (
            "k = Sub(b, one) d = Div(k, i2) l0 = Sub(d, one) l1 = Div(l0, i2) l2 = Add(l1, one) e = Div(l2, i2)"
            " r0 = Add(d, one) r1 = Div(r0, i2) r2 = Sub(r1, one) f = Div(r2, i2) y = Min(e, f)",
            1000,
        ),
    ],
)  # fmt: skip
def test_halves_of_lengths_that_may_be_negative_stay_short(nodes: str, most: int) -> None:
    """The lengths of a speech encoder with squeezed frames: each division rounds towards zero."""
    model = chain(f"i80 = Constant<value_int=80>() a = Div(n, i80) c = Sub(a, i3) b = Div(c, i2) {nodes}")
    found = shapesolve.analyze(model).values["y"].elems
    assert found is not None
    assert isinstance(found[0], Dim)
    assert found[0].size <= most
    agrees(model, N=(0, 79, 80, 159, 160, 239, 240, 320, 400, 479, 480, 799, 800, 1040, 4321), M=(1,))


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("limit = Constant<value_float=80000.0>() y = Min(f, limit)", "Ratio(min(N, 80000), 1)"),
        ("limit = Constant<value_float=80000.0>() y = Max(f, limit)", None),
        ("limit = Constant<value_float=2000000.0>() y = Min(f, limit)", None),
    ],
)
def test_a_size_may_exceed_a_float_limit(nodes: str, expected: str | None) -> None:
    """Five seconds of sound are 80000 samples, and many recordings are longer."""
    found = value(chain(f"f = Cast<to=1>(n) {nodes}"))
    assert found == expected


def test_a_half_float_is_given_up() -> None:
    assert value(chain("y = Cast<to=10>(n)")) is None
    assert value(chain("a = Cast<to=10>(i3) y = Mul(a, a)")) == "9.0"


def test_floats_are_those_of_the_type() -> None:
    model = text("", "a = Constant<value_float=0.1>() b = Constant<value_float=0.2>() y = Add(a, b)")
    assert value(model) == str(float(np.float32(0.1) + np.float32(0.2)))
    model = text("", "a = Constant<value_int=200>() b = Cast<to=2>(a) y = Add(b, b)")
    assert value(model) == "144"


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("y = Identity(r)", "[0 .. N - 1]"),
        ("y = Add(r, i3)", "[3 .. N + 2]"),
        ("y = Sub(i3, r)", "[4 - N .. 3]"),
        ("y = Mul(r, i3)", "[0 .. 3*N - 3]"),
        ("y = Mul(r, m1)", "[1 - N .. 0]"),
        ("y = Min(r, i3)", None),
        ("y = Clip(r, i2, i3)", None),
        ("y = Mod(r, i3)", "[0 .. 2]"),
        ("y = Div(r, i2)", None),
        ("y = Cast<to=6>(r)", "[0 .. N - 1]"),
        ("a = Less(r, i3) y = Cast<to=7>(a)", "[0 .. 1]"),
        ("a = Less(r, i3) y = Where(a, r, i3)", None),
        ("a = Neg(r) y = Abs(a)", None),
        ("y = CumSum(r, zero)", None),
    ],
)
def test_bounds(nodes: str, expected: str | None) -> None:
    model = chain(f"r = Range(zero, n, one) {nodes}")
    found = value(model)
    assert found is not None
    if expected is not None:
        assert found == expected
    agrees(model, N=(0, 1, 2, 3, 6), M=(1,))


def test_types() -> None:
    agrees(one("Cast", ["N"], {"to": 11}), N=(0, 2))
    agrees(one("CastLike", ["N", "M"], dtypes=[FLOAT, INT32]), N=(0, 2), M=(1,))
    agrees(one("BitCast", ["N"], {"to": 6}, opset=26), N=(0, 2))
    agrees(one("Equal", ["N", "1"], dtypes=INT64), N=(0, 2))
    agrees(one("Dropout", ["N"], opset=10, n_out=2), N=(0, 2))
    assert shapes(one("BitCast", ["N"], {"to": 7}, opset=26)) != ["[N]"]
