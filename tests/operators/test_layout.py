"""Operators that rearrange tensors, against onnxruntime over sizes that include 0, 1 and odd ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

import shapesolve

from .conftest import INT64, agrees, one, shapes, text, value

SIZES = (0, 1, 2, 3, 6)


def reshaped(shape: str, target: str, allowzero: int = 0) -> Any:
    """A Reshape of ``float[shape] x`` to a target written with the symbols of the shape: ``"B*S -1"``."""
    dims = shape.replace(" ", ", ")
    names = sorted({t for t in shape.split() if t.isidentifier()})
    nodes = ["s = Shape(x)"]
    for name in names:
        at = shape.split().index(name)
        nodes.append(f"{name} = Shape<start={at}, end={at + 1}>(x)")
    parts = []
    for i, entry in enumerate(target.split()):
        factors = entry.split("*")
        made = []
        for k, factor in enumerate(factors):
            if factor.isidentifier():
                made.append(factor)
            else:
                nodes.append(f"c{i}_{k} = Constant<value_ints=[{factor}]>()")
                made.append(f"c{i}_{k}")
        while len(made) > 1:
            a, b = made.pop(), made.pop()
            nodes.append(f"m{i}_{len(made)} = Mul({a}, {b})")
            made.append(f"m{i}_{len(made)}")
        parts.append(made[0])
    nodes.append(f"t = Concat<axis=0>({', '.join(parts)})")
    nodes.append(f"y = Reshape<allowzero={allowzero}>(x, t)")
    return text(f"float[{dims}] x", "\n".join(nodes))


RESHAPES = [
    ("B S 12", "B -1 4", "[B, 3*S, 4]"),
    ("B S 12", "B S 3 4", "[B, S, 3, 4]"),
    ("B S 12", "B S -1 4", "[B, S, 3, 4]"),
    ("B S 12", "0 0 -1 4", "[B, S, 3, 4]"),
    ("B S 12", "-1 12", "[B*S, 12]"),
    ("B S 12", "B*S 12", "[B*S, 12]"),
    ("B 3 S 4", "B*3 -1 4", "[3*B, S, 4]"),
    ("B 3 S 4", "3*B S 4", None),  # where S is 0, the target copies the 3
    ("B 3 S 4", "-1 S 4", None),
    ("B S D", "B*S D", None),
    ("B S", "S B", None),
    ("B S 6", "B -1 4", "[B, S + S//2, 4]"),
    ("B S 6", "B 3 -1", "[B, 3, 2*S]"),
    ("N", "-1", "[N]"),
    ("N", "-1 4", "[N//4, 4]"),
    ("N", "2 3", "[2, 3]"),
    ("N 2", "2 -1", "[2, N]"),
    ("N M", "-1 0", "[N, M]"),
    ("N M", "0 0 1", None),
    ("N 6", "0 3 2", "[N, 3, 2]"),
    ("N M", "6", "[6]"),
    ("N 0", "0 0 5", None),
]


@pytest.mark.parametrize(("shape", "target", "expected"), RESHAPES)
def test_reshape(shape: str, target: str, expected: str | None) -> None:
    model = reshaped(shape, target)
    free = {t: SIZES for t in shape.split() if t.isidentifier()}
    analysis = agrees(model, **free)
    if expected is not None:
        assert str(analysis.shapes["y"]) == expected


@pytest.mark.parametrize(
    ("shape", "target", "expected"),
    [
        ("B S 12", "B S -1 4", "[B, S, 3, 4]"),
        ("B S 12", "B -1 12", "[B, S, 12]"),
        ("B S 12", "B*S 12", "[B*S, 12]"),
        ("B 3 S 4", "3*B S 4", "[3*B, S, 4]"),
        ("N 3", "0 5", "[0, 5]"),
        ("N 0", "-1 0", "[max(N, 1), 0]"),
        ("A B C", "0 -1 0", "[0, max(A, 1)*(max(B, 1)*max(C, 1)), 0]"),
        ("A B C", "-1 2 0", None),
        ("A 6", "0 -1 4", None),
    ],
)
def test_reshape_allowzero(shape: str, target: str, expected: str | None) -> None:
    model = reshaped(shape, target, allowzero=1)
    assert expected is None or shapes(model) == [expected]
    free = {t: SIZES for t in shape.split() if t.isidentifier()}
    if expected == "[B, S, 12]":  # both empty: onnxruntime leaves out the zeros, which is not followed
        free["B"] = (1, 2, 3)
    agrees(model, **free)


@pytest.mark.parametrize("allowzero", [0, 1])
@pytest.mark.parametrize("entry", ["twice", "less", "both"])
def test_a_target_entry_that_may_be_minus_one(entry: str, allowzero: int) -> None:
    """``2*N - 1`` is -1 for an empty N, and then asks for what is left, as in the relative positions of XLNet."""
    model = text(
        "float[N, M] x",
        f"""two = Constant<value_ints=[2]>() one = Constant<value_ints=[1]>() s = Shape(x)
        n = Shape<start=0, end=1>(x) m = Shape<start=1, end=2>(x) nn = Mul(n, two) twice = Sub(nn, one)
        less = Sub(m, one) both = Concat<axis=0>(less, twice) t = Concat<axis=0>(n, {entry})
        y = Reshape<allowzero={allowzero}>(x, t)""",
    )
    empty = () if allowzero else (0,)  # of a 0 beside a -1 the text allows none, onnxruntime some
    agrees(model, N=(*empty, 1, 2, 3, 4), M=(0, 1, 2, 3, 4, 5, 6, 12))


@pytest.mark.parametrize("entry", ["m", "Where(e, m, m)", "Sub(z, o)"])
def test_a_computed_target_of_two_minus_ones_never_runs(entry: str) -> None:
    nodes = f"""m = Constant<value_ints=[-1]>() z = Constant<value_ints=[0]>() o = Constant<value_ints=[1]>()
        e = Equal(z, o) k = {entry if "(" in entry else f"Identity({entry})"} t = Concat<axis=0>(m, k)
        y = Reshape(x, t)"""
    analysis = agrees(text("float[N] x", nodes), N=(1, 2, 4))
    assert analysis.contract.impossible
    assert str(analysis.prove("N == 4")) == "Unknown(no input size is accepted)"


@pytest.mark.parametrize("axes", [(1, 0), (0, 1)])
def test_lengths_of_an_empty_batch(axes: tuple[int, int]) -> None:
    batch, time = axes
    nodes = f"""k = Constant<value_ints=[{batch}]>() one = Constant<value_ints=[1]>()
        s = Shape(x) n = Gather(s, k) l = Expand(one, n)
        y = ReverseSequence<batch_axis={batch}, time_axis={time}>(x, l)"""
    agrees(text("float[N, N] x", nodes), N=(0, 1, 2))


def test_reshape_run_time_target() -> None:
    model = one("Reshape", ["N 6", "3"], dtypes=[1, INT64])
    analysis = agrees(model, {"x1": np.array([2, -1, 3])}, N=(0, 1, 2, 3))
    assert len(analysis.shapes["y0"]) == 3
    assert shapes(one("Reshape", ["N 6", "K"], dtypes=[1, INT64])) == [None]
    assert shapes(one("Reshape", ["N 6", "1"], dtypes=[1, INT64])) == ["[6*N]"]
    assert shapes(one("Reshape", ["?"], consts={1: [2, -1, 3]}))[0] is not None


@pytest.mark.parametrize(
    ("shape", "target"),
    [("6", [4]), ("6", [-1, -1]), ("6", [-2, 3]), ("6", [6, 0]), ("2 3", [0, 4]), ("5", [-1, 2])],
)
def test_reshape_conflicts(shape: str, target: list[int]) -> None:
    assert shapesolve.analyze(one("Reshape", [shape], consts={1: target}))._solved.walk.state.clashes


def test_reshape_by_attribute() -> None:
    assert shapes(one("Reshape", ["N 6"], {"shape": [0, -1, 2]}, opset=1)) == ["[N, 3, 2]"]


# op, inputs, attributes, constants, opset, expected shape (None: not compared as text)
REGULAR: list[tuple[str, Sequence[str], Mapping[str, Any], Mapping[int, Any], int, str | None]] = [
    ("Flatten", ["N M 3"], {"axis": 0}, {}, 21, "[1, 3*M*N]"),
    ("Flatten", ["N M 3"], {"axis": 3}, {}, 21, "[3*M*N, 1]"),
    ("Flatten", ["N M 3"], {"axis": -1}, {}, 21, "[M*N, 3]"),
    ("Flatten", ["N M 3"], {}, {}, 9, "[N, 3*M]"),
    ("Squeeze", ["N 1 M"], {}, {1: [1]}, 21, "[N, M]"),
    ("Squeeze", ["N 1 M"], {}, {1: [0, -2]}, 21, "[M]"),
    ("Squeeze", ["N 1"], {"axes": [1]}, {}, 11, "[N]"),
    ("Squeeze", ["3 1 4 1"], {}, {}, 21, "[3, 4]"),
    ("Unsqueeze", ["N M"], {}, {1: [0, -1]}, 21, "[1, N, M, 1]"),
    ("Unsqueeze", ["N M"], {"axes": [2, 0]}, {}, 11, "[1, N, 1, M]"),
    ("Transpose", ["N M 3"], {"perm": [2, 0, 1]}, {}, 21, "[3, N, M]"),
    ("Transpose", ["N M 3"], {}, {}, 21, "[3, M, N]"),
    ("Expand", ["N 1"], {}, {1: [2, 1, 6]}, 21, "[2, N, 6]"),
    ("Expand", ["N M"], {}, {1: [3, 1]}, 21, None),
    ("Expand", ["N M"], {}, {1: [0, 1]}, 21, None),
    ("Tile", ["N M"], {}, {1: [2, 3]}, 21, "[2*N, 3*M]"),
    ("Tile", ["N M"], {}, {1: [0, 1]}, 21, "[0, M]"),
    ("DepthToSpace", ["N M 2 3"], {"blocksize": 2}, {}, 21, None),
    ("SpaceToDepth", ["2 1 N M"], {"blocksize": 2}, {}, 21, None),
    ("Trilu", ["N M"], {"upper": 0}, {}, 21, "[N, M]"),
    ("Concat", ["N M", "N 3"], {"axis": -1}, {}, 21, "[N, M + 3]"),
    ("Concat", ["N 2", "M 2", "N 2"], {"axis": 0}, {}, 4, "[2*N + M, 2]"),
    ("Concat", ["N 0", "N M"], {"axis": 1}, {}, 21, "[N, M]"),
    ("Shape", ["N M 3"], {"start": -2}, {}, 21, "[2]"),
    ("Shape", ["N M 3"], {"start": 2, "end": 1}, {}, 21, "[0]"),
    ("Size", ["N M 3"], {}, {}, 21, "[]"),
]


@pytest.mark.parametrize(("op_type", "inputs", "attrs", "consts", "opset", "expected"), REGULAR)
def test_regular(
    op_type: str,
    inputs: Sequence[str],
    attrs: Mapping[str, Any],
    consts: Mapping[int, Any],
    opset: int,
    expected: str | None,
) -> None:
    model = one(op_type, inputs, attrs, consts, opset=opset)
    free = {t: SIZES for shape in inputs for t in shape.split() if t.isidentifier()}
    agrees(model, **free)
    if expected is not None:
        assert shapes(model) == [expected]


@pytest.mark.parametrize(
    ("op_type", "inputs", "attrs", "consts"),
    [
        ("Squeeze", ["N 3"], {}, {1: [1]}),
        ("Squeeze", ["N 3"], {}, {1: [2]}),
        ("Unsqueeze", ["N 3"], {}, {1: [0, 0]}),
        ("Unsqueeze", ["N 3"], {}, {1: [3]}),
        ("Transpose", ["N 3"], {"perm": [0, 0]}, {}),
        ("Flatten", ["N 3"], {"axis": 3}, {}),
        ("Expand", ["4 3"], {}, {1: [2, 3]}),
        ("Tile", ["4 3"], {}, {1: [2]}),
        ("Tile", ["4 3"], {}, {1: [2, -1]}),
        ("Concat", ["2 3", "2 4"], {"axis": 0}, {}),
        ("Concat", ["2 3", "2"], {"axis": 0}, {}),
        ("Concat", ["0", "N 3"], {"axis": 0}, {}),
        ("DepthToSpace", ["1 6 2 2"], {"blocksize": 2}, {}),
        ("Trilu", ["N"], {}, {}),
        ("ReverseSequence", ["4 2"], {}, {1: [1, 5]}),
    ],
)
def test_conflicts(
    op_type: str, inputs: Sequence[str], attrs: Mapping[str, Any], consts: Mapping[int, Any]
) -> None:
    assert shapesolve.analyze(one(op_type, inputs, attrs, consts))._solved.walk.state.clashes


def test_open_ranks() -> None:
    assert shapes(one("Squeeze", ["N 1 3"])) == [None]
    assert shapes(one("Concat", ["?", "?"], {"axis": 0})) == [None]
    assert shapes(one("Transpose", ["?"], {"perm": [1, 0]})) != [None]


@pytest.mark.parametrize(
    ("node", "entries"),
    [
        ("Reshape(x, s)", np.ones),
        ("Expand(x, s)", np.ones),
        ("ConstantOfShape(s)", np.ones),
        ("Unsqueeze(x, s)", np.arange),
        ("GatherND(w, s)", np.zeros),
    ],
)
def test_ranks_that_the_length_of_a_list_gives(node: str, entries: Callable[..., Any]) -> None:
    """A node that needs a rank needs that length; where nothing says so, the contract does not judge it."""
    given = {"s": lambda at: entries(at["K"], dtype=np.int64)}
    for axes in ("0", "1, 0"):
        inputs, last = "float[1] x, float[2, 2, 2] w, int64[K] s", f"y = Transpose<perm=[{axes}]>(v)"
        analysis = agrees(text(inputs, f"v = {node} {last}"), given, K=(0, 1, 2, 3))
        assert analysis.contract.symbols == ("K",)
        assert not analysis.contract.unjudged
        further = shapesolve.analyze(text(inputs, f"u = {node} v = Relu(u) {last}"))
        assert further.contract.unjudged == ("u", "v")


def test_concat_gives_ranks() -> None:
    analysis = shapesolve.analyze(one("Concat", ["N 3", "?"], {"axis": 0}))
    assert len(analysis.shapes["x1"]) == 2


@pytest.mark.parametrize("axis", [0, 1])
def test_concat_of_what_is_known_to_be_empty(axis: int) -> None:
    """onnxruntime does not look at sizes of tensors without elements, but for those that it knows when it loads the model."""
    for pair in product(("0 2", "1 0", "1 2", "3 2", "0 0", "3 0"), repeat=2):
        agrees(one("Concat", pair, {"axis": axis}))
    unseen = "a = Constant<value_ints=[-1, 4, 0]>() e = Reshape(x, a) y = Concat<axis=2>(e, z)"
    agrees(text("float[0] x, float[2, 3, N] z", unseen, opset=13), N=(1, 2))


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("y = Shape(x)", "[N, M, 4]"),
        ("y = Size(x)", "4*M*N"),
        ("s = Shape(x)  t = Constant<value_ints=[3, 1]>()  y = Reshape(s, t)", "[N, M, 4]"),
        ("s = Shape(x)  a = Constant<value_ints=[0]>()  y = Unsqueeze(s, a)", "[N, M, 4]"),
        ("s = Shape<start=2>(x)  y = Squeeze(s)", "4"),
        ("s = Shape(x)  y = Concat<axis=0>(s, s)", "[N, M, 4, N, M, 4]"),
        ("s = Shape<start=0, end=1>(x)  t = Constant<value_ints=[3]>()  y = Expand(s, t)", "[N, N, N]"),
        ("s = Shape<start=1>(x)  t = Constant<value_ints=[2]>()  y = Tile(s, t)", "[M, 4, M, 4]"),
        ("s = Shape<start=1>(x)  t = Shape<start=0, end=1>(x)  y = Expand(t, t)", "[N .. N]"),
    ],
)
def test_values(nodes: str, expected: str) -> None:
    model = text("float[N, M, 4] x", nodes)
    assert value(model) == expected
    agrees(model, N=(1, 2), M=(0, 1, 3))


def test_trilu_of_known_data() -> None:
    data = np.arange(6, dtype=np.int64).reshape(2, 3)
    assert value(one("Trilu", consts={0: data, 1: np.array(1)})) == "[0, 1, 2, 0, 0, 5]"


def test_index_components_stay_apart() -> None:
    nodes = """
        one = Constant<value_ints=[-1]>()  zero = Constant<value_ints=[0]>()
        n = Shape<start=0, end=1>(x)  m = Shape<start=1, end=2>(x)
        rows = Expand(zero, n)  r = Unsqueeze(rows, one)
        cols = Expand(m, n)  k = Unsqueeze(cols, one)
        y = Concat<axis=-1>(r, k)
    """
    found = shapesolve.analyze(text("float[N, M] x", nodes)).values["y"]
    assert found.parts is not None
    assert [tuple(map(str, p.bounds)) for p in found.parts] == [("0", "0"), ("M", "M")]
