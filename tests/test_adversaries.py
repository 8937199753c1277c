"""Models made to blow up: each ends soon, in little memory, with an answer or an honest unknown."""

from __future__ import annotations

import math

import onnx
import pytest
from onnx import TensorProto, helper

import shapesolve
from benchmarks.families import FAMILIES
from examples.graph_writer import GraphWriter


def doubling_functions(n: int) -> onnx.ModelProto:
    """Each function calls the one before twice: 2**n calls."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    relu = helper.make_node("Relu", ["x"], ["y"])
    functions = [helper.make_function("own", "f0", ["x"], ["y"], [relu], opsets)]
    for i in range(1, n):
        calls = [
            helper.make_node(f"f{i - 1}", [a], [b], domain="own", name=b) for a, b in (("x", "t"), ("t", "y"))
        ]
        functions.append(helper.make_function("own", f"f{i}", ["x"], ["y"], calls, opsets))
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 4])]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    node = helper.make_node(f"f{n - 1}", ["x"], ["y"], domain="own", name="top")
    graph = helper.make_graph([node], "doubling", given, made)
    return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=8)


def test_functions_that_double_are_followed_so_far() -> None:
    assert str(shapesolve.analyze(doubling_functions(8)).shapes["y"]) == "[rows, 4]"
    many = shapesolve.analyze(doubling_functions(40))
    assert "y" not in many.shapes
    assert any("too many nested function calls" in str(f) for f in many.diagnostics)


def test_sizes_of_thousands_of_digits_can_be_written() -> None:
    g = GraphWriter("copies")
    x = g.input("x", ["rows"])
    for _ in range(600):
        x = g.op("Tile", x, g.vector(2**31))
    g.output(x, "y", rank=1)
    assert shapesolve.analyze(g.model()).to_json()


def test_a_common_multiple_beyond_any_integer_type_is_a_contract() -> None:
    g = GraphWriter("multiples")
    x = g.input("x", ["a", "b"])
    for k in range(2, 99):
        g.output(g.op("Reshape", x, g.vector(-1, k)), f"y{k}", rank=2)
    contract, least = shapesolve.analyze(g.model()).contract, math.lcm(*range(2, 99))
    assert contract.holds({"a": least, "b": 1})
    assert contract.holds({"a": least // 97, "b": 97})
    assert not contract.holds({"a": least // 97, "b": 1})
    assert not contract.holds({"a": least // 2, "b": 3})


@pytest.mark.parametrize(
    ("name", "count", "terms", "open_pairs"), [("equalities", 40, 39, 0), ("fans", 20, 20, 20)]
)
def test_many_symbols_on_one_have_all_their_terms(name: str, count: int, terms: int, open_pairs: int) -> None:
    family = next(f for f in FAMILIES if f.name == name)
    analysis = shapesolve.analyze(family.make(count))
    assert len(analysis.contract) == terms
    assert len(analysis.ambiguities) == open_pairs


@pytest.mark.parametrize("count", [-1, 0, 2, 2**62])
def test_a_scan_of_more_inputs_than_it_has_is_told(count: int) -> None:
    row = helper.make_tensor_value_info("row", TensorProto.FLOAT, None)
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, None)
    body = helper.make_graph([helper.make_node("Relu", ["row"], ["out"])], "body", [row], [out])
    node = helper.make_node("Scan", ["x"], ["y"], body=body, num_scan_inputs=count)
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 4])]
    graph = helper.make_graph([node], "scan", given, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (conflict,) = shapesolve.analyze(model).conflicts
    assert f"num_scan_inputs must be between 1 and 1, got {count}" in conflict.message
