"""Proofs against onnxruntime: what is proved holds wherever the model runs, what is refuted fails where it was said to."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import shapesolve as ss
from shapesolve.change.compare.diff import diff
from shapesolve.solve.proof import Proved, Refuted, Unknown
from shapesolve.testing import assert_shapes

from ..building import parsed
from ..nodes import run, z


def model(text: str, **stored: np.ndarray[Any, Any]) -> onnx.ModelProto:
    return parsed(f"g {text}", 18, **stored)


IDENTITY = model("(float[batch] X) => (Z) { Z = Relu(X) }")
ADD = model("(float[a] X, float[b] Y) => (Z) { Z = Add(X, Y) }")


@pytest.mark.parametrize("mode", ["named", "strict", "equal"])
def test_a_batch_of_one_is_no_exception(mode: Any) -> None:
    assert run(IDENTITY, X=z(1))[0].shape == (1,)
    proof = ss.analyze(IDENTITY, broadcast=mode).prove("batch >= 2")
    assert isinstance(proof, Refuted)
    assert (dict(proof.counterexample), "batch != 1" in proof.holds_if) == ({"batch": 1}, True)
    assert not proof


def test_a_claim_with_one_exception_is_refuted_there_and_proved_elsewhere() -> None:
    proof = ss.analyze(ADD, broadcast="strict").prove("Z[0] == a")
    assert isinstance(proof, Refuted)
    assert proof.holds_if == ("a != 1",)
    assert proof.only_at == "a = 1"
    assert proof.counterexample["a"] == 1
    assert run(ADD, X=z(1), Y=z(proof.counterexample["b"]))[0].shape != (1,)
    assert "holds if a != 1" in repr(proof)


@pytest.mark.parametrize("wanted", ["a", "b"])
def test_shapes_that_rest_on_an_assumption_are_not_asserted(wanted: str) -> None:
    (out,) = run(ADD, X=z(1), Y=z(3)) if wanted == "a" else run(ADD, X=z(3), Y=z(1))
    assert out.shape == (3,)  # while `wanted` is 1
    with pytest.raises(AssertionError, match=f"they differ at .*{wanted} = 1"):
        assert_shapes(ADD, {"Z": [wanted]}, broadcast="strict")


def test_a_difference_at_size_one_is_a_difference() -> None:
    def sliced(start: int, end: int) -> onnx.ModelProto:
        ends = f"int64[1] s = {{{start}}}, int64[1] e = {{{end}}}"
        return model(f"(float[batch] X) => (Z) <{ends}> {{ Z = Slice(X, s, e) }}")

    assert [run(sliced(*ends), X=z(1))[0].shape for ends in ((1, 2), (0, 1))] == [(0,), (1,)]
    found = diff(ss.analyze(sliced(1, 2)), ss.analyze(sliced(0, 1)))
    assert found.outputs[0].verdict != "same"
    assert not found.same


_SWAPPED = model("""(float[a] X, float[b] Y) => (P, Q) <int64 trips = {2}> {
    P, Q = Loop(trips, , X, Y) <body = t (int64 i, bool c, float[p] x, float[q] y) => (co, xo, yo)
        { co = Identity(c) xo = Identity(y) yo = Identity(x) }>
}""")
_DOUBLED = model("""(float[a] X) => (P) <int64 trips = {3}> {
    P = Loop(trips, , X) <body = t (int64 i, bool c, float[p] x) => (co, xo) { co = Identity(c) xo = Concat<axis = 0>(x, x) }>
}""")
for _loop in (_SWAPPED, _DOUBLED):
    for _carried in _loop.graph.node[0].attribute[0].g.input[2:]:
        _carried.type.tensor_type.ClearField("shape")
_RESPLIT = model("""(float[a, k] A) => (P) <int64 two = {2}> {
    s = SplitToSequence<axis = 0>(A, two) P = ConcatFromSequence<axis = 0>(s)
}""")
_SCALED = model("""(float[a] A) => (P) <float[1] scale = {0.3}> {
    s = Shape(A) f = Cast<to = 1>(s) g = Mul(f, scale) c = Floor(g) q = Cast<to = 7>(c) P = ConstantOfShape(q)
}""")


@pytest.mark.parametrize(
    ("m", "claim", "feeds", "holds"),
    [
        (_SWAPPED, "P[0] == a", [{"X": z(3), "Y": z(5)}, {"X": z(7), "Y": z(2)}], lambda n, p: p == n),
        (_RESPLIT, "P[0] == a", [{"A": z(5, 2)}, {"A": z(4, 3)}], lambda n, p: p == n),
        (_SCALED, "P[0] <= a", [{"A": z(10)}, {"A": z(3)}], lambda n, p: p <= n),
        (_DOUBLED, "P[0] == 8*a", [{"X": z(3)}, {"X": z(1)}], lambda n, p: p == 8 * n),
    ],
    ids=["swapped twice", "split and joined", "scaled", "doubled thrice"],
)
def test_a_true_claim_is_not_refuted(m: Any, claim: str, feeds: list[dict[str, Any]], holds: Any) -> None:
    for feed in feeds:
        (n, *_) = next(iter(feed.values())).shape
        assert holds(n, run(m, **feed)[0].shape[0])
    proof = ss.analyze(m).prove(claim)
    if isinstance(proof, Unknown):  # then it says what decides
        assert any(name in proof.reason for name in ("_d", "_v"))
    else:
        assert proof


@pytest.mark.parametrize(
    ("m", "claim", "wrong"),
    [
        (_SCALED, "P[0] >= 1", lambda sizes, p: not p >= 1),
        (_SCALED, "P[0] == a", lambda sizes, p: p != sizes["a"]),
        (_RESPLIT, "P[0] == a + 1", lambda sizes, p: p != sizes["a"] + 1),
        (IDENTITY, "Z[0] % 2 == 0", lambda sizes, p: p % 2),
        (ADD, "Z[0] == a + b", lambda sizes, p: p != sizes["a"] + sizes["b"]),
    ],
)
def test_a_refutation_gives_sizes_of_all_inputs_at_which_the_claim_is_false(
    m: Any, claim: str, wrong: Any
) -> None:
    a = ss.analyze(m)
    proof = a.prove(claim)
    assert isinstance(proof, Refuted)
    assert proof.counterexample.keys() == a.symbols.keys()
    shapes = {
        name: tuple(int(d.evaluate(proof.counterexample)) for d in known.shape)
        for name, known in a.inputs.items()
    }
    assert a.check_inputs(shapes) == []
    out = run(m, **{name: z(*shape) for name, shape in shapes.items()})[0]
    assert wrong(proof.counterexample, out.shape[0])


def test_nothing_is_said_of_a_model_that_no_size_runs() -> None:
    m = model("(float[N] X) => (Z) <int64[2] t = {-1, -1}> { Z = Reshape(X, t) }")
    with pytest.raises(Exception, match="Reshape"):
        run(m, X=z(4))
    assert isinstance(ss.analyze(m).prove("N == 4"), Unknown)


_BRANCH = model("""(float[A] x, float[B] w, float[N] z) => (y, o) {
    s = Size(z) k = Constant<value_int=3>() c = Greater(s, k) f = Constant<value=float[2] {1, 2}>()
    y = If(c) <then_branch = t () => (p) { h = Add(x, w) p = Concat<axis=0>(h, f) }, else_branch = e () => (q) { q = Relu(x) }>
    o = Add(y, z)
}""")


def test_a_branch_that_is_not_taken_requires_no_broadcast() -> None:
    assert run(_BRANCH, x=z(2), w=z(3), z=z(2))[1].shape == (2,)
    a = ss.analyze(_BRANCH)
    assert isinstance(a.prove("A == B or A == 1 or B == 1"), Refuted)
    assert a.prove("A == B or A == 1 or B == 1 or N <= 3")
    assert all(len({d.evaluate({"A": 2, "B": 3, "N": 2}) for d in e.members}) == 1 for e in a.equalities)


def test_bounds_and_divisors_name_what_they_rest_on() -> None:
    m = model("(float[a] X, float[6] Y) => (Z) { Z = Add(X, Y) }")
    taken = ss.analyze(m, broadcast="equal")
    assert run(m, X=z(1), Y=z(6))[0].shape == (6,)  # accepted by the runtime, not by the mode
    assert (taken.bounds("a"), taken.bounds("a").assumptions) == ((6, 6), ("a == 6",))
    assert (taken.divisor("a"), taken.divisor("a").assumptions) == (6, ("a == 6",))
    assert (taken.bounds("Z[0]"), taken.bounds("Z[0]").assumptions) == ((6, 6), ())
    named = ss.analyze(m)
    assert (named.bounds("a"), named.bounds("a").assumptions) == ((1, 6), ())
    assert (named.divisor("a"), named.divisor("a").assumptions) == (1, ())


def test_a_tensor_is_never_taken_for_a_dim_of_the_author() -> None:
    for name in ("__2", "ref_0", "ref_1"):
        m = model(f"(float[{name}, a] X) => (Z) {{ Z = Relu(X) }}")
        assert run(m, X=z(3, 5))[0].shape == (3, 5)
        proof = ss.analyze(m).prove(f"Z[1] == {name}")
        assert isinstance(proof, Refuted)
        assert ss.analyze(m).prove(f"Z[0] == {name}")


def test_misspelt_names_are_errors_that_say_which_was_meant() -> None:
    a = ss.analyze(IDENTITY)
    for claim in ("Z[0] == bacth", "bacth >= 1"):
        with pytest.raises(ValueError, match="did you mean batch"):
            a.prove(claim)
    with pytest.raises(ValueError, match="did you mean batch"):
        a.equal("Z[0]", "bacth")
    with pytest.raises(ValueError, match="did you mean batch"):
        a.bounds("bacth + 1")
    with pytest.raises(ValueError, match="did you mean batch"):
        ss.analyze(IDENTITY, bind={"bacth": 3})
    with pytest.raises(ValueError, match="did you mean batch"):
        ss.analyze(IDENTITY, assume=["bacth == 3"])
    with pytest.raises(KeyError, match="outputs: P"):
        ss.analyze(_SCALED).prove("PP[0] == a")


@pytest.mark.parametrize("size", [-1, 2.5, "3", None, True, 2**63])
def test_a_bound_size_is_an_integer_of_at_least_zero(size: Any) -> None:
    with pytest.raises(ValueError, match="the size of batch must be"):
        ss.analyze(IDENTITY, bind={"batch": size})
    assert str(ss.analyze(IDENTITY, bind={"batch": np.int64(3)}).shapes["Z"]) == "[3]"


def test_what_the_broadcast_mode_added_is_named_everywhere() -> None:
    m = model("(float[a] X, float[5] Y) => (Z) { Z = Add(X, Y) }")
    assert run(m, X=z(1), Y=z(5))[0].shape == (5,)
    a = ss.analyze(m, broadcast="equal")
    proof = a.prove("a == 5")
    assert isinstance(proof, Proved)
    assert (proof.assumptions, bool(proof)) == (("a == 5",), False)
    assert a.bindings.why("a").assumption == "a == 5"
    assert any("a == 5" in f.title for f in a.diagnostics)
    a = ss.analyze(ADD, broadcast="equal")
    for claim in ("a == b", "Z[0] == a"):
        assert getattr(a.prove(claim), "assumptions", None) == ("a == b",)
    assert a.prove("a == b or a == 1 or b == 1")  # also without the mode
    assert any("a == b" in f.title for f in a.diagnostics)


def test_sizes_behind_a_branch_rest_on_no_assumption_of_the_broadcast_mode() -> None:
    """Whether the branch runs is data: where it does not, nothing is assumed of the sizes that it would broadcast."""
    m = model(
        """(float[n, a, n] X) => (Z) <float zero = {0}> {
            sum = ReduceSum<keepdims = 0>(X) taken = Greater(sum, zero)
            Z = If(taken) <then_branch = t () => (t) { t = Add(X, two) }, else_branch = e () => (e) { e = Identity(X) }>
        }""",
        two=z(2, 1),
    )
    a = ss.analyze(m, broadcast="equal")
    for x in (z(1, 1, 1), -z(1, 1, 1)):
        told = [d.evaluate({"n": 1, "a": 1}) for d in a.shapes["Z"]]
        assert all(t in (None, r) for t, r in zip(told, run(m, X=x)[0].shape, strict=True))


def test_a_node_that_is_wrong_under_an_assumption_names_it() -> None:
    m = model(
        "(float[1, a] X, float[3] Y) => (Z, R) { Z = Add(X, Y) axes = Shape(X) R = ReduceSum(X, axes) }"
    )
    assert run(m, X=z(1, 1), Y=z(3))[1].shape == (1, 1)
    a = ss.analyze(m, broadcast="equal")
    (conflict,) = a.conflicts
    assert "axis 3 is outside" in conflict.message
    assert [str(c.cond) for c in conflict.stated] == ["a == 3"]
    assert conflict.finding.notes[-1] == "under the assumption a == 3, no input size makes this model run"
    assert not ss.analyze(m, broadcast="strict").conflicts


def test_a_conflict_that_an_assumption_causes_through_data_names_it() -> None:
    """The mode takes `a` for 2, and the number of elements, as data, makes 4 rows of it: no chain of sizes leads there."""
    m = model("""(float[2, a] X) => (E, Z)
        <int64[2] target = {2, 2}, int64 zero = {0}, int64 one = {1}, int64[2] pair = {5, 6}>
        { E = Expand(X, target) n = Size(X) rows = Range(zero, n, one) Z = Add(rows, pair) }""")
    assert run(m, X=z(2, 1))[1].shape == (2,)
    a = ss.analyze(m, broadcast="equal")
    (conflict,) = a.conflicts
    assert conflict.finding.notes[-1] == "under the assumption a == 2, no input size makes this model run"
    told = a.check_inputs({"X": (2, 1)})[-1]
    assert told.message.startswith("under the assumption a == 2 (broadcast")


def test_sizes_that_only_an_assumption_refuses_name_it() -> None:
    """The axes are an input with a default: given others, the mode takes a reduced size for 4, which 3 does not fit."""
    m = model(
        "(float[3, a] X, int64[2] axes, float[1, 3] Y) => (E, Z) <int64[2] target = {3, 4}>"
        " { R = ReduceMax(X, axes) E = Expand(R, target) Z = Mul(Y, R) }",
        axes=np.array([0, 1]),
    )
    assert run(m, X=z(3, 4), Y=z(1, 3), axes=np.array([-1, -2]))[1].shape == (1, 3)
    shapes = {"X": (3, 4), "Y": (1, 3), "axes": (2,)}
    assert not ss.analyze(m, broadcast="strict").check_inputs(shapes)
    (broken,) = ss.analyze(m, broadcast="equal").check_inputs(shapes)
    assert broken.constraint is not None
    assert (broken.text, broken.constraint.role) == ("_d1 == 4", "assumption")
    assert broken.message.startswith("under the assumption _d1 == 4 (broadcast")
    assert "no input sizes run; Mul" in broken.message


def test_that_nothing_runs_is_said_of_the_default_alone() -> None:
    m = model("(float[a, 3] x, float[k] d) => (y) { y = Add(x, d) }", d=z(5))
    with pytest.raises(Exception, match="Add"):
        run(m, x=z(2, 3))
    assert run(m, x=z(2, 3), d=z(3))[0].shape == (2, 3)
    analysis = ss.analyze(m)
    assert not analysis.check_inputs({"x": (2, 3), "d": (3,)})
    (broken,) = analysis.check_inputs({"x": (2, 3)})
    assert broken.message.startswith("with the default of d, no input sizes run; Add")


def test_what_a_default_decides_is_named() -> None:
    m = model("(float[a, b] X, int64[2] s) => (Z) { Z = Reshape(X, s) }", s=np.array([-1, 4]))
    assert run(m, X=z(2, 6), s=np.array([-1, 3]))[0].shape == (4, 3)
    a = ss.analyze(m)
    proof = a.prove("Z[1] == 4")
    assert isinstance(proof, Proved)
    assert (proof.assumptions, bool(proof)) == (("s has its default value",), False)
    assert any("s has a default value" in f.title for f in a.diagnostics)
    assert a.prove("a >= 0")


def test_what_would_have_to_be_assumed_itself_is_refuted() -> None:
    """A batch of no rows runs, and the answer was that batch >= 1 assuming batch >= 1."""
    assert run(IDENTITY, X=z(0))[0].shape == (0,)
    a = ss.analyze(IDENTITY)
    for claim, batch in (("batch >= 1", 0), ("Z[0] >= 1", 0), ("Z[0] != 0", 0), ("batch != 1", 1)):
        proof = a.prove(claim)
        assert isinstance(proof, Refuted)
        assert proof.counterexample == {"batch": batch}
    both = model("(float[a] X, float[b] Y) => (Z) { Z = Concat<axis = 0>(X, Y) }")
    assert run(both, X=z(3), Y=z(0))[0].shape == (3,)
    assert isinstance(ss.analyze(both).prove("Z[0] >= a + 1"), Refuted)
