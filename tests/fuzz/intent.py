"""Which inputs are refused by intent although they run: the page on concepts lists them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from shapesolve.expr import Dim
from shapesolve.lower.reason import JOIN, JOIN_ELEMENTS, reason_id

from .runtime import Data, true_shapes

#: reasons of nodes that do so
_REFUSED = ("empty-groups", "empty-pool", "empty-reshape")


def by_intent(
    analysis: Any,
    broken: Sequence[Any],
    shapes: Mapping[str, Sequence[int]],
    result: Mapping[str, Data],
    bound: Mapping[str, int],
) -> bool:
    """Are inputs that ran refused by intent? One such term refuses them; what else is broken may follow from it.

    What refuses them may be asked of a size that data decides, or in a branch, and be seen in what another node asks.
    """
    sequences = {
        n: [d for r in given for d in np.shape(r)] for n, given in result.items() if isinstance(given, list)
    }
    real = {**shapes, **true_shapes(result), **sequences}
    if any(_is_told(b.constraint, {**_inner(analysis, b.constraint, bound), **real}) for b in broken):
        return True
    known = {**{d.name or "": size for d, size in measured(analysis, result)}, **bound}
    return any(
        c.cond.evaluate(known) is False and c.guard.evaluate(known) is not False
        for c in analysis._solved.stated.role("requirement")
        if reason_id(c.origin.rule) in _REFUSED
        and (c.cond.free_symbols | c.guard.free_symbols) - bound.keys()
    )


def _inner(analysis: Any, broken: Any, bound: Mapping[str, int]) -> dict[str, Sequence[Any]]:
    """The shapes of what a constraint is about, as the analysis has them: runs show no tensors of a function."""
    names = {site.tensor for site in getattr(getattr(broken, "origin", None), "sites", ())}
    known = {name: analysis.shapes.get(name) for name in names}
    return {n: [d.evaluate(bound) for d in shape] for n, shape in known.items() if shape is not None}


def _is_told(broken: Any, shapes: Mapping[str, Sequence[int]]) -> bool:
    """Does this constraint refuse inputs by intent?"""
    origin = getattr(broken, "origin", None)
    if origin is None:
        return False
    if broken.role == "assumption":
        return True
    reason = reason_id(origin.rule)
    if reason in (JOIN.id, JOIN_ELEMENTS.id):
        return any(0 in shapes.get(site.tensor, ()) for site in origin.sites)
    return reason in _REFUSED


def measured(analysis: Any, results: Mapping[str, Data]) -> Iterator[tuple[Any, int]]:
    """Sizes and numbers of an analysis, each with what it was in a run."""
    for name, result in results.items():
        if isinstance(result, np.ndarray):
            yield from zip(analysis.shapes.get(name) or (), result.shape, strict=False)
            value = analysis.values.get(name)
            if value is not None and value.elems is not None and result.dtype.kind in "iu":
                told = zip(value.elems, result.reshape(-1).tolist(), strict=False)
                yield from ((e, real) for e, real in told if isinstance(e, Dim))
