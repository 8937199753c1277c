"""Sizes that are no rows: what they left behind is said anew, or the model is refused with the node."""

import numpy as np
import onnx
import onnx.parser
import pytest

import shapesolve as ss

from .test_free import ints, model, node
from .test_free_rows import run


def places(n: int) -> np.ndarray:
    return np.arange(n, dtype=np.float32)


def freed(nodes: list[onnx.NodeProto], stored: dict[str, np.ndarray], shape: list[int]) -> onnx.ModelProto:
    return ss.free(model(nodes, stored, shape), {"x[1]": "seq"})


def attended(x: np.ndarray) -> np.ndarray:
    """Softmax of products with places that are not later."""
    scores = x @ np.swapaxes(x, 1, 2)
    scores = np.where(np.tril(np.ones(scores.shape[1:], bool)), scores, np.float32(-1e9))
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ x


@pytest.mark.parametrize("n", [1, 6, 11])
def test_a_causal_mask(n: int) -> None:
    mask = np.where(np.tril(np.ones((6, 6), bool)), 0, -1e9).astype(np.float32)[None]
    changed = freed(
        [
            node("Transpose", "x", "t", perm=[0, 2, 1]),
            node("MatMul", "x t", "s"),
            node("Add", "s mask", "m"),
            node("Softmax", "m", "p", axis=-1),
            node("MatMul", "p x"),
        ],
        {"mask": mask},
        [2, 6, 4],
    )
    x = np.random.default_rng(n).standard_normal((2, n, 4)).astype(np.float32)
    np.testing.assert_allclose(run(changed, x), attended(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n", [1, 6, 9])
def test_numbered_places(n: int) -> None:
    changed = freed([node("Mul", "x k")], {"k": places(6).reshape(1, 6, 1)}, [2, 6, 4])
    x = np.random.default_rng(n).standard_normal((2, n, 4)).astype(np.float32)
    np.testing.assert_allclose(run(changed, x), x * places(n).reshape(1, n, 1))


@pytest.mark.parametrize("n", [1, 6, 9])
def test_indices_of_all_places(n: int) -> None:
    index = np.arange(12).reshape(2, 1, 6)
    changed = freed(
        [node("Reshape", "x flat", "f"), node("Gather", "f index", axis=0)],
        {"flat": ints(-1, 4), "index": index},
        [2, 6, 4],
    )
    x = np.random.default_rng(n).standard_normal((2, n, 4)).astype(np.float32)
    np.testing.assert_array_equal(run(changed, x), x[:, None])


@pytest.mark.parametrize("n", [4, 6, 10])
def test_a_size_to_resize_to_follows_what_it_is_joined_with(n: int) -> None:
    changed = ss.free(
        model(
            [
                node("MaxPool", "x", "small", kernel_shape=[2, 1], strides=[2, 1]),
                node("Resize", "small none none sizes", "large", mode="nearest"),
                node("Concat", "x large", axis=1),
            ],
            {"none": np.zeros(0, np.float32), "sizes": ints(2, 3, 6, 5)},
            [2, 3, 6, 5],
        ),
        {"x[2]": "height"},
    )
    assert run(changed, np.ones((2, 3, n, 5), np.float32)).shape == (2, 6, n, 5)


TABLE = np.random.default_rng(0).random((1, 6, 4)).astype(np.float32)
REFUSED = {
    "a table of positions": ([node("Add", "x table")], {"table": TABLE}, "Add"),
    "the last place": ([node("Gather", "x k", axis=1)], {"k": np.array(5)}, "Gather"),
    "the last places": ([node("Slice", "x a b c")], {"a": ints(4), "b": ints(6), "c": ints(1)}, "Slice"),
    "padding to a multiple": ([node("Pad", "x p")], {"p": ints(0, 0, 0, 0, 2, 0)}, "Pad"),
    "a mean by hand": (
        [node("ReduceSum", "x k", "s"), node("Div", "s n")], {"k": ints(1), "n": np.array(6, np.float32)}, "Div",
    ),
    "a cache": ([node("Concat", "x new", axis=1)], {"new": np.ones((2, 1, 4), np.float32)}, "Concat"),
    "windows": ([node("Reshape", "x k")], {"k": ints(2, 3, 2, 4)}, "Reshape"),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "stored", "culprit"), REFUSED.values(), ids=REFUSED)
def test_what_may_hold_the_size_is_refused(nodes, stored, culprit) -> None:
    with pytest.raises(ss.Refused, match=f"the_{culprit}_y"):
        freed(nodes, stored, [2, 6, 4])


def scanned(body: str) -> onnx.ModelProto:
    """The rows of x, as a state, against each of three stored points."""
    return onnx.parser.parse_model(f"""
    <ir_version: 9, opset_import: ["" : 18]>
    distances (float[1, 4] x) => (float y)
    <float[3, 4] points = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}, int64[1] last = {{1}}>
    {{
        [scan] kept, found = Scan <num_scan_inputs = 1, body = each (float[1, 4] s, float[4] p) => (float[1, 4] t, float[1] d)
        {{ {body} }}> (x, points)
        y = Transpose <perm = [1, 0]> (found)
    }}""")


def test_rows_that_are_a_state_of_a_scan_stay_apart() -> None:
    fixed = scanned("o = Sub (s, p) d = ReduceSumSquare <keepdims = 0> (o, last) t = Identity (s)")
    changed = ss.free(fixed, {"x[0]": "batch"})
    x = np.random.default_rng(5).standard_normal((3, 4)).astype(np.float32)
    points = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_allclose(run(changed, x), ((x[:, None] - points) ** 2).sum(-1), rtol=1e-5)


def test_rows_that_a_step_mixes_are_refused() -> None:
    fixed = scanned(
        "o = Softmax <axis = 0> (s) d = ReduceSumSquare <keepdims = 0> (o, last) t = Identity (o)"
    )
    with pytest.raises(ss.Refused, match="scan"):
        ss.free(fixed, {"x[0]": "batch"})


def test_rows_go_to_the_entry_that_was_open() -> None:
    fixed = model(
        [node("Transpose", "x", "t", perm=[1, 0]), node("Reshape", "t k")], {"k": ints(-1, 1)}, [1, 1]
    )
    assert ss.analyze(ss.free(fixed, {"x[0]": "n"})).shapes["y"] == ss.Shape(["n", 1])


def resized(batch: int, height: int, width: int, to: list[int]) -> onnx.ModelProto:
    """As the last step of a segmentation: from a quarter of the size to these sizes."""
    return model(
        [
            node("MaxPool", "x", "small", kernel_shape=[4, 4], strides=[4, 4]),
            node("Resize", "small none none sizes", "large", mode="nearest"),
            node("Relu", "large"),
        ],
        {"none": np.zeros(0, np.float32), "sizes": ints(batch, 3, *to)},
        [batch, 3, height, width],
    )


@pytest.mark.parametrize(("batch", "height", "width"), [(1, 21, 30), (3, 9, 50), (2, 64, 4)])
def test_back_to_the_size_of_the_input(batch: int, height: int, width: int) -> None:
    changed = ss.free(resized(1, 21, 30, [21, 30]), {"x[0]": "batch", "x[2]": "height", "x[3]": "width"})
    x = np.random.default_rng(width).standard_normal((batch, 3, height, width)).astype(np.float32)
    single = resized(1, height, width, [height, width])
    want = np.concatenate([run(single, x[i : i + 1]) for i in range(batch)])
    np.testing.assert_array_equal(run(changed, x), want)


@pytest.mark.parametrize("to", [[21, 21], [30, 21]])
def test_sizes_that_are_those_of_the_input_in_part_are_refused(to: list[int]) -> None:
    with pytest.raises(ss.Refused, match="the_Resize_large"):
        ss.free(resized(1, 21, 30, to), {"x[2]": "height", "x[3]": "width"})
