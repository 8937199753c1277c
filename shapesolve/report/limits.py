"""Limits on what reports and pages show, each with its quantity and unit."""

from __future__ import annotations

from typing import Final

MAX_NAMES: Final = 3  # nodes or inputs that a line lists
