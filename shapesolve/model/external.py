"""Weights stored beside the model, read only inside the model's own folder.

https://onnx.ai/onnx/repo-docs/ExternalData.html
"""

from __future__ import annotations

from pathlib import Path

import onnx


class DataFolder:
    """The folder of a model file. Its files are opened when a tensor is asked for, never before."""

    __slots__ = ("_root",)

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, tensor: onnx.TensorProto, nbytes: int) -> bytes | None:
        """The `nbytes` bytes of an external tensor.

        None when they are not to be had: no such file, outside the folder, too short, or the entries of
        the tensor make no sense or speak of another length.
        """
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
