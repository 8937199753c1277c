"""Sizes that a file declares of computed tensors, right at some of the accepted sizes only."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, numpy_helper

import shapesolve as ss
from shapesolve.compat import infer_shapes
from shapesolve.onnx_ir import infer_symbolic_shapes

from ..building import parsed, run, session


def forecaster(declared: str, output: str) -> onnx.ModelProto:
    """The memory of `a` is free when `u` is made; where both are declared alike, onnxruntime uses it again."""
    return parsed(
        f"g (float[batch, 3] past, float[batch, horizon] future) => (float[{output}] y)"
        f" <float[batch, 5] a, float[{declared}] u, float[{declared}] v> {{ a = MatMul(past, w) s = ReduceSum<keepdims = 1>(a)"
        " u = Add(future, s) v = Softplus(u) y = Transpose(v) }",
        18,
        w=np.ones((3, 5), np.float32),
    )


STALE = forecaster("batch, 5", "5, batch")


def feed(batch: int, horizon: int) -> dict[str, np.ndarray]:
    return {"past": np.ones((batch, 3), np.float32), "future": np.ones((batch, horizon), np.float32)}


def test_a_size_of_the_example_that_was_left_is_told_and_written_anew() -> None:
    a = ss.analyze(STALE)
    (finding,) = [f for f in a.diagnostics if f.code == "SS102"]
    assert finding.title == "u[1] is declared as 5, but its size is horizon"
    assert finding.notes == (
        "they agree only if horizon == 5",
        "the same holds for 2 more tensors",
        "onnxruntime lets tensors share memory whose declared shapes are equal: a run at other sizes may fail",
    )
    made = a.annotate()
    assert not ss.analyze(made).diagnostics
    assert session(made).run(None, feed(2, 7))[0].shape == (7, 2)
    with pytest.raises(ValueError, match=r"u\[1\] is declared as 5, but its size is horizon"):
        a.annotate("strict")
    kept = a.annotate("skip")
    assert [f.code for f in ss.analyze(kept).diagnostics] == ["SS102", "SS403"]


def test_a_run_with_the_runtimes_default_options_is_part_of_verify() -> None:
    model = parsed(
        "g (float[3, t, 8] x) => (float[3, t, 4] y) <float[3, 6, 8] a> { a = Relu(x) m = MatMul(a, w) y = Add(m, b) }",
        18,
        w=np.ones((8, 4), np.float32),
        b=np.ones(4, np.float32),
    )
    a = ss.analyze(model)
    assert [f.code for f in a.diagnostics] == ["SS102"]
    assert a.verify({"x": np.ones((3, 6, 8), np.float32)})
    with pytest.raises(RuntimeError, match="runs without onnxruntime's optimizations"):
        a.verify({"x": np.ones((3, 9, 8), np.float32)})


def test_onnx_ir_gets_the_inferred_size() -> None:
    (value,) = infer_symbolic_shapes(ir.from_proto(STALE)).graph.outputs
    assert value.shape is not None
    assert str(value.shape[0]) == "horizon"
    with pytest.raises(ValueError, match=r"u\[1\] is declared as 5"):
        infer_symbolic_shapes(ir.from_proto(STALE), policy="strict")


def test_inputs_are_drawn_where_the_file_is_right() -> None:
    with pytest.raises(Exception, match="re-use buffer"):
        session(STALE).run(None, feed(2, 7))
    made = ss.generate_inputs(STALE, count=12)
    assert {sizes["horizon"] for sizes in made.sizes} == {5}
    assert len({sizes["batch"] for sizes in made.sizes}) > 3
    assert any("horizon == 5" in guess for guess in made.guesses)
    runs = session(STALE)
    for given in made:
        runs.run(None, given)
    assert ss.generate_inputs(STALE, count=1, bind={"horizon": 7}).sizes[0]["horizon"] == 7


def test_an_output_has_memory_of_its_own() -> None:
    model = forecaster("batch, horizon", "5, batch")
    (finding,) = [f for f in ss.analyze(model).diagnostics if f.code == "SS102"]
    assert not any("onnxruntime" in note for note in finding.notes)
    made = ss.generate_inputs(model, count=12)
    assert len({sizes["horizon"] for sizes in made.sizes}) > 3
    runs = session(model)
    for given in made:
        runs.run(None, given)


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ("batch, horizon", ""),
        ("batch, steps", ""),  # a name that the author gives
        ("batch, ?", ""),
        ("batch, past", ""),
        ("horizon, horizon", "u[0] is declared as horizon, but its size is batch"),
        ("batch, 12", "u[1] is declared as 12, but its size is horizon"),
    ],
)
def test_names_and_numbers(declared: str, told: str) -> None:
    titles = [f.title for f in ss.analyze(forecaster(declared, "?, ?")).diagnostics]
    assert titles == [told] * bool(told)


def test_what_is_right_at_all_accepted_sizes_is_not_told() -> None:
    """No rows have 0 of them: not worth a word."""
    model = parsed(
        "g (float[n, k] x) => (float[n, 2] u, float[1, 4] y) <int64[1] zero = {0}, int64[1] one = {1}>"
        " { u = MatMul(x, w) y = Slice(x, zero, one, zero) }",
        18,
        w=np.ones((4, 2), np.float32),
    )
    assert "SS102" not in [f.code for f in ss.analyze(model).diagnostics]


# ---------------------------------------------------------------------- behind what is not known


def behind(nodes: str, declared: str, dims: str = "n", weight: tuple[int, ...] = (8, 3)) -> onnx.ModelProto:
    """A model whose first node, an operator that nobody knows, makes `b`, declared so."""
    text = (
        f'<ir_version: 8, opset_import: ["": 17, "acme": 1]> g (float[{dims}] a) => (y) <float[{declared}] b>'
    )
    proto = onnx.parser.parse_model(f"{text} {{ b = acme.Thing(a)  {nodes} }}")
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(weight, np.float32), "w"))
    return proto


@pytest.mark.parametrize("declared", ["n, 8", "n, 7", "2, n, 8", "m, n"])
@pytest.mark.parametrize(
    "nodes",
    [
        "y = MatMul(b, w)",
        "c = Relu(b) d = Neg(c) y = MatMul(d, w)",
        "y = Gemm(b, w)",
        "c = Concat<axis = 1>(b, b) y = Neg(c)",
        "c = Transpose<perm = [1, 0]>(b) y = MatMul(w, c)",
    ],
)
def test_what_is_declared_of_an_unknown_operator_is_assumed_in_every_answer(
    nodes: str, declared: str
) -> None:
    """onnxruntime runs the same nodes where `b` is an input of these sizes."""
    a = ss.analyze(behind(nodes, declared))
    ran = []
    for n, m in itertools.product((3, 5, 8), repeat=2):
        dims = [{"n": n, "m": m}.get(d) or int(d) for d in declared.split(", ")]
        try:
            (made,) = run(
                parsed(f"g (float[{declared}] b) => (y) {{ {nodes} }}", w=(8, 3)),
                {"b": np.ones(dims, np.float32)},
            )
        except Exception:
            continue
        ran.append(n)
        assert a.shapes["y"].subs({"n": n, "m": m}) == ss.Shape(made.shape)
    accepted = {n for n in (3, 5, 8) if not a.check_inputs({"a": (n,)})}
    assert accepted == set(ran)
    assert {not a.conflicts, not a.contract.impossible, bool(ran)} == {a.ok}
    numbers = [i for i, d in enumerate(declared.split(", ")) if d.isdigit() and "Concat" in nodes]
    for i in numbers:
        proof = a.prove(f"b[{i}] == {a.shapes['b'][i]}")
        assert not proof
        assert f"b[{i}] is declared as {a.shapes['b'][i]}" in proof.assumptions


def test_numbers_of_sizes_that_data_decide_are_not_believed() -> None:
    text = "g (float[n] x) => (y) <int64[1, 5] b> { b = NonZero(x) c = Cast<to = 1>(b) y = MatMul(c, w) }"
    a = ss.analyze(parsed(text, w=(5, 2)))
    assert a.ok
    assert not a.contract.assumed
    free = ss.analyze(parsed(text.replace("y = MatMul(c, w)", "y = Neg(c)"), w=(5, 2)))
    assert free.shapes["y"][1].value is None


@pytest.mark.parametrize(
    "declared", ["float[n, 4]", "int64[n, 4]", "float[n, 5]", "float[n]", "float[n, k]", "float[3, 4]"]
)
@pytest.mark.parametrize(
    "place", ["<{} mid> {{ mid = Relu(x) y = Neg(mid) }}", "{{ mid = Relu(x) y = Neg(mid) }}"]
)
def test_strictness_is_that_of_onnx(place: str, declared: str) -> None:
    """In the drop-in, in `annotate` and for `onnx_ir`; and ``refine`` writes the element type that is."""
    inside = "mid>" in place
    head = "g (float[n, 4] x) => (y) " if inside else f"g (float[n, 4] x) => ({declared} y) "
    model = parsed(head + place.format(declared))

    def strict(work: Callable[[], object]) -> bool:
        try:
            work()
        except (ValueError, onnx.shape_inference.InferenceError):
            return False
        return True

    good = strict(lambda: onnx.shape_inference.infer_shapes(model, strict_mode=True))
    assert strict(lambda: infer_shapes(model, strict_mode=True)) == good
    if declared != "float[3, 4]":  # right at one size only, which onnx does not look at
        assert strict(lambda: ss.analyze(model).annotate("strict")) == good
        assert strict(lambda: infer_symbolic_shapes(ir.from_proto(model), policy="strict")) == good
    refined = ss.analyze(model).annotate("refine").graph
    made = infer_symbolic_shapes(ir.from_proto(model)).graph
    types = {v.name: v.type.tensor_type.elem_type for v in (*refined.value_info, *refined.output)}
    assert types == dict.fromkeys(("mid", "y"), TensorProto.FLOAT)
    assert types == {v.name: int(v.dtype) for n in made for v in n.outputs}


# ---------------------------------------------------------------------- names, and expressions of inputs


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("op", ["Add", "Concat", "Max"])
def test_the_name_of_the_author_is_the_one_that_is_used(op: str, axis: int) -> None:
    dims = ["?, ?", "n, hidden"]
    attribute = "<axis = 0>" if op == "Concat" else ""
    a = ss.analyze(
        parsed(f"g (float[{dims[axis]}] a, float[{dims[1 - axis]}] b) => (y) {{ y = {op}{attribute}(a, b) }}")
    )
    bound = a if op == "Concat" else ss.analyze(a.model.proto, broadcast="equal")
    assert "hidden" in str(bound.shapes["y"][1])
    assert "SS402" not in [f.code for f in bound.diagnostics]


@pytest.mark.parametrize(
    ("graph", "right"),
    [
        ("g (float[n, h] x, float[n, {}] y) => (z) {{ z = Add(x, y) }}", "h"),
        ("g (float[n, h] x, float[n, {}] y) => (z) {{ z = Where(b, x, y) }}", "h"),
        ("g (float[n, p] x, float[n, h] s, float[n, {}] y) => (z) {{ c = Concat<axis = 1>(x, s) z = Add(c, y) }}", "p + h"),
        ("g (float[n, h] x, float[1, {}] y) => (z) {{ f = Flatten<axis = 0>(x) z = Mul(f, y) }}", "n*h"),
        ("g (float[n, h] x, float[n, {}] y) => (z) {{ c = Concat<axis = 1>(x, x) z = Min(c, y) }}", "2*h"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("said", ["h + 1", "2*h", "h + n", "n*h"])
def test_a_declared_expression_is_no_law_against_the_graph(graph: str, right: str, said: str) -> None:
    """Calls that run are accepted, or a finding names the declaration; one that is right stays, and nothing is found."""
    model = parsed(graph.format(f'"{said}"'), b=np.array([True]))
    a = ss.analyze(model)
    sizes = {"n": 3, "h": 4, "p": 5}
    last = ss.parse_dim(right).evaluate(sizes)
    shapes = {
        v.name: [sizes.get(d.dim_param, d.dim_value or last) for d in v.type.tensor_type.shape.dim]
        for v in model.graph.input
    }
    run(model, {name: np.ones(shape, np.float32) for name, shape in shapes.items()})
    assert not a.check_inputs(shapes)
    found = [f for f in a.diagnostics if f.code == "SS102"]
    assert bool(found) == (said != right)
    assert all("y[1] is declared as" in f.title for f in found)
