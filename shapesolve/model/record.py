# compiled: see CONTRIBUTING.md
"""Splits a serialized node into its names and the bytes of its operator and attributes.

Protobuf looks every field up by its name and makes an object of it. To have it write a node and to go through the bytes
takes half the time, and what nodes say alike are the same bytes then.

https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from typing import Any


class NodeRecord:
    """A serialized node: names, and operator and attributes as bytes; names that are not UTF-8 stay bytes."""

    __slots__ = ("content", "inputs", "name", "outputs")

    def __init__(self, content: bytes, name: Any, inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
        self.content, self.name, self.inputs, self.outputs = content, name, inputs, outputs


def read_record(data: bytes, texts: dict[bytes, Any]) -> NodeRecord | None:
    """The parts of a serialized node; None if it has fields that the standard does not define.

    `texts` keeps the names that were met before.
    """
    inputs: list[Any] = []
    outputs: list[Any] = []
    name: Any = ""
    content: list[bytes] = []
    since, until = 0, 0  # the last stretch of operator and attributes
    at, end = 0, len(data)
    while at < end:
        # the number of a field, times 8, plus 2: all are texts or messages
        field, kind = data[at] >> 3, data[at] & 7
        if kind != 2 or field > 10:
            return None
        length, start = data[at + 1], at + 2
        if length > 127:
            length &= 127
            shift = 7
            while True:
                byte = data[start]
                start += 1
                length |= (byte & 127) << shift
                if byte < 128:
                    break
                shift += 7
        after = start + length
        if field == 1:  # input
            inputs.append(_text(data[start:after], texts))
        elif field == 2:  # output
            outputs.append(_text(data[start:after], texts))
        elif field == 3:  # name
            name = _text(data[start:after], None)
        elif field in (4, 5, 7, 8):  # op_type, attribute, domain, overload
            if at != until:
                if until > since:
                    content.append(data[since:until])
                since = at
            until = after
        at = after
    last = data[since:until]
    return NodeRecord(b"".join([*content, last]) if content else last, name, tuple(inputs), tuple(outputs))


def _text(piece: bytes, texts: dict[bytes, Any] | None) -> Any:
    known = None if texts is None else texts.get(piece)
    if known is None:
        try:
            known = piece.decode()
        except UnicodeDecodeError:
            known = piece
        if texts is not None:
            texts[piece] = known
    return known
