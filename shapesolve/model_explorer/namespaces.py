"""Where nodes go in Model Explorer's tree of layers: the scopes of our own explorer, as paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..report.explorer_scopes import Scoped, Scopes, find_scopes

if TYPE_CHECKING:
    from ..model import Graph


def namespaces(graph: Graph) -> list[str]:
    """The namespace of each node of a graph, in their order: ``layers.0/attn``, or an empty text at the top."""
    inputs = {name for name, _ in graph.inputs if name not in graph.initializers}
    weights = graph.initializers.keys() - inputs
    fixed = set(weights)  # names whose data no input decides
    makers: dict[str, int] = {}
    scoped: list[Scoped] = []
    for i, node in enumerate(graph.nodes):
        reads = [name for name in node.inputs if name]
        made_of_constants = fixed.issuperset(reads) and (bool(reads) or node.op_type == "Constant")
        constant = made_of_constants and not node.subgraphs
        if constant:
            fixed.update(node.outputs)
        stored = tuple(name for name in reads if name in weights)
        sources = tuple(makers[name] for name in reads if name in makers)
        makers.update(dict.fromkeys(node.outputs, i))
        scoped.append(Scoped(node.label, node.op_type, stored, constant, sources))
    found = find_scopes(scoped)
    paths = _paths(found)
    return [paths[scope] if scope >= 0 else "" for scope in found.of]


def _paths(scopes: Scopes) -> list[str]:
    """The path of each scope; of brothers of one name, the later ones get a number."""
    paths: list[str] = []
    taken: set[str] = set()
    for parent, name in scopes.rows:
        path = start = f"{paths[parent]}/{name}" if parent >= 0 else name
        number = 1
        while path in taken:
            number += 1
            path = f"{start} {number}"
        taken.add(path)
        paths.append(path)
    return paths
