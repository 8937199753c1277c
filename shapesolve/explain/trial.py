"""One node tried on other shapes: what advice proposes is said only where the node runs with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..expr import Shape
from ..lower.records import Entry
from ..lower.speculate import tried
from ..lower.types import Known, Tensor

if TYPE_CHECKING:
    from ..lower.lowered import Lowered


def runs_with(lowered: Lowered, entry: Entry, shapes: Mapping[str, Shape], *, swapped: bool = False) -> bool:
    """Would the node that states `entry` run if these tensors had these shapes, or its first two inputs were `swapped`?

    It must ask nothing of the sizes then that it does not ask now. The elements of a tensor whose shape changes are not known.
    """
    walk, node = lowered.walk, entry.node
    if node is None or node.subgraphs:
        return False
    given: list[Known | None] = []
    for name in node.inputs:
        full = lowered.full_name(name, entry.prefix) if name else ""
        known = walk.tensors.get(full)
        if full in shapes and isinstance(known, Tensor):
            known = walk.interner.tensor(known.dtype, shapes[full])
        given.append(known)
    if swapped:
        given[:2] = given[1::-1]
    known_by_name = {n: k for n, k in zip(node.inputs, given, strict=True) if k is not None}
    needs = tried(walk, node, known_by_name, entry.prefix)
    now = {e.cond for e in walk.log if e.node is node and e.prefix == entry.prefix and not e.cond.is_false}
    broken = entry.cond  # what is in conflict with it may have been stated first, so that it counts as true
    return needs is not None and all(c is not broken and (lowered.facts.decide(c) or c in now) for c in needs)
