"""Limits on the lowering of a graph, each with its quantity and unit."""

from __future__ import annotations

from typing import Final

# values
MAX_ELEMENTS: Final = 1024  # max. elements of a tensor that are tracked or computed one by one
MAX_FLOATS: Final = 128  # the same of floats: longer vectors are weights, not scales or limits
MAX_BOUNDED: Final = 1 << 20  # elements of a stored integer tensor that is read for its bounds
MAX_EXTREMES: Final = 32  # max. distinct elements, some of them symbolic, in a minimum or maximum
MAX_RANK: Final = 64  # axes of a tensor, and elements of an unknown shape: what NumPy can hold
MAX_UNKNOWN: Final = 16  # elements of an unknown integer input that get a symbol each
MAX_BROADCAST: Final = 8  # different sizes on one axis that a broadcast compares
MAX_CHOICE: Final = 60  # size of a choice between two sizes, beyond which it is given a name
MAX_DENOMINATOR: Final = 512  # denominator of a simple fraction
MAX_TRIED: Final = 1 << 17  # sizes for which a factor is tried in its float type

# walks
MAX_ROUNDS: Final = 3  # walks over the graph, for ranks that become known by a later one
MAX_DERIVED: Final = 32  # nodes in a row whose integers are computed of those that they read
MAX_EXPANDED: Final = 20_000  # nodes of function bodies in one walk, and 20 for each node of the file
