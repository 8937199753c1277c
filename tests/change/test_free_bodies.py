"""Sizes that a Loop or Scan goes along: trips and first states follow, and nothing inside may hold them."""

import numpy as np
import onnx
import onnx.parser
import pytest

import shapesolve as ss

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


@pytest.mark.parametrize(("dims", "shape"), [({"x[0]": "batch"}, (4, 7, 3)), ({"x[1]": "seq"}, (1, 11, 3))])
def test_a_first_state_follows_the_rows_and_the_trips_the_sequence(
    dims: dict[str, str], shape: tuple[int, ...]
) -> None:
    changed = ss.free(recurrent(), dims)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    np.testing.assert_allclose(run(changed, x), stepped(x), rtol=1e-5, atol=1e-6)


def test_rows_that_were_several_follow_too() -> None:
    fixed = recurrent(start="float[2, 3] h0 = {0, 0, 0, 0, 0, 0}", rows=2)
    changed = ss.free(fixed, {"x[0]": "batch", "x[1]": "seq"})
    x = np.random.default_rng(1).standard_normal((5, 9, 3)).astype(np.float32)
    np.testing.assert_allclose(run(changed, x), stepped(x), rtol=1e-5, atol=1e-6)


def test_states_that_differ_from_row_to_row_are_no_rows() -> None:
    fixed = recurrent(start="float[2, 3] h0 = {0, 0, 0, 1, 1, 1}", rows=2)
    with pytest.raises(ss.Refused):
        ss.free(fixed, {"x[0]": "batch"})


@pytest.mark.parametrize(
    "inside",
    ["k = Cast <to = 1> (i) v = Div (k, seven) o = Mul (u, v)", "o = Slice (u, zero, seven_ends)"],
    ids=["a part of the whole", "an end"],
)
def test_what_holds_the_size_inside_is_refused(inside: str) -> None:
    fixed = recurrent(inside=inside)
    body = fixed.graph.node[0].attribute[0].g
    for name, array in (
        ("seven", np.array(7, np.float32)), ("zero", np.array([0])), ("seven_ends", np.array([7])),
    ):  # fmt: skip
        body.initializer.append(onnx.numpy_helper.from_array(array, name))
    with pytest.raises(ss.Refused, match="may hold the size seq"):
        ss.free(fixed, {"x[1]": "seq"})


def test_trips_that_go_along_nothing_are_refused() -> None:
    fixed = recurrent(trips=7)
    gather = fixed.graph.node[0].attribute[0].g.node[0]
    gather.CopyFrom(onnx.helper.make_node("ReduceMax", ["x"], ["row"], axes=[1], keepdims=0))
    with pytest.raises(ss.Refused, match="makes 7 trips"):
        ss.free(fixed, {"x[1]": "seq"})
