"""`explain`: how a tensor's shape came about, from the inputs to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..expr import ZERO, Shape
from .claim import no_tensor
from .trace import Link, Tracer

if TYPE_CHECKING:
    from ..lower.lowered import Lowered


@dataclass(frozen=True, slots=True)
class DerivationStep:
    """One node on the way: what it read, what it made, and what it requires of its inputs."""

    node: str
    op_type: str
    inputs: tuple[tuple[str, Shape | None], ...]
    output: str
    shape: Shape | None
    requires: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Derivation:
    """The nodes that a tensor's shape depends on, in graph order; inputs and initializers that it starts from."""

    tensor: str
    shape: Shape | None
    sources: tuple[tuple[str, str, Shape | None], ...]
    steps: tuple[DerivationStep, ...]

    def __str__(self) -> str:
        lines = [f"{self.tensor} {self.shape if self.shape is not None else 'of unknown rank'}"]
        lines += [f"  {kind} {name} {shape}" for kind, name, shape in self.sources]
        for i, s in enumerate(self.steps, 1):
            kind = f" ({s.op_type})" if s.op_type not in s.node else ""
            lines.append(f"{i:>3}. {s.node}{kind}")
            lines += [f"        {n} {shape if shape is not None else '?'}" for n, shape in s.inputs]
            lines.append(f"     -> {s.output} {s.shape if s.shape is not None else '?'}")
            lines += [f"     needs {text}" for text in s.requires]
        return "\n".join(lines)


def explain(lowered: Lowered, tensor: str) -> Derivation:
    """The derivation of `tensor`. Raises `KeyError` when the model has no such tensor."""
    if tensor not in lowered.walk.tensors:
        raise KeyError(no_tensor(tensor, lowered))
    links = Tracer(lowered).chain(tensor, None, to_inputs=True)
    if not links:
        made = lowered.walk.producers.get(tensor)
        if made is None:
            kind = "input" if tensor in lowered.inputs else "initializer"
            return Derivation(
                tensor, lowered.shapes.get(tensor), ((kind, tensor, lowered.shapes.get(tensor)),), ()
            )
        links = [Link("computes", tensor, None, ZERO, *made)]
    sources: dict[tuple[str, str, Shape | None], None] = {}
    steps: dict[str, tuple[int, DerivationStep]] = {}
    order = {name: i for i, name in enumerate(lowered.walk.producers)}
    for link in links:
        if link.node is None:
            sources[link.kind, link.tensor, lowered.shapes.get(link.tensor)] = None
        elif link.label not in steps:
            steps[link.label] = (order.get(link.tensor, 0), _step(lowered, link))
    ordered = tuple(step for _, step in sorted(steps.values(), key=lambda pair: pair[0]))
    return Derivation(tensor, lowered.shapes.get(tensor), tuple(sources), ordered)


def _step(lowered: Lowered, link: Link) -> DerivationStep:
    assert link.node is not None
    names = [lowered.full_name(n, link.prefix) for n in link.node.inputs if n]
    needs = dict.fromkeys(str(c) for c in lowered.constraints.for_node(link.label) if c.role == "requirement")
    return DerivationStep(
        link.label,
        link.node.op_type,
        tuple((n, lowered.shapes.get(n)) for n in names),
        link.tensor,
        lowered.shapes.get(link.tensor),
        tuple(needs),
    )
