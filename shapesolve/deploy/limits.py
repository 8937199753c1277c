"""Limits on the work for sizes, inputs, profiles, buckets, and costs, each with its quantity and unit."""

from __future__ import annotations

from typing import Final

# sizes and inputs
MAX_SIZE: Final = 1 << 20  # max. size in a linear search, and max. sizes tried in one search
MAX_DRAWS: Final = 18  # max. consecutive samples without a new result
MAX_ELEMENTS: Final = 1 << 26  # max. elements of one tensor, and of all inputs, for a run
MAX_COMPUTED: Final = 1 << 18  # max. elements of a tensor between an input and an index
MAX_NODES: Final = 100  # max. nodes between an input and an index
MAX_STEPS: Final = 5_000  # max. steps forward from one input
MAX_TRIALS: Final = 150  # max. analyses per search for values; the minimum is a 25th
MAX_TRIAL_NODES: Final = 40_000  # max. nodes in all analyses per search for values

# profiles and guards
MAX_PROFILES: Final = 8  # max. profiles per range
MAX_COREML: Final = 128  # max. shapes per input in Core ML
MAX_TRIED: Final = 200_000  # max. sizes, or boxes of sizes, tried per enumeration
OLDEST_OPSET: Final = 7  # min. opset of a guard, for which onnxruntime has kernels of all operators

# buckets
MAX_SYMBOLS: Final = 3  # max. symbols with buckets
MAX_PADDED: Final = 20_000  # max. different sizes to pad to, of one symbol
MAX_BOXES: Final = 3_000  # max. candidate boxes, and different sizes to pad to, of several symbols
MAX_ASKED: Final = 400  # max. boxes that the solver looks for
BOUND_STEPS: Final = 480  # steps of the first lower bound; later ones take an eighth
MAX_WORK: Final = 1_000_000_000  # max. entries of the cost matrix read in all steps

# costs
MAX_DIPS: Final = 64  # max. number of times that memory shrinks as a size grows
SCOPED: Final = 0.3  # min. share of nodes with scopes in their names for names to be trusted
