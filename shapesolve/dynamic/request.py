"""A request: the expression of each dynamic input axis, its old size, and the model with these inputs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..analysis import analyze
from ..change.refused import Refused
from ..expr import Dim, parse_dim, symbol
from ..expr.nearest import meant
from ..model import Model
from ..propagate.constraint import Site

if TYPE_CHECKING:
    import onnx

#: tensors in files of their own that are looked at, in elements
_SMALL = 1 << 16
_PLACE = re.compile(r"(?P<name>.+)\[(?P<axis>-?\d+)\]", re.DOTALL)


@dataclass(frozen=True)
class Request:
    """A request: the expression of each axis, the axis and old size of each symbol, and the row symbols."""

    dims: Mapping[Site, Dim]
    sites: Mapping[str, Site]
    baked: Mapping[str, int]
    rows: tuple[str, ...]


def inlined(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model without functions of its own."""
    if not proto.functions:
        return proto
    from onnx import inliner

    return inliner.inline_local_functions(proto)


def asked(original: Model, proto: onnx.ModelProto, dims: Mapping[str, str]) -> Request:
    """The request for one model, from texts for axes and names."""
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
    """The input axis in a text like ``images[0]``.

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


# ---------------------------------------------------------------------- of several exports


def asked_of_exports(
    exports: Seq[Model], names: Mapping[str, str], labels: Seq[str]
) -> tuple[Request, list[dict[str, int]]]:
    """The expression of each input axis that differs, and the sizes of all symbols in each export."""
    shapes = [_input_shapes(e) for e in exports]
    differing = _differing(shapes, labels)
    first = exports[0].proto.graph
    inputs = {v.name: v for v in first.input}
    dims: dict[Site, Dim] = {}
    if names:
        for text, name in names.items():
            site = place_of(text, inputs)
            dims[site] = parse_dim(name)
            if not dims[site].terms:
                raise ValueError(f"{name!r} is a number, not a name")
    else:
        dims = _named_after(differing)
    sites = {d.name: site for site, d in reversed(dims.items()) if d.name is not None}
    sizes = []
    for seen, label in zip(shapes, labels, strict=True):
        here = {name: _size(seen, site, label) for name, site in sites.items()}
        for site, d in dims.items():
            alone = sorted(d.free - here.keys())
            if alone:
                raise ValueError(
                    f"{alone[0]!r} in {str(d)!r} stands alone at no input: its size is not known"
                )
            if d.evaluate(here) != _size(seen, site, label):
                raise ValueError(
                    f"{site} is {_size(seen, site, label)} in {label}, but {d} is {d.evaluate(here)}"
                )
        sizes.append(here)
    for site in differing:
        if site not in dims:
            shown = ", ".join(str(_size(s, site, label)) for s, label in zip(shapes, labels, strict=True))
            raise ValueError(f"{site} differs ({shown}): give its size a name")
    for name in sites:
        if len({s[name] for s in sizes}) < 2:
            raise Refused(f"{name} is {sizes[0][name]} in every export: one with another {name} is needed")
    if not sites:
        raise ValueError("the exports have the same input sizes: export at two sizes")
    baked = {name: sizes[0][name] for name in sites}
    return Request(dims, {name: sites[name] for name in baked}, baked, ()), sizes


def _input_shapes(export: Model) -> list[tuple[str, list[int | None] | None]]:
    stored = export.graph.initializers
    found = []
    for value in export.proto.graph.input:
        if value.name not in stored:
            kind = value.type.tensor_type
            dims = [d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim]
            found.append((value.name, dims if kind.HasField("shape") else None))
    return found


def _differing(
    shapes: Seq[list[tuple[str, list[int | None] | None]]], labels: Seq[str]
) -> dict[Site, tuple[int, ...]]:
    """The axes of the first export's inputs that are not the same everywhere, with their sizes."""
    found: dict[Site, tuple[int, ...]] = {}
    for other, label in zip(shapes[1:], labels[1:], strict=True):
        if len(other) != len(shapes[0]):
            raise Refused(f"{label} has {len(other)} inputs, {labels[0]} has {len(shapes[0])}")
    for k, (name, dims) in enumerate(shapes[0]):
        sides = [_same_input(s, name, k)[1] for s in shapes]
        if any(
            (s is None) != (dims is None) or (s is not None and dims is not None and len(s) != len(dims))
            for s in sides
        ):
            raise Refused(f"input {name} has another rank in another export")
        for axis in range(len(dims or ())):
            seen = [s[axis] for s in sides if s is not None]
            if len({*seen}) > 1:
                if None in seen:
                    raise ValueError(f"{name}[{axis}] is a name in one export and a number in another")
                found[Site(name, axis)] = tuple(n for n in seen if n is not None)
    return found


def _same_input(
    shapes: list[tuple[str, list[int | None] | None]], name: str, k: int
) -> tuple[str, list[int | None] | None]:
    return next((s for s in shapes if s[0] == name), shapes[k])


def _size(shapes: list[tuple[str, list[int | None] | None]], site: Site, label: str) -> int:
    at = next((k for k, s in enumerate(shapes) if s[0] == site.tensor), 0)
    dims = _same_input(shapes, site.tensor, at)[1]
    size = None if dims is None or site.axis is None else dims[site.axis]
    if size is None:
        raise ValueError(f"{site} is no number in {label}: a fixed export is needed")
    return size


def _named_after(differing: Mapping[Site, tuple[int, ...]]) -> dict[Site, Dim]:
    """A name for each axis: the same one for those that are equal in every export."""
    names: dict[tuple[int, ...], str] = {}
    for site, seen in differing.items():
        base = "".join(c if c.isalnum() else "_" for c in site.tensor)
        names.setdefault(seen, f"{base if base[:1].isalpha() else 'x' + base}_{site.axis}")
    return {site: symbol(names[seen]) for site, seen in differing.items()}
