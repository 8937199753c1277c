"""Findings about restricted dims: one for each contract term on a dim declared dynamic.

The reason given is that of the node which breaks at the sizes that are given as an example; both of these, one that runs and
one near to it that does not, are judged by what the model accepts before they are given.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from ..expr import Cond, ge
from ..expr.sizes import sizes_text
from ..lower.records import Entry
from ..propagate import budget
from ..solve.check import Checker
from ..solve.moves import around, nearer
from ..solve.sizes import SizeFinder
from .baked import Baked, Stored
from .finding import Finding
from .limits import MAX_SAMPLES, MAX_SIZE
from .operands import sides_of
from .repair import Repair, Repairs
from .wording import is_short, limit_help, operand_rows, requirement_text, rule_text

if TYPE_CHECKING:
    from ..solve.contract.contract import Term
    from .solved import Solved

Sizes = Mapping[str, int]
#: best rank of a sample: a constant is broken, one that by itself leaves few sizes, and no other condition
_PLAINEST = (False, False, 1)
#: kinds of terms that may leave a few sizes, and examples that are looked at for the constant behind them
_MAY_BE_FEW, _SAMPLES = ("equality", "alternative", "other"), 16


class _Cause(NamedTuple):
    """A requirement of a node, by its index in the log."""

    number: int
    cond: Cond


class _Sample(NamedTuple):
    """Sizes of all inputs at which the model runs, and similar ones at which it fails."""

    runs: Sizes
    fails: Sizes

    def text(self, names: Sequence[str]) -> str:
        """Text of a sample: the sizes that run, and those that fail. `names` are the symbols of the broken term, and
        only these may have other sizes that run.
        """
        changed = [n for n in self.fails if self.runs[n] != self.fails[n]]
        shown = dict.fromkeys((*names, *changed))
        return f"runs at {sizes_text(self.runs, shown)}, not at {sizes_text(self.fails, shown)}"


def findings(analysis: Solved) -> Iterator[Finding]:
    """A finding for each contract term, except that a dim is not empty."""
    terms = _telling(analysis)
    if not terms:
        return
    restrictions = _Restrictions(analysis)
    empty = restrictions.empty(terms)
    if empty is not None:
        yield empty.finding
        terms = [t for t in terms if t.cond not in empty.conds]
    open_at = {node for a in analysis.ambiguities for node in a.sites}  # which have a finding of their own
    for term in terms:
        found = restrictions.finding(term)
        if (
            found.code != "SS403"
            or term.kind != "alternative"
            or open_at.isdisjoint((found.node, *term.nodes))
        ):
            yield found


def _telling(analysis: Solved) -> list[Term]:
    contract = analysis.contract
    terms = contract.terms if contract.usual.whole.dropped else contract.usual.terms
    return [t for t in terms if t.kind != "nonempty" and not _is_settled(t, analysis)]


def _is_settled(term: Term, analysis: Solved) -> bool:
    """True if the term is an equality that a finding on one of its symbols already reports."""
    return term.kind == "equality" and any(s in analysis.facts.substitution for s in term.symbols)


#: sample, conditions broken there, the cause that is an unintended constant, and that constant
_Best = tuple[_Sample | None, Sequence[_Cause], _Cause | None, Stored | None]


class _Evidence(NamedTuple):
    """Evidence for one term: a sample, the broken condition, the constant behind it. `baked`: an unintended one."""

    sample: _Sample | None
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
        #: size of the conditions that may still be evaluated at samples; beyond, terms have none
        self._left = budget.MAX_AROUND_WORK
        self._cost = sum(c.size for c in analysis.accepted.conds)
        self._shared: dict[tuple[str, int], tuple[str, int]] = {}
        contract = analysis.contract
        self.engine, self.repairs = analysis.prover.engine, Repairs(analysis.lowered, analysis.request)
        self.checker = Checker(analysis.stated, analysis.facts, analysis.accepted)
        self.present = [ge(d, 1) for d in analysis.symbols.values()]
        conds = [t.cond for t in (*contract.usual, *contract.assumed)]
        usual = SizeFinder([*conds, *self.present]).some()
        #: sizes of all inputs at which the model runs, of inputs that are not empty where it runs on such
        self.runs = usual or SizeFinder(conds).some() or analysis.completed({}) or {}
        self.is_usual = usual is not None
        self.beside = [*conds, *(self.present if usual else ())]
        self.near = SizeFinder(self.beside)

    def finding(self, term: Term) -> Finding:
        """The finding of one term: a warning if an unintended constant causes it."""
        sample, cause, constant, baked = self.evidence(term)
        only = _only_size(term)
        code = "SS401" if only is not None else "SS404" if baked else "SS403"
        notes: tuple[str, ...] = ()
        runs: tuple[tuple[str, int], ...] = ()
        fails = runs
        if sample is not None and not self.analysis.violations_at(
            sample.runs
        ):  # what terms leave open, numbers decide
            notes = tuple(end.text(term.symbols) for end in (sample, *self._other_ends(term, sample)))
            runs, fails = self._pairs(sample.runs), self._pairs(sample.fails)
        if cause is None:
            title = _title(code, term)
            return Finding(code, title, nodes=term.nodes, notes=notes, runs=runs, fails=fails)
        tied = is_short(term.text) and (_is_tie(term) or self.baked.few_sizes(cause.cond))
        found = self._repairs(term, cause) if code != "SS403" or tied else ()
        if code == "SS403" and term.kind != "equality":
            found = tuple(r for r in found if r.edit.cost == 1)
        if code == "SS403" and found:  # no limit of what the model is for: an edit takes it away
            code = "SS402" if term.kind == "equality" else "SS404"
        origin = self.analysis.stated[cause.number].origin
        same = [c.origin.node for c in term.constraints if c.origin.rule == origin.rule and c.origin.node]
        alone = set(same) <= {origin.node}
        rule = rule_text(self._entry(cause), self.lowered) if alone else origin.rule
        meant = code in ("SS402", "SS403") or constant is None
        behind = None if meant or constant is None else constant.site
        sides = sides_of(self._entry(cause), self.lowered, behind)
        return Finding(
            code,
            _title(code, term),
            origin.node,
            origin.op_type,
            tuple(dict.fromkeys((*term.nodes, origin.node))),
            operand_rows(sides, self.lowered),
            notes=(
                f"{rule}{_others_text(origin.node, same, term.nodes)}",
                *notes,
            ),
            help=self._help(term, cause, constant, found) if code != "SS403" else "",
            runs=runs,
            fails=fails,
            constants=() if meant else tuple(filter(None, [self.baked.named(constant, cause.cond)])),
        )

    def empty(self, terms: Sequence[Term]) -> _Empty | None:
        """The finding if every accepted input has a dim of size 0 though no single dim must be 0, else None."""
        if self.is_usual:
            return None
        facts, names = self.analysis.facts, self.analysis.symbols
        present = [ge(d, 1) for d in names.values() if facts.dim(d).terms]
        conds = [*(t.cond for t in self.analysis.contract.assumed), *present]
        alone = [t for t in terms if self.engine.satisfiable([t.cond, *present], cheap=True).unsat]
        if not alone and not self.engine.satisfiable([*(t.cond for t in terms), *conds], cheap=True).unsat:
            return None
        shown = alone[:1] or terms
        first = self.finding(shown[0])
        nodes = dict.fromkeys((first.node, *(n for t in shown for n in t.nodes)))
        text = " and ".join(t.text for t in shown)
        title = "the model runs on empty inputs only" + (f": {text} is needed" if is_short(text) else "")
        cause = self.evidence(shown[0]).cause
        look = ""
        if first.node and cause is not None:
            always = self.engine.satisfiable([cause.cond, *present], cheap=True).unsat
            look = f"{first.node} fails on every input that is not empty: start there" if always else ""
            if first.fails and not always:
                look = f"{first.node} fails at the sizes shown: start there"
        help_ = ". Or: ".join(map(str, () if cause is None else self._repairs(shown[0], cause))) or look
        finding = replace(first, code="SS406", title=title, nodes=tuple(filter(None, nodes)), help=help_)
        return _Empty([t.cond for t in shown], finding)

    def _repairs(self, term: Term, cause: _Cause) -> tuple[Repair, ...]:
        if term.cond not in self._repaired:
            self._repaired[term.cond] = self.repairs.of_limit(self._entry(cause), term.symbols)
        return self._repaired[term.cond]

    def _help(self, term: Term, cause: _Cause, constant: Stored | None, found: Sequence[Repair]) -> str:
        named = self.baked.named(constant, cause.cond)
        return limit_help(term.symbols, _only_size(term), named, found)

    def evidence(self, term: Term) -> _Evidence:
        """The evidence for one term, cached."""
        found = self._evidence.get(term.cond)
        if found is None:
            sample, causes, cause, constant = self._best(term)
            baked = cause is not None
            if cause is None and causes:
                cause, constant = causes[0], self.baked.constant(self._entry(causes[0]))
            if sample is not None and cause is not None:
                sample = self._nearest(term.cond, sample, cause.cond)
            found = self._evidence[term.cond] = _Evidence(sample, cause, constant, baked)
        return found

    def _pairs(self, sizes: Sizes) -> tuple[tuple[str, int], ...]:
        """Sizes as pairs, shared among findings to save memory."""
        return tuple(self._shared.setdefault(pair, pair) for pair in sizes.items())

    def _entry(self, cause: _Cause) -> Entry:
        return self.analysis.walk.state.log[cause.number]

    def _best(self, term: Term) -> _Best:
        """The best sample for a term, the requirements broken there, and an unintended constant.

        Where few sizes are left, the first that fail may break something else that the term follows from: more are looked at,
        for a condition that leaves few sizes by itself, and is broken alone.
        """
        few = term.kind in _MAY_BE_FEW and self.baked.few_sizes(term.cond)
        found: list[tuple[tuple[bool, bool, int], _Best]] = []
        for sample in islice(self._samples(term), _SAMPLES if few else 1):
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

    # ------------------------------------------------------------------ sizes that show it

    def _samples(self, term: Term) -> Iterator[_Sample]:
        """Samples for a term: pairs of accepted and rejected sizes close to each other. Those that break fewest
        conditions come first.

        Where several nodes fail, the first of them need not be the one that needs the term.
        """
        found, looked_at = self._failing(term), list[_Sample]()
        for sample in islice(found, MAX_SAMPLES):
            looked_at.append(sample)
            if len(self.checker.broken(sample.fails)) == 1:
                break
        yield from sorted(looked_at, key=lambda s: len(self.checker.broken(s.fails)))
        yield from found

    def _failing(self, term: Term) -> Iterator[_Sample]:
        if term.cond.size > MAX_SIZE or not self.runs or self._left <= 0 or not self._runs(self.runs):
            return
        runs = self._alike(term)
        alone = self.near.breaking(term.cond, runs)
        near = around(runs, [n for n in term.symbols if n in runs])
        for fails in chain([{**runs, **alone}] if alone else [], near):
            if term.cond.evaluate(fails) is False and not self._runs(fails):
                yield _Sample(nearer(runs, fails, lambda at, _: self._runs(at)), fails)

    def _nearest(self, cond: Cond, sample: _Sample, cause: Cond | None = None) -> _Sample:
        """The sample with the rejected size moved as close as possible to the accepted one. Other conditions can be
        broken too.
        """
        changed = [n for n in sample.fails if sample.runs[n] != sample.fails[n]]
        if len(changed) != 1:
            return sample
        (name,) = changed
        runs, fails = sample.runs[name], sample.fails[name]
        step = 1 if fails > runs else -1
        for size in islice(range(runs + step, fails, step), MAX_SAMPLES):
            at = {**sample.fails, name: size}
            broken = [b.cond for b in self.checker.broken(at)] if cond.evaluate(at) is False else []
            if broken and (cause is None or cause in broken):
                return _Sample(sample.runs, at)
        return sample

    def _other_ends(self, term: Term, sample: _Sample) -> Iterator[_Sample]:
        """Samples for the other bounds of a term, for example the lower one of a range."""
        parts = term.cond.args if term.cond.kind == "and" else ()
        for part in (p for p in parts if p.evaluate(sample.fails) is not False):
            others = [*(c for c in self.beside if c is not term.cond), *parts]
            runs = dict(sample.runs)
            fails = SizeFinder(others, self.near.engine).breaking(part, runs)
            if fails is not None and not self._runs(fails):
                yield self._nearest(part, _Sample(nearer(runs, fails, lambda at, _: self._runs(at)), fails))

    def _alike(self, term: Term) -> dict[str, int]:
        """Accepted sizes of all inputs, equal ones for a term's symbols if that is accepted. If a term's sizes differ
        widely, equal sizes if these are accepted.
        """
        own = {n: self.runs[n] for n in term.symbols if n in self.runs}
        unlike = len(own) > 1 and max(own.values()) > 16 * max(min(own.values()), 1)
        for size in range(1, budget.MAX_AHEAD) if unlike else ():
            self._left -= term.cond.size
            sizes = {**self.runs, **dict.fromkeys(own, size)}
            if self._left < 0 or (term.cond.evaluate(sizes) is True and self._runs(sizes)):
                return self.runs if self._left < 0 else sizes
        return self.runs

    def _runs(self, sizes: Sizes) -> bool:
        self._left -= self._cost
        return not self.checker.broken(sizes)

    # ------------------------------------------------------------------ who needs it

    def _causes(self, term: Term, sample: _Sample | None) -> list[_Cause]:
        """Requirements of nodes that fail at the rejected sizes of the sample. Those equal to it or over the same
        symbols come first.
        """
        if sample is not None:
            conds = [b.cond for b in self.checker.broken(sample.fails)]
        else:
            own = set(term.numbers)
            conds = [c for c, numbers in self.analysis.accepted.conds.items() if own.intersection(numbers)]
        found = []
        for cond in conds:
            for number in self.analysis.accepted.conds.get(cond, ()):
                if self.analysis.stated[number].role == "requirement":
                    found.append(_Cause(number, cond))
                    break
        names = set(term.symbols)

        def far(cause: _Cause) -> tuple[bool, bool, int, int]:
            weaker = self.engine.entails(term.cond, [cause.cond], cheap=True).refuted
            return cause.cond is not term.cond, weaker, len(names ^ cause.cond.free), cause.number

        return sorted(found, key=far)

    def _baked(
        self, term: Term, causes: Sequence[_Cause], sample: _Sample | None, whole: bool
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

    def _end(self, term: Term, entry: Entry, sample: _Sample | None) -> Stored | None:
        """The constant end of a Slice that causes an upper bound."""
        if term.kind != "range" or len(term.symbols) != 1 or sample is None:
            return None
        (name,) = term.symbols
        most = sample.fails[name] - 1
        return self.baked.ends_early(entry, most) if sample.runs[name] <= most else None


def _is_tie(term: Term) -> bool:
    """True if the term is an equality of sizes, or a choice between equalities."""
    parts = term.cond.args if term.cond.kind == "or" else (term.cond,)
    return term.kind != "divisibility" and all(isinstance(c, Cond) and c.kind == "==" for c in parts)


def _only_size(term: Term) -> int | None:
    """The only size that an equality allows for its symbol; None for other terms."""
    if term.cond.kind != "==" or len(term.symbols) != 1:
        return None
    d = term.cond.args[0]
    rest = d - d.const
    size = -d.const if rest.name is not None else d.const
    return size if size > 0 and term.symbols[0] in (rest.name, (-rest).name) else None


def _title(code: str, term: Term) -> str:
    if code == "SS401":
        return f"`{term.symbols[0]}` is declared dynamic, but the model runs only at {term.symbols[0]} = {_only_size(term)}"
    names, text = ", ".join(f"`{s}`" for s in term.symbols), term.text
    declared = f"{names} {'is' if len(term.symbols) == 1 else 'are'} declared dynamic"
    if not is_short(text):
        limited = (
            f"{declared}, but the model runs at few sizes"
            if code == "SS404"
            else f"the model does not run at every size of {names}"
        )
        return f"{limited}: the condition is too long to read here"
    return f"{declared}, but the model runs only with {text}" if code == "SS404" else requirement_text(text)


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
