"""Limits on what the explorer shows, each with its quantity and unit."""

from __future__ import annotations

from typing import Final

MAX_ROWS: Final = 400  # rows of the table of all tensors in a notebook
MAX_ELEMENTS: Final = 16  # elements of a tensor that is shown
MAX_TEXT: Final = 200  # characters of a cell or of an attribute
MAX_DRAWN: Final = 6  # names of sizes with a line of their own in the explorer
GROWTH: Final = 4  # factor between the example sizes and the largest of the explorer
MAX_LOOSE: Final = 48  # nodes outside of scopes in one picture; more are cut into runs of half as many
ALIKE: Final = 4  # scopes with names alike from which on they share one
MAX_PAGES: Final = 8  # pages that the server keeps
