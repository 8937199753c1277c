# compiled: see CONTRIBUTING.md
"""A node as protobuf writes it, taken apart into its names and what it says besides.

Protobuf looks every field up by its name and makes an object of it. To have it write a node and to go through the bytes
takes half the time, and what nodes say alike are the same bytes then.

https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from typing import Any, Final

# The first bytes of the fields of a NodeProto, which are all texts or messages: the field's number, times 8, plus 2.
_INPUT: Final = 1 << 3 | 2
_OUTPUT: Final = 2 << 3 | 2
_NAME: Final = 3 << 3 | 2
_OP_TYPE: Final = 4 << 3 | 2
_ATTRIBUTE: Final = 5 << 3 | 2
_DOMAIN: Final = 7 << 3 | 2
_OVERLOAD: Final = 8 << 3 | 2
_LAST: Final = 10 << 3 | 2


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
        tag = data[at]
        if tag & 7 != 2 or tag > _LAST:
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
        if tag == _INPUT:
            inputs.append(_text(data[start:after], texts))
        elif tag == _OUTPUT:
            outputs.append(_text(data[start:after], texts))
        elif tag == _NAME:
            name = _text(data[start:after], None)
        elif tag in (_OP_TYPE, _ATTRIBUTE, _DOMAIN, _OVERLOAD):
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
