"""Sizes that were the same as others when they were baked in: what they meet decides what they follow; onnxruntime is asked."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import shapesolve as ss

from .test_free import ints, model, node
from .test_free_models import session
from .test_free_rows import run


def grouped(batch: int, seq: int) -> onnx.ModelProto:
    """Attention of four heads on keys of two, each taken twice."""
    return onnx.parser.parse_model(f"""
    <ir_version: 10, opset_import: ["" : 23]>
    attend (float[{batch}, 4, 3, 8] q, float[{batch}, 2, {seq}, 8] k) => (float y)
    <int64[1] two = {{2}}, int64[5] wide = {{{batch}, 2, 2, {seq}, 8}}, int64[4] heads = {{{batch}, 4, {seq}, 8}}>
    {{
        apart = Unsqueeze (k, two)
        twice = Expand (apart, wide)
        keys = Reshape (twice, heads)
        y = Attention (q, keys, keys)
    }}""")


@pytest.mark.parametrize(("batch", "seq"), [(2, 5), (1, 7), (3, 2)])
def test_heads_that_could_not_follow_the_batch_stay_as_many(batch: int, seq: int) -> None:
    changed = ss.free(grouped(2, 5), {"q[0]": "batch", "k[0]": "batch", "k[2]": "seq"})
    rng = np.random.default_rng(batch)
    feeds = {
        name: rng.standard_normal(shape).astype(np.float32)
        for name, shape in (("q", (batch, 4, 3, 8)), ("k", (batch, 2, seq, 8)))
    }
    want = session(grouped(batch, seq)).run(None, feeds)[0]
    np.testing.assert_allclose(session(changed).run(None, feeds)[0], want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("batch", "seq"), [(2, 3), (1, 7), (4, 2)])
def test_as_many_copies_as_there_were_rows(batch: int, seq: int) -> None:
    """Both sides of an equation have the rows and places as factors, of which none is 0."""
    changed = ss.free(
        model(
            [
                node("Reshape", "x flat", "a"), node("Tile", "a copies", "t"), node("Concat", "a a", "c", axis=0),
                node("Sub", "t c", "zero"), node("Add", "zero t"),
            ],
            {"flat": ints(6, 4), "copies": ints(2, 1)}, [2, 3, 4],
        ),
        {"x[0]": "batch", "x[1]": "seq"},
    )  # fmt: skip
    x = np.random.default_rng(seq).standard_normal((batch, seq, 4)).astype(np.float32)
    np.testing.assert_array_equal(run(changed, x), np.tile(x.reshape(-1, 4), (2, 1)))


def embedded(batch: int, seq: int) -> onnx.ModelProto:
    """Words and places, normalized: onnxruntime's own operator with the places as a stored operand."""
    made = onnx.parser.parse_model(f"""
    <ir_version: 9, opset_import: ["" : 18, "com.microsoft" : 1]>
    embed (int32[{batch}, {seq}] ids) => (float y)
    {{ y, none = com.microsoft.EmbedLayerNormalization (ids, , words, places, , gamma, beta, , numbers) }}""")
    rng = np.random.default_rng(0)
    stored = {"words": (9, 4), "places": (32, 4), "gamma": (4,), "beta": (4,)}
    arrays = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in stored.items()}
    arrays["numbers"] = np.arange(seq, dtype=np.int32)[None]
    made.graph.initializer.extend(numpy_helper.from_array(a, name) for name, a in arrays.items())
    return made


@pytest.mark.parametrize(("batch", "seq"), [(1, 6), (1, 3), (3, 11)])
def test_numbers_of_places_that_an_embedding_is_given(batch: int, seq: int) -> None:
    changed = session(ss.free(embedded(1, 6), {"ids[0]": "batch", "ids[1]": "seq"}))
    ids = np.random.default_rng(seq).integers(0, 9, (batch, seq)).astype(np.int32)
    single = session(embedded(1, seq))
    want = np.concatenate([single.run(None, {"ids": ids[i : i + 1]})[0] for i in range(batch)])
    np.testing.assert_allclose(changed.run(None, {"ids": ids})[0], want, rtol=1e-4, atol=1e-5)


def both_ways(batch: int, seq: int) -> onnx.ModelProto:
    """Two directions with first states that are stored, for as many rows as there are directions."""
    rng = np.random.default_rng(0)
    stored = {"w": (2, 12, 4), "r": (2, 12, 3), "b": (2, 24)}
    arrays = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in stored.items()}
    arrays["state"] = np.zeros((2, batch, 3), np.float32)
    lstm = onnx.helper.make_node(
        "LSTM", ["x", "w", "r", "b", "", "state", "state"], ["y"], "the_LSTM", hidden_size=3, direction="bidirectional"
    )  # fmt: skip
    return model([lstm], arrays, [seq, batch, 4])


@pytest.mark.parametrize(("batch", "seq"), [(2, 7), (1, 3), (5, 9)])
def test_first_states_of_as_many_rows_as_directions(batch: int, seq: int) -> None:
    changed = ss.free(both_ways(2, 7), {"x[0]": "seq", "x[1]": "batch"})
    x = np.random.default_rng(seq).standard_normal((seq, batch, 4)).astype(np.float32)
    want = np.concatenate([run(both_ways(1, seq), x[:, i : i + 1]) for i in range(batch)], axis=2)
    np.testing.assert_allclose(run(changed, x), want, rtol=1e-4, atol=1e-5)
