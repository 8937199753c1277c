"""The one error that a change of a model gives when it cannot be proved right."""

from __future__ import annotations


class Refused(ValueError):
    """The model is not changed: what was asked for cannot be shown to be right.

    Attributes:
        node: what people call the node that stands in the way ('' where it is none).
        term: the condition that is broken, as text ('' where it is none).
    """

    def __init__(self, message: str, *, node: str = "", term: str = "") -> None:
        super().__init__(message)
        self.node, self.term = node, term
