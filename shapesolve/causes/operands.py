"""Sites: operands of a node's condition, as sizes or as elements, and their tracing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from ..expr import Cond, Dim
from ..lazy import cached_property
from ..lower.records import Entry, Open
from ..model import Node
from ..solve.facts.constraint import Site
from .limits import MAX_LINKS, MAX_LISTED, MAX_NUMBERS
from .trace import Link, Tracer

if TYPE_CHECKING:
    from ..lower.lowered import Lowered
    from ..lower.rule import Bodies
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


class SiteTracer(Tracer):
    """Traces a site (size or element of a tensor) to the nodes and inputs it comes from. Sizes are traced as by
    `Tracer`, elements through the arithmetic that made them.
    """

    def links(self, site: Site, *, to_inputs: bool = False) -> list[Link]:
        """Links from a site backwards to the node that computes it, or (``to_inputs``) to the inputs."""
        if not site.data:
            return self.chain(site.tensor, site.axis, to_inputs=to_inputs)
        size, value = size_at(site, self.lowered), self.lowered.values.get(site.tensor)
        held = value.elems or () if value is not None and site.axis is None else ()
        starts = [(site.tensor, None, e) for e in (held if size is None else (size,)) if isinstance(e, Dim)]
        return self._follow(starts, to_inputs=to_inputs) or self._of_nodes(site.tensor)

    def labels(self, site: Site) -> tuple[str, ...]:
        """Nodes between the site and the inputs, nearest first."""
        found = dict.fromkeys(self.nodes(self.links(site, to_inputs=True)))
        made = self.lowered.producers.get(site.tensor)
        if made is not None:
            found[f"{made[1]}{made[0].label}"] = None
            if site.data and (
                len(found) == 1 or site.axis is None
            ):  # how many elements there are matters too
                found.update(dict.fromkeys(self._feeding(site.tensor)))
        return tuple(found)

    def rank_makers(self, site: Site) -> tuple[str, ...]:
        """Nodes that computed the shape argument which determines the rank of a tensor."""
        made = self.lowered.producers.get(site.tensor)
        while made is not None:
            node, prefix = made
            data = [s for s in input_sites(node, prefix, self.lowered) if s.data]
            if data:
                labels = [f"{prefix}{node.label}", *(n for s in data for n in self._feeding(s.tensor))]
                return tuple(dict.fromkeys(labels))
            made = self.lowered.producers.get(
                self.lowered.full_name(next(filter(None, node.inputs), ""), prefix)
            )
        return ()

    def owners(self, prefix: str) -> tuple[str, ...]:
        """Labels of the nodes around a scope (If, Loop, function call), innermost first."""
        found = []
        while prefix:
            inside, prefix = prefix.rstrip("/"), ""
            for label in (inside, inside.rpartition("/")[0]):
                if label in self.scopes:
                    found.append(label)
                    _, prefix = self.scopes[label]
                    break
        return tuple(found)

    def around(self, prefix: str) -> list[Bodies]:
        """Kinds of the subgraphs around a scope (branch, loop ...), innermost first. Functions are not counted."""
        rules = (self.lowered.rule(*self.scopes[label]) for label in self.owners(prefix))
        return [rule.bodies for rule in rules if rule is not None and rule.bodies]

    @cached_property
    def scopes(self) -> dict[str, tuple[Node, str]]:
        """For each node label, the node and its scope."""
        return {f"{at}{node.label}": (node, at) for node, at in self.lowered.producers.values()}

    def behind(self, entry: Entry) -> tuple[str, ...]:
        """Return the nodes that compute the sites of a condition.

        If it names only one tensor, the nodes that compute any input of its node.
        """
        sites = with_other_inputs(sites_of(entry, self.lowered), entry.node, entry.prefix, self.lowered)
        labels = [label for site in sites for label in reversed(self.labels(site))]
        return tuple(dict.fromkeys((*self.owners(entry.prefix), *labels)))

    def _feeding(self, tensor: str) -> list[str]:
        made = (self.lowered.producers.get(name) for name in self.lowered.behind(tensor))
        labels = (f"{prefix}{node.label}" for node, prefix in filter(None, made))
        return list(dict.fromkeys(islice(labels, MAX_LINKS)))
