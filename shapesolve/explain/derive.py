"""Constants that a size of the example stayed behind in, tried as sizes: does the model run at others then?

The constant behind a restriction may be one of several that hold the size. Each is given numbers that may be any, until nothing
restricts the dim any more; what these numbers have to be follows, or is looked for among the sizes that their nodes see. Then
the model is analyzed anew with these sizes in the place of the constants: only what is unrestricted there is said.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, combinations, islice
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from ..expr import ONE, Cond, Dim, eq, ge
from ..lazy import cached_property
from ..lower.values import Ratio
from ..propagate import budget
from ..solve.effort import Effort
from ..solve.sizes import SizeFinder
from .baked import Baked, Stored, whole
from .limit import Limit
from .operands import IDLE, sites_of
from .repair import MAX_LOWERED as MOST_LOWERED

if TYPE_CHECKING:
    from ..lower.values import Elem
    from ..solve.contract.contract import Term
    from .solved import Solved

#: analyses for one restriction, constants that are looked at together, and numbers that one of them may hold
_MOST_TRIED, _MOST_TOGETHER, _MOST_HELD = 20, 16, 16
#: sizes that are tried for numbers of which nothing says what they have to be
_MOST_CANDIDATES = 6
#: constants that one condition may come from
_MOST_HOLDERS = 4
#: larger numbers are no sizes: they stand for "up to the end"
_HUGE = 1 << 31

Elements = Mapping[str, tuple["Elem", ...]]
#: finds what limits these names in an analysis
Limits = Callable[["Solved", Collection[str]], Iterable["Limit"]]


class Derived(NamedTuple):
    """Elements of constants under which a limit is gone; where none were found, what is `left` with those that were tried."""

    elements: Elements
    left: Limit | None = None

    @property
    def first(self) -> Stored | None:
        """The first of the constants."""
        return next((Stored(tensor, True) for tensor in self.elements), None)


class Deriver:
    """Tries on one analysis what becomes of its limits when constants are derived from sizes.

    All trials together have one budget: the nodes that are lowered, and what the solver is asked on what came of them.
    """

    def __init__(self, analysis: Solved, limits: Limits) -> None:
        self.analysis, self.limits = analysis, limits
        self.effort = Effort()

    def derived(self, limit: Limit) -> Derived:
        """The constants that hold a limit together, and elements under which it is gone."""
        if limit.entry is None or limit.constant is None:
            return Derived({})
        search = _Search(self, limit)
        found = search.found({}, limit, self.analysis)
        return Derived(found, None if found else search.left)

    @cached_property
    def before(self) -> tuple[Limit, ...]:
        """What limits the inputs while constants are what they are."""
        return tuple(self.limits(self.analysis, self.analysis.symbols))

    def analyzed(self, instead: Elements) -> Solved | None:
        """The analysis with other elements of constants; None where that is too much work, or where a node cannot run."""
        if not self.may_try():
            return None
        rlimit = min(self.analysis.rlimit, budget.CHEAP_RLIMIT)
        after = self.analysis.again(effort=self.effort, trial=True, instead=instead, rlimit=rlimit)
        return None if after.stuck else after

    def may_try(self) -> bool:
        """Is there work left for one more trial? Counts its nodes."""
        self.effort.spent += len(self.analysis.model.graph.nodes)
        return self.effort.spent <= MOST_LOWERED

    def held(self, tensor: str) -> list[int | None]:
        """The whole numbers that a constant holds."""
        value = self.analysis.values.get(tensor)
        elems = () if value is None else value.elems or ()
        return [whole(e) for e in elems] if len(elems) <= _MOST_HELD else []

    def read_beside(self, tensor: str, lowered: Solved) -> Iterator[tuple[Dim, ...]]:
        """The shapes of the tensors that nodes read together with this one."""
        low = lowered.lowered
        for node, prefix in dict.fromkeys(low.walk.state.producers.values()):
            names = [low.full_name(n, prefix) for n in node.inputs if n]
            if tensor in names:
                yield from (tuple(low.shapes[n]) for n in names if n != tensor and n in low.shapes)


class _Search:
    """The search for what takes one limit away."""

    def __init__(self, deriver: Deriver, limit: Limit) -> None:
        self.deriver, self.limit = deriver, limit
        self.tries = _MOST_TRIED
        analysis = deriver.analysis
        #: what was left with the first sizes that were tried
        self.left: Limit | None = None
        #: what is beside the constants that were tried last
        self._beside: Limit | None = None
        entails = analysis.prover.engine.entails
        beside = [
            t for t in analysis.contract.internal if not entails(t.cond, [limit.cond], cheap=True).proved
        ]
        #: what is asked besides: of what data decides only that which does not follow from the limit
        self.terms = {t.cond for t in (*analysis.contract.readable, *beside)}
        self.known = {k.cond for k in deriver.before if not set(k.names).isdisjoint(limit.names)} - {
            limit.cond
        }

    def found(self, freed: Elements, limit: Limit, now: Solved) -> Elements:
        """The constants of `freed` and those that hold the size beside them, with elements under which nothing holds it.

        `limit` is what is left `now`, when those of `freed` may be anything.
        """
        if limit.entry is None or len(freed) == _MOST_TOGETHER:
            return {}
        holders = dict.fromkeys(islice(Baked(now).holders(limit.entry), _MOST_HOLDERS))
        for tensor in (h for h in holders if h not in freed):
            for option in self._options(tensor):
                instead = {**freed, tensor: option}
                after = self._tried(instead)
                if after is None:
                    continue
                rest = next(self._rest(after), None)
                if rest is None and after.contract.impossible:
                    continue
                found = {} if rest else self._settled(instead, after)
                rest = rest or self._beside
                self.left = self.left or rest
                if rest and not found:
                    found = self.found(instead, rest, after)
                if found:
                    return found
        return {}

    def _tried(self, instead: Elements) -> Solved | None:
        self.tries -= 1
        return None if self.tries < 0 else self.deriver.analyzed(instead)

    def _rest(self, after: Solved) -> Iterator[Limit]:
        """What limits the same names now, and did not before: what takes no contract to tell comes first."""
        return (k for k in self.deriver.limits(after, self.limit.names) if k.cond not in self.known)

    def _runs_elsewhere(self, after: Solved) -> bool:
        """Does the model run at sizes that the limit excludes, of tensors that are not empty?"""
        needed, cond = [*_present(after), *after.contract.terms.cond], self.limit.cond
        return cond not in needed and SizeFinder(needed).breaking(cond, None) is not None

    def _options(self, tensor: str) -> Iterator[tuple[Elem, ...]]:
        """The elements with some that may be any number: those that are one size first, then one element, then all."""
        held = self.deriver.held(tensor)
        value = self.deriver.analysis.values.get(tensor)
        elems = () if value is None else value.elems or ()
        places = [i for i, n in enumerate(held) if n is not None and n not in IDLE and 0 < n < _HUGE]
        kept = {
            d.const
            for shape in self.deriver.read_beside(tensor, self.deriver.analysis)
            for d in shape
            if not d.terms
        }
        numbers = sorted(
            dict.fromkeys(held[i] for i in places), key=lambda n: (n != self.limit.size, n in kept)
        )
        sets = [[i for i in places if held[i] == n] for n in numbers]
        sets += [[i] for s in sets if len(s) > 1 for i in s]
        sets += [places] if len(numbers) > 1 else []
        for free in sets:
            yield tuple(None if i in free else e for i, e in enumerate(elems))

    def _settled(self, freed: Elements, after: Solved) -> Elements:
        """Sizes for the numbers that may be any, under which nothing new is asked of the names, or else no limit is."""
        second: Elements = {}
        self._beside = None
        for instead in self._sizes(freed, after):
            tried = self._tried(instead)
            if tried is None:
                continue
            rest = next(chain(self._rest(tried), self._inner(tried)), None)
            self._beside = self._beside or rest
            if rest or tried.contract.impossible:
                continue
            asked = self._asked(tried)
            if not all(map(_is_natural, asked)) or not self._runs_elsewhere(tried):
                continue
            if not asked:
                return instead
            second = second or instead
        return second

    def _inner(self, after: Solved) -> Iterator[Limit]:
        """What is needed of the same names where data has it so, in a branch that is taken, and was not before."""
        names = set(self.limit.names)
        for term in after.contract.internal:
            needs = [n for n in term.numbers if after.stated[n].role == "requirement"]
            if needs and names & term.cond.free and term.cond not in self.terms:
                entry = after.walk.state.log[needs[-1]]
                yield Limit(self.limit.names, term.cond, entry, Baked(after).constant(entry))

    def _asked(self, after: Solved) -> list[Term]:
        """What is asked of the names now, and was not before, of tensors that are not empty."""
        names, entails = set(self.limit.names), after.prover.engine.entails
        new = [t for t in after.contract.readable if t.cond not in self.terms and names & set(t.symbols)]
        return [t for t in new if not entails(t.cond, _present(after), cheap=True).proved]

    def _sizes(self, freed: Elements, after: Solved) -> Iterator[Elements]:
        """Sizes for the numbers that may be any: as they follow, else those of the same axis, else one size for all."""
        known: dict[str, list[Elem]] = {}
        for tensor, elems in freed.items():
            value = after.values.get(tensor)
            now = elems if value is None or value.elems is None else value.elems
            known[tensor] = [
                _size(e, after) if was is None else was for was, e in zip(elems, now, strict=True)
            ]
        if all(e is not None for elems in known.values() for e in elems):
            yield {tensor: tuple(elems) for tensor, elems in known.items()}
            return
        beside = {tensor: list(self.deriver.read_beside(tensor, after)) for tensor in freed}
        ways: list[Callable[[str, int], Elem]] = [
            lambda tensor, i: _at(beside[tensor], i, len(known[tensor]), after)
        ]
        shapes = [shape for shapes in beside.values() for shape in shapes]
        sizes = islice(self._candidates(shapes, after), _MOST_CANDIDATES)
        ways += [partial(_same, size) for size in sizes]
        yield from filter(self._may_be_as_it_was, (f for way in ways for f in _filled(known, way)))

    def _may_be_as_it_was(self, instead: Elements) -> bool:
        """Does the model run at sizes at which these elements are those that it holds?"""
        analysis = self.deriver.analysis
        same = [
            eq(e, n)
            for tensor, elems in instead.items()
            for e, n in zip(elems, self.deriver.held(tensor), strict=True)
            if isinstance(e, Dim) and n is not None and e.terms
        ]
        known = [*_present(analysis), *analysis.contract.terms.cond, *same]
        return analysis.prover.engine.satisfiable(known, cheap=True).sat

    def _candidates(self, shapes: Iterable[Sequence[Dim]], after: Solved) -> Iterator[Dim]:
        """Sizes that a number may be: those that its nodes see, or the failing node, those of the inputs, and products."""
        seen = [d for shape in shapes for d in shape]
        entry = self.limit.entry
        if entry is not None:
            sites = sites_of(entry, after.lowered)
            seen += [d for s in sites for d in after.shapes.get(s.tensor, ()) if not s.data]
        seen += [after.symbols[name] for name in self.limit.names if name in after.symbols]
        seen += [
            prod(shape[i:j], start=ONE) for shape in shapes for i, j in combinations(range(len(shape) + 1), 2)
        ]
        found = (_size(after.facts.dim(d), after) for d in seen)
        yield from dict.fromkeys(d for d in found if d is not None and d.terms)


def _present(after: Solved) -> list[Cond]:
    return [ge(d, 1) for d in after.symbols.values()]


def _is_natural(term: Term) -> bool:
    """Does it leave many sizes: multiples, or all from one on or up to one?"""
    return term.kind in ("range", "divisibility") or term.cond.kind == ">="


def _filled(known: Mapping[str, Sequence[Elem]], by: Callable[[str, int], Elem]) -> Iterator[Elements]:
    """The elements with what is missing taken from `by`, where it has something for each."""
    chosen = {
        tensor: tuple(by(tensor, i) if e is None else e for i, e in enumerate(elems))
        for tensor, elems in known.items()
    }
    if all(e is not None for elems in chosen.values() for e in elems):
        yield chosen


def _same(size: Dim, _tensor: str, _i: int) -> Elem:
    return size


def _at(shapes: Iterable[Sequence[Dim]], i: int, count: int, after: Solved) -> Dim | None:
    """The size that is not fixed at the same place of a shape, from the left or from the right."""
    for shape in shapes:
        for at in (i, i - count):
            if -len(shape) <= at < len(shape) and shape[at].terms and _size(shape[at], after) is not None:
                return shape[at]
    return None


def _size(element: Elem, after: Solved) -> Dim | None:
    """The size that an element is, in terms of the inputs, of floats too."""
    if isinstance(element, Ratio):
        element = element.num if element.den == 1 else None
    return element if isinstance(element, Dim) and element.free <= after.symbols.keys() else None
