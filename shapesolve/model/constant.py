# compiled: see CONTRIBUTING.md
"""Tensors stored in the model. Sizes are read with the model, data only on demand."""

from __future__ import annotations

import math
import sys
from typing import Any, Literal

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from .errors import ModelError, quoted
from .external import DataFolder
from .wire import inline_data

_UNREAD: Any = object()

# NumPy types by bytes per element; little-endian like raw_data. (NumPy is only loaded for arrays.)
_PLAIN: dict[int, str] = {
    TensorProto.FLOAT: "<f4",
    TensorProto.UINT8: "|u1",
    TensorProto.INT8: "|i1",
    TensorProto.UINT16: "<u2",
    TensorProto.INT16: "<i2",
    TensorProto.INT32: "<i4",
    TensorProto.INT64: "<i8",
    TensorProto.BOOL: "|b1",
    TensorProto.FLOAT16: "<f2",
    TensorProto.DOUBLE: "<f8",
    TensorProto.UINT32: "<u4",
    TensorProto.UINT64: "<u8",
    TensorProto.COMPLEX64: "<c8",
    TensorProto.COMPLEX128: "<c16",
}
_BYTES: dict[int, int] = {dtype: int(code[2:]) for dtype, code in _PLAIN.items()}
# Types that numpy itself does not have: bits of one element, packed without gaps.
_PACKED: dict[int, int] = {
    getattr(TensorProto, name): bits
    for name, bits in (
        ("BFLOAT16", 16),
        ("FLOAT8E4M3FN", 8),
        ("FLOAT8E4M3FNUZ", 8),
        ("FLOAT8E5M2", 8),
        ("FLOAT8E5M2FNUZ", 8),
        ("FLOAT8E8M0", 8),
        ("UINT4", 4),
        ("INT4", 4),
        ("FLOAT4E2M1", 4),
        ("UINT2", 2),
        ("INT2", 2),
    )
    if hasattr(TensorProto, name)
}
# types whose raw_data `memoryview` can read if the machine is little-endian
_CODES: dict[int, Literal["f", "d", "i", "q", "?"]] = (
    {
        TensorProto.FLOAT: "f",
        TensorProto.DOUBLE: "d",
        TensorProto.INT32: "i",
        TensorProto.INT64: "q",
        TensorProto.BOOL: "?",
    }
    if sys.byteorder == "little"
    else {}
)


#: types with their own field for elements
_LISTS: dict[int, str] = {
    TensorProto.FLOAT: "float_data",
    TensorProto.DOUBLE: "double_data",
    TensorProto.INT32: "int32_data",
    TensorProto.INT64: "int64_data",
}


def element_bits(dtype: int) -> int | None:
    """Return the number of bits per element of a type (`onnx.TensorProto.DataType`), packed without gaps; None if it
    varies.
    """
    size = _BYTES.get(dtype)
    return _PACKED.get(dtype) if size is None else 8 * size


_TYPED_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")


class Constant:
    """A dense tensor stored in the model: an initializer or a tensor attribute."""

    __slots__ = ("_array", "_folder", "_proto", "dims", "dtype", "name", "numel")

    name: str
    dtype: int
    dims: tuple[int, ...]
    numel: int

    def __init__(self, proto: onnx.TensorProto, folder: DataFolder | None, name: str = "") -> None:
        """Read type and dims; `name` is what an error calls the tensor (without it, the name that it has).

        Raises:
            ModelError: a dim is negative.
        """
        self.name = name or _own_name(proto)
        self.dtype = proto.data_type
        self.dims = dims = tuple(proto.dims[:])
        if dims and min(dims) < 0:
            check_dims(dims, self.name)
        self.numel = math.prod(self.dims)
        self._proto = proto
        self._folder = folder
        self._array = _UNREAD

    @property
    def location(self) -> str | None:
        """The external file that holds the data; None if the model file does."""
        if self._proto.data_location != TensorProto.EXTERNAL or inline_data(self._proto) is not None:
            return None
        return next((str(e.value) for e in self._proto.external_data if e.key == "location"), "?")

    def array(self, limit: int = 4096) -> np.ndarray[Any, Any] | None:
        """The data as a read-only array, strings as an object array of `str`.

        None when there are more than `limit` elements, when the data is not to be had (external file
        missing, too short, or outside the folder of the model; stripped), or when no numpy type fits.

        Raises:
            ModelError: the model stores another amount of data than dims and type ask for.
        """
        if self.numel > limit:
            return None
        if self._array is _UNREAD:
            array = self._read()
            if array is not None:
                array.flags.writeable = False
            self._array = array
        result: np.ndarray[Any, Any] | None = self._array
        return result

    def is_same_data(self, other: Constant) -> bool:
        """Return True if both have the same data field, or refer to the same range of a file. False does not prove a
        difference.
        """
        a, b = self._proto, other._proto
        if a.data_location == TensorProto.EXTERNAL or b.data_location == TensorProto.EXTERNAL:
            places = [sorted([(e.key, e.value) for e in t.external_data[:]]) for t in (a, b)]
            return a.data_location == b.data_location and places[0] == places[1]
        return bool(a.raw_data) and a.raw_data == b.raw_data

    def items(self, limit: int = 4096) -> list[Any] | None:
        """Return the data, flat, as Python numbers, or None if that would need an array."""
        code = _CODES.get(self.dtype)
        if code is None or self.numel > limit or self._array is None:
            return None
        proto = self._proto
        if proto.data_location == TensorProto.EXTERNAL or proto.HasField("segment"):
            return None
        raw = proto.raw_data
        if not raw and self.dtype in _LISTS:
            listed: list[Any] = getattr(proto, _LISTS[self.dtype])[:]
            return listed if len(listed) == self.numel else None
        if not raw or len(raw) != self.numel * _BYTES[self.dtype]:
            return None
        return memoryview(raw).cast(code).tolist()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, dtype={self.dtype}, dims={self.dims})"

    def _read(self) -> np.ndarray[Any, Any] | None:
        proto = self._proto
        if proto.HasField("segment"):
            return None
        if self.dtype == TensorProto.STRING:
            return self._read_strings()
        nbytes = self._nbytes()
        if nbytes is None:
            return None
        if proto.data_location == TensorProto.EXTERNAL:
            raw = self._read_external(nbytes)
            return None if raw is None else self._decode(raw)
        if proto.HasField("raw_data"):
            raw = proto.raw_data
            if len(raw) == nbytes:
                return self._decode(raw)
            if raw:
                raise ModelError(
                    f"tensor {quoted(self.name)} holds {len(raw):,} bytes of raw_data,"
                    f" but its type and dims {list(self.dims)} require {nbytes:,}"
                )
        return self._read_typed()

    def _read_external(self, nbytes: int) -> bytes | None:
        if nbytes == 0:
            return b""
        return None if self._folder is None else self._folder.read(self._proto, nbytes)

    def _nbytes(self) -> int | None:
        bits = element_bits(self.dtype)
        return None if bits is None else (self.numel * bits + 7) // 8

    def _decode(self, raw: bytes) -> np.ndarray[Any, Any] | None:
        code = _PLAIN.get(self.dtype)
        if code is not None:
            plain = np.dtype(code)
            return _shaped(np.frombuffer(raw, plain).astype(plain.newbyteorder("="), copy=False), self.dims)
        return _convert(TensorProto(data_type=self.dtype, dims=self.dims, raw_data=raw))

    def _read_typed(self) -> np.ndarray[Any, Any] | None:
        """The data of the repeated fields; a tensor without any data is one whose weights were stripped."""
        if self.numel and not any(len(getattr(self._proto, field)) for field in _TYPED_FIELDS):
            return None
        if self.numel == 0 and self.dtype in _PLAIN:
            return self._decode(b"")
        array = _convert(self._proto)
        if array is None and self.dtype in _PLAIN:
            raise ModelError(
                f"tensor {quoted(self.name)} does not hold the {self.numel:,} elements"
                f" that its dims {list(self.dims)} require"
            )
        return array

    def _read_strings(self) -> np.ndarray[Any, Any] | None:
        stored = self._proto.string_data
        if self._proto.data_location == TensorProto.EXTERNAL or (self.numel and not stored):
            return None
        if len(stored) != self.numel:
            raise ModelError(
                f"tensor {quoted(self.name)} holds {len(stored):,} strings,"
                f" but its dims {list(self.dims)} require {self.numel:,}"
            )
        array = np.empty(self.numel, object)
        try:
            array[:] = [text.decode() for text in stored]
        except UnicodeDecodeError:
            return None
        return _shaped(array, self.dims)


class SparseConstant(Constant):
    """A sparse tensor stored in the model: type and dims of the dense tensor, but no data."""

    __slots__ = ()

    def __init__(self, proto: onnx.SparseTensorProto, name: str = "") -> None:
        """Read type and dims. Raises `ModelError` when a dim is negative."""
        self.name = _own_name(proto.values) or name
        self.dtype = proto.values.data_type
        self.dims = check_dims(proto.dims, self.name)
        self.numel = math.prod(self.dims)
        self._array = None

    @property
    def location(self) -> None:
        """The external file that holds the data: none."""
        return


def check_dims(dims: Any, name: str) -> tuple[int, ...]:
    """The dims of a stored tensor as a tuple. Raises `ModelError` when one is negative."""
    result = tuple(dims)
    if result and min(result) < 0:
        raise ModelError(f"tensor {quoted(name)} has a negative dim: {list(result[:16])}")
    return result


def _own_name(proto: onnx.TensorProto) -> str:
    name: object = proto.name
    return name if isinstance(name, str) else ""  # protobuf hands out bytes for text that is not UTF-8


def _shaped(array: np.ndarray[Any, Any], dims: tuple[int, ...]) -> np.ndarray[Any, Any] | None:
    try:
        return array.reshape(dims)
    except ValueError:  # no data, but a size or a rank that numpy cannot hold: [0, 2**62]
        return None


def _convert(proto: onnx.TensorProto) -> np.ndarray[Any, Any] | None:
    try:
        return np.asarray(numpy_helper.to_array(proto))
    except (ValueError, TypeError, KeyError, NotImplementedError, OverflowError):
        # damaged data, or a type that onnx does not read: where it should have, the caller raises
        return None
