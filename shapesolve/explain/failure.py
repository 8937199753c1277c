"""Explains why given sizes fail: the first node that fails at them, with the sizes on both sides and their origins."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..expr import Dim
from ..expr.sizes import sizes_text
from ..lower.reason import BROADCAST, JOIN, reason_id
from ..lower.records import Clash, Entry
from ..lower.types import Tensor
from ..propagate.constraint import Site
from .finding import Finding, Operand
from .limits import MAX_LISTED
from .operands import SiteTracer, holding_text, input_sites, sides_of, sites_of
from .trace import Link
from .wording import operand_rows, requirement_text, rule_text, title_of

if TYPE_CHECKING:
    from ..lower.lowered import Lowered
    from ..solve.contract.contract import Term
    from .solved import Solved

#: a condition that a sentence can state: a bound, a multiple, or an equality of sums
_PLAIN = re.compile(r"[\w\s+*<>=-]+|\w+ % \d+ == 0")
_VERBS = {JOIN.id: "join", BROADCAST.id: "broadcast"}


class Side(NamedTuple):
    """One side of a condition: a size of a tensor, and the end of the chain that it comes from."""

    site: Site
    size: Dim
    source: Link

    @property
    def is_stored(self) -> bool:
        """True if the size is that of a stored tensor or of a constant."""
        made = self.source.node
        return self.source.kind == "initializer" or (made is not None and made.is_constant)


def find_failure(
    free: Solved, bound: Solved, terms: Sequence[Term], runs: Mapping[str, int] | None
) -> Finding | None:
    """Return the finding about the first node that fails in `bound`, the model at sizes that `free` rejects.

    Args:
        free: The model without these sizes.
        bound: The model at these sizes.
        terms: The contract terms that the sizes break.
        runs: Similar sizes at which the model runs, if any are known.
    """
    sizes = {n: size for n, size in bound.request.bind.items() if n in free.symbols}
    clash, filled = _first(bound), ""
    missing = {n: size for n, size in (runs or {}).items() if n not in sizes}
    if missing:  # what fails first may depend on the other sizes
        full = free.again(bind={**missing, **sizes}, assume=bound.request.assume)
        there = _first(full)
        if there is not None and (clash is None or _label(there) != _label(clash)):
            bound, clash, filled = full, there, sizes_text(missing)
            sizes |= missing
    if clash is None or clash.node is None:
        return None
    place = Failure(bound.lowered, clash, sizes)
    term = min((t for t in terms if is_plain(t)), key=lambda t: place.label not in t.nodes, default=None)
    needed = "" if term is None else _got(requirement_text(str(term)), term.symbols, sizes)
    notes = [*([place.reason] if needed else []), *place.origins()]
    notes = [*([f"with {filled}"] if filled else []), *notes]
    stored = place.stored_side
    if runs is not None and stored is not None and place.entry is not None:
        good = Failure(free.again(bind=runs).lowered, clash, runs)
        shown = sizes_text(runs, [n for n in sizes if runs[n] != sizes[n]])
        notes += [f"at {shown}: {text}" for text in good.made_instead(place)] if shown else []
    return Finding(
        "SS203",
        needed or place.reason,
        place.label,
        clash.node.op_type,
        (place.label,),
        place.rows(),
        notes=tuple(dict.fromkeys(n for n in notes if n and n != needed))[:MAX_LISTED],
    )


def _first(bound: Solved) -> Clash | None:
    return next(iter(bound.walk.state.clashes), None)


def _label(clash: Clash) -> str:
    return f"{clash.prefix}{clash.node.label}" if clash.node is not None else ""


def is_plain(term: Term) -> bool:
    """Return True if a sentence can state the term."""
    return not term.assumptions and _PLAIN.fullmatch(str(term)) is not None


def _got(text: str, names: Iterable[str], sizes: Mapping[str, int]) -> str:
    given = sizes_text(sizes, names)
    one = given.partition(" = ")[2] if "," not in given else given
    return f"{text}, got {one}" if one else text


class Failure:
    """A node that fails at given sizes, in a model lowered at these sizes."""

    def __init__(self, lowered: Lowered, clash: Clash, sizes: Mapping[str, int]) -> None:
        assert clash.node is not None
        self.lowered, self.clash, self.sizes = lowered, clash, sizes
        self.node, self.prefix = clash.node, clash.prefix
        self.label = f"{clash.prefix}{clash.node.label}"

    @property
    def entry(self) -> Entry | None:
        """The broken condition; None if the node is wrong by itself."""
        return None if self.clash.entry is None else self.lowered.walk.state.log[self.clash.entry]

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
        """Why the node fails, with the sizes on both sides."""
        if self.entry is None:
            return f"{self.node.op_type} fails: {self.clash.message}"
        found = self.sides
        text = cause_text(self.entry, self.lowered, found)
        if not text and len(found) == 1 and not found[0].size.terms:
            text = f"{title_of(self.entry, self.lowered)}, got {found[0].size} on axis {found[0].site.axis}"
        return text or _with_rule(title_of(self.entry, self.lowered), rule_text(self.entry, self.lowered))

    def rows(self) -> tuple[Operand, ...]:
        """The operands of the node, with their shapes at these sizes."""
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

    def made_instead(self, failing: Failure) -> Iterator[str]:
        """Texts on what the node that computes the size makes here, where the model runs."""
        computed = [s.source for s in failing.sides if s.source.node is not None and not s.is_stored]
        for source in computed[:1]:
            made, shapes = self.shape_text(source.tensor), self._read(source)
            if made and shapes and made != failing.shape_text(source.tensor):
                yield f"{made} from {', '.join(shapes)}"

    def _read(self, source: Link) -> list[str]:
        """The shapes that a node reads, without stored tensors and data."""
        assert source.node is not None
        given = input_sites(source.node, source.prefix, self.lowered)
        computed = [s for s in given if not s.data and not self.lowered.is_stored(s.tensor)]
        return list(filter(None, (self.shape_text(s.tensor) for s in computed)))

    def made_text(self, source: Link) -> str:
        """A sentence on a node: "/Flatten makes [1, 50176] from [1, 16, 56, 56]"."""
        assert source.node is not None
        made, given = self.shape_text(source.tensor), input_sites(source.node, source.prefix, self.lowered)
        if not made:
            return ""
        shapes = self._read(source)
        text = f"{source.label} makes {made}" + (f" from {', '.join(shapes)}" if shapes else "")
        targets = (s for s in given if s.data and self.lowered.is_stored(s.tensor))
        return text + next(
            (f"; its target {held} is constant" for s in targets if (held := self._target(s))), ""
        )

    def _target(self, site: Site) -> str:
        held = holding_text(site.tensor, self.lowered)
        return held if held.startswith("[") else ""

    def shape_text(self, tensor: str) -> str:
        """The shape of a tensor at these sizes; sizes that are not a number or a name are left out."""
        shape = given_shape(tensor, self.lowered, self.sizes)
        if shape is None:
            return ""
        return f"[{', '.join('...' if d.terms and d.name is None else str(d) for d in shape)}]"


def _with_rule(title: str, rule: str) -> str:
    return f"{title}: {rule}" if rule and rule not in title else title


def _origin_site(side: Side) -> Site:
    return Site(side.source.tensor, side.source.axis, side.site.data)


# ---------------------------------------------------------------------- what a condition compares


def sides(entry: Entry, lowered: Lowered, sizes: Mapping[str, int] | None = None) -> list[Side]:
    """Return the sizes that a condition compares, one for each operand, with their origins."""
    tracer, found = SiteTracer(lowered), dict[str, Side]()
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
        got = "" if other.size.terms else f", got {other.size}"
        return f"{stored_text(one, entry, lowered)}{got}"
    if entry.node is None or len(found) != 2 or len(numbers) != 2 or numbers[0].size is numbers[1].size:
        return ""
    axes = {s.site.axis for s in found}
    where = f" on axis {axes.pop()}" if len(axes) == 1 else ""
    verb = _VERBS.get(reason_id(entry.why), "combine")
    return f"{entry.node.op_type} cannot {verb} sizes {numbers[0].size} and {numbers[1].size}{where}"


def stored_text(side: Side, entry: Entry, lowered: Lowered) -> str:
    """Return what a stored tensor demands: "fc.weight expects 1024 features"."""
    rule = None if entry.node is None else lowered.rule(entry.node, entry.prefix)
    kind, name = rule.advice if rule is not None else "", side.source.tensor
    noun = {"product": "features", "gemm": "features", "convolution": "channels"}.get(kind, "")
    if noun and reason_id(entry.why) not in (BROADCAST.id, "added"):
        return f"{name} expects {side.size} {noun}"
    if side.site.data or side.source.axis is None:
        return f"{name} fixes a size at {side.size}"
    return f"{name} has size {side.size} on axis {side.source.axis}"


def given_shape(tensor: str, lowered: Lowered, sizes: Mapping[str, int]) -> Sequence[Dim] | None:
    """Return the shape of a tensor at these sizes as its node made it, before any condition on it was used."""
    made = lowered.walk.state.tensors.get(tensor)
    known = made.shape if isinstance(made, Tensor) else None
    shape = lowered.shapes.get(tensor) if known is None else known
    try:
        return None if shape is None else [d.subs(sizes) for d in shape]
    except ZeroDivisionError:
        return shape
