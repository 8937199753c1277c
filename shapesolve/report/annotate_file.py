"""Annotated models as files: written whole or not at all, with weights left where they are."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
from google.protobuf.message import EncodeError  # type: ignore[import-untyped]

from .annotate import Policy, annotate

if TYPE_CHECKING:
    from ..analysis import Analysis

_LARGEST_PROTOBUF = 2**31 - 1


def save_annotated(analysis: Analysis, path: str | Path, policy: Policy = "refine") -> None:
    """Write the annotated model to `path`.

    Raises:
        ValueError: the policy fails; `path` is the model itself; the model keeps weights in files of another
            folder; or the result is larger than protobuf can hold.
        OSError: the file cannot be written.
    """
    target = Path(path)
    source = analysis.model.path
    check_target(analysis, target)
    outside = next(external_locations(analysis.model.proto), None)
    if outside is not None:
        home = source.parent if source is not None else None
        if home is None or home.resolve() != target.parent.resolve():
            where = f"in {home}" if home is not None else "beside the model"
            raise ValueError(
                f"the model keeps weights in files of their own ({outside} …), which it finds {where} only:"
                " write the annotated model to that folder too"
            )
    write_atomically(target, _serialized(annotate(analysis, policy)))


def check_target(analysis: Analysis, target: Path) -> None:
    """Raise `ValueError` where writing to `target` would destroy the model or its weights, or is a directory."""
    if target.is_dir():
        raise ValueError(f"{target} is a directory, name a file in it")
    source = analysis.model.path
    if source is None or not target.exists():
        return
    if target.samefile(source):
        raise ValueError(f"{target} is the model itself: the original is never touched, name another file")
    for name in dict.fromkeys(external_locations(analysis.model.proto)):
        weights = source.parent / name
        if weights.exists() and target.samefile(weights):
            raise ValueError(f"{target} holds weights of the model, name another file")


def _serialized(model: onnx.ModelProto) -> bytes:
    try:
        data: bytes = model.SerializeToString()
    except (EncodeError, ValueError):  # which of them depends on the version of protobuf
        data = b""
    if not data or len(data) > _LARGEST_PROTOBUF:
        raise ValueError(
            "the annotated model is larger than the 2 GiB that protobuf can hold:"
            " save its weights as external data first (onnx.save_model with save_as_external_data=True)"
        )
    return data


def external_locations(model: onnx.ModelProto) -> Iterator[str]:
    """Files that hold weights of the model, as it names them."""
    graphs = [model.graph]
    while graphs:
        graph = graphs.pop()
        tensors = list(graph.initializer)
        for node in graph.node:
            for attribute in node.attribute:
                tensors += [attribute.t, *attribute.tensors]
                graphs += [g for g in (attribute.g, *attribute.graphs) if g.ByteSize()]
        for tensor in tensors:
            if tensor.data_location == onnx.TensorProto.EXTERNAL:
                yield next((e.value for e in tensor.external_data if e.key == "location"), "?")


def write_atomically(path: Path, data: bytes) -> None:
    """Write to a temporary file beside `path`, then rename it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
