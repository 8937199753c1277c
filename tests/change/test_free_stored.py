"""What a fixed size left in stored tensors and targets is said anew for other sizes, or refused: against onnxruntime."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import shapesolve as ss

from .test_free import ints, model, node
from .test_free_models import session
from .test_free_rows import run
from .test_free_sizes import freed

TRIANGLE = np.arange(8)[None] <= np.arange(3)[:, None] + 5


def cached(
    mask: np.ndarray, past: int | str = 5, new: int | str = 3, total: int | str = 8
) -> onnx.ModelProto:
    """Attention of new entries on a cache with them appended, under a stored triangle and a mask that is given."""
    made = onnx.parser.parse_model(f"""
    <ir_version: 9, opset_import: ["" : 18]>
    attend (float[2, {new}, 4] x, float[2, {past}, 4] cache, bool[2, {total}] mask) => (float y, float present)
    <float low = {{-1e9}}, float zero = {{0}}, int64[1] one = {{1}}>
    {{
        present = Concat <axis = 1> (cache, x)
        keys = Transpose <perm = [0, 2, 1]> (present)
        scores = MatMul (x, keys)
        wide = Unsqueeze (mask, one)
        allowed = And (triangle, wide)
        bias = Where (allowed, zero, low)
        masked = Add (scores, bias)
        weights = Softmax <axis = -1> (masked)
        y = MatMul (weights, present)
    }}""")
    made.graph.initializer.append(numpy_helper.from_array(mask[None], "triangle"))
    return made


def attended(x: np.ndarray, cache: np.ndarray, mask: np.ndarray) -> np.ndarray:
    present = np.concatenate([cache, x], axis=1)
    past, total = cache.shape[1], present.shape[1]
    allowed = (np.arange(total)[None] <= np.arange(x.shape[1])[:, None] + past)[None] & mask[:, None]
    scores = np.where(allowed, x @ np.swapaxes(present, 1, 2), np.float32(-1e9))
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ present


CACHE = {"x[1]": "seq", "cache[1]": "past", "mask[1]": "past + seq"}


@pytest.mark.parametrize(("past", "seq"), [(5, 3), (0, 4), (7, 1), (2, 9)])
def test_a_cache_and_the_new_entries(past: int, seq: int) -> None:
    changed = session(ss.free(cached(TRIANGLE), CACHE))
    rng = np.random.default_rng(past)
    x, cache = (rng.standard_normal((2, n, 4)).astype(np.float32) for n in (seq, past))
    mask = rng.random((2, past + seq)) < 0.7
    mask[:, 0] = True
    got = changed.run(None, {"x": x, "cache": cache, "mask": mask})[0]
    np.testing.assert_allclose(got, attended(x, cache, mask), rtol=1e-4, atol=1e-4)


def test_a_cache_alone_is_refused_since_positions_may_be_anywhere() -> None:
    with pytest.raises(ss.Refused, match="appends 3 entries to cache"):
        ss.free(cached(TRIANGLE), {"cache[1]": "past", "mask[1]": "total"})


@pytest.mark.parametrize("change", [(1, 2), (2, 7)])
def test_a_mask_that_is_no_triangle_is_refused(change: tuple[int, int]) -> None:
    mask = TRIANGLE.copy()
    mask[change] = not mask[change]
    with pytest.raises(ss.Refused, match="the constant triangle"):
        ss.free(cached(mask), CACHE)


def centres(height: int, width: int, step: float) -> np.ndarray:
    """The centres of the cells of a grid, row by row: x and y."""
    y, x = np.mgrid[:height, :width]
    return ((np.stack([x, y], -1).reshape(1, -1, 2) + 0.5) * step).astype(np.float32)


def grid(stored: np.ndarray, shape: list[int]) -> onnx.ModelProto:
    """Offsets of cells as `height*width` of them after a convolution of stride 2, added to what is stored."""
    return model(
        [
            node("MaxPool", "x", "small", kernel_shape=[1, 1], strides=[2, 2]),
            node("Transpose", "small", "last", perm=[0, 2, 3, 1]),
            node("Reshape", "last k", "cells"),
            node("Add", "cells stored"),
        ],
        {"k": ints(1, -1, 2), "stored": stored},
        shape,
    )


@pytest.mark.parametrize(("height", "width"), [(9, 13), (4, 21), (17, 2)])
def test_the_centres_of_a_grid(height: int, width: int) -> None:
    changed = ss.free(grid(centres(5, 7, 8), [1, 2, 9, 13]), {"x[2]": "height", "x[3]": "width"})
    x = np.random.default_rng(width).standard_normal((1, 2, height, width)).astype(np.float32)
    small = x[:, :, ::2, ::2]
    want = small.transpose(0, 2, 3, 1).reshape(1, -1, 2) + centres(*small.shape[2:], 8)
    np.testing.assert_allclose(run(changed, x), want, rtol=1e-6)


#: 35 cells of which the numbers may have been computed from the sizes, or follow no rule
ODD = {
    "from 0 to 1": np.stack(np.meshgrid(np.linspace(0, 1, 7), np.linspace(0, 1, 5)), -1),
    "around the middle": centres(5, 7, 8).reshape(5, 7, 2) - np.array([28, 20]),
    "a step that is 13 of 7": centres(5, 7, 13 / 7).reshape(5, 7, 2),
    "backwards": centres(5, 7, 8).reshape(5, 7, 2)[::-1],
    "one cell moved": centres(5, 7, 8).reshape(5, 7, 2) + (np.arange(70) == 40).reshape(5, 7, 2),
    "learned": np.random.default_rng(0).random((5, 7, 2)),
}


@pytest.mark.parametrize("stored", ODD.values(), ids=ODD)
def test_a_grid_that_follows_no_rule_of_its_own_is_refused(stored: np.ndarray) -> None:
    fixed = grid(stored.astype(np.float32).reshape(1, 35, 2), [1, 2, 9, 13])
    with pytest.raises(ss.Refused, match="the constant stored"):
        ss.free(fixed, {"x[2]": "height", "x[3]": "width"})


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


@pytest.mark.parametrize("n", [3, 7, 10])
def test_a_part_of_a_size_goes_to_an_entry(n: int) -> None:
    """Twice the height, split into the height and two, as where pixels are taken apart."""
    changed = ss.free(
        model(
            [node("DepthToSpace", "x", "large", blocksize=2), node("Reshape", "large k")],
            {"k": ints(1, 1, 7, 2, 10)},
            [1, 4, 7, 5],
        ),
        {"x[2]": "height"},
    )
    assert ss.analyze(changed).shapes["y"] == ss.Shape([1, 1, "height", 2, 10])
    assert run(changed, np.ones((1, 4, n, 5), np.float32)).shape == (1, 1, n, 2, 10)


def test_a_size_that_is_split_in_two_that_were_the_same_is_refused() -> None:
    fixed = model(
        [node("DepthToSpace", "x", "large", blocksize=2), node("Reshape", "large k")],
        {"k": ints(1, 1, 2, 2, 10)},
        [1, 4, 2, 5],
    )
    with pytest.raises(ss.Refused, match="the_Reshape_y"):
        ss.free(fixed, {"x[2]": "height"})


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


def windowed(mask: np.ndarray, batch: int = 2) -> onnx.ModelProto:
    """Three windows of each row, with a mask of their own each, as a swin block with all rows' windows in one axis."""
    return model(
        [node("Reshape", "x windows", "w"), node("Add", "w mask")],
        {"windows": ints(3 * batch, 4, 5), "mask": mask},
        [batch, 12, 5],
    )


WINDOWS = np.random.default_rng(3).standard_normal((3, 4, 5)).astype(np.float32)


@pytest.mark.parametrize("batch", [2, 1, 5])
def test_a_mask_per_window_is_repeated_for_each_row(batch: int) -> None:
    changed = ss.free(windowed(np.tile(WINDOWS, (2, 1, 1))), {"x[0]": "batch"})
    x = np.random.default_rng(batch).standard_normal((batch, 12, 5)).astype(np.float32)
    want = run(windowed(np.tile(WINDOWS, (batch, 1, 1)), batch), x)
    np.testing.assert_array_equal(run(changed, x), want)


def test_a_mask_that_is_not_the_same_for_all_rows_is_refused() -> None:
    mask = np.tile(WINDOWS, (2, 1, 1))
    mask[4, 2, 2] += 1
    with pytest.raises(ss.Refused, match="the constant mask"):
        ss.free(windowed(mask), {"x[0]": "batch"})


def masked(batch: int, seq: int, rank: int) -> onnx.ModelProto:
    """The operator for attention under a stored triangle."""
    mask = np.tril(np.ones((seq, seq), bool)).reshape([1] * (rank - 2) + [seq, seq])
    attend = onnx.helper.make_node("Attention", ["x", "x", "x", "mask"], ["y"], "the_Attention")
    return model([attend], {"mask": mask}, [batch, 2, seq, 8], opset=23)


@pytest.mark.parametrize("rank", [2, 4])
@pytest.mark.parametrize(("batch", "seq"), [(1, 6), (3, 10), (2, 2)])
def test_a_triangle_that_attention_is_given(rank: int, batch: int, seq: int) -> None:
    changed = ss.free(masked(1, 6, rank), {"x[0]": "batch", "x[2]": "seq"})
    x = np.random.default_rng(seq).standard_normal((batch, 2, seq, 8)).astype(np.float32)
    want = np.concatenate([run(masked(1, seq, rank), x[i : i + 1]) for i in range(batch)])
    np.testing.assert_allclose(run(changed, x), want, rtol=1e-3, atol=1e-5)


def mask_over_rows(batch: int, seq: int) -> onnx.ModelProto:
    """A causal mask that was spread over a batch which stays: exporters fold that into one stored tensor."""
    triangle = np.where(np.tri(seq, dtype=bool), np.float32(0), np.float32(-1e9))
    return model(
        [
            node("Transpose", "x", "keys", perm=[0, 1, 3, 2]),
            node("MatMul", "x keys", "scores"),
            node("Add", "scores mask", "kept"),
            node("Softmax", "kept", "weights", axis=-1),
            node("MatMul", "weights x"),
        ],
        {"mask": np.broadcast_to(triangle, (batch, 1, seq, seq))},
        [batch, 2, seq, 4],
    )


@pytest.mark.parametrize("seq", [5, 1, 12])
def test_a_causal_mask_that_is_repeated_over_a_batch_that_stays(seq: int) -> None:
    changed = ss.free(mask_over_rows(2, 5), {"x[2]": "seq"})
    x = np.random.default_rng(seq).standard_normal((2, 2, seq, 4)).astype(np.float32)
    np.testing.assert_allclose(run(changed, x), run(mask_over_rows(2, seq), x), rtol=1e-4, atol=1e-5)
