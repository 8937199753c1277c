"""`simplify` before the optimizer of onnxscript, as the guide shows it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
from torch_needed import need

need("onnxscript")
import onnxruntime as ort
import onnxscript.optimizer

from shapesolve.onnx_ir import SimplifyPass

ATTENTION = Path(__file__).resolve().parents[2] / "examples/attention.onnx"


def run(model: ir.Model, batch: int, seq: int, past: int) -> list[np.ndarray]:
    session = ort.InferenceSession(ir.to_proto(model).SerializeToString(), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    shapes = {
        "hidden_states": (batch, seq, 64),
        "attention_mask": (batch, 1, seq, past + seq),
        "past_key": (batch, 4, past, 16),
        "past_value": (batch, 4, past, 16),
    }
    return session.run(None, {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()})


def test_the_optimizer_runs_after_it_and_ends_up_with_fewer_nodes() -> None:
    alone = ir.load(ATTENTION)
    onnxscript.optimizer.optimize(alone)
    after = SimplifyPass()(ir.load(ATTENTION)).model
    onnxscript.optimizer.optimize(after)
    assert len(after.graph) < len(alone.graph)
    for sizes in ((1, 1, 0), (2, 3, 4)):
        for a, b in zip(run(ir.load(ATTENTION), *sizes), run(after, *sizes), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
