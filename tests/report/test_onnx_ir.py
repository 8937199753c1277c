"""The pass for onnx_ir."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
import pytest

from shapesolve.onnx_ir import ShapePass, SimplifyPass, infer_symbolic_shapes

ROOT = Path(__file__).resolve().parents[2]
ATTENTION = ROOT / "examples/attention.onnx"


def shapes(model: ir.Model) -> dict[str, str]:
    return {v.name or "": str(v.shape) for node in model.graph for v in node.outputs}


def test_the_pass_fills_in_shapes_once() -> None:
    model = ir.load(ATTENTION)
    run = ShapePass()
    assert run(model).modified
    assert shapes(model)["present_key"] == "[batch,4,past_seq + seq,16]"
    assert all(v.shape is not None for node in model.graph for v in node.outputs)
    assert run.analysis is not None
    assert run.analysis.ok
    assert not run(model).modified


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("skip", "[K,4]"), ("override", "[N,4]"), ("refine", "[K,4]")],
)
def test_policies(policy: str, expected: str) -> None:
    value = ir.Value(name="x", shape=ir.Shape(["N", 4]), type=ir.TensorType(ir.DataType.FLOAT))
    inner = ir.node("Relu", [value])
    inner.outputs[0].name, inner.outputs[0].shape = "mid", ir.Shape(["K", 4])
    last = ir.node("Relu", [inner.outputs[0]])
    last.outputs[0].name = "y"
    graph = ir.Graph([value], last.outputs, nodes=[inner, last], opset_imports={"": 17})
    model = infer_symbolic_shapes(ir.Model(graph, ir_version=8), policy=policy)  # type: ignore[arg-type]
    assert str(inner.outputs[0].shape) == expected
    assert str(model.graph.outputs[0].shape) == "[N,4]"
    inner.outputs[0].shape = ir.Shape(["N", 5])
    with pytest.raises(ValueError, match="declared as 5"):
        infer_symbolic_shapes(model, policy="strict")
    with pytest.raises(ValueError, match="policy must be"):
        infer_symbolic_shapes(model, policy="all")  # type: ignore[arg-type]


def test_simplify_is_a_pass_that_shares_weights() -> None:
    model = ir.load(ATTENTION)
    before = len(model.graph)
    result = SimplifyPass()(model)
    assert result.modified
    assert len(model.graph) == before
    assert len(result.model.graph) < before / 2
    shared = result.model.graph.initializers.keys() & model.graph.initializers.keys()
    assert shared
    for name in shared:
        assert result.model.graph.initializers[name].const_value is model.graph.initializers[name].const_value
    assert not SimplifyPass()(result.model).modified
