"""Explains why given sizes fail: the first node that fails at them, with the sizes on both sides and their origins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..expr import Dim, constant
from ..expr.sizes import sizes_text
from ..lower.reason import BROADCAST, JOIN, reason_id
from ..lower.records import Clash, Entry
from ..lower.shared_memory import in_execution_order
from ..lower.types import Tensor
from ..model import Node
from ..solve.facts.constraint import Site
from ..solve.sizes import LIKELY
from .contradictions import Contradiction
from .finding import Finding, Operand
from .limits import MAX_SHORT
from .operands import holding_text, input_sites, sides_of, sites_of
from .trace import Link, Tracer
from .wording import operand_rows, rule_text, title_of

if TYPE_CHECKING:
    from ..lower.lowered import Lowered

_VERBS = {JOIN.id: "join", BROADCAST.id: "broadcast"}


class Side(NamedTuple):
    """One side of a condition: a size of a tensor, and the end of the chain that it comes from."""

    site: Site
    size: Dim
    source: Link

    @property
    def is_stored(self) -> bool:
        """True if the size comes from an initializer or a constant."""
        made = self.source.node
        return self.source.kind == "initializer" or (made is not None and made.is_constant)


def first_failure(lowered: Lowered, at: Callable[[Mapping[str, int]], Lowered]) -> Finding | None:
    """Return the finding about the node that stops a model that never runs, at typical sizes.

    Return None if that node depends on the sizes.

    Args:
        lowered: The model.
        at: Function that lowers the model at given sizes.
    """
    found: list[Failure] = []
    pinned = {n: d.const for n, d in lowered.facts.substitution.items() if not d.terms and d.const > 1}
    for size in LIKELY[-5:-2]:
        sizes = {n: pinned.get(n, size) for n in lowered.symbols}
        there = at(sizes)
        clash = first_clash(there)
        if clash is None or clash.entry is None:
            return None
        found.append(Failure.of(clash, there, sizes))
    place = found[0]
    if len({f.label for f in found}) > 1:
        return None
    notes = (f"with {sizes_text(place.sizes)}", *place.origins(), "no input size makes this model run")
    return Contradiction.worded(
        place.reason,
        place.label,
        place.node.op_type,
        nodes=(place.label,),
        operands=place.rows(),
        notes=notes,
    )


def first_clash(lowered: Lowered) -> Clash | None:
    """Return the first failure of a node; None if no node is known to fail.

    With a size for every symbol, several nodes may fail: then it is the one at which onnxruntime stops.
    """
    found = [clash for clash in lowered.clashes[:1] if clash.node is not None]
    if found and lowered.facts.substitution.keys() >= lowered.symbols.keys():
        labels = {node.label: i for i, node in enumerate(in_execution_order(lowered.model.graph))}
        alone = [c for c in lowered.clashes if c.node is not None and not c.prefix and c.node.label in labels]
        if len(alone) == len(lowered.clashes):
            found = sorted(alone, key=lambda c: labels[c.node.label if c.node is not None else ""])
    return next(iter(found), None)


def label_of(clash: Clash) -> str:
    """Return the label of the node that fails."""
    return f"{clash.prefix}{clash.node.label}" if clash.node is not None else ""


class Failure:
    """A node that fails at given sizes, in a model lowered at these sizes."""

    def __init__(
        self,
        lowered: Lowered,
        node: Node,
        prefix: str,
        sizes: Mapping[str, int],
        entry: Entry | None = None,
        message: str = "",
    ) -> None:
        self.lowered, self.sizes, self.node, self.prefix = lowered, sizes, node, prefix
        #: the broken condition; None if the node is wrong by itself
        self.entry, self.message = entry, message
        self.label = f"{prefix}{node.label}"

    @classmethod
    def of(cls, clash: Clash, lowered: Lowered, sizes: Mapping[str, int]) -> Failure:
        """Return the node of a failure."""
        assert clash.node is not None
        entry = None if clash.entry is None else lowered.log[clash.entry]
        return cls(lowered, clash.node, clash.prefix, sizes, entry, clash.message)

    @property
    def sides(self) -> list[Side]:
        """The sizes that the condition compares, one for each operand."""
        return [] if self.entry is None else sides(self.entry, self.lowered, self.sizes)

    @property
    def stored_side(self) -> Side | None:
        """The side that a stored tensor fixes, if there is exactly one."""
        return stored_side(self.sides)

    @property
    def reason(self) -> str:
        """Return the reason that the node fails, with the sizes on both sides."""
        if self.entry is None:
            return f"{self.node.op_type} fails: {self.message}"
        found = self.sides
        text = cause_text(self.entry, self.lowered, found)
        if not text and len(found) == 1 and not found[0].size.terms:
            text = (
                f"{title_of(self.entry, self.lowered)}, got size {found[0].size} on axis {found[0].site.axis}"
            )
        return text or _with_rule(title_of(self.entry, self.lowered), rule_text(self.entry, self.lowered))

    def rows(self) -> tuple[Operand, ...]:
        """Return the operands of the node, with their shapes at these sizes."""
        if self.entry is None:
            sites = input_sites(self.node, self.prefix, self.lowered)
        else:
            stored = self.stored_side
            sites = sides_of(self.entry, self.lowered, None if stored is None else _origin_site(stored))
        rows = operand_rows(sites, self.lowered)
        return tuple((name, self.shape_text(name) or shape, origin) for name, shape, origin in rows)

    def origins(self) -> Iterator[str]:
        """Sentences on the nodes that compute the sizes."""
        for side in self.sides:
            if side.source.node is not None and not side.is_stored:
                yield self.made_text(side.source)

    def emptied(self) -> Iterator[str]:
        """A sentence on the first node that makes an empty tensor of tensors with elements, if this node reads one."""
        zero = constant(0)
        read = (given_shape(name, self.lowered, self.sizes) for name in self.node.inputs)
        if 0 in self.sizes.values() or not any(zero in (shape or ()) for shape in read):
            return
        for tensor, (node, prefix) in self.lowered.producers.items():
            made = given_shape(tensor, self.lowered, self.sizes) or ()
            sites = input_sites(node, prefix, self.lowered)
            given = [s.tensor for s in sites if not s.data]
            shapes = {n: self.shape_text(n) for n in given}
            if zero in made and not any(
                zero in (given_shape(n, self.lowered, self.sizes) or ()) for n in given
            ):
                texts = [f"{n} {text}" for n, text in shapes.items() if text]
                label = f"{prefix}{node.label}"
                yield f"{label} makes an empty tensor, {self.shape_text(tensor)}, from {', '.join(texts)}"
                return

    def made_instead(self, failing: Failure) -> Iterator[str]:
        """Return sentences on the size that the node computes here, and on sizes for which the model runs."""
        computed = [s.source for s in failing.sides if s.source.node is not None and not s.is_stored]
        for source in computed[:1]:
            made, shapes = self.shape_text(source.tensor), self._read(source)
            if made and shapes and made != failing.shape_text(source.tensor):
                yield f"{made} from {', '.join(shapes)}"

    def _read(self, source: Link) -> list[str]:
        """Return the shapes that a node reads, without stored tensors and data."""
        assert source.node is not None
        given = input_sites(source.node, source.prefix, self.lowered)
        computed = [s for s in given if not s.data and not self.lowered.is_stored(s.tensor)]
        return list(filter(None, (self.shape_text(s.tensor) for s in computed)))

    def made_text(self, source: Link) -> str:
        """A sentence on a node: "/Flatten makes [1, 50176] from [1, 16, 56, 56]"."""
        assert source.node is not None
        made = self.shape_text(source.tensor)
        if not made:
            return ""
        shapes = self._read(source)
        text = f"{source.label} makes {made}" + (f" from {', '.join(shapes)}" if shapes else "")
        target = self.target_of(source.node, source.prefix)
        return f"{text}; its target {target} is constant" if target else text

    def target_of(self, node: Node, prefix: str) -> str:
        """The constant target of a Reshape that fixes an axis whose size its input has by a name; empty without one."""
        rule = self.lowered.rule(node, prefix)
        if rule is None or rule.advice != "target" or not node.inputs:
            return ""
        shape = self.lowered.shapes.get(self.lowered.full_name(node.inputs[0], prefix))
        for site in input_sites(node, prefix, self.lowered):
            held = holding_text(site.tensor, self.lowered) if site.data else ""
            if (
                held.startswith("[")
                and self.lowered.is_stored(site.tensor)
                and (self.sizes or any(d.terms for d in shape or ()))
            ):
                return held
        return ""

    def shape_text(self, tensor: str) -> str:
        """Return the shape of a tensor at these sizes; sizes that are not a number or a name are left out."""
        shape = given_shape(tensor, self.lowered, self.sizes)
        if shape is None:
            return ""
        texts = [str(d) for d in shape]
        return f"[{', '.join(t if len(t) <= MAX_SHORT or d.name else '...' for t, d in zip(texts, shape))}]"


def _with_rule(title: str, rule: str) -> str:
    return f"{title}: {rule}" if rule and rule not in title else title


def _origin_site(side: Side) -> Site:
    return Site(side.source.tensor, side.source.axis, side.site.data)


# ---------------------------------------------------------------------- what a condition compares


def sides(entry: Entry, lowered: Lowered, sizes: Mapping[str, int] | None = None) -> list[Side]:
    """Return the sizes that a condition compares, one for each operand, with their origins."""
    tracer, found = Tracer(lowered), dict[str, Side]()
    for site in sites_of(entry, lowered):
        shape = None if site.data else given_shape(site.tensor, lowered, sizes or {})
        links = tracer.links(site)
        at = site.axis
        if shape is not None and at is not None and -len(shape) <= at < len(shape) and links:
            found.setdefault(site.tensor, Side(site, shape[at], links[-1]))
    return list(found.values())


def stored_side(found: Sequence[Side]) -> Side | None:
    """Return the side that a stored tensor fixes; None if there is none, or if all are."""
    fixed = [s for s in found if s.is_stored and not s.size.terms]
    return fixed[0] if len(fixed) == 1 < len(found) else None


def cause_text(entry: Entry, lowered: Lowered, found: Sequence[Side]) -> str:
    """Return what a stored tensor fixes: "fc.weight expects 1024 features, got 50176"; or the sizes that differ."""
    one, numbers = stored_side(found), [s for s in found if not s.size.terms]
    if one is not None:
        other = next(s for s in found if s is not one)
        got = "" if other.size.name else f", got {other.size}"
        return f"{stored_text(one, entry, lowered)}{got}"
    if entry.node is None or len(found) != 2 or len(numbers) != 2 or numbers[0].size is numbers[1].size:
        return ""
    axes = {s.site.axis for s in found}
    where = f" on axis {axes.pop()}" if len(axes) == 1 else ""
    verb = _VERBS.get(reason_id(entry.why), "combine")
    return f"{entry.node.op_type} cannot {verb} sizes {numbers[0].size} and {numbers[1].size}{where}"


def stored_text(side: Side, entry: Entry, lowered: Lowered) -> str:
    """Return what a stored tensor demands: "fc.weight expects 1024 features"."""
    named = expectation(side, entry, lowered)
    return named or f"{side.source.tensor} has size {side.size} on axis {side.source.axis}"


def expectation(side: Side, entry: Entry, lowered: Lowered) -> str:
    """Return what a stored tensor demands beyond its shape, or an empty string if its shape says everything."""
    rule = None if entry.node is None else lowered.rule(entry.node, entry.prefix)
    kind, name = rule.advice if rule is not None else "", side.source.tensor
    noun = {"product": "features", "gemm": "features", "convolution": "channels"}.get(kind, "")
    if noun and reason_id(entry.why) not in (BROADCAST.id, "added"):
        return f"{name} expects {side.size} {noun}"
    if side.site.data or side.source.axis is None:
        return f"{name} fixes a size at {side.size}"
    return ""


def given_shape(tensor: str, lowered: Lowered, sizes: Mapping[str, int]) -> Sequence[Dim] | None:
    """Return the shape of a tensor at these sizes as its node made it, before any condition on it was used."""
    made = lowered.tensors.get(tensor)
    known = made.shape if isinstance(made, Tensor) else None
    shape = lowered.shapes.get(tensor) if known is None else known
    try:
        return None if shape is None else [d.subs(sizes) for d in shape]
    except ZeroDivisionError:
        return shape
