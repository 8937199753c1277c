"""Limits on the work for sizes, inputs, profiles, buckets and costs, each with its quantity and unit."""

from __future__ import annotations

from typing import Final

# sizes and inputs
MAX_SIZE: Final = 1 << 20  # largest size of a search one by one, and sizes that are tried in one
PREFERRED: Final = 8, 224  # sizes to try first, of a sequence and of a side of an image
MAX_DRAWS: Final = 18  # draws in a row without a new result
MAX_ELEMENTS: Final = 1 << 26  # elements of one tensor, and of all inputs, that can be run
MAX_COMPUTED: Final = 1 << 18  # elements of a tensor between an input and an index
MAX_NODES: Final = 100  # nodes between an input and an index
MAX_STEPS: Final = 5_000  # steps forward from one input
MAX_TRIALS: Final = 150  # analyses for one draw of numbers; a 25th at least
MAX_TRIAL_NODES: Final = 40_000  # nodes in all analyses for one draw of numbers

# profiles and guards
MAX_PROFILES: Final = 8  # profiles of one range
MAX_COREML: Final = 128  # shapes that Core ML takes of one input
MAX_TRIED: Final = 200_000  # sizes, or boxes of sizes, tried for one list of them
OLDEST_OPSET: Final = 7  # opset of a guard whose operators have kernels in onnxruntime

# buckets
MAX_SYMBOLS: Final = 3  # symbols with buckets
MAX_PADDED: Final = 20_000  # different sizes to pad to, of one symbol
MAX_BOXES: Final = 3_000  # candidate boxes, and different sizes to pad to, of several symbols
MAX_ASKED: Final = 400  # boxes that the solver looks for
BOUND_STEPS: Final = 480  # steps of the first lower bound; later ones take an eighth
MAX_WORK: Final = 1_000_000_000  # entries of the matrix of costs that all steps read

# costs
MAX_DIPS: Final = 64  # times that memory shrinks as a size grows
SCOPED: Final = 0.3  # share of nodes with scopes in their names from which on names are trusted
