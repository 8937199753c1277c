# compiled: see CONTRIBUTING.md
"""Walking expressions without recursion: deep nesting must not meet Python's recursion limit."""

from __future__ import annotations

from .atom import Atom
from .cond import Cond
from .core import Dim, of_atom


def atoms_of(*roots: Dim | Cond) -> list[Atom]:
    """All atoms below `roots`, each once, arguments before the atoms that use them."""
    found: dict[Atom, None] = {}
    stack: list[Dim | Cond | Atom | None] = [*roots[::-1]]
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
        elif isinstance(node, Cond):
            stack += node.args[::-1]
        else:
            for mono, _ in node.terms[::-1]:
                stack += mono[::-1]
    return list(found)


def symbols_in(*roots: Dim | Cond) -> dict[str, Dim]:
    """The symbols that `roots` depend on, by name."""
    return {atom.args[0]: of_atom(atom) for atom in atoms_of(*roots) if atom.kind == "sym"}
