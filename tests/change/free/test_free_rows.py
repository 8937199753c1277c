"""Models whose rows are freed: what comes out treats each row alone, or is refused; onnxruntime is asked."""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import onnx
import onnx.parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shapesolve import Refused, analyze, free
from shapesolve.change.provenance.walk import trace

from ... import building
from .row_models import random_model


def run(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    return building.run(model, {"x": x}, optimized=False)[0]


def outcome(seed: int, steps: int) -> str:
    """What becomes of one random model; fails where a freed one is not its rows stacked."""
    model = random_model(seed, steps)
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(seed).standard_normal((3, *shape[1:])).astype(np.float32)
    single = [run(model, x[i : i + 1]) for i in range(3)]
    try:
        freed = free(model, {"x[0]": "batch"})
    except Refused:
        return "refused"
    dims = freed.graph.output[0].type.tensor_type.shape.dim
    named = [k for k, d in enumerate(dims) if d.dim_param]
    assert len(named) < 2
    for count in (1, 2, 3):
        got = run(freed, x[:count])
        if not named:
            assert is_close(got, single[0]), "an output without rows differs with them"
            continue
        assert any(is_close(rows, np.stack(single[:count])) for rows in in_rows(got, named[0], count)), seed
    return "right"


def is_close(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)


def in_rows(y: np.ndarray, axis: int, count: int) -> Iterator[np.ndarray]:
    """The rows first: they may be anywhere among the factors of the axis, which the model does not say."""
    each, rest = divmod(y.shape[axis], count)
    assert not rest
    for outer in (d for d in range(1, each + 1) if each % d == 0):
        apart = y.reshape(*y.shape[:axis], outer, count, each // outer, *y.shape[axis + 1 :])
        rows = np.moveaxis(apart, axis + 1, 0)
        yield rows.reshape(count, *y.shape[:axis], each, *y.shape[axis + 1 :])


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_random_models_are_right_or_refused(seed: int, steps: int) -> None:
    outcome(seed, steps)


def test_both_outcomes_are_common() -> None:
    counts = Counter(outcome(seed, 3) for seed in range(60))
    assert min(counts["right"], counts["refused"]) >= 12, counts


@pytest.mark.parametrize("grouped", ["ReduceSum <keepdims = 0> (pairs, one)", "Softmax <axis = 1> (pairs)"])
def test_rows_that_are_put_into_groups_are_mixed(grouped: str) -> None:
    model = onnx.parser.parse_model(f"""
    <ir_version: 9, opset_import: ["" : 18]>
    pairs (float[batch, 4] x) => (float y) <int64[1] one = {{1}}, int64[3] target = {{-1, 2, 4}}>
    {{
        pairs = Reshape (x, target)
        y = {grouped}
    }}""")
    found = trace(analyze(model, broadcast="strict", assume=["batch >= 2"]), ["batch"])
    assert "groups" in str(found.of("y").mixed["batch"])
