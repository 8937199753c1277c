# compiled: see CONTRIBUTING.md
"""Traversal of expressions without recursion, for any nesting depth."""

from __future__ import annotations

from .atom import Atom
from .limits import MAX_DEPTH
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


def nesting(node: Polynomial | Statement) -> int:
    """Nesting depth of quotients, maxima, choices and broadcasts."""
    depth: dict[Atom, int] = {}
    deepest = 0
    for atom in atoms_of(node):
        found = 0
        if atom.kind != "sym":
            for arg in atom.args:
                for inner in atoms_in(arg):
                    found = max(found, depth[inner])
            found += 1
        depth[atom] = found
        deepest = max(deepest, found)
    return deepest


def atoms_in(node: Polynomial | Statement) -> list[Atom]:
    """The outermost atoms of an expression or condition, with repetition."""
    if isinstance(node, Statement):
        return [a for arg in node.args for a in atoms_in(arg)]
    return [a for mono, _ in node.terms for a in mono]


def outgrows(node: Polynomial, size: int) -> bool:
    """True if an expression is larger than `size`, or nested too deeply."""
    return node.size > size or (node.size > MAX_DEPTH and nesting(node) > MAX_DEPTH)
