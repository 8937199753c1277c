"""Limits on the changes of a model, each with its quantity and unit."""

from __future__ import annotations

from typing import Final

MAX_CALLS: Final = 64  # analyzed calls of one function; a function with more counts as unknown
MAX_SWEEPS: Final = 6  # sweeps over one graph
MAX_CHANGES: Final = 16  # changes of one node in one sweep
