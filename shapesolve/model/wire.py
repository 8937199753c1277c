# compiled: see CONTRIBUTING.md
"""Reads a serialized model without the data of its large tensors, which stays in the file.

The wire format is walked once. The result is a small proto in which large tensors have an entry with the position of
their data in
the file, and with the tensor's field for it (`inline_data`). The same walk restores the data (`pieces`). All other
bytes are copied
unchanged, so that protobuf validates them; unusual encodings are left to protobuf as a whole.

https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from typing import Any

import onnx

from .limits import LARGE, MAX_DEPTH

#: key of the entry of `external_data` that tells where the data of a tensor lies in the model's own file
INLINE = "shapesolve.inline"
_MARK = INLINE.encode()

_MODEL, _GRAPH, _NODE, _ATTRIBUTE, _TENSOR, _SPARSE, _FUNCTION, _TRAINING = range(8)
#: the fields of a message that may hold tensors: number -> kind of message
_HOLD: list[dict[int, int]] = [
    {7: _GRAPH, 20: _TRAINING, 25: _FUNCTION},
    {1: _NODE, 5: _TENSOR, 15: _SPARSE},
    {5: _ATTRIBUTE},
    {5: _TENSOR, 6: _GRAPH, 10: _TENSOR, 11: _GRAPH, 22: _SPARSE, 23: _SPARSE},
    {},
    {1: _TENSOR, 2: _TENSOR},
    {7: _NODE, 11: _ATTRIBUTE},
    {1: _GRAPH, 2: _GRAPH},
]
#: message fields that occur once: protobuf merges what comes later into it
_SINGLE: list[frozenset[int]] = [
    frozenset((7,)),
    frozenset(),
    frozenset(),
    frozenset((5, 6, 22)),
    frozenset(),
    frozenset((1, 2)),
    frozenset(),
    frozenset((1, 2)),
]
_NUMBERS: dict[str, int] = {field.name: field.number for field in onnx.TensorProto.DESCRIPTOR.fields}
#: fields that hold large data as it lies in memory: number -> name
_LARGE_DATA = {_NUMBERS[field]: field for field in ("raw_data", "float_data", "double_data")}
#: fields of a tensor other than its name, dims, type, text and metadata: with one of these, large data is not plain
_OTHER_DATA = frozenset(
    _NUMBERS[field]
    for field in (
        "segment", "int32_data", "string_data", "int64_data", "uint64_data", "external_data", "data_location",
    )
)  # fmt: skip

#: bytes, or the offset and length of a part of the model's file
Piece = bytes | tuple[int, int]


class NotPlain(Exception):
    """Raised for bytes that are damaged, or of a form that only protobuf reads."""


def without_weights(data: memoryview) -> bytes:
    """Return the model in `data` without the data of large tensors; `inline_data` gives its position.

    Raises:
        NotPlain: If only protobuf can read the bytes.
    """
    left: list[int] = []
    parts = _strip(data, 0, len(data), _MODEL, 0, left)
    out = b"".join(parts)
    if out.count(_MARK) != len(left):  # the model says something of the kind itself
        raise NotPlain
    return out


def inline_data(tensor: onnx.TensorProto) -> tuple[int, int, str] | None:
    """Offset and length of a tensor's data in the model's own file. The third item is the field that holds it."""
    entries: Any = tensor.external_data
    if len(entries) != 1 or entries[0].key != INLINE:
        return None
    offset, length, field = entries[0].value.split()
    return int(offset), int(length), field


def pieces(data: bytes) -> list[Piece]:
    """Pieces of a serialized model with its weights: bytes, and parts of the file that it was read from."""
    found, _ = _restore(memoryview(data), 0, len(data), _MODEL)
    return found


# ---------------------------------------------------------------------- the wire format


def _varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    value, shift = 0, 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            if shift > 63:
                raise NotPlain
            return value, at
        shift += 7
    raise NotPlain


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _record(data: memoryview, at: int, end: int) -> tuple[int, int, int, int]:
    """Number and wire type of the field at `at`, where its content starts, and where it ends."""
    tag, at = _varint(data, at, end)
    number, wire = tag >> 3, tag & 7
    start = at
    if wire == 2:
        length, start = _varint(data, at, end)
        after = start + length
    elif wire == 0:
        _, after = _varint(data, at, end)
    elif wire == 5:
        after = at + 4
    elif wire == 1:
        after = at + 8
    else:  # a group, which ONNX has none of
        raise NotPlain
    if after > end or not number:
        raise NotPlain
    return number, wire, start, after


# ---------------------------------------------------------------------- weights out


def _strip(data: memoryview, start: int, end: int, kind: int, depth: int, left: list[int]) -> list[bytes]:
    """Copies a message without large tensor data; the offsets of that data are added to `left`."""
    if kind == _TENSOR:
        return _strip_tensor(data, start, end, left)
    if depth > MAX_DEPTH:
        raise NotPlain
    hold, single = _HOLD[kind], _SINGLE[kind]
    seen: set[int] = set()
    out: list[bytes] = []
    at = copied = start
    while at < end:
        number, wire, inner, after = _record(data, at, end)
        below = hold.get(number, -1)
        if below >= 0 and wire == 2:
            if number in single:
                if number in seen:
                    raise NotPlain
                seen.add(number)
            if after - inner > LARGE:
                parts = _strip(data, inner, after, below, depth + 1, left)
                out.append(bytes(data[copied:at]))
                out.append(_encoded(number << 3 | 2))
                out.append(_encoded(sum([len(part) for part in parts])))
                out += parts
                copied = after
        at = after
    out.append(bytes(data[copied:end]))
    return out


def _strip_tensor(data: memoryview, start: int, end: int, left: list[int]) -> list[bytes]:
    at = start
    dtype, large, others = 0, (0, 0, 0, 0), False
    while at < end:
        number, wire, inner, after = _record(data, at, end)
        if number == _NUMBERS["data_type"] and wire == 0:
            dtype, _ = _varint(data, inner, end)
        elif number in _LARGE_DATA:
            if large[0] or wire != 2 or after - inner <= LARGE:
                others = True
            large = number, at, inner, after
        elif number in _OTHER_DATA:
            others = True
        at = after
    number, before, inner, after = large
    if others or not number or not _is_raw(number, dtype, after - inner):
        return [bytes(data[start:end])]
    entry = onnx.TensorProto(data_location=onnx.TensorProto.EXTERNAL)
    entry.external_data.add(key=INLINE, value=f"{inner} {after - inner} {_LARGE_DATA[number]}")
    replacement: bytes = entry.SerializeToString()
    left.append(inner)
    return [bytes(data[start:before]), replacement, bytes(data[after:end])]


def _is_raw(number: int, dtype: int, length: int) -> bool:
    """True if the bytes of a data field equal those that `raw_data` would have."""
    if _LARGE_DATA[number] == "float_data":
        return dtype == onnx.TensorProto.FLOAT and length % 4 == 0
    if _LARGE_DATA[number] == "double_data":
        return dtype == onnx.TensorProto.DOUBLE and length % 8 == 0
    return True


# ---------------------------------------------------------------------- weights in


def _restore(data: memoryview, start: int, end: int, kind: int) -> tuple[list[Piece], int]:
    """The pieces of a message with its tensor data put back, and its length in bytes."""
    if kind == _TENSOR:
        return _restore_tensor(data, start, end)
    hold = _HOLD[kind]
    out: list[Piece] = []
    size = 0
    at = copied = start
    while at < end:
        number, wire, inner, after = _record(data, at, end)
        below = hold.get(number, -1)
        if below >= 0 and wire == 2 and _MARK in bytes(data[inner:after]):
            parts, length = _restore(data, inner, after, below)
            head = bytes(data[copied:at]) + _encoded(number << 3 | 2) + _encoded(length)
            out.append(head)
            out += parts
            size += len(head) + length
            copied = after
        at = after
    out.append(bytes(data[copied:end]))
    return out, size + end - copied


def _restore_tensor(data: memoryview, start: int, end: int) -> tuple[list[Piece], int]:
    tensor = onnx.TensorProto.FromString(bytes(data[start:end]))
    found = inline_data(tensor)
    if found is None:  # the mark stands somewhere else, in a doc string
        return [bytes(data[start:end])], end - start
    offset, length, field = found
    number = {name: number for number, name in _LARGE_DATA.items()}[field]
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")
    head: bytes = tensor.SerializeToString() + _encoded(number << 3 | 2) + _encoded(length)
    return [head, (offset, length)], len(head) + length
