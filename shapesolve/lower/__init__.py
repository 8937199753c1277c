"""Lowering: turns each node into output shapes and constraints, by the rule of its operator."""

from .op import InvalidNode, Op
from .registry import DEFAULT, Registry, lower, signature
from .rule import Rule
from .types import Known, Map, Optional, Sequence, Tensor
from .values import Ratio, Value

__all__ = [
    "DEFAULT",
    "InvalidNode",
    "Known",
    "Map",
    "Op",
    "Optional",
    "Ratio",
    "Registry",
    "Rule",
    "Sequence",
    "Tensor",
    "Value",
    "lower",
    "signature",
]
