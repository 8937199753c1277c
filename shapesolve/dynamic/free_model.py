"""`free`: sizes that were baked into a model become symbols again, and the model still computes the same.

For the rows of a batch that is proved: what the model computes of row i depends on row i alone, and in the same way for every
i and every number of rows. Another size is freed only in a model that stores no number, table, mask or attribute which may have
followed it; everything else is refused, with the node (`generalize` learns from a second export what follows a size).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..analysis import Analysis, analyze
from ..arguments import checked
from ..change.refused import Refused
from ..expr import Dim, parse_dim
from ..expr.nearest import meant
from ..model import Model, ModelError, read_model
from ..model.saving import with_weights
from ..propagate.constraint import Site
from .free_state import Freeing
from .free_walk import run
from .provenance_lists import Listing
from .provenance_walk import trace

if TYPE_CHECKING:
    import onnx

#: tensors in files of their own that are looked at, in elements
_SMALL = 1 << 16
#: a size that a table bounds may become this many times as large as it was, or it is not called free
_ROOM = 2
#: attempts with other candidates
_MAX_ATTEMPTS = 24
_PLACE = re.compile(r"(?P<name>.+)\[(?P<axis>-?\d+)\]", re.DOTALL)


@dataclass(frozen=True)
class Request:
    """What is to be freed: the expression of each axis, the axis and old size of each symbol, and which are rows."""

    dims: Mapping[Site, Dim]
    sites: Mapping[str, Site]
    baked: Mapping[str, int]
    rows: tuple[str, ...]


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
    request = _request(original, proto, dims)
    changed = _attempt(read_model(relabelled(proto, request, original)), request)
    _finish(changed, request)
    return changed


# ---------------------------------------------------------------------- what is asked for


def inlined(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model without functions of its own."""
    if not proto.functions:
        return proto
    from onnx import inliner

    return inliner.inline_local_functions(proto)


def _request(original: Model, proto: onnx.ModelProto, dims: Mapping[str, str]) -> Request:
    stored = {t.name for t in proto.graph.initializer}
    inputs = {v.name: v for v in proto.graph.input if v.name not in stored}
    found: dict[Site, Dim] = {}
    old: dict[Site, int] = {}
    for text, name in dims.items():
        if text.strip() == name.strip() and _PLACE.fullmatch(text.strip()) is None:
            places = [(s, text.strip()) for s in _named(inputs, name.strip())]
        else:
            site = place_of(text, inputs)
            declared = inputs[site.tensor].type.tensor_type.shape.dim[site.axis or 0]
            if declared.HasField("dim_value"):
                found[site], old[site] = parse_dim(name), declared.dim_value
                continue
            if declared.dim_param != name.strip():
                raise ValueError(
                    f"{text} is {declared.dim_param or 'unknown'} already: only a fixed size can be freed"
                )
            places = [(s, text) for s in _named(inputs, name.strip())]
        for site, said in places:
            found[site], old[site] = parse_dim(name), _only_size(original, name.strip(), said)
    sites = {dim.name: site for site, dim in reversed(found.items()) if dim.name is not None}
    baked = {name: old[site] for name, site in reversed(sites.items())}
    _check(proto, found, old, baked)
    rows = tuple(name for name in baked if baked[name] == 1)
    return Request(found, {name: sites[name] for name in baked}, baked, rows)


def place_of(text: str, inputs: Mapping[str, onnx.ValueInfoProto]) -> Site:
    """The axis of an input that a text such as ``images[0]`` names.

    Raises:
        ValueError: there is none.
    """
    match = _PLACE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not an axis of an input; write it as name[axis], such as images[0]")
    tensor, axis = match["name"], int(match["axis"])
    if tensor not in inputs:
        raise ValueError(f"the model has no input {tensor!r}{meant(tensor, inputs, 'its inputs are')}")
    rank = len(inputs[tensor].type.tensor_type.shape.dim)
    if not -rank <= axis < rank:
        raise ValueError(f"input {tensor!r} has {rank} axes, there is no axis {axis}")
    return Site(tensor, axis % rank)


def _named(inputs: Mapping[str, onnx.ValueInfoProto], name: str) -> list[Site]:
    """The axes of inputs that have a declared name."""
    found = [
        Site(key, axis)
        for key, value in inputs.items()
        for axis, dim in enumerate(value.type.tensor_type.shape.dim)
        if dim.dim_param == name
    ]
    if not found:
        raise ValueError(f"{name!r} is not an axis of an input; write it as name[axis], such as images[0]")
    return found


def _only_size(original: Model, name: str, text: str) -> int:
    """The one size with which a declared dim runs."""
    analysis = analyze(original, broadcast="strict")
    now = analysis._solved.facts.dim(analysis.symbols[name]) if name in analysis.symbols else None
    if now is None or now.value is None:
        raise ValueError(f"{text} is {name} already, and may have more than one size: nothing is to be freed")
    return int(now.value)


def _check(
    proto: onnx.ModelProto, dims: Mapping[Site, Dim], old: Mapping[Site, int], baked: Mapping[str, int]
) -> None:
    if not dims:
        raise ValueError("nothing is to be freed")
    taken = {
        d.dim_param
        for v in proto.graph.input
        for axis, d in enumerate(v.type.tensor_type.shape.dim)
        if Site(v.name, axis) not in dims
    }
    for site, dim in dims.items():
        alone = sorted(dim.free - baked.keys())
        if alone:
            raise ValueError(f"{alone[0]!r} in {str(dim)!r} stands alone at no input: its size is not known")
        if not dim.terms:
            raise ValueError(f"{str(dim)!r} is a number, not a name")
        if dim.evaluate(baked) != old[site]:
            sizes = ", ".join(f"{name} = {baked[name]}" for name in sorted(dim.free))
            raise ValueError(f"{site} is {old[site]}, but {dim} is {dim.evaluate(baked)} with {sizes}")
    clash = sorted(taken & baked.keys())
    if clash:
        raise ValueError(f"the model has a size named {clash[0]!r} already; choose another name")


def relabelled(proto: onnx.ModelProto, request: Request, original: Model) -> onnx.ModelProto:
    """A copy in which the inputs say the symbols, and nothing else says a size that may not hold any more.

    Small tensors that are stored in files of their own are taken into it, to be looked at.
    """
    import onnx
    from onnx import numpy_helper

    made = onnx.ModelProto()
    made.CopyFrom(proto)
    del made.graph.value_info[:]
    for value in made.graph.input:
        for site, dim in request.dims.items():
            if value.name == site.tensor:
                entry = value.type.tensor_type.shape.dim[site.axis]
                entry.Clear()
                entry.dim_param = str(dim)
    for value in made.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    _forget_shapes(made.graph.node)
    for tensor_ in made.graph.initializer:
        if tensor_.data_location == onnx.TensorProto.EXTERNAL:
            stored = original.graph.initializers.get(tensor_.name)
            array = None if stored is None else stored.array(_SMALL)
            if array is not None:
                tensor_.CopyFrom(numpy_helper.from_array(np.array(array), tensor_.name))
    return made


def _forget_shapes(nodes: Iterable[onnx.NodeProto]) -> None:
    """Graphs inside nodes declare no sizes: those may not hold any more. Ranks do, and onnxruntime asks for some."""
    for attribute in (a for node in nodes for a in node.attribute):
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            del graph.value_info[:]
            for value in (*graph.input, *graph.output):
                for dim in value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ():
                    dim.Clear()
            _forget_shapes(graph.node)


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
