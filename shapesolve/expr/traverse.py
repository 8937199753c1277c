# compiled: see CONTRIBUTING.md
"""Walking expressions without recursion: deep nesting must not meet Python's recursion limit."""

from __future__ import annotations

from .atom import Atom
from .structure import Polynomial, Statement


def atoms_of(*roots: Polynomial | Statement) -> list[Atom]:
    """All atoms below `roots`, each once, arguments before the atoms that use them."""
    found: dict[Atom, None] = {}
    stack: list[Polynomial | Statement | Atom | None] = [*roots[::-1]]
    while stack:
        node = stack.pop()
        if node is None:  # all below the atom that comes next have been found
            atom = stack.pop()
            assert isinstance(atom, Atom)
            found[atom] = None
        elif isinstance(node, Atom):
            if node.kind == "sym":
                found[node] = None
            elif node not in found:
                stack += (node, None, *node.args[::-1])
        elif isinstance(node, Statement):
            stack += node.args[::-1]
        else:
            for mono, _ in node.terms[::-1]:
                stack += mono[::-1]
    return list(found)
