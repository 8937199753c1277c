"""Weights in external files, read only inside the model's own folder.

https://onnx.ai/onnx/repo-docs/ExternalData.html
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import onnx

from .errors import ModelError, quoted
from .wire import inline_data


class OwnFile(NamedTuple):
    """A model file in which the data of large tensors was left, with its size and time when it was read."""

    path: Path
    size: int
    modified: int

    @staticmethod
    def of(path: Path, found: os.stat_result) -> OwnFile:
        """Records path, size and time of a file."""
        return OwnFile(path, found.st_size, found.st_mtime_ns)

    @contextmanager
    def opened(self) -> Iterator[IO[bytes] | None]:
        """Opens the file; None if it changed since the model was read."""
        try:
            file = self.path.open("rb")
        except OSError:
            yield None
            return
        with file:
            now = os.fstat(file.fileno())
            yield file if (now.st_size, now.st_mtime_ns) == (self.size, self.modified) else None


class DataFolder:
    """The folder of a model file. Its files are opened when a tensor is asked for, never before."""

    __slots__ = ("_own", "_root")

    def __init__(self, root: Path, own: OwnFile | None = None) -> None:
        self._root = root
        self._own = own

    def read(self, tensor: onnx.TensorProto, nbytes: int) -> bytes | None:
        """Return the `nbytes` bytes of an external tensor.

        Returns None if they cannot be read: the file does not exist, lies outside the model's folder, or is too
        short, or the tensor's entries
        are invalid.

        Raises:
            ModelError: If the data is stored in the model itself and has another length.
        """
        inline = inline_data(tensor)
        if inline is not None:
            return self._read_own(tensor.name, inline, nbytes)
        entries = {entry.key: entry.value for entry in tensor.external_data}
        try:
            offset = int(entries.get("offset") or 0)
            length = int(entries.get("length") or nbytes)
            path = self._inside(entries.get("location", ""))
            if path is None or offset < 0 or length != nbytes:
                return None
            with path.open("rb") as file:
                file.seek(offset)
                data = file.read(nbytes)
        except (OSError, ValueError, OverflowError, RuntimeError):  # RuntimeError: a loop of symlinks
            return None
        return data if len(data) == nbytes else None

    def _inside(self, location: object) -> Path | None:
        if not isinstance(location, str):  # protobuf hands out bytes for text that is not UTF-8
            return None
        relative = Path(location)
        if not location or relative.anchor or ".." in relative.parts:
            return None
        root = self._root.resolve()
        path = (root / relative).resolve()
        return path if path.is_relative_to(root) and path.is_file() else None

    def _read_own(self, name: str, where: tuple[int, int, str], nbytes: int) -> bytes | None:
        offset, length, field = where
        if self._own is None:
            return None
        if length != nbytes:
            raise ModelError(
                f"tensor {quoted(name)} holds {length:,} bytes of {field}, but its type and dims require {nbytes:,}"
            )
        with self._own.opened() as file:
            if file is None:
                return None
            file.seek(offset)
            return file.read(nbytes)
