"""Limits of the rules of operators, each with its quantity and unit."""

from __future__ import annotations

from typing import Final

MAX_TRIPS: Final = 8  # max. iterations of a loop, or elements of a mapped sequence, lowered one by one
MAX_UNROLLED: Final = 256  # max. nodes in all iterations of a loop lowered one by one
MAX_TRIALS: Final = 12  # max. trials of a loop's body before changing values become unknown
MAX_REHEARSING: Final = 3  # max. depth of nested loops with tracked carried values
DEEP: Final = 5  # max. scope depth; beyond it, only one loop of a nest is tracked
MAX_ITEMS: Final = 256  # elements of a sequence that are kept one by one
MAX_CASES: Final = 8  # cases of open entries of a target
MAX_STATES: Final = 8  # states of a token sequence that an operator of onnxruntime keeps
STACKED: Final = 24  # size of an expression that pools stacked on each other have made
