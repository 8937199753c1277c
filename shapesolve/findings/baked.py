"""Search for the export-time constant that causes a restriction, and for whether it is unintended.

Some restrictions belong to the model: skip connections need multiples, tables have an end, and kernels need a minimum
input. Others come from a size of the example input that was traced as a constant: a dim declared dynamic runs at only
a
few sizes, or batch items get mixed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from math import prod
from typing import TYPE_CHECKING

from ..causes.cause import Causes
from ..causes.limits import HUGE, MAX_CONE, MAX_SIZE
from ..causes.operands import IDLE, input_sites, sites_of, size_at
from ..causes.trace import Link, Tracer
from ..causes.wording import declared_dim
from ..expr import Cond, Dim, ge, symbol
from ..lazy import cached_property
from ..lower.reason import BROADCAST, reason_id
from ..lower.records import Entry
from ..model import Node
from ..solve.facts import budget
from ..solve.facts.constraint import Site
from ..solve.known import Known

if TYPE_CHECKING:
    from ..answers.solved import Solved


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored tensor that causes a restriction, by its data or by its size. Data is a target or an end."""

    tensor: str
    data: bool

    @property
    def site(self) -> Site:
        """The stored tensor as a site."""
        return Site(self.tensor, None, self.data)


class Baked:
    """Finder of the constants that cause the restrictions of one analysis."""

    def __init__(self, analysis: Solved) -> None:
        self.lowered, self.engine = analysis.lowered, analysis.prover.engine
        self.tracer = Tracer(analysis.lowered)
        self.causes = Causes(analysis.lowered, analysis.request)
        self._few: dict[Cond, bool] = {}

    # ------------------------------------------------------------------ the constant

    def constant(self, entry: Entry) -> Stored | None:
        """The constant that a node's condition comes from: of several, the one with the plainest condition if it is unknown."""
        found = self.stored(entry)
        if found is None or not found.data:
            return found
        plainest = self.causes.plainest(entry, [found.tensor, *self._read(entry)])
        return found if plainest is None else Stored(plainest, True)

    def stored(self, entry: Entry) -> Stored | None:
        """The constant that a node's sizes come from. A tensor read as data is preferred over one read for its size."""
        return self._behind(entry) or self._beside(entry)

    def named(self, stored: Stored | None, entry: Entry) -> str:
        """Return the name of a constant if a condition depends on its elements or on one of its sizes, "" otherwise."""
        if stored is None:
            return ""
        axes = [None] if stored.data else [*range(len(self.lowered.shapes.get(stored.tensor) or ()))]
        return "" if self.causes.first(entry, ((stored.tensor, a) for a in axes)) is None else stored.tensor

    def differs_alone(self, tensor: str) -> bool:
        """Return True if no other stored tensor fixes a number of this one, so that another export may differ in it alone."""
        needs = self.causes.needs_with(((tensor, None),))
        if needs is None:
            return False
        unknown = needs.symbols[tensor, None]
        return not any(c.kind == "==" and c.free and c.free <= unknown for *_, c in needs.conds)

    def reader(self, entry: Entry, stored: Stored | None) -> tuple[Node, str] | None:
        """Return the node that meets a stored tensor before a condition's own node does, and its scope."""
        if stored is None or stored.data:
            return None
        for node, prefix in self._chain(entry):
            if stored.tensor in (self.lowered.full_name(n, prefix) for n in node.inputs):
                return None if node is entry.node else (node, prefix)
        return None

    def _read(self, entry: Entry) -> Iterator[str]:
        """Names of tensors that the operands of a node's condition are computed from, as candidates."""
        for node, prefix in self._chain(entry):
            for site in input_sites(node, prefix, self.lowered):
                if site.data:
                    yield from self._fed(site.tensor)

    def _chain(self, entry: Entry) -> list[tuple[Node, str]]:
        """Return the node of a condition and the nodes that its sizes come from, nearest first."""
        links = (link for site in sites_of(entry, self.lowered) for link in self.tracer.links(site))
        nodes = dict.fromkeys([(entry.node, entry.prefix), *((k.node, k.prefix) for k in links)])
        return [(node, prefix) for node, prefix in nodes if node is not None]

    def _beside(self, entry: Entry) -> Stored | None:
        """Return an initializer in a requirement on the same symbols, at one of the nodes that compute the condition."""
        if not entry.cond.free:
            return None
        for node, prefix in self._chain(entry):
            for other in self._stated.get((id(node), prefix), ()):
                if not entry.cond.free.isdisjoint(other.cond.free):
                    for site in sites_of(other, self.lowered):
                        if self.lowered.is_stored(site.tensor):
                            return Stored(site.tensor, site.data)
        return None

    @cached_property
    def _stated(self) -> dict[tuple[int, str], list[Entry]]:
        """The requirements of each node."""
        found: dict[tuple[int, str], list[Entry]] = {}
        for entry in self.lowered.log:
            if entry.role == "requirement" and entry.node is not None:
                found.setdefault((id(entry.node), entry.prefix), []).append(entry)
        return found

    def _fed(self, tensor: str) -> Iterator[str]:
        """Stored tensors from which a tensor's elements are computed and that hold a possible size."""
        for name in islice(self.lowered.behind(tensor), MAX_CONE):
            value = self.lowered.values.get(name)
            held = () if value is None else value.elems or ()
            if self.lowered.is_stored(name) and any(whole(e) not in IDLE for e in held):
                yield name

    def _behind(self, entry: Entry) -> Stored | None:
        if entry.node is None:
            return None
        sites = sites_of(entry, self.lowered)
        for site in sorted(sites, key=lambda s: not s.data):
            found = self._of_data(site) if site.data else self._of_size(site)
            if found is not None:
                return found
        return None

    def _of_data(self, site: Site) -> Stored | None:
        if self.lowered.is_stored(site.tensor):
            return Stored(site.tensor, True)
        value = self.lowered.values.get(site.tensor)
        for i, e in enumerate(() if value is None or value.elems is None else value.elems):
            if isinstance(e, Dim) and not e.terms and e.const not in IDLE:
                links = self.tracer.links(Site(site.tensor, i, True))
                if links and self.lowered.is_stored(links[-1].tensor):
                    return Stored(links[-1].tensor, True)
        return None

    def _of_size(self, site: Site) -> Stored | None:
        """Stored tensor that a constant size comes from."""
        size = size_at(site, self.lowered)
        if size is None or size.terms:
            return None
        links = self.tracer.links(site)
        read = {t: held for link in links for t, held in self._data_of(link)}
        last = links[-1] if links else None
        if last is not None and self.lowered.is_stored(last.tensor):
            return Stored(last.tensor, last.axis is None or last.tensor in read)
        if last is not None and last.kind == "computes":
            found = sorted(self._data_of(last), key=lambda of: size.const not in of[1])
            if found and size.const in found[0][1]:
                return Stored(found[0][0], True)
            return Stored(found[0][0], True) if found else None
        if size.const in IDLE:
            return None
        return next((Stored(t, True) for t, held in read.items() if size.const in held), None)

    def _data_of(self, link: Link) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Stored tensors that a node reads as data, with their numbers."""
        if link.node is None:
            return
        for site in input_sites(link.node, link.prefix, self.lowered):
            value = self.lowered.values.get(site.tensor)
            if (
                site.data
                and value is not None
                and value.elems is not None
                and self.lowered.is_stored(site.tensor)
            ):
                held = tuple([n for n in map(whole, value.elems) if n is not None])
                if held:
                    yield site.tensor, held

    # ------------------------------------------------------------------ is it one that nobody meant?

    def few_sizes(self, cond: Cond) -> bool:
        """Return True if the condition allows few sizes of a symbol and excludes larger and smaller ones.

        A bound on one side is none of these: a table ends, a kernel needs room. Empty tensors are left out.
        """
        found = self._few.get(cond)
        if found is None:
            found = self._few[cond] = cond.size <= MAX_SIZE and self._leaves_few(cond)
        return found

    def _leaves_few(self, cond: Cond) -> bool:
        if cond.kind == "or" and all(_is_number(c) or self.few_sizes(c) for c in cond.args):
            return True
        names = sorted(cond.free)
        large = [ge(symbol(name), HUGE) for name in names]
        if len(names) > 1 and self.engine.model([cond, *large], cheap=True) is not None:
            return False  # no symbol is held small
        asked = [cond, *(ge(symbol(name), 1) for name in names)]
        return any(self._is_few(cond, name, asked) for name in names)

    def _is_few(self, cond: Cond, name: str, asked: Sequence[Cond]) -> bool:
        if self.engine.is_spent or cond.evaluate({name: HUGE}) is True:
            return False
        found = self.engine.model([*asked, ge(symbol(name), 2)], cheap=True)
        gap = None if found is None else self._gap(cond, name, found)
        if gap is None or self.engine.model([*asked, ge(symbol(name), gap)], cheap=True) is None:
            return False
        return Known(asked, self.engine).refuted(ge(symbol(name), HUGE), cheap=True)

    def _gap(self, cond: Cond, name: str, at: Mapping[str, int]) -> int | None:
        """Return the smallest size of a symbol, among those tried, that a condition excludes."""
        sizes = range(1, min(at[name] + 2, budget.MAX_AHEAD))
        below = range(max(at[name] - budget.MAX_AHEAD, 1), at[name] + 2)
        above = (at[name] << k for k in range(1, HUGE.bit_length()))
        return next((n for n in chain(sizes, below, above) if cond.evaluate({**at, name: n}) is False), None)

    def mixes_rows(self, entry: Entry, names: Collection[str]) -> bool:
        """Return True if a constant target regroups across the first axis, which mixes batch items.

        A target that merges whole batch items is intended (frames of a clip). One that splits them, or merges them
        with
        other dims (`names` are the restricted ones), is a size of the example input.
        """
        rule = self.lowered.rule(entry.node, entry.prefix) if entry.node is not None else None
        if entry.node is None or rule is None or rule.advice != "target":
            return False
        sites = input_sites(entry.node, entry.prefix, self.lowered)
        data = next((s for s in sites if not s.data), None)
        target = next((s for s in sites if s.data), None)
        shape = self.lowered.shapes.get(data.tensor) if data is not None else None
        if target is None or not shape or not shape[0].terms or self._of_data(target) is None:
            return False
        value = self.lowered.values.get(target.tensor)
        elems = () if value is None or value.elems is None else value.elems
        if any(not isinstance(e, Dim) or e.terms for e in elems):
            return False  # a target that knows of the sizes
        if shape[0].free.isdisjoint(names):
            return False
        if len(names) > 1:
            return True
        held = prod(d.const for d in shape[1:])
        wanted = prod(e.const for e in elems if isinstance(e, Dim) and e.const > 0)
        return bool(held and wanted and wanted % held and held % wanted)

    def is_feature(self, entry: Entry, name: str, size: int) -> bool:
        """Return True if the input dim is tied to a size of the model: channels of a weight, the width of a head.

        Such a size is fixed by what the model is, and not by the example that it was exported with.
        """
        if entry.node is None:
            return False
        sites = sites_of(entry, self.lowered)
        direct = [s for s in sites if not s.data and self._is_input(s, name)]
        if not direct or any(s.data for s in sites) or reason_id(entry.why) == BROADCAST.id:
            return False
        shapes = [self.lowered.shapes.get(s.tensor) for s in direct]
        last = all(shape is not None and s.axis == len(shape) - 1 for s, shape in zip(direct, shapes))
        constant, rule = self.constant(entry), self.lowered.rule(entry.node, entry.prefix)
        kind = rule.advice if rule is not None else ""
        if constant is not None and constant.data:
            return False
        if kind == "convolution":
            return all(s.axis == 1 for s in direct)
        return last and size > 1 and (constant is None or kind == "product")

    def _is_input(self, site: Site, name: str) -> bool:
        """Return True if the size at a site comes unchanged from an input dim declared by this name."""
        links = self.tracer.links(site)
        declared = declared_dim(links[-1], self.lowered) if links else None
        return declared is not None and declared.name == name

    def ends_early(self, entry: Entry, most: int) -> Stored | None:
        """The constant end `most` of a Slice of a computed tensor, if the condition depends on one. None for a table."""
        for site in sites_of(entry, self.lowered):
            for link in self.tracer.links(site, to_inputs=True):
                rule = None if link.node is None else self.lowered.rule(link.node, link.prefix)
                if link.node is None or rule is None or rule.advice != "ends" or not link.dim.terms:
                    continue
                if self.lowered.is_stored(self.lowered.full_name(link.node.inputs[0], link.prefix)):
                    continue
                for tensor, held in self._data_of(link):
                    if most in held:
                        return Stored(tensor, True)
        return None


def whole(element: object) -> int | None:
    """Return the element as an int if it is integral (floats too), None otherwise."""
    if isinstance(element, Dim):
        return None if element.terms else element.const
    return int(element) if isinstance(element, float) and element.is_integer() else None


def _is_number(cond: Cond) -> bool:
    """Return True if a condition equates a symbol with a number other than 0."""
    if cond.kind != "==" or len(cond.free) != 1:
        return False
    (name,) = cond.free
    d = cond.args[0]
    return (
        len(d.terms) == 1
        and d.terms[0][1] in (1, -1)
        and d.terms[0][0][0].kind == "sym"
        and (len(d.terms[0][0]) == 1 and d.const != 0 and name in d.free)
    )
