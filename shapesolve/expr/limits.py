"""Limits on the size of an expression."""

from __future__ import annotations

#: max nesting depth of quotients, maxima, choices and broadcasts in a size that is followed
MAX_DEPTH = 32

#: most terms that a product may have; beyond it arithmetic raises `DimTooLarge`
MAX_TERMS = 512


class DimTooLarge(ArithmeticError):
    """An expression outgrew the size cap (the caller names it and keeps the definition)."""
