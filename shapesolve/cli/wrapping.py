"""Where a text goes on in the next line: between words before inside of an expression, there outside of brackets first.

A name that is longer than a line is parted where its words are joined.
"""

from __future__ import annotations

import re

from rich.cells import cell_len

#: where a name may be parted: behind what joins its words
_JOINTS = re.compile("[/._]")
_BLANKS = re.compile(" +")
_OPERATORS = frozenset(("+", "-", "*", "**", "/", "//", "%", "=", "==", "!=", "<", "<=", ">", ">="))
#: a bracket around a blank costs as much as two blanks beside operators
_DEPTH = 2


def lines_of(text: str, width: int) -> list[tuple[int, int]]:
    """Where each line of the text begins and ends, in this width: at a blank, or inside of a word that is too long."""
    found, at = [], 0
    while cell_len(text[at:]) > width:
        rest = text[at:]
        end = _end(rest, width)
        part = _part(rest, width) if end is None else end
        found.append((at, at + part))
        at += part + (end is not None)
    return [*found, (at, len(text))]


def _part(word: str, width: int) -> int:
    """Where a long word is parted: behind a joint in the second half of the line, else at its end."""
    full = next((i for i in range(1, len(word)) if cell_len(word[: i + 1]) > width), len(word))
    late = [m.end() for m in _JOINTS.finditer(word, 0, full) if m.end() > width // 2]
    return max(late, default=full)


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
