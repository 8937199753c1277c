"""Limits of the check of a module, each with its unit."""

from __future__ import annotations

MAX_ELEMENTS = 1 << 27  # elements that the operators of one run make together
MAX_CALLS = 100_000  # calls of operators in one run
MAX_UNFORESEEN = 1 << 22  # elements up to which the output of an operator is not foreseen before it runs
MAX_KEPT = 1 << 20  # elements of the outputs of a run that is kept for a comparison
MAX_RUNS = 400  # runs of one module
FEW_RUNS = 12  # runs of one module after `MUCH_MADE` elements or `MANY_CALLS` calls in all its runs
MUCH_MADE = 1 << 29  # elements
MANY_CALLS = 20_000  # calls of operators
PER_SIZE = 6  # sizes of one name that are run
TOGETHER = 2  # sizes of all names together that are run
MAX_TRIED = 10  # sizes that are run for one condition
MAX_PROBES = 24  # sizes that are run without a condition
COMPARED = 4  # sizes without a condition at which the file is held against the module
COMPARED_SUGGESTION = 6  # sizes at which the file of a suggestion is held against the module
MAX_BYTES = 1 << 26  # bytes of a file that onnxruntime loads
MAX_GUARDS = 2000  # guards of one export
MAX_FRAMES = 2000  # frames of a stack that are searched for the line of a guard
MAX_DIVISOR = 4096  # divisor of a multiple that is suggested
MAX_READ = 100_000  # characters of metadata or of a message of PyTorch that are read
MAX_MESSAGE = 4000  # characters of a message of PyTorch that are shown
MAX_LINE = 160  # characters of one line of a message of PyTorch that are shown
MAX_SHOWN = 4  # sizes, nodes, or errors that are listed in one note
MAX_CALLERS = 6  # callers of a line that are listed
