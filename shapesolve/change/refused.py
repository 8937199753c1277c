"""`Refused`: the error for an edit of a model that cannot be proved right."""

from __future__ import annotations


class Refused(ValueError):
    """An edit of a model that is refused, as it cannot be shown to be right; the model stays unchanged.

    Attributes:
        node: the display name of the node that prevents it ('' if there is none).
        term: the condition that is broken, as text ('' if there is none).
    """

    def __init__(self, message: str, *, node: str = "", term: str = "") -> None:
        super().__init__(message)
        self.node, self.term = node, term
