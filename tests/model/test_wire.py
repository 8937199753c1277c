"""Files read without their weights say what protobuf says of them."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import shapesolve as ss
from shapesolve.model import ModelError, source, wire
from shapesolve.model.saving import external_locations, save, with_weights

ROOT = Path(__file__).resolve().parents[2]
MODELS = sorted([*(ROOT / "tests/models").glob("*/model.onnx"), *(ROOT / "examples").glob("*.onnx")])


def array(name: str, *shape: int, dtype: type = np.float32) -> TensorProto:
    return numpy_helper.from_array(np.arange(int(np.prod(shape))).reshape(shape).astype(dtype), name)


def model() -> onnx.ModelProto:
    """Large data in initializers, a Constant, a subgraph, a function, typed fields; values that shapes depend on."""
    typed = TensorProto(name="typed", data_type=TensorProto.FLOAT, dims=[80, 80])
    typed.float_data.extend(float(i) for i in range(6400))
    branch = helper.make_graph(
        [helper.make_node("MatMul", ["x", "inner"], ["t"])],
        "branch",
        [],
        [helper.make_tensor_value_info("t", TensorProto.FLOAT, None)],
        [array("inner", 80, 60)],
    )
    other = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["e"])],
        "other",
        [],
        [helper.make_tensor_value_info("e", TensorProto.FLOAT, None)],
    )
    body = [
        helper.make_node("Constant", [], ["c"], value=array("c", 80, 80)),
        helper.make_node("MatMul", ["a", "c"], ["b"]),
    ]
    function = helper.make_function("local", "F", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    nodes = [
        helper.make_node("Constant", [], ["k"], value=array("k", 80, 80)),
        helper.make_node("MatMul", ["x", "k"], ["u"]),
        helper.make_node("MatMul", ["u", "typed"], ["v"]),
        helper.make_node("F", ["v"], ["f"], domain="local"),
        helper.make_node("If", ["flag"], ["y"], then_branch=branch, else_branch=other),
        helper.make_node("Gather", ["table", "positions"], ["z"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 80]),
            helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("f", "y", "z")],
        [array("w", 80, 60), typed, array("table", 3000, 2), array("positions", 3000, dtype=np.int64)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=[function], ir_version=9)


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "LARGE_FILE", 1)


def restored(path: Path) -> onnx.ModelProto:
    a = ss.analyze(path)
    assert a.model.own_file is not None
    return with_weights(a.model.proto, a.model)


def test_weights_are_left_and_put_back(tmp_path: Path, everything_is_large: None) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(model(), path)
    a = ss.analyze(path)
    assert a.model.own_file is not None
    assert a.model.proto.ByteSize() < path.stat().st_size / 8
    assert restored(path) == model()
    assert list(external_locations(a.model.proto)) == []
    whole = ss.analyze(model())
    assert dict(a.shapes) == dict(whole.shapes)
    assert [str(f) for f in a.diagnostics] == [str(f) for f in whole.diagnostics]
    assert a.values.keys() == whole.values.keys()
    assert a.annotate() == whole.annotate()
    onnx.checker.check_model(a.annotate())


def test_values_are_read_where_they_decide(tmp_path: Path, everything_is_large: None) -> None:
    """3,000 positions into a table of 2,000 rows: a conflict that only the stored values tell."""
    broken = model()
    broken.graph.initializer[2].CopyFrom(array("table", 2000, 2))
    path = tmp_path / "m.onnx"
    onnx.save(broken, path)
    assert [c.message for c in ss.analyze(path).conflicts] == [
        c.message for c in ss.analyze(broken).conflicts
    ]
    assert not ss.analyze(path).ok


@pytest.mark.parametrize("path", MODELS, ids=lambda p: p.parent.name + p.stem)
def test_bundled_models_are_the_same_without_weights(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "LARGE", 64)
    data = path.read_bytes()
    stripped = wire.without_weights(memoryview(data))
    again = b"".join(p if isinstance(p, bytes) else data[p[0] : p[0] + p[1]] for p in wire.pieces(stripped))
    assert onnx.ModelProto.FromString(again) == onnx.ModelProto.FromString(data)


def outcome(path: Path) -> tuple[object, ...]:
    try:
        a = ss.analyze(path)
        return dict(a.shapes), [f.title for f in a.diagnostics]
    except ModelError as e:
        return (str(e),)


def test_damaged_files_are_judged_as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, whole, path = random.Random(5), model().SerializeToString(), tmp_path / "m.onnx"
    heads = [i for i in range(len(whole)) if rng.random() < 0.02 or whole[i : i + 1].isalpha()]
    for k in range(150):
        data = bytearray(whole)
        if k % 5 == 0:
            del data[rng.randrange(len(data)) :]
        for _ in range(rng.randrange(1, 4)):
            at = rng.choice(heads) if k % 2 else rng.randrange(max(1, len(data)))
            if at < len(data):
                data[at] = rng.randrange(256)
        path.write_bytes(data)
        monkeypatch.setattr(source, "LARGE_FILE", 1 << 60)
        expected = outcome(path)
        monkeypatch.setattr(source, "LARGE_FILE", 1)
        assert outcome(path) == expected, k


def test_a_model_that_names_the_mark_itself_is_left_to_protobuf(
    tmp_path: Path, everything_is_large: None
) -> None:
    proto = model()
    tensor = proto.graph.initializer.add(name="sly", data_type=1, dims=[10], data_location=1)
    tensor.external_data.add(key=wire.INLINE, value="0 40 raw_data")
    path = tmp_path / "m.onnx"
    onnx.save(proto, path)
    a = ss.analyze(path)
    assert a.model.own_file is None
    assert a.model.proto == proto


def test_a_file_that_changed_is_not_copied_from(tmp_path: Path, everything_is_large: None) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(model(), path)
    a = ss.analyze(path)
    path.write_bytes(path.read_bytes() + b"\x00")
    with pytest.raises(ValueError, match="has changed since it was read"):
        save(a.model.proto, a.model, tmp_path / "out.onnx")
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


def test_weights_are_copied_into_the_new_file(tmp_path: Path, everything_is_large: None) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(model(), path)
    a = ss.analyze(path)
    save(a.model.proto, a.model, tmp_path / "out.onnx")
    assert onnx.load(tmp_path / "out.onnx") == model()


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


_RUN = """
import sys, shapesolve as ss
a = ss.analyze(sys.argv[1])
print(a.shapes["y"], a.ok)
print(next(int(line.split()[1]) // 1024 for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def test_a_file_of_more_than_two_gibibytes(tmp_path: Path) -> None:
    """More than protobuf can hold: analyzed within little memory. The file is a hole on the disk."""
    side, path = 24_000, tmp_path / "m.onnx"
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", side])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    proto.ClearField("graph")
    size = side * side * 4
    head = (
        TensorProto(name="w", data_type=1, dims=[side, side]).SerializeToString()
        + varint(9 << 3 | 2)
        + varint(size)
    )
    tensor = varint(5 << 3 | 2) + varint(len(head) + size) + head
    rest = graph.SerializeToString() + tensor
    with path.open("wb") as file:
        file.write(proto.SerializeToString() + varint(7 << 3 | 2) + varint(len(rest) + size) + rest)
        file.truncate(file.tell() + size)
    assert path.stat().st_size > 2**31
    done = subprocess.run([sys.executable, "-c", _RUN, path], capture_output=True, text=True, check=True)
    shape, ok, megabytes = *done.stdout.splitlines()[0].rsplit(maxsplit=1), done.stdout.split()[-1]
    assert (shape, ok) == (f"[n, {side}]", "True")
    assert int(megabytes) < 200
