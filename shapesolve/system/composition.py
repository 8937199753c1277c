"""Substitutes definitions into each other: dims of tensors become expressions of the model's inputs."""

from __future__ import annotations

from collections.abc import Iterable

from ..expr import Cond, Dim, DimTooLarge, Substitution, eq, implies
from ..expr.limits import MAX_DIM_SIZE
from ..lower.local import Definition
from ..lower.records import Entry

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
