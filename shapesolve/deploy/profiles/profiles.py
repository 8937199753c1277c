"""Profiles: minimum, optimum, and maximum shapes of every dynamic input, accepted together.

Compilers for dynamic shapes (TensorRT, OpenVINO, Core ML) require a range for each dim of each input. They evaluate
the model at the minimum, optimum, and maximum sizes, so all three must be accepted; conditions on the rest of the
ranges are reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ...analysis import Analysis, analyze
from ...answers.rejected import Rejected, rejected_by
from ...arguments import checked
from ...expr import Cond, ge, le
from ...expr.sizes import sizes_text
from ...lower.types import Tensor
from ...solve.sizes import Side
from ..limits import MAX_PROFILES
from ..sizes import NoSizes, Sizes

SizesByName = Mapping[str, int]
_SIDES: tuple[Side, ...] = ("above", "both")


class NoProfile(NoSizes):
    """Raised if no profile satisfies the request.

    Attributes:
        corner: ``min``, ``opt``, or ``max``.
        rejected: The conditions that exclude the corner.
    """

    def __init__(self, corner: str, sizes: SizesByName, rejected: Iterable[Rejected], more: str = "") -> None:
        self.corner, found = corner, tuple(rejected)
        reasons = "; ".join(f"{r.sentence}, needed by {r.nodes[0]}" if r.nodes else r.sentence for r in found)
        super().__init__(
            f"no profile has {corner} {sizes_text(sizes)}{f': {reasons}' if reasons else ''}{more}", found
        )

    @property
    def broken(self) -> tuple[str, ...]:
        """The conditions that exclude the corner, as text."""
        return tuple(r.text for r in self.rejected)


@dataclass(frozen=True, slots=True)
class Range:
    """Minimum, optimum, and maximum shape of one input."""

    min: tuple[int, ...]
    opt: tuple[int, ...]
    max: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Profile:
    """Accepted minimum, optimum, and maximum of all sizes.

    Attributes:
        min, opt, max: Sizes by dim name.
        inputs: Shapes by input, for inputs with named dims.
        conditions: Contract conditions that sizes within the ranges must satisfy, as strings; if there are none, all
            of them are accepted.
    """

    min: Mapping[str, int]
    opt: Mapping[str, int]
    max: Mapping[str, int]
    inputs: Mapping[str, Range]
    conditions: tuple[str, ...]

    def __repr__(self) -> str:
        ranges = ", ".join(
            f"{n} = {self.min[n]} to {size} (opt {self.opt[n]})" for n, size in self.max.items()
        )
        return f"Profile({ranges})"

    def holds(self, sizes: SizesByName) -> bool:
        """Return True if these sizes are within the profile's ranges."""
        return all(self.min[n] <= size <= self.max[n] for n, size in sizes.items())

    def to_json(self) -> dict[str, Any]:
        """Return the profile as plain data."""
        shapes = {
            n: {"min": list(r.min), "opt": list(r.opt), "max": list(r.max)} for n, r in self.inputs.items()
        }
        sizes = {"min": dict(self.min), "opt": dict(self.opt), "max": dict(self.max)}
        return {"sizes": sizes, "inputs": shapes, "conditions": list(self.conditions)}


@checked
def profile(
    model: Any,
    opt: SizesByName,
    *,
    min: SizesByName | None = None,
    max: SizesByName | None = None,
    split: bool = False,
    empty_cache: bool = True,
) -> tuple[Profile, ...]:
    """Return profiles for compilers: accepted minimum, optimum, and maximum sizes for every dynamic input.

    Defaults for missing names: the optimum is the accepted size nearest to 1, or a typical size if `opt` is empty; the
    minimum is the smallest size of at least 1 (0 for a cache) that is accepted with the others; the maximum is the
    accepted size nearest to the optimum that is not below it (so ``total`` follows ``past + seq``). Names bound by the
    analysis keep their size.

    Args:
        model: An `Analysis`, or any model that `analyze` accepts.
        opt: Optimum sizes by dim name.
        min, max: Minimum and maximum sizes.
        split: Whether to return several profiles within `max` if it is not accepted as a whole: in each, a name
            reaches the largest size that it can, then the others theirs. Intermediate sizes may be in none of them.
        empty_cache: Whether the minimum of a cache length may be 0.

    Raises:
        ModelError: If the model cannot be read.
        NoProfile: If a corner breaks the contract; the message has the corner and the condition.
        ValueError: If a name is unknown, or the minimum, optimum, and maximum sizes are not in order.
    """
    a = model if isinstance(model, Analysis) else analyze(model)
    low, high = dict(min or {}), dict(max or {})
    corners = _Corners(a, opt, low, high, empty_cache)
    usual = corners.opt()
    least = corners.min(usual)
    try:
        return (corners.profile(least, usual, corners.max(usual)),)
    except NoProfile as refused:
        parts = corners.split(least, usual)
        if split and parts:
            return tuple(parts)
        more = f"; it can be split into {len(parts)} profiles" if len(parts) > 1 else ""
        if len(parts) == 1:
            more = f"; {sizes_text(parts[0].max, high)} is accepted"
        raise NoProfile(refused.corner, high, refused.rejected, more) from None


class _Corners:
    """Search for accepted minima, optima, and maxima for one request."""

    def __init__(
        self, analysis: Analysis, opt: SizesByName, low: SizesByName, high: SizesByName, empty_cache: bool
    ) -> None:
        self.empty_cache = empty_cache
        self.analysis = analysis
        self.asked = {"opt": dict(opt), "min": dict(low), "max": dict(high)}
        likely = Sizes(analysis).likely.items()
        # Names that the request does not mention keep likely sizes: a range around those would contain rejected
        # sizes.
        self.kept = {n: v for n, v in likely if not any(n in given for given in self.asked.values())}
        self.any = Sizes(analysis, self.kept)
        for given in self.asked.values():
            self.any.known(given)
        for smaller, larger in (("min", "opt"), ("opt", "max"), ("min", "max")):
            for name, size in self.asked[smaller].items():
                if size > self.asked[larger].get(name, size):
                    raise ValueError(
                        f"{smaller} {name} = {size} is greater than {larger} {name} = {self.asked[larger][name]}"
                    )
        self.engine = analysis._solved.prover.engine
        #: conditions that typical sizes satisfy, such as total_seq == past_seq + seq
        self.scope: tuple[Cond, ...] = analysis.contract.usual.whole.equal

    # ------------------------------------------------------------------ the three corners

    def opt(self) -> dict[str, int]:
        """Return the accepted optimum: requested sizes, the others as close to 1 as possible; typical ones without any."""
        lows, highs = self.asked["min"], self.asked["max"]
        start = dict.fromkeys(self.any.names, 1)
        with suppress(NoSizes):
            start = start if self.asked["opt"] else Sizes.usual(self.analysis, self.kept).preferred()
        start = {n: min(max(size, lows.get(n, 0)), highs.get(n, size)) for n, size in start.items()}
        found = self._nearest("opt", start, lows, highs)
        if not all(cond.evaluate(found) for cond in self.scope):
            self.scope = ()
        return found

    def min(self, usual: SizesByName) -> dict[str, int]:
        """Return the smallest accepted sizes up to `usual`; 0 for a cache that may be empty."""
        caches = self.analysis.contract.usual.may_be_empty if self.empty_cache else ()
        start = {n: 0 if n in caches else min(1, size) for n, size in usual.items()}
        return self._nearest("min", start, {}, usual)

    def max(self, usual: SizesByName) -> dict[str, int]:
        """Return the accepted maximum, at least `usual`."""
        return self._nearest("max", usual, usual, {})

    def _nearest(
        self, corner: str, start: SizesByName, lows: SizesByName, highs: SizesByName
    ) -> dict[str, int]:
        """Return the accepted sizes close to `start` within these bounds, or the smallest ones.

        Raises:
            NoProfile: If there are none.
        """
        asked = self.asked[corner]
        fixed = {**self.kept, **asked}
        free = [n for n in self.any.names if n not in fixed and n not in self.any.fixed]
        bounds = self._within(free, lows, highs)
        for conds in dict.fromkeys(((*self.scope, *bounds), (*bounds,))):
            question = Sizes(self.analysis, fixed, least=1, also=conds)
            for side in _SIDES:
                with suppress(NoSizes):
                    return question.nearest({**start, **question.fixed}, side)
        bounds += self._exactly({**self.any.fixed, **fixed})
        for least in (1, 0):
            at_least = [ge(self.analysis.symbols[n], least) for n in free]
            smallest = self._extreme([*bounds, *at_least], free, {})
            if smallest is not None:
                return smallest
        raise NoProfile(corner, asked, self._broken(bounds, asked) or self.any.broken({**start, **fixed}))

    def _broken(self, bounds: list[Cond], asked: SizesByName) -> list[Rejected]:
        """Return a minimal set of contract conditions that exclude all sizes within bounds, with the sizes `asked` for.

        It is empty if unsatisfiability is not proved.
        """
        terms = [*self.analysis.contract.terms, *self.analysis.contract.assumed]
        sizes = [c for c in self.any.contract if c not in {t.cond for t in terms}]
        core = self.engine.core([*(t.cond for t in terms), *bounds, *sizes]) or ()
        return rejected_by([terms[i] for i in core if i < len(terms)], asked)

    # ------------------------------------------------------------------ several profiles

    def split(self, least: SizesByName, usual: SizesByName) -> list[Profile]:
        """Return profiles that start at the minimum, one for each symbol with a maximum.

        In each, one name has its maximum, then the others theirs.
        """
        tops = {n: v for n, v in self.asked["max"].items() if n not in self.any.fixed}
        others = {n: v for n, v in usual.items() if n not in tops and n not in self.any.fixed}
        bounds = self._within([*tops, *others], least, tops) + self._exactly(self.any.fixed)
        for name, size in others.items():  # the other names keep their optimum if possible
            stays = ge(self.analysis.symbols[name], size)
            if self.engine.model([*self.any.contract, *bounds, stays]) is not None:
                bounds.append(stays)
        found: list[Profile] = []
        for name in list(tops)[:MAX_PROFILES]:
            greatest = self._extreme(bounds, [name, *(n for n in tops if n != name), *others], tops)
            if greatest is None or any(p.holds(greatest) for p in found):
                continue
            found = [p for p in found if any(v > greatest[n] for n, v in p.max.items())]
            near = {n: min(usual[n], v) for n, v in greatest.items()}
            found.append(self.profile(least, self._between(near, least, greatest), greatest))
        return found

    def _between(self, near: SizesByName, least: SizesByName, greatest: SizesByName) -> dict[str, int]:
        """Return accepted sizes close to `near` within a range, or its maximum if there are none."""
        try:
            found = self.any.nearest(near)
        except NoSizes:
            return dict(greatest)
        return found if all(least[n] <= v <= greatest[n] for n, v in found.items()) else dict(greatest)

    def _within(self, names: Iterable[str], lows: SizesByName, highs: SizesByName) -> list[Cond]:
        symbols = self.analysis.symbols
        bounds = [ge(symbols[n], lows[n]) for n in names if n in lows]
        return bounds + [le(symbols[n], highs[n]) for n in names if n in highs]

    def _exactly(self, sizes: SizesByName) -> list[Cond]:
        return self._within(sizes, sizes, sizes)

    def _extreme(self, bounds: list[Cond], order: Iterable[str], tops: SizesByName) -> dict[str, int] | None:
        """Return accepted sizes within bounds: each name in turn as large as possible if it is in `tops`, or as small."""
        finder = self.analysis._solved.finder([*self.any.also, *self._exactly(self.any.fixed), *bounds])
        part: dict[str, int] = {}
        for name in order:
            found = finder.extreme(name, 1 if name in tops else -1, part)
            if found is None:
                return None
            part[name] = found[name]
        return finder.completed({**self.any.fixed, **part})

    # ------------------------------------------------------------------ conditions within a range

    def profile(self, least: SizesByName, usual: SizesByName, greatest: SizesByName) -> Profile:
        """Return the profile of these three accepted corners."""
        inputs = _ranges(self.any, least, usual, greatest)
        return Profile(least, usual, greatest, inputs, tuple(self._conditions(least, greatest)))

    def _conditions(self, least: SizesByName, greatest: SizesByName) -> Iterator[str]:
        """Return contract conditions that some sizes within the ranges violate, simplified if the ranges are in its
        scope.
        """
        symbols = self.analysis.symbols
        box = [c for n in self.any.names for c in (ge(symbols[n], least[n]), le(symbols[n], greatest[n]))]
        contract = self.analysis.contract
        usual = contract.usual
        scope = (*usual.whole.sizes, *usual.scope)
        whole = all(self.engine.entails(cond, box).proved for cond in scope)
        for term in (*(usual if whole else contract.terms), *contract.assumed):
            if not self.engine.entails(term.cond, box).proved:
                yield term.text


def point_profile(analysis: Analysis, sizes: SizesByName) -> Profile:
    """Return a profile with a single accepted size per symbol."""
    return Profile(sizes, sizes, sizes, _ranges(Sizes(analysis), sizes, sizes, sizes), ())


def _ranges(question: Sizes, *corners: SizesByName) -> dict[str, Range]:
    """Return the range of shapes of each dynamic input."""
    shapes = [question.shapes(sizes) or {} for sizes in corners]
    found = {}
    for name, known in question.analysis.inputs.items():
        if isinstance(known, Tensor) and known.shape is not None and any(d.terms for d in known.shape):
            found[name] = Range(*(s[name] for s in shapes))
    return found
