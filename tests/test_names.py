"""Names and text in the Python API: shapes as text, SymPy, assumptions on tensors, names that exporters make up."""

from __future__ import annotations

import onnx.parser
import pytest
import sympy

import shapesolve as ss

HEAD = '<ir_version: 8, opset_import: ["": 17]>'


def model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"{HEAD} {text}")


def test_shapes_compare_with_text_and_integers() -> None:
    shape = ss.analyze(model("g (float[batch, 4] x) => (float[b, 4] y) { y = Relu (x) }")).shapes["y"]
    assert shape == ("batch", 4)
    assert shape != ("batch", 5)
    assert shape != ("batch",)
    assert shape != ("(batch", 4)
    assert ss.Shape(["2*n + 1"]) == ("n + n + 1",)
    assert hash(shape) == hash(ss.Shape(("batch", 4)))


def test_dims_and_symbols_of_sympy_add_up() -> None:
    x = sympy.Symbol("x")
    assert ss.Dim("batch") + x == x + ss.Dim("batch") == sympy.Symbol("x") + ss.Dim("batch").sympy
    assert ss.Dim(3) * x == 3 * x


def test_assumptions_take_dims_of_tensors() -> None:
    proto = model("g (float[n, 3] x, float[m, 3] y) => (float[k, 3] z) { z = Concat <axis = 0> (x, y) }")
    assert ss.analyze(proto, assume=["x[0] == 5"]).shapes["z"] == ("m + 5", 3)
    assert ss.analyze(proto, assume=["z[0] == 2*n"]).shapes["z"] == ("2*n", 3)
    with pytest.raises(ValueError, match="unknown tensor 'q'"):
        ss.analyze(proto, assume=["q[0] == 5"])
    with pytest.raises(ValueError, match="it has no axis 7"):
        ss.analyze(proto, assume=["x[7] == 5"])


def test_a_dim_that_is_no_expression_is_a_finding() -> None:
    proto = model("g (float[n, 3] x) => (float[k, 3] z) { z = Relu (x) }")
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "(N + "
    (found,) = ss.analyze(proto).diagnostics
    assert found.code == "SS104"
    assert "'(N + ' is not a valid expression" in found.title
    for name in ("batch-size", "N + 1", "N", "unk__1", "num_heads/2"):
        proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = name
        assert not ss.analyze(proto).diagnostics, name


@pytest.mark.parametrize("made", ["s0", "u12", "unk__3", "images_dynamic_axes_1"])
def test_names_of_the_author_replace_those_of_exporters(made: str) -> None:
    text = f"g (float[{made}, 3] x, float[hidden, 3] y) => (float[k, 6] z) {{ z = Concat <axis = 1> (x, y) }}"
    assert ss.analyze(model(text)).shapes["z"] == ("hidden", 6)


def test_values_are_public() -> None:
    proto = model("g (float[n, 3] x) => (int64[2] s) { s = Shape (x) }")
    value = ss.analyze(proto).values["s"]
    assert isinstance(value, ss.Value)
    assert [str(e) for e in value.elems or ()] == ["n", "3"]
