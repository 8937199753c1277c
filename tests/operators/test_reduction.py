"""Reductions, their axes by opset, and running sums, against onnxruntime."""

import numpy as np
import pytest

from .conftest import INT64, agrees, one, shapes, text, value

SIZES = (0, 1, 2, 5)
REDUCTIONS = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("axes", [None, [0], [-1], [1, 2], [0, 1, 2], [1, -2]])
@pytest.mark.parametrize("opset", [11, 13, 18])
def test_axes(name: str, keep: int, axes: list[int] | None, opset: int) -> None:
    attrs = {"keepdims": keep}
    as_input = opset >= (13 if name == "Sum" else 18)
    if axes is not None and not as_input:
        attrs["axes"] = axes  # type: ignore[assignment]
    consts = {1: axes} if axes is not None and as_input else {}
    agrees(one(f"Reduce{name}", ["N 3 M"], attrs, consts, opset=opset), N=(0, 2), M=(0, 1, 3))


@pytest.mark.parametrize("name", ["Sum", "Max"])
@pytest.mark.parametrize("noop", [0, 1])
def test_no_axes(name: str, noop: int) -> None:
    attrs = {"noop_with_empty_axes": noop}
    empty = np.zeros(0, np.int64)
    for model in (one(f"Reduce{name}", ["N 3"], attrs), one(f"Reduce{name}", ["N 3"], attrs, {1: empty})):
        assert shapes(model) == (["[N, 3]"] if noop else ["[1, 1]"])
        agrees(model, N=SIZES)
    agrees(one(f"Reduce{name}", [""], attrs, opset=18))


def test_axes_known_at_run_time() -> None:
    model = one("ReduceSum", ["N 3", "1"], {"keepdims": 0}, dtypes=[1, INT64])
    agrees(model, {"x1": np.array([1])}, N=SIZES)
    assert shapes(one("ReduceSum", ["N 3", "K"], {"keepdims": 0}, dtypes=[1, INT64])) == [None]
    agrees(one("ReduceSum", ["N 3", "K"], dtypes=[1, INT64]), {"x1": np.array([0])}, N=SIZES)
    agrees(one("ReduceSum", ["N", "1"], dtypes=[1, INT64]), {"x1": np.array([0])}, N=SIZES)
    agrees(
        one("ReduceSum", ["?", "1"], dtypes=[1, INT64]),
        {"x0": np.ones((2, 3), np.float32), "x1": np.array([0])},
    )
    model = one("ReduceSum", ["N 3"], consts={1: [5]})
    assert shapes(model) == [None]


@pytest.mark.parametrize("name", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("keep", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, -1, 2])
def test_arg(name: str, keep: int, axis: int) -> None:
    agrees(one(name, ["N M"], {"keepdims": keep, "axis": axis}), N=SIZES, M=SIZES)


EMPTY = ["0", "2 0", "0 3", "0 0", "2 0 3"]


@pytest.mark.parametrize("shape", EMPTY)
@pytest.mark.parametrize("keep", [0, 1])
def test_axes_of_what_is_known_to_be_empty(shape: str, keep: int) -> None:
    rank = len(shape.split())
    for axes in ([0], [-1], [-rank], [0, -1], [0, 0], [-1, rank - 1]):
        agrees(one("ReduceMean", [shape], {"keepdims": keep}, {1: axes}))
        agrees(one("ReduceMax", [shape], {"keepdims": keep, "axes": axes}, opset=13))
    for axis in range(-rank, rank):
        agrees(one("ArgMin", [shape], {"keepdims": keep, "axis": axis}))


@pytest.mark.parametrize("shape", [*EMPTY, "2 3"])
@pytest.mark.parametrize("keep", [0, 1])
def test_axes_at_run_time_of_what_may_be_empty(shape: str, keep: int) -> None:
    rank = len(shape.split())
    for axes in ([0], [-1], [0, -1], [0, 0]):
        model = one("ReduceSum", [shape, str(len(axes))], {"keepdims": keep}, dtypes=[1, INT64])
        agrees(model, {"x1": np.array([a if a < rank else 0 for a in axes])})


def test_a_reduced_axis_of_an_empty_tensor_is_reduced() -> None:
    nodes = "m = ReduceMean<axes=[-1]>(x) d = Sub(x, m) n = ReduceL2<axes=[-1]>(d) y = Div(d, n)"
    model = text("float[N, M, 8] x", nodes, "m, y", opset=13)
    assert shapes(model)[1] == "[N, M, 8]"
    analysis = agrees(model, N=(0, 1, 3), M=(0, 1, 2))
    assert not analysis.contract.terms
    assert not analysis.ambiguities
    assert analysis.prove("m[2] == 1")
    flat = text(
        "float[N, 8, H] x, float[8, 5] w",
        "m = ReduceMean<axes=[-1]>(x) f = Flatten(m) y = MatMul(f, w)",
        opset=13,
    )
    agrees(flat, N=(0, 1, 2), H=(0, 1, 3))


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("y = ReduceProd<keepdims=0>(s)", "N*M"),
        ("y = ReduceProd(s)", "[N*M]"),
        ("y = ReduceSum<keepdims=0>(s)", "M + N"),
        ("y = ReduceMax<keepdims=0>(s)", "max(N, M)"),
        ("y = ReduceMin<keepdims=0>(s)", "min(N, M)"),
        ("m = Neg(s) y = ReduceL1<keepdims=0>(m)", "M + N"),
        ("y = ReduceSumSquare<keepdims=0>(s)", None),
        ("y = ReduceProd<noop_with_empty_axes=1>(s)", "[N, M]"),
        ("f = Cast<to=1>(s) y = ReduceSum<keepdims=0>(f)", None),
        ("e = Slice(s, zero, zero) y = ReduceProd<keepdims=0>(e)", "1"),
        ("e = Slice(s, zero, zero) y = ReduceSum<keepdims=0>(e)", "0"),
        ("a = Unsqueeze(s, zero) b = Concat<axis=0>(a, a) y = ReduceSum(b, zero)", "[2*N, 2*M]"),
        ("y = CumSum(s, zero)", "[N, M + N]"),
        ("y = CumSum<exclusive=1>(s, zero)", "[0, N]"),
        ("y = CumSum<reverse=1>(s, zero)", "[M + N, M]"),
        ("y = CumSum<reverse=1, exclusive=1>(s, zero)", "[M, 0]"),
        ("y = CumProd(s, zero)", "[N, N*M]"),
        ("a = ArgMax<axis=0, keepdims=0>(x) y = Cast<to=6>(a)", "[0 .. N - 1]"),
    ],
)
def test_values(nodes: str, expected: str | None) -> None:
    opset = 26 if "CumProd" in nodes else 21
    model = text("float[N, M] x", f"zero = Constant<value_ints=[0]>() s = Shape(x) {nodes}", opset=opset)
    found = value(model)
    assert found is not None
    if expected is not None:
        assert found == expected or sorted(found) == sorted(expected)
    agrees(model, N=(1, 2, 5), M=(0, 1, 3))


@pytest.mark.parametrize("axis", [0, 1, -1, -2, 2])
def test_running(axis: int) -> None:
    agrees(one("CumSum", ["N 3"], consts={1: np.array(axis)}), N=SIZES)
    agrees(one("CumSum", ["N 3"], consts={1: np.array([axis])}), N=SIZES)
    agrees(one("CumSum", ["N 3", ""], dtypes=[1, INT64]), {"x1": np.array(0)}, N=SIZES)
    agrees(one("CumSum", ["N 3", "K"], dtypes=[1, INT64]), N=SIZES, K=(0, 1, 2))


@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceMax", "CumSum"])
def test_axes_that_are_sizes_are_those_of_the_input(op_type: str) -> None:
    """A running sum looks at its axis only where there is data."""
    axes = "n = Size(w)  one = Constant<value_ints = [1]>()  a = Reshape(n, one)  three = Constant<value_int = 3>()"
    for at in ("a", "b"):  # a size, and the same less 3
        model = text(
            "float[A, B] x, float[K] w", f"{axes} b = Sub(a, three)  y = {op_type}(x, {at})", opset=18
        )
        agrees(model, A=(0, 2), B=(1, 3), K=range(7))
