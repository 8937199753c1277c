"""Styled lines: text in pieces with a style each, so that a terminal may colour what a pipe gets plain."""

from __future__ import annotations

from collections.abc import Iterable

#: (style, text); styles: "" plain, "bold", "dim", "error", "warning", "info", "good", "shape", "name", "code"
Piece = tuple[str, str]
Line = tuple[Piece, ...]


def line(*pieces: Piece | str) -> Line:
    """A line of pieces; plain strings have no style."""
    return tuple(("", p) if isinstance(p, str) else p for p in pieces)


def plain(lines: Iterable[Line]) -> str:
    """The text without styles."""
    return "\n".join("".join(text for _, text in pieces).rstrip() for pieces in lines)
