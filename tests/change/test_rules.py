"""Each rule of `simplify` where it may be applied and where it may not: what is left, and that it computes the same."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
import pytest

from shapesolve import simplify
from shapesolve.change.simplify.rules import BEYOND_NODES, RULES
from shapesolve.operators import default_registry
from tests.fuzz.runtime import Session

from .running import assert_same, model_of, ops, symbols

#: text of a graph, its opset, operators that are left
CASES = {
    "identity": ("(float[n] x) => (float[n] y) { a = Identity(x) b = Neg(a) y = Identity(b) }", 18, "Neg"),
    "dropout": ("(float[n] x) => (float[n] y) { a = Dropout(x) y = Neg(a) }", 18, "Neg"),
    "dropout that trains": (
        "(float[n] x) => (float[n] y) <float r = {0.0}, bool t = {1}> { a = Dropout(x, r, t) y = Neg(a) }",
        18, "Dropout Neg",
    ),
    "dropout with its mask": ("(float[n] x) => (float[n] y, bool[n] m) { y, m = Dropout(x) }", 18, "Dropout"),
    "cast to the same": ("(float[n] x) => (float[n] y) { a = Cast<to = 1>(x) y = Neg(a) }", 18, "Neg"),
    "cast there and back": (
        "(int32[n] x) => (int32[n] y) { a = Cast<to = 7>(x) b = Cast<to = 6>(a) y = Neg(b) }", 18, "Neg",
    ),
    "cast by way of a wider type": (
        "(int32[n] x) => (float[n] y) { a = Cast<to = 7>(x) y = Cast<to = 1>(a) }", 18, "Cast",
    ),
    "cast by way of a narrower type": (
        "(int64[n] x) => (int64[n] y) { a = Cast<to = 3>(x) y = Cast<to = 7>(a) }", 18, "Cast Cast",
    ),
    "cast of floats to integers": (
        "(float16[n] x) => (int64[n] y) { a = Cast<to = 1>(x) y = Cast<to = 7>(a) }", 18, "Cast Cast",
    ),
    "transpose of nothing": (
        "(float[n, m] x) => (float[n, m] y) { a = Transpose<perm = [0, 1]>(x) y = Neg(a) }", 18, "Neg",
    ),
    "transposes that undo each other": (
        "(float[n, m, 4] x) => (float[n, m, 4] y)"
        " { a = Transpose<perm = [1, 2, 0]>(x) b = Transpose<perm = [2, 0, 1]>(a) y = Neg(b) }",
        18, "Neg",
    ),
    "transposes that compose": (
        "(float[n, m, 4] x) => (float[a, b, c] y)"
        " { a = Transpose<perm = [1, 2, 0]>(x) y = Transpose<perm = [1, 2, 0]>(a) }",
        18, "Transpose",
    ),
    "reshape to the same": (
        "(float[n, m] x) => (float[n, m] y) { s = Shape(x) a = Reshape(x, s) y = Neg(a) }", 18, "Neg",
    ),
    "unsqueeze and squeeze": (
        "(float[n, m] x) => (float[n, m] y) <int64[1] axes = {1}>"
        " { a = Unsqueeze(x, axes) b = Squeeze(a, axes) y = Neg(b) }",
        18, "Neg",
    ),
    "reshape of reshape": (
        "(float[n, 6] x) => (float[n, 2, 3] y) <int64[1] s = {-1}>"
        " { a = Reshape(x, s) d = Shape<start = 0, end = 1>(x) r = Constant<value_ints = [2, 3]>()"
        " t = Concat<axis = 0>(d, r) y = Reshape(a, t) }",
        18, "Reshape",
    ),
    "reshape with -1 where the rest may be 0": (
        "(float[n, m, 4] x) => (float[a, m, 2] y)"
        " { n2 = Shape<start = 0, end = 1>(x) m1 = Shape<start = 1, end = 2>(x) two = Constant<value_ints = [2]>()"
        " d = Mul(n2, two) t = Concat<axis = 0>(d, m1, two) y = Reshape(x, t) }",
        18, "Concat Mul Reshape Shape",
    ),
    "reshape with -1 where the rest is never 0": (
        "(float[n, m, 4] x) => (float[a, 4] y)"
        " { n1 = Shape<start = 0, end = 1>(x) m1 = Shape<start = 1, end = 2>(x) four = Constant<value_ints = [4]>()"
        " d = Mul(n1, m1) t = Concat<axis = 0>(d, four) y = Reshape(x, t) }",
        18, "Reshape",
    ),
    "expand to the same": (
        "(float[n, m] x) => (float[n, m] y) { s = Shape(x) a = Expand(x, s) y = Neg(a) }", 18, "Neg",
    ),
    "expand of expand": (
        "(float[n, 1, 1] x, float[m] z, float[k] u) => (float[n, m, k] y)"
        " { n1 = Shape<start = 0, end = 1>(x) m1 = Shape(z) k1 = Shape(u) one = Constant<value_ints = [1]>()"
        " s = Concat<axis = 0>(n1, m1, one) a = Expand(x, s) t = Concat<axis = 0>(n1, m1, k1) y = Expand(a, t) }",
        18, "Concat Expand Shape Shape",
    ),
    "expand before a broadcast": (
        "(float[1, m] x, float[n, m] z) => (float[n, m] y) { s = Shape(z) a = Expand(x, s) y = Add(a, z) }",
        18, "Add",
    ),
    "expand that a broadcast needs": (
        "(float[1, m] x, float[n, 1] z, float[n] u) => (float[n, m] y)"
        " { n1 = Shape(u) m1 = Shape<start = 1, end = 2>(x) s = Concat<axis = 0>(n1, m1) a = Expand(x, s)"
        " one = Constant<value_float = 1.0>() y = Add(a, one) }",
        18, "Add Concat Expand Shape",
    ),
    "the same twice": (
        "(float[n] x) => (float[n] y)"
        " { a = Relu(x) b = Relu(a) c = Abs(b) d = Abs(c) e = Floor(d) f = Floor(e) y = Neg(f) }",
        18, "Abs Floor Neg Relu",
    ),
    "the same twice, which undoes it": ("(float[n] x) => (float[n] y) { a = Neg(x) y = Neg(a) }", 18, "Neg Neg"),
    "tile by ones": (
        "(float[n, m] x) => (float[n, m] y) <int64[2] r = {1, 1}> { a = Tile(x, r) y = Neg(a) }", 18, "Neg",
    ),
    "tile by more": (
        "(float[n, m] x) => (float[n, k] y) <int64[2] r = {1, 2}> { a = Tile(x, r) y = Neg(a) }", 18, "Neg Tile",
    ),
    "slice of all": (
        "(float[n, m] x) => (float[n, m] y) <int64[1] zero = {0}>"
        " { e = Shape<start = 0, end = 1>(x) a = Slice(x, zero, e) y = Neg(a) }",
        18, "Neg",
    ),
    "slice backwards": (
        "(float[n] x) => (float[n] y) <int64[1] b = {-1}, int64[1] e = {-9223372036854775808}, int64[1] a = {0}>"
        " { z = Slice(x, b, e, a, b) y = Neg(z) }",
        18, "Neg Slice",
    ),
    "slice to a computed end": (
        "(float[n] x) => (float[m] y) <int64[1] one = {1}> { e = Shape(x) y = Slice(x, one, e) }", 18, "Slice",
    ),
    "slice that may cut": (
        "(float[n] x, float[k] z) => (float[m] y) <int64[1] zero = {0}> { e = Shape(z) y = Slice(x, zero, e) }",
        18, "Shape Slice",
    ),
    "slices of different axes": (
        "(float[n, m] x) => (float[a, b] y)"
        " <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] end = {100}>"
        " { a = Slice(x, one, end, zero) y = Slice(a, two, end, one) }",
        18, "Slice",
    ),
    "slices of the same axis": (
        "(float[n, m] x) => (float[a, b] y) <int64[1] zero = {0}, int64[1] one = {1}, int64[1] end = {100}>"
        " { a = Slice(x, one, end, zero) y = Slice(a, one, end, zero) }",
        18, "Slice Slice",
    ),
    "pad by nothing": (
        "(float[n, m] x) => (float[n, m] y) <int64[4] p = {0, 0, 0, 0}> { a = Pad(x, p) y = Neg(a) }", 18, "Neg",
    ),
    "pad of pad": (
        "(float[n, m] x) => (float[a, b] y) <int64[4] p = {0, 1, 0, 2}, int64[4] q = {1, 0, 0, 1}>"
        " { a = Pad(x, p) y = Pad(a, q) }",
        18, "Pad",
    ),
    "pad that crops first": (
        "(float[n, m] x) => (float[a, b] y) <int64[4] p = {0, -1, 0, 0}, int64[4] q = {0, 1, 0, 0}>"
        " { a = Pad(x, p) y = Pad(a, q) }",
        18, "Pad Pad",
    ),
    "concat of one": ("(float[n] x) => (float[n] y) { a = Concat<axis = 0>(x) y = Neg(a) }", 18, "Neg"),
    "concat with nothing": (
        "(float[n, 4] x, float[0, 4] z) => (float[n, 4] y) { a = Concat<axis = 0>(z, x) y = Neg(a) }", 18, "Neg",
    ),
    "concat of concat": (
        "(float[n, 4] x, float[m, 4] z) => (float[k, 4] y)"
        " { a = Concat<axis = 0>(x, z) y = Concat<axis = -2>(a, x) }",
        18, "Concat",
    ),
    "sum of one": ("(float[n] x) => (float[n] y) { a = Sum(x) y = Neg(a) }", 18, "Neg"),
    "where all is chosen": (
        "(float[n] x, float[n] z) => (float[n] y) <bool[1] c = {0}> { a = Where(c, x, z) y = Neg(a) }", 18, "Neg",
    ),
    "times one": ("(float[n] x) => (float[n] y) <float[1] w = {1.0}> { a = Mul(w, x) y = Neg(a) }", 18, "Neg"),
    "times one, and wider": (
        "(float[n] x) => (float[2, n] y) <float[2, 1] w = {1.0, 1.0}> { a = Mul(w, x) y = Neg(a) }", 18, "Mul Neg",
    ),
    "plus zero, which makes -0 positive": (
        "(float[n] x) => (float[n] y) <float[1] w = {0.0}> { z = Neg(x) a = Add(z, w) y = Reciprocal(a) }",
        18, "Add Neg Reciprocal",
    ),
    "minus zero": ("(float[n] x) => (float[n] y) <float[1] w = {0.0}> { a = Sub(x, w) y = Neg(a) }", 18, "Neg"),
    "one divided": (
        "(float[n] x) => (float[n] y) <float[1] w = {1.0}> { a = Div(w, x) y = Neg(a) }", 18, "Div Neg",
    ),
    "floats folded": (
        "(float[n, 7] x) => (float[n, 7] y) { s = Shape<start = 1>(x) f = Cast<to = 1>(s) r = Sqrt(f)"
        " o = Constant<value_float = 1.0>() d = Div(o, r) y = Mul(x, d) }",
        18, "Mul",
    ),
    "equal nodes": (
        "(float[n] x) => (float[n] y) { a = Exp(x) b = Exp(x) y = Add(a, b) }", 18, "Add Exp",
    ),
    "equal random nodes": (
        "(float[n] x) => (float[n] y) { a = RandomNormalLike(x) b = RandomNormalLike(x) c = Sub(a, b) d = Sub(c, c)"
        " y = Add(d, x) }",
        18, "Add RandomNormalLike RandomNormalLike Sub Sub",
    ),
    "equal vectors of sizes": (
        "(float[n, m, 6] x) => (float[n, m, 2, 3] y, float[n, m, 3, 2] z)"
        " { n1 = Shape(x) i = Constant<value_ints = [0]>() a = Gather(n1, i) n2 = Shape(x)"
        " j = Constant<value_ints = [1]>() b = Gather(n2, j) t = Constant<value_ints = [2, 3]>()"
        " u = Constant<value_ints = [3, 2]>() v = Concat<axis = 0>(a, b, t) w = Concat<axis = 0>(a, b, u)"
        " y = Reshape(x, v) z = Reshape(x, w) }",
        18, "Reshape Reshape",
    ),
    "a decided If": (
        "(float[n, 4] x) => (float[n, 4] y)"
        " { s = Shape<start = 1>(x) f = Constant<value_ints = [4]>() c = Equal(s, f)"
        " y = If (c) <then_branch = t () => (float[n, 4] a) <float[1] w = {3.0}> { a = Mul(x, w) },"
        " else_branch = e () => (float[n, 4] b) { b = Neg(x) }> }",
        18, "Mul",
    ),
    "an open If": (
        "(float[n, 4] x) => (float[n, 4] y)"
        " { s = Shape<start = 0, end = 1>(x) f = Constant<value_ints = [4]>() c = Equal(s, f)"
        " y = If (c) <then_branch = t () => (float[n, 4] a) { d = Identity(x) a = Abs(d) },"
        " else_branch = e () => (float[n, 4] b) { b = Neg(x) }> }",
        18, "Equal If Shape",
    ),
    "a size at an old opset": (
        "(float[n, m, 6] x) => (float[k, m, 3] y)"
        " { s = Shape(x) i = Constant<value = int64[1] {0}>() a = Gather(s, i) t = Constant<value = int64[1] {2}>()"
        " d = Mul(a, t) j = Constant<value = int64[1] {1}>() b = Gather(s, j) r = Constant<value = int64[1] {3}>()"
        " v = Concat<axis = 0>(d, b, r) y = Reshape(x, v) }",
        11, "Concat Gather Mul Reshape Shape",
    ),
    "a scalar output that is a constant": (
        "(float[n, 4] x) => (int64[1] y) { y = Shape<start = 1>(x) }", 18, "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_left_computes_the_same(name: str) -> None:
    text, opset, left = CASES[name]
    model = model_of(text, opset)
    changed = simplify(model)
    onnx.checker.check_model(changed, full_check=True)
    assert " ".join(sorted(ops(changed).elements())) == left
    assert (changed.graph.input, changed.graph.output) == (model.graph.input, model.graph.output)
    names = symbols(model)
    ran = [
        assert_same(model, changed, dict(zip(names, at))) for at in product((0, 1, 2, 5), repeat=len(names))
    ]
    assert any(ran)


@pytest.mark.parametrize("kind", ["Relu", "Abs", "Ceil", "Floor", "Round", "Sign"])
def test_what_leaves_its_own_results_as_they_are(kind: str) -> None:
    """Bit for bit, of numbers that are special, too, and wherever in a vector they stand."""
    model = model_of(f"(float[n] x) => (float[n] y) {{ a = {kind}(x) y = {kind}(a) }}")
    changed = simplify(model)
    assert ops(changed) == {kind: 1}
    special = np.array([0.0, -0.0, 0.5, -0.5, 2.5, 1e-40, 3e38, np.inf, -np.inf, np.nan, -np.nan], np.float32)
    for n in range(40):
        given = {"x": np.resize(np.roll(special, n), n)}
        (want,), (got,) = (Session(m).run(given).values() for m in (model, changed))
        assert want.tobytes() == got.tobytes(), (n, want, got)


def test_simplifying_again_changes_nothing() -> None:
    for text, opset, _ in CASES.values():
        once = simplify(model_of(text, opset))
        assert ops(simplify(once)) == ops(once)


def test_rules_say_what_they_need() -> None:
    for rule in RULES:
        assert rule.pattern
        assert rule.obligation
        assert rule.replacement
    assert len({rule.apply for rule in RULES}) >= len(RULES) - 1
    assert len(BEYOND_NODES) == 4


def test_what_draws_is_what_the_standard_calls_so() -> None:
    """Operators that run graphs, and functions, are called so for what is inside them."""
    loose = onnx.defs.OpSchema.NodeDeterminism.NonDeterministic
    told = {s.name for s in onnx.defs.get_all_schemas() if s.node_determinism == loose}
    drawing = {rule.op_type for rule in default_registry() if rule.draws}
    assert drawing <= told
    for name in told - drawing:
        schema = onnx.defs.get_schema(name)
        kinds = {a.type for a in schema.attributes.values()}
        assert onnx.defs.OpSchema.AttrType.GRAPH in kinds or schema.has_function, name
    for rule in default_registry():
        assert rule.draws == (rule.op_type in drawing), "it holds for every version"


@pytest.mark.parametrize("kind", ["RandomNormalLike", "RandomUniformLike", "Bernoulli", "Neg"])
def test_nodes_that_draw_have_no_twin(kind: str) -> None:
    text = f"(float[n] x) => (float[n] y, float[n] z) {{ a = {kind}(x) b = {kind}(x) y = Exp(a) z = Abs(b) }}"
    assert ops(simplify(model_of(text, 18)))[kind] == (1 if kind == "Neg" else 2)
