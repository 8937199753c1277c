"""Findings about restricted dims: one for each contract term on a dim declared dynamic.

The reason comes from the node that breaks at the example sizes. Both examples, sizes that run and nearby sizes that
do
not, are checked against the contract first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import TYPE_CHECKING, Any, NamedTuple

from ..answers.rejected import requirement_text
from ..causes.failure import Failure, expectation, sides, stored_side, stored_text
from ..causes.finding import Finding
from ..causes.operands import input_sites, sides_of, sites_of
from ..causes.repair import Repair, Repairs
from ..causes.wording import is_short, rule_text
from ..expr import Cond, ge
from ..lazy import cached_property
from ..lower.records import Entry
from ..solve.facts.constraint import Site
from ..solve.known import Known
from . import specialised
from .baked import Baked, Stored
from .limits import BakedSize, Limit, OneSize, OnlyEmpty, Restricted, SameDim
from .rows import Rows
from .sample import Sample, Samples, Sizes

if TYPE_CHECKING:
    from ..answers.solved import Solved
    from ..solve.contract.contract import Term

#: best rank of a sample: a constant is broken, one that by itself leaves few sizes, and no other condition
_PLAINEST = (False, False, 1)
#: Kinds of terms that may leave few sizes, and the number of samples searched for the constant behind them.
_MAY_BE_FEW, _SAMPLES = ("equality", "alternative", "other"), 16


class _Cause(NamedTuple):
    """A requirement of a node, by its index in the log."""

    number: int
    cond: Cond


def find(analysis: Solved) -> Iterator[Finding]:
    """Findings for dims declared dynamic that the graph fixes or restricts. This is the most common export bug."""
    if analysis.conflicts:
        return
    restrictions = _Restrictions(analysis)
    yield from specialised.findings(analysis, restrictions.baked, restrictions.repairs, restrictions.rows)
    found = _of_terms(analysis, restrictions)
    yield from _of_the_model(found, analysis) if analysis.request.bind else found


def _of_the_model(found: Iterable[Finding], analysis: Solved) -> Iterator[Finding]:
    """Drop findings that are caused only by sizes that the user bound."""
    nodes: set[str] | None = None
    for finding in found:
        if nodes is None:
            nodes = {n for f in find(analysis.again(bind={})) for n in f.nodes}
        if not finding.nodes or not nodes.isdisjoint(finding.nodes):
            yield finding


def _of_terms(analysis: Solved, restrictions: _Restrictions) -> Iterator[Finding]:
    """A finding for each contract term, except that a dim is not empty."""
    terms = _telling(analysis)
    if not terms:
        return
    empty = restrictions.empty(terms)
    if empty is not None:
        yield empty.finding
        terms = [t for t in terms if t.cond not in empty.conds]
    open_at = {node for a in analysis.ambiguities for node in a.sites}  # reported separately
    limits: dict[object, Limit] = {}
    for term in terms:
        limit = restrictions.limit(term)
        if (
            not isinstance(limit, Restricted)
            or term.kind != "alternative"
            or open_at.isdisjoint((limit.node, *term.nodes))
        ):
            before = limits.get(limit.cause())
            limits[limit.cause()] = limit if before is None else before.and_(limit)
    yield from (limit.told() for limit in limits.values())


def _telling(analysis: Solved) -> list[Term]:
    contract = analysis.contract
    terms = contract.terms if contract.usual.whole.dropped else contract.usual.terms
    return [t for t in terms if t.kind != "nonempty" and not _is_settled(t, analysis)]


def _is_settled(term: Term, analysis: Solved) -> bool:
    """Return True if the term is an equality that a finding on one of its symbols already reports."""
    return term.kind == "equality" and any(s in analysis.facts.substitution for s in term.symbols)


#: sample, conditions broken there, the cause that is an unintended constant, and that constant
_Best = tuple[Sample | None, Sequence[_Cause], _Cause | None, Stored | None]


class _Evidence(NamedTuple):
    """Evidence for one term: a sample, the broken condition, and the constant that causes it (`baked` if unintended)."""

    sample: Sample | None
    cause: _Cause | None
    constant: Stored | None
    baked: bool


class _Empty(NamedTuple):
    """Contract terms that only empty inputs satisfy, with their finding."""

    conds: Collection[Cond]
    finding: Finding


class _Restrictions:
    def __init__(self, analysis: Solved) -> None:
        self.analysis, self.lowered, self.baked = analysis, analysis.lowered, Baked(analysis)
        self._evidence: dict[Cond, _Evidence] = {}
        self._repaired: dict[Cond, tuple[Repair, ...]] = {}
        self._shared: dict[tuple[str, int], tuple[str, int]] = {}
        self.engine, self.repairs = analysis.prover.engine, Repairs(analysis.lowered, analysis.request)
        self.rows = Rows(analysis)

    @cached_property
    def samples(self) -> Samples:
        return Samples(self.analysis)

    def limit(self, term: Term) -> Limit:
        """Return the limit that one term sets: a warning if an unintended constant causes it."""
        sample, cause, constant, baked = self.evidence(term)
        only = _only_size(term)
        code = "SS401" if only is not None else "SS404" if baked else "SS403"
        facts: dict[str, Any] = {
            "names": tuple(term.symbols),
            "terms": (term,),
            "nodes": term.nodes,
        }
        if sample is not None and not self.analysis.violations_at(
            sample.runs
        ):  # Sizes that the terms do not determine are computed from numbers.
            ends = (sample, *self.samples.other_ends(term, sample))
            facts["samples"] = tuple(end.text(term.symbols) for end in ends)
            facts |= {"runs": self._pairs(sample.runs), "fails": self._pairs(sample.fails)}
        if cause is None:
            return _limit(code, term, only, (), facts)
        tied = is_short(term.text) and (_is_tie(term) or self.baked.few_sizes(cause.cond))
        found = self._repairs(term, cause) if code != "SS403" or tied else ()
        if code == "SS403" and term.kind != "equality":
            found = tuple(r for r in found if r.edit.cost == 1)
        if code == "SS403" and found:  # no limit of what the model is for: an edit takes it away
            code = "SS402" if term.kind == "equality" else "SS404"
        entry, origin = self._entry(cause), self.analysis.stated[cause.number].origin
        if code != "SS403" and not baked:
            constant = self.baked.constant(entry)
        same = [c.origin.node for c in term.constraints if c.origin.rule == origin.rule and c.origin.node]
        alone = set(same) <= {origin.node}
        meant = code in ("SS402", "SS403") or constant is None
        behind = None if meant or constant is None else constant.site
        one = stored_side(sides(entry, self.lowered))
        rule = rule_text(entry, self.lowered) if alone else origin.rule
        if one is not None:
            rule = stored_text(one, entry, self.lowered)
            behind = behind or Site(one.source.tensor, one.source.axis)
        elif _may_be_tabled(term, constant) and (table := self._table(entry, constant)) is not None:
            rule, behind = table[1], behind or table[0]
        elif "max(" in rule:
            rule = origin.rule
        named = self.baked.named(constant, entry)
        culprits = [*self._targets(entry, constant), *([one.source.tensor] if one is not None else [])]
        is_export = code != "SS403" and constant is not None and constant.data and not found
        made = self._made(entry) if "runs" in facts else ""
        others = _others_text(origin.node, same, () if one is not None else term.nodes)
        if one is not None and made and not others:
            rule = expectation(one, entry, self.lowered)  # the operands show its shape
        facts |= {
            "node": origin.node,
            "op_type": origin.op_type,
            "nodes": tuple(dict.fromkeys((*term.nodes, origin.node))),
            "operands": self.rows.of(sides_of(entry, self.lowered, behind), entry, readable=code != "SS403"),
            "reasons": tuple(filter(None, [f"{rule}{others}"])),
            "at": self.samples.runs,
            "made": made,
            "repairs": tuple(found),
            "declare": self._declared(term, sample),
            "constants": () if meant else tuple(filter(None, [named])),
            "export": named if named and is_export and self.baked.differs_alone(named) else "",
        }
        return _limit(code, term, only, tuple(culprits or filter(None, [named])), facts)

    def _declared(self, term: Term, sample: Sample | None) -> Sizes:
        only = _only_size(term)
        if only is not None:
            return {term.symbols[0]: only}
        runs = {} if sample is None or term.kind == "divisibility" else self.samples.runs
        return {n: runs[n] for n in term.symbols if n in runs}

    def _targets(self, entry: Entry, constant: Stored | None) -> Iterator[str]:
        """Return the Reshape's constant targets that merge or fix axes of its input, and so cause the condition."""
        if entry.node is None:
            return
        place = Failure(self.lowered, entry.node, entry.prefix, {}, entry)
        sources = [(s.source.node, s.source.prefix) for s in place.sides if not s.is_stored]
        for node, prefix in dict.fromkeys([(entry.node, entry.prefix), *sources]):
            held = "" if node is None else place.target_of(node, prefix)
            if node is not None and held and (constant is None or constant.data or node is not entry.node):
                yield f"{prefix}{node.label}'s target {held}"

    def _table(self, entry: Entry, constant: Stored | None) -> tuple[Site, str] | None:
        """The stored tensor on whose size the condition depends, such as a table of positions, with a text."""
        read = [] if constant is None or constant.data else [constant.tensor]
        for site in sites_of(entry, self.lowered):
            for link in self.baked.tracer.links(site):
                rule = None if link.node is None else self.lowered.rule(link.node, link.prefix)
                if link.node is None or (rule is not None and rule.advice == "convolution"):
                    continue  # a window is no size that a table has
                given = input_sites(link.node, link.prefix, self.lowered)
                read += [s.tensor for s in given if not s.data and self.lowered.is_stored(s.tensor)]
        axes = [
            (t, axis) for t in read for axis, d in enumerate(self.lowered.shapes.get(t) or ()) if not d.terms
        ]
        found = self.baked.causes.first(entry, axes)
        if found is None:
            return None
        tensor, axis = found
        size = self.lowered.shapes[tensor][axis or 0]
        return Site(tensor, axis), f"{tensor} has size {size} on axis {axis}"

    def _made(self, entry: Entry) -> str:
        """Return what the node that computes the size makes at sizes that run, if it merges sizes."""
        if entry.node is None:
            return ""
        place = Failure(self.lowered, entry.node, entry.prefix, self.samples.runs, entry)
        return "" if place.stored_side is None else next(iter(place.origins()), "")

    def empty(self, terms: Sequence[Term]) -> _Empty | None:
        """Return the finding if every accepted input has a dim of size 0 though no single dim must be 0, else None."""
        if self.samples.is_usual:
            return None
        facts, names = self.analysis.facts, self.analysis.symbols
        present = [ge(d, 1) for d in names.values() if facts.dim(d).terms]
        conds = [*(t.cond for t in self.analysis.contract.assumed), *present]
        known = Known(present, self.engine)
        alone = [t for t in terms if known.refuted(t.cond, cheap=True)]
        if not alone and not Known(conds, self.engine).refuted(*(t.cond for t in terms), cheap=True):
            return None
        shown = alone[:1] or terms
        first = self.limit(shown[0])
        nodes = dict.fromkeys((first.node, *(n for t in shown for n in t.nodes)))
        text = " and ".join(t.text for t in shown)
        title = "the model runs only on empty inputs" + (f": it requires {text}" if is_short(text) else "")
        cause = self.evidence(shown[0]).cause
        look = ""
        if first.node and cause is not None:
            always = known.refuted(cause.cond, cheap=True)
            look = f"{first.node} fails on every input that is not empty: start there" if always else ""
            if first.fails and not always:
                look = f"{first.node} fails at the sizes shown: start there"
        help_ = ". Or: ".join(map(str, () if cause is None else self._repairs(shown[0], cause))) or look
        nodes_ = tuple(filter(None, nodes))
        finding = replace(first.told(), code=OnlyEmpty.code, title=title, nodes=nodes_, help=help_)
        return _Empty([t.cond for t in shown], finding)

    def _repairs(self, term: Term, cause: _Cause) -> tuple[Repair, ...]:
        if term.cond not in self._repaired:
            self._repaired[term.cond] = self.repairs.of_limit(self._entry(cause), term.symbols)
        return self._repaired[term.cond]

    def evidence(self, term: Term) -> _Evidence:
        """Return the evidence for one term, cached."""
        found = self._evidence.get(term.cond)
        if found is None:
            sample, causes, cause, constant = self._best(term)
            baked = cause is not None
            if cause is None and causes:
                cause, constant = causes[0], self.baked.stored(self._entry(causes[0]))
            if sample is not None and cause is not None:
                sample = self.samples.nearest(term.cond, sample, cause.cond)
            found = self._evidence[term.cond] = _Evidence(sample, cause, constant, baked)
        return found

    def _pairs(self, sizes: Sizes) -> tuple[tuple[str, int], ...]:
        """Return the sizes as pairs, shared among findings to save memory."""
        return tuple(self._shared.setdefault(pair, pair) for pair in sizes.items())

    def _entry(self, cause: _Cause) -> Entry:
        return self.analysis.lowered.log[cause.number]

    def _best(self, term: Term) -> _Best:
        """Return the best sample for a term, the requirements broken there, and an unintended constant.

        If few sizes remain, the first failing ones may break something that implies the term. More samples are then
        tried, to
        find a condition that leaves few sizes and is the only one broken.
        """
        few = term.kind in _MAY_BE_FEW and self.baked.few_sizes(term.cond)
        found: list[tuple[tuple[bool, bool, int], _Best]] = []
        for sample in islice(self.samples.of(term), _SAMPLES if few else 1):
            causes = self._causes(term, sample)
            cause, constant = own = self._baked(term, causes, sample, False)
            if cause is None and few:
                cause, constant = self._baked(term, causes, sample, True)
            rank = (cause is None, own[0] is None, len(causes))
            found.append((rank, (sample, causes, cause, constant)))
            if rank == _PLAINEST:
                break
        if found:
            return min(found, key=lambda f: f[0])[1]
        causes = self._causes(term, None)
        return None, causes, *self._baked(term, causes, None, few)

    # ------------------------------------------------------------------ who needs it

    def _causes(self, term: Term, sample: Sample | None) -> list[_Cause]:
        """Requirements of nodes that fail at the rejected sizes of the sample. Those equal to it or over the same
        symbols come first.
        """
        if sample is not None:
            conds = [b.cond for b in self.samples.checker.broken(sample.fails)]
        else:
            own = set(term.numbers)
            conds = [c for c, numbers in self.analysis.accepted.conds.items() if own.intersection(numbers)]
        found = []
        for cond in conds:
            for number in self.analysis.accepted.conds.get(cond, ()):
                if self.analysis.stated[number].role == "requirement":
                    found.append(_Cause(number, cond))
                    break
        names, at = set(term.symbols), {} if sample is None else sample.fails

        def far(cause: _Cause) -> tuple[bool, bool, int, int]:
            free = sorted(names | cause.cond.free)
            small = (
                {**at, **dict(zip(free, sizes))} for sizes in islice(product(range(4), repeat=len(free)), 256)
            )
            weaker = any(cause.cond.evaluate(p) is True and term.cond.evaluate(p) is False for p in small)
            return cause.cond is not term.cond, weaker, len(names ^ cause.cond.free), cause.number

        return sorted(found, key=far)

    def _baked(
        self, term: Term, causes: Sequence[_Cause], sample: Sample | None, whole: bool
    ) -> tuple[_Cause | None, Stored | None]:
        """The requirement that comes from an unintended constant, and that constant. (None, None) for natural restrictions.

        `whole`: the term leaves few sizes.
        """
        for cause in causes:
            entry = self._entry(cause)
            if (
                whole
                or self.baked.few_sizes(cause.cond)
                or (term.kind in ("divisibility", "other") and self.baked.mixes_rows(entry, term.symbols))
            ):
                constant = self.baked.constant(entry)
            else:
                constant = self._end(term, entry, sample)
            if constant is not None:
                return cause, constant
        return None, None

    def _end(self, term: Term, entry: Entry, sample: Sample | None) -> Stored | None:
        """Return the constant end of a Slice that causes an upper bound."""
        if term.kind != "range" or len(term.symbols) != 1 or sample is None:
            return None
        (name,) = term.symbols
        most = sample.fails[name] - 1
        return self.baked.ends_early(entry, most) if sample.runs[name] <= most else None


def _is_tie(term: Term) -> bool:
    """Return True if the term is an equality of sizes, or a choice between equalities."""
    parts = term.cond.args if term.cond.kind == "or" else (term.cond,)
    return term.kind != "divisibility" and all(isinstance(c, Cond) and c.kind == "==" for c in parts)


def _only_size(term: Term) -> int | None:
    """Return the only size that an equality allows for its symbol; None for other terms."""
    if term.cond.kind != "==" or len(term.symbols) != 1:
        return None
    d = term.cond.args[0]
    rest = d - d.const
    size = -d.const if rest.name is not None else d.const
    return size if size > 0 and term.symbols[0] in (rest.name, (-rest).name) else None


def _limit(
    code: str, term: Term, only: int | None, culprits: tuple[str, ...], facts: dict[str, Any]
) -> Limit:
    if code == "SS401":
        return OneSize(size=only or 0, **facts)
    if code == "SS404":
        return BakedSize(culprits=culprits, **facts)
    return SameDim(claim=requirement_text(term.text), **facts) if code == "SS402" else Restricted(**facts)


def _may_be_tabled(term: Term, constant: Stored | None) -> bool:
    """Return True if the size of a stored tensor may cause the term: no multiple, no lower bound, no stored number."""
    if constant is not None and constant.data:
        return False
    is_minimum = term.cond.kind == ">=" and all(c > 0 for _, c in term.cond.args[0].terms)
    return term.kind != "divisibility" and not is_minimum


def _others_text(first: str, same: Collection[str], nodes: Sequence[str]) -> str:
    """Text on other nodes that need the term: the name of one, the number of several."""
    more = [n for n in dict.fromkeys(same) if n != first]
    others = [n for n in dict.fromkeys(nodes) if n not in {first, *same}]
    texts = []
    if more:
        texts.append(f"{more[0]} needs this, too" if len(more) == 1 else f"{len(more)} more nodes need this")
    if others:
        one = f"{others[0]} needs it for a different reason"
        texts.append(one if len(others) == 1 else f"{len(others)} more nodes need it for different reasons")
    return f" ({', and '.join(texts)})" if texts else ""
