"""Sites: operands of a node's condition, as sizes or as elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..expr import Cond, Dim
from ..lower.records import Entry, Open
from ..model import Node
from ..solve.facts.constraint import Site
from .limits import MAX_LISTED, MAX_NUMBERS

if TYPE_CHECKING:
    from ..lower.lowered import Lowered
    from ..lower.values import Value

#: Elements of a target that are not sizes: -1 is computed, 0 is copied, 1 is trivial.
IDLE = frozenset((-1, 0, 1))


def size_at(site: Site, lowered: Lowered) -> Dim | None:
    """Return the size or element at a site; None if unknown."""
    if site.axis is None:
        return None
    if site.data:
        value = lowered.values.get(site.tensor)
        elems = value.elems if value is not None else None
        found = elems[site.axis] if elems is not None and 0 <= site.axis < len(elems) else None
        return found if isinstance(found, Dim) else None
    shape = lowered.shapes.get(site.tensor)
    return shape[site.axis] if shape is not None and -len(shape) <= site.axis < len(shape) else None


def sites_of(entry: Entry | Open, lowered: Lowered) -> tuple[Site, ...]:
    """Return the sites of a condition or ambiguous broadcast."""
    node = entry.node
    if node is None:
        return ()
    data = lowered.data_inputs(node, entry.prefix)
    out = []
    for i, axis in entry.places:
        if i < len(node.inputs) and node.inputs[i]:
            tensor = lowered.full_name(node.inputs[i], entry.prefix)
            shape = lowered.shapes.get(tensor)
            if axis is not None and axis < 0 and shape is not None and i not in data:
                axis += len(shape)
            out.append(Site(tensor, axis, i in data))
    return tuple(dict.fromkeys(out))


def input_sites(node: Node, prefix: str, lowered: Lowered) -> tuple[Site, ...]:
    """All inputs of a node as sites."""
    data = lowered.data_inputs(node, prefix)
    return tuple(
        Site(lowered.full_name(name, prefix), None, i in data) for i, name in enumerate(node.inputs) if name
    )


def with_other_inputs(
    sites: Sequence[Site], node: Node | None, prefix: str, lowered: Lowered
) -> tuple[Site, ...]:
    """Return the sites. If they name one tensor only, also all inputs of the node."""
    if node is None or len({s.tensor for s in sites}) > 1:
        return tuple(sites)
    return (*sites, *input_sites(node, prefix, lowered))


def holding_text(tensor: str, lowered: Lowered) -> str:
    """Return a small tensor's elements as text: ``[0, -1, 64]``, ``0 to 599``. Empty if they are unknown."""
    return held_text(lowered.values.get(tensor))


def sides_of(entry: Entry | Open, lowered: Lowered, also: Site | None = None) -> tuple[Site, ...]:
    """Sites to show for a condition: one per tensor, then `also`. If there is only one, also the node's other inputs."""
    sites = with_other_inputs(sites_of(entry, lowered), entry.node, entry.prefix, lowered)
    by_tensor = {s.tensor: s for s in sites}
    shown = list(by_tensor.values())[:MAX_LISTED]
    return tuple(shown if also is None or also.tensor in {s.tensor for s in shown} else [*shown, also])


def held_text(value: Value | None) -> str:
    """Return a value's elements as text: a list, or bounds; empty if both are unknown."""
    if value is None:
        return ""
    elems = value.elems
    if elems is not None and len(elems) <= MAX_NUMBERS and any(e is not None for e in elems):
        listed = ", ".join("?" if e is None else str(e) for e in elems)
        return listed if value.shape == () else f"[{listed}]"
    lo, hi = value.bounds
    if lo is not None and hi is not None and not any(isinstance(e, Cond) for e in elems or ()):
        return str(lo) if lo is hi else f"{lo} to {hi}"
    return ""
