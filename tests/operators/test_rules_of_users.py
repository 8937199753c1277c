"""Rules, schemas and functions that come with the user or with the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, defs, helper

import shapesolve
from shapesolve.operators import default_registry

from .conftest import FLOAT, INT64, agrees, model_of, one

node, info = helper.make_node, helper.make_tensor_value_info
ACME = "acme.ops"


def custom(nodes: list[onnx.NodeProto], inputs: dict[str, list[Any]], output: str) -> onnx.ModelProto:
    given = [info(name, FLOAT, dims) for name, dims in inputs.items()]
    return model_of(nodes, given, [output], domain=ACME)


def codes(analysis: Any) -> list[str]:
    return [f.code for f in analysis.diagnostics]


# ---------------------------------------------------------------------- rules


def test_a_rule_that_raises_is_a_finding() -> None:
    registry = shapesolve.Registry()

    @registry.register(ACME, "Interleave")
    def interleave(op: shapesolve.Op) -> Any:
        a, b = op.shape(0), op.shape(1)
        op.same(a[0], b[0], "one batch", (0, 0), (1, 0))  # type: ignore[index]
        return op.out([a[0], a[1] + b[1]])  # type: ignore[index]

    nodes = [node("Nobody", ["x"], ["t"], domain=ACME), node("Interleave", ["t", "y"], ["z"], domain=ACME)]
    analysis = shapesolve.analyze(custom(nodes, {"x": ["a", "b"], "y": ["c", "d"]}, "z"), registry=registry)
    assert codes(analysis) == ["SS101", "SS105"]
    (finding,) = [f for f in analysis.diagnostics if f.code == "SS105"]
    assert finding.node == "Interleave(z)"
    assert "acme.ops.Interleave raises TypeError" in finding.title
    assert "z" not in analysis.shapes


@pytest.mark.parametrize("error", [TypeError, KeyError, AttributeError, RuntimeError, AssertionError])
def test_any_error_of_a_rule(error: type[Exception]) -> None:
    registry = shapesolve.Registry()

    @registry.register(ACME, "Bad")
    def bad(op: shapesolve.Op) -> Any:
        op.require(shapesolve.parse_cond("a == 7"), "never stated")
        raise error("what went wrong")

    analysis = shapesolve.analyze(
        custom([node("Bad", ["x"], ["y"], domain=ACME)], {"x": ["a"]}, "y"), registry=registry
    )
    assert codes(analysis) == ["SS105"]


def test_a_rule_that_gives_a_shape() -> None:
    registry = shapesolve.Registry()
    registry.register(ACME, "Shp")(lambda op: op.shape(0))
    analysis = shapesolve.analyze(
        custom([node("Shp", ["x"], ["y"], domain=ACME)], {"x": ["a", "b"]}, "y"), registry=registry
    )
    assert codes(analysis) == ["SS105"]
    assert "y" not in analysis.shapes


def test_a_type_that_a_rule_does_not_state_is_that_of_the_first_input_or_as_declared() -> None:
    registry = shapesolve.Registry()
    registry.signature("CountRows", "N C -> N", domain=ACME)
    registry.signature("Rows", "N C -> N", domain=ACME, types=("int64",))
    one_more = helper.make_tensor("k", INT64, [], [1])
    for op_type, said, dtype in (("CountRows", 0, FLOAT), ("CountRows", INT64, INT64), ("Rows", 0, INT64)):
        nodes = [node(op_type, ["x"], ["t"], domain=ACME), node("Add", ["t", "k"], ["y"])]
        model = model_of(nodes, [info("x", FLOAT, ["a", "b"])], ["y"], [one_more], domain=ACME)
        model.graph.value_info.extend([info("t", said, None)] if said else [])
        analysis = shapesolve.analyze(model, registry=registry)
        assert analysis.dtypes["t"] == dtype
        assert analysis.ok is (dtype == INT64)


# ---------------------------------------------------------------------- schemas


def test_a_schema_with_an_inference_function_of_its_own() -> None:
    parameter = defs.OpSchema.FormalParameter
    schema = defs.OpSchema(
        "Twice", "schemas.test", 1, "", inputs=[parameter("X", "T")], outputs=[parameter("Y", "T"), parameter("Z", "T")],
        type_constraints=[("T", ["tensor(float)"], "")],
    )  # fmt: skip

    def infer(context: Any) -> None:
        context.set_output_type(0, context.get_input_type(0))
        changed = onnx.TypeProto()
        changed.CopyFrom(context.get_input_type(0))
        changed.tensor_type.shape.dim.add().dim_value = 7
        changed.tensor_type.shape.dim.add().dim_param = "another"
        context.set_output_type(1, changed)

    schema.set_type_and_shape_inference_function(infer)
    defs.register_schema(schema)
    try:
        nodes = [
            node("Concat", ["x", "x"], ["c"], axis=0),
            node("Twice", ["c"], ["y", "z"], domain="schemas.test"),
        ]
        model = model_of(nodes, [info("x", FLOAT, ["a", "b"])], ["y", "z"], domain="schemas.test")
        analysis = shapesolve.analyze(model)
    finally:
        defs.deregister_schema("Twice", 1, "schemas.test")
    assert str(analysis.shapes["y"]) == "[2*a, b]"
    assert analysis.prove("y[0] == 2*a")
    assert str(analysis.shapes["z"]).startswith("[2*a, b, 7, _d")


# ---------------------------------------------------------------------- functions


def function(
    op_type: str, nodes: list[onnx.NodeProto], domain: str = "loc", attributes: tuple[str, ...] = ()
) -> onnx.FunctionProto:
    return helper.make_function(
        domain, op_type, ["x"], ["y"], nodes, [helper.make_opsetid("", 18)], list(attributes)
    )


def calling(body: onnx.FunctionProto, opset: int = 18, **attributes: Any) -> onnx.ModelProto:
    call = node(body.name, ["x"], ["y"], domain=body.domain, **attributes)
    graph = helper.make_graph([call], "g", [info("x", FLOAT, ["N", 8])], [onnx.ValueInfoProto(name="y")])
    opsets = [helper.make_opsetid(d, v) for d, v in {"": opset, "com.microsoft": 1, "loc": 1}.items()]
    return helper.make_model(graph, opset_imports=opsets, functions=[body], ir_version=10)


def referring(op_type: str, name: str, kind: int) -> onnx.NodeProto:
    made = node(op_type, ["x"], ["y"])
    reference = made.attribute.add()
    reference.name, reference.ref_attr_name, reference.type = name, name, kind
    return made


@pytest.mark.parametrize("given", [{"axis": 0}, {"axis": 2}, {}, {"other": 3}])
def test_an_attribute_that_a_call_leaves_out(given: dict[str, int]) -> None:
    body = function(
        "Flat", [referring("Flatten", "axis", onnx.AttributeProto.INT)], attributes=("axis", "unused")
    )
    agrees(calling(body, **given), N=(0, 1, 3))
    by_the_text = shapesolve.analyze(calling(body, **given), semantics="onnx")
    assert "lacks attribute" in by_the_text.conflicts[0].message


def test_a_needed_attribute_that_a_call_leaves_out() -> None:
    body = function("Join", [referring("Concat", "axis", onnx.AttributeProto.INT)], attributes=("axis",))
    for given in ({"axis": 0}, {}):
        agrees(calling(body, **given), N=(1, 3))


@pytest.mark.parametrize(
    ("domain", "op_type"),
    [("", "Relu"), ("", "Gelu"), ("com.microsoft", "Gelu"), ("com.microsoft", "QuickGelu"), ("com.microsoft", "Nobody"),
     ("loc", "Relu")],
)  # fmt: skip
def test_a_function_named_as_an_operator(domain: str, op_type: str) -> None:
    body = function(op_type, [node("ReduceSum", ["x"], ["y"], keepdims=0)], domain)
    model = calling(body, 20)
    agrees(model, N=(1, 3))
    by_the_text = shapesolve.analyze(model, semantics="onnx")
    assert str(by_the_text.shapes["y"]) == "[]"


def test_kernels_are_those_of_onnxruntime() -> None:
    state: Any = ort.capi.onnxruntime_pybind11_state
    real = {(k.domain, k.op_name) for k in state.get_all_opkernel_def()}
    ours = [r for r in default_registry() if r.domain in ("", "ai.onnx.ml", "com.microsoft")]
    for rule in ours:
        assert rule.has_kernel == ((rule.domain, rule.op_type) in real), rule


# ---------------------------------------------------------------------- Split without a number of parts


@pytest.mark.parametrize("opset", [13, 18, 22])
@pytest.mark.parametrize("size", ["6", "7", "N"])
@pytest.mark.parametrize("n_out", [1, 3])
def test_a_split_into_equal_parts(opset: int, size: str, n_out: int) -> None:
    sizes = {"N": (0, 1, 3, 6, 7)} if size == "N" else {}
    agrees(one("Split", [size], opset=opset, n_out=n_out), **sizes)


@pytest.mark.parametrize("number", [{}, {"num_outputs": 3}])
@pytest.mark.parametrize("known", [False, True])
def test_what_the_standard_knows_decides(number: dict[str, int], known: bool) -> None:
    nodes = [
        node("Reshape", ["x", "s"], ["image"]), node("Unsqueeze", ["image", "zero"], ["u"]),
        node("Resize", ["u", "", "scales"], ["r"]), node("Squeeze", ["r", "zero"], ["q"]), node("Shape", ["q"], ["d"]),
        node("Split", ["d"], ["h", "w", "c"], axis=0, **number),
    ]  # fmt: skip
    stored = [
        helper.make_tensor("zero", INT64, [1], [0]),
        helper.make_tensor("scales", TensorProto.FLOAT, [4], [1.0, 2.0, 2.0, 1.0]),
    ]
    inputs = [info("x", FLOAT, [24]), info("s", INT64, [3] if known else ["k"])]
    model = model_of(nodes, inputs, ["h", "w", "c"], stored, 18)
    agrees(model, {"s": np.array([2, 4, 3])}, **({} if known else {"k": (3,)}))
    assert bool(shapesolve.analyze(model, semantics="onnx").conflicts) is not bool(number)
