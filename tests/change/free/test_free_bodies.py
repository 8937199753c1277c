"""Sizes that a Loop or Scan goes along: trips and first states follow, and nothing inside may hold them."""

import numpy as np
import onnx
import onnx.parser
import pytest

import shapesolve as ss

from .test_free_models import session
from .test_free_rows import run


def recurrent(
    trips: int = 7, inside: str = "o = Identity (u)", start: str = "float[1, 3] h0 = {0, 0, 0}", rows: int = 1
) -> onnx.ModelProto:
    """A state that each step of a sequence is added to."""
    return onnx.parser.parse_model(f"""
    <ir_version: 9, opset_import: ["" : 17]>
    steps (float[{rows}, 7, 3] x) => (float y, float last)
    <int64 n = {{{trips}}}, bool go = {{1}}, {start}>
    {{
        last, y = Loop <body = step (int64 i, bool c, float[{rows}, 3] h) => (bool d, float[{rows}, 3] t, float[{rows}, 3] o)
            <int64[1] four = {{4}}, float half = {{0.5}}, float fifth = {{0.2}}>
        {{
            row = Gather <axis = 1> (x, i)
            s = Add (h, row)
            t = Mul (s, half)
            u = Tanh (t)
            {inside}
            d = Identity (c)
        }}> (n, go, h0)
    }}""")


def stepped(x: np.ndarray) -> np.ndarray:
    state, made = np.zeros_like(x[:, 0]), []
    for k in range(x.shape[1]):
        state = (state + x[:, k]) * np.float32(0.5)
        made.append(np.tanh(state))
    return np.stack(made) if made else np.zeros((0, *state.shape), np.float32)


def test_a_first_state_follows_the_rows() -> None:
    changed = ss.free(recurrent(), {"x[0]": "batch"})
    x = np.random.default_rng(0).standard_normal((4, 7, 3)).astype(np.float32)
    np.testing.assert_allclose(run(changed, x), stepped(x), rtol=1e-5, atol=1e-6)


def test_states_that_differ_from_row_to_row_are_no_rows() -> None:
    fixed = recurrent(start="float[2, 3] h0 = {0, 0, 0, 1, 1, 1}", rows=2)
    with pytest.raises(ss.Refused):
        ss.free(fixed, {"x[0]": "batch"})


def test_another_size_than_rows_of_a_loop_is_refused() -> None:
    with pytest.raises(ss.Refused, match=r"Loop.*generalize"):
        ss.free(recurrent(), {"x[1]": "seq"})


def branched(then: str, otherwise: str, more: str = "") -> onnx.ModelProto:
    """Two ways to compute the same heads of a row."""
    return onnx.parser.parse_model(f"""
    <ir_version: 9, opset_import: ["" : 17]>
    ways (float[1, 7, 4] x, bool which) => (float y, float z)
    <int64[4] heads = {{1, 7, 2, 2}}, int64[3] flat = {{1, 7, 4}}>
    {{
        t = Tanh (x)
        a, z = If (which) <
            then_branch = one () => (float b, float s) {{ {then} }},
            else_branch = other () => (float c, float s) {{ {otherwise} }}
        >
        y = Neg (a)
        {more}
    }}""")


HEADS = (
    "h = Reshape (t, heads) p = Transpose <perm = [0, 2, 1, 3]> (h) q = Transpose <perm = [0, 2, 1, 3]> (p)"
)
NOTHING = "s = Constant <value = float[0, 2] {}> ()"


@pytest.mark.parametrize("which", [True, False])
def test_both_branches_follow(which: bool) -> None:
    """What a branch has no rows of, such as an empty cache, is no reason to refuse."""
    fixed = branched(f"{HEADS} b = Reshape (q, flat) {NOTHING}", "c = Mul (x, t) s = Identity (x)")
    x = np.random.default_rng(2).standard_normal((3, 7, 4)).astype(np.float32)
    y, z = session(ss.free(fixed, {"x[0]": "batch"})).run(None, {"x": x, "which": np.array(which)})
    np.testing.assert_allclose(y, -np.tanh(x) * (1 if which else x), rtol=1e-5, atol=1e-6)
    assert z.shape == ((0, 2) if which else (3, 7, 4))


@pytest.mark.parametrize(
    ("then", "otherwise"),
    [
        (f"b = Identity (t) {NOTHING}", f"c = Softmax <axis = 0> (t) {NOTHING}"),
        (f"b = Identity (t) {NOTHING}", f"c = Transpose <perm = [1, 0, 2]> (t) {NOTHING}"),
    ],
    ids=["mixed in one branch", "rows elsewhere in one branch"],
)
def test_rows_that_a_branch_does_not_keep_are_refused(then: str, otherwise: str) -> None:
    with pytest.raises(ss.Refused):
        ss.free(branched(then, otherwise), {"x[0]": "batch"})


def test_what_only_one_branch_has_rows_of_may_not_be_worked_on() -> None:
    fixed = branched(f"b = Identity (t) {NOTHING}", "c = Identity (t) s = Identity (x)")
    fixed.graph.node.append(onnx.helper.make_node("ReduceMax", ["z"], ["w"], axes=[0], keepdims=1))
    fixed.graph.output.append(onnx.helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, None))
    with pytest.raises(ss.Refused):
        ss.free(fixed, {"x[0]": "batch"})


def test_what_a_body_needs_only_if_it_runs_is_needed() -> None:
    """Twice 9 places, a sum that no stored number tells, against 16; whether the body runs is data."""
    fixed = onnx.parser.parse_model("""
    <ir_version: 9, opset_import: ["" : 17]>
    maybe (float[2, 7] x, int64 n) => (float y)
    <bool go = {1}, float[1, 9] nine = {0, 0, 0, 0, 0, 0, 0, 0, 0},
     float[1, 16] sixteen = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}>
    {
        wide = Concat <axis = 0> (nine, nine)
        y = Loop <body = step (int64 i, bool c, float[2, 7] h) => (bool d, float[2, 7] t)
        {
            longer = Concat <axis = 1> (h, wide)
            s = Add (longer, sixteen)
            most = ReduceMax <axes = [1], keepdims = 1> (s)
            t = Add (h, most)
            d = Identity (c)
        }> (n, go, x)
    }""")
    with pytest.raises(ss.Refused, match="Loop"):
        ss.free(fixed, {"x[1]": "seq"})


def grown(then: str, steps: str, which: str = "one") -> onnx.ModelProto:
    """Rows that get longer by so many places as data says; how long they are decides what is computed of them."""
    return onnx.parser.parse_model(f"""
    <ir_version: 9, opset_import: ["" : 17]>
    longer (float[1, 7, 4] x, int64 n) => (float y)
    <bool go = {{1}}, int64 zero = {{0}}, int64 one = {{1}}, int64 most = {{8}}>
    {{
        {steps}
        z = Loop <body = step (int64 i, bool c, float[1, l, 4] h) => (bool d, float[1, m, 4] t)
            <int64[1] first = {{0}}, int64[1] second = {{1}}, int64[1] along = {{1}}>
        {{
            head = Slice (h, first, second, along)
            t = Concat <axis = 1> (h, head)
            d = Identity (c)
        }}> (trips, go, x)
        s = Shape (z)
        size = Gather (s, {which})
        big = Greater (size, most)
        y = If (big) <
            then_branch = long () => (float[1, p, 4] b) {{ {then} }},
            else_branch = short () => (float[1, q, 4] c) {{ c = Neg (z) }}
        >
    }}""")


@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_size_that_data_decides_may_decide_for_all_rows(n: int) -> None:
    changed = session(ss.free(grown("b = Tanh (z)", "trips = Identity (n)"), {"x[0]": "batch"}))
    x = np.random.default_rng(3).standard_normal((3, 7, 4)).astype(np.float32)
    z = np.concatenate([x, *[x[:, :1]] * n], axis=1)
    (y,) = changed.run(None, {"x": x, "n": np.array(n)})
    np.testing.assert_allclose(y, np.tanh(z) if n > 1 else -z, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("then", "steps", "which"),
    [
        ("b = Softmax <axis = 0> (z)", "trips = Identity (n)", "one"),
        ("b = Tanh (z)", "trips = Identity (n)", "zero"),
        ("b = Tanh (z)", "top = ReduceMax <keepdims = 0> (x) trips = Cast <to = 7> (top)", "one"),
    ],
    ids=["mixed in a branch", "the number of rows decides", "what is in the rows decides"],
)
def test_what_rows_decide_together_is_refused(then: str, steps: str, which: str) -> None:
    with pytest.raises(ss.Refused):
        ss.free(grown(then, steps, which), {"x[0]": "batch"})
