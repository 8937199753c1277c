"""The branches of an If: each is processed as a model of its own, with outer tensors as inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..change.draft import DraftNode
from ..change.refused import Refused
from ..expr import Dim, Shape
from ..lower.types import Tensor
from ..model import Graph, Node, TensorType
from .free_state import Freeing


def branched(freeing: Freeing, node: Node, drafted: DraftNode, run: Callable[[Freeing], None]) -> None:
    """Free the sizes in the branches of an If by `run`; what it gives is known afterwards.

    Raises:
        Refused: a branch holds on to a baked size.
    """
    made: list[list[tuple[int, Shape | None]]] = []
    for attribute, graph in node.subgraphs:
        inner = _inside(freeing, graph)
        run(inner)
        freeing.options.update(inner.options)
        freeing.draft.taken |= inner.draft.taken
        freeing.draft.node_names |= inner.draft.node_names
        body = drafted.graphs[attribute]
        body.nodes, body.added = inner.draft.graph.nodes, {**body.added, **inner.draft.graph.added}
        made.append([_type(inner, name) for name, _ in graph.outputs])
    for name, kinds in zip(node.outputs, zip(*made, strict=True), strict=True):
        freeing.bind(name, kinds[0][0], _either(freeing, [shape for _, shape in kinds]))


def _inside(freeing: Freeing, graph: Graph) -> Freeing:
    """An attempt at a branch."""
    model = freeing.model
    outer = model.graph
    stored = {name: found for name in graph.captures if (found := freeing.stored(name)) is not None}
    taken = [name for name in graph.captures if name not in stored and name not in dict(outer.inputs)]
    alone = replace(
        graph,
        inputs=(*outer.inputs, *((name, _declared(freeing, name)) for name in taken)),
        initializers={**graph.initializers, **stored},
    )
    inner = Freeing(
        replace(model, graph=alone),
        {name: freeing.baked[name] for name in freeing.symbols},
        freeing.sizes.sites,
        freeing.rows,
        freeing.choices,
    )
    inner.draft.taken |= freeing.draft.taken
    inner.draft.node_names |= freeing.draft.node_names
    for name in taken:
        inner.provenance.origins[name] = freeing.provenance.of(name)
    return inner


def _declared(freeing: Freeing, name: str) -> TensorType:
    known = freeing.walk.read(name, freeing.scope)
    if not isinstance(known, Tensor):
        raise Refused(f"a branch takes {name}, which is no tensor")
    dims = None if known.shape is None else tuple(_declared_size(freeing, d) for d in known.shape)
    return TensorType(known.dtype, dims)


def _declared_size(freeing: Freeing, size: Dim) -> int | str | None:
    if size.value is not None:
        return size.value
    if size.free <= {*freeing.symbols}:
        return str(size)
    return None  # data decides it, for a part at least: no number can hold it


def _type(inner: Freeing, name: str) -> tuple[int, Shape | None]:
    known = inner.walk.read(name, inner.scope)
    return (known.dtype, known.shape) if isinstance(known, Tensor) else (0, None)


def _either(freeing: Freeing, shapes: list[Shape | None]) -> Shape | None:
    """The shape that all branches have in common."""
    first, *others = shapes
    if first is None or any(s is None or len(s) != len(first) for s in others):
        return None
    names = {*freeing.symbols}
    return Shape(
        [
            d
            if d.free <= names and all(s is not None and s[k] is d for s in others)
            else freeing.walk.fresh("a size of a branch")
            for k, d in enumerate(first)
        ]
    )


__all__ = ["branched"]
