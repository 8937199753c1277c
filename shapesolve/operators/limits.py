"""Limits of the rules of operators, each with its quantity and unit."""

from __future__ import annotations

from typing import Final

MAX_TRIPS: Final = 8  # trips of a loop, or elements of a mapped sequence, that are lowered one by one
MAX_UNROLLED: Final = 256  # nodes in all trips of a loop that are lowered one by one
MAX_TRIALS: Final = 12  # trials of a loop's body before what still changes is left open
MAX_REHEARSING: Final = 3  # loops inside loops whose carried values are followed
DEEP: Final = 5  # scopes inside each other, beyond which only one loop of a nest is followed
MAX_ITEMS: Final = 256  # elements of a sequence that are kept one by one
MAX_CASES: Final = 8  # cases of open entries of a target
MAX_STATES: Final = 8  # states of a token sequence that an operator of onnxruntime keeps
STACKED: Final = 24  # size of an expression that pools stacked on each other have made
