"""Files against the standard, or against onnxruntime: what onnxruntime loads is read, and what it refuses is an error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import shapesolve

from ..building import run, session

FLOAT, INT32, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL
info, node = helper.make_tensor_value_info, helper.make_node
ROWS = numpy_helper.from_array(np.ones(3, np.float32), "w")


def model(
    nodes: Sequence[onnx.NodeProto],
    imports: Sequence[tuple[str, int]] = (("", 17),),
    inputs: Sequence[onnx.ValueInfoProto] = (),
    outputs: Sequence[onnx.ValueInfoProto] = (),
    stored: Sequence[onnx.TensorProto] = (),
    ir_version: int = 8,
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    given = inputs or [info("x", FLOAT, [2, 3])]
    made = outputs or [onnx.ValueInfoProto(name="y")]
    graph = helper.make_graph(list(nodes), "g", list(given), list(made), list(stored))
    opsets = [helper.make_opsetid(*i) for i in imports]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir_version, functions=list(functions))


def constant(value: Any, name: str = "k", **more: Any) -> onnx.NodeProto:
    array = np.asarray(value, np.float32)
    return node("Constant", [], [name], value=numpy_helper.from_array(array), **more)


def loads(proto: onnx.ModelProto) -> dict[str, tuple[int, ...]] | None:
    """Shapes of the outputs when onnxruntime runs the model on zeros; None when it does not load or run it."""
    kinds = {FLOAT: np.float32, INT32: np.int32, INT64: np.int64, BOOL: np.bool_}
    stored = {t.name for t in proto.graph.initializer}
    feeds = {
        i.name: np.zeros(
            [d.dim_value for d in i.type.tensor_type.shape.dim], kinds[i.type.tensor_type.elem_type]
        )
        for i in proto.graph.input
        if i.name not in stored
    }
    try:
        found = run(proto, feeds)
    except Exception:  # onnxruntime raises a dozen classes of its own
        return None
    return {o.name: r.shape for o, r in zip(proto.graph.output, found, strict=True)}


def agrees(proto: onnx.ModelProto) -> Any:
    """What onnxruntime loads has no conflict and these shapes; what it refuses has one. Returns the analysis."""
    real = loads(proto)
    analysis = shapesolve.analyze(proto)
    if real is None:
        assert analysis.conflicts
        return analysis
    assert not analysis.conflicts
    for name, shape in real.items():
        predicted = [d.value for d in analysis.shapes[name]]
        assert all(p in (None, size) for p, size in zip(predicted, shape, strict=True))
    return analysis


def codes(analysis: Any) -> list[str]:
    return [f.code for f in analysis.diagnostics]


# ---------------------------------------------------------------------- opsets


@pytest.mark.parametrize(
    ("domain", "op_type"), [("com.microsoft", "Gelu"), ("ai.onnx.ml", "Binarizer"), ("ai.onnx", "Relu")]
)
@pytest.mark.parametrize("imports", [[("", 17)], [("", 17), ("", 12)], [("ai.onnx.ml", 3)]])
def test_a_domain_without_an_import(domain: str, op_type: str, imports: list[tuple[str, int]]) -> None:
    proto = model([node(op_type, ["x"], ["y"], domain=domain)], imports)
    analysis = agrees(proto)
    known = {d or "ai.onnx" for d, _ in imports}
    remarks = [f.title for f in analysis.diagnostics if f.code == "SS104"]
    assert any(domain in r and "opset_import" in r for r in remarks) is (domain not in known)
    assert any("two versions" in r for r in remarks) is (len(imports) == 2)


@pytest.mark.parametrize(
    "imports", [[("", 21), ("", 17)], [("", 17), ("", 21)], [("", 0), ("", 20)], [("", 19), ("ai.onnx", 20)]]
)
def test_the_last_of_two_imports_counts(imports: list[tuple[str, int]]) -> None:
    assert "SS104" in codes(agrees(model([node("Gelu", ["x"], ["y"])], imports)))


def test_an_unknown_domain_must_be_imported() -> None:
    with pytest.raises(shapesolve.ModelError, match="no opset_import"):
        shapesolve.analyze(model([node("Gelu", ["x"], ["y"], domain="acme")]))


# ---------------------------------------------------------------------- names given twice


ADD = node("Add", ["x", "k"], ["y"])


@pytest.mark.parametrize(
    "nodes",
    [
        [constant([1, 1, 1]), constant([2, 2, 2]), ADD],
        [constant([1, 1, 1]), ADD, constant([2, 2, 2])],
        [constant([1, 1, 1], name="k", overload=""), constant([2, 2, 2]), constant([3, 3, 3]), ADD],
    ],
)
def test_the_last_of_two_constants_counts(nodes: list[onnx.NodeProto]) -> None:
    analysis = agrees(model(nodes))
    assert codes(analysis) == ["SS104"]
    assert analysis.values["k"].elems[0] == float(len(nodes) - 1)


@pytest.mark.parametrize(
    "nodes",
    [
        [constant([1, 1, 1]), constant([2, 2]), ADD],
        [node("Relu", ["x"], ["k"]), node("Relu", ["x"], ["k"]), ADD],
        [constant([1, 1, 1]), node("Relu", ["x"], ["k"]), ADD],
    ],
)
def test_other_producers_are_refused(nodes: list[onnx.NodeProto]) -> None:
    proto = model(nodes)
    assert loads(proto) is None
    with pytest.raises(shapesolve.ModelError, match="two producers"):
        shapesolve.analyze(proto)


def _stored_sparsely(attribute: str) -> onnx.NodeProto:
    values = numpy_helper.from_array(np.ones(1, np.float32), "v")
    stored = helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([1]), "i"), [3])
    made = node("Constant", [], ["k"])
    made.attribute.append(helper.make_attribute(attribute, stored))
    return made


@pytest.mark.parametrize(
    "stored",
    [constant([1, 1, 1], alpha=1.0), _stored_sparsely("value"), _stored_sparsely("sparse_value")],
    ids=["an attribute too many", "sparse under another name", "sparse"],
)
def test_what_a_constant_holds(stored: onnx.NodeProto) -> None:
    agrees(model([stored, ADD]))


def test_two_initializers_of_one_name() -> None:
    other = numpy_helper.from_array(np.full(3, 2, np.float32), "w")
    analysis = agrees(model([node("Add", ["x", "w"], ["y"])], stored=[ROWS, other]))
    assert codes(analysis) == ["SS104"]
    assert analysis.values["w"].elems[0] == 2.0


@pytest.mark.parametrize("constants", [0, 1, 2])
def test_names_of_nodes(constants: int) -> None:
    pair = [
        constant([1, 1, 1], name="n") if constants > i else node("Relu", ["x"], [f"r{i}"]) for i in range(2)
    ]
    for i, n in enumerate(pair):
        n.name, n.output[0] = "n", f"r{i}"
    analysis = agrees(model([*pair, node("Add", ["r0", "r1"], ["y"])]))
    assert ("SS205" in codes(analysis)) == (not constants)


def test_names_of_nodes_in_branches() -> None:
    def branch(out: str, twice: bool) -> onnx.GraphProto:
        nodes = [
            node("Relu", ["x"], ["a" + out], name="n"),
            node("Relu", ["a" + out], [out], name="n" if twice else "m"),
        ]
        return helper.make_graph(nodes, "b", [], [onnx.ValueInfoProto(name=out)])

    for twice in (False, True):
        choose = node(
            "If", ["c"], ["y"], name="n", then_branch=branch("t", twice), else_branch=branch("e", False)
        )
        agrees(model([choose], inputs=[info("x", FLOAT, [2, 3]), info("c", BOOL, [])]))


# ---------------------------------------------------------------------- declarations


def test_a_file_without_ir_version() -> None:
    proto = model([node("Relu", ["x"], ["y"])])
    proto.ClearField("ir_version")
    assert codes(agrees(proto)) == ["SS205"]


@pytest.mark.parametrize("ir_version", [3, 8])
@pytest.mark.parametrize("dims", [[3], [2], ["N"], ["N", 1], [], None])
@pytest.mark.parametrize("kind", [FLOAT, INT32])
def test_a_default_is_as_it_is_declared(ir_version: int, dims: Any, kind: int) -> None:
    proto = model(
        [node("NonZero", ["w"], ["y"])],
        [("", 9)],
        [info("w", kind, dims)],
        stored=[ROWS],
        ir_version=ir_version,
    )
    analysis = shapesolve.analyze(proto)
    assert bool(analysis.conflicts) is (loads(proto) is None)


@pytest.mark.parametrize("kind", [FLOAT, INT32])
@pytest.mark.parametrize("where", ["output", "value_info", "branch"])
def test_declared_element_types(kind: int, where: str) -> None:
    if where == "output":
        proto = model([node("Identity", ["x"], ["y"])], outputs=[info("y", kind, [2, 3])])
    elif where == "value_info":
        proto = model([node("Relu", ["x"], ["a"]), node("Relu", ["a"], ["y"])])
        proto.graph.value_info.append(info("a", kind, [2, 3]))
    else:
        branches = [
            helper.make_graph([node("Identity", ["x"], [f"o{i}"])], "b", [], [info(f"o{i}", kind, None)])
            for i in (0, 1)
        ]
        choose = node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
        proto = model([choose], inputs=[info("x", FLOAT, [2, 3]), info("c", BOOL, [])])
    agrees(proto)


@pytest.mark.parametrize(
    "kind", [FLOAT, INT32, INT64, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.STRING]
)
@pytest.mark.parametrize("opset", [9, 13, 17])
@pytest.mark.parametrize("op_type", ["Relu", "Sign", "Erf", "Neg", "Sqrt", "Softmax", "ReduceMax"])
def test_types_that_an_operator_takes(op_type: str, opset: int, kind: int) -> None:
    proto = model([node(op_type, ["x"], ["y"])], [("", opset)], [info("x", kind, [2, 3])])
    try:
        session(proto)
        refused = False
    except Exception as e:  # a type that the standard takes may lack a kernel
        refused = "Type Error" in str(e)
    assert bool(shapesolve.analyze(proto).conflicts) is refused


def test_an_optional_where_a_tensor_is_due() -> None:
    agrees(model([node("Optional", ["x"], ["o"]), node("Relu", ["o"], ["y"])], [("", 18)]))


# ---------------------------------------------------------------------- nested graphs


def branch(names: Sequence[str], takes: Sequence[str] = ()) -> onnx.GraphProto:
    nodes = [node("Identity", [takes[0] if takes else "x"], [name]) for name in names]
    outputs = [info(name, FLOAT, None) for name in names]
    return helper.make_graph(nodes, "b", [info(t, FLOAT, [2, 3]) for t in takes], outputs)


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("wanted", [1, 2])
@pytest.mark.parametrize("takes", [[], ["z"], ["x"]])
def test_branches(outputs: int, wanted: int, takes: list[str]) -> None:
    graphs = [branch([f"o{i}{k}" for i in range(outputs)], takes) for k in "te"]
    names = [f"y{i}" for i in range(wanted)]
    choose = node("If", ["c"], names, then_branch=graphs[0], else_branch=graphs[1])
    made = [onnx.ValueInfoProto(name=n) for n in names]
    agrees(model([choose], inputs=[info("x", FLOAT, [2, 3]), info("c", BOOL, [])], outputs=made))


@pytest.mark.parametrize(
    "attributes",
    [
        {}, {"scan_output_axes": [0]}, {"scan_output_axes": [1]}, {"scan_output_axes": [0, 0]},
        {"scan_input_axes": [0, 0]}, {"scan_input_directions": [1]}, {"scan_input_directions": [2]},
        {"scan_input_directions": [0, 1]}, {"scan_output_directions": [1]}, {"scan_output_directions": [0, 0]},
    ],
)  # fmt: skip
def test_lists_of_a_scan(attributes: dict[str, list[int]]) -> None:
    nodes = [node("Add", ["s", "e"], ["so"]), node("Identity", ["so"], ["eo"])]
    body = helper.make_graph(
        nodes, "b", [info(n, FLOAT, [2]) for n in "se"], [info(n, FLOAT, [2]) for n in ("so", "eo")]
    )
    scan = node("Scan", ["i", "z"], ["f", "y"], body=body, num_scan_inputs=1, **attributes)
    inputs = [info("i", FLOAT, [2]), info("z", FLOAT, [3, 2])]
    agrees(model([scan], inputs=inputs, outputs=[onnx.ValueInfoProto(name=n) for n in "fy"]))


@pytest.mark.parametrize("body_outputs", [1, 2, 3])
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("kinds", [(INT64, BOOL), (INT32, BOOL), (INT64, INT64)])
def test_bodies_of_loops(body_outputs: int, outputs: int, kinds: tuple[int, int]) -> None:
    rows = [f"o{i}" for i in range(body_outputs - 1)]
    nodes = [node("Identity", ["go"], ["more"]), *(node("Identity", ["x"], [r]) for r in rows)]
    given = [info("i", kinds[0], []), info("go", kinds[1], []), info("v", FLOAT, [2, 3])]
    made = [info("more", kinds[1], []), *(info(r, FLOAT, [2, 3]) for r in rows)]
    names = [f"y{i}" for i in range(outputs)]
    loop = node("Loop", ["m", "", "x"], names, body=helper.make_graph(nodes, "b", given, made))
    inputs = [info("x", FLOAT, [2, 3]), info("m", INT64, [])]
    agrees(model([loop], inputs=inputs, outputs=[onnx.ValueInfoProto(name=n) for n in names]))
