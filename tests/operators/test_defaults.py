"""Initializers that are listed as graph inputs too: only defaults, from IR version 4 on."""

import numpy as np
import onnx
import pytest

import shapesolve as ss

from ..building import parsed, session


@pytest.mark.parametrize(("ir_version", "codes"), [(3, []), (8, ["SS502"])])
def test_a_default_is_used_and_said_so(ir_version: int, codes: list[str]) -> None:
    model = parsed(
        "g (float[N, 3, 4] x, int64[2] target) => (y) { y = Reshape(x, target) }",
        13,
        target=np.array([0, -1]),
    )
    model.ir_version = ir_version
    a = ss.analyze(model)
    assert str(a.shapes["y"]) == "[N, 12]"
    assert list(a.inputs) == ["x"]
    assert [f.code for f in a.diagnostics] == codes


def resized(*scales: str) -> onnx.ModelProto:
    """x resized by the scales, or by their product; and by a bias, of which no size depends."""
    stored = {n: np.array([1.0, 1.5], "f4") for n in scales}
    given = ", ".join(f"float[2] {n}" for n in scales)
    resize = "y = Resize(b, , scales)" if len(scales) == 1 else "p = Mul(scales, more) y = Resize(b, , p)"
    return parsed(
        f"g (float[6, 4] x, {given}, float[4] bias) => (y) {{ b = Add(x, bias) {resize} }}",
        **stored,
        bias=np.ones(4, "f4"),
    )


def branched() -> onnx.ModelProto:
    """x as it is, or its rows twice."""
    return parsed(
        "g (float[6, 4] x, bool cond) => (y) { y = If(cond) <then_branch = t () => (t) { t = Identity(x) },"
        " else_branch = e () => (e) { e = Concat<axis = 0>(x, x) }> }",
        cond=np.array(True),
    )


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (resized("scales"), {"scales": np.array([2, 1.5], "f4")}),
        (resized("scales", "more"), {"more": np.array([2, 1.5], "f4")}),
        (branched(), {"cond": np.array(False)}),
    ],
)
def test_a_proof_names_the_default_that_a_size_depends_on(
    model: onnx.ModelProto, given: dict[str, np.ndarray]
) -> None:
    loaded = session(model)
    x = np.zeros((6, 4), "f4")
    assert len(loaded.run(["y"], {"x": x})[0]) == 6
    assert len(loaded.run(["y"], {"x": x, **given})[0]) == 12
    a = ss.analyze(model)
    assert a.shapes["y"][0] == 6
    (name,) = given
    proof = a.prove("y[0] == x[0]")
    assert not proof
    assert f"{name} has its default value" in proof.assumptions
    assert not any("bias" in f.title for f in a.diagnostics)
