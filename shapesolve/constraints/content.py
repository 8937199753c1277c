"""The constraints of a system, node by node, and each over the model's inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..expr import Cond, Dim, DimTooLarge, Substitution, eq, implies
from ..expr.limits import MAX_DIM_SIZE
from ..lazy import cached_property
from ..lower.lowered import stated_sites
from ..lower.records import Entry
from ..solve.facts.constraint import Constraint, Origin, Sides, Site
from .local import Definition, LocalWalk

Row = Entry | Definition


class Composition:
    """Expressions of the variables that have a definition, over the dims of the model's inputs.

    Nothing that was learned from requirements is used: a condition over the inputs says all that the local one says.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self.sizes: dict[str, Dim] = {}
        for row in rows:
            if isinstance(row, Definition) and row.axis >= 0:
                self._define(row)

    def _define(self, row: Definition) -> None:
        name = row.variable.name
        assert name is not None
        if name in self.sizes or not self.cond(row.numbers).is_true:
            return
        dim = self.dim(row.dim)
        if dim.size <= MAX_DIM_SIZE and name not in dim.free:
            self.sizes[name] = dim

    def dim(self, d: Dim) -> Dim:
        """`d` over the dims of the model's inputs (and variables without definition)."""
        if not d.terms:
            return d
        plain = self.sizes.get(d.name) if d.name is not None else None
        if plain is not None:
            return plain
        found = {n: self.sizes[n] for n in d.free if n in self.sizes}
        try:
            return Substitution(found)(d) if found else d
        except (DimTooLarge, ZeroDivisionError):
            return d

    def cond(self, c: Cond) -> Cond:
        """`c` over the dims of the model's inputs."""
        found = {n: self.sizes[n] for n in c.free if n in self.sizes}
        try:
            return c.subs(found) if found else c
        except (DimTooLarge, ZeroDivisionError):
            return c

    def row(self, row: Row) -> Cond:
        """A row as a condition over the dims of the model's inputs. A definition equates its variable with its
        expression over them.
        """
        stated = eq(row.variable, self.dim(row.dim)) if isinstance(row, Definition) else self.cond(row.cond)
        return stated if row.guard.is_true else implies(self.cond(row.guard), stated)


class Content:
    """The rows of a whole system, and the constraints built from them so far."""

    def __init__(self, build: Callable[[], LocalWalk]) -> None:
        self._build = build
        self._made: dict[int, Constraint] = {}

    @cached_property
    def walk(self) -> LocalWalk:
        """The walk that produced the constraints."""
        return self._build()

    @property
    def rows(self) -> Sequence[Row]:
        """The constraints, in graph order."""
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
        return stated_sites(walk, row.node.inputs, row.prefix, row.places)

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
