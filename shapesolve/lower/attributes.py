# compiled: see CONTRIBUTING.md
"""Attributes of a node, with type checks, and the errors for nodes that cannot run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..model import AttrRef, Graph

_INTS = frozenset((int,))


class InvalidNode(ValueError):
    """Raised for a node that cannot run whatever its inputs are; the message is a sentence."""


class MalformedNode(InvalidNode):
    """Raised for a node that does not fit its operator, so that the model cannot be loaded."""


class Attributes:
    """Access to a node's attributes by name and type.

    `attrs` are the attributes of the enclosing function call, which the node may refer to.
    """

    __slots__ = ("attributes", "attrs")

    def __init__(self, attributes: Mapping[str, Any], attrs: dict[str, Any] | None) -> None:
        self.attributes, self.attrs = attributes, attrs

    def attr(self, name: str, default: Any = None) -> Any:
        """Return the attribute's value (int, float, str, tuples of these, `Constant`, `Graph`), or `default`."""
        value = self.attributes.get(name)
        if isinstance(value, AttrRef):
            value = (self.attrs or {}).get(value.name)
        return default if value is None else value

    def int_attr(self, name: str, default: int | None) -> int:
        """An integer attribute; one without a default must be given."""
        value = self.attr(name, default)
        if not isinstance(value, int):
            raise InvalidNode(f"attribute {name} must be an integer")
        return value

    def ints_attr(self, name: str) -> tuple[int, ...] | None:
        """A list-of-integers attribute, or None when it is absent."""
        value = self.attr(name)
        if value is None:
            return None
        if not isinstance(value, tuple) or not _INTS.issuperset(map(type, value)):
            raise InvalidNode(f"attribute {name} must be a list of integers")
        return value

    def text_attr(self, name: str, default: str) -> str:
        """A string attribute."""
        value = self.attr(name, default)
        return value if isinstance(value, str) else default

    def graph_attr(self, name: str) -> Graph:
        """A subgraph attribute."""
        value = self.attr(name)
        if not isinstance(value, Graph):
            raise InvalidNode(f"attribute {name} must be a graph")
        return value
