"""Limits of reports and pages, each with its quantity and unit."""

from __future__ import annotations

from typing import Final

MAX_NAMES: Final = 3  # max. nodes or inputs listed in a line
