"""A dim that one size only fits, because a node reads the axes of an operand in another order than they have.

A swap is said only where the model, analyzed anew with it, runs at all sizes of the dim, but for what kernels and windows need.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .limit import Limit
from .operands import sites_of
from .trial import Change, changed_model

if TYPE_CHECKING:
    from .derive import Deriver
    from .solved import Solved

#: ranks of an image, with its batch and channels
_IMAGES = (3, 4, 5)


def transposed_text(limit: Limit, deriver: Deriver) -> str:
    """The swap of axes that takes a limit away, in words; empty where none was found."""
    for told, change in _swaps(limit, deriver.analysis):
        if _runs_freely(limit, change, deriver):
            return f"{told}: is a Transpose missing, or one too many?"
    return ""


def _swaps(limit: Limit, analysis: Solved) -> Iterator[tuple[str, Change]]:
    """Operands of the node in another order of axes, the second one first: channels first, or the last two axes swapped."""
    entry, lowered = limit.entry, analysis.lowered
    if entry is None or entry.node is None or entry.prefix:
        return
    rule = lowered.rule(entry.node, entry.prefix)
    kind = rule.advice if rule is not None else ""
    tensors = [*dict.fromkeys(s.tensor for s in sites_of(entry, lowered) if not s.data)]
    for tensor in (t for t in reversed(tensors) if t in lowered.shapes):
        rank = len(lowered.shapes[tensor])
        if kind == "convolution" and tensor == entry.node.inputs[0] and rank in _IMAGES:
            order = (0, rank - 1, *range(1, rank - 1))
            yield f"{tensor} fits with its last axis as channels", Change(permuted={tensor: order})
        elif kind in ("product", "gemm") and rank > 1:
            order = (*range(rank - 2), rank - 1, rank - 2)
            told = f"{tensor} fits when its last two axes are swapped"
            yield told, Change(permuted={tensor: order})


def _runs_freely(limit: Limit, change: Change, deriver: Deriver) -> bool:
    """With the change, does the model run, and is nothing new asked of any size but what each kernel needs?"""
    analysis = deriver.analysis
    assert limit.entry is not None
    assert limit.entry.node is not None
    changed = changed_model(analysis.model, limit.entry.node, change)
    if changed is None or not deriver.may_try():
        return False
    after = analysis.again(changed, effort=deriver.effort)
    fixed, before = after.facts.substitution.keys(), analysis.facts.substitution.keys()
    holds = not fixed.isdisjoint(limit.names) or not fixed <= before
    if after.stuck or holds or after.contract.impossible:
        return False
    old = {t.cond for t in analysis.contract.readable}
    new = (t for t in after.contract.readable if t.cond not in old)
    return all(t.kind in ("nonempty", "range", "divisibility") for t in new)
