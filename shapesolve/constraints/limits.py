"""Limits of the constraint system, each with its quantity and unit."""

from __future__ import annotations

from typing import Final

MAX_ROWS: Final = 400  # rows of a table
MAX_TEXT: Final = 400  # characters of a cell
MAX_TOGETHER: Final = 2000  # requirements in one query
