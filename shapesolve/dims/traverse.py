"""Walking expressions without recursion: deep nesting must not meet Python's recursion limit."""

from __future__ import annotations

from .cond import Cond
from .core import Atom, Dim


def atoms_of(*roots: Dim | Cond) -> list[Atom]:
    """All atoms below `roots`, each once, arguments before the atoms that use them."""
    found: dict[Atom, None] = {}
    stack: list[tuple[Dim | Cond | Atom, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        node, entered = stack.pop()
        if isinstance(node, Atom):
            if entered:
                found[node] = None
            elif node not in found:
                stack.append((node, True))
                if node.kind != "sym":
                    stack.extend((a, False) for a in reversed(node.args))
        elif isinstance(node, Cond):
            stack.extend((a, False) for a in reversed(node.args))
        else:
            stack.extend((a, False) for mono, _ in reversed(node.terms) for a in reversed(mono))
    return list(found)
