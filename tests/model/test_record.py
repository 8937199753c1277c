"""Nodes are read from their bytes, as protobuf itself reads them."""

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from shapesolve.model import ModelError, read_model
from shapesolve.model.record import read_record

from ..building import bundled_files, corpus_files
from .building import FLOAT, graph, model, node

ROOT = Path(__file__).parents[2]
MODELS = bundled_files(broken=True) + corpus_files("models")


def agrees(proto: onnx.NodeProto) -> None:
    record = read_record(proto.SerializeToString(), {})
    assert record is not None
    assert record.inputs == tuple(proto.input)
    assert record.outputs == tuple(proto.output)
    assert record.name == proto.name
    content = onnx.NodeProto.FromString(record.content)
    expected = onnx.NodeProto.FromString(proto.SerializeToString())
    for field in ("input", "output", "name", "doc_string", "metadata_props", "device_configurations"):
        expected.ClearField(field)
    assert content.SerializeToString(deterministic=True) == expected.SerializeToString(deterministic=True)


@pytest.mark.skipif(not MODELS, reason="no models are here")
def test_records_say_what_protobuf_says() -> None:
    for path in MODELS:
        for proto in onnx.load(path, load_external_data=False).graph.node:
            agrees(proto)


@pytest.mark.parametrize("length", [0, 1, 127, 128, 300, 16_383, 16_384, 70_000])
def test_texts_of_any_length(length: int) -> None:
    proto = node("Relu", "x", "y", "n" * length)
    proto.input[0] = "x" * length
    proto.output[0] = "y" * length
    proto.doc_string = "d" * length
    proto.domain = "z" * length
    proto.overload = "o"
    proto.metadata_props.add(key="k", value="v" * length)
    proto.attribute.append(helper.make_attribute("a", "b" * length))
    agrees(proto)


def test_names_that_are_not_utf8_are_bytes() -> None:
    record = read_record(b"\x0a\x02\xff\xfe\x12\x01y\x1a\x01\x80\x22\x04Relu", {})
    assert record is not None
    assert (record.inputs, record.outputs, record.name) == ((b"\xff\xfe",), ("y",), b"\x80")


@pytest.mark.parametrize(
    "field", [b"\x58\x05", b"\x9a\x06\x03abc", b"\x9d\x06\x00\x00\x00\x00", b"\x80\x01\xff\xff\x7f"]
)
def test_fields_that_the_standard_does_not_define_are_left_to_protobuf(field: bytes) -> None:
    plain = node("Softmax", "x", "y", axis=1).SerializeToString()
    for data in (plain + field, field + plain):
        proto = onnx.NodeProto.FromString(data)
        assert read_record(proto.SerializeToString(), {}) is None
        first = node("Softmax", "a", "x", axis=1)
        read = read_model(model([first, proto], inputs="a"))
        assert read.graph.nodes[1].inputs == ("x",)
        assert read.graph.nodes[0].key is read.graph.nodes[1].key


def test_nodes_that_say_the_same_have_one_key_whatever_the_order_of_attributes() -> None:
    nodes: list[onnx.NodeProto] = []
    for i, names in enumerate((("group", "strides"), ("strides", "group"), ("group", "strides"), ("group",))):
        proto = node("Conv", f"x{i} w", f"x{i + 1}", f"n{i}")
        given = {"group": 1, "strides": [1, 1]}
        proto.attribute.extend([helper.make_attribute(name, given[name]) for name in names])
        nodes.append(proto)
    read = read_model(model(nodes, inputs="x0 w", outputs="x4"))
    first, second, third, fourth = (n.key for n in read.graph.nodes)
    assert first is second is third
    assert first is not fourth


def test_operators_with_much_in_their_nodes_are_read_field_by_field() -> None:
    """The nodes after a large one, and those that hold graphs, are read without a copy, and all alike."""
    sizes = [2, 40_000, 2, 3]
    nodes = [
        node("Constant", "", f"c{i}", value=helper.make_tensor("", FLOAT, [n], bytes(4 * n), raw=True))
        for i, n in enumerate(sizes)
    ]
    body = graph([node("Constant", "", "b", value=helper.make_tensor("", FLOAT, [1], [1.0]))], "", "b")
    nodes += [node("If", "x", f"i{i}", then_branch=body, else_branch=body) for i in range(3)]
    read = read_model(model(nodes, inputs="x", outputs="i2")).graph.nodes
    assert [n.attributes["value"].dims for n in read[:4]] == [(2,), (40_000,), (2,), (3,)]
    assert read[0].key is read[2].key is not None
    assert read[1].key is None
    assert [len(n.subgraphs) for n in read[4:]] == [2, 2, 2]
    assert {n.key for n in read[4:]} == {None}
    assert len({id(g) for n in read[4:] for _, g in n.subgraphs}) == 6


def test_what_is_wrong_with_a_later_node_is_found() -> None:
    first = node("Cast", "x", "a", to=TensorProto.INT64)
    for wrong, content in (
        (node("Cast", "a", "y", to=1), "two attributes"),
        (node("Cast", "a", "y", "n", to=1), "two attributes"),
    ):
        wrong.attribute.append(helper.make_attribute("to", 7))
        with pytest.raises(ModelError, match=content):
            read_model(model([first, wrong]))
