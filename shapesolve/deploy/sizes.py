"""`Sizes`, the search for accepted input sizes: nearest to given ones, typical ones, edge cases.

Every result is confirmed by `Analysis.check_inputs`. Candidates come from small moves, then from the solver.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING

from ..answers.example import data_conditions, typical
from ..answers.rejected import Rejected, broken_terms, misfit, rejected_by
from ..causes.limits import MAX_LISTED
from ..expr import Cond, Dim, Shape, eq, symbol
from ..expr.nearest import unknown_name
from ..expr.sizes import sizes_text
from ..lazy import cached_property
from ..lower.reads import TARGET
from ..lower.types import Tensor
from ..solve.sizes import LIKELY, Side, SizeFinder
from .limits import MAX_DRAWS, MAX_ELEMENTS

if TYPE_CHECKING:
    from ..analysis import Analysis


class NoSizes(ValueError):
    """Raised if no accepted sizes are found.

    Attributes:
        rejected: The conditions that the requested sizes break, each with the node that fails.
    """

    def __init__(self, message: str, rejected: Iterable[Rejected] = ()) -> None:
        super().__init__(message)
        self.rejected = tuple(rejected)


class Sizes:
    """Search for accepted sizes of one model.

    Args:
        analysis: Analysis of the model.
        fixed: Sizes that must not change.
        least: Minimum size near the requested ones, unless these are smaller.
        also: Conditions that sizes must satisfy in addition to the contract.

    Raises:
        NoSizes: If no sizes run at all, or an input is not a tensor of known rank.
        ValueError: If a fixed name is unknown.
    """

    def __init__(
        self,
        analysis: Analysis,
        fixed: Mapping[str, int] | None = None,
        *,
        least: int = 0,
        also: Iterable[Cond] = (),
    ) -> None:
        self.analysis, self.least, self.also = analysis, least, tuple(also)
        self.typical: Mapping[str, int] | None = None
        self.names = tuple(analysis.symbols)
        certain = {n: v for n, v in analysis._solved.fixed_sizes.items() if n in analysis.symbols}
        #: sizes under an assumption, used only as the start of the search
        self.likely = {n: v for n, v in analysis.bindings.items() if n not in certain}
        self.fixed = {**certain, **(fixed or {})}
        self.known(fixed or {})
        if analysis._solved.nothing_runs:
            raise NoSizes(analysis._solved.nothing_runs)
        for name, known in analysis.inputs.items():
            if not isinstance(known, Tensor) or name not in analysis.shapes:
                raise NoSizes(f"input {name} is not a tensor of known rank; provide its value yourself")

    @classmethod
    def usual(
        cls, analysis: Analysis, fixed: Mapping[str, int] | None = None, *, also: Iterable[Cond] = ()
    ) -> Sizes:
        """Return a search for sizes like the typical ones: in the scope of the contract if possible, and not empty."""
        question = cls(analysis, fixed, also=also)
        found = typical(analysis._solved, question.fixed, question.also)
        if found is not None:
            question.also, question.least, question.typical = found.conds, found.least, found.sizes
        return question

    def known(self, names: Iterable[str]) -> None:
        """Raise `ValueError` for unknown names."""
        for name in names:
            if name not in self.names:
                raise ValueError(unknown_name("dim", name, self.names))

    # ------------------------------------------------------------------ accepted or not

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]] | None:
        """Return the shapes of all inputs at these sizes, or None if a declared expression has no valid value."""
        out = {}
        for name in self.analysis.inputs:
            dims = [d.evaluate(sizes) for d in _declared(self.analysis, name)]
            if any(d is None or d < 0 for d in dims):
                return None
            out[name] = tuple(d for d in dims if d is not None)
        return out

    def accepted(self, sizes: Mapping[str, int]) -> bool:
        """Return True if the model accepts inputs of these sizes."""
        return self.finder.accepts({n: sizes[n] for n in self.names})

    @cached_property
    def finder(self) -> SizeFinder:
        """The finder of accepted sizes with the fixed ones."""
        fixed = [eq(symbol(name), size) for name, size in self.fixed.items() if name in self.names]
        return self.analysis._solved.finder([*self.also, *fixed], floor=self.least)

    def can_be_tried(self, sizes: Mapping[str, int]) -> bool:
        """Return True if a run at these sizes has no tensor too large, and no size of 0 that may make it fail."""
        shapes = self.shapes(sizes) or {}
        if sum(prod(s) for s in shapes.values()) > MAX_ELEMENTS:
            return False
        all_shapes = self.analysis.evaluate(sizes)
        if any(prod(all_shapes.get(name, ())) > MAX_ELEMENTS for name in self._changing):
            return False
        if any(divisor.evaluate(sizes) == 0 for divisor in self._divisors):
            return False
        if 0 in sizes.values() and data_conditions(self.analysis._solved, sizes) != []:
            return False  # float arithmetic on zero sizes (0/0) gives NaN, which is not a valid size
        return all(prod(all_shapes.get(name, (1,))) for name in self._never_empty)

    @cached_property
    def _changing(self) -> tuple[str, ...]:
        """Return the tensors whose shape depends on symbols."""
        return tuple(n for n, shape in self.analysis.shapes.items() if any(d.terms for d in shape))

    @cached_property
    def _never_empty(self) -> tuple[str, ...]:
        rules = (
            (node, self.analysis._solved.lowered.rule(node, "")) for node in self.analysis.model.graph.nodes
        )
        nodes = [node for node, rule in rules if rule is not None and "never empty" in rule.runtime]
        return tuple(dict.fromkeys(n for node in nodes for n in node.inputs if n in self.analysis.shapes))

    @cached_property
    def _divisors(self) -> tuple[Dim, ...]:
        """Return divisors in a Reshape by onnxruntime, which must not be 0.

        onnxruntime treats a target entry as -1 if it is neither a number nor the size of its axis.
        """
        found: list[Dim] = []
        for node in self.analysis.model.graph.nodes:
            rule = self.analysis._solved.lowered.rule(node, "")
            if rule is None or rule.reads is None or rule.reads.get(1) is not TARGET:
                continue
            shape, target = self.analysis.shapes.get(node.inputs[0]), self.analysis.values.get(node.inputs[1])
            if shape is None or target is None or target.elems is None:
                continue
            entries = [e for e in target.elems if isinstance(e, Dim)]
            axes = (*shape, *[None] * len(entries))
            own = [e for e, d in zip(entries, axes) if not e.terms or e is d]
            if len(own) == len(entries) - 1 == len(target.elems) - 1:
                found.append(Shape(own).numel)
        return tuple(dict.fromkeys(d for d in found if d.terms))

    @cached_property
    def contract(self) -> tuple[Cond, ...]:
        """Contract conditions, assumptions, and definitions of derived sizes, for the solver."""
        contract = self.analysis.contract
        terms = [t.cond for t in (*contract.terms, *contract.assumed)]
        return (*terms, *(eq(symbol(name), dim) for name, dim in contract.derived), *self.also)

    def fits_all_branches(self, sizes: Mapping[str, int]) -> bool:
        """Return True if every branch of the model can run at these sizes, regardless of data."""
        return not any(cond.evaluate(sizes) is False for cond in self._guarded)

    @cached_property
    def _guarded(self) -> tuple[Cond, ...]:
        found = [c for c in self.analysis._solved.stated.role("requirement") if not c.guard.is_true]
        return tuple(dict.fromkeys(c.cond for c in found))

    def broken(self, sizes: Mapping[str, int]) -> list[Rejected]:
        """Return the conditions that these sizes break."""
        terms = broken_terms(self.analysis.contract, sizes)
        if terms:
            return rejected_by(terms, sizes)
        if sizes.keys() >= set(self.names) and self.shapes(sizes) is None:
            return [misfit("a declared size would be negative")]
        return self.analysis._solved.violations_at(sizes)

    # ------------------------------------------------------------------ nearest sizes

    def nearest(self, wanted: Mapping[str, int], side: Side = "both") -> dict[str, int]:
        """Return the accepted sizes nearest to the given ones (see `SizeFinder.nearest`).

        Args:
            wanted: Sizes by name; the others are unconstrained, and as small as possible.
            side: Whether sizes may only grow (`above`), only shrink (`below`), or both.

        Raises:
            NoSizes: If none were found.
        """
        start = self._start(wanted)
        moved = {
            n: v
            for n, v in self._elsewhere(wanted).items()
            if side == ("below" if v > wanted[n] else "above")
        }
        if moved:
            raise NoSizes(
                f"{sizes_text(moved)} in every run, which is not {side} {sizes_text(wanted, moved)}"
            )
        found = self.finder.nearest({**self.likely, **wanted, **self.fixed}, side)
        if found is None:
            alone = self.broken(self.fixed)  # whatever the other sizes are
            rejected = alone or self.broken(start)
            lead = "" if alone else f"no accepted sizes were found near {sizes_text(start) or 'any'}: "
            reasons = "; ".join(r.sentence for r in rejected[:MAX_LISTED])
            raise NoSizes(f"{lead}{reasons}".removesuffix(": "), rejected)
        return found

    def _start(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """Return start values for all symbols: fixed, given, or typical ones."""
        known = {**self.finder.usual, **self.likely, **wanted, **self.fixed}
        return {n: known[n] for n in self.names}

    def _elsewhere(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """Return the fixed sizes that differ from the given ones."""
        return {n: self.fixed[n] for n, size in wanted.items() if self.fixed.get(n, size) != size}

    def completed(self, wanted: Mapping[str, int]) -> dict[str, int] | None:
        """Return accepted sizes that include the given ones, the others typical, or None if not found."""
        if self._elsewhere(wanted):
            return None
        found = typical(self.analysis._solved, {**self.fixed, **wanted}, self.also)
        if found is None:
            return None
        example, caches = self.analysis._solved.example or {}, self.analysis.contract.usual.may_be_empty
        emptied = (n for n, size in found.sizes.items() if not size and n not in wanted and n not in caches)
        return None if any(example.get(n) for n in emptied) else found.sizes

    # ------------------------------------------------------------------ samples

    def preferred(self) -> dict[str, int]:
        """Return the typical sizes (see `answers.example.typical`).

        Raises:
            NoSizes: If none were found.
        """
        return dict(self.typical or self.nearest(self._start({})))

    def prefill(self, sizes: Mapping[str, int]) -> dict[str, int] | None:
        """Return these sizes with an empty cache, or None if the model has no cache that may be empty."""
        caches = self.analysis.contract.usual.may_be_empty
        if not caches or not any(sizes[n] and n not in self.fixed for n in caches):
            return None
        empty = {n: 0 for n in caches if n not in self.fixed}
        with suppress(NoSizes):
            question = Sizes(self.analysis, {**self.fixed, **empty}, least=self.least, also=self.also)
            return question.nearest({n: size for n, size in sizes.items() if n not in empty})
        return None

    def following(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Return the sizes of other names that these determine, such as total_seq = past_seq + seq."""
        found: dict[str, int] = {}
        for name in self.names:
            part = {**self.fixed, **sizes, **found}
            if name not in part:
                low, high = (self.finder.extreme(name, sign, part) for sign in (-1, 1))
                if low is not None and high is not None and low[name] == high[name]:
                    found[name] = low[name]
        return found

    @cached_property
    def batch(self) -> frozenset[str]:
        """Names of batch sizes."""
        return frozenset(n for n, kind in self.finder.roles.kinds.items() if kind == "batch")

    def drawn(self, rng: random.Random) -> dict[str, int]:
        """Return accepted sizes close to random typical sizes.

        Raises:
            NoSizes: If none are found that are small enough to run.
        """
        refused: NoSizes | None = None
        second_best: dict[str, int] | None = None
        for attempt in range(MAX_DRAWS):
            palette = LIKELY[: (len(LIKELY), 6, 3)[attempt % 3]]
            wanted = {n: rng.choice(LIKELY[:6] if n in self.batch else palette) for n in self.names}
            if attempt % 2:
                wanted |= {n: wanted[group[0]] for group in self.finder.roles.alike for n in group}
            try:
                found = self.nearest(wanted | self.likely)
            except NoSizes as e:
                refused = refused or e
                continue
            if not self.can_be_tried(found):
                continue
            if self.fits_all_branches(found):
                return found
            second_best = second_best or found
        if second_best is not None:
            return second_best
        raise refused or NoSizes("the sizes that the model accepts are too large to try")

    def edges(self, rng: random.Random) -> Iterator[dict[str, int]]:
        """Yield accepted sizes at the bounds of the contract.

        These are the minimum, and each size at 0, 1, its minimum, and its maximum with the others typical.
        """
        seen: set[tuple[int, ...]] = set()

        def fresh(sizes: dict[str, int] | None) -> bool:
            if sizes is None or (key := tuple(sizes.values())) in seen or not self.can_be_tried(sizes):
                return False
            if not self.fits_all_branches(sizes):
                return False
            seen.add(key)
            return True

        trials: list[tuple[dict[str, int], Side]] = [(dict.fromkeys(self.names, n), "above") for n in (1, 0)]
        base = self.drawn(rng)
        for name in self.names:
            lo, hi = self.analysis.bounds(self.analysis.symbols[name])
            for size in dict.fromkeys((0, 1, lo, hi)):
                if size is not None and name not in self.fixed:
                    trials.append(({**base, name: size}, "both"))
        for wanted, side in trials:
            sizes = wanted if self.accepted({**wanted, **self.fixed}) else None
            if sizes is None and side == "above":
                try:
                    sizes = self.nearest(wanted, side)
                except NoSizes:
                    continue
            if sizes is not None and fresh({**sizes, **self.fixed}):
                yield {**sizes, **self.fixed}


def _declared(analysis: Analysis, name: str) -> Iterable[Dim]:
    known = analysis.inputs[name]
    shape = known.shape if isinstance(known, Tensor) else None
    return shape if shape is not None else analysis.shapes[name]
