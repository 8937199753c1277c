"""Ranks of inputs that are declared without one, from what uses them: backwards through nodes that keep the rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..expr import Shape, symbol
from ..model import Node
from .registry import Ranks
from .types import Known, Tensor
from .walk import Walk


def ranks_of_inputs(walk: Walk, given: Mapping[str, Known]) -> dict[str, Shape]:
    """Shapes, of new symbols, for the main graph's inputs whose rank only their users tell."""
    missing = [name for name, known in given.items() if isinstance(known, Tensor) and known.shape is None]
    if not missing:
        return {}
    ranks = {
        n: len(k.shape) for n, k in walk.tensors.items() if isinstance(k, Tensor) and k.shape is not None
    }
    ranks.update((name, len(shape)) for name, shape in walk.hints.items())
    for node in reversed(walk.model.graph.nodes):
        if any(n and n not in ranks for n in node.inputs):
            rule = walk.operators.rule(node, walk.model.opsets)
            ranks.update(_ranks_before(node, "" if rule is None else rule.rank_relation, ranks))
    found = ((name, ranks[name]) for name in missing if name in ranks)
    return {name: Shape(symbol(f"{name}_d{i}") for i in range(rank)) for name, rank in found}


def _ranks_before(node: Node, relation: Ranks, ranks: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Ranks of a node's inputs that follow from that of its first output."""
    rank = ranks.get(node.outputs[0]) if node.outputs else None
    if rank is None:
        return
    if relation == "first":
        yield from ((n, rank) for n in node.inputs[:1] if n)
    elif relation == "all":
        yield from ((n, rank) for n in node.inputs if n)
    elif relation == "broadcast":
        unknown = [n for n in dict.fromkeys(node.inputs) if n and n not in ranks]
        if len(unknown) == 1 and all(ranks[n] < rank for n in node.inputs if n in ranks):
            yield unknown[0], rank
