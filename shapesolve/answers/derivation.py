"""`explain`: derivation of a tensor's shape, node by node from the inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ..causes.limits import MAX_PLACES
from ..causes.trace import Link, Tracer
from ..expr import ZERO, Dim, Shape
from ..solve.facts.constraint import Site
from .claim import no_tensor

if TYPE_CHECKING:
    from ..lower.lowered import Lowered


class Source(NamedTuple):
    """An input or initializer at the start of a derivation."""

    kind: str
    tensor: str
    shape: Shape | None


class Operand(NamedTuple):
    """An input of a node, with its shape."""

    tensor: str
    shape: Shape | None


@dataclass(frozen=True, slots=True)
class DerivationStep:
    """One node of a derivation: inputs, output, and requirements."""

    node: str
    op_type: str
    inputs: tuple[Operand, ...]
    output: str
    shape: Shape | None
    requires: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AxisStep:
    """Step in the derivation of one dim. ``kind`` is ``input``, ``initializer``, ``passes`` (unchanged), or
    ``computes``.

    `axis` is None if the dim is an element of a tensor; `node` is empty for inputs and initializers.
    """

    kind: str
    node: str
    op_type: str
    tensor: str
    axis: int | None
    dim: Dim


@dataclass(frozen=True, slots=True)
class AxisDerivation:
    """Derivation of one axis's dim, in graph order. `cut` is true if earlier steps were left out."""

    axis: int
    dim: Dim
    steps: tuple[AxisStep, ...]
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Derivation:
    """Nodes that determine a tensor's shape, in graph order, with their inputs and initializers.

    `axes` has the derivation of each axis; it is empty if the rank is unknown.
    """

    tensor: str
    shape: Shape | None
    sources: tuple[Source, ...]
    steps: tuple[DerivationStep, ...]
    axes: tuple[AxisDerivation, ...] = ()

    def __repr__(self) -> str:
        shape = self.shape if self.shape is not None else "of unknown rank"
        return f"<Derivation of {self.tensor} {shape}: {len(self.steps)} nodes>"

    def __str__(self) -> str:
        lines = [f"{self.tensor} {self.shape if self.shape is not None else 'of unknown rank'}"]
        lines += [f"  {kind} {n} {shape if shape is not None else '?'}" for kind, n, shape in self.sources]
        for i, s in enumerate(self.steps, 1):
            kind = f" ({s.op_type})" if s.op_type not in s.node else ""
            lines.append(f"{i:>3}. {s.node}{kind}")
            lines += [f"        {n} {shape if shape is not None else '?'}" for n, shape in s.inputs]
            lines.append(f"     -> {s.output} {s.shape if s.shape is not None else '?'}")
            lines += [f"     needs {text}" for text in s.requires]
        return "\n".join(lines)


def explain(lowered: Lowered, tensor: str, axis: int | None = None, depth: int | None = None) -> Derivation:
    """Return the derivation of `tensor`, or of one `axis` of it. With `depth`, only the last nodes of each axis.

    Raises:
        KeyError: the model has no such tensor.
        ValueError: it has no such axis.
    """
    if tensor not in lowered.tensors:
        raise KeyError(no_tensor(tensor, lowered))
    shape = lowered.shapes.get(tensor)
    rank = len(shape) if shape is not None else 0
    if axis is not None and not -rank <= axis < rank:
        raise ValueError(f"{tensor} {shape if shape is not None else 'of unknown rank'} has no axis {axis}")
    tracer = Tracer(lowered)
    order = {name: i for i, name in enumerate(lowered.producers)}
    wanted = range(rank) if axis is None else (axis % rank,)
    axes = (
        tuple(_axis(tracer, tensor, shape[k], k, order, depth) for k in wanted) if shape is not None else ()
    )
    links = tracer.links(Site(tensor, None if axis is None else axis % rank), to_inputs=True)
    if not links:
        made = lowered.producers.get(tensor)
        if made is None:
            kind = "input" if tensor in lowered.inputs else "initializer"
            return Derivation(tensor, shape, (Source(kind, tensor, shape),), (), axes)
        links = [Link("computes", tensor, None, ZERO, *made)]
    sources: dict[Source, None] = {}
    steps: dict[str, tuple[int, DerivationStep]] = {}
    for link in links:
        if link.node is None:
            sources[Source(link.kind, link.tensor, lowered.shapes.get(link.tensor))] = None
        elif link.label not in steps:
            steps[link.label] = (order.get(link.tensor, 0), _step(lowered, link))
    ordered = [step for _, step in sorted(steps.values(), key=lambda pair: pair[0])]
    return Derivation(
        tensor, shape, tuple(sources), tuple(ordered if depth is None else ordered[-depth:]), axes
    )


def _axis(
    tracer: Tracer, tensor: str, dim: Dim, axis: int, order: Mapping[str, int], depth: int | None
) -> AxisDerivation:
    links = tracer.links(Site(tensor, axis), to_inputs=True, most=MAX_PLACES)
    links = sorted(links, key=lambda link: order.get(link.tensor, -1))
    kept = links if depth is None else [n for n in links if n.node is not None][-depth:]
    steps = [
        AxisStep(n.kind, n.label, n.node.op_type if n.node else "", n.tensor, n.axis, n.dim) for n in kept
    ]
    return AxisDerivation(axis, dim, tuple(steps), len(kept) < len(links))


def _step(lowered: Lowered, link: Link) -> DerivationStep:
    assert link.node is not None
    names = [lowered.full_name(n, link.prefix) for n in link.node.inputs if n]
    needs = dict.fromkeys(str(c) for c in lowered.constraints.for_node(link.label) if c.role == "requirement")
    return DerivationStep(
        link.label,
        link.node.op_type,
        tuple(Operand(n, lowered.shapes.get(n)) for n in names),
        link.tensor,
        lowered.shapes.get(link.tensor),
        tuple(needs),
    )
