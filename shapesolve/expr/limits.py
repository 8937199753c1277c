"""Limits on expressions and their printed form, each with quantity and unit; bounds of integer types."""

from __future__ import annotations

from typing import Final

INT32_MAX: Final = 2**31 - 1  # largest int32
INT64_MAX: Final = 2**63 - 1  # largest int64
SAFE: Final = INT64_MAX // 2 + 1  # magnitude up to which sums in int64 do not overflow

# expressions
MAX_DEPTH: Final = 32  # max. nesting depth of quotients, maxima, choices, and broadcasts in a size
MAX_TERMS: Final = 512  # terms of a product (more raise `DimTooLarge`), and of a sum that is rearranged
MAX_DIM_SIZE: Final = 400  # size of an expression, beyond which it is given a name and its definition kept
MAX_ELEM_SIZE: Final = 1000  # max. size of a tensor element, and of an expression that replaces a symbol
MAX_RELAXED: Final = 3  # atoms relaxed per bound; each doubles the work
MAX_CACHED: Final = 4096  # quotients and numbers that are kept for reuse
MIN_DROPPED: Final = 10_000  # new objects in a pool after which unused ones are looked for

# texts, which are untrusted
MAX_LENGTH: Final = 10_000  # characters of a text that is read
MAX_NESTING: Final = 200  # parentheses, and operators other than + - * inside one another
MAX_EXPONENT: Final = 16  # exponent in a text
MAX_DEGREE: Final = 64  # factors of a monomial that a text, or SymPy, makes
MAX_COEFFICIENT: Final = 2**1024  # magnitude of a coefficient that a text makes
MAX_READ_SIZE: Final = 20_000  # size of an expression that a text makes
MAX_PARAM_LENGTH: Final = 512  # max. characters of a name from a model file
MAX_UNNAMED: Final = 100  # characters of a part of generated code, beyond which it gets a name
MAX_SUMMANDS: Final = 48  # summands in one line of generated code

# messages
MAX_NAME: Final = 200  # characters of a name that is shown or compared
MAX_LISTED: Final = 8  # items that a message lists
MAX_MEANT: Final = 3  # similar names that a message lists
MAX_COMPARED: Final = 20_000  # names that an unknown one is compared with


class DimTooLarge(ArithmeticError):
    """An expression outgrew the size cap (the caller names it and keeps the definition)."""
