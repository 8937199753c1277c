"""Contrib operators on packed weights, of a mixture of experts, and of linear attention, as onnxruntime 1.32 has them.

Where there is a kernel on the CPU, it is run; of the others, the shapes are those of onnxruntime's own inference, which
`test_inferred_shapes` reads off the warning that it gives for a declared output with a wrong size.
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import numpy as np
import onnx
import pytest

import shapesolve

from .conftest import FLOAT, INT32, INT64, agrees
from .test_microsoft_states import ms

UINT8, HALF, BFLOAT16 = 2, 10, 16


def offsets(at: dict[str, int]) -> Any:
    """The tokens, divided among the sequences."""
    return np.linspace(0, at["T"], at["C"]).astype(np.int32)


@pytest.mark.parametrize("kind", [0, 2, 5, 8, 13, 42])
@pytest.mark.parametrize("k", [32, 64, 256])
def test_gather_packed(kind: int, k: int) -> None:
    width = {0: 4 * k, 2: k // 32 * 18, 8: k // 32 * 34, 13: k // 256 * 176, 42: k // 64 * 18}.get(
        kind, k
    ) or k
    model = ms("GatherPacked", "5 W", "A B", dtypes=[UINT8, INT64], K=k, packed_type=kind, output_dtype=FLOAT)
    agrees(model, W=(width, width - 1), A=(0, 2), B=(1, 3))


@pytest.mark.parametrize("groups", [(1, 1), (2, 1), (2, 2), (2, 3), (0, 0)])
@pytest.mark.parametrize("full", [False, True])
def test_moe_group_router(groups: tuple[int, int], full: bool) -> None:
    group, best = groups
    attrs = {"top_k": 2, "n_group": group, "topk_group": best}
    model = ms("MoEGroupRouter", "A E", "F", dtypes=FLOAT, n_out=3 if full else 1, **attrs)
    if full:  # either all scores or the routed ones
        model.graph.node[0].output[0] = ""
        del model.graph.output[0]
    agrees(model, A=(0, 2), E=(0, 1, 2, 4, 5), F=(0, 1, 2, 4, 5))


def test_moe_group_router_that_projects() -> None:
    model = ms("MoEGroupRouter", "A W", "E", "F V", dtypes=FLOAT, top_k=2, n_out=3)
    model.graph.node[0].output[0] = ""
    del model.graph.output[0]
    agrees(model, A=(0, 2), W=(0, 255, 256), V=(0, 255, 256), E=(1, 2), F=(1, 2))


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize("by_key", [False, True])
def test_gated_delta_net(rule: str, by_key: bool) -> None:
    decay = ("B T H K" if by_key else "B T H") if "gated" in rule else None
    inputs = ["B T 2 K", "B T 2 K", "B T H V", None, decay, "B T H" if "delta" in rule else None, "S H V K"]
    model = ms("GatedDeltaNet", *inputs, dtypes=FLOAT, update_rule=rule, n_out=2)
    agrees(model, B=(0, 1, 2), T=(0, 3), H=(1, 2, 4), K=(0, 4), V=(0, 3), S=(1, 2))


@pytest.mark.parametrize("bias", ["8", "8 16", "128", "7"])
@pytest.mark.parametrize("decay", ["T 8", "T 8 16"])
def test_gates_of_the_delta_net(bias: str, decay: str) -> None:
    kinds = [FLOAT, FLOAT, FLOAT, INT32, *[FLOAT] * 5, INT32]
    model = ms("GatedDeltaNet", "T 4 16", "T 4 16", "T 8 V", "C", decay, "T 8", None, "8", bias, "D", dtypes=kinds,
               gate_activation="softplus", state_update_capacity=2, n_out=3)  # fmt: skip
    agrees(model, {"x3": offsets}, T=(2, 4), C=(2, 3), D=(1, 2), V=(3,))


def test_packed_delta_net() -> None:
    kinds = [FLOAT, FLOAT, FLOAT, INT32, FLOAT, FLOAT, FLOAT]
    rest = (None, None, None, None, None, "B 8 32 16")
    agrees(ms("GatedDeltaNet", "T W", *rest, dtypes=kinds, update_rule="linear", n_out=2),
           T=(0, 3), W=(319, 320, 352), B=(1, 2))  # fmt: skip
    agrees(ms("GatedDeltaNet", "B T W", *rest, dtypes=kinds, update_rule="linear", n_out=2),
           T=(0, 3), W=(320,), B=(0, 1))  # fmt: skip


MAMBA = ("5 772", "6 512 3", "6 4 128 64", "512 4", "512", "4", "4", "4", "256", "1")
INFERRED = [
    ms("MatMulPacked", "2 3 64", "7 40", dtypes=[HALF, UINT8], K=64, N=7, packed_type=8),
    ms("MatMulNBitsQLoRA", "2 3 64", "7 2 16", "7 2", "4 2 16", "4 2", "7 1 16", "7 1",
       dtypes=[HALF, *[UINT8, HALF] * 3], K=64, N=7, block_size=32, lora_block_size=32, bits=4, lora_bits=4),
    ms("MoEPacked", "2 3 64", "6 4", "4 32 20", "4 32 20", "4 64 20", dtypes=[HALF, HALF, UINT8, UINT8, UINT8], k=2,
       gate_type=8, up_type=8, down_type=8),
    ms("RouterGateUpProj", "2 3 64", "64 20", router_size=4, n_out=2),
    ms("HyperConnectionLowRankMix", "2 3 12", "12", "12 5", "5 12", "12 4", num_branches=4, n_out=3),
    ms("SwiGLU", "2 3 12"),
    ms("SwiGLU", "2 3 12", "2 3 12"),
    ms("RMSNormRotary", "2 3 4 16", "8", "1", "9 4", "9 4", dtypes=[HALF, FLOAT, INT64, FLOAT, FLOAT],
       rotary_embedding_dim=8, input_width=8, n_out=2),
    ms("RMSNormRotary", "2 3 4 16", "16", "1", "9 4", "9 4", dtypes=[HALF, FLOAT, INT64, FLOAT, FLOAT],
       rotary_embedding_dim=8, flatten_batch=1, n_out=2),
    ms("ConvStateReplay", "30", "31", "32", "8", dtypes=[FLOAT, FLOAT, FLOAT, INT64]),
    ms("GatedDeltaNetStateReplay", "30", "31", "32", "11", dtypes=[FLOAT, FLOAT, FLOAT, INT64]),
    ms("Mamba2Verify", *MAMBA, dtypes=[BFLOAT16, BFLOAT16, FLOAT, BFLOAT16, BFLOAT16, *[FLOAT] * 4, INT32], heads=4,
       n_groups=1, n_out=5),
    ms("SpeculativePrefixCommit", "2 4", "2 4", "2", "32", "4", "32", "4", dtypes=[7, 7, 6, 7, 7, 7, 7], head_rows=4,
       n_out=3),
    ms("SpeculativePrefixCommit", "4", "4", "2", "16", "2", "16", "2", dtypes=[7, 7, 6, 7, 7, 7, 7], head_rows=4,
       n_out=3),
    ms("PackedSparseAttentionIndexerMerge", "4 5", "4", "6", "6", "6", dtypes=INT32, max_output_entries=9,
       policy_mode="append_range", n_out=3),
]  # fmt: skip

_LOAD = """
import sys, onnx, onnxruntime
onnxruntime.set_default_logger_severity(2)
models = sys.stdin.buffer.read().split(b"<<next>>")
for text in models:
    sys.stderr.write("next model")
    sys.stderr.flush()
    try:
        onnxruntime.InferenceSession(text, providers=["CPUExecutionProvider"])
    except Exception:
        pass
"""


def test_inferred_shapes() -> None:
    """Each output is declared one larger than it is said to be: onnxruntime then tells what it infers."""
    expected, texts = [], []
    for model in INFERRED:
        analysis = shapesolve.analyze(model)
        assert not analysis.conflicts, (model.graph.node[0].op_type, analysis.conflicts)
        found = [str(analysis.shapes[o.name]) for o in model.graph.output]
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        for o, shape in zip(changed.graph.output, found, strict=True):
            o.type.tensor_type.elem_type = analysis.dtypes[o.name]
            sizes = [int(n) for n in re.findall(r"\d+", shape)]
            for n in [*sizes[:-1], sizes[-1] + 1]:
                o.type.tensor_type.shape.dim.add().dim_value = n
        expected.append([shape.strip("[]").replace(" ", "") for shape in found])
        texts.append(changed.SerializeToString())
    done = subprocess.run(
        [sys.executable, "-c", _LOAD], input=b"<<next>>".join(texts), capture_output=True, check=True
    )
    told = done.stderr.decode().split("next model")[1:]
    assert [re.findall(r"source:\{([\d,]*)\}", part) for part in told] == expected
