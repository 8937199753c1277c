# compiled: see CONTRIBUTING.md
"""Replacing symbols in dims and conditions, and building terms again from changed arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .atom import Atom
from .core import Dim, IntoDim, Monomial, as_dim, constant, from_terms, of_atom


class Substitution:
    """Replaces symbols in dims and conditions, with a memo for its lifetime."""

    def __init__(self, bindings: Mapping[str, IntoDim]) -> None:
        self.bindings = {k: as_dim(v) for k, v in bindings.items()}
        self._memo: dict[Any, Any] = {}

    def __call__(self, dim: Dim) -> Dim:
        """`dim` with its symbols replaced."""
        if dim.free.isdisjoint(self.bindings):
            return dim
        found: Dim | None = self._memo.get(dim)
        if found is None:
            found = self._memo[dim] = rebuild(dim, self.atom)
        return found

    def atom(self, atom: Atom) -> Dim:
        """The dim that replaces `atom`."""
        if atom.kind == "sym":
            return self.bindings.get(atom.args[0]) or of_atom(atom)
        if atom.free.isdisjoint(self.bindings):
            return of_atom(atom)
        if atom.kind == "ite":
            cond, a, b = atom.args
            cond = cond.map_dims(self)
            if not cond.args:  # the other branch may have no value here
                return self(a if cond.is_true else b)
            return apply("ite", (cond, self(a), self(b)))
        return apply(atom.kind, tuple(self(a) for a in atom.args))


def rebuild(dim: Dim, replace: Callable[[Atom], Dim]) -> Dim:
    """`dim` with each atom replaced, in canonical form again."""
    table: dict[Monomial, int] = {}
    const, changed = dim.const, False
    for mono, c in dim.terms:
        new = [replace(atom) for atom in mono]
        if all(to.atom is atom for to, atom in zip(new, mono, strict=True)):
            table[mono] = table.get(mono, 0) + c
            continue
        changed = True
        product = constant(c)
        for to in new:
            product = product * to
        const += product.const
        for other, k in product.terms:
            table[other] = table.get(other, 0) + k
    return from_terms(table, const) if changed else dim


def apply(kind: str, args: tuple[Any, ...]) -> Dim:
    """The canonical dim of a non-polynomial term applied to `args`."""
    if kind == "//":
        return division.floor_div(*args)
    if kind == "pos":
        return minmax.pos(args[0])
    if kind == "broadcast":
        return minmax.broadcast(*args)
    return minmax.ite(*args)


from . import division, minmax  # noqa: E402, these build on what stands above
