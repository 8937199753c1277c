"""Limits on the files that are read, each with its quantity and unit."""

from __future__ import annotations

from typing import Final

from ..expr.limits import INT32_MAX

MAX_PROTOBUF: Final = INT32_MAX  # bytes of a message that protobuf reads
MAX_TEXT: Final = 1 << 28  # bytes of a model in a text format: one is read into several times its size
MAX_DEPTH: Final = 90  # messages inside each other that are looked into; protobuf itself reads 100
MAX_NESTING: Final = 256  # subgraphs and function bodies inside each other
MAX_TYPE_DEPTH: Final = 32  # sequences, maps and optionals inside each other in a type
MAX_DIM_PARAM: Final = 1_000  # characters of the name of a dim
MAX_IN_KEY: Final = 4096  # bytes of an attribute that tells equal nodes
MAX_COPIED: Final = 1 << 16  # bytes of a node that is copied; a larger one is read by field
MAX_CYCLE: Final = 12  # nodes of a cycle that a message lists
MAX_CHUNK: Final = 1 << 22  # bytes that are copied at once
# not `Final`: tests lower them
LARGE = 1 << 14  # min. bytes of a tensor field that is left in the file
LARGE_FILE = 1 << 20  # min. bytes of a file that is read without its weights
