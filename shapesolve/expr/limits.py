"""How large an expression may become."""

from __future__ import annotations

#: most terms that a product may have; beyond it arithmetic raises `DimTooLarge`
MAX_TERMS = 512


class DimTooLarge(ArithmeticError):
    """An expression outgrew the size cap (the caller names it and keeps the definition)."""
