"""Models that compute with their sizes, fixed as an exporter does it and freed: what the original computes, or a refusal.

Each is written with sizes as symbols; onnxruntime folds all that follows from them when they are fixed. What `free` makes of
that is held against the model as it was written, at other sizes: it may be refused, but never differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest

import shapesolve as ss

#: words that the models below share: the number of places, as vector and scalar, and the places
WORDS = """
    zero_ = Constant <value_ints = [0]> ()
    one_ = Constant <value_ints = [1]> ()
    two_ = Constant <value_ints = [2]> ()
    zero = Constant <value = int64 {0}> ()
    one = Constant <value = int64 {1}> ()
    two = Constant <value = int64 {2}> ()
    shape = Shape (x)
    n_ = Gather (shape, one_)
    n = Gather (shape, one)
    places = Range (zero, n, one)
    floats = Cast <to = 1> (places)
    column = Unsqueeze (places, one_)
    row = Unsqueeze (places, zero_)
    apart = Sub (row, column)
    xt = Transpose <perm = [0, 2, 1]> (x)
    scores = MatMul (x, xt)
    low = Constant <value = float {-100.0}> ()
"""
X = "float[2, n, 4] x"
LENGTHS = f"{X}, int64[2] lengths"
MASKED = "y = Where (keep, scores, low)"
CACHED = "float[2, n, 4] x, float[2, m, 4] cache"
JOINED = """
    cached = Shape (cache)
    m = Gather (cached, one)
    all = Concat <axis = 1> (cache, x)
    total = Add (m, n)
    positions = Range (m, total, one)
"""
#: what is freed: inputs, body, and the sizes at which it is fixed
FREED = {
    "padding mask": (
        LENGTHS,
        """
        until = Unsqueeze (lengths, one_)
        keep = Less (row, until)
        factor = Cast <to = 1> (keep)
        wide = Unsqueeze (factor, two_)
        y = Mul (x, wide)""",
        [{"n": 11}, {"n": 3}],
    ),
    "padding mask of floats": (
        LENGTHS,
        """
        until = Unsqueeze (lengths, one_)
        limit = Cast <to = 1> (until)
        line = Unsqueeze (floats, zero_)
        drop = GreaterOrEqual (line, limit)
        wide = Unsqueeze (drop, two_)
        y = Where (wide, low, x)""",
        [{"n": 7}],
    ),
    "numbers from one on": (
        X,
        "next = Add (column, one)\n f = Cast <to = 1> (next)\n y = Mul (x, f)",
        [{"n": 7}],
    ),
    "counted back from the last": (
        X,
        "last = Sub (n, one)\n left = Sub (column, last)\n f = Cast <to = 1> (left)\n y = Mul (x, f)",
        [{"n": 11}],
    ),
    "how many are left": (
        X,
        "last = Sub (n, one)\n left = Sub (last, column)\n f = Cast <to = 1> (left)\n y = Mul (x, f)",
        [{"n": 11}],
    ),
    "distance": (X, "f = Cast <to = 1> (apart)\n y = Add (scores, f)", [{"n": 7}]),
    "slopes": (
        X,
        """
        far = Abs (apart)
        f = Cast <to = 1> (far)
        slope = Constant <value = float[3, 1, 1] {-0.5, -0.25, -0.125}> ()
        bias = Mul (slope, f)
        heads = Unsqueeze (scores, one_)
        y = Add (heads, bias)""",
        [{"n": 11}],
    ),
    "not later": (X, f"keep = LessOrEqual (row, column)\n {MASKED}", [{"n": 5}]),
    "earlier": (X, f"keep = Less (row, column)\n {MASKED}", [{"n": 5}]),
    "not earlier": (X, f"keep = GreaterOrEqual (row, column)\n {MASKED}", [{"n": 7}]),
    "itself": (X, f"keep = Equal (row, column)\n {MASKED}", [{"n": 5}]),
    "sliding window": (
        X,
        f"""
        width = Constant <value = int64 {{-3}}> ()
        near = Greater (apart, width)
        past = LessOrEqual (row, column)
        keep = And (near, past)
        {MASKED}""",
        [{"n": 11}],
    ),
    "cache: positions": (
        CACHED,
        f"""{JOINED}
        p = Cast <to = 1> (positions)
        pc = Unsqueeze (p, one_)
        placed = Add (x, pc)
        turned = Transpose <perm = [0, 2, 1]> (all)
        y = MatMul (placed, turned)""",
        [{"n": 3, "m": 5}, {"n": 4, "m": 6}],
    ),
    "cache: rotary positions": (
        CACHED,
        f"""{JOINED}
        p = Cast <to = 1> (positions)
        pc = Unsqueeze (p, one_)
        by = Constant <value = float[4] {{1.0, 0.1, 0.01, 0.001}}> ()
        angle = Mul (pc, by)
        c = Cos (angle)
        s = Sin (angle)
        xc = Mul (x, c)
        xs = Mul (x, s)
        turned = Add (xc, xs)
        other = Transpose <perm = [0, 2, 1]> (all)
        y = MatMul (turned, other)""",
        [{"n": 3, "m": 5}, {"n": 5, "m": 5}],
    ),
    "three in a row": (
        X,
        """
        end = Constant <value_ints = [9223372036854775807]> ()
        but_two = Constant <value_ints = [-2]> ()
        but_one = Constant <value_ints = [-1]> ()
        a = Slice (x, zero_, but_two, one_)
        b = Slice (x, one_, but_one, one_)
        c = Slice (x, two_, end, one_)
        y = Concat <axis = 2> (a, b, c)""",
        [{"n": 11}],
    ),
}
#: what nothing can be said of: it may follow the size, or not
REFUSED = {
    "first half": (X, "half = Div (n_, two_)\n s = Slice (x, zero_, half, one_)\n y = Relu (s)", [11, 24, 7]),
    "second half": (X, "half = Div (n_, two_)\n s = Slice (x, half, n_, one_)\n y = Relu (s)", [11, 24, 7]),
    "all but the last": (
        X,
        "last = Sub (n_, one_)\n s = Slice (x, zero_, last, one_)\n y = Relu (s)",
        [11, 7],
    ),
    "one in the middle": (
        X,
        "half = Div (n, two)\n s = Gather <axis = 1> (x, half)\n y = Relu (s)",
        [11, 24],
    ),
    "every other": (
        X,
        "half = Div (n, two)\n p = Range (zero, half, one)\n i = Mul (p, two)\n y = Gather <axis = 1> (x, i)",
        [11, 12],
    ),
    "most of half": (X, "half = Div (n_, two_)\n y, i = TopK <axis = 1> (x, half)", [11, 24]),
    "root": (X, "f = Cast <to = 1> (n)\n r = Sqrt (f)\n y = Div (x, r)", [11, 7]),
    "logarithm": (X, "f = Cast <to = 1> (n)\n r = Log (f)\n y = Mul (x, r)\n", [11, 7]),
    "mean": (X, "f = Cast <to = 1> (n)\n s = ReduceSum (x, one_)\n y = Div (s, f)", [11, 3]),
    "kept within": (
        LENGTHS,
        "last = Sub (n, one)\n i = Min (lengths, last)\n y = Gather <axis = 1> (x, i)",
        [7, 4, 3],
    ),
    "band of half": (
        X,
        f"half = Div (n, two)\n far = Abs (apart)\n keep = LessOrEqual (far, half)\n {MASKED}",
        [11, 7, 5],
    ),
    "lengths of a recurrent layer": (
        X,
        """
        both = Concat <axis = 0> (n_, n_)
        y = ReverseSequence <batch_axis = 0, time_axis = 1> (x, both)""",
        [11, 7],
    ),
    "diagonal of half": (X, "half = Div (n, two)\n y = Trilu <upper = 1> (scores, half)", [11, 7]),
    "length of a transform": (
        X,
        "wide = Unsqueeze (xt, zero_)\n c = Transpose <perm = [1, 2, 3, 0]> (wide)\n y = DFT <axis = 2> (c, n)",
        [11, 8],
    ),
    "places that are even": (
        X,
        "odd = Mod (places, two)\n take = Equal (odd, zero)\n y = Compress <axis = 1> (x, take)",
        [11, 8],
    ),
    "the last is written": (
        X,
        """
        last = Sub (n_, one_)
        at = Unsqueeze (last, zero_)
        moved = Transpose <perm = [1, 0, 2]> (x)
        first = Gather <axis = 0> (moved, zero_)
        y = ScatterND (moved, at, first)""",
        [11, 7],
    ),
    "variance": (
        X,
        """
        f = Cast <to = 1> (n)
        unit = Constant <value = float {1.0}> ()
        less = Sub (f, unit)
        s = ReduceSumSquare (x, one_)
        y = Div (s, less)""",
        [11, 5, 3],
    ),
    "mask alone": (LENGTHS, "until = Unsqueeze (lengths, one_)\n y = Less (row, until)", [11, 4]),
}
OTHERS = [{"n": n, "m": m} for n, m in ((5, 3), (2, 9), (12, 1), (17, 6), (1, 4))]


def written(inputs: str, body: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 18]>\n idiom ({inputs}) => (y) {{ {WORDS} {body} }}'
    )


def session(model: onnx.ModelProto, options: ort.SessionOptions | None = None) -> ort.InferenceSession:
    options = options or ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def fixed(
    model: onnx.ModelProto, sizes: Mapping[str, int], folder: Path
) -> tuple[onnx.ModelProto, dict[str, str]]:
    """The model as an export with these sizes writes it, and the places where they were."""
    made, dims = onnx.ModelProto(), {}
    made.CopyFrom(model)
    for value in made.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.dim_param:
                dims[f"{value.name}[{axis}]"] = dim.dim_param
                dim.dim_value = sizes[dim.dim_param]
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(folder / "fixed.onnx")
    session(made, options)
    return onnx.load(folder / "fixed.onnx"), dims


def fed(model: onnx.ModelProto, sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    rng, found = np.random.default_rng(0), {}
    for value in model.graph.input:
        shape = [d.dim_value or sizes[d.dim_param] for d in value.type.tensor_type.shape.dim]
        is_float = value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
        found[value.name] = rng.standard_normal(shape).astype("f4") if is_float else rng.integers(0, 6, shape)
    return found


@pytest.mark.parametrize(("idiom", "at"), [(name, at) for name, (*_, ats) in FREED.items() for at in ats])
def test_freed_it_computes_what_the_model_was_written_to(
    idiom: str, at: dict[str, int], tmp_path: Path
) -> None:
    inputs, body, _ = FREED[idiom]
    model = written(inputs, body)
    baked, dims = fixed(model, at, tmp_path)
    original, changed = session(model), session(ss.free(baked, dims))
    for sizes in (at, *OTHERS):
        given = fed(model, sizes)
        np.testing.assert_allclose(
            changed.run(None, given)[0], original.run(None, given)[0], rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize(("idiom", "n"), [(name, n) for name, (*_, ats) in REFUSED.items() for n in ats])
def test_what_may_follow_the_size_or_not_is_refused(idiom: str, n: int, tmp_path: Path) -> None:
    inputs, body, _ = REFUSED[idiom]
    baked, dims = fixed(written(inputs, body), {"n": n}, tmp_path)
    with pytest.raises(ss.Refused):
        ss.free(baked, dims)


def test_places_are_cut_into_windows_of_one_length(tmp_path: Path) -> None:
    model = written(
        X, "four = Constant <value_ints = [2, -1, 4, 4]> ()\n r = Reshape (x, four)\n y = ReduceMax (r, two_)"
    )
    for at in (16, 8):
        baked, dims = fixed(model, {"n": at}, tmp_path)
        changed = ss.free(baked, dims)
        assert [str(term) for term in ss.analyze(changed).contract] == ["n % 4 == 0"]
        original, freed = session(model), session(changed)
        for n in (at, 4, 12, 20):
            given = fed(model, {"n": n})
            np.testing.assert_array_equal(freed.run(None, given)[0], original.run(None, given)[0])


def test_so_many_windows_or_windows_of_such_a_length_is_refused(tmp_path: Path) -> None:
    body = """
        pair = Constant <value_ints = [2]> ()
        half = Div (n_, two_)
        target = Concat <axis = 0> (two_, half, pair, two_, two_)
        y = Reshape (x, target)"""
    baked, dims = fixed(written(X, body), {"n": 24}, tmp_path)
    with pytest.raises(ss.Refused, match="either of both may follow"):
        ss.free(baked, dims)


IMAGE = "float[1, 2, h, w] x"
SKIPPED = """
    small = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
    twice = Constant <value = float[4] {1.0, 1.0, 2.0, 2.0}> ()
    large = Resize <mode = "nearest"> (small, , twice)
    wanted = Shape <start = 2> (x)
    there = Shape <start = 2> (large)
    lack = Sub (wanted, there)
    two = Constant <value_ints = [2]> ()
    before = Div (lack, two)
    after = Sub (lack, before)
    rows = Constant <value_ints = [0, 0]> ()
    amounts = Concat <axis = 0> (rows, before, rows, after)
    padded = Pad (large, amounts)
    y = Concat <axis = 1> (x, padded)
"""


@pytest.mark.parametrize("at", [(23, 17), (23, 16)])
def test_padding_before_a_skip_connection_makes_up_for_an_odd_size(
    at: tuple[int, int], tmp_path: Path
) -> None:
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 18]>\n unet ({IMAGE}) => (y) {{ {SKIPPED} }}'
    )
    baked, dims = fixed(model, dict(zip("hw", at, strict=True)), tmp_path)
    original, changed = session(model), session(ss.free(baked, dims))
    for h, w in (at, (9, 8), (24, 41), (2, 3)):
        given = fed(model, {"h": h, "w": w})
        np.testing.assert_array_equal(changed.run(None, given)[0], original.run(None, given)[0])


@pytest.mark.parametrize("size", ["Mul (wanted, two)", "Div (wanted, two)"])
def test_a_resize_to_so_many_times_the_size_is_refused(size: str, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 18]>
        image ({IMAGE}) => (y) {{
            wanted = Shape <start = 2> (x)
            rows = Shape <end = 2> (x)
            two = Constant <value_ints = [2]> ()
            places = {size}
            all = Concat <axis = 0> (rows, places)
            y = Resize <mode = "nearest"> (x, , , all)
        }}"""
    )
    baked, dims = fixed(model, {"h": 24, "w": 16}, tmp_path)
    with pytest.raises(ss.Refused, match="so many times as many"):
        ss.free(baked, dims)


def test_padding_of_which_nothing_shows_the_end_is_refused(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 18]>\n unet ({IMAGE}) => (y) {{ {SKIPPED} }}'
    )
    baked, dims = fixed(model, {"h": 24, "w": 16}, tmp_path)
    with pytest.raises(ss.Refused, match="pads an axis"):
        ss.free(baked, dims)


def test_a_factor_beside_an_input_of_that_size_is_none_of_its_means() -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 18]>
        both (float[3, 4] x, float[5, 4] other) => (y, z) <float three = {3.0}> {
            scaled = Div (other, three)
            y = Relu (scaled)
            z = Relu (x)
        }""")
    changed = session(ss.free(model, {"x[0]": "n", "other[0]": "m"}))
    given = {"x": np.ones((6, 4), "f4"), "other": np.ones((2, 4), "f4")}
    np.testing.assert_allclose(changed.run(None, given)[0], np.full((2, 4), 1 / 3, "f4"))
