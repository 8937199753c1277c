"""Scope of usual inputs: conditions on input sizes under which a model's conditions and shapes are most readable.

A usual form is a scope and a statement. It is shown only if it is proved to agree with the exact form wherever the
contract and the
scope hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ...expr import Cond, Dim, eq, ge, le
from ...expr.plain import is_plain
from ..engine import Engine
from ..facts import budget
from ..sizes import SizeFinder

#: shortens conditions, given others; None if they contradict each other
Shorten = Callable[[Iterable[Cond], Sequence[Cond]], Iterable[Cond] | None]


class Recorded(NamedTuple):
    """Observations about usual inputs during lowering, over input symbols.

    Attributes:
        fits: Conditions that a window fits its input or a slice ends inside its axis.
        broadcasts: Pairs of sizes that are broadcast together, without duplicates.
        caches: Names of sizes that a node extends and that may be 0, such as `past_seq`.
    """

    fits: tuple[Cond, ...] = ()
    broadcasts: tuple[tuple[Dim, Dim], ...] = ()
    caches: tuple[str, ...] = ()


class Scope(NamedTuple):
    """Conditions on input symbols that usual inputs satisfy, each satisfiable together with the contract.

    Attributes:
        sizes: `1 <= n < 10**9` for each input size. A cache length has no lower bound.
        fits: Shortened conditions that windows fit and slices end inside their axis, except those that the contract
            implies.
        equal: Conditions that both sides of a broadcast are equal.
        may_be_empty: Names of cache lengths that may be 0 together.
        dropped: Names that have no accepted size of at least 1.
    """

    sizes: tuple[Cond, ...] = ()
    fits: tuple[Cond, ...] = ()
    equal: tuple[Cond, ...] = ()
    may_be_empty: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    @property
    def conds(self) -> tuple[Cond, ...]:
        """All conditions of the scope."""
        return self.sizes + self.fits + self.equal


#: scope of a contract whose usual form is the exact one
NO_SCOPE = Scope()


def find_scope(
    conds: Sequence[Cond], inputs: Mapping[str, Dim], recorded: Recorded, shorten: Shorten, engine: Engine
) -> Scope:
    """Return the scope of a model whose contract is `conds`."""
    search = _Search(conds, engine)
    caches = tuple(n for n in recorded.caches if n in inputs)
    caches = caches if search.allows(eq(inputs[n], 0) for n in caches) else ()
    sizes = {n: ge(size, 1) for n, size in inputs.items() if n not in caches}
    taken = sizes if search.take(sizes.values()) else {n: c for n, c in sizes.items() if search.take((c,))}
    huge = [le(size, budget.HUGE_SIZE - 1) for size in inputs.values()]
    huge = [c for c in huge if search.take((c,))]
    bounds = (*taken.values(), *huge)
    known = [*conds, *bounds]
    fits = [c for c in recorded.fits if search.take((c,))]
    short = shorten(fits, known) if fits else ()
    fits = list(short) if short is not None and all(map(is_plain, short)) else []
    equal = [eq(a, b) for a, b in recorded.broadcasts]
    equal = [c for c in equal if not c.is_true and not c.is_false and search.take((c,))]
    return Scope(bounds, tuple(fits), tuple(equal), caches, tuple(n for n in sizes if n not in taken))


class _Search:
    """Takes in conditions as long as sizes are found at which all hold."""

    def __init__(self, conds: Sequence[Cond], engine: Engine) -> None:
        self.held, self.engine = list(conds), engine
        self.left = budget.MAX_CHEAP_ASKED  # size of the conditions in all searches
        self.sizes = SizeFinder(self.held, engine).some() if conds else {}

    def allows(self, conds: Iterable[Cond]) -> bool:
        """Return True if sizes are found at which these conditions and all accepted ones hold."""
        return self._found([*conds]) is not None

    def take(self, conds: Iterable[Cond]) -> bool:
        """Take in conditions; return False if no sizes are found at which they hold too."""
        new = [*conds]
        sizes = self._found(new)
        if sizes is None:
            return False
        self.held += new
        self.sizes = sizes
        return True

    def _found(self, new: list[Cond]) -> dict[str, int] | None:
        if self.sizes is None:
            return None
        names = frozenset[str]().union(*(c.free for c in new))
        start = {**dict.fromkeys(sorted(names), 1), **self.sizes}
        if all(c.evaluate(start) for c in new):
            return start
        self.left -= sum(c.size for c in (*self.held, *new))
        if self.left <= 0:
            return None
        return SizeFinder([*self.held, *new], self.engine).near(start)
