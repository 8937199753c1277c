"""`enumerate_sizes`: accepted sizes in ascending order, without gaps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..analysis import Analysis, analyze
from ..arguments import checked
from ..expr import Cond, eq, ge, le, symbol
from ..expr.closures import Compiler, Test, compiled_truth
from .limits import MAX_SIZE
from .sizes import NoSizes, Sizes


@checked
def enumerate_sizes(
    model: Any, count: int = 10, *, least: int = 1, bind: Mapping[str, int] | None = None
) -> list[dict[str, int]]:
    """Return the first `count` accepted sizes, ordered by their maximum, then by each symbol in turn.

    Args:
        model: An `Analysis`, or any model that `analyze` accepts.
        count: Number of sizes. The result is shorter if there are no more, or none were found within bounded work.
        least: Minimum size of every name; 0 includes empty inputs.
        bind: Fixed sizes by name.

    Raises:
        ModelError: If the model cannot be read.
        NoSizes: If none were found, or an input is not a tensor of known rank.
        ValueError: If `bind` has an unknown name.
    """
    a = model if isinstance(model, Analysis) else analyze(model)
    question = Sizes(a, bind)
    found: list[dict[str, int]] = []
    if count > 0:
        bounds = {n: a.bounds(a.symbols[n]) for n in question.names}
        low = {n: low for n, (low, _) in bounds.items() if low is not None}
        high = {n: high for n, (_, high) in bounds.items() if high is not None}
        for sizes in InOrder(question, least, low, high):
            found.append(sizes)
            if len(found) == count:
                break
    if not found:
        raise NoSizes(f"found no accepted sizes of at least {least}: the contract is {a.contract}")
    return found


class InOrder:
    """Enumeration of accepted sizes by ascending maximum.

    Names get sizes in turn, and a condition is tested as soon as all of its names have one; if it is broken, the
    search backtracks.

    Args:
        question: Model, with the sizes that are fixed.
        least: Minimum size.
        low: Minimum size of each name.
        high: Maximum size of each name (default: unlimited).
    """

    def __init__(
        self,
        question: Sizes,
        least: int,
        low: Mapping[str, int] | None = None,
        high: Mapping[str, int] | None = None,
    ) -> None:
        self.question, self.least = question, max(least, 0)
        self.low, self.high = low or {}, high or {}
        #: False if the search ended before all sizes were tried
        self.whole = True
        self.free = [n for n in question.names if n not in question.fixed]
        self._tests: list[list[tuple[Test, Cond]]] = [[] for _ in range(len(self.free) + 1)]
        contract, compiler = question.analysis.contract, Compiler()
        for term in (*contract.terms, *contract.assumed):
            if not term.cond.free.isdisjoint(dict(contract.derived)):
                continue  # `Sizes.accepted` decides, as for all other sizes
            last = max((self.free.index(n) + 1 for n in term.cond.free if n in self.free), default=0)
            self._tests[last].append((compiler.test(term.cond), term.cond))
        self._trials = 0

    def __iter__(self) -> Iterator[dict[str, int]]:
        sizes = dict(self.question.fixed)
        if not self._holds(0, sizes):
            return
        first = max(self.least, self._largest_at_least())
        end = max((self.high.get(n, MAX_SIZE) for n in self.free), default=self.least)
        for largest in range(first, end + 1) if self.free else (self.least,):
            yield from self._continued(0, sizes, largest, not self.free)
            if self._trials > MAX_SIZE:
                self.whole = False
                return

    def _largest_at_least(self) -> int:
        """Return a proved bound of the largest free size of all accepted sizes."""
        largest = symbol("largest size")
        sizes = [symbol(n) for n in self.free]
        conds = [*self.question.contract, *(c for n in sizes for c in (ge(n, self.least), le(n, largest)))]
        conds += [eq(symbol(n), size) for n, size in self.question.fixed.items()]
        engine = self.question.analysis._solved.prover.engine
        low, _ = engine.bounds(largest, conds) if sizes else (0, None)
        return low or 0

    def _continued(
        self, level: int, sizes: dict[str, int], largest: int, reached: bool
    ) -> Iterator[dict[str, int]]:
        """Return accepted sizes with the symbols before `level` fixed. One must equal `largest` unless an earlier one
        does.
        """
        if level == len(self.free):
            full = {n: sizes[n] for n in self.question.names}
            if self.question.accepted(full):
                yield full
            return
        name, is_last = self.free[level], level + 1 == len(self.free)
        first = max(largest if is_last and not reached else self.least, self.low.get(name, 0))
        for size in range(first, min(largest, self.high.get(name, largest)) + 1):
            self._trials += 1
            if self._trials > MAX_SIZE:
                return
            sizes[name] = size
            if self._holds(level + 1, sizes):
                yield from self._continued(level + 1, sizes, largest, reached or size == largest)
        sizes.pop(name, None)

    def _holds(self, level: int, sizes: Mapping[str, int]) -> bool:
        return all(compiled_truth(test, cond, sizes) is not False for test, cond in self._tests[level])
