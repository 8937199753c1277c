"""Kinds of operators that graphs are drawn from, a file for each family."""

from . import contrib, control, elementwise, exported, indexing, layout, neural, sequences, shaping, spatial
from .registry import KINDS, Kind, kinds_at

__all__ = [
    "KINDS",
    "Kind",
    "contrib",
    "control",
    "elementwise",
    "exported",
    "indexing",
    "kinds_at",
    "layout",
    "neural",
    "sequences",
    "shaping",
    "spatial",
]
