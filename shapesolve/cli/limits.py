"""Limits on terminal output, each with its quantity and unit."""

from __future__ import annotations

from typing import Final

MAX_ERROR: Final = 2000  # max. characters of an error
MAX_EXPRESSION: Final = 600  # max. characters of an expression on a terminal (JSON is not cut)
UNLIMITED: Final = 1_000_000  # columns of a pipe if COLUMNS is not set: no wrapping
PATIENCE: Final = 1.0  # seconds before progress is shown
REDRAWN: Final = 0.2  # seconds between two redraws of the progress bar
