"""Sizes that depend on data, chosen so that everything holds: where that succeeds, nothing is broken.

A condition on data is broken only if no data satisfy all of them. What shows that some do is quickly evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product

from ..expr import Cond, Dim, constant, solve_for_symbol
from ..expr.closures import Compiler, Size, Test
from ..expr.traverse import atoms_of
from ..propagate.facts import is_generated

#: choices tried at one assignment of input sizes, and how often none may succeed before only known ones are tried
_CHOICES = 24
_FAILURES = 16
_CONSTANTS = (0, 1, 2)


class Completions:
    """Finds values for the symbols that the sizes leave open, among those that we made, with which all `conds` hold.

    What succeeded once is tried first.
    """

    def __init__(self, conds: Iterable[Cond], compiler: Compiler) -> None:
        conds = list(dict.fromkeys(conds))
        unbound = sorted(n for n in frozenset[str]().union(*(c.free for c in conds)) if is_generated(n))
        symbols = [atom.args for atom in atoms_of(*conds) if atom.kind == "sym"]
        self.least = [(name, lo) for name, lo in symbols if name in unbound and lo is not None]
        self.names = unbound
        self.tests: list[Test] = [compiler.test(c) for c in conds]
        self.candidates = [_candidates(name, conds, unbound, compiler) for name in unbound]
        self.failures = 0
        self.succeeded: list[tuple[Size, ...]] = []

    def exists(self, sizes: Mapping[str, int]) -> bool:
        """Was a completion of these sizes found?"""
        for choice in self.succeeded:
            if self._holds(choice, sizes):
                return True
        if self.failures >= _FAILURES:
            return False
        for choice in islice(self._choices(), _CHOICES):
            if choice not in self.succeeded and self._holds(choice, sizes):
                self.succeeded.insert(0, choice)
                return True
        self.failures += 1
        return False

    def _choices(self) -> Iterator[tuple[Size, ...]]:
        """The first candidates of all symbols together, then the second ones ..., then the mixtures."""
        for i in range(max(map(len, self.candidates), default=0)):
            yield tuple(c[min(i, len(c) - 1)] for c in self.candidates)
        yield from product(*self.candidates)

    def _holds(self, choice: Sequence[Size], sizes: Mapping[str, int]) -> bool:
        try:
            chosen = {n: size(sizes) for n, size in zip(self.names, choice, strict=True) if n not in sizes}
            full = {**chosen, **sizes}
            return all(full[n] >= lo for n, lo in self.least) and all(test(full) for test in self.tests)
        except (KeyError, ZeroDivisionError):
            return False


def _candidates(name: str, conds: Iterable[Cond], unbound: Sequence[str], compiler: Compiler) -> list[Size]:
    """What relations would have the symbol be, and small numbers."""
    found: dict[Dim, None] = {}
    stack = [c for c in conds if name in c.free]
    while stack:
        cond = stack.pop(0)
        if cond.kind in ("and", "or"):
            stack += [c for c in cond.args if name in c.free]
            continue
        solved = solve_for_symbol(cond.args[0], lambda n: n == name)
        if solved is not None and solved[0] == name and solved[1].free.isdisjoint(unbound):
            found[solved[1]] = None
    return [compiler.dim(d) for d in dict.fromkeys((*found, *map(constant, _CONSTANTS)))]
