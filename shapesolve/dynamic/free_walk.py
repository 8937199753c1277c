"""Going through a model whose sizes are free again, node by node.

Before a node is lowered, targets that were baked in are said anew (`free_mending`), and operands that are too narrow for a
batch are spread over it (`free_fitting`).
"""

from __future__ import annotations

from ..change.draft import DraftNode
from .free_branches import branched
from .free_fitting import fit
from .free_mending import mend
from .free_state import Freeing
from .free_suspects import check_suspects


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
            check_suspects(freeing, node)
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
        drafted.inputs = list(mended.inputs)
        freeing.nodes.append(drafted)
    freeing.draft.graph.nodes = [*freeing.sizes.nodes, *freeing.nodes]
    freeing.draft.drop_dead(lambda node: node.origin is not None)
