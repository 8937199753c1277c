"""Limits on what a terminal shows, each with its quantity and unit."""

from __future__ import annotations

from typing import Final

MAX_ERROR: Final = 2000  # characters of an error
MAX_EXPRESSION: Final = 600  # characters of an expression on a terminal (JSON is not cut)
UNLIMITED: Final = 1_000_000  # columns of a pipe without COLUMNS: no wrapping
PATIENCE: Final = 1.0  # seconds before progress is shown
REDRAWN: Final = 0.2  # seconds between two drawings of progress
