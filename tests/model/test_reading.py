"""What a model looks like once it is read."""

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from shapesolve.model import (
    AttrRef,
    Constant,
    Graph,
    MapType,
    ModelError,
    OptionalType,
    SequenceType,
    SparseConstant,
    TensorType,
    read_model,
)

from ..building import bundled_files, corpus_files
from .building import FLOAT, function, graph, model, nested, node, value

ROOT = Path(__file__).parents[2]
MODELS = bundled_files(broken=True) + corpus_files()


def labels(scope: Any) -> list[str]:
    return [n.label for n in scope.nodes]


# Sources


def test_every_kind_of_source_gives_the_same_model(tmp_path: Path) -> None:
    proto = model([node("Relu", "x", "y", "relu")])
    path = tmp_path / "m.onnx"
    onnx.save(proto, path)

    class Program:
        model_proto = proto

    class Script:
        def to_model_proto(self) -> onnx.ModelProto:
            return proto

    data = proto.SerializeToString()
    sources = [proto, str(path), path, data, bytearray(data), Program(), Script(), onnx_ir.from_proto(proto)]
    for source in sources:
        read = read_model(source)
        assert labels(read.graph) == ["relu"]
        assert read.graph.inputs == (("x", TensorType(FLOAT, ("N",))),)
        assert read.path == (path if source in (str(path), path) else None)


def test_model_fields() -> None:
    proto = model([node("Relu", "x", "y")], opsets={"ai.onnx": 21, "com.microsoft": 1})
    helper.set_model_props(proto, {"author": "me"})
    read = read_model(proto)
    assert read.opsets == {"": 21, "com.microsoft": 1}
    assert (read.ir_version, dict(read.metadata), read.functions) == (10, {"author": "me"}, {})
    assert read.proto is proto


def test_models_older_than_opset_imports_are_of_opset_1() -> None:
    assert read_model(model([node("Relu", "x", "y")], opsets={}, ir_version=2)).opsets == {"": 1}


# Nodes


def test_node_fields() -> None:
    proto = model(
        [
            node("Clip", "x - m", "a", domain="ai.onnx"),
            node("Relu", "a", "y", "relu"),
            node("Sink", "a", "", domain="d"),
        ],
        "x m",
        opsets={"": 21, "d": 1},
    )
    helper.set_model_props(proto, {})
    proto.graph.node[1].metadata_props.add(key="k", value="v")
    clip, relu, sink = read_model(proto).graph.nodes
    assert (clip.op_type, clip.domain, clip.overload, clip.name, clip.index) == ("Clip", "", "", "", 0)
    assert (clip.inputs, clip.outputs) == (("x", "", "m"), ("a",))
    assert [clip.label, relu.label, sink.label] == ["Clip(a)", "relu", "Sink(#2)"]
    assert relu.metadata == {"k": "v"}


def test_attribute_values() -> None:
    tensor = numpy_helper.from_array(np.arange(3))
    values: dict[str, Any] = {
        "f": 0.5,
        "i": 3,
        "s": "text",
        "fs": [0.5, 1.5],
        "is": [1, 2],
        "ss": ["a", "b"],
        "t": tensor,
        "ts": [tensor, tensor],
        "tp": helper.make_tensor_type_proto(FLOAT, [2]),
        "g": graph([], "", "x", name="inner"),
        "gs": [graph([], "", "x", name="g0"), graph([], "", "x", name="g1")],
    }
    proto = model([node("Op", "x", "y", domain="d", **values)], opsets={"d": 1})
    proto.graph.node[0].attribute.add(name="raw", type=AttributeProto.STRING, s=b"\xff")
    sparse = proto.graph.node[0].attribute.add(name="sp", type=AttributeProto.SPARSE_TENSOR)
    sparse.sparse_tensor.dims.extend([4, 5])
    sparse.sparse_tensor.values.data_type = FLOAT
    (read,) = read_model(proto).graph.nodes
    attributes = dict(read.attributes)
    assert attributes["t"].array().tolist() == [0, 1, 2]
    assert [t.dims for t in attributes.pop("ts")] == [(3,), (3,)]
    assert attributes.pop("t").name == "Op(y).t"
    assert attributes.pop("g").name == "inner"
    assert [g.name for g in attributes.pop("gs")] == ["g0", "g1"]
    assert [name for name, _ in read.subgraphs] == ["g", "gs[0]", "gs[1]"]
    dense = attributes.pop("sp")
    assert isinstance(dense, SparseConstant)
    assert (dense.dims, dense.numel, dense.dtype, dense.array()) == ((4, 5), 20, FLOAT, None)
    assert attributes == {
        "f": 0.5,
        "i": 3,
        "s": "text",
        "fs": (0.5, 1.5),
        "is": (1, 2),
        "ss": ("a", "b"),
        "tp": TensorType(FLOAT, (2,)),
        "raw": b"\xff",
    }


def test_attributes_without_a_type_are_read_by_the_field_in_use() -> None:
    proto = model([node("Concat", "x x", "y", axis=1)])
    proto.graph.node[0].attribute[0].ClearField("type")
    proto.graph.node[0].attribute.add(name="body").g.CopyFrom(graph([], "", "x"))
    (read,) = read_model(proto).graph.nodes
    assert read.attributes["axis"] == 1
    assert read.subgraphs[0][1] is read.attributes["body"]


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (node("Relu", "x", "y"), node("Relu", "x", "z"), True),
        (node("Relu", "x", "y"), node("Elu", "x", "z"), False),
        (node("Concat", "x x", "y", axis=1), node("Concat", "x x", "z", axis=1), True),
        (node("Concat", "x x", "y", axis=1), node("Concat", "x x", "z", axis=0), False),
        (node("Concat", "x x", "y", axis=1), node("Concat", "x x x", "z", axis=1), False),
        (node("Clip", "x - x", "y"), node("Clip", "x x x", "z"), False),
        (node("Clip", "x - x", "y"), node("Clip", "x x -", "z"), False),
        (node("Op", "x", "y", a=1, b=2), node("Op", "x", "z", b=2, a=1), True),
        (node("Op", "x", "y", a=1), node("Op", "x", "z", a=1.0), False),
        (node("Op", "x", "y", domain="d"), node("Op", "x", "z"), False),
        (node("Op", "x", "y", overload="a"), node("Op", "x", "z", overload="b"), False),
    ],
)
def test_keys(first: onnx.NodeProto, second: onnx.NodeProto, same: bool) -> None:
    read = read_model(model([first, second], opsets={"": 21, "d": 1}))
    a, b = (n.key for n in read.graph.nodes)
    assert a is not None
    assert (a == b) is same
    assert not same or hash(a) == hash(b)


def test_nodes_without_a_key() -> None:
    large = numpy_helper.from_array(np.zeros(100, np.int64))
    outside = numpy_helper.from_array(np.zeros(2, np.int64))
    outside.data_location = TensorProto.EXTERNAL
    referring = node("Cast", "x", "e")
    referring.attribute.add(name="to", type=AttributeProto.INT, ref_attr_name="to")
    read = read_model(
        model(
            [
                node("Constant", "", "a", value=large),
                node("Constant", "", "b", value=outside),
                node("Op", "x", "c", body=graph([], "", "x")),
                node("Op", "x", "d", ints=list(range(10_000))),
                referring,
            ],
            outputs="a",
        )
    )
    assert [n.key for n in read.graph.nodes] == [None] * 5


# Types


def test_value_types() -> None:
    tensor = helper.make_tensor_type_proto
    sequence = helper.make_sequence_type_proto(tensor(FLOAT, [1, "N", None]))
    mapping = onnx.TypeProto()
    mapping.map_type.key_type = TensorProto.INT64
    mapping.map_type.value_type.CopyFrom(tensor(FLOAT, None))
    opaque = onnx.TypeProto()
    opaque.opaque_type.name = "thing"
    types = {
        "tensor": tensor(FLOAT, [2, "N", None, -1, 0]),
        "no_rank": tensor(FLOAT, None),
        "scalar": tensor(FLOAT, []),
        "sequence": sequence,
        "optional": helper.make_optional_type_proto(sequence),
        "map": mapping,
        "opaque": opaque,
        "unset": onnx.TypeProto(),
        "bare": helper.make_sequence_type_proto(onnx.TypeProto()),
        "sparse": helper.make_sparse_tensor_type_proto(FLOAT, ["N"]),
    }
    proto = model([], "", "")
    proto.graph.input.extend([helper.make_value_info(name, t) for name, t in types.items()])
    seq = SequenceType(TensorType(FLOAT, (1, "N", None)))
    assert dict(read_model(proto).graph.inputs) == {
        "tensor": TensorType(FLOAT, (2, "N", None, None, 0)),  # a negative size means "not known"
        "no_rank": TensorType(FLOAT, None),
        "scalar": TensorType(FLOAT, ()),
        "sequence": seq,
        "optional": OptionalType(seq),
        "map": MapType(TensorProto.INT64, TensorType(FLOAT, None)),
        "opaque": None,
        "unset": None,
        "bare": SequenceType(None),
        "sparse": TensorType(FLOAT, ("N",), sparse=True),
    }


def test_value_info_leaves_out_what_has_no_type() -> None:
    infos = [value("h", [3]), onnx.ValueInfoProto(name="u")]
    read = read_model(model([node("Relu", "x", "h"), node("Relu", "h", "y")], value_info=infos))
    assert read.graph.value_info == {"h": TensorType(FLOAT, (3,))}


# Order and scopes


def test_stored_order_is_kept_when_it_is_topological() -> None:
    proto = model([node("Relu", "x", "b", "2"), node("Relu", "x", "a", "1"), node("Add", "a b", "y", "3")])
    assert labels(read_model(proto).graph) == ["2", "1", "3"]


def test_unsorted_nodes_are_ordered_and_ties_follow_the_stored_order() -> None:
    proto = model(
        [
            node("Add", "a b", "y", "last"),
            node("Relu", "x", "b", "second"),
            node("Relu", "x", "a", "third"),
            node("Relu", "y", "z", "after"),
        ]
    )
    first = read_model(proto).graph
    assert labels(first) == ["second", "third", "last", "after"]
    assert [n.index for n in first.nodes] == [1, 2, 0, 3]
    assert all(labels(read_model(proto).graph) == labels(first) for _ in range(3))


def branch(*nodes: onnx.NodeProto, outputs: str = "o", inputs: str = "") -> onnx.GraphProto:
    return graph(nodes, inputs, outputs, name="branch")


def test_what_a_subgraph_captures_orders_its_owner() -> None:
    deep = node("If", "x", "o", "deep", then_branch=branch(node("Neg", "late", "o")))
    proto = model(
        [node("If", "x", "y", "owner", then_branch=branch(deep)), node("Relu", "x", "late", "producer")]
    )
    read = read_model(proto).graph
    assert labels(read) == ["producer", "owner"]
    owner = read.nodes[1]
    assert owner.captures == ("x", "late")
    assert owner.subgraphs[0][1].captures == ("x", "late")
    assert owner.attributes["then_branch"].nodes[0].captures == ("late",)


def test_shadowing_in_a_subgraph_is_accepted_and_not_captured() -> None:
    body = branch(node("Neg", "x", "h"), node("Neg", "h", "o"), inputs="x")
    proto = model([node("Relu", "x", "h"), node("Loop", "h", "y", body=body)])
    assert read_model(proto).graph.nodes[1].captures == ()


def test_a_subgraph_may_output_an_outer_tensor() -> None:
    proto = model([node("If", "x", "y", then_branch=branch(outputs="x"))])
    assert read_model(proto).graph.nodes[0].captures == ("x",)


def test_nesting_of_256_is_read() -> None:
    scope: Graph = read_model(nested(256)).graph
    for _ in range(256):
        ((_, scope),) = scope.nodes[0].subgraphs
    assert labels(scope) == ["inner"]
    assert scope.captures == ("x",)


# Functions


def test_functions() -> None:
    cast = node("Cast", "h", "b")
    cast.attribute.add(name="to", type=AttributeProto.INT, ref_attr_name="to")
    local = function(
        "F",
        "a",
        "b",
        [cast, node("Relu", "a", "h", "relu")],
        attributes=["to"],
        attribute_protos=[helper.make_attribute("axis", 1)],
        value_info=[value("h", [2])],
    )
    proto = model([node("F", "x", "y", domain="local")], functions=[local], opsets={"": 21, "other": 3})
    read = read_model(proto)
    called = read.functions["local", "F", ""]
    assert called.key == ("local", "F", "")
    assert (called.inputs, called.outputs, called.attributes) == (("a",), ("b",), ("to",))
    assert called.defaults == {"axis": 1}
    assert called.opsets == {"": 21, "other": 3}
    assert called.value_info == {"h": TensorType(FLOAT, (2,))}
    assert labels(called) == ["relu", "Cast(b)"]
    assert called.nodes[1].attributes == {"to": AttrRef("to")}


def test_functions_may_call_each_other_and_need_no_import_of_their_domain() -> None:
    outer = function("G", "a", "b", [node("F", "a", "b", domain="local")])
    inner = function("F", "a", "b", [node("Relu", "a", "b")])
    proto = model([node("G", "x", "y", domain="local")], functions=[outer, inner])
    assert [key[1] for key in read_model(proto).functions] == ["G", "F"]


# Initializers


@pytest.mark.parametrize(("ir_version", "overridable"), [(3, set()), (8, {"w"})])
def test_initializers_listed_as_inputs(ir_version: int, overridable: set[str]) -> None:
    weights = [numpy_helper.from_array(np.ones(2, np.float32), name) for name in "wv"]
    proto = model([node("Sum", "x w v", "y")], "x w", initializer=weights, ir_version=ir_version)
    read = read_model(proto).graph
    assert [name for name, _ in read.inputs] == ["x", "w"]
    assert list(read.initializers) == ["w", "v"]
    assert read.overridable == overridable


def test_sparse_initializers() -> None:
    proto = model([node("Add", "x w", "y")])
    proto.graph.sparse_initializer.add(dims=[3]).values.name = "w"
    read = read_model(proto).graph.initializers["w"]
    assert isinstance(read, Constant)
    assert (read.dims, read.array()) == ((3,), None)


# NetworkX


def test_to_networkx() -> None:
    weight = numpy_helper.from_array(np.ones(1, np.float32), "w")
    body = branch(node("Neg", "h", "o"))
    nodes = [
        node("Split", "x", "a h", "same"),
        node("Sum", "a h w", "s", "same"),
        node("If", "s", "y", "w", then_branch=body),
    ]
    read = read_model(model(nodes, initializer=[weight]))
    network = read.graph.to_networkx()
    assert list(network) == ["same", "same#2", "w", "x", "w#2"]
    assert dict(network.nodes(data="kind")) == {
        "same": "node",
        "same#2": "node",
        "w": "node",
        "x": "input",
        "w#2": "initializer",
    }
    assert network.nodes["w"]["op_type"] == "If"
    assert {(a, b): tensors for a, b, tensors in network.edges(data="tensors")} == {
        ("x", "same"): ("x",),
        ("same", "same#2"): ("a", "h"),
        ("w#2", "same#2"): ("w",),
        ("same#2", "w"): ("s",),
        ("same", "w"): ("h",),
    }
    inner = read.graph.nodes[2].subgraphs[0][1].to_networkx()
    assert inner.nodes["h"]["kind"] == "outer"


# Whole models


@pytest.mark.parametrize("path", MODELS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_whole_models_read(path: Path) -> None:
    read = read_model(path)
    scopes = [read.graph]
    while scopes:
        scope = scopes.pop()
        known = {"", *dict(scope.inputs), *scope.initializers, *scope.captures}
        for n in scope.nodes:
            assert known.issuperset(n.inputs)
            assert known.issuperset(n.captures)
            known.update(n.outputs)
            assert len(n.attributes) == len(n.proto.attribute)
            scopes.extend(g for _, g in n.subgraphs)
        for constant in scope.initializers.values():
            array = constant.array()
            assert array is None or array.shape == constant.dims
    assert read_model(read.proto).graph.to_networkx().number_of_nodes() >= len(read.graph.nodes)


def test_some_models_were_there() -> None:
    assert MODELS


def test_damaged_files_give_no_other_error_than_model_error() -> None:
    data = bytearray(MODELS[0].read_bytes()[:20_000])
    draw = np.random.default_rng(1)
    for _ in range(200):
        damaged = data.copy()
        for at in draw.integers(0, len(data), 3):
            damaged[at] = draw.integers(256)
        with contextlib.suppress(ModelError):
            read_model(bytes(damaged[: draw.integers(1, len(data))]))
