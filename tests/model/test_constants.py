"""Stored tensors: read when asked for, from inside the model's folder only."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from shapesolve.model import Constant, ModelError, read_model

from .building import model, node


def stored(tensor: onnx.TensorProto, source: Path | None = None) -> Constant:
    """The tensor as initializer `w` of a model, which is saved to `source` when one is given."""
    tensor.name = "w"
    proto = model([node("Add", "x w", "y")], initializer=[tensor])
    if source is None:
        return read_model(proto).graph.initializers["w"]
    source.write_bytes(proto.SerializeToString())
    return read_model(source).graph.initializers["w"]


@pytest.mark.parametrize(
    "dtype",
    ["f4", "u1", "i1", "u2", "i2", "i4", "i8", "?", "f2", "f8", "u4", "u8", "c8", "c16"],
)
@pytest.mark.parametrize("raw", [True, False])
def test_plain_types(dtype: str, raw: bool) -> None:
    data = np.array([[0, 1], [1, 0], [1, 1]], dtype)
    kind = helper.np_dtype_to_tensor_dtype(data.dtype)
    tensor = numpy_helper.from_array(data) if raw else helper.make_tensor("w", kind, data.shape, data.ravel())
    read = stored(tensor)
    array = read.array()
    assert array is not None
    assert (read.dtype, read.dims, read.numel) == (kind, (3, 2), 6)
    assert (array.dtype, array.tolist()) == (data.dtype, data.tolist())
    assert array is read.array()
    assert not array.flags.writeable
    listed = dtype in ("f4", "f8", "i4", "i8") or (raw and dtype == "?")
    assert read.items() == (data.ravel().tolist() if listed else None)


@pytest.mark.parametrize("name", ["BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2", "INT4", "UINT4", "FLOAT4E2M1"])
@pytest.mark.parametrize("raw", [True, False])
def test_types_that_numpy_does_not_have(name: str, raw: bool) -> None:
    kind = getattr(TensorProto, name)
    tensor = helper.make_tensor("w", kind, [3], [1, 2, 3])
    if raw:
        tensor = numpy_helper.from_array(numpy_helper.to_array(tensor))
    array = stored(tensor).array()
    assert array is not None
    assert array.astype(np.float32).tolist() == numpy_helper.to_array(tensor).astype(np.float32).tolist()


def test_scalars_and_empty_tensors() -> None:
    scalar = stored(numpy_helper.from_array(np.array(7))).array()
    assert scalar is not None
    assert (scalar.shape, int(scalar)) == ((), 7)
    for tensor in (
        numpy_helper.from_array(np.zeros((0, 3), np.int64)),
        TensorProto(data_type=TensorProto.INT64, dims=[0, 3]),
    ):
        empty = stored(tensor).array()
        assert empty is not None
        assert (empty.shape, empty.dtype) == ((0, 3), np.int64)


def test_strings() -> None:
    array = stored(helper.make_tensor("w", TensorProto.STRING, [2, 1], ["a", "ä"])).array()
    assert array is not None
    assert (array.dtype, array.tolist()) == (object, [["a"], ["ä"]])
    assert stored(helper.make_tensor("w", TensorProto.STRING, [1], [b"\xff"])).array() is None


@pytest.mark.parametrize("dtype", [TensorProto.UNDEFINED, 999])
def test_unknown_types_have_no_array(dtype: int) -> None:
    assert stored(TensorProto(data_type=dtype, dims=[1], raw_data=b"1234")).array() is None


def test_the_limit_is_in_elements() -> None:
    read = stored(numpy_helper.from_array(np.zeros(5000)))
    assert read.array() is None
    assert read.array(limit=4999) is None
    assert read.array(limit=5000) is not None
    assert read.array() is None


def test_sizes_beyond_memory_do_no_harm() -> None:
    read = stored(TensorProto(data_type=TensorProto.FLOAT, dims=[2**62, 2**62]))
    assert (read.numel, read.array()) == (2**124, None)
    assert stored(TensorProto(data_type=TensorProto.FLOAT, dims=[0, 2**62])).array() is None
    assert stored(TensorProto(data_type=TensorProto.FLOAT, dims=[1] * 100, raw_data=b"1234")).array() is None


def test_stripped_weights_have_no_array() -> None:
    assert stored(TensorProto(data_type=TensorProto.FLOAT, dims=[2])).array() is None
    assert stored(TensorProto(data_type=TensorProto.STRING, dims=[2])).array() is None


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (
            TensorProto(data_type=TensorProto.INT64, dims=[2], raw_data=b"x" * 12),
            "tensor 'w' holds 12 bytes of raw_data, but its type and dims [2] require 16",
        ),
        (
            TensorProto(data_type=TensorProto.INT64, dims=[2], int64_data=[1, 2, 3]),
            "tensor 'w' does not hold the 2 elements that its dims [2] require",
        ),
        (
            TensorProto(data_type=TensorProto.STRING, dims=[2], string_data=[b"a"]),
            "tensor 'w' holds 1 strings, but its dims [2] require 2",
        ),
    ],
)
def test_data_that_does_not_fit_its_dims(tensor: onnx.TensorProto, message: str) -> None:
    read = stored(tensor)
    with pytest.raises(ModelError) as caught:
        read.array()
    assert str(caught.value) == message


# External data

DATA = np.arange(4, dtype=np.int64)


def external(location: str, dims: tuple[int, ...] = (2,), **entries: Any) -> onnx.TensorProto:
    tensor = TensorProto(data_type=TensorProto.INT64, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, text in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(text))
    return tensor


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`inside` holds a model's data, beside it lies data that is none of the model's business."""
    inside = tmp_path / "inside"
    (inside / "sub").mkdir(parents=True)
    for path in (inside / "w.bin", inside / "sub" / "w.bin", tmp_path / "secret.bin"):
        path.write_bytes(DATA.tobytes())
    (inside / "to_secret").symlink_to(tmp_path / "secret.bin")
    (inside / "to_parent").symlink_to(tmp_path, target_is_directory=True)
    (inside / "to_data").symlink_to("w.bin")
    (inside / "loop").symlink_to("loop")
    os.mkfifo(inside / "pipe")
    return inside


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (external("w.bin"), [0, 1]),
        (external("sub/w.bin", offset=8), [1, 2]),
        (external("./w.bin", offset=16, length=16), [2, 3]),
        (external("to_data"), [0, 1]),
        (external("absent.bin", dims=(0,)), []),
    ],
)
def test_external_data_inside_the_folder(folder: Path, tensor: onnx.TensorProto, expected: list[int]) -> None:
    array = stored(tensor, folder / "m.onnx").array()
    assert array is not None
    assert array.tolist() == expected


@pytest.mark.parametrize(
    "tensor",
    [
        external("absent.bin"),
        external(""),
        external("../secret.bin"),
        external("sub/../w.bin"),
        external("to_secret"),
        external("to_parent/secret.bin"),
        external("loop"),
        external("pipe"),
        external("sub"),
        external("."),
        external("nul\0"),
        external("w.bin", offset=24),
        external("w.bin", offset=-8),
        external("w.bin", offset="x"),
        external("w.bin", offset=2**70),
        external("w.bin", length=8),
        external("w.bin", dims=(5,)),
    ],
)
def test_external_data_that_is_not_to_be_had(folder: Path, tensor: onnx.TensorProto) -> None:
    assert stored(tensor, folder / "m.onnx").array() is None


def test_locations_that_are_not_utf8(folder: Path) -> None:
    proto = model([node("Add", "x w", "y")])
    tensor = proto.graph.initializer.add()
    tensor.ParseFromString(external("w.bin").SerializeToString().replace(b"w.bin", b"w.bi\xff"))
    tensor.name = "w"
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    assert read_model(folder / "m.onnx").graph.initializers["w"].array() is None


def test_absolute_locations_are_refused(folder: Path) -> None:
    assert stored(external(str(folder / "w.bin")), folder / "m.onnx").array() is None


def test_a_model_without_a_path_has_no_external_data(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert stored(external("w.bin")).array() is None


def test_external_data_is_opened_only_when_asked_for(folder: Path) -> None:
    read = stored(external("later.bin"), folder / "m.onnx")
    (folder / "later.bin").write_bytes(DATA.tobytes())
    array = read.array()
    assert array is not None
    assert array.tolist() == [0, 1]
    (folder / "later.bin").unlink()
    assert read.array() is array
