"""`Refused`: the error for an edit of a model that cannot be proved right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from ..answers.rejected import Rejected


class Refused(ValueError):
    """An edit of a model that is refused, as it cannot be shown to be right; the model stays unchanged.

    Attributes:
        node: the display name of the node that prevents it ('' if there is none).
        term: the condition that is broken, as text ('' if there is none).
        rejected: the conditions that the requested sizes break.
    """

    def __init__(
        self, message: str, *, node: str = "", term: str = "", rejected: Sequence[Rejected] = ()
    ) -> None:
        super().__init__(message)
        self.node, self.term, self.rejected = node, term, tuple(rejected)

    @classmethod
    def at_sizes(cls, rejected: Sequence[Rejected]) -> Self:
        """The refusal of sizes that the model does not accept."""
        first = rejected[0]
        node = first.constraint.node if first.constraint is not None else ""
        return cls(first.message, node=node, term=first.text, rejected=rejected)
