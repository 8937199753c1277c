"""Where nodes go in Model Explorer's tree of layers: the scopes of our own explorer, constants where they are read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from ..report.explorer_scopes import Scoped, Scopes, find_scopes

if TYPE_CHECKING:
    from ..graph import Graph


def namespaces(graph: Graph) -> list[str]:
    """The namespace of each node of a graph, in their order: ``layers.0/attn``, or an empty text at the top."""
    inputs = {name for name, _ in graph.inputs if name not in graph.initializers}
    weights = graph.initializers.keys() - inputs
    fixed = set(weights)  # names whose data no input decides
    scoped: list[Scoped] = []
    for node in graph.nodes:
        reads = [name for name in node.inputs if name]
        constant = (
            not node.subgraphs and fixed.issuperset(reads) and (bool(reads) or node.op_type == "Constant")
        )
        if constant:
            fixed.update(node.outputs)
        stored = tuple(name for name in reads if name in weights)
        scoped.append(Scoped(node.label, node.op_type, stored, constant))
    found = find_scopes(scoped)
    paths = _paths(found)
    return _constants_where_read(graph, scoped, [paths[s] if s >= 0 else "" for s in found.of])


def _paths(scopes: Scopes) -> list[str]:
    """The path of each scope; of brothers of one name, the later ones get a number."""
    paths: list[str] = []
    taken: set[str] = set()
    for parent, name in scopes.rows:
        path = f"{paths[parent]}/{name}" if parent >= 0 else name
        number = 1
        while path in taken:
            number += 1
            path = f"{paths[parent]}/{name} {number}" if parent >= 0 else f"{name} {number}"
        taken.add(path)
        paths.append(path)
    return paths


def _constants_where_read(graph: Graph, scoped: Sequence[Scoped], paths: list[str]) -> list[str]:
    """Constants of no scope, and what is made of them alone, go to the scope that all their readers share."""
    readers: dict[str, list[int]] = {}
    for i, node in enumerate(graph.nodes):
        for name in filter(None, node.inputs):
            readers.setdefault(name, []).append(i)
    for i in reversed(range(len(paths))):
        if scoped[i].hidden and "/" not in scoped[i].label.strip("/"):
            reading = [paths[r].split("/") for name in graph.nodes[i].outputs for r in readers.get(name, ())]
            if reading:
                paths[i] = "/".join(_shared(reading))
    return paths


def _shared(paths: Sequence[list[str]]) -> list[str]:
    return [parts[0] for parts in takewhile(lambda parts: len(set(parts)) == 1, zip(*paths))]
