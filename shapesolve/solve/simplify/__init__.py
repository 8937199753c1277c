"""Simplifies expressions in a domain of sizes: finds the form that is cheapest to read, with proof.

`Domain` is a set of sizes and proved facts about it, `Simplifier` finds forms, and `Readable` applies it to a model.
"""

from .cost import ReadingCost, cost
from .domain import Domain
from .readable import Readable, accepted
from .simplifier import Simplifier
from .strides import Strides

__all__ = ["Domain", "Readable", "ReadingCost", "Simplifier", "Strides", "accepted", "cost"]
