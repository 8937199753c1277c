# compiled: see CONTRIBUTING.md
"""Visitor for atoms, with one method per kind.

The hottest paths check the kind themselves, which saves a call: reading through facts (`solve.facts.facts`),
substitution, bounds, and
evaluation. A new kind must be added there and to every `Visitor`; mypy enforces it.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from .atom import Atom
from .cond import Cond
from .core import Dim

T = TypeVar("T", covariant=True)


class Visitor(Protocol[T]):
    """One method for each kind of atom; arguments are passed unvisited."""

    def _symbol(self, atom: Atom) -> T: ...
    def _quotient(self, n: Dim, d: Dim) -> T: ...
    def _positive(self, x: Dim) -> T: ...
    def _broadcast(self, sizes: tuple[Dim, ...]) -> T: ...
    def _choice(self, cond: Cond, a: Dim, b: Dim) -> T: ...


def visit(atom: Atom, visitor: Visitor[T]) -> T:
    """Calls the visitor's method for the kind of an atom."""
    kind, args = atom.kind, atom.args
    if kind == "sym":
        return visitor._symbol(atom)
    if kind == "//":
        return visitor._quotient(args[0], args[1])
    if kind == "pos":
        return visitor._positive(args[0])
    if kind == "broadcast":
        return visitor._broadcast(args)
    return visitor._choice(args[0], args[1], args[2])
