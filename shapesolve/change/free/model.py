"""`free`: replaces baked sizes of a model by symbols, with the same results.

For the rows of a batch that is proved: what the model computes of row i depends on row i alone, and in the same way for every
i and every number of rows. Another size is freed only in a model that stores no number, table, mask or attribute which may have
followed it; everything else is refused, with the node (`generalize` learns from a second export what follows a size).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import networkx as nx

from ...analysis import Analysis, analyze
from ...arguments import checked
from ...expr import Dim, Shape
from ...lower.types import Tensor
from ...model import Graph, Model, Node, TensorType, read_model
from ...model.saving import with_weights
from ..draft import DraftNode
from ..limits import MAX_CANDIDATES
from ..provenance.lists import Listing
from ..provenance.walk import trace
from ..refused import Refused
from ..request import DynamicRequest, asked, consistent, inlined, relabelled
from ..writing import write
from .mending import check_suspects, mend
from .state import Freeing

if TYPE_CHECKING:
    import onnx


@checked
def free(model: Any, dims: Mapping[str, str]) -> onnx.ModelProto:
    """Return a copy of a model in which sizes that were fixed by the export are dynamic.

    A size of 1 is treated as a batch size: each node is proved to compute item i of its outputs from item i of the
    inputs alone, in the same way for every i and every batch size. For a batch of one, the copy computes the same as the
    model.

    Any other size becomes dynamic only if the constraints determine every entry that held it, and no other stored
    constant can depend on it. All other models are refused; `generalize` learns such constants from a second export.

    Args:
        model: A path, bytes, `onnx.ModelProto`, `onnx_ir.Model`, exporter program, or onnxscript function.
        dims: Name for the size of each input axis, ``{"images[0]": "batch"}``, or a sum or product of names
            (``"past + seq"``) if each of them is also the size of an axis. An axis that already has this name becomes
            dynamic if only a constant in the model fixes its size (``{"batch": "batch"}``: all axes of that name).

    Raises:
        Refused: If the copy cannot be proved right; the message names the node.
        ModelError: If the model cannot be read.
        ValueError: If an argument is invalid.
    """
    original = read_model(model)
    return with_weights(freed(original, dims), original)


def freed(original: Model, dims: Mapping[str, str]) -> onnx.ModelProto:
    """`free`, for a model whose weights were left in its file (see `model.saving`)."""
    proto = inlined(original.proto)
    request = asked([original], dims)
    changed = _attempt(read_model(relabelled(proto, request, original)), request)
    _finish(changed, request)
    return changed


# ---------------------------------------------------------------------- attempts


def _attempt(model: Model, request: DynamicRequest) -> onnx.ModelProto:
    """Tries the candidate edits one after the other; returns the first model proved right.

    Raises:
        Refused: there is none.
    """
    first: Refused | None = None
    choices: dict[str, int] | None = {}
    for _ in range(MAX_CANDIDATES):
        freeing = Freeing(model, request, choices or {})
        try:
            _run(freeing)
            changed = write(freeing.draft)
            _prove(changed, request)
        except Refused as refused:
            first = first or refused
            choices = _next(freeing, choices or {}, refused.node)
            if choices is None:
                break
        else:
            return changed
    assert first is not None
    raise first


def _next(freeing: Freeing, choices: Mapping[str, int], node: str) -> dict[str, int] | None:
    """Backtracks to the last node up to the failing one with candidates left; None if there is none."""
    flow: nx.DiGraph[str] = nx.DiGraph()
    for n in freeing.model.graph.nodes:
        flow.add_edges_from((name, n.label) for name in (*n.inputs, *n.captures))
        flow.add_edges_from((n.label, name) for name in n.outputs)
    before = {node, *nx.ancestors(flow, node)} if node in flow else None
    open_at = list(freeing.options)
    for k, label in reversed([*enumerate(open_at)]):
        taken = choices.get(label, 0)
        if (before is None or label in before) and taken + 1 < freeing.options[label]:
            earlier = {name: n for name, n in choices.items() if name in open_at[:k]}
            return {**earlier, label: taken + 1}
    return None


# ---------------------------------------------------------------------- node by node


def _run(freeing: Freeing) -> None:
    """Rewrites and lowers the nodes of a graph in order.

    Raises:
        Refused: a node holds on to a baked size.
    """
    originals = {drafted.origin: drafted for drafted in freeing.draft.graph.nodes}
    for node in freeing.model.graph.nodes:
        try:
            _free_node(freeing, node, originals[node])
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            if isinstance(error, Refused):
                raise
            what = f"{node.label} ({node.op_type}) cannot be analyzed: {type(error).__name__}: {error}"
            raise Refused(what, node=node.label) from error
    freeing.draft.graph.nodes = [*freeing.sizes.nodes, *freeing.nodes]
    freeing.draft.drop_dead(lambda node: node.origin is not None)


def _free_node(freeing: Freeing, node: Node, drafted: DraftNode) -> None:
    rule = freeing.rule(node)
    if rule is not None and rule.bodies == "one":
        check_suspects(freeing, node)
        _branched(freeing, node, drafted)
        freeing.made(node)
    else:
        mended = mend(freeing, node)
        freeing.lower(mended, node)
        own = freeing.own.get(node.outputs[0])
        if own is not None:
            name = freeing.draft.fresh_node(f"{node.name}_free")
            drafted = DraftNode(mended.op_type, (), mended.outputs, name=name, attributes=own)
        drafted.inputs = list(mended.inputs)
    freeing.nodes.append(drafted)


def _branched(freeing: Freeing, node: Node, drafted: DraftNode) -> None:
    """Frees the sizes in the branches of an If; outer tensors are their inputs."""
    made: list[list[Tensor]] = []
    for attribute, graph in node.subgraphs:
        inner = _inside(freeing, graph)
        _run(inner)
        freeing.options.update(inner.options)
        freeing.draft.taken |= inner.draft.taken
        freeing.draft.node_names |= inner.draft.node_names
        body = drafted.graphs[attribute]
        body.nodes, body.added = inner.draft.graph.nodes, {**body.added, **inner.draft.graph.added}
        made.append([_tensor(inner, name) for name, _ in graph.outputs])
    for name, sides in zip(node.outputs, zip(*made, strict=True), strict=True):
        shape = _either(freeing, [side.shape for side in sides])
        freeing.scope.env[name] = freeing.walk.interner.tensor(sides[0].dtype, shape)


def _inside(freeing: Freeing, graph: Graph) -> Freeing:
    outer = freeing.model.graph
    stored = {name: freeing.stored[name] for name in graph.captures if name in freeing.stored}
    taken = [name for name in graph.captures if name not in stored and name not in dict(outer.inputs)]
    inputs = (*outer.inputs, *((name, _declared(freeing, name)) for name in taken))
    alone = replace(graph, inputs=inputs, initializers={**graph.initializers, **stored})
    inner = Freeing(replace(freeing.model, graph=alone), freeing.request, freeing.choices)
    inner.draft.taken |= freeing.draft.taken
    inner.draft.node_names |= freeing.draft.node_names
    inner.provenance.rows.update({name: freeing.provenance.of(name) for name in taken})
    return inner


def _tensor(freeing: Freeing, name: str) -> Tensor:
    known = freeing.known(name)
    if not isinstance(known, Tensor):
        raise Refused(f"a branch has {name}, which is not a tensor")
    return known


def _declared(freeing: Freeing, name: str) -> TensorType:
    """Return the type of a tensor with dynamic sizes; sizes that depend on data are unspecified."""
    known = _tensor(freeing, name)
    dims = [
        (d.value if not d.terms else str(d)) if d.free <= freeing.baked.keys() else None
        for d in known.shape or ()
    ]
    return TensorType(known.dtype, None if known.shape is None else tuple(dims))


def _either(freeing: Freeing, shapes: list[Shape | None]) -> Shape | None:
    """Return the shape of an If's output: sizes of both branches, or generated symbols. None if the rank is unknown."""
    ranks = {None if s is None else len(s) for s in shapes}
    if len(ranks) > 1 or None in ranks:
        return None

    def joined(dims: tuple[Dim, ...]) -> Dim:
        same = len({*dims}) == 1 and dims[0].free <= freeing.baked.keys()
        return dims[0] if same else freeing.walk.fresh("a size of a branch")

    return Shape(map(joined, zip(*[s or () for s in shapes], strict=True)))


# ---------------------------------------------------------------------- the proof


def _prove(changed: onnx.ModelProto, request: DynamicRequest) -> None:
    """Analyzes the changed model: raises `Refused` unless it is consistent and batch rows are independent.

    Raises:
        Refused: one of these does not hold.
    """
    analysis = consistent(changed, assume=[f"{name} >= 2" for name in request.baked])
    for name, was in request.baked.items():
        now = analysis._solved.facts.dim(analysis.symbols[name])
        hi = analysis._solved.facts.bounds(now)[1]
        if not now.terms or (hi is not None and hi < 2 * was):
            raise Refused(f"the changed model runs only with {name} = {now}", term=f"{name} == {now}")
    _prove_rows(analysis, request)


def _prove_rows(analysis: Analysis, request: DynamicRequest) -> None:
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
                raise Refused(f"output {name} has unknown rank, so its batch axis is unknown")


def _finish(changed: onnx.ModelProto, request: DynamicRequest) -> None:
    """Writes the new sizes into the declared outputs; raises `Refused` unless any batch size is accepted."""
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
