"""`Rows`: operands of a node's condition, with shapes simplified for typical sizes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from ..causes.failure import given_shape
from ..causes.finding import Operand
from ..causes.limits import MAX_QUOTED
from ..causes.operands import sites_of
from ..causes.wording import operand_rows
from ..lazy import cached_property
from ..lower.records import Entry
from ..solve.facts.constraint import Site
from ..solve.simplify import Simplifier

if TYPE_CHECKING:
    from ..answers.solved import Solved


class Rows:
    """Operand rows of one analysis."""

    def __init__(self, analysis: Solved) -> None:
        self.analysis, self.lowered = analysis, analysis.lowered

    def of(self, sites: Sequence[Site], entry: Entry, *, readable: bool = True) -> tuple[Operand, ...]:
        """Return the operands, with readable shapes if requested.

        Compared sizes are simplified by the scope of typical sizes, not by the contract, because they explain it.
        """
        rows = operand_rows(sites, self.lowered)
        if not readable:
            return rows
        compared = {(s.tensor, s.axis) for s in sites_of(entry, self.lowered)}
        return tuple((name, self._shape(name, compared) or shape, origin) for name, shape, origin in rows)

    @cached_property
    def _simplifier(self) -> Simplifier:
        scope = self.analysis.contract.usual.whole
        return Simplifier([*scope.sizes, *scope.fits])

    def _shape(self, tensor: str, compared: Collection[tuple[str, int | None]]) -> str:
        given = given_shape(tensor, self.lowered, {})
        if (
            given is None
            or tensor not in self.lowered.shapes
            or len(given) != len(self.lowered.shapes[tensor])
        ):
            return ""
        readable = self.analysis.simple_shapes
        dims = [
            self._simplifier.dim(d) if (tensor, axis) in compared else readable.usual_dim(d)[0]
            for axis, d in enumerate(given)
        ]
        return f"[{', '.join('...' if len(t := str(d)) > MAX_QUOTED // 4 else t for d in dims)}]"
