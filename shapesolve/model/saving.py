"""Writes models to files atomically. The weights that were left in the original file are copied."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, TYPE_CHECKING

import onnx
from google.protobuf.message import EncodeError  # type: ignore[import-untyped]

from . import limits
from .constant import element_bits
from .external import DataFolder
from .limits import MAX_CHUNK, MAX_PROTOBUF
from .wire import Piece, inline_data, pieces

if TYPE_CHECKING:
    from .external import OwnFile
    from .graph import Model


_INTEGERS = frozenset((onnx.TensorProto.INT64, onnx.TensorProto.INT32))


def with_weights(proto: onnx.ModelProto, model: Model) -> onnx.ModelProto:
    """Return a model made from the proto of `model`, with the weights read from the model's file; `proto` itself if
    there are none.

    Raises:
        ValueError: If the model is larger than protobuf supports, or the file has changed since it was read.
    """
    if model.own_file is None:
        return proto
    parts = pieces(_serialized(proto))
    if _length(parts) > MAX_PROTOBUF:
        raise ValueError(_TOO_LARGE)
    out = bytearray()
    with _unchanged(model.own_file) as source:
        for part in parts:
            if isinstance(part, bytes):
                out += part
            else:
                source.seek(part[0])
                out += source.read(part[1])
    whole: onnx.ModelProto = onnx.ModelProto.FromString(bytes(out))
    return whole


def save(proto: onnx.ModelProto, model: Model, target: Path) -> None:
    """Write a model made from the proto of `model` to a file, with its weights.

    Weights are copied from file to file without being parsed.

    Raises:
        ValueError: If protobuf cannot hold the model, or the model's file has changed.
        OSError: If the file cannot be written.
    """
    data = _serialized(proto)
    with replacing(target) as file:
        if model.own_file is None:
            file.write(data)
            return
        with _unchanged(model.own_file) as source:
            for part in pieces(data):
                if isinstance(part, bytes):
                    file.write(part)
                else:
                    file.flush()
                    _copy(source, file, *part)


_TOO_LARGE = (
    "the model is larger than the 2 GiB that protobuf can hold:"
    " save its weights as external data first (onnx.save_model with save_as_external_data=True)"
)


def _serialized(model: onnx.ModelProto) -> bytes:
    try:
        data: bytes = model.SerializeToString()
    except (EncodeError, ValueError):  # the exception depends on the protobuf version
        data = b""
    if not data or len(data) > MAX_PROTOBUF:
        raise ValueError(_TOO_LARGE)
    return data


def _length(parts: Iterable[Piece]) -> int:
    return sum([len(part) if isinstance(part, bytes) else part[1] for part in parts])


@contextmanager
def _unchanged(own: OwnFile) -> Iterator[IO[bytes]]:
    with own.opened() as source:
        if source is None:
            raise ValueError(f"{own.path} has changed since it was read")
        yield source


def _copy(source: IO[bytes], target: IO[bytes], offset: int, left: int) -> None:
    copy = getattr(os, "copy_file_range", None)
    while left:
        try:
            if copy is None:
                raise OSError
            done = copy(source.fileno(), target.fileno(), left, offset)
        except OSError:  # between these file systems it cannot
            copy = None
            source.seek(offset)
            done = os.write(target.fileno(), source.read(min(left, MAX_CHUNK)))
        if not done:
            raise ValueError(f"{source.name} has changed since it was read")
        offset += done
        left -= done
    target.seek(0, os.SEEK_END)


def copied(source: Path, target: Path) -> None:
    """Copies a file atomically.

    Raises:
        ValueError: it has changed meanwhile.
        OSError: it cannot be read or written.
    """
    with source.open("rb") as file, replacing(target) as new:
        _copy(file, new, 0, os.fstat(file.fileno()).st_size)


def external_locations(model: onnx.ModelProto) -> Iterator[str]:
    """External files with weights of the model, by the names it uses."""
    for tensor in _external(model):
        yield next((e.value for e in tensor.external_data if e.key == "location"), "?")


def inline_integers(model: onnx.ModelProto, home: Path | None) -> None:
    """Read small integer tensors from external files into the model.

    onnxruntime does not load a file with a target shape, axes, or sizes of parts outside of it.
    """
    for tensor in _external(model) if home is not None else ():
        bits = element_bits(tensor.data_type)
        size = 0 if bits is None else prod(tensor.dims) * bits // 8
        if tensor.data_type not in _INTEGERS or size >= limits.LARGE:
            continue
        data = DataFolder(home).read(tensor, size) if home is not None else None
        if data is not None:
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            tensor.raw_data = data


def _external(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    graphs = [model.graph]
    while graphs:
        graph = graphs.pop()
        tensors = list(graph.initializer)
        for node in graph.node:
            for attribute in node.attribute:
                tensors += [attribute.t, *attribute.tensors]
                graphs += [g for g in (attribute.g, *attribute.graphs) if g.ByteSize()]
        for tensor in tensors:
            if tensor.data_location == onnx.TensorProto.EXTERNAL and inline_data(tensor) is None:
                yield tensor


def write_atomically(path: Path, data: bytes) -> None:
    """Write to a temporary file in the same folder as `path`, then rename it."""
    with replacing(path) as file:
        file.write(data)


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Opens a temporary file in the folder of `path`, which replaces `path` at the end.

    It takes its place when all is written, and is gone when not.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        kind = "a link" if path.is_symlink() else "a directory" if path.is_dir() else "not a regular file"
        raise ValueError(f"{path} is {kind}: it is not replaced, name a file")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
