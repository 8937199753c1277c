"""Where a text goes on in the next line: between words before inside of an expression, there outside of brackets first."""

from __future__ import annotations

import re

from rich.cells import cell_len

_BLANKS = re.compile(" +")
_OPERATORS = frozenset(("+", "-", "*", "**", "/", "//", "%", "=", "==", "!=", "<", "<=", ">", ">="))
#: a bracket around a blank costs as much as two blanks beside operators
_DEPTH = 2


def wrapped(text: str, width: int) -> str:
    """The text with some blanks as ends of lines, each in this width; what has no blank to end at stays one line."""
    lines = []
    while cell_len(text) > width:
        end = _end(text, width)
        if end is None:
            break
        lines.append(text[:end])
        text = text[end + 1 :]
    return "\n".join([*lines, text])


def _end(text: str, width: int) -> int | None:
    """The blank in the second half of the line that parts least of an expression; else the last one."""
    ends: list[tuple[int, int]] = []
    for blanks in _BLANKS.finditer(text):
        before, after = text[: blanks.start()], text[blanks.end() :]
        if cell_len(before) > width:
            break
        if before:
            depth = sum(map(before.count, "([")) - sum(map(before.count, ")]"))
            beside = before.rpartition(" ")[2] in _OPERATORS or after.partition(" ")[0] in _OPERATORS
            ends.append((_DEPTH * depth + beside, blanks.end() - 1))
    late = [(cost, -at) for cost, at in ends if at >= width // 2]
    return -min(late)[1] if late else max((at for _, at in ends), default=None)
