"""`Readable`: the shapes of a model in their simplest form at accepted sizes. It is equal to the exact one at every
size that the model accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from ...expr import Cond, Dim, Shape
from ...propagate import budget
from ...propagate.facts import Facts
from ...propagate.residual import divisors, intervals
from ..contract.contract import Contract
from .cost import is_small
from .simplifier import Simplifier, is_linear
from .strides import Strides


def accepted(contract: Contract, facts: Facts, inputs: Collection[str]) -> list[Cond]:
    """Conditions on input symbols that hold at every size that the model accepts.

    Terms that rest on an assumption are left out: a model may accept sizes at which the assumption does not hold.
    """
    found = [t.cond for t in (*contract.terms, *contract.assumed) if not t.assumptions]
    known = (*intervals(facts), *divisors(facts))
    found += [cond for cond, _ in known if cond.free <= set(inputs)]
    return [c for c in dict.fromkeys(found) if not c.is_true]


class Readable(Mapping[str, Shape]):
    """Simplified shape of each tensor, computed on demand. The contract is only worked out where a form needs it."""

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

    def __getitem__(self, tensor: str) -> Shape:
        shape = self.exact[tensor]
        if all(map(is_linear, shape)):
            return shape
        found = self._done.get(shape)
        if found is None:
            simplifier = self._on_accepted()
            found = self._done[shape] = Shape(map(simplifier.dim, shape))
        return found

    def dim(self, d: Dim) -> Dim:
        """The simplified form of a dim."""
        return d if is_linear(d) else self._on_accepted().dim(d)

    @property
    def strides(self) -> Strides:
        """`Strides` for the accepted sizes."""
        return self._on_accepted().strides

    def usual(self, tensor: str) -> tuple[Shape, list[Cond]]:
        """The simplified shape, with long dims in the form they have at large sizes. The bounds from which on that
        holds come with it.
        """
        shape, bounds = self[tensor], dict[Cond, None]()
        dims = list(shape)
        for i, d in enumerate(dims):
            if len(str(d)) > budget.MAX_CHARACTERS and is_small(d):
                dims[i], needed = self._on_accepted().usual(d)
                bounds.update(dict.fromkeys(needed))
        return (Shape(dims), list(bounds)) if bounds else (shape, [])

    def __iter__(self) -> Iterator[str]:
        return iter(self.exact)

    def __len__(self) -> int:
        return len(self.exact)

    def _on_accepted(self) -> Simplifier:
        if self._simplifier is None:
            self._simplifier = Simplifier(accepted(self._contract(), self._facts, self._inputs))
        return self._simplifier
