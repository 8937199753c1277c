"""Unusable input gives one sentence that names what is wrong."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper

from shapesolve.model import ModelError, read_model

from .building import function, graph, model, nested, node, value

MODELS = Path(__file__).parent.parent / "models"


def message(source: Any) -> str:
    with pytest.raises(ModelError) as caught:
        read_model(source)
    text = str(caught.value)
    assert "\n" not in text
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return text


# Files


def test_no_such_file(tmp_path: Path) -> None:
    assert message(tmp_path / "a.onnx") == f"file not found: '{tmp_path}/a.onnx'"
    assert message("a\0b.onnx") == r"file not found: 'a\x00b.onnx'"


def test_directory(tmp_path: Path) -> None:
    assert message(tmp_path) == f"'{tmp_path}' is a directory, not a model file"


DATA = model([node("Relu", "x", "y")]).SerializeToString()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "is empty"),
        (b"\x00\x01 no protobuf", "is not an ONNX model: it is not protobuf, or damaged"),
        (b'{"json": 1}', "is not an ONNX model: it is not protobuf, or damaged"),
        (b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer, not the model itself"),
        (DATA[:-12], "is truncated: at least "),
        (onnx.ModelProto(ir_version=8).SerializeToString(), "is not an ONNX model: it has no graph"),
    ],
)
def test_bad_bytes(data: bytes, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    assert f"'{path}' {expected}" in message(path)
    assert f"input of {len(data)} bytes {expected}" in message(data)


def test_every_truncation_is_an_error_or_lacks_only_a_part() -> None:
    for length in range(len(DATA)):
        assert message(DATA[:length])


def test_large_files_that_are_no_models(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    with path.open("wb") as file:
        file.truncate(2**31 + 5)
    assert "more than the 2 GiB that protobuf can hold, and is damaged or not an ONNX model" in message(path)


def test_bytes_nested_deeper_than_protobuf_reads() -> None:
    proto = model([], "x", "x")
    data = b"\x0a\x00"
    for field in (b"\x32", b"\x2a", b"\x0a") * 60:  # AttributeProto.g, NodeProto.attribute, GraphProto.node
        data = field + _length(data) + data
    proto = onnx.ModelProto(ir_version=8)
    assert "is nested deeper than protobuf reads" in message(
        proto.SerializeToString() + b"\x3a" + _length(data) + data
    )


def _length(data: bytes) -> bytes:
    size, out = len(data), b""
    while size > 127:
        out += bytes([size & 127 | 128])
        size >>= 7
    return out + bytes([size])


@pytest.mark.parametrize("source", [None, 3, ["m.onnx"], onnx.GraphProto()])
def test_other_objects(source: Any) -> None:
    assert message(source).startswith("cannot read a model from ")


def test_programs_that_give_something_else() -> None:
    class Program:
        model_proto = "text"

    assert message(Program()).endswith("gave str, expected an onnx.ModelProto")


def test_proto_without_graph() -> None:
    assert message(onnx.ModelProto()) == "the model has no graph"


# Graphs

RELU = node("Relu", "x", "y", "relu")


def weight(name: str = "w", dims: tuple[int, ...] = (2,)) -> onnx.TensorProto:
    return TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims)


def branch(*nodes: onnx.NodeProto) -> onnx.GraphProto:
    return graph(nodes, "", "o")


def own_if(*nodes: onnx.NodeProto) -> onnx.NodeProto:
    return node("If", "x", "y", "if", then_branch=branch(*nodes))


def repeated_attribute() -> onnx.ModelProto:
    proto = model([node("Concat", "x x", "y", "cat", axis=1)])
    proto.graph.node[0].attribute.append(helper.make_attribute("axis", 0))
    return proto


def sparse_attribute(dims: list[int]) -> onnx.ModelProto:
    proto = model([node("Constant", "", "y", "const")])
    attribute = proto.graph.node[0].attribute.add(name="sparse_value", type=AttributeProto.SPARSE_TENSOR)
    attribute.sparse_tensor.dims.extend(dims)
    return proto


def nested_type(depth: int) -> onnx.ModelProto:
    proto = model([], "", "")
    kind = proto.graph.input.add(name="x").type
    for _ in range(depth):
        kind = kind.sequence_type.elem_type
    kind.tensor_type.elem_type = 1
    return proto


def calling(name: str, *callees: str) -> onnx.FunctionProto:
    nodes = [node(callee, "a", f"o{i}", domain="local") for i, callee in enumerate(callees)]
    return function(name, "a", "o0", nodes)


CASES: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "input that nothing produces": (
        lambda: model([node("Add", "x q", "y", "add")]),
        "node 'add' reads 'q', which nothing in the graph produces",
    ),
    "output that nothing produces": (
        lambda: model([RELU], outputs="y z"),
        "the graph has as output 'z', which nothing in the graph produces",
    ),
    "input in a subgraph that nothing produces": (
        lambda: model([own_if(node("Relu", "q", "o", "inner"))]),
        "node 'inner' reads 'q', which nothing in the graph produces",
    ),
    "output of a subgraph that nothing produces": (
        lambda: model([own_if()]),
        "subgraph 'if.then_branch' has as output 'o', which nothing in the graph produces",
    ),
    "a name of a subgraph read outside it": (
        lambda: model(
            [own_if(node("Relu", "x", "h"), node("Relu", "h", "o")), node("Relu", "h", "z", "out")]
        ),
        "node 'out' reads 'h', which nothing in the graph produces",
    ),
    "two producers": (
        lambda: model([RELU, node("Neg", "x", "y")]),
        "tensor 'y' has two producers, nodes 'relu' and 'Neg(y)'",
    ),
    "two producers in one node": (
        lambda: model([node("Split", "x", "y y", "split")]),
        "tensor 'y' has two producers, nodes 'split' and 'split'",
    ),
    "output named like an input": (
        lambda: model([node("Relu", "x", "x", "relu")]),
        "tensor 'x' is both an input of the graph and an output of node 'relu'",
    ),
    "output named like an initializer": (
        lambda: model([node("Relu", "x", "w", "relu")], initializer=[weight()]),
        "tensor 'w' is both an initializer of the graph and an output of node 'relu'",
    ),
    "two inputs": (lambda: model([RELU], "x x"), "the graph has two inputs named 'x'"),
    "two initializers": (
        lambda: model([RELU], initializer=[weight(), weight(dims=(3,))]),
        "the graph has two initializers named 'w'",
    ),
    "cycle": (
        lambda: model(
            [node("Add", "x c", "a", "A"), node("Relu", "a", "b", "B"), node("Relu", "b", "c", "C")]
        ),
        "the graph has a cycle: 'A' -> 'B' -> 'C' -> 'A'",
    ),
    "cycle of one": (
        lambda: model([node("Add", "x y", "y", "self")]),
        "the graph has a cycle: 'self' -> 'self'",
    ),
    "cycle through a subgraph": (
        lambda: model([own_if(node("Relu", "z", "o")), node("Relu", "y", "z", "relu")]),
        "the graph has a cycle: 'if' -> 'relu' -> 'if'",
    ),
    "cycle in a subgraph": (
        lambda: model([own_if(node("Relu", "b", "o", "A"), node("Relu", "o", "b", "B"))]),
        "subgraph 'if.then_branch' has a cycle: 'A' -> 'B' -> 'A'",
    ),
    "long cycle": (
        lambda: model(
            [node("Add", f"x t{(i + 1) % 100}", f"t{i}", f"n{i}") for i in range(100)], outputs="t0"
        ),
        "the graph has a cycle: 'n0' -> 'n99' -> 'n98' -> 'n97' -> 'n96' -> 'n95' -> (89 more)"
        " -> 'n5' -> 'n4' -> 'n3' -> 'n2' -> 'n1' -> 'n0'",
    ),
    "no opset": (
        lambda: model([RELU], opsets={}),
        "node 'relu' is of domain 'ai.onnx', but the model has no opset_import for it",
    ),
    "no opset of a custom domain": (
        lambda: model([node("Gelu", "x", "y", "gelu", domain="acme")]),
        "node 'gelu' is of domain 'acme', but the model has no opset_import for it",
    ),
    "no opset in a subgraph": (
        lambda: model([own_if(node("Gelu", "x", "o", "gelu", domain="d"))]),
        "node 'gelu' is of domain 'd', but the model has no opset_import for it",
    ),
    "opset 0": (
        lambda: model([RELU], opsets={"": 0}),
        "the model imports version 0 of opset 'ai.onnx', which does not exist",
    ),
    "opset 0, which counts since it is the last": (
        lambda: model([RELU], opsets={"": 17, "ai.onnx": 0}),
        "the model imports version 0 of opset 'ai.onnx', which does not exist",
    ),
    "negative dim of an initializer": (
        lambda: model([RELU], initializer=[weight(dims=(2, -3))]),
        "tensor 'w' has a negative dim: [2, -3]",
    ),
    "negative dim of a tensor attribute": (
        lambda: model([node("Constant", "", "y", "const", value=weight(dims=(-1,)))]),
        "tensor 'const.value' has a negative dim: [-1]",
    ),
    "negative dim of a sparse attribute": (
        lambda: sparse_attribute([-1]),
        "tensor 'const.sparse_value' has a negative dim: [-1]",
    ),
    "long dim_param": (
        lambda: model([RELU], value_info=[value("h", ["N" * 1001])]),
        "a dim_param of 'h' is 1,001 characters long, more than the 1,000 that are read",
    ),
    "deep type": (lambda: nested_type(5000), "the type of 'x' is nested more than 32 levels deep"),
    "deep nesting": (lambda: nested(257), "node 'if256' is nested in more than 256 subgraphs"),
    "deeper nesting": (lambda: nested(5000), "node 'if256' is nested in more than 256 subgraphs"),
    "repeated attribute": (repeated_attribute, "node 'cat' has two attributes of the same name"),
    "function that calls itself": (
        lambda: model([RELU], functions=[calling("F", "F")]),
        "the functions of the model call each other in a loop: 'local:F' -> 'local:F'",
    ),
    "functions that call each other": (
        lambda: model([RELU], functions=[calling("H", "F"), calling("F", "G"), calling("G", "F")]),
        "the functions of the model call each other in a loop: 'local:F' -> 'local:G' -> 'local:F'",
    ),
    "function that calls itself in a subgraph": (
        lambda: model(
            [RELU],
            functions=[
                function("F", "a", "b", [node("If", "a", "b", t=branch(node("F", "a", "o", domain="local")))])
            ],
        ),
        "the functions of the model call each other in a loop: 'local:F' -> 'local:F'",
    ),
    "function defined twice": (
        lambda: model([RELU], functions=[calling("F"), calling("F")]),
        "the model has two functions 'local:F'",
    ),
    "function that reads what it was not given": (
        lambda: model([RELU], functions=[function("F", "a", "b", [node("Add", "a x", "b", "add")])]),
        "in function 'local:F': node 'add' reads 'x', which nothing in its body produces",
    ),
    "function with a cycle": (
        lambda: model([RELU], functions=[function("F", "", "b", [node("Relu", "b", "b", "r")])]),
        "in function 'local:F': its body has a cycle: 'r' -> 'r'",
    ),
    "function with two inputs of a name": (
        lambda: model([RELU], functions=[function("F", "a a", "a", [])]),
        "in function 'local:F': its body has two inputs named 'a'",
    ),
    "function without opset": (
        lambda: model([RELU], functions=[function("F", "a", "b", [node("Op", "a", "b", "op", domain="d")])]),
        "node 'op' is of domain 'd', but the model has no opset_import for it",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_models(case: str) -> None:
    build, expected = CASES[case]
    assert message(build()) == expected


@pytest.mark.parametrize("place", ["Relu", "relu", "in_x", "out_y", "N_dim", "domain", "axis"])
def test_text_that_is_not_utf8(place: str) -> None:
    nodes = [node("Relu", "in_x", "out_y", "relu"), node("Op", "in_x", "z", domain="domain", axis=1)]
    proto = model(nodes, "", "out_y", opsets={"": 21, "domain": 1})
    proto.graph.input.append(value("in_x", ["N_dim"]))
    data = proto.SerializeToString().replace(place.encode(), b"\xff" * len(place))
    assert "has a name that is not UTF-8: " in message(data)


@pytest.mark.parametrize(
    "name", ["loop_scan_outputs", "script_loop_if__ts", "skl_gbdt", "bert_eager__dynamo"]
)
def test_no_text_anywhere_is_taken_for_one_before_it_was_checked(name: str) -> None:
    """Each text of a model in turn is not UTF-8: the model is read as before or refused in a sentence."""
    data = (MODELS / name / "model.onnx").read_bytes()
    proto = onnx.load_model_from_string(data)
    texts = {text for text in _texts(proto) if len(text) > 2}
    refused = 0
    for text in sorted(texts)[:: max(len(texts) // 150, 1)]:
        try:
            read_model(data.replace(text.encode(), text[:-1].encode() + b"\xff"))
        except ModelError as error:
            refused += "UTF-8" in str(error)
    assert refused


def _texts(proto: Any) -> Iterator[str]:
    for field, content in proto.ListFields():
        for part in (
            content if isinstance(content, Iterable) and not isinstance(content, (str, bytes)) else (content,)
        ):
            if isinstance(part, str):
                yield part
            elif hasattr(part, "ListFields") and field.name != "raw_data":
                yield from _texts(part)


def test_names_are_escaped_and_cut_short() -> None:
    text = message(model([node("Relu", "x", "y", "a\nb"), node("Relu", "x", "y", "c" * 5000)]))
    assert r"'a\nb'" in text
    assert len(text) < 400
