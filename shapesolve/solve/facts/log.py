# compiled: see CONTRIBUTING.md
"""`ConstraintSet`: all constraints on a model's sizes, in graph order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, overload

from ...expr import Cond, implies

if TYPE_CHECKING:
    from .constraint import Constraint, Role


class Stated(Protocol):
    """Attributes of a constraint that the solver reads: condition, role, guard. The walk's log entries have it too, so
    that they need no conversion.
    """

    @property
    def cond(self) -> Cond:
        """The condition."""

    @property
    def role(self) -> Role:
        """Kind of the constraint."""

    @property
    def guard(self) -> Cond:
        """The path condition under which it applies."""


def all_rows(constraints: Sequence[Stated]) -> ConstraintSet:
    """The constraints as a `ConstraintSet`; unchanged if they are one."""
    return constraints if isinstance(constraints, ConstraintSet) else ConstraintSet(constraints)


def need(row: Stated) -> Cond:
    """The condition that must hold: `cond`, or "guard implies cond" under a guard."""
    return row.cond if row.guard.is_true else implies(row.guard, row.cond)


def _as_constraint(row: Stated) -> Constraint:
    from .constraint import Constraint

    if not isinstance(row, Constraint):
        raise TypeError("a set of rows that are not constraints needs `make`")
    return row


class ConstraintSet(Sequence["Constraint"]):
    """A sequence of constraints, built on demand from rows.

    `rows` are the rows, or a function that returns them; `make` turns the row of an index into a `Constraint` (not needed if
    the rows are constraints). A selection (`for_node`, `role`, ...) keeps the numbers of its members in `numbers`.
    """

    def __init__(
        self,
        rows: Sequence[Stated] | Callable[[], Sequence[Stated]],
        make: Callable[[int], Constraint] | None = None,
        numbers: Sequence[int] | None = None,
    ) -> None:
        self._rows = rows
        self._numbers = numbers
        self._make = make
        self._made: dict[int, Constraint] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return ConstraintSet, (tuple(self),)

    @property
    def rows(self) -> Sequence[Stated]:
        """All rows of the full set, also those that are not selected."""
        if callable(self._rows):
            self._rows = self._rows()
        return self._rows

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of the constraints in this set."""
        if self._numbers is None:
            self._numbers = range(len(self.rows))
        return self._numbers

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> Constraint: ...
    @overload
    def __getitem__(self, index: slice) -> ConstraintSet: ...
    def __getitem__(self, index: int | slice) -> Constraint | ConstraintSet:
        if isinstance(index, slice):
            return self._selection(self.numbers[index])
        return self.numbered(self.numbers[index])

    def __iter__(self) -> Iterator[Constraint]:
        return map(self.numbered, self.numbers)

    def numbered(self, number: int) -> Constraint:
        """The constraint with this number in the full set."""
        found = self._made.get(number)
        if found is None:
            row = self.rows[number]
            if self._make is not None:
                found = self._make(number)
            else:
                found = _as_constraint(row)
            self._made[number] = found
        return found

    def stated(self) -> Iterator[tuple[int, Stated]]:
        """Numbers and rows, without making constraints."""
        rows = self.rows
        return ((n, rows[n]) for n in self.numbers)

    def for_node(self, label: str) -> ConstraintSet:
        """The constraints that a node (by its label) states."""
        return self._selection([n for n in self.numbers if self.numbered(n).origin.node == label])

    def for_symbol(self, name: str) -> ConstraintSet:
        """The constraints that mention a symbol."""
        return self._selection(
            [n for n, row in self.stated() if name in row.cond.free or name in row.guard.free]
        )

    def role(self, *roles: Role) -> ConstraintSet:
        """The constraints of some roles."""
        return self._selection([n for n, row in self.stated() if row.role in roles])

    def _selection(self, numbers: Sequence[int]) -> ConstraintSet:
        new = ConstraintSet(self.rows, self._make, numbers)
        new._made = self._made
        return new

    def __repr__(self) -> str:
        return f"<ConstraintSet of {len(self)}>"
