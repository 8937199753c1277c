"""The rows of a constraint system, stated node by node, and each over the model's inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..expr import Cond, implies
from ..lazy import cached_property
from ..lower.local import Definition, LocalWalk
from ..propagate.constraint import Constraint, Origin, Sides, Site
from .composition import Composition, Row


class Content:
    """The rows of a whole system, and the constraints built from them so far."""

    def __init__(self, build: Callable[[], LocalWalk]) -> None:
        self._build = build
        self._made: dict[int, Constraint] = {}

    @cached_property
    def walk(self) -> LocalWalk:
        """The walk that stated the rows."""
        return self._build()

    @property
    def rows(self) -> Sequence[Row]:
        """The stated rows, in graph order."""
        return self.walk.rows

    @cached_property
    def composition(self) -> Composition:
        """The definitions substituted into each other."""
        return Composition(self.rows)

    @cached_property
    def definitions(self) -> dict[str, int]:
        """Index of the row that defines each variable."""
        return {
            row.variable.name or "": number
            for number, row in reversed(list(enumerate(self.rows)))
            if isinstance(row, Definition)
        }

    def local(self, number: int) -> Cond:
        """Row `number` over the dims of tensors."""
        row = self.rows[number]
        return row.cond if row.guard.is_true else implies(row.guard, row.cond)

    def over_inputs(self, number: int) -> Cond:
        """Row `number` over the dims of the model's inputs."""
        return self.composition.row(self.rows[number])

    def label(self, number: int) -> str:
        """The label of the node that states row `number`. Empty for inputs, assumptions and the user's conditions."""
        row = self.rows[number]
        return f"{row.prefix}{row.node.label}" if row.node is not None else ""

    def sites(self, number: int) -> tuple[Site, ...]:
        """The tensor axes that row `number` mentions; for a definition, the defined one."""
        row, walk = self.rows[number], self.walk
        if isinstance(row, Definition):
            return (Site(row.tensor, row.axis),) if row.axis >= 0 else ()
        if row.node is None:
            return ()
        names = row.node.inputs
        return tuple(
            Site(walk.full_name(names[i], row.prefix), axis) for i, axis in row.places if i < len(names)
        )

    def constraint(self, number: int) -> Constraint:
        """Row `number` as a constraint."""
        found = self._made.get(number)
        if found is None:
            row = self.rows[number]
            op_type = row.node.op_type if row.node is not None else ""
            origin = Origin(self.label(number), op_type, row.why, self.sites(number))
            sides = None
            if isinstance(row, Definition):
                sides = Sides(row.variable, row.dim, self.composition.dim(row.dim))
            found = self._made[number] = Constraint(
                row.cond, row.role, origin, row.guard, self.over_inputs(number), sides
            )
        return found
