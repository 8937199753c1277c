"""Going through a model whose sizes are free again, node by node: what was baked in is found where it stands in the way.

Before a node is lowered, what it was given as numbers is compared with what the symbols were when they were baked in
(`free_mending`), and operands that are too narrow for a batch are spread over it.

A size of which it is not clear whether it follows a symbol gets a name of its own; what later nodes need decides.
"""

from __future__ import annotations

from ..expr import eq, symbol
from .draft import DraftNode
from .free_branches import branched
from .free_fitting import fit
from .free_mending import mend
from .free_open import fills_up, is_needed, stays
from .free_state import Freeing
from .refused import Refused


def run(freeing: Freeing) -> None:
    """Go through all nodes.

    Raises:
        Refused: a node holds on to a baked size.
    """
    originals = {
        node.index: drafted
        for node, drafted in zip(freeing.model.graph.nodes, freeing.draft.graph.nodes, strict=True)
    }
    for node in freeing.model.graph.nodes:
        drafted = originals[node.index]
        if node.op_type == "If" and not node.domain:
            branched(freeing, node, drafted, run)
            freeing.made(node)
            freeing.nodes.append(drafted)
            continue
        mended = fit(freeing, mend(freeing, node))
        freeing.lower(mended, node)
        own = freeing.own.get(node.outputs[0])
        if own is not None:
            name = freeing.draft.fresh_node(f"{node.name}_free")
            drafted = DraftNode(mended.op_type, mended.inputs, mended.outputs, name=name, attributes=own)
        drafted.own.update(freeing.replaced.get(node.outputs[0], {}))
        drafted.inputs = list(mended.inputs)
        freeing.nodes.append(drafted)
    _settle(freeing)


def _settle(freeing: Freeing) -> None:
    """What is still open is what it usually is, or stays what it was; then the sizes are computed at the start."""
    facts = freeing.facts
    for name, (why, label, _) in freeing.staying.items():
        if not is_needed(freeing, name) and not fills_up(freeing, name):
            raise Refused(why, node=label)
    for name in sorted(
        (n for n in freeing.baked if n not in freeing.symbols), key=lambda n: n not in freeing.usual
    ):
        now = facts.dim(symbol(name))
        if now.name is not None and now.name not in freeing.symbols:
            if name in freeing.unsure and name not in freeing.usual and not stays(freeing, now):
                what, label = freeing.unsure[name]
                like = next(iter(freeing.seen[freeing.baked[name]]))
                raise Refused(
                    f"{what} is {freeing.baked[name]}, as {like} was: nothing shows whether it follows that",
                    node=label,
                )
            freeing.walk.given(eq(now, freeing.usual.get(name, freeing.baked[name])))
    for dim, exactly in freeing.demands:
        now = facts.dim(dim)
        lo = facts.bounds(now)[0]
        if now.value != exactly if exactly is not None else lo is None or lo < 0:
            raise Refused(
                f"a triangle of places compares two axes of which one is {now} longer than the other"
            )
    made: dict[str, str] = {}
    for name, (dims, is_scalar) in freeing.pending.items():
        settled = [facts.dim(d) for d in dims]
        if is_scalar:
            made[name] = freeing.sizes.scalar(settled[0], name)
        else:
            made[name] = freeing.sizes.vector(settled, name)
    for name, (before, open_dims) in freeing.reverts.items():
        if not any(facts.dim(d).terms for d in open_dims):
            made[name] = before
    for node in freeing.nodes:
        node.inputs = [made.get(name, name) for name in node.inputs]
    freeing.draft.graph.nodes = [*freeing.sizes.nodes, *freeing.nodes]
    freeing.draft.drop_dead(lambda node: node.origin is not None)
