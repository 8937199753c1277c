"""`Readable`: the shapes of a model in their simplest form at accepted sizes. It is equal to the exact one at every
size that the model accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from ...expr import Cond, Dim, Shape, ge, symbol
from ...expr.plain import is_polynomial
from ...expr.traverse import atoms_of
from ..contract.contract import Contract
from ..facts.facts import Facts
from ..facts.residual import divisors, intervals
from .cost import cost
from .simplifier import Simplifier
from .strides import Strides


def accepted(contract: Contract, facts: Facts, inputs: Collection[str]) -> list[Cond]:
    """Conditions on input symbols that hold at every size that the model accepts."""
    found = [t.cond for t in (*contract.terms, *contract.assumed)]
    known = (*intervals(facts), *divisors(facts))
    found += [cond for cond, _ in known if cond.free <= set(inputs)]
    return [c for c in dict.fromkeys(found) if not c.is_true]


def _reads_well(d: Dim) -> bool:
    """Return True if a dim only has sums, products, and quotients."""
    return all(a.kind in ("sym", "//") for a in atoms_of(d))


class Readable(Mapping[str, Shape]):
    """Simplified shape of each tensor, computed on demand. The contract is only computed if a form needs it."""

    def __init__(
        self,
        exact: Mapping[str, Shape],
        contract: Callable[[], Contract],
        facts: Facts,
        inputs: Collection[str],
    ) -> None:
        self.exact, self._contract, self._facts, self._inputs = exact, contract, facts, inputs
        self._simplifier: Simplifier | None = None
        self._done: dict[Shape, Shape] = {}
        self._usual: dict[Dim, tuple[Dim, tuple[Cond, ...]]] = {}
        self._scoped: dict[tuple[Cond, ...], Simplifier] = {}

    def __getitem__(self, tensor: str) -> Shape:
        shape = self.exact[tensor]
        if all(map(is_polynomial, shape)):
            return shape
        found = self._done.get(shape)
        if found is None:
            simplifier = self._on_accepted()
            found = self._done[shape] = Shape(map(simplifier.dim, shape))
        return found

    def dim(self, d: Dim) -> Dim:
        """The simplified form of a dim."""
        return d if is_polynomial(d) else self._on_accepted().dim(d)

    @property
    def strides(self) -> Strides:
        """`Strides` for the accepted sizes."""
        return self._on_accepted().strides

    def usual(self, tensor: str) -> tuple[Shape, list[Cond]]:
        """Return the shape in its form for usual sizes, with the conditions of the scope that it assumes."""
        found = [self.usual_dim(d) for d in self.exact[tensor]]
        return Shape(d for d, _ in found), list(dict.fromkeys(c for _, used in found for c in used))

    def usual_dim(self, d: Dim) -> tuple[Dim, tuple[Cond, ...]]:
        """Return a dim in its form for usual sizes, with the conditions of the scope that it assumes."""
        d = self.dim(d)
        if _reads_well(d):
            return d, ()
        found = self._usual.get(d)
        if found is None:
            found = self._usual[d] = self._for_usual(d)
        return found

    def _for_usual(self, d: Dim) -> tuple[Dim, tuple[Cond, ...]]:
        scope = self._contract().usual.whole
        best: tuple[Dim, tuple[Cond, ...]] = d, ()
        several = tuple(
            [ge(symbol(name), 2) for name in sorted(d.free)] if scope.equal else ()
        )  # not broadcast
        for rest in ((), scope.fits, (*scope.fits, *several), (*scope.fits, *scope.equal)):
            if _reads_well(best[0]):
                break
            form = self._in_scope(scope.sizes + rest).dim(d)
            if cost(form) < cost(best[0]):
                best = form, tuple(c for c in rest if not c.free.isdisjoint(d.free))
        return best

    def _in_scope(self, scope: tuple[Cond, ...]) -> Simplifier:
        if scope not in self._scoped:
            known = accepted(self._contract(), self._facts, self._inputs)
            self._scoped[scope] = Simplifier([*known, *scope])
        return self._scoped[scope]

    def __iter__(self) -> Iterator[str]:
        return iter(self.exact)

    def __len__(self) -> int:
        return len(self.exact)

    def _on_accepted(self) -> Simplifier:
        if self._simplifier is None:
            self._simplifier = Simplifier(accepted(self._contract(), self._facts, self._inputs))
        return self._simplifier
