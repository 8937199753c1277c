"""Limits of the check of a module, each with its unit."""

from __future__ import annotations

from typing import Final

MAX_ELEMENTS: Final = 1 << 27  # elements that the operators of one run make together
MAX_CALLS: Final = 100_000  # calls of operators in one run
MAX_KEPT: Final = 1 << 22  # elements of outputs that are kept, or made without being foreseen
MAX_RUNS: Final = 400  # runs of one module
FEW_RUNS: Final = 12  # runs of one module after `MUCH_MADE` elements or `MANY_CALLS` calls in all its runs
MUCH_MADE: Final = 1 << 29  # elements
MANY_CALLS: Final = 20_000  # calls of operators
PER_SIZE: Final = 6  # sizes tried per name
TOGETHER: Final = 2  # sizes of all names together that are run, also with other data
MAX_TRIED: Final = 10  # sizes that are run for one condition
MAX_PROBES: Final = 24  # sizes that are run without a condition
COMPARED: Final = 6  # sizes for which a file is compared with the module
MAX_BYTES: Final = 1 << 30  # bytes of a file that onnxruntime loads
MAX_GUARDS: Final = 2000  # guards of one export, and frames of a stack that are searched for the line of one
MAX_UNROLLED: Final = 128  # steps of recurrent layers over a symbolic length that PyTorch makes a loop
MAX_READ: Final = 100_000  # characters of metadata or of a message of PyTorch that are read
MAX_MESSAGE: Final = 4000  # characters of a message of PyTorch that are shown
MAX_LINE: Final = 160  # max. characters shown per line of a PyTorch message
MAX_SHOWN: Final = 4  # sizes, nodes, errors or callers that are listed in one note
STEPS: Final = (5, 3, -2, 4, -3)  # distances of tried sizes from the example's
USUAL: Final = (1, 2, 3, 7, 16, 33, 64)  # sizes that are tried too
SPREAD: Final = 0.05  # relative change of the example's values in a run
