"""Parses dims and conditions. Model files are untrusted: nothing is evaluated, and all work is bounded.

One grammar covers the notations of several tools:

- Python: `+ - * // % **`, `max(..)`, `min(..)`, `a if c else b`, chained comparisons, `and or not`
- yobx: `a ^ b` is the maximum, `a & b` the minimum (they bind more weakly than `+`), `CeilToInt(a, b)`
- C: `a / b` divides integers and rounds toward zero
- SymPy: `floor(H/2 - 1/2)`, `ceiling(..)`, `Mod`, `Max`, `Min`, `Abs`; inside floor and ceiling, `/` is exact

A name that is not an identifier is written in backticks. The backticks are optional for known names such as
`batch-size` or
`num_heads/2`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from ..arguments import checked
from .cond import Cond
from .core import Dim, symbol
from .grammar import KEYWORDS, DimSyntaxError, is_word
from .reader import Reader

#: words joined by hyphens and the like, without spaces
JOINED, _JOINT = re.compile(r"[^\W\d]\w*(?:[-/.:]\w+)+"), re.compile(r"[-/.:]")
#: characters that only expressions have
_OPERATOR = re.compile(r"[-+*/%()<>=]")
#: letters that replace a joint in a word of the same length
_JOINTS = "_xyzXYZ"

__all__ = ["DimSyntaxError", "dim_from_param", "parse_cond", "parse_dim"]


@checked
def parse_dim(text: str, symbols: Mapping[str, Dim] | None = None) -> Dim:
    """Parses a dim; names are looked up in `symbols`, others become sizes (integers >= 0).

    >>> parse_dim("floor(H/2 - 1/2) + 1")
    Dim('(H + 1)//2')

    Raises `DimSyntaxError`.
    """
    if is_word(text) and text not in KEYWORDS:
        found = symbols.get(text) if symbols else None
        return symbol(text) if found is None else found
    value = Reader(*_spelled(text, symbols)).read()
    if isinstance(value, Cond):
        raise DimSyntaxError("expected a size, got a condition", text, 0)
    return value


@checked
def parse_cond(text: str, symbols: Mapping[str, Dim] | None = None) -> Cond:
    """Parses a condition, e.g. ``"193 <= H <= 224 and W % 32 == 0"``; raises `DimSyntaxError`."""
    value = Reader(*_spelled(text, symbols)).read()
    if isinstance(value, Dim):
        raise DimSyntaxError("expected a condition, got a size", text, 0)
    return value


def _spelled(text: str, symbols: Mapping[str, Dim] | None) -> tuple[str, Mapping[str, Dim] | None]:
    """Replaces names like ``batch-size`` in `text` by words of equal length, and adds these to `symbols`. Backticks stay."""
    if not symbols or not _JOINT.search(text):
        return text, symbols
    words: dict[str, str] = {}
    table = dict(symbols)
    for name in sorted((n for n in symbols if n in text and JOINED.fullmatch(n)), key=len, reverse=True):
        spellings = (_JOINT.sub(joint, name) for joint in _JOINTS)
        word = next((w for w in spellings if w not in table and w not in text), None)
        if word is not None:
            words[name], table[word] = word, symbols[name]
    if not words:
        return text, symbols
    names = re.compile("|".join(rf"(?<![\w`]){re.escape(name)}(?![\w`])" for name in words))
    return names.sub(lambda found: words[found[0]], text), table


def is_malformed(text: str) -> bool:
    """Return True if a `dim_param` looks like an expression but cannot be read as one: `(N + `."""
    if is_word(text) or JOINED.fullmatch(text) or not _OPERATOR.search(text):
        return False
    try:
        Reader(text, dotted=True).read()
    except DimSyntaxError:
        return True
    return False


def dim_from_param(text: str, known: Collection[str] | None = None) -> Dim:
    """Return the dim of a model's `dim_param`: an expression if it reads as one, otherwise a symbol.

    A string without symbols (`"-1"`, `"5"`) is a name too: runtimes accept any size for it. If `known` (the names
    that the model declares)
    is given, joined words such as `"batch-size"` or `"num_heads/2"` are names as well, unless each word is a known
    name.
    """
    if is_word(text):
        return symbol(text)
    if known is not None and JOINED.fullmatch(text):
        words = [w for w in _JOINT.split(text) if not w.isdigit()]
        if not all(w in known for w in words):
            return symbol(text)
    try:
        value = Reader(text, dotted=True).read()
    except DimSyntaxError:
        return symbol(text)
    if isinstance(value, Cond) or not value.free:
        return symbol(text)
    return value
