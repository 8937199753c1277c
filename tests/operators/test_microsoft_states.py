"""Contrib operators with a state: shapes, and what onnxruntime's own checks refuse.

Most of them have no CPU kernel, so the sizes are those that onnxruntime's shape inference gives when it loads a model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import shapesolve
from shapesolve.lower.interface import find_interface

from .conftest import FLOAT, INT32, INT64, agrees, one, shapes

HALF = 10


def ms(op_type: str, *inputs: str | None, n_out: int = 1, dtypes: Any = HALF, **rest: Any) -> onnx.ModelProto:
    """A node whose inputs have this type, or, where they do not take it, the first one that they take."""
    consts = rest.pop("consts", {})
    if isinstance(dtypes, int):
        interface = find_interface("com.microsoft", op_type, 1)
        assert interface is not None
        formals = [interface.formal(i) for i in range(len(inputs))]
        taken = [frozenset() if f is None else f.allowed for f in formals]
        dtypes = [dtypes if not types or dtypes in types else min(types) for types in taken]
    return one(op_type, inputs, rest, consts, domain="com.microsoft", n_out=n_out, dtypes=dtypes)


def fails(model: onnx.ModelProto) -> bool:
    return bool(shapesolve.analyze(model).conflicts)


LINEAR: Any = {"update_rule": "linear"}
GATED = ("T 4 16", "T 4 16", "T 8 32", "C", None, None, "B 8 32 16")
PACKED = ("T W", None, None, "C", None, None, "B 8 32 16")
CONV = ("T C", "C 1 K", "P", None, "B C _")
IDS = ("T", "_", "_", "P")


def indexer(policy: str = "qsa", n_out: int = 2, **rest: Any) -> onnx.ModelProto:
    csa = policy == "csa"
    given: dict[str, Any] = {"policy_mode": policy, "compress_ratio": 4}
    given |= {"index_topk": 5} if csa else {"token_budget": 8}
    extra = ("B L _", "_ _", "_", "B _", None, rest.pop("buffer", "2 B L0 64")) if csa else ()
    inputs = ("B S 64", "B S 64" if csa else None, "32", "32", "64 16", "64 16", None, "B P 32", *extra)
    return ms("SparseAttentionIndexer", *inputs, n_out=n_out, **(given | rest))


SHAPES = [
    (ms("CausalConvWithState", "B C L", "C 1 K", n_out=2), ["[B, C, L]", "[B, C, K - 1]"]),
    (
        ms("CausalConvWithState", "B 16 7 L", "16 1 3 5", n_out=2, ndim=2, state_window=3),
        ["[B, 16, 7, L]", "[3, B, 16, 7, 4]"],
    ),
    (
        ms("CausalConvWithState", "B L C", "C 1 4", n_out=2, channels_last=1, dilation=2),
        ["[B, L, C]", "[B, 6, C]"],
    ),
    (ms("VarlenCausalConvWithState", *CONV, n_out=2, dilation=3), ["[T, C]", "[P - 1, C, 3*K - 3]"]),
    (ms("GatedDeltaNet", *GATED, **LINEAR, n_out=2), ["[T, 8, 32]", "[C - 1, 8, 32, 16]"]),
    (ms("GatedDeltaNet", *PACKED, **LINEAR, n_out=2), ["[T, 8, 32]", "[C - 1, 8, 32, 16]"]),
    (ms("GatedDeltaNet", "B T 4 K", "B T 4 K", "B T 8 V", **LINEAR, n_out=2), ["[B, T, 8, V]", "[B, 8, V, K]"]),
    (ms("GatedDeltaNet", *GATED[:6], **LINEAR, n_out=2), ["[T, 8, 32]", "[C - 1, 8, 32, 16]"]),
    (ms("NGramHashMapping", "B S", "_", "_", n_out=2, dtypes=INT64, max_ngram_size=3, n_head_per_ngram=4,
        pad_id=0), ["[B, S, 8]", "[B, 2]"]),
    (ms("VarlenNGramHashMapping", *IDS, n_out=2, dtypes=INT64, max_ngram_size=3, n_head_per_ngram=4, pad_id=0),
     ["[T, 8]", "[P - 1, 2]"]),
    (ms("EngramGate", "B S M H", "B S M H", "B S H", "M H", "M H", dtypes=FLOAT), ["[B, S, M, H]"]),
    (indexer(), ["[B, S, 11]", "[B, P + S, 32]"]),
    (ms("PagedAttention", "T H", "T K", None, "64 16 1 K", None, "C", "_", "_ _", num_heads=8, kv_num_heads=1,
        kv_cache_layout="LATENT"), ["[T, H]"]),
    (ms("DynamicSparseAttention", "B S 256", *(None,) * 6, "_", "_", "_", num_heads=4, kv_num_heads=2, n_out=3,
        consts={10: np.array([7], np.int32)}), ["[B, S, 128]", "[B, 2, 7, 32]", "[B, 2, 7, 32]"]),
]  # fmt: skip


@pytest.mark.parametrize(("model", "expected"), SHAPES, ids=[m.graph.node[0].op_type for m, _ in SHAPES])
def test_shapes(model: onnx.ModelProto, expected: list[str]) -> None:
    analysis = shapesolve.analyze(model)
    assert not analysis.conflicts
    assert shapes(model) == expected


@pytest.mark.parametrize(
    ("waiting", "new", "kept", "merged"), [(0, 3, 3, 0), (2, 2, 4, 1), (7, 9, 4, 3), (6, 1, 7, 0)]
)
def test_an_indexer_merges_groups_of_tokens(waiting: int, new: int, kept: int, merged: int) -> None:
    """Of `waiting` tokens all but the last unfinished group are merged already."""
    found = shapesolve.analyze(indexer("csa", 3, buffer="2 B L0 64"))
    assert not found.conflicts
    at = {"B": 2, "S": new, "P": 10, "L0": waiting}
    assert found.shapes["y1"][1].evaluate(at) == 10 + merged
    assert found.shapes["y2"][2].evaluate(at) == kept


REFUSED = {
    "dilation": ms("CausalConvWithState", "B C L", "C 1 K", dilation=0),
    "ndim": ms("CausalConvWithState", "B C L", "C 1 K", ndim=4),
    "layout": ms("CausalConvWithState", "B 2 2 C", "C 1 2 2", ndim=2, channels_last=1),
    "rank": ms("CausalConvWithState", "B C", "C 1 K"),
    "window": ms("LinearAttention", "B T 8", "B T 8", "B T 8", q_num_heads=2, kv_num_heads=2, state_window=9),
    "no count": ms("VarlenCausalConvWithState", *CONV, state_update_capacity=2),
    "no sequence": ms("VarlenCausalConvWithState", "T C", "C 1 K", "1", None, "B C _"),
    "capacity": ms("VarlenCausalConvWithState", *CONV, "B", state_update_capacity=9),
    "state of another kernel": ms("VarlenCausalConvWithState", "T C", "C 1 4", "P", None, "B C 4"),
    "key alone": ms("GatedDeltaNet", "T 4 16", "T 4 16", None, None, None, None, "B 8 32 16", **LINEAR),
    "packed without state": ms("GatedDeltaNet", "T 320", **LINEAR),
    "packed width": ms("GatedDeltaNet", "T 257", None, None, "C", None, None, "B 8 32 16", **LINEAR),
    "no heads": ms("GatedDeltaNet", "T 0 16", "T 0 16", "T 8 32", "C", **LINEAR),
    "no decay": ms("GatedDeltaNet", *GATED),
    "offsets and a batch": ms("GatedDeltaNet", "B T 4 K", "B T 4 K", "B T 8 V", "C", **LINEAR),
    "order": ms("NGramHashMapping", "B S", "_", "_", dtypes=INT64, max_ngram_size=1, n_head_per_ngram=4, pad_id=0),
    "scale": ms("EngramGate", "B S M H", "B S M H", "B S H", "M H", "M H", n_out=2),
    "policy": indexer(policy_mode="other"),
    "budget": indexer(token_budget=7),
    "attribute of the other": indexer(index_topk=4),
    "outputs": indexer(n_out=3),
    "buffer": indexer("csa", 3, buffer="2 B 8 64"),
    "planes": indexer("csa", 3, buffer="3 B 2 64"),
    "latent values": ms("PagedAttention", "T H", "T K", "T K", "64 16 1 K", None, "C", "_", "_ _", num_heads=8,
                        kv_num_heads=1, kv_cache_layout="LATENT"),
    "one cache": ms("PagedAttention", "T 64", "T 8", "T 8", "64 16 1 8", None, "C", "_", "_ _", num_heads=8,
                    kv_num_heads=1),
    "layout of caches": ms("PagedAttention", "T H", "T K", None, "64 16 1 K", None, "C", "_", "_ _", num_heads=8,
                           kv_num_heads=1, kv_cache_layout="ROW"),
    "rank of a cache": ms("PagedAttention", "T 64", "T 8", "T 8", "64 16 8", "64 16 8", "C", "_", "_ _",
                          num_heads=8, kv_num_heads=1),
    "beta": ms("LinearAttentionGate", "B T 4", "4", "4", n_out=2),
    "branches": ms("HyperConnectionPreMix", "B S 8", "B S 4", num_branches=-1),
}  # fmt: skip


@pytest.mark.parametrize("model", REFUSED.values(), ids=REFUSED)
def test_refused(model: onnx.ModelProto) -> None:
    assert fails(model)


def test_a_sliding_window_forgets() -> None:
    """Its buffer need not hold the total length, only a window."""

    def step(total: int) -> onnx.ModelProto:
        past = ("1 2 P 32", "1 2 P 32")
        return ms(
            "GroupQueryAttention", "1 S 128", "1 S 64", "1 S 64", *past, n_out=3, dtypes=FLOAT, num_heads=4,
            kv_num_heads=2, sliding_window_cache=1, local_window_size=16,
            consts={5: np.array([total - 1], np.int32), 6: np.array([total], np.int32)},
        )  # fmt: skip

    agrees(step(100), S=(1, 7), P=(15, 16, 32))
    agrees(step(7), S=(1, 7, 8), P=(16,))


def test_a_new_cache_has_the_type_of_the_query() -> None:
    model = ms("GroupQueryAttention", "2 7 128", "2 7 64", "2 7 64", None, None, "2", "", num_heads=4, kv_num_heads=2,
               n_out=2, dtypes=[HALF] * 5 + [INT32] * 2)  # fmt: skip
    assert shapesolve.analyze(model).dtypes["y1"] == HALF
