"""The ONNX IR design document: dim arithmetic, `Shape` methods, the registry by version, merge policies."""

from __future__ import annotations

import onnx
import onnx.helper as oh
import pytest
from onnx import TensorProto

import shapesolve as ss

FLOAT = TensorProto.FLOAT


def test_dim_arithmetic():
    batch = ss.Dim("batch")
    assert [str(d) for d in (batch + 1, batch * 2, batch // 4, batch % 8)] == [
        "batch + 1",
        "2*batch",
        "batch//4",
        "batch % 8",
    ]
    with pytest.raises(TypeError):
        batch + "x"


def test_shape_methods():
    shape = ss.Shape(["batch", 128, "seq"])
    assert shape.evaluate({"batch": 4, "seq": 512}) == [4, 128, 512]
    assert shape.free_symbols() == {"batch", "seq"}
    assert shape.simplify() is shape
    assert ss.Shape(["batch", ss.Dim("seq") // 2, 256]).evaluate({"batch": 4, "seq": 128}) == [4, 64, 256]
    assert shape.evaluate({"batch": 4}) is None


def test_registry_versions():
    registry = ss.Registry()
    made = {}
    for name, versions in (("any", None), ("from9", 9), ("only5to7", range(5, 8))):

        @registry.register("", "Thing", versions)
        def rule(op):
            return None

        made[name] = rule
    found = {v: registry.lookup("", "Thing", v).lower for v in (3, 5, 7, 8, 9, 20)}
    assert found == {
        3: made["any"],
        5: made["only5to7"],
        7: made["only5to7"],
        8: made["any"],
        9: made["from9"],
        20: made["from9"],
    }
    assert registry.lookup("", "Nothing", 5) is None


def test_broadcast_shapes():
    broadcast = ss.broadcast_shapes
    assert broadcast(ss.Shape(["N", 1]), ss.Shape([5])) == (ss.Dim("N"), 5)
    assert broadcast(ss.Shape([3]), ss.Shape([4])) is None
    assert broadcast(ss.Shape(["N"]), None) is None
    assert broadcast(ss.Shape(["N"]), ss.Shape([5])) == (5,)


def declared(value_info, output):
    nodes = [oh.make_node("Relu", ["X"], ["mid"]), oh.make_node("Identity", ["mid"], ["Y"])]
    graph = oh.make_graph(
        nodes,
        "g",
        [oh.make_tensor_value_info("X", FLOAT, ["N", 4])],
        [oh.make_tensor_value_info("Y", FLOAT, output)],
        value_info=[oh.make_tensor_value_info("mid", FLOAT, value_info)],
    )
    return oh.make_model(graph, opset_imports=[oh.make_opsetid("", 18)], ir_version=9)


def written(model, policy):
    out = ss.analyze(model).annotate(policy)
    return {
        v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
        for v in (*out.graph.value_info, *out.graph.output)
    }


@pytest.mark.parametrize(
    ("policy", "mid"), [("skip", ["K", "L"]), ("override", ["N", 4]), ("refine", ["K", 4])]
)
def test_merge_policies(policy, mid):
    model = declared(["K", "L"], ["out", 4])
    before = model.SerializeToString()
    assert written(model, policy) == {"mid": mid, "Y": ["out", 4]}
    assert model.SerializeToString() == before


def test_strict_policy_fails_on_disagreement():
    with pytest.raises(ValueError, match="declared as 5"):
        ss.analyze(declared(["N", 5], ["N", 4])).annotate("strict")
    onnx.checker.check_model(ss.analyze(declared(["N", 4], ["N", 4])).annotate("strict"))
