"""Attention and rotary embeddings against runs; without heads the runtime aborts: that is not run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shapesolve

from ..building import run
from .conftest import BOOL, FLOAT, INT64, agrees, broken, one, shapes

QKV = ["B H S D", "B G T D", "B G T V"]
FEW = {"S": (3,), "D": (8,), "V": (6,)}


def test_grouped_heads() -> None:
    model = one("Attention", QKV, opset=23, n_out=4)
    assert shapes(model) == ["[B, H, S, V]", "[B, G, T, D]", "[B, G, T, V]", "[B, H, S, T]"]
    agrees(model, B=(0, 1, 2), H=(4, 6), G=(1, 2, 4), T=(0, 1, 5), S=(0, 3), D=(0, 8), V=(6,))
    assert broken(shapesolve.analyze(model), {"B": 1, "H": 0, "G": 0, "T": 1, "S": 1, "D": 1, "V": 1})


def test_heads_must_agree() -> None:
    model = one("Attention", ["B 4 S D", "C K T E", "B G U V"], opset=23)
    agrees(model, B=(1, 2), C=(2,), K=(2, 4), G=(2, 4), T=(5,), U=(4, 5), E=(8, 7), **FEW)


@pytest.mark.parametrize("opset", [23, 24])
def test_three_axes(opset: int) -> None:
    attrs = {"q_num_heads": 4, "kv_num_heads": 2}
    model = one("Attention", ["B S Q", "B T K", "B T V"], attrs, opset=opset, n_out=4)
    agrees(model, B=(2,), S=(3,), Q=(32, 33), T=(5,), K=(16, 18), V=(12, 13))
    model = one("Attention", ["B S 32", "B T 16", "B T V"], attrs, opset=opset)
    assert shapes(model) == ["[B, S, 2*V]"]
    assert shapesolve.analyze(one("Attention", ["B S 32", "B T 16", "B T V"], opset=opset)).conflicts


PAST = [None, "B G P D", "B G P V"]


@pytest.mark.parametrize("opset", [23, 24])
def test_past_comes_before_keys_and_values(opset: int) -> None:
    model = one("Attention", [*QKV, *PAST], opset=opset, n_out=4)
    assert shapes(model)[1:] == ["[B, G, P + T, D]", "[B, G, P + T, V]", "[B, H, S, P + T]"]
    agrees(model, B=(1,), H=(4,), G=(2,), T=(1, 5), P=(0, 1, 7), **FEW)


def test_past_must_fit() -> None:
    model = one("Attention", [*QKV, None, "E F P I", "E F R J"], opset=23, n_out=3)
    one_at_a_time = {"E": (1, 2), "F": (2, 4), "P": (7,), "R": (6, 7), "I": (8, 9), "J": (6, 5)}
    agrees(model, B=(2,), H=(4,), G=(2,), T=(5,), **FEW, **one_at_a_time)
    assert shapesolve.analyze(one("Attention", [*QKV, None, "B G P D"], opset=23)).conflicts


@pytest.mark.parametrize("mask", ["M K", "J M K", "I J M K"])
@pytest.mark.parametrize("kind", [BOOL, FLOAT])
def test_mask(mask: str, kind: int) -> None:
    model = one("Attention", [*QKV, mask], opset=23, dtypes=[FLOAT] * 3 + [kind])
    used: dict[str, Any] = {"I": (1, 2, 3), "J": (1, 2, 4), "M": (1, 3), "K": (1, 4, 5)}
    sizes = {k: v for k, v in used.items() if k in mask.split()}
    agrees(model, B=(2,), H=(4,), G=(2,), T=(5,), **FEW, **sizes)


@pytest.mark.parametrize("opset", [23, 24, 25])
@pytest.mark.parametrize("mask", ["B 1 1 T", "1 T", "S 1", "S 4", "S 5", "S 6", "B H S T"])
def test_the_last_sizes_of_a_mask(mask: str, opset: int) -> None:
    """Kernels of onnxruntime take those of queries and keys only; the standard, whose body runs from version 25 on, lets
    them broadcast, and end early from version 24 on.
    """
    at = {"B": 2, "H": 4, "G": 2, "T": 5, "S": 3, "D": 8, "V": 6}
    model = one("Attention", [*QKV, mask], opset=opset)
    feeds = {
        v.name: np.zeros([at.get(d.dim_param, d.dim_value) for d in v.type.tensor_type.shape.dim], np.float32)
        for v in model.graph.input
    }
    try:
        run(model, feeds)
        runs = True
    except Exception:
        runs = False
    assert (broken(shapesolve.analyze(model), at) == "") == runs
    standard = mask in ("B 1 1 T", "1 T", "S 1", "B H S T", "S 5") or (mask == "S 4" and opset >= 24)
    assert (broken(shapesolve.analyze(model, semantics="onnx"), at) == "") == standard


def test_numbers_of_keys_that_are_no_padding() -> None:
    inputs = [*QKV, None, None, None]
    model = one("Attention", [*inputs, "N"], opset=24, dtypes=[FLOAT] * 6 + [INT64])
    agrees(
        model, {"x6": lambda at: np.ones(at["N"], np.int64)}, B=(2,), H=(4,), G=(2,), T=(5,), N=(1, 2), **FEW
    )
    model = one("Attention", inputs, consts={6: np.array([3, 5])}, opset=24)
    agrees(model, B=(2,), H=(4,), G=(2,), T=(4, 5), **FEW)


def test_flex_attention() -> None:
    model = one("FlexAttention", QKV, domain="ai.onnx.preview", opset=1)
    assert shapes(model) == ["[B, H, S, V]"]


def test_linear_attention() -> None:
    attrs = {"q_num_heads": 4, "kv_num_heads": 2}
    inputs = ["B T 32", "B T 16", "B T V", "B 2 8 W", "B T 2", "B T 1"]
    model = one("LinearAttention", inputs, attrs, opset=27, n_out=2)
    assert shapes(model) == ["[B, T, 2*V]", "[B, 2, 8, V//2]"]
    analysis = shapesolve.analyze(model)
    assert broken(analysis, {"B": 1, "T": 0, "V": 6, "W": 3}) == ""
    assert broken(analysis, {"B": 1, "T": 3, "V": 6, "W": 4})
    assert broken(analysis, {"B": 1, "T": 3, "V": 7, "W": 3})


def test_causal_conv_with_state() -> None:
    model = one("CausalConvWithState", ["N C L", "C 1 K", "C", "N C P"], opset=27, n_out=2)
    analysis = shapesolve.analyze(model)
    assert broken(analysis, {"N": 1, "C": 3, "L": 0, "K": 4, "P": 3}) == ""
    assert broken(analysis, {"N": 1, "C": 3, "L": 5, "K": 4, "P": 4})
    assert shapes(one("CausalConvWithState", ["N C L", "C 1 K"], opset=27, n_out=2)) == [
        "[N, C, L]",
        "[N, C, K - 1]",
    ]


# ---------------------------------------------------------------------- rotary embeddings

IDS = [FLOAT, FLOAT, FLOAT, INT64]


def ids(*sizes: str) -> Any:
    return {"x3": lambda at: np.zeros([at[s] for s in sizes], np.int64)}


def test_rotary_embedding_with_positions() -> None:
    model = one("RotaryEmbedding", ["B H S D", "M A", "M A", "C T"], opset=23, dtypes=IDS)
    agrees(
        model,
        ids("C", "T"),
        B=(0, 2),
        H=(4,),
        S=(0, 3),
        D=(7, 8),
        M=(2, 10),
        A=(3, 4),
        C=(0, 1, 2),
        T=(0, 1, 3),
    )


def test_rotary_embedding_of_a_part() -> None:
    attrs = {"num_heads": 4, "rotary_embedding_dim": 4}
    model = one("RotaryEmbedding", ["B S H", "10 A", "10 A", "B S"], attrs, opset=23, dtypes=IDS)
    agrees(model, ids("B", "S"), B=(2,), S=(3,), H=(8, 16, 32, 33), A=(2, 4))


def test_rotary_embedding_with_caches_by_position() -> None:
    model = one("RotaryEmbedding", ["B H S D", "C T A", "C T A"], opset=23)
    agrees(model, B=(2,), H=(4,), S=(1, 3), D=(8,), C=(1, 2), T=(3, 4), A=(4, 5))


@pytest.mark.parametrize("position", [-1, 0, 9, 10])
def test_known_positions_lie_in_the_caches(position: int) -> None:
    inputs = ["2 4 S 8", "M 4", "M 4"]
    model = one("RotaryEmbedding", inputs, consts={3: np.full((2, 3), position)}, opset=23)
    agrees(model, S=(3,), M=(9, 10, 11))
