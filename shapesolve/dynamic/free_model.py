"""`free`: replaces baked sizes of a model by symbols, with the same results.

For the rows of a batch that is proved: what the model computes of row i depends on row i alone, and in the same way for every
i and every number of rows. Another size is freed only in a model that stores no number, table, mask or attribute which may have
followed it; everything else is refused, with the node (`generalize` learns from a second export what follows a size).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..analysis import Analysis, analyze
from ..arguments import checked
from ..change.draft import DraftNode
from ..change.refused import Refused
from ..model import Model, ModelError, read_model
from ..model.saving import with_weights
from .free_branches import branched
from .free_fitting import fit
from .free_mending import mend
from .free_state import Freeing
from .free_suspects import check_suspects
from .provenance_lists import Listing
from .provenance_walk import trace
from .request import Request, asked, inlined, relabelled

if TYPE_CHECKING:
    import onnx

#: a size that a table bounds may become this many times as large as it was, or it is not called free
_ROOM = 2
#: attempts with other candidates
_MAX_ATTEMPTS = 24


@checked
def free(model: Any, dims: Mapping[str, str]) -> onnx.ModelProto:
    """A copy of a model in which sizes that were fixed when it was exported are free.

    A size that was 1 is a number of rows: what the copy computes of row i depends on row i alone, in the same way for every i
    and for every number of rows. That is proved, node by node, and with one row the copy computes what the model did.

    Another size is freed where the constraints force every entry that held it, and nothing else that is stored may have
    followed it. All other models are refused: `generalize` learns from an export at another size what follows it.

    Args:
        model: a path, bytes, `onnx.ModelProto`, `onnx_ir.Model`, exporter program or onnxscript function.
        dims: for each input axis the name that its size gets, ``{"images[0]": "batch"}``; a sum or product of names
            (``"past + seq"``) where each of them also stands alone somewhere. An axis that has this name already is freed
            where a constant in the model leaves it one size (``{"batch": "batch"}``: all axes of that name).

    Raises:
        Refused: it cannot be shown to be right; the message names the node.
        ModelError: the model cannot be read.
        ValueError: an argument makes no sense.
    """
    original = read_model(model)
    return with_weights(freed(original, dims), original)


def freed(original: Model, dims: Mapping[str, str]) -> onnx.ModelProto:
    """`free`, with weights left where those of the model's proto are (see `model.saving`)."""
    proto = inlined(original.proto)
    request = asked(original, proto, dims)
    changed = _attempt(read_model(relabelled(proto, request, original)), request)
    _finish(changed, request)
    return changed


# ---------------------------------------------------------------------- attempts


def _attempt(model: Model, request: Request) -> onnx.ModelProto:
    """The first of the candidates that can be shown to be right.

    Raises:
        Refused: there is none.
    """
    first: Refused | None = None
    choices: dict[str, int] = {}
    for _ in range(_MAX_ATTEMPTS):
        freeing = Freeing(model, request.baked, request.sites, request.rows, choices)
        try:
            run(freeing)
            changed = freeing.draft.to_proto()
            _prove(changed, request)
        except Refused as refused:
            first = first or refused
            following = _next(freeing, choices, refused.node)
            if following is None:
                break
            choices = following
        else:
            return changed
    assert first is not None
    raise first


def _next(freeing: Freeing, choices: Mapping[str, int], node: str) -> dict[str, int] | None:
    """Other choices: the nearest node before the one in the way that has a candidate left takes it."""
    before = _ancestors(freeing, node)
    open_at = list(freeing.options)
    for label in reversed(open_at):
        if before is not None and label not in before:
            continue
        taken = choices.get(label, 0)
        if taken + 1 < freeing.options[label]:
            earlier = open_at[: open_at.index(label)]
            return {**{k: v for k, v in choices.items() if k in earlier}, label: taken + 1}
    return None


def _ancestors(freeing: Freeing, label: str) -> set[str] | None:
    """Labels of the nodes that a node depends on, itself among them."""
    graph = freeing.model.graph
    producers = {name: node for node in graph.nodes for name in node.outputs if name}
    waiting = [node for node in graph.nodes if node.label == label]
    if not waiting:
        return None
    found: set[str] = set()
    while waiting:
        node = waiting.pop()
        if node.label in found:
            continue
        found.add(node.label)
        waiting += [producers[name] for name in (*node.inputs, *node.captures) if name in producers]
    return found


# ---------------------------------------------------------------------- node by node


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


# ---------------------------------------------------------------------- the proof


def _prove(changed: onnx.ModelProto, request: Request) -> None:
    """The changed model, read anew: its shapes are consistent, its sizes free, and rows stay apart.

    Raises:
        Refused: one of these does not hold.
    """
    try:
        analysis = analyze(changed, broadcast="strict", assume=[f"{name} >= 2" for name in request.baked])
    except ModelError as error:
        raise Refused(f"the changed model cannot be read: {error}") from error
    if analysis.conflicts:
        conflict = analysis.conflicts[0]
        raise Refused(conflict.message, node=conflict.nodes[0] if conflict.nodes else "")
    for name, was in request.baked.items():
        now = analysis._solved.facts.dim(analysis.symbols[name])
        hi = analysis._solved.facts.bounds(now)[1]
        if not now.terms or (hi is not None and hi < _ROOM * was):
            raise Refused(f"the changed model runs only with {name} = {now}", term=f"{name} == {now}")
    _prove_rows(analysis, request)


def _prove_rows(analysis: Analysis, request: Request) -> None:
    if not request.rows:
        return
    found = trace(analysis, request.rows)
    for name, _ in analysis.model.graph.outputs:
        origin = found.of(name)
        for symbol in request.rows:
            mixing = origin.mixed.get(symbol)
            if mixing is not None and not (isinstance(mixing, Listing) and mixing.is_plain):
                raise Refused(
                    f"output {name} cannot be shown to be computed row by row of {symbol}: {mixing}",
                    node=mixing.node,
                )
            if origin.layout is None and mixing is None:
                raise Refused(
                    f"the rank of output {name} is not known, so where its rows are is not known either"
                )


def _finish(changed: onnx.ModelProto, request: Request) -> None:
    """Any number of rows is accepted, and outputs say the sizes that they have now."""
    analysis = analyze(changed, broadcast="strict")
    for term in analysis.contract:
        about = next((name for name in request.rows if name in term.symbols), None)
        if about is not None and str(term) != f"{about} >= 1":
            node = term.nodes[0] if term.nodes else ""
            raise Refused(
                f"the changed model would accept only {term}, because of {node}", node=node, term=str(term)
            )
    for value in changed.graph.output:
        shape = analysis.shapes.get(value.name)
        if shape is None or not value.type.HasField("tensor_type"):
            continue
        value.type.tensor_type.shape.SetInParent()
        for dim in shape:
            entry = value.type.tensor_type.shape.dim.add()
            if not dim.terms:
                entry.dim_value = dim.const
            elif dim.free <= analysis.symbols.keys():
                entry.dim_param = str(dim)
