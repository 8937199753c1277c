"""Limits of `simplify`, `free`, and `generalize`, each with its quantity and unit."""

from __future__ import annotations

from typing import Final

MAX_CALLS: Final = 64  # analyzed calls of one function; a function with more counts as unknown
MAX_SWEEPS: Final = 6  # sweeps over one graph
MAX_CHANGES: Final = 16  # changes of one node in one sweep
MAX_CANDIDATES: Final = 24  # fits of one number, targets of one Reshape, or attempts at one model
MAX_STORED: Final = 1 << 22  # elements of a stored tensor that is looked into
MAX_PARTS: Final = 4  # parts of a small fixed axis that get a rule each
MIN_EVEN: Final = 3  # places along an axis that show that steps are even
MAX_FACTOR: Final = 16  # factor of a size in a number, and divisor of a size with every remainder
MAX_DIVISOR: Final = 64  # divisor of a size, and length of a block in a mask
MAX_SYMBOLS: Final = 6  # symbols in one product or sum
MAX_TOGETHER: Final = 3  # symbols that are decided together
MAX_TRIED: Final = 1024  # combinations of fits that are tried together
MAX_RIVALS: Final = 64  # combinations of fits that are compared by conditions
MARGIN: Final = 2  # length by which a rival fit may exceed the shortest, and of a size that the model has
MAX_POINTS: Final = 96  # sample sizes for comparing fits (conditions use an eighth), or for another export
OPEN_AXES: Final = 8  # axes of a trial input
