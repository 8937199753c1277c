"""`Effort`: counts the work of solver queries, for budgets that several engines share."""

from __future__ import annotations


class Effort:
    """Counts the work of solver queries.

    Attributes:
        spent: what they cost, in nodes that are lowered in about the same time.
    """

    def __init__(self) -> None:
        self.spent = 0

    def count(self, relations: int) -> None:
        """Adds the cost of a query with this number of relations."""
        self.spent += 150 + 8 * relations  # as measured
