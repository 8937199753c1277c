"""Stale shapes: declared sizes of computed tensors that hold at some of the accepted sizes only.

Such a declaration is left over from the example of an export, or from an edit. What was inferred is used, but a runtime may
believe the file: onnxruntime lets tensors of equal declared shapes share memory, and fails where they differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence, Set
from typing import TYPE_CHECKING, NamedTuple

from ..expr import Cond, eq, ge, le, symbol
from ..propagate import budget

if TYPE_CHECKING:
    from ..propagate.constraint import Constraint, Site
    from ..propagate.facts import Facts
    from .contract.contract import Contract
    from .engine import Engine


class StaleShape(NamedTuple):
    """Declared sizes of a tensor that are wrong at some accepted sizes: condition and constraints."""

    cond: Cond
    rows: Sequence[Constraint]

    @property
    def sites(self) -> list[Site]:
        """The dims that have these declared sizes."""
        return [site for row in self.rows for site in row.origin.sites]


def find_stale_shapes(
    declared: Iterable[Constraint], facts: Facts, contract: Contract, names: Set[str], engine: Engine
) -> list[StaleShape]:
    """Declared sizes that are wrong at some accepted sizes of the inputs `names`. None of these sizes is 0 and none very
    large.
    """
    rows: dict[Cond, list[Constraint]] = {}
    for row in declared:
        cond = facts.cond(row.cond)
        if row.origin.sites and row.guard.is_true and cond.free and cond.free <= names:
            rows.setdefault(cond, []).append(row)
    known = [t.cond for t in (*contract.terms, *contract.assumed)]
    known += [eq(symbol(name), dim) for name, dim in contract.derived]
    near = [bound for d in map(symbol, names) for bound in (ge(d, 1), le(d, budget.SMALL_DOMAINS[1]))]
    asked = list(rows)[: budget.MAX_QUERIES]
    return [StaleShape(c, rows[c]) for c in asked if engine.satisfiable([~c, *known, *near]).sat]


def sharing_memory(stale: Iterable[StaleShape], outputs: Collection[str]) -> list[StaleShape]:
    """Stale shapes of tensors whose memory onnxruntime shares with others. Graph outputs have memory of their own."""
    return [d for d in stale if any(site.tensor not in outputs for site in d.sites)]
