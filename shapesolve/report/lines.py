"""Styled lines: text in pieces with a style each, so that a terminal may colour what a pipe gets plain."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

#: (style, text); styles: "" plain, "bold", "dim", "error", "warning", "info", "good", "shape", "name", "code"
Piece = tuple[str, str]
Line = tuple[Piece, ...]

#: what a terminal would obey instead of showing it: names come from files that nobody vouches for
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

_BEYOND_ASCII = re.compile(r"[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""The text with control characters written as ``\x1b``, so that a name cannot steer a terminal."""
    return _CONTROL.sub(lambda m: m[0].encode("unicode_escape").decode(), text)


def json_text(data: Any, indent: int | None = 1) -> str:
    """JSON in which what a terminal would obey is escaped too, not only what the standard asks for."""
    import json  # most commands write none

    text = json.dumps(data, indent=indent, ensure_ascii=False)
    return _BEYOND_ASCII.sub(lambda m: f"\\u{ord(m[0]):04x}", text)


def clipped(text: str, length: int) -> str:
    """The text, or its beginning and an ellipsis."""
    return text if len(text) <= length else f"{text[: length - 2]} …"


def line(*pieces: Piece | str) -> Line:
    """A line of pieces; plain strings have no style."""
    return tuple(("", visible(p)) if isinstance(p, str) else (p[0], visible(p[1])) for p in pieces)


def plain(lines: Iterable[Line]) -> str:
    """The text without styles."""
    return "\n".join("".join(text for _, text in pieces).rstrip() for pieces in lines)
