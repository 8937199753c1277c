"""`Effort`: how much engines were asked, counted so that who tries things can keep to a budget."""

from __future__ import annotations


class Effort:
    """Counts the questions that had to be answered by engines which share it.

    Attributes:
        spent: what they cost, in nodes that are lowered in about the same time.
    """

    def __init__(self) -> None:
        self.spent = 0

    def count(self, relations: int) -> None:
        """Counts a query with this number of relations."""
        self.spent += 150 + 8 * relations  # as measured
