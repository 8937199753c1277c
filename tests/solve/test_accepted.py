"""What is said of sizes that data decides, as it is known of the inputs."""

from __future__ import annotations

from onnx import TensorProto, ValueInfoProto, helper

import shapesolve
from shapesolve.expr import all_of, any_of, parse_cond
from shapesolve.solve.accepted import find_accepted

from .building import OURS, system


def test_what_either_branch_needs_is_accepted_beside_what_is_too_large_to_tell() -> None:
    """A flag is 0 or 1, and ``n >= 2`` is needed in both cases; one of them needs what is too much to be kept."""
    large = any_of(
        parse_cond(f"n*m % {k} == {k // 2} or n >= {9 * k} or m <= {k % 7}") for k in range(90, 290, 2)
    )
    assert large.size > 400
    of_one = any_of((parse_cond("_d0 == 1", OURS), large))
    told = system("definition: _d0 <= 1", "n >= 2 if _d0 == 1", "n >= 2 if _d0 != 1", of_one, inputs="n m")
    accepted = all_of(find_accepted(told.constraints, told.facts, ("n", "m")).conds)
    assert [n for n in range(6) if accepted.evaluate({"n": n, "m": 1}) is not False] == [2, 3, 4, 5]


def test_nothing_is_on_a_path_through_an_empty_matrix() -> None:
    """onnxruntime gives no steps for 1 x 0, 0 x 3 and 0 x 0."""
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", "columns"])
    node = helper.make_node("DynamicTimeWarping", ["x"], ["y"], domain="com.microsoft")
    graph = helper.make_graph([node], "g", [given], [ValueInfoProto(name="y")])
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    for rows, columns in ((1, 0), (0, 3), (0, 0)):
        assert shapesolve.analyze(model, bind={"rows": rows, "columns": columns}).prove("y[1] == 0")
    assert shapesolve.analyze(model, bind={"rows": 2, "columns": 5}).prove("y[1] >= 5")
