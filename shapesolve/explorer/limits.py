"""Limits of the explorer, each with its quantity and unit."""

from __future__ import annotations

from typing import Final

MAX_ROWS: Final = 400  # max. rows in a notebook's table of all tensors
MAX_ELEMENTS: Final = 16  # max. elements of a displayed tensor
MAX_TEXT: Final = 200  # max. characters of a cell or an attribute
MAX_DRAWN: Final = 6  # max. dims with a separate row in the explorer
GROWTH: Final = 4  # ratio of the explorer's largest sizes to the example sizes
MAX_LOOSE: Final = 48  # max. nodes outside scopes in one picture; more are cut into runs of half as many
ALIKE: Final = 4  # min. scopes with similar names that share a parent scope
MAX_PAGES: Final = 8  # max. pages that the server keeps
