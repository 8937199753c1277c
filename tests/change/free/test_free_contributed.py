"""Rows of a batch in operators of onnxruntime: freed models treat each row alone, or are refused; onnxruntime is asked."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import numpy_helper

import shapesolve as ss

from .test_free_rows import run


def quantized(nodes: str, shape: str = "1, 3, 4") -> onnx.ModelProto:
    """Nodes from the quantized `q` to `r`."""
    made = onnx.parser.parse_model(f"""
    <ir_version: 9, opset_import: ["" : 18, "com.microsoft" : 1]>
    rows (float[{shape}] x) => (float y)
    <float s = {{0.05}}, uint8 z = {{128}}, int64[3] flat = {{-1, 3, 4}}, int64[2] two = {{-1, 12}}>
    {{
        q = QuantizeLinear (x, s, z)
        {nodes}
        y = DequantizeLinear (r, s, z)
    }}""")
    rng = np.random.default_rng(0)
    stored = {"table": (1, 3, 4), "column": (4,), "weights": (4, 5), "dense": (12, 5)}
    for name, dims in stored.items():
        made.graph.initializer.append(
            numpy_helper.from_array(rng.integers(90, 160, dims).astype(np.uint8), name)
        )
    return made


KEPT = {
    "QLinearAdd": "r = com.microsoft.QLinearAdd (q, s, z, table, s, z, s, z)",
    "QLinearMul": "r = com.microsoft.QLinearMul (q, s, z, column, s, z, s, z)",
    "QLinearSigmoid": "r = com.microsoft.QLinearSigmoid (q, s, z, s, z)",
    "QLinearLeakyRelu": "r = com.microsoft.QLinearLeakyRelu <alpha = 0.1> (q, s, z, s, z)",
    "QLinearSoftmax": "r = com.microsoft.QLinearSoftmax <opset = 13, axis = -1> (q, s, z, s, z)",
    "QLinearConcat": "r = com.microsoft.QLinearConcat <axis = 1> (s, z, q, s, z, table, s, z)",
    "QGemm": "f = Reshape (q, two) r = com.microsoft.QGemm (f, s, z, dense, s, z, , s, z)",
    "MatMulIntegerToFloat": (
        "p = com.microsoft.MatMulIntegerToFloat (q, weights, s, s, z, z) r = QuantizeLinear (p, s, z)"
    ),
}  # fmt: skip


@pytest.mark.parametrize("nodes", KEPT.values(), ids=KEPT)
def test_rows_stay_apart(nodes: str) -> None:
    fixed = quantized(nodes)
    changed = ss.free(fixed, {"x[0]": "batch"})
    x = np.random.default_rng(1).standard_normal((4, 3, 4)).astype(np.float32)
    want = np.concatenate([run(fixed, x[i : i + 1]) for i in range(4)])
    np.testing.assert_array_equal(run(changed, x), want)


MIXED = {
    "QLinearSoftmax": "r = com.microsoft.QLinearSoftmax <opset = 13, axis = 0> (q, s, z, s, z)",
    "QLinearConcat": "r = com.microsoft.QLinearConcat <axis = 0> (s, z, q, s, z, table, s, z)",
    "QGemm": "f = Reshape (q, two) t = Transpose (f) r = com.microsoft.QGemm (f, s, z, t, s, z, , s, z)",
    "DynamicQuantizeMatMul": (
        "f = DequantizeLinear (q, s, z) p = com.microsoft.DynamicQuantizeMatMul (f, weights, s, z) "
        "r = QuantizeLinear (p, s, z)"
    ),
}


@pytest.mark.parametrize("name", MIXED)
def test_rows_that_meet_are_refused(name: str) -> None:
    with pytest.raises(ss.Refused, match=name):
        ss.free(quantized(MIXED[name]), {"x[0]": "batch"})


def test_an_image_of_the_mean_of_each_channel() -> None:
    fixed = quantized("r = com.microsoft.QLinearGlobalAveragePool (q, s, z, s, z)", "1, 2, 3, 4")
    changed = ss.free(fixed, {"x[0]": "batch"})
    x = np.random.default_rng(1).standard_normal((4, 2, 3, 4)).astype(np.float32)
    want = np.concatenate([run(fixed, x[i : i + 1]) for i in range(4)])
    np.testing.assert_array_equal(run(changed, x), want)


def rotated(positions: np.ndarray) -> onnx.ModelProto:
    made = onnx.parser.parse_model("""
    <ir_version: 9, opset_import: ["" : 18, "com.microsoft" : 1]>
    rotate (float[1, 2, 5, 8] x) => (float y)
    { y = com.microsoft.RotaryEmbedding (x, at, cos, sin) }""")
    angles = np.arange(9)[:, None] * np.array([1, 0.5, 0.1, 0.01])
    stored = {
        "at": positions, "cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32),
    }  # fmt: skip
    made.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in stored.items())
    return made


@pytest.mark.parametrize("positions", [np.array([2]), np.array([[3, 1, 0, 2, 4]])], ids=["start", "each"])
def test_rotary_positions(positions: np.ndarray) -> None:
    fixed = rotated(positions)
    changed = ss.free(fixed, {"x[0]": "batch"})
    x = np.random.default_rng(1).standard_normal((3, 2, 5, 8)).astype(np.float32)
    want = np.concatenate([run(fixed, x[i : i + 1]) for i in range(3)])
    np.testing.assert_allclose(run(changed, x), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("axes", "kept"), [("N a, N b -> N c", True), ("n a, n b -> N c", False), (None, False)]
)
def test_an_operator_of_the_users(axes: str | None, kept: bool) -> None:
    """Its declaration says what becomes of the rows."""
    domain = f"acme.{axes}"
    ss.register(domain, "Interleave", axes=axes)(
        lambda op: op.out([op.shape(0)[0], op.shape(0)[1] + op.shape(1)[1]])
    )
    node = onnx.helper.make_node("Interleave", ["x", "x"], ["y"], "joined", domain=domain)
    graph = onnx.helper.make_graph(
        [node], "rows",
        [onnx.helper.make_tensor_value_info("x", 1, [1, 3])], [onnx.helper.make_tensor_value_info("y", 1, None)],
    )  # fmt: skip
    imports = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid(domain, 1)]
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=9)
    if kept:
        assert str(ss.analyze(ss.free(model, {"x[0]": "batch"})).shapes["y"]) == "[batch, 6]"
    else:
        with pytest.raises(ss.Refused, match="joined"):
            ss.free(model, {"x[0]": "batch"})
