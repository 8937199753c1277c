"""Loads a `ModelProto` from a path, bytes, or an object of another package."""

from __future__ import annotations

import mmap
import os
import sys
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError, EncodeError  # type: ignore[import-untyped]

from ..expr.nearest import did_you_mean, near
from .errors import ModelError, quoted
from .external import OwnFile
from .limits import LARGE_FILE, MAX_PROTOBUF, MAX_TEXT
from .wire import NotPlain, without_weights

#: endings of text formats, as `onnx.load` reads them
_TEXT_FORMS = {
    **dict.fromkeys((".textproto", ".prototxt", ".txtpb", ".pbtxt"), "textproto"),
    **dict.fromkeys((".onnxjson", ".json"), "json"),
    **dict.fromkeys((".onnxtxt", ".onnxtext"), "onnxtxt"),
}
#: first bytes, in lower case, of other files that are mistaken for models
_OTHER_FILES = {
    b"\x1f\x8b": "compressed by gzip: unpack it first",
    b"pk\x03\x04": "a zip archive, such as PyTorch saves: export it to ONNX first",
    b"<!doctype": "an HTML page: was a web page saved in place of the file?",
    b"<html": "an HTML page: was a web page saved in place of the file?",
}


def load_proto(source: object) -> tuple[onnx.ModelProto, Path | None, OwnFile | None]:
    """The model as a proto, the file it came from, and that file again if weights were left in it.

    The file is None for a model in memory.

    External data is not touched.

    Raises:
        ModelError: `source` is not a model, or not one that can be read.
    """
    if isinstance(source, onnx.ModelProto):
        return source, None, None
    if isinstance(source, (str, os.PathLike)):
        path = Path(os.fsdecode(source))
        data, own = _read_file(path)
        form = _TEXT_FORMS.get(path.suffix.lower())
        return (
            (_parse(data, quoted(path)) if form is None else _parse_text(data, form, quoted(path))),
            path,
            own,
        )
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _parse(bytes(source), f"input of {len(source):,} bytes"), None, None
    return _convert(source), None, None


def no_file(path: Path) -> str:
    """Message on a missing file, with the files in its folder that have similar names."""
    try:
        stems = {file.stem: str(file) for file in path.parent.iterdir() if file.suffix == path.suffix}
    except (OSError, ValueError):
        stems = {}
    return f"file not found: {quoted(path)}{did_you_mean([quoted(stems[n]) for n in near(path.stem, stems)])}"


def _read_file(path: Path) -> tuple[bytes, OwnFile | None]:
    name = quoted(path)
    try:
        if path.is_dir():
            raise ModelError(f"{name} is a directory, not a model file")
        if not path.is_file():
            raise ModelError(f"{name} is not a file" if path.exists() else no_file(path))
        found = path.stat()
        if found.st_size >= LARGE_FILE:
            data = _without_weights(path)
            if data is not None:
                return data, OwnFile.of(path, found)
        if found.st_size > MAX_PROTOBUF:
            raise ModelError(
                f"{name} has {found.st_size:,} bytes, more than the 2 GiB that protobuf can hold,"
                " and is damaged or not an ONNX model"
            )
        return path.read_bytes(), None
    except OSError as error:
        raise ModelError(f"cannot read {name}: {error.strerror or error}") from None
    except ValueError as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{name} is not a path: {error}") from None


def _without_weights(path: Path) -> bytes | None:
    """The bytes of a model file without the data of large tensors; None if the file must be parsed whole."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        view = memoryview(mapped)
        try:
            return without_weights(view)
        except NotPlain:
            return None
        finally:
            view.release()


def _parse(data: bytes, name: str) -> onnx.ModelProto:
    if not data:
        raise ModelError(f"{name} is empty")
    if len(data) > MAX_PROTOBUF:
        raise ModelError(f"{name} is larger than the 2 GiB that protobuf can hold")
    if data.startswith(b"version https://git-lfs.github.com/spec/"):
        raise ModelError(f"{name} is a Git LFS pointer, not the model itself: run git lfs pull")
    first = data[:64].lstrip().lower()
    for start, what in _OTHER_FILES.items():
        if first.startswith(start):
            raise ModelError(f"{name} is {what}")
    if data[8:10] == b'{"' and int.from_bytes(data[:8], "little") <= len(data) - 8:
        raise ModelError(f"{name} holds weights only (safetensors), not a graph: export the model to ONNX")
    if data[4:8] == b"ORTM":
        raise ModelError(
            f"{name} is in onnxruntime's own format (ORT); pass the .onnx file that it was converted from"
        )
    try:
        proto: onnx.ModelProto = onnx.ModelProto.FromString(data)
    except DecodeError as error:
        if "MaxDepth" in str(error):
            raise ModelError(f"{name} is nested deeper than protobuf reads") from None
        missing = _missing_bytes(data)
        if missing:
            raise ModelError(f"{name} is truncated: at least {missing:,} bytes are missing") from None
        raise ModelError(f"{name} is not an ONNX model: it is not protobuf, or damaged") from None
    if not proto.HasField("graph"):
        raise ModelError(f"{name} is not an ONNX model: it has no graph")
    return proto


def _parse_text(data: bytes, form: str, name: str) -> onnx.ModelProto:
    if len(data) > MAX_TEXT:
        raise ModelError(f"{name} has {len(data):,} bytes, more than {MAX_TEXT:,} of text that are read")
    from onnx import serialization

    try:
        proto: onnx.ModelProto = serialization.registry.get(form).deserialize_proto(data, onnx.ModelProto())
    except Exception as error:  # each format's reader raises its own classes
        reason = " ".join(str(error).split())[:200]
        raise ModelError(f"{name} is not an ONNX model in the format {form}: {reason}") from None
    if not proto.HasField("graph"):
        raise ModelError(f"{name} is not an ONNX model: it has no graph")
    return proto


def _missing_bytes(data: bytes) -> int:
    """Number of bytes that the last top-level field lacks. It is 0 when the data is not like a cut-off model."""
    fields = onnx.ModelProto.DESCRIPTOR.fields_by_number
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if number not in fields or wire not in (0, 2):
            return 0
        value, at = _varint(data, at)
        if wire == 2:
            if value > MAX_PROTOBUF:
                return 0
            at += value
    return at - len(data)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            return 0, len(data) + 1
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
    return value, at


def _convert(source: Any) -> onnx.ModelProto:
    """A model from objects of other packages (recognized without importing those)."""
    kind = f"{type(source).__module__}.{type(source).__qualname__}"
    try:
        if callable(getattr(source, "to_model_proto", None)):
            proto = source.to_model_proto()
        elif hasattr(source, "model_proto"):
            proto = source.model_proto
        elif "onnx_ir" in sys.modules and isinstance(source, sys.modules["onnx_ir"].Model):
            proto = sys.modules["onnx_ir"].to_proto(source)
        else:
            raise ModelError(
                f"cannot read a model from {kind}: give a path, bytes, an onnx.ModelProto, an onnx_ir.Model,"
                " an exporter's ONNXProgram or an onnxscript function"
            )
    except (EncodeError, DecodeError) as error:
        raise ModelError(f"cannot turn {kind} into a ModelProto: {error}") from None
    if not isinstance(proto, onnx.ModelProto):
        raise ModelError(f"{kind} gave {type(proto).__qualname__}, expected an onnx.ModelProto")
    return proto
