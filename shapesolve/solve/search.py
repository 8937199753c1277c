# compiled: see CONTRIBUTING.md
"""Models by evaluation: small sizes that satisfy some conditions, found without Z3.

Queries that a few assignments can decide need not start a solver. The candidates depend only on the conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, product
from random import Random

from ..expr import Cond, Dim, symbol
from ..expr.closures import Compiler, Size, compiled_truth
from ..expr.cond import symbols_in
from ..expr.traverse import atoms_of
from .facts import budget
from .facts.facts import Facts
from .facts.linear import infeasible


class Effort:
    """Counts the work of solver queries.

    Attributes:
        spent: Work so far, in nodes lowered in about the same time.
    """

    def __init__(self) -> None:
        self.spent = 0

    def count(self, relations: int) -> None:
        """Adds the cost of a query with this number of relations."""
        self.spent += 150 + 8 * relations  # as measured


Model = dict[str, int]


class Contradiction(Exception):
    """Raised if conditions contradict each other."""


def find_model(conds: Sequence[Cond], tries: int = budget.SEARCH_TRIES) -> Model | None:
    """Search for small sizes at which all `conds` hold; None if none were found. Raises `Contradiction` if there are
    none.
    """
    return Search(conds).model(tries)


class Search:
    """Searches for small sizes at which all `conds` hold; can be continued with more tries.

    Raises:
        Contradiction: If facts or linear combinations show that there are none.
    """

    def __init__(self, conds: Sequence[Cond]) -> None:
        self.conds = conds
        self.facts = learned(conds)
        self._trials = self._sizes()

    def model(self, tries: int) -> Model | None:
        """Return the next model within `tries` more assignments, after those of earlier calls; or None."""
        return next((m for m in islice(self._trials, tries) if m is not None), None)

    def _sizes(self) -> Iterator[Model | None]:
        """For each assignment tried: a model, or None."""
        facts, conds = self.facts, self.conds
        names = sorted(set().union(*(c.free for c in conds)))
        left = [facts.cond(c) for c in conds]
        shapes = {n: facts.dim(symbol_of(n, conds)) for n in names}
        free = sorted(set().union(*(d.free for d in shapes.values()), *(c.free for c in left)))
        # small numbers that occur in the conditions
        interesting = sorted({n for c in (*left, *facts.pending()) for n in _numbers(c)})[:6]
        pools = [_pool(name, facts, interesting, conds) for name in free]
        compiler = Compiler((*conds, *shapes.values()))
        holds = _Test(conds, compiler)
        #: how each size follows from those that are tried; None for these themselves
        formulas = [
            (name, None if d == symbol_of(name, conds) else _with_fallback(compiler.dim(d), d))
            for name, d in shapes.items()
        ]
        tries = min(budget.SEARCH_TRIES, budget.MAX_SEARCH_WORK // (len(names) + len(conds)))
        for values in _assignments(pools, tries):
            base = dict(zip(free, values, strict=True))
            model: Model = {}
            for name, size in formulas:
                value = base[name] if size is None else size(base)
                if value is None:
                    break
                model[name] = value
            yield model if len(model) == len(names) and holds(model) else None


def _with_fallback(size: Size, dim: Dim) -> Callable[[Model], int | None]:
    def value(sizes: Model) -> int | None:
        try:
            return size(sizes)
        except (KeyError, ZeroDivisionError):
            return dim.evaluate(sizes)

    return value


def learned(conds: Iterable[Cond]) -> Facts:
    """Facts from `conds`; raises `Contradiction` if these contradict each other."""
    facts = Facts()
    # conditions on one symbol first: every later change re-reads the conditions that watch the symbol
    for i, cond in sorted(enumerate(conds), key=lambda numbered: len(numbered[1].free) > 1):
        if not facts.assume(cond, i):
            raise Contradiction
    left = dict.fromkeys(facts.cond(c) for c in facts.pending())
    if any(c.is_false for c in left) or infeasible(left, facts.bounds):
        raise Contradiction
    return facts


class _Test:
    """Test that conditions hold at given sizes, and that sizes are not below their minimum."""

    def __init__(self, conds: Sequence[Cond], compiler: Compiler) -> None:
        self.tests = [(compiler.test(c), c) for c in conds]
        self.least = dict(bound for c in conds for bound in _lower_bounds(c))

    def __call__(self, model: Mapping[str, int]) -> bool:
        if not all(compiled_truth(test, cond, model) is True for test, cond in self.tests):
            return False
        return all(model[name] >= lo for name, lo in self.least.items())


def satisfies(model: Mapping[str, int], conds: Iterable[Cond]) -> bool:
    """True if all `conds` hold at these sizes, and no size is below its minimum.

    A condition may be settled by the sizes of some of its symbols.
    """
    return all(
        c.evaluate(model) is True and all(model.get(name, lo) >= lo for name, lo in _lower_bounds(c))
        for c in conds
    )


def shrink(model: Model, conds: Sequence[Cond]) -> Model:
    """A model with smaller numbers, symbol by symbol."""
    best = dict(model)
    tries = budget.MAX_SEARCH_WORK // max(sum(c.size for c in conds), 1)
    for name in sorted(best):
        value = best[name]
        for smaller in range(min(abs(value), budget.FAR, max(tries, 0))):
            tries -= 1
            trial = {**best, name: smaller}
            if satisfies(trial, conds):
                best = trial
                break
    return best


@lru_cache(maxsize=1024)  # a search asks this of the same few conditions at every try
def _lower_bounds(c: Cond) -> tuple[tuple[str, int], ...]:
    return tuple((name, known.lo) for name, known in _symbols(c).items() if known.lo is not None)


@lru_cache(maxsize=1024)
def _symbols(c: Cond) -> Mapping[str, Dim]:
    return symbols_in(c)


def symbol_of(name: str, conds: Iterable[Cond]) -> Dim:
    """The symbol called `name` as it occurs in `conds` (with its minimum)."""
    return next((_symbols(c)[name] for c in conds if name in c.free), symbol(name))


@lru_cache(maxsize=1024)
def _numbers(c: Cond) -> frozenset[int]:
    found: set[int] = set()
    stack = [c]
    while stack:
        top = stack.pop()
        for a in top.args:
            if isinstance(a, Cond):
                stack.append(a)
            else:
                found.add(abs(a.const))
                found.update(abs(k) for _, k in a.terms)
    for atom in atoms_of(c):
        if atom.kind == "//" and not atom.args[1].terms:
            found.add(atom.args[1].const)
    return frozenset(n for n in found if 1 < n <= 1 << 40)


def _pool(name: str, facts: Facts, interesting: Sequence[int], conds: Sequence[Cond]) -> list[int]:
    """Values to try for one symbol, likely and small ones first."""
    lo, hi = facts.bounds(symbol_of(name, conds))
    start = 0 if lo is None else lo
    first = [start + 2, start + 3, start + 1, start, start + 5, start + 4, start + 7]
    steps = [m for base, m in facts.divisors.items() if name in base.free]
    near = [v for n in (*steps, *interesting) for v in (n, 2 * n, n - 1, n + 1, 3 * n)]
    if hi is not None:
        near[:0] = [hi, hi - 1, (start + hi) // 2]
    if lo is None:
        first += [-1, -2]
    keep = dict.fromkeys(
        v for v in (*first, *near, start + 11, start + 16, start + 30) if hi is None or v <= hi
    )
    return [v for v in keep if lo is None or v >= lo][:24] or [start]


def _assignments(pools: Sequence[Sequence[int]], tries: int) -> Iterator[tuple[int, ...]]:
    size = 1
    for pool in pools:
        size *= len(pool)
    if size <= tries:
        yield from product(*pools)
        return
    yield tuple(pool[i % min(2, len(pool))] for i, pool in enumerate(pools))
    yield tuple(pool[min(i % 5, len(pool) - 1)] for i, pool in enumerate(pools))
    yield tuple(pool[0] for pool in pools)
    drawn = Random(len(pools)).randbytes
    reaches = [[(pool, min(reach, len(pool))) for pool in pools] for reach in (4, 8, 24)]
    for k in range(tries - 3):
        yield tuple([pool[byte * most >> 8] for byte, (pool, most) in zip(drawn(len(pools)), reaches[k % 3])])
