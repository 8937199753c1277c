"""A graph as NetworkX sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .graph import Graph

if TYPE_CHECKING:
    import networkx as nx


class _Keys:
    """Hands out distinct keys: the first to ask for a text gets it, the others get a number added."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._last: dict[str, int] = {}

    def take(self, text: str) -> str:
        key = text
        while key in self._taken:
            self._last[text] = self._last.get(text, 1) + 1
            key = f"{text}#{self._last[text]}"
        self._taken.add(key)
        return key


def to_networkx(graph: Graph) -> nx.DiGraph[str]:
    """See `Graph.to_networkx`."""
    import networkx as nx

    result: nx.DiGraph[str] = nx.DiGraph(name=graph.name)
    keys = _Keys()
    sources: dict[str, str] = {}
    consumers = []
    for node in graph.nodes:
        key = keys.take(node.label)
        consumers.append((key, node))
        sources.update((name, key) for name in node.outputs if name)
        result.add_node(key, kind="node", op_type=node.op_type, domain=node.domain, index=node.index)
    outside = {name: "input" for name, _ in graph.inputs}
    outside.update((name, "initializer") for name in graph.initializers if name not in outside)
    outside.update((name, "outer") for name in graph.captures if name not in outside)
    for name, kind in outside.items():
        sources[name] = key = keys.take(name)
        result.add_node(key, kind=kind)
    for key, node in consumers:
        for name in dict.fromkeys((*filter(None, node.inputs), *node.captures)):
            source = sources[name]
            tensors = result.edges[source, key]["tensors"] if result.has_edge(source, key) else ()
            result.add_edge(source, key, tensors=(*tensors, name))
    return result
