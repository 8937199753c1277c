# compiled: see CONTRIBUTING.md
"""A node as protobuf writes it, taken apart into its names and what it says besides.

Protobuf looks every field up by its name and makes an object of it. To have it write a node and to go through the bytes
takes half the time, and what nodes say alike are the same bytes then.

https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from typing import Any


class NodeRecord:
    """Operator and attributes of a node (as bytes), and its names; bytes for those that are not UTF-8."""

    __slots__ = ("inputs", "name", "outputs", "said")

    def __init__(self, said: bytes, name: Any, inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
        self.said, self.name, self.inputs, self.outputs = said, name, inputs, outputs


def read_record(data: bytes, texts: dict[bytes, Any]) -> NodeRecord | None:
    """The parts of a node that protobuf wrote; None where it has fields that the standard does not define.

    `texts` keeps the names that were met before.
    """
    inputs: list[Any] = []
    outputs: list[Any] = []
    name: Any = ""
    said: list[bytes] = []
    since, until = 0, 0  # of what is said, the last stretch
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
                    said.append(data[since:until])
                since = at
            until = after
        at = after
    last = data[since:until]
    return NodeRecord(b"".join([*said, last]) if said else last, name, tuple(inputs), tuple(outputs))


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
