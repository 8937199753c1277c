"""Sizes that are no rows: freed where nothing that is stored may have followed them, refused with the node elsewhere."""

import numpy as np
import onnx
import onnx.parser
import pytest

import shapesolve as ss

from .test_free import ints, model, node
from .test_free_rows import run


def freed(nodes: list[onnx.NodeProto], stored: dict[str, np.ndarray], shape: list[int]) -> onnx.ModelProto:
    return ss.free(model(nodes, stored, shape), {"x[1]": "seq"})


@pytest.mark.parametrize("n", [1, 6, 11])
def test_targets_that_the_element_count_forces(n: int) -> None:
    weights = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    changed = freed(
        [
            node("Reshape", "x flat", "a"),
            node("Gemm", "a w", "b"),
            node("Reshape", "b heads", "c"),
            node("Transpose", "c", "d", perm=[0, 2, 1, 3]),
            node("Softmax", "d", axis=-1),
        ],
        {"flat": ints(12, 4), "w": weights, "heads": ints(2, 6, 2, 4)},
        [2, 6, 4],
    )
    x = np.random.default_rng(n).standard_normal((2, n, 4)).astype(np.float32)
    scores = np.exp((x @ weights).reshape(2, n, 2, 4).transpose(0, 2, 1, 3))
    np.testing.assert_allclose(run(changed, x), scores / scores.sum(-1, keepdims=True), rtol=1e-4, atol=1e-5)


TABLE = np.random.default_rng(0).random((1, 6, 4)).astype(np.float32)
REFUSED = {
    "a table of positions": ([node("Add", "x table")], {"table": TABLE}, "Add"),
    "the last place": ([node("Gather", "x k", axis=1)], {"k": np.array(5)}, "Gather"),
    "the last places": ([node("Slice", "x a b c")], {"a": ints(4), "b": ints(6), "c": ints(1)}, "Slice"),
    "padding to a multiple": ([node("Pad", "x p")], {"p": ints(0, 0, 0, 0, 2, 0)}, "Pad"),
    "a mean by hand": (
        [node("ReduceSum", "x k", "s"), node("Div", "s n")], {"k": ints(1), "n": np.array(6, np.float32)}, "Div",
    ),
    "a causal mask": (
        [node("Transpose", "x", "t", perm=[0, 2, 1]), node("MatMul", "x t", "s"), node("Where", "mask s low")],
        {"mask": np.tril(np.ones((1, 6, 6), bool)), "low": np.array(-1e9, np.float32)}, "Where",
    ),
    "numbered places": ([node("Mul", "x k")], {"k": np.arange(6, dtype=np.float32).reshape(1, 6, 1)}, "Mul"),
    "a pool": ([node("MaxPool", "x", kernel_shape=[2], strides=[2])], {}, "MaxPool"),
    "a mean of scores": ([node("Mul", "x k")], {"k": np.array(1 / 6, np.float32)}, "Mul"),
    "weights of that size": ([node("MatMul", "x w")], {"w": np.random.default_rng(1).random((4, 6), np.float32)}, "MatMul"),
    "windows": ([node("Reshape", "x k")], {"k": ints(2, 3, 2, 4)}, "Reshape"),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "stored", "culprit"), REFUSED.values(), ids=REFUSED)
def test_what_may_hold_the_size_is_refused(nodes, stored, culprit) -> None:
    with pytest.raises(ss.Refused, match=f"the_{culprit}_y.*generalize"):
        freed(nodes, stored, [2, 6, 4])


@pytest.mark.parametrize("n", [0, 1, 4, 10])
def test_rows_and_places_apart_again(n: int) -> None:
    """A Reshape joins what a later one splits; no size of 0 is taken for a copy."""
    changed = freed(
        [node("Reshape", "x flat", "a"), node("Relu", "a", "b"), node("Reshape", "b apart")],
        {"flat": ints(12, 4), "apart": ints(2, 6, 2, 2)},
        [2, 6, 4],
    )
    x = np.random.default_rng(n).standard_normal((2, n, 4)).astype(np.float32)
    np.testing.assert_array_equal(run(changed, x), np.maximum(x, 0).reshape(2, n, 2, 2))


def test_places_that_are_normalized_together_stay_where_they_are() -> None:
    changed = ss.free(
        model(
            [
                node("Reshape", "x groups", "a"),
                node("InstanceNormalization", "a one zero", "b"),
                node("Reshape", "b back"),
            ],
            {
                "groups": ints(2, 2, -1), "back": ints(2, 4, 6, 5),
                "one": np.ones(2, np.float32), "zero": np.zeros(2, np.float32),
            },
            [2, 4, 6, 5],
        ),
        {"x[2]": "height"},
    )  # fmt: skip
    x = np.random.default_rng(7).standard_normal((2, 4, 9, 5)).astype(np.float32)
    group = x.reshape(2, 2, -1)
    want = (group - group.mean(-1, keepdims=True)) / np.sqrt(group.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(run(changed, x), want.reshape(x.shape), rtol=1e-3, atol=1e-4)


HELD = {
    "a target nobody decides": ([node("Expand", "x k")], {"k": ints(6, 2, 6, 4)}, "the_Expand_y"),
    "a limit": ([node("Clip", "x none k")], {"none": np.array(0, np.float32), "k": np.array(5, np.float32)}, "the_Clip_y"),
    "limits": ([node("Min", "x k")], {"k": np.array([17, 6, 17, 6], np.float32)}, "the_Min_y"),
    "how many of the best": (
        [onnx.helper.make_node("TopK", ["x", "k"], ["y", "i"], "the_TopK", axis=1)], {"k": ints(6)}, "the_TopK",
    ),
    "a pool of everything": (
        [node("Unsqueeze", "x k", "a"), node("AveragePool", "a", kernel_shape=[6, 1])], {"k": ints(3)}, "the_AveragePool_y",
    ),
    "a stride": (
        [
            node("Shape", "x", "s"), node("Mul", "s k", "t"), node("Cast", "t", "f", to=1),
            node("ReduceSum", "f", "g", keepdims=0), node("Add", "x g"),
        ], {"k": ints(24)}, "the_Mul_t",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "stored", "culprit"), HELD.values(), ids=HELD)
def test_what_may_hold_the_size_unseen_is_refused(nodes, stored, culprit) -> None:
    with pytest.raises(ss.Refused, match=culprit):
        freed(nodes, stored, [2, 6, 4])


@pytest.mark.parametrize("low", [-np.inf, np.finfo(np.float32).min])
def test_a_mask_of_the_lowest_numbers_is_read(low: float) -> None:
    mask = np.where(np.tril(np.ones((3, 3), bool)), 0, low).astype(np.float32)[None]
    changed = ss.free(model([node("Add", "x mask")], {"mask": mask}, [1, 3, 3]), {"x[0]": "batch"})
    x = np.random.default_rng(9).standard_normal((2, 3, 3)).astype(np.float32)
    np.testing.assert_array_equal(run(changed, x), x + mask)


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
