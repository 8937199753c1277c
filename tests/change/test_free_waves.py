"""Stored sines and cosines of places: computed for as many places as there are, or refused; against onnxruntime."""

import numpy as np
import onnx
import pytest

import shapesolve as ss

from .test_free import ints, model, node
from .test_free_rows import run

HALF = 16


def angles(seq: int, half: int = HALF) -> np.ndarray:
    frequencies = (1 / 10000 ** (np.arange(half) / half)).astype(np.float32)
    return np.arange(seq, dtype=np.float32)[:, None] * frequencies


def rotated(batch: int, seq: int, spread: int = 1) -> onnx.ModelProto:
    """Rotary positions: each half of the features times a stored cosine and sine."""
    both = np.concatenate([angles(seq)] * 2, axis=-1)[None, None]
    both = np.repeat(both, spread, axis=0)
    return model(
        [
            node("Mul", "x cos", "straight"),
            node("Slice", "x zero half three", "first"),
            node("Slice", "x half all three", "second"),
            node("Neg", "second", "minus"),
            node("Concat", "minus first", "turned", axis=3),
            node("Mul", "turned sin", "across"),
            node("Add", "straight across"),
        ],
        {
            "cos": np.cos(both), "sin": np.sin(both), "zero": ints(0), "half": ints(HALF), "three": ints(3),
            "all": ints(1 << 40),
        },
        [batch, 2, seq, 2 * HALF],
    )  # fmt: skip


def apart(seq: int) -> onnx.ModelProto:
    """Sines and cosines stored for axes in another order, as exporters fold them for queries and keys."""
    both = np.concatenate([angles(seq)] * 2, axis=-1)
    return model(
        [
            node("Mul", "x cos", "straight"),
            node("Transpose", "x", "late", perm=[0, 2, 1, 3]),
            node("Mul", "late sin", "across"),
            node("Transpose", "across", "back", perm=[0, 2, 1, 3]),
            node("Add", "straight back"),
        ],
        {"cos": np.cos(both)[None, None], "sin": np.sin(both)[None, :, None]},
        [1, 2, seq, 2 * HALF],
    )


@pytest.mark.parametrize("seq", [7, 1, 300])
def test_sines_and_cosines_along_different_axes(seq: int) -> None:
    changed = ss.free(apart(7), {"x[2]": "seq"})
    x = np.random.default_rng(seq).standard_normal((1, 2, seq, 2 * HALF)).astype(np.float32)
    np.testing.assert_allclose(run(changed, x), run(apart(seq), x), rtol=1e-3, atol=5e-4)


@pytest.mark.parametrize(("batch", "seq"), [(1, 7), (3, 2), (2, 900)])
def test_rotary_positions(batch: int, seq: int) -> None:
    changed = ss.free(rotated(1, 7), {"x[0]": "batch", "x[2]": "seq"})
    x = np.random.default_rng(seq).standard_normal((batch, 2, seq, 2 * HALF)).astype(np.float32)
    want = np.concatenate([run(rotated(1, seq), x[i : i + 1]) for i in range(batch)])
    np.testing.assert_allclose(run(changed, x), want, rtol=1e-3, atol=5e-4)


def test_tables_that_are_repeated_for_each_row() -> None:
    changed = ss.free(rotated(2, 7, spread=2), {"x[0]": "batch", "x[2]": "seq"})
    x = np.random.default_rng(0).standard_normal((3, 2, 40, 2 * HALF)).astype(np.float32)
    np.testing.assert_allclose(run(changed, x), run(rotated(3, 40), x), rtol=1e-3, atol=1e-4)


def by_halves(seq: int) -> np.ndarray:
    return np.concatenate([np.sin(angles(seq)), np.cos(angles(seq))], axis=-1)[None]


def by_turns(seq: int) -> np.ndarray:
    return np.stack([np.sin(angles(seq)), np.cos(angles(seq))], axis=-1).reshape(1, seq, -1)


@pytest.mark.parametrize("table", [by_halves, by_turns])
@pytest.mark.parametrize("seq", [7, 1, 300])
def test_positions_of_sines_beside_cosines(table, seq: int) -> None:
    def fixed(n: int) -> onnx.ModelProto:
        return model([node("Add", "x table")], {"table": table(n)}, [2, n, 2 * HALF])

    x = np.random.default_rng(seq).standard_normal((2, seq, 2 * HALF)).astype(np.float32)
    changed = ss.free(fixed(7), {"x[1]": "seq"})
    np.testing.assert_allclose(run(changed, x), run(fixed(seq), x), rtol=1e-3, atol=1e-4)


PLACES = np.arange(7, dtype=np.float32)[None, :, None]
SINGLE = {
    "cosines alone": np.cos(angles(7))[None],
    "a window": 1 - np.cos(2 * np.pi * PLACES / 7),
    "a wave of that length": np.sin(2 * np.pi * PLACES / 7),
    "as a part of all": np.sin(PLACES / 7),
    "one number off": np.sin(angles(7))[None] + np.eye(7, HALF)[None] * 1e-5,
    "a line that a slow wave would fit": PLACES * -0.0009,
    "fast waves": np.sin(2.5 * PLACES),
}


@pytest.mark.parametrize("table", SINGLE.values(), ids=SINGLE)
def test_what_shows_no_frequency_of_its_own_is_refused(table: np.ndarray) -> None:
    fixed = model([node("Add", "x table")], {"table": table.astype(np.float32)}, [2, 7, table.shape[-1]])
    with pytest.raises(ss.Refused, match="the constant table"):
        ss.free(fixed, {"x[1]": "seq"})


def embedded(batch: int, seq: int) -> onnx.ModelProto:
    stored = {"cos": np.cos(angles(seq))[None], "sin": np.sin(angles(seq))[None]}
    return model([node("RotaryEmbedding", "x cos sin")], stored, [batch, 2, seq, 2 * HALF], opset=23)


@pytest.mark.parametrize(("batch", "seq"), [(1, 7), (3, 2), (2, 300)])
def test_rotary_positions_of_the_operator(batch: int, seq: int) -> None:
    changed = ss.free(embedded(1, 7), {"x[0]": "batch", "x[2]": "seq"})
    x = np.random.default_rng(seq).standard_normal((batch, 2, seq, 2 * HALF)).astype(np.float32)
    want = np.concatenate([run(embedded(1, seq), x[i : i + 1]) for i in range(batch)])
    np.testing.assert_allclose(run(changed, x), want, rtol=1e-3, atol=2e-4)
