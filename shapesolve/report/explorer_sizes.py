"""Example sizes for the explorer, at which the model runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..expr import ge, symbol
from ..solve.search import Contradiction, find_model
from ..solve.sizes import distinct
from .limits import MAX_DRAWN

if TYPE_CHECKING:
    from ..analysis import Analysis


def sample_sizes(analysis: Analysis) -> dict[str, int]:
    """A size per input dim name at which the model runs, small if possible. They satisfy the contract if suitable sizes
    were found.
    """
    names = list(analysis.symbols)
    usual = distinct(names)
    if analysis.conflicts:
        return usual
    contract = analysis.contract
    terms = [t.cond for t in (*contract.terms, *contract.assumed)]
    linked = set().union(*(c.free for c in terms))
    if not linked <= set(names):
        terms = [c for c in terms if c.free <= set(names)]
    for least in (2, 1):
        conds = [*terms, *(ge(symbol(n), least) for n in sorted(linked))]
        try:
            found = find_model(conds) if conds else {}
        except Contradiction:
            continue
        if found is not None:
            return {n: found.get(n, usual[n]) for n in names}
    kept: dict[str, int] = {}
    for name in names[:MAX_DRAWN]:  # as many usual sizes as some accepted sizes have
        if analysis._solved.completed({**kept, name: usual[name]}) is not None:
            kept[name] = usual[name]
    return analysis._solved.completed(kept) or usual
