"""Which sizes are accepted: `check_inputs`, `contract.holds`, the generated checker and `evaluate` agree with onnxruntime."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import shapesolve as ss

from ..building import EVERYTHING, seeds
from ..nodes import info, model, run, z
from .views import against_runtime

N = helper.make_node


def text(source: str, opset: int = 17) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["":{opset}]> {source}')


_CONDITIONAL = text(
    "g (bool c, float[a, k] X) => (Z) { W = Constant<value = float[3, 2] {0, 0, 0, 0, 0, 0}>()"
    " V = Constant<value = float[5, 2] {0, 0, 0, 0, 0, 0, 0, 0, 0, 0}>()"
    " Z = If(c) <then_branch = t () => (t) { t = MatMul(X, W) }, else_branch = e () => (e) { e = MatMul(X, V) }> }"
)
_EXPANDED = text(
    "g (float[c, c] X, float[a] V) => (Y) <int64[1] three = {3}, int64[1] one = {1}>"
    " { s = Shape<end = 1>(X) q = Div(s, three) h = Concat<axis = 0>(one, q) e = Expand(X, h) Y = MatMul(e, V) }"
)
_ADDED = text("g (float[a] X, float[b] Y, float[c] V) => (Z) { t = Add(X, Y) Z = MatMul(t, V) }")
_RANGE = text(
    "g (float[N, M] A) => (Y) <int64 zero = {0}, int64 o = {1}>"
    " { s = Shape(A) n = Gather<axis = 0>(s, zero) k = Gather<axis = 0>(s, o) Y = Range(zero, n, k) }"
)
_DIVIDED = text(
    "g (float[N] x) => (y) <int64[1] k = {12}> { s = Shape(x) d = Div(k, s) y = ConstantOfShape(d) }"
)
_WINDOW = text(
    "g (float[H] x, float[M] y) => (p, r) <int64[2] t = {-1, 4}, int64[3] u = {1, 1, -1}>"
    " { r = Reshape(y, t) c = Concat<axis=0>(x, y) cu = Reshape(c, u) p = MaxPool<kernel_shape=[5]>(cu) }"
)
_NEVER = text(
    "g (float[N, C, H, W] X) => (Y) { Y = MaxPool<kernel_shape = [3, 3], pads = [-1, 0, -1, 0]>(X) }"
)
_ZERO = text("g (float[a] X, float[0] Y) => (Z) { Z = Add(X, Y) }")
_ITERATED = text(
    "g (float[N, M] x) => (y) <int64[3] t = {-1, 2, 3}, int64[2] u = {0, -1}>"
    " { r = Reshape(x, t) y = Reshape(x, u) }"
)


@pytest.mark.parametrize(
    "m",
    [_EXPANDED, _ADDED, _RANGE, _DIVIDED, _WINDOW, _NEVER, _ZERO, _ITERATED, _CONDITIONAL],
    ids=["expanded", "added", "range", "divided", "window", "never", "zero", "iterated", "conditional"],
)
def test_all_views_agree_with_onnxruntime(m: onnx.ModelProto) -> None:
    names = list(ss.analyze(m).symbols)
    grid = product((0, 1, 2, 3, 4, 5, 6, 8), repeat=len(names)) if len(names) < 3 else _some(len(names))
    assert list(against_runtime(m, [dict(zip(names, at, strict=True)) for at in grid])) == []


def _some(count: int) -> list[tuple[int, ...]]:
    rng = np.random.default_rng(0)
    return [tuple(map(int, rng.integers(0, 7, count))) for _ in range(80)]


#: what one branch gives, what the other gives, and a node that does not take every size
_THEN = {
    "as it is": "p = Identity(x)",
    "at most three": "o = Constant<value_ints=[0]>() e = Constant<value_ints=[3]>() p = Slice(x, o, e, o)",
    "twice": "p = Concat<axis=0>(x, x)",
}
_ELSE = {
    "at most one": "o = Constant<value_ints=[0]>() e = Constant<value_ints=[1]>() q = Slice(x, o, e, o)",
    "the other": "q = Identity(z)",
    "both": "q = Concat<axis=0>(x, z)",
    "behind two": """f = Constant<value_ints=[2]>() e = Constant<value_ints=[9]>() o = Constant<value_ints=[0]>()
                     q = Slice(x, f, e, o)""",
}
_NODES = {
    "MatMul": "t2 = Transpose<perm=[1, 0]>(t) y = MatMul(t2, w)",
    "Conv": """s = Constant<value_ints=[1, 1, -1]>() r = Reshape(t, s)
               k = Constant<value = float[1, 1, 3] {1, 1, 1}>() y = Conv(r, k)""",
    "Reshape": "s = Constant<value_ints=[2, -1]>() y = Reshape(t, s)",
    "Add": "y = Add(t, z)",
    "Gather": "k = Constant<value_ints=[2]>() y = Gather<axis=0>(t, k)",
    "Concat": "y = Concat<axis=1>(t, z)",
    "TopK": "k = Constant<value_ints=[2]>() y, i = TopK<axis=0>(t, k)",
    "Split": "s = Constant<value_ints=[2, 1]>() y, r = Split<axis=0>(t, s)",
}
_CHOICES = [
    (then, other, node)
    for number, (then, other, node) in enumerate(product(_THEN, _ELSE, _NODES))
    if EVERYTHING or number % 9 == 0
]


@pytest.mark.parametrize(("then", "other", "node"), _CHOICES)
def test_sizes_are_accepted_where_one_branch_runs(then: str, other: str, node: str) -> None:
    """Accepted is what runs with some data, whatever the truth of a condition must be for that."""
    m = text(
        "g (float[N, 1] x, float[M, 1] z, bool c) => (y) <float[2, 3] w = {1, 2, 3, 4, 5, 6}> {"
        f"t = If(c) <then_branch = a () => (float[P, Q] p) {{ {_THEN[then]} }}, "
        f"else_branch = b () => (float[R, S] q) {{ {_ELSE[other]} }}> {_NODES[node]} }}"
    )
    grid = product((0, 1, 2, 3, 4, 7), (0, 1, 2, 3, 5))
    assert list(against_runtime(m, [{"N": n, "M": k} for n, k in grid])) == []


#: text of a model, in which a tensor `t` of rank 2 becomes another one; `{k}`, `{j}` are drawn numbers
_STEPS = {
    "split": "s{n} = SplitToSequence<axis=0>({t}, k{n})  {o} = ConcatFromSequence<axis={j}>(s{n})",
    "stack": "s{n} = SplitToSequence<axis={j}>({t}, k{n})  u{n} = ConcatFromSequence<axis=0, new_axis=1>(s{n})"
    "  {o} = Reshape(u{n}, flat)",
    "part": "s{n} = SplitToSequence<axis=0>({t}, k{n})  {o} = SequenceAt(s{n}, zero)",
    "last": "s{n} = SplitToSequence<axis=0>({t}, k{n})  {o} = SequenceAt(s{n}, minus)",
    "insert": "s{n} = SplitToSequence<axis=0>({t}, k{n})  i{n} = SequenceInsert(s{n}, {t})"
    "  {o} = ConcatFromSequence<axis={j}>(i{n})",
    "branch": "h{n} = Shape<start=0, end=1>({t})  g{n} = Squeeze(h{n})  c{n} = Greater(g{n}, k{n})"
    "  {o} = If(c{n}) <then_branch = then () => (a{n}) {{ a{n} = Reshape({t}, two) }},"
    " else_branch = other () => (b{n}) {{ b{n} = Concat<axis=0>({t}, row) }}>",
    "loop": "{o} = Loop(k{n}, yes, {t}) <body = body (int64 i{n}, bool q{n}, float[x{n}, y{n}] v{n}) => (r{n}, w{n})"
    " {{ r{n} = Identity(q{n}) w{n} = Concat<axis=0>(v{n}, {t}) }}>",
    "product": "p{n} = Transpose<perm=[1, 0]>({t})  {o} = MatMul({t}, p{n})",
    "square": "{o} = MatMul({t}, {t})",
    "add": "{o} = Add({t}, row)",
    "pairs": "{o} = Reshape({t}, two)",
}


def drawn(seed: int) -> onnx.ModelProto:
    """A model of one input ``[N, M]`` with one to three of the steps."""
    draw = Random(seed)
    steps, stored, t = [], [], "x"
    for n in range(draw.randint(1, 3)):
        out = f"t{n}"
        step = _STEPS[draw.choice([*_STEPS])]
        steps.append(step.format(n=n, t=t, o=out, j=draw.randint(0, 1)))
        stored.append(f"int64 k{n} = {{{draw.randint(1, 4)}}}")
        t = out
    constants = ", ".join(
        [*stored, "int64 zero = {0}", "int64 minus = {-1}", "int64[2] flat = {0, -1}", "int64[2] two = {-1, 2}",
         "bool yes = {1}", "float[1, 3] row = {1, 1, 1}"]
    )  # fmt: skip
    return text(
        f"g (float[N, M] x) => (y) <{constants}> {{ " + "  ".join(steps) + f"  y = Identity({t}) }}", 21
    )


@pytest.mark.parametrize("seed", seeds(0, 150))
def test_sizes_of_sequences_branches_and_loops_are_accepted_where_they_run(seed: int) -> None:
    grid = product((0, 1, 2, 3, 4, 6, 8), repeat=2)
    assert list(against_runtime(drawn(seed), [{"N": n, "M": m} for n, m in grid], strict=False)) == []


def test_a_model_that_cannot_run_accepts_nothing() -> None:
    a = ss.analyze(_NEVER)
    assert a.contract.impossible
    assert a.check_inputs({"X": (1, 3, 8, 8)})
    assert a.contract.holds({"N": 1, "C": 3, "H": 8, "W": 8}) is False
    assert "append" in a.contract.to_python()
    assert a.evaluate({"N": 1, "C": 3, "H": 8, "W": 8}) == {}


@pytest.mark.parametrize(
    ("declared", "shapes"),
    [
        ([["N"], ["2*N"]], [(3,), (7,)]),
        ([["N"], ["N"]], [(3,), (7,)]),
        ([["past"], ["seq"], ["past + seq"]], [(5,), (3,), (4,)]),
        ([["a"], ["b"], ["a - b"]], [(3,), (5,), (2,)]),
    ],
)
def test_declared_expressions_are_checked_as_names_are(declared: Any, shapes: Any) -> None:
    inputs = [info(f"X{i}", dims) for i, dims in enumerate(declared)]
    m = model([N("Concat", [f"X{i}" for i in range(len(inputs))], ["Z"], axis=0)], inputs, ["Z"])
    feeds = {f"X{i}": z(*shape) for i, shape in enumerate(shapes)}
    a = ss.analyze(m)
    true = run(m, **feeds)[0].shape
    given = {name: feed.shape for name, feed in feeds.items()}
    assert a.check_inputs(given) or a.evaluate(a.bind_inputs(given))["Z"] == true
    assert a.check_inputs(given)


@pytest.mark.parametrize(
    "dims",
    [
        [["batch-size", 3]],
        [["batch-size"], ["batch"]],
        [["batch-size"], ["seq-len"]],
        [["N/A"], ["N/A"]],
        [["num_heads/2"]],
        [["past-seq"], ["past"], ["seq"]],
    ],
)
def test_what_is_a_name_in_practice_stays_one(dims: list[list[Any]]) -> None:
    inputs = [info(f"X{i}", d) for i, d in enumerate(dims)]
    m = model([N("Concat", [f"X{i}" for i in range(len(dims))], ["Z"], axis=0)], inputs, ["Z"])
    a = ss.analyze(m)
    if len(dims) == 3:  # all of its words are names
        assert list(a.symbols) == ["past", "seq"]
        return
    first = dims[0][0]
    assert first in a.symbols
    assert ss.analyze(m, bind={first: 4}).ok
    distinct = {d[0]: n for d, n in zip(dims, (100, 1), strict=False)}
    shapes = {f"X{i}": tuple(distinct.get(n, n) for n in d) for i, d in enumerate(dims)}
    assert a.check_inputs(shapes) == []
    (true,) = run(m, **{name: z(*shape) for name, shape in shapes.items()})
    assert a.evaluate(a.bind_inputs(shapes))["Z"] == true.shape


def test_a_dim_without_a_name_is_never_one_that_the_author_named() -> None:
    m = model([N("Concat", ["X", "Z"], ["Y"], axis=0)], [info("X", [None]), info("Z", ["X_d0"])], ["Y"])
    a = ss.analyze(m)
    assert not a.prove("X[0] == Z[0]")
    shapes = {"X": (3,), "Z": (5,)}
    assert a.check_inputs(shapes) == []
    assert a.evaluate(a.bind_inputs(shapes))["Y"] == run(m, X=z(3), Z=z(5))[0].shape == (8,)


@pytest.mark.parametrize("size", [-5, "x", None, 2.5, True, 2**64])
def test_what_is_no_size_is_an_error(size: Any) -> None:
    a = ss.analyze(_ADDED)
    with pytest.raises(ValueError, match=r"the size of X\[0\] must be"):
        a.check_inputs({"X": (size,)})
    with pytest.raises(ValueError, match="the size of a must be"):
        a.evaluate({"a": size})


def test_names_that_the_model_does_not_have_are_errors() -> None:
    m = model([N("Relu", ["hidden"], ["Z"])], [info("hidden", ["batch"])], ["Z"])
    a = ss.analyze(m)
    with pytest.raises(ValueError, match="unknown input 'hiden'; did you mean hidden"):
        a.check_inputs({"hiden": (2,)})
    with pytest.raises(ValueError, match="unknown dim 'bacth'; did you mean batch"):
        a.evaluate({"bacth": 2})


def test_a_default_is_overridden_where_a_shape_is_given() -> None:
    m = model(
        [N("Add", ["X", "w"], ["Y"])],
        [info("X", ["a"]), info("w", ["k"])],
        ["Y"],
        [numpy_helper.from_array(np.zeros(4, np.float32), "w")],
    )
    a = ss.analyze(m)
    assert a.check_inputs({"X": (6,)})
    assert a.check_inputs({"X": (6,), "w": (6,)}) == []
    assert run(m, X=z(6), w=z(6))[0].shape == (6,)
    assert a.check_inputs({"X": (6,), "w": (5,)})
    assert any("w has a default value" in f.title for f in a.diagnostics)
