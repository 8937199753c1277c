"""Operators that take or set elements, against onnxruntime over sizes that include 0, 1 and odd ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx.parser
import pytest

import shapesolve
from tests.building import session

from .conftest import BOOL, FLOAT, INT64, agrees, one, shapes, text, value

SIZES = (0, 1, 2, 3, 5, 8)
END, START = 2**63 - 1, -(2**63)


def symbols(inputs: Sequence[str]) -> dict[str, Sequence[int]]:
    return {t: SIZES for shape in inputs for t in shape.split() if t.isidentifier()}


SLICES = [
    (0, 5, 1, "[min(N, 5)]"),
    (-3, END, 1, "[min(N, 3)]"),
    (1, END, 1, "[max(N - 1, 0)]"),
    (0, -1, 1, "[max(N - 1, 0)]"),
    (1, -1, 1, None),
    (0, END, 2, "[(N + 1)//2]"),
    (1, END, 3, None),
    (-5, -2, 2, None),
    (3, 1, 1, "[0]"),
    (END, START, -1, "[N]"),
    (-1, START, -1, "[N]"),
    (-1, START, -2, "[(N + 1)//2]"),
    (0, START, -1, None),
    (2, -5, -1, None),
    (10, -10, -2, None),
    (-10, -20, -1, None),
    (-3, -9, -2, None),
    (4, 0, -3, None),
    (-2, 1, -1, None),
    (2, 2**31 - 1, 1, "[max(N - 2, 0)]"),
    (0, START, 1, "[0]"),
]


@pytest.mark.parametrize(("start", "end", "step", "expected"), SLICES)
def test_slice(start: int, end: int, step: int, expected: str | None) -> None:
    model = one("Slice", ["N"], consts={1: [start], 2: [end], 3: [0], 4: [step]})
    agrees(model, N=SIZES)
    if expected is not None:
        assert shapes(model) == [expected]
    for n in SIZES[1:]:  # data moves as in onnxruntime
        data = np.arange(n, dtype=np.int64)
        agrees(one("Slice", consts={0: data, 1: [start], 2: [end], 3: [0], 4: [step]}))


def test_a_slice_that_runs_down_to_an_end_of_data_may_be_of_nothing() -> None:
    model = one("Slice", ["N", "1"], consts={1: [3], 3: [0], 4: [-1]}, dtypes=[FLOAT, INT64])
    analysis = agrees(model, {"x2": np.array([0])}, N=(0, 1, 2, 5))
    assert str(analysis.contract) == "any input size runs"
    assert not analysis.prove("N >= 1")


@pytest.mark.parametrize(("start", "end"), [("n", "m"), ("n", "k"), ("k", "n"), ("d", "m"), ("zero", "d")])
@pytest.mark.parametrize("step", [1, 2, -1, -2])
def test_slice_symbolic(start: str, end: str, step: int) -> None:
    model = text(
        "float[N] x, float[M] w",
        f"""n = Shape(x)  m = Shape(w)  zero = Constant<value_ints=[0]>()  d = Sub(m, n)  k = Neg(n)
            st = Constant<value_ints=[{step}]>()  y = Slice({"w"}, {start}, {end}, zero, st)""",
    )
    agrees(model, N=(0, 1, 2, 3, 7), M=(0, 1, 2, 4, 5))


@pytest.mark.parametrize(
    ("more", "names"), [("", ""), (", int64[k] a", ", a"), (", int64[k] a, int64[l] p", ", a, p")]
)
def test_slice_by_lists_of_any_length(more: str, names: str) -> None:
    """As many starts, ends, axes and steps as each other, for each axis at most one."""
    model = text(f"float[N, 3] x, int64[n] s, int64[m] e{more}", f"y = Slice(x, s, e{names})")
    lists = {
        "s": lambda at: np.zeros(at["n"], np.int64),
        "e": lambda at: np.ones(at["m"], np.int64),
        "a": lambda at: np.arange(at["k"]),
        "p": lambda at: np.ones(at["l"], np.int64),
    }
    used = {name: make for name, make in lists.items() if name in ("s", "e") or name in names}
    sizes = dict.fromkeys(("n", "m") + ("k",) * ("a" in names) + ("l",) * ("p" in names), (0, 1, 2, 3))
    agrees(model, used, N=(2,), **sizes)


def test_slice_of_a_scalar() -> None:
    """onnxruntime takes none, also where no axis is named."""
    agrees(
        text("float x, int64[n] s", "y = Slice(x, s, s)"),
        {"s": lambda at: np.zeros(at["n"], np.int64)},
        n=(0, 1),
    )
    agrees(one("Slice", [""], consts={1: np.zeros(0, np.int64), 2: np.zeros(0, np.int64)}))


def test_slice_past_to_total() -> None:
    nodes = """p = Shape<start=0, end=1>(x)  s = Shape<start=0, end=1>(w)  t = Add(p, s)
               z = Concat<axis=0>(x, w)  y = Slice(z, p, t)"""
    assert shapes(text("float[past] x, float[seq] w", nodes)) == ["[seq]"]


def test_slice_open() -> None:
    found = shapesolve.analyze(one("Slice", ["N M", "2", "2", "2"], dtypes=[FLOAT, INT64, INT64, INT64]))
    shape = found.shapes["y0"]
    facts = [str(e.cond) for e in found._solved.walk.state.log]
    assert len(shape) == 2
    assert f"N >= {shape[0]}" in facts or f"{shape[0]} <= N" in facts
    assert shapes(
        one("Slice", ["N 4 6"], {"starts": [1, -2], "ends": [3, END], "axes": [1, 2]}, opset=9)
    ) == ["[N, 2, 2]"]


SPLITS = [
    (["N"], {"num_outputs": 2}, {}, 2, 21, "[(N + 1)//2] [N//2]"),
    (["N"], {"num_outputs": 3}, {}, 3, 21, None),
    (["N"], {"num_outputs": 4}, {}, 4, 21, None),
    (["N"], {}, {}, 2, 13, "[N//2] [N//2]"),
    (["N"], {"split": [2, 3]}, {}, 2, 11, "[2] [3]"),
    (["N M"], {"axis": -1}, {1: [1, 0, 2]}, 3, 13, "[N, 1] [N, 0] [N, 2]"),
]


@pytest.mark.parametrize(("inputs", "attrs", "consts", "n", "opset", "expected"), SPLITS)
def test_split(
    inputs: Sequence[str],
    attrs: Mapping[str, Any],
    consts: Mapping[int, Any],
    n: int,
    opset: int,
    expected: str | None,
) -> None:
    model = one("Split", inputs, attrs, consts, n_out=n, opset=opset)
    agrees(model, **{k: (*v, 4, 6, 7, 9) for k, v in symbols(inputs).items()})
    if expected is not None:
        assert " ".join(map(str, shapes(model))) == expected


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize(
    "pads", [(1, 1), (2, 2), (-1, -1), (-2, 3), (0, 3), (-3, 0), (0, 0), (3, -1), (-4, 5)]
)
def test_pad(mode: str, pads: tuple[int, int]) -> None:
    agrees(one("Pad", ["N"], {"mode": mode}, {1: list(pads)}), N=SIZES)
    agrees(one("Pad", ["N M"], {"mode": mode}, {1: [0, pads[0], 0, pads[1]]}), N=(0, 2), M=(0, 1, 3))


def test_pad_forms() -> None:
    assert shapes(one("Pad", ["N M"], {"pads": [0, 1, 2, 3]}, opset=2)) == ["[N + 2, M + 4]"]
    assert shapes(one("Pad", ["N M"], {"paddings": [0, 1, 2, 3]}, opset=1)) == ["[N + 2, M + 4]"]
    assert shapes(one("Pad", ["N M", None], {}, {1: [1, 2], 3: [-1]})) == ["[N, M + 3]"]
    assert shapes(one("Pad", ["?"], {}, {1: [1, 0, 2, 0]}))[0] is not None
    assert value(one("Pad", consts={0: [5, 6], 1: [-1, 2], 2: np.array(9)})) == "[6, 9, 9]"
    floats = shapesolve.analyze(one("Pad", consts={0: np.array([5.0], np.float32), 1: [0, 1]})).values["y0"]
    assert [type(e) for e in floats.elems or ()] == [
        float,
        float,
    ]  # not numpy's: compiled rules take no others


@pytest.mark.parametrize(
    ("op_type", "inputs", "attrs", "consts", "expected"),
    [
        ("Gather", ["N M"], {"axis": 1}, {1: [[0, 2], [-1, 1]]}, "[N, 2, 2]"),
        ("Gather", ["N M"], {"axis": 0}, {1: np.array(1)}, "[M]"),
        ("Gather", ["N M"], {"axis": 0}, {1: np.zeros((0, 2), np.int64)}, "[0, 2, M]"),
        ("GatherElements", ["N M"], {"axis": 0}, {1: [[0, 2]]}, "[1, 2]"),
        ("GatherElements", ["N M"], {"axis": 1}, {1: [[0, 2, 1]]}, "[1, 3]"),
        ("GatherND", ["N M 3"], {}, {1: [[0, 2], [1, 1]]}, "[2, 3]"),
        ("GatherND", ["N M 3"], {}, {1: [[-2]]}, "[1, M, 3]"),
        ("GatherND", ["2 M 3"], {"batch_dims": 1}, {1: [[1], [0]]}, "[2, 3]"),
        ("ScatterElements", ["N M", "1 2"], {"axis": 0}, {1: [[0, 2]]}, "[N, M]"),
        ("ScatterND", ["N M", "2 M"], {}, {1: [[0], [2]]}, "[N, M]"),
        ("ScatterND", ["N 3", "2"], {}, {1: [[0, 1], [2, 2]]}, "[N, 3]"),
        ("TopK", ["N M"], {"axis": 0}, {1: [2]}, "[2, M]"),
        ("TopK", ["N M"], {}, {1: [0]}, "[N, 0]"),
        ("Compress", ["N M"], {"axis": 0}, {1: [True, False, True]}, None),
        ("Compress", ["N M"], {}, {1: [True, False, True]}, None),
        ("CenterCropPad", ["N M"], {}, {1: [3, 4]}, "[3, 4]"),
        ("CenterCropPad", ["N M"], {"axes": [-1]}, {1: [3]}, "[N, 3]"),
        ("CenterCropPad", ["N M"], {}, {1: [3, -4]}, "[3, 0]"),
    ],
)
def test_taking(
    op_type: str, inputs: list[str], attrs: Mapping[str, Any], consts: dict[int, Any], expected: str | None
) -> None:
    consts = {k: np.array(v) for k, v in consts.items()}
    model = one(op_type, inputs, attrs, consts, n_out=2 if op_type == "TopK" else 1)
    agrees(model, **symbols(inputs))
    if expected is not None:
        assert shapes(model)[0] == expected


def test_legacy_forms() -> None:
    assert shapes(one("TopK", ["N 7"], {"k": 3}, opset=1, n_out=2)) == ["[N, 3]", "[N, 3]"]
    assert shapes(one("Scatter", ["N 7", "1 1"], {}, {1: [[0]]}, opset=9)) == ["[N, 7]"]


def test_top_k_run_time() -> None:
    agrees(one("TopK", ["N", "1"], dtypes=[FLOAT, INT64], n_out=2), {"x1": np.array([1])}, N=(1, 2, 3))


@pytest.mark.parametrize(
    ("op_type", "inputs", "attrs", "consts"),
    [
        ("Gather", ["3"], {}, {1: [3]}),
        ("Gather", ["3"], {}, {1: [-4]}),
        ("GatherND", ["2 3"], {}, {1: [[0, 3]]}),
        ("GatherND", ["2 3"], {}, {1: [[0, 0, 0]]}),
        ("ScatterND", ["2 3", "1 4"], {}, {1: [[0]]}),
        ("ScatterElements", ["2 3", "2 1"], {}, {1: [[0]]}),
        ("TopK", ["3"], {}, {1: [4]}),
        ("Split", ["5"], {}, {1: [2, 2]}),
        ("Slice", ["5"], {}, {1: [0], 2: [2], 3: [0], 4: [0]}),
        ("Slice", ["5"], {}, {1: [0], 2: [2], 3: [1]}),
    ],
)
def test_conflicts(
    op_type: str, inputs: list[str], attrs: Mapping[str, Any], consts: Mapping[int, Any]
) -> None:
    n_out = 2 if op_type in ("TopK", "Split") else 1
    assert shapesolve.analyze(one(op_type, inputs, attrs, consts, n_out=n_out))._solved.walk.state.clashes


def test_chosen_by_value() -> None:
    for data in (np.array([0.0, 2.0, 2.0]), np.zeros(3)):
        feeds = {"x0": data.astype(np.float32)}
        agrees(one("NonZero", ["3"]), feeds)
        agrees(one("Unique", ["3"], n_out=4), feeds)
    agrees(one("Unique", ["N 3"], n_out=4), N=(0, 1, 2))
    agrees(one("Unique", ["N 3"], {"axis": 0}, n_out=4), N=(0, 1, 2))
    agrees(one("NonZero", ["N M"], dtypes=INT64), N=(0, 1, 3), M=(0, 2))
    agrees(
        one("Compress", ["N M", "K"], {"axis": 1}, dtypes=[FLOAT, BOOL]),
        N=(0, 2),
        M=(0, 1, 3),
        K=(0, 1, 2, 4),
    )
    assert value(one("NonZero", consts={0: [[0, 1], [2, 0]]})) == "[0, 1, 1, 0]"


def test_tensor_scatter() -> None:
    model = one("TensorScatter", ["B 1 T 3", "B 1 S 3", "B"], opset=24, dtypes=[FLOAT, FLOAT, INT64])
    agrees(model, {"x2": lambda at: np.zeros(at["B"], np.int64)}, B=(1, 2), T=(1, 3), S=(1, 2, 3))


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("i = Constant<value_ints=[2, -3]>()  s = Shape(x)  y = Gather(s, i)", "[4, N]"),
        ("i = Constant<value_int=1>()  s = Shape(x)  y = Gather(s, i)", "M"),
        (
            "a = Constant<value_ints=[1]>()  b = Constant<value_ints=[3]>()  "
            "s = Shape(x)  y = Slice(s, a, b)",
            "[M, 4]",
        ),
        ("i = Constant<value_ints=[1, 1]>()  s = Shape(x)  y = GatherElements(s, i)", "[M, M]"),
        (
            "i = Constant<value=int64[2, 1] {2, 0}>()  s = Shape(x)  y = GatherND(s, i)",
            "[4, N]",
        ),
        (
            "i = Constant<value=int64[1, 1] {0}>()  u = Constant<value_ints=[7]>()  "
            "s = Shape(x)  y = ScatterND(s, i, u)",
            "[7, M, 4]",
        ),
        (
            "i = Constant<value_ints=[-1]>()  u = Constant<value_ints=[7]>()  "
            "s = Shape(x)  y = ScatterElements(s, i, u)",
            "[N, M, 7]",
        ),
        ("c = Constant<value_ints=[1, 2]>()  s = Shape(x)  z, y = Split(s, c)", "[M, 4]"),
        ("k = Constant<value_ints=[1]>()  s = Shape(x)  z, y = TopK(s, k)", "[0 .. 2]"),
    ],
)
def test_values(nodes: str, expected: str) -> None:
    model = text("float[N, M, 4] x", nodes)
    assert value(model) == expected
    agrees(model, N=(1, 2), M=(1, 3))


INDEXED = [
    ("Gather", ["A B", "I J"], {"axis": 1}),
    ("GatherElements", ["A B", "I J"], {"axis": 0}),
    ("GatherND", ["A B C", "I 1"], {}),
    ("GatherND", ["A B C", "I 2"], {}),
    ("GatherND", ["A B C", "I J 1"], {"batch_dims": 1}),
    ("ScatterElements", ["A B", "I J", "I J"], {"axis": 1}),
    ("ScatterND", ["A B", "I 1", "I B"], {}),
    ("ScatterND", ["A B", "I 2", "I"], {}),
]


@pytest.mark.parametrize(("op_type", "inputs", "attrs"), INDEXED)
def test_indices_of_data_into_an_axis_that_may_be_empty(
    op_type: str, inputs: list[str], attrs: Mapping[str, Any]
) -> None:
    dtypes = [FLOAT, INT64, FLOAT][: len(inputs)]
    model = one(op_type, inputs, attrs, dtypes=dtypes, opset=18)
    sizes = dict.fromkeys(symbols(inputs), (0, 1, 2))
    agrees(model, {"x1": lambda at: _zeros(inputs[1], at)}, **sizes)


def _zeros(shape: str, at: Mapping[str, int]) -> np.ndarray[Any, Any]:
    return np.zeros([at[d] if d in at else int(d) for d in shape.split()], np.int64)


def test_bounds_that_nothing_reaches_require_nothing() -> None:
    """Indices of TopK lie below N, which does not mean that the last row of the table is looked up."""
    model = text(
        "float[N] x, float[5, 2] table",
        "k = Constant<value_ints=[1]>()  v, i = TopK(x, k)  y = Gather(table, i)",
    )
    found = shapesolve.analyze(model)
    assert all("indices" not in e.why for e in found._solved.walk.state.log)


@pytest.mark.parametrize(("axis", "shape"), [(None, "[4]"), (0, "[2, 2]"), (1, "[3, 2]")])
def test_distinct_elements_of_known_numbers_are_counted(axis: int | None, shape: str) -> None:
    numbers = np.array([[3, 1], [3, 1], [2, 7]])
    model = one("Unique", [], {} if axis is None else {"axis": axis}, {0: numbers}, n_out=4)
    assert shapes(model)[0] == shape
    agrees(model)


def test_chunks_of_a_known_axis_must_be_told() -> None:
    assert shapesolve.analyze(one("Split", ["8"], opset=18, n_out=2)).conflicts
    assert not shapesolve.analyze(one("Split", ["8"], {"num_outputs": 2}, opset=18, n_out=2)).conflicts


@pytest.mark.parametrize(
    ("attrs", "wanted"), [("", ("[9, 4]", "[1, 2]")), ("<largest=0>", ("[3, 4]", "[0, 2]"))]
)
def test_top_k_of_known_data(attrs: str, wanted: tuple[str, str]) -> None:
    nodes = f"v = Constant<value_ints=[3, 9, 4, 4]>() k = Constant<value_ints=[2]>() y, i = TopK{attrs}(v, k)"
    model = text("float[N] x", nodes, "y, i")
    agrees(model, N=(1,))
    assert (value(model, "y"), value(model, "i")) == wanted


def test_gather_nd_by_an_unknown_number_of_components() -> None:
    agrees(
        one("GatherND", ["3 4", "E"], dtypes=[1, INT64]),
        {"x1": lambda at: np.zeros(at["E"], np.int64)},
        E=range(5),
    )


OFFSETS = {
    "range": "at = Range(p, end, one)",
    "range_and_its_negative": "r = Range(p, end, one) m = Neg(r) k = Neg(m) at = Concat<axis = 0>(r, k)",
    "shifted": "zero = Constant<value_int = 0>() r = Range(zero, n, one) at = Add(r, p)",
    "of_two": "r = Range(p, end, one) q = Shape(cache) at = Concat<axis = 0>(q, r)",
    "tiled": "r = Range(p, end, one) two = Constant<value_ints = [2]>() at = Tile(r, two)",
}


@pytest.mark.parametrize("name", OFFSETS)
@pytest.mark.parametrize("new", [3, 31, 33, 40])
def test_many_indices_at_a_bound_size_keep_their_bounds(name: str, new: int) -> None:
    """The table of 64 positions holds what is past and what is new, however many indices that are."""
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 18]>
        g (float[new] ids, float[past] cache) => (y) {{
            table = Constant<value = float[64] {{{", ".join(["0"] * 64)}}}>()
            one = Constant<value_int = 1>() p = Size(cache) n = Size(ids) end = Add(p, n)
            {OFFSETS[name]} y = Gather(table, at) }}""")
    runner = session(model, optimized=False)  # optimized, a Gather of a Range is a Slice, which fails nowhere
    bound = shapesolve.analyze(model, bind={"new": new})
    for past in (0, 1, 63 - new, 64 - new, 65 - new, 80):
        feeds = {"ids": np.zeros(new, np.float32), "cache": np.zeros(past, np.float32)}
        try:
            runs = bool(runner.run(None, feeds))
        except Exception:
            runs = False
        assert (not bound.check_inputs({"ids": (new,), "cache": (past,)})) == runs, past
        assert bound.contract.holds({"new": new, "past": past}) == runs, past
