"""What proposals for symbolic shapes in ONNX show: partial data, unification, open broadcasts, names of generated sizes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import shapesolve as ss

from .building import parsed


def dims(a: ss.Analysis, tensor: str) -> list[str]:
    return [str(d) for d in a.shapes[tensor]]


_CHAINS = [
    ("N, four_m", "n = Gather<axis = 0>(s, zero) n1 = Unsqueeze(n, first) t = Concat<axis = 0>(n1, tail)", "N, M, 4"),
    ("2, M", "m1 = Slice(s, one, two) m = Squeeze(m1, first) a = Mul(m, k) b = Add(a, k) c = Sub(b, k) t = Reshape(c, one)",
     "2*M"),
    ("N, M", "n = Size(A) i = Cast<to = 6>(n) l = Cast<to = 7>(i) t = Unsqueeze(l, first)", "M*N"),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "nodes", "expected"), _CHAINS)
def test_partial_data_reaches_reshape(shape: str, nodes: str, expected: str) -> None:
    m = parsed(
        f"g (float[{shape}] A) => (Y) <int64 zero = {{0}}, int64[1] first = {{0}}, int64[2] tail = {{-1, 4}}, int64 k = {{2}},"
        f" int64[1] one = {{1}}, int64[1] two = {{2}}> {{ s = Shape(A) {nodes} Y = Reshape(A, t) }}"
    )
    for dim in m.graph.input[0].type.tensor_type.shape.dim:
        if dim.dim_param == "four_m":
            dim.dim_param = "4*M"
    assert list(ss.analyze(m).shapes["Y"]) == [ss.Dim(d) for d in expected.split(", ")]


@pytest.mark.parametrize(
    ("steps", "size"),
    [
        ("Mul(f, half) r = Floor(p)", "H//2"),
        ("Div(f, two) r = Ceil(p)", "(H + 1)//2"),
        ("Div(f, three) r = Floor(p)", "H//3"),
        ("Neg(f) r = Relu(p)", "0"),
    ],
)
def test_sizes_that_float_arithmetic_computes(steps: str, size: str) -> None:
    m = parsed(
        f"g (float[H] x) => (y) <float[1] half = {{0.5}}, float[1] two = {{2}}, float[1] three = {{3}}> {{"
        f" s = Shape(x) f = Cast<to = 1>(s) p = {steps} l = Cast<to = 7>(r) y = ConstantOfShape(l) }}"
    )
    assert ss.analyze(m).shapes["y"][0] is ss.Dim(size)


_OPEN = parsed("g (float[M] A, float[N] B) => (Y) { Y = Add(A, B) }")


def test_m_against_n_is_open_and_said_so() -> None:
    a = ss.analyze(_OPEN)
    (ambiguity,) = a.ambiguities
    assert {str(d) for d in ambiguity.pair} == {"M", "N"}
    assert a.equal("Y[0]", "M").assumptions == ("M != 1",)
    assert not ss.analyze(_OPEN, bind={"M": 1}).equal("Y[0]", "M")
    size = a.shapes["Y"][0]
    assert [size.evaluate({"M": m, "N": n}) for m, n in ((1, 0), (3, 1), (4, 4))] == [0, 3, 4]


def test_m_against_n_is_settled_by_the_user_by_a_mode_or_by_another_node() -> None:
    a = ss.analyze(_OPEN, assume=["M == N"])
    assert (a.ambiguities, dims(a, "Y")) == ((), dims(a, "A"))
    a = ss.analyze(_OPEN, broadcast="equal")
    assert a.ambiguities == ()
    assert [str(c.cond) for c in a.constraints.role("assumption")] in (["M == N"], ["N == M"])
    product = "g (float[M] A, float[N] B, float[2, M] C) => (s, Z) { s = Add(A, B) Z = MatMul(C, B) }"
    a = ss.analyze(parsed(product))
    assert a.ambiguities == ()
    assert a.equal("M", "N")


def test_a_bias_binds_a_size_and_names_the_assumption() -> None:
    m = parsed(
        "g (float[batch, seq, d_model] X) => (Out) { Z = Add(X, bias) Out = MatMul(Z, W) }",
        bias=[64],
        W=[64, 32],
    )
    a = ss.analyze(m)
    assert [dims(a, n) for n in ("X", "Z", "Out")] == [["batch", "seq", d] for d in ("d_model", "64", "32")]
    assert dict(a.bindings) == {"d_model": 64}
    assert a.bindings.why("d_model").assumption == "d_model != 1"
    assert dict(ss.analyze(m, broadcast="strict").bindings) == {}
    assert [a.check_inputs({"X": (2, 5, n)}) == [] for n in (64, 1, 63)] == [True, True, False]


@pytest.mark.parametrize(
    ("a", "b", "outcome"),
    [
        (4, 4, "ok"),
        (4, 5, "conflict"),
        (4, "N", "N is 4"),
        ("N", 4, "N is 4"),
        ("N", "N", "ok"),
        ("N + 2", "N + 2", "ok"),
        ("N + 2", "M + 2", "M is N"),
        ("N + 2 - 2", "N", "ok"),
        ("N + 1", "N", "conflict"),
        ("(H + 2 - 3) / 2 + 1", "k", "k is read"),
    ],
)
def test_inner_sizes_of_a_product_are_unified(a: int | str, b: int | str, outcome: str) -> None:
    m = parsed("g (float[m, x] A, float[x, n] B) => (Y) { Y = MatMul(A, B) }")
    for value, axis, dim in zip(m.graph.input, (1, 0), (a, b), strict=True):
        place = value.type.tensor_type.shape.dim[axis]
        place.CopyFrom(
            onnx.TensorShapeProto.Dimension(**{"dim_value" if isinstance(dim, int) else "dim_param": dim})
        )
    result = ss.analyze(m)
    assert result.ok == (outcome != "conflict")
    if outcome == "N is 4":
        assert result.bindings["N"] == 4
        assert result.bindings.why("N").assumption is None
    if outcome == "M is N":
        assert result.equal("M", "N")
    if outcome == "ok":
        assert len(result.contract) == 0
    if outcome == "k is read":
        assert result.equal("k", "(H + 2 - 3)//2 + 1") or result.prove("k == max(H - 1, 0)//2 + 1").holds


def test_sizes_that_data_decides_have_names_and_bounds() -> None:
    a = ss.analyze(parsed("g (float[N, 3] A) => (Y, z) { Y = NonZero(A) c = Cast<to = 1>(Y) z = Neg(c) }"))
    assert dims(a, "Y") == dims(a, "c") == dims(a, "z") == ["2", "_d0"]
    assert a.prove("0 <= Y[1] <= 3*N")


def test_declared_outputs_prove_things_of_inputs_and_are_named() -> None:
    a = ss.analyze(parsed("g (float[N, M] A) => (float[N, 5] Y) { Y = Relu(A) }"))
    assert a.prove("M == 5").assumptions == ("Y[1] is declared as 5",)
    assert a.check_inputs({"A": (2, 3)}) == []
    assert not a.prove("M == 6")


def test_rules_are_registered_for_versions() -> None:
    registry, made = ss.Registry(), {}
    versions: dict[str, int | Sequence[int] | None] = {"any": None, "from9": 9, "only5to7": range(5, 8)}
    for name, given in versions.items():

        @registry.register("", "Thing", given)  # type: ignore[arg-type]
        def rule(op: object) -> None:
            return None

        made[name] = rule
    names = {3: "any", 5: "only5to7", 7: "only5to7", 8: "any", 9: "from9", 20: "from9"}
    for version, name in names.items():
        found = registry.lookup("", "Thing", version)
        assert found is not None
        assert found.lower is made[name]
    assert registry.lookup("", "Nothing", 5) is None


def test_shapes_are_compared_with_a_run_and_written_back() -> None:
    m = parsed(
        "g (float[batch, seq, 4] X, float[batch, seq, 4] Y) => (float[p, q, r] Z)"
        " { added = Add(X, Y) Z = Concat<axis = 2>(added, X) }"
    )
    feeds = {n: np.zeros((2, 5, 4), np.float32) for n in "XY"}
    compared = ss.analyze(m).compare_with_true_inputs(feeds, ReferenceEvaluator(m).run(None, feeds))
    assert compared == {"Z": (("batch", 2, 2), ("seq", 5, 5), ("8", 8, 8))}
    ss.analyze(m).update_shapes(m)
    (added,) = m.graph.value_info
    tensor = added.type.tensor_type
    assert (added.name, tensor.elem_type) == ("added", onnx.TensorProto.FLOAT)
    assert [d.dim_param or d.dim_value for d in tensor.shape.dim] == ["batch", "seq", 4]
