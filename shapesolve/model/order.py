"""Topological order of the nodes of a graph; ties follow the stored order. NetworkX decides."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from .errors import ModelError, quoted
from .limits import MAX_CYCLE

_Key = TypeVar("_Key", bound=Hashable)


def topological_order(
    reads: Sequence[Iterable[str]], producers: Mapping[str, int], label: Callable[[int], str], owner: str
) -> list[int]:
    """Return positions of nodes such that each follows those whose outputs it reads.

    Args:
        reads: Tensors that each node reads. Names without a producer are ignored.
        producers: Position of the node that computes a tensor.
        label: Function that names the node at a position, for errors.
        owner: Name of the graph, for errors.

    Raises:
        ModelError: If nodes depend on each other in a cycle.
    """
    import networkx as nx

    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(reads)))
    for index, names in enumerate(reads):
        graph.add_edges_from([(producers[name], index) for name in names if name in producers])
    with suppress(nx.NetworkXUnfeasible):
        return list(nx.lexicographical_topological_sort(graph))
    cycle = find_cycle({i: list(graph.successors(i)) for i in graph})
    raise ModelError(f"{owner} has a cycle: {render_cycle([label(i) for i in cycle])}")


def find_cycle(edges: Mapping[_Key, Iterable[_Key]]) -> list[_Key]:
    """Keys of one cycle in order, starting with the key that comes first in `edges`; empty without one."""
    import networkx as nx

    rank = {key: i for i, key in enumerate(edges)}
    graph: nx.DiGraph[_Key] = nx.DiGraph()
    graph.add_nodes_from(edges)
    graph.add_edges_from([(a, b) for a, targets in edges.items() for b in targets if b in rank])
    loops = [
        part
        for part in nx.strongly_connected_components(graph)
        if len(part) > 1 or graph.has_edge(*(next(iter(part)),) * 2)
    ]
    if not loops:
        return []
    part = min(loops, key=lambda part: min(rank[key] for key in part))
    start = min(part, key=rank.__getitem__)
    if graph.has_edge(start, start):
        return [start]
    inside: nx.DiGraph[_Key] = nx.DiGraph()
    inside.add_edges_from([(a, b) for a in sorted(part, key=rank.__getitem__) for b in edges[a] if b in part])
    # Every node of a strong component is on a cycle: the shortest way from a successor back to the start.
    onward, steps = {}, {start: 0}
    for key, after in nx.bfs_predecessors(inside.reverse(copy=False), start):
        onward[key], steps[key] = after, steps[after] + 1
    at = min(inside.successors(start), key=lambda key: (steps[key], rank[key]))
    cycle = [start]
    while at != start:
        cycle.append(at)
        at = onward[at]
    return cycle


def render_cycle(labels: Sequence[str]) -> str:
    """Text of a cycle: `'a' -> 'b' -> 'a'`, with the middle of a long cycle left out."""
    names = [quoted(label) for label in (*labels, labels[0])]
    if len(names) > MAX_CYCLE:
        half = MAX_CYCLE // 2
        left_out = len(names) - 2 * half
        names = [*names[:half], f"({left_out:,} more)", *names[-half:]]
    return " -> ".join(names)
