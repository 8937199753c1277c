"""Small files that ask for much: what is read from a file is bounded, and beyond the bound is an honest unknown."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import shapesolve
from shapesolve.model.saving import write_atomically
from shapesolve.report.sarif import render_github, render_sarif

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
node, info = helper.make_node, helper.make_tensor_value_info
MANY = 1 << 40


def parsed(body: str, opset: int = 17) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> g {body}')


def model(
    nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], output: str = "y"
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, [onnx.ValueInfoProto(name=output)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


LONG = {
    "Reshape": "(float[N] x, int64[{n}] t) => (y) {{ y = Reshape(x, t) }}",
    "Expand": "(float[N] x, int64[{n}] t) => (y) {{ y = Expand(x, t) }}",
    "Unsqueeze": "(float[N] x, int64[{n}] t) => (y) {{ y = Unsqueeze(x, t) }}",
    "ConstantOfShape": "(int64[{n}] t) => (y) {{ y = ConstantOfShape(t) }}",
    "filled": "(float[N] x) => (y) <int64[1] s = {{{n}}}>"
    " {{ t = ConstantOfShape<value = int64[1] {{3}}>(s) y = Reshape(x, t) }}",
    "Range": "(float[N] x) => (y) <int64 a = {{0}}, int64 b = {{{n}}}, int64 c = {{1}}>"
    " {{ t = Range(a, b, c) y = Reshape(x, t) }}",
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("n", [65, 10_000_000, MANY])
def test_vectors_that_are_taken_for_shapes(name: str, n: int) -> None:
    analysis = shapesolve.analyze(parsed(LONG[name].format(n=n)))
    assert "y" not in analysis.shapes
    assert [f.code for f in analysis.diagnostics] == ["SS103"] or analysis.conflicts
    assert "64" in str(analysis.diagnostics[0]) or analysis.conflicts


@pytest.mark.parametrize(
    "op_type", ["Squeeze", "Tile", "Slice", "Pad", "Split", "ReduceSum", "Resize", "GatherND"]
)
def test_vectors_of_axes_and_sizes(op_type: str) -> None:
    calls = {"Slice": "Slice(x, t, t)", "Resize": "Resize(x, , , t)"}
    text = f"(float[N] x, int64[{MANY}] t) => (y) {{{{ y = {calls.get(op_type, f'{op_type}(x, t)')} }}}}"
    shape = shapesolve.analyze(parsed(text.format())).shapes.get("y")
    assert shape is None or len(shape) <= 1


@pytest.mark.parametrize(
    ("inputs", "nodes", "rank"),
    [
        ("float[N] x, int64[{n}] t", "z = SplitToSequence(x, t) y = ConcatFromSequence<axis=0>(z)", 1),
        ("float[N] x, float[{n}] t", "y = Resize(x, , t)", 1),
        ("int64[N, 2, 3] x, int64[{n}] t", "y = CenterCropPad(x, t)", 3),
        ("float[N, 2, 3] x, int64[{n}] t", "y = Col2Im(x, t, t)", None),
        ("float[N, 2, 3] x, int64[{n}] t", "y = AffineGrid(x, t)", None),
        (
            "float[N, 1, 2, 3] x, int64[N, 1, 2, 3] i, int64[{n}] t",
            "y = MaxUnpool<kernel_shape=[2, 2]>(x, i, t)",
            4,
        ),
        ("float[N] x, int64[3, {n}] t, float[3] u", "y = ScatterND(x, t, u)", None),
        ("int64[1] s", "t = ConstantOfShape<value = int64[1] {3}>(s) y = ReduceProd(t)", None),
        ("int64 a, int64 b, int64 c", "t = Range(a, b, c) y = CumSum(t, a)", 1),
        ("int64 a, int64 b, int64 c", "t = Range(a, b, c) y = Gather(t, a)", 0),
    ],
)
def test_long_vectors_that_say_what_to_do(inputs: str, nodes: str, rank: int | None) -> None:
    text = f"({inputs.replace('{n}', str(MANY))}) => (y) {{ {nodes} }}"
    stored = {"int64[1] s": [("s", [MANY])], "int64 a, int64 b, int64 c": [("a", 0), ("b", MANY), ("c", 1)]}
    proto = parsed(text, 20)
    proto.graph.initializer.extend(
        numpy_helper.from_array(np.array(v), name) for name, v in stored.get(inputs, ())
    )
    for name, _ in stored.get(inputs, ()):
        proto.graph.input.remove(next(i for i in proto.graph.input if i.name == name))
    shape = shapesolve.analyze(proto).shapes.get("y")
    assert shape is None or rank is None or len(shape) == rank


@pytest.mark.parametrize(
    "text",
    [
        "(float[N] x) => (y) <int64[1] one = {1}, int64[3] s = {2097152, 2097152, 2199023255552}>"
        " { y = Expand(one, s) }",
        "(float[N] x) => (y) <int64[1,1] o = {1}, int64[2] s = {4611686018427387904, 4611686018427387904}>"
        " { y = Tile(o, s) }",
        "(int64[N] x) => (y) <int64[1,1] o = {1}, int64[2] s = {4611686018427387904, 4611686018427387904}>"
        " { t = ConstantOfShape(s) y = Add(t, o) }",
        "(bool[4611686018427387904, 1] c, int64[1, 4611686018427387904] d) => (y) <int64[1,1] o = {1}>"
        " { y = Where(c, o, d) }",
        "(int64[4611686018427387904, 4] c) => (y) <int64[1] o = {1}> { y = Gather(o, c) }",
    ],
)
def test_sizes_beyond_what_arrays_hold(text: str) -> None:
    str(shapesolve.analyze(parsed(text)))


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), -float("inf")])
def test_scales_that_are_no_numbers(scale: float) -> None:
    stored = numpy_helper.from_array(np.array([1, 1, scale], np.float32), "s")
    proto = model([node("Resize", ["x", "", "s"], ["y"])], [info("x", FLOAT, ["N", 1, "H"])])
    proto.graph.initializer.append(stored)
    assert "must be a number" in shapesolve.analyze(proto).conflicts[0].message


def test_inputs_of_many_axes() -> None:
    names = [f"N{i}" for i in range(4000)]
    analysis = shapesolve.analyze(model([node("Relu", ["x"], ["y"])], [info("x", FLOAT, names)]))
    assert not analysis.shapes
    assert "4,000 axes" in analysis.diagnostics[0].title


def test_a_sparse_vector_of_many_elements() -> None:
    proto = model([node("Reshape", ["x", "sp"], ["y"])], [info("x", FLOAT, ["N"])])
    stored = proto.graph.sparse_initializer.add()
    stored.values.CopyFrom(numpy_helper.from_array(np.array([1]), "sp"))
    stored.indices.CopyFrom(numpy_helper.from_array(np.array([0]), "i"))
    stored.dims.extend([2**62])
    assert "y" not in shapesolve.analyze(proto).shapes


def test_a_sum_of_many_names() -> None:
    names = [f"x{i}" for i in range(200)]
    proto = model([node("Sum", names, ["y"])], [info(n, FLOAT, [n.upper()]) for n in names])
    analysis = shapesolve.analyze(proto)
    assert "200 sizes are broadcast" in next(f.title for f in analysis.diagnostics if f.code == "SS103")
    assert len(analysis.ambiguities) < 16


def test_a_long_cycle() -> None:
    n = 3000
    nodes = [node("Relu", [f"t{(i - 1) % n}"], [f"t{i}"]) for i in range(n)]
    with pytest.raises(shapesolve.ModelError, match=r"has a cycle: 'Relu\(t0\)' -> 'Relu\(t1\)'"):
        shapesolve.analyze(model(nodes, [info("x", FLOAT, ["N"])], "t0"))


def test_functions_that_call_each_other_in_both_branches() -> None:
    functions = []
    for k in range(16):
        last = k == 15
        branches = {}
        for name in ("then_branch", "else_branch"):
            call = node("Relu", ["x"], [name]) if last else node(f"f{k + 1}", ["x"], [name], domain="loc")
            branches[name] = helper.make_graph([call], "b", [], [onnx.ValueInfoProto(name=name)])
        nodes = [
            node("ReduceSum", ["x"], ["s"], keepdims=0), node("Cast", ["s"], ["c"], to=TensorProto.BOOL),
            node("If", ["c"], ["y"], **branches),
        ]  # fmt: skip
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("loc", 1)]
        functions.append(helper.make_function("loc", f"f{k}", ["x"], ["y"], nodes, opsets))
    proto = model([node("f0", ["x"], ["y"], domain="loc")], [info("x", FLOAT, ["N"])])
    proto.opset_import.append(helper.make_opsetid("loc", 1))
    proto.functions.extend(functions)
    analysis = shapesolve.analyze(proto)
    assert len(analysis.shapes) < 20_000
    assert any("too many nested function calls" in f.title for f in analysis.diagnostics)


# ---------------------------------------------------------------------- what is written


@pytest.mark.parametrize("kind", ["link", "pipe", "directory"])
def test_only_files_are_replaced(kind: str, tmp_path: Path) -> None:
    target = tmp_path / "out.html"
    if kind == "link":
        (tmp_path / "other").write_text("kept")
        target.symlink_to(tmp_path / "other")
    elif kind == "pipe":
        os.mkfifo(target)
    else:
        target.mkdir()
    with pytest.raises(ValueError, match="is not replaced"):
        write_atomically(target, b"new")
    assert kind != "link" or (tmp_path / "other").read_text() == "kept"
    assert kind != "pipe" or target.is_fifo()


def test_names_cannot_steer_a_terminal() -> None:
    evil = "a\x1b[31m\x9b31m\u202e"
    nodes = [
        node("Nobody", ["x"], ["t"], name=evil, domain="acme"),
        node("Relu", ["t"], ["y"], name=evil + "2"),
    ]
    proto = model(nodes, [info("x", FLOAT, ["N", 3])])
    proto.opset_import.append(helper.make_opsetid("acme", 1))
    analysis = shapesolve.analyze(proto)
    for text in (
        analysis.to_json(),
        render_sarif(analysis),
        render_github(analysis),
        str(analysis),
    ):
        assert not set(text) & set("\x1b\x9b\u202e")
