"""Limits of the check of a module, each with its unit."""

from __future__ import annotations

#: elements that the operators of one run may make together
MAX_ELEMENTS = 1 << 27
#: calls of operators in one run
MAX_CALLS = 100_000
#: elements up to which the output of an operator is not foreseen before it runs
MAX_UNFORESEEN = 1 << 22
#: elements of the outputs of a run that is kept for a comparison
MAX_KEPT = 1 << 20
#: runs of one module
MAX_RUNS = 400
#: runs of one module after `MUCH_MADE` elements or `MANY_CALLS` operators in all its runs
FEW_RUNS = 12
MUCH_MADE = 1 << 29
MANY_CALLS = 20_000
#: sizes of one name that are run, and of all names together
PER_SIZE = 6
TOGETHER = 2
#: sizes that are run for one condition
MAX_TRIED = 10
#: sizes that are run without a condition
MAX_PROBES = 24
#: sizes at which the file is held against the module: without a condition, and for a suggestion
COMPARED = 4
COMPARED_SUGGESTION = 6
#: bytes of a file that onnxruntime loads
MAX_BYTES = 1 << 26
#: guards of one export
MAX_GUARDS = 2000
#: frames of a stack that are searched for the line of a guard
MAX_FRAMES = 2000
#: divisor of a multiple that is suggested
MAX_DIVISOR = 4096
#: characters of metadata or of a message of PyTorch that are read
MAX_READ = 100_000
#: characters of a message of PyTorch that are shown, and of one line of it
MAX_MESSAGE = 4000
MAX_LINE = 160
#: sizes, nodes, or errors that are listed in one note
MAX_SHOWN = 4
#: callers of a line that are listed
MAX_CALLERS = 6
