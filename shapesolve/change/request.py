"""`DynamicRequest`: the axes to make dynamic, the expression of each, and their sizes in the exports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ..analysis import Analysis, BroadcastMode, analyze
from ..expr import Dim, parse_dim, symbol
from ..expr.nearest import unknown_name
from ..expr.sizes import sizes_text
from ..model import Model, ModelError
from ..solve.facts.constraint import Site
from .limits import MAX_STORED
from .refused import Refused

if TYPE_CHECKING:
    import onnx


#: declared sizes of each input: a number, a name, or nothing; None if the rank is not declared
_Shapes: TypeAlias = Mapping[str, "list[int | str | None] | None"]
_PLACE = re.compile(r"(?P<name>.+)\[(?P<axis>-?\d+)\]", re.DOTALL)


@dataclass(frozen=True)
class DynamicRequest:
    """The axes to make dynamic: expression of each, axis of each symbol, and sizes in each export."""

    dims: Mapping[Site, Dim]
    sites: Mapping[str, Site]
    sizes: Seq[Mapping[str, int]]

    @property
    def baked(self) -> Mapping[str, int]:
        """The size of each symbol in the first export."""
        return self.sizes[0]

    @property
    def rows(self) -> tuple[str, ...]:
        """Symbols whose size was 1: batch sizes."""
        return tuple(name for name, size in self.baked.items() if size == 1)


def inlined(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its own functions inlined."""
    if not proto.functions:
        return proto
    from onnx import inliner

    return inliner.inline_local_functions(proto)


def asked(exports: Seq[Model], names: Mapping[str, str], labels: Seq[str] = ("the model",)) -> DynamicRequest:
    """Parse axes and names into a `DynamicRequest`.

    Raises:
        ValueError: If an axis or name is invalid, or contradicts the exports.
        Refused: If the exports have different inputs, or do not show how a size varies.
    """
    shapes = _shapes_of(exports, labels)
    first, several = shapes[0], len(exports) > 1
    differing = _differing(shapes) if several else {}
    dims = {site: parse_dim(name) for text, name in names.items() for site in _sites_of(text, name, first)}
    if several and not names:
        dims = _named_after(differing)
    if not dims:
        raise ValueError(
            "the exports have the same input sizes: export at two sizes"
            if several
            else "no axis to make dynamic is given"
        )
    sites = {dim.name: site for site, dim in reversed(dims.items()) if dim.name is not None}
    _check_names(first, dims, sites)
    sizes = []
    for export, declared, label in zip(exports, shapes, labels, strict=True):
        at = {site: _size_at(export, declared, site, label) for site in dims}
        here = {name: at[site] for name, site in reversed(sites.items())}
        for site, dim in dims.items():
            if dim.evaluate(here) != at[site]:
                shown = sizes_text(here, sorted(dim.free))
                raise ValueError(
                    f"{site} is {at[site]} in {label}, but {dim} is {dim.evaluate(here)} with {shown}"
                )
        sizes.append(here)
    for site, seen in differing.items():
        if site not in dims:
            raise ValueError(f"{site} differs ({', '.join(map(str, seen))}): give its size a name")
    for name in sites if several else ():
        if len({s[name] for s in sizes}) < 2:
            raise Refused(f"{name} is {sizes[0][name]} in every export: add an export with another {name}")
    return DynamicRequest(dims, {name: sites[name] for name in sizes[0]}, sizes)


def _shapes_of(exports: Seq[Model], labels: Seq[str]) -> list[_Shapes]:
    """Declared sizes of each export's inputs, by the first one's names. Raises `Refused` if number or rank differ."""
    found: list[_Shapes] = []
    for export, label in zip(exports, labels, strict=True):
        here: dict[str, list[int | str | None] | None] = {}
        for value in export.proto.graph.input:
            if value.name not in export.graph.initializers:
                kind = value.type.tensor_type
                sizes = [
                    d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in kind.shape.dim
                ]
                here[value.name] = sizes if kind.HasField("shape") else None
        if found and len(here) != len(found[0]):
            raise Refused(f"{label} has {len(here)} inputs, {labels[0]} has {len(found[0])}")
        if found and here.keys() != found[0].keys():
            here = dict(zip(found[0], here.values(), strict=True))
        if any(len(here[name] or ()) != len(found[0][name] or ()) for name in here if found):
            raise Refused(f"{label} has inputs of another rank than {labels[0]}")
        found.append(here)
    return found


def _differing(shapes: Seq[_Shapes]) -> dict[Site, tuple[int | str | None, ...]]:
    found = {}
    for name in shapes[0]:
        for axis, seen in enumerate(zip(*[s[name] or () for s in shapes], strict=True)):
            if len({*seen}) > 1:
                found[Site(name, axis)] = seen
    return found


def _named_after(differing: Mapping[Site, object]) -> dict[Site, Dim]:
    """A generated name per differing axis; axes that are equal in every export share one."""
    names: dict[object, str] = {}
    found = {}
    for site, seen in differing.items():
        base = "".join(c if c.isalnum() else "_" for c in site.tensor)
        name = names.setdefault(seen, f"{base if base[:1].isalpha() else 'x' + base}_{site.axis}")
        found[site] = symbol(name)
    return found


def _sites_of(text: str, name: str, shapes: _Shapes) -> list[Site]:
    """Axes meant by a text: one like ``images[0]``, or all axes with a declared name.

    Raises:
        ValueError: there is none.
    """
    text, name = text.strip(), name.strip()
    match = _PLACE.fullmatch(text)
    if match is not None:
        tensor, axis = match["name"], int(match["axis"])
        if tensor not in shapes:
            raise ValueError(unknown_name("input", tensor, shapes))
        sizes = shapes[tensor] or []
        if not -len(sizes) <= axis < len(sizes):
            raise ValueError(f"input {tensor!r} has {len(sizes)} axes, there is no axis {axis}")
        declared = sizes[axis]
        if isinstance(declared, int):
            return [Site(tensor, axis % len(sizes))]
        if declared != name:
            raise ValueError(f"{text} is {declared or 'unknown'} already: only a fixed size can be freed")
    every = ((key, axis, d) for key, sizes in shapes.items() for axis, d in enumerate(sizes or ()))
    found = [Site(key, axis) for key, axis, d in every if d == name and (match is not None or text == name)]
    if not found:
        raise ValueError(f"{text!r} is not an axis of an input; write it as name[axis], such as images[0]")
    return found


def _size_at(export: Model, shapes: _Shapes, site: Site, label: str) -> int:
    """The size of an axis; for a symbol the only one that runs. Raises `ValueError` if more than one does."""
    declared = (shapes[site.tensor] or [])[site.axis or 0]
    if isinstance(declared, int):
        return declared
    analysis = analyze(export, broadcast="strict")
    now = analysis._solved.facts.dim(analysis.symbols[declared]) if declared in analysis.symbols else None
    if now is None or now.value is None:
        raise ValueError(
            f"{site} is {declared} already in {label}, and accepts more than one size, so it is dynamic"
        )
    return int(now.value)


def _check_names(shapes: _Shapes, dims: Mapping[Site, Dim], sites: Mapping[str, Site]) -> None:
    for dim in dims.values():
        alone = sorted(dim.free - sites.keys())
        if alone:
            raise ValueError(
                f"{alone[0]!r} in {str(dim)!r} is not the size of an input axis, so its size is unknown"
            )
        if not dim.terms:
            raise ValueError(f"{str(dim)!r} is a number, not a name")
    taken = {
        d for name, sizes in shapes.items() for k, d in enumerate(sizes or ()) if Site(name, k) not in dims
    }
    clash = [name for name in sites if name in taken]
    if clash:
        raise ValueError(f"the model has a size named {clash[0]!r} already; choose another name")


def relabelled(proto: onnx.ModelProto, request: DynamicRequest, original: Model) -> onnx.ModelProto:
    """Return a copy whose inputs declare the symbols, without other declared shapes.

    Small external tensors are stored inline, so that their data can be read.
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
            array = None if stored is None else stored.array(MAX_STORED)
            if array is not None:
                tensor_.CopyFrom(numpy_helper.from_array(np.array(array), tensor_.name))
    return made


def consistent(
    model: onnx.ModelProto, broadcast: BroadcastMode = "strict", assume: Seq[str] = ()
) -> Analysis:
    """Analyze a changed model; raise `Refused` if it does not accept any sizes."""
    try:
        analysis = analyze(model, broadcast=broadcast, assume=assume)
    except ModelError as error:
        raise Refused(f"the changed model cannot be read: {error}") from error
    for conflict in analysis.conflicts:
        raise Refused(conflict.message, node=conflict.nodes[0] if conflict.nodes else "")
    return analysis


def _forget_shapes(nodes: Iterable[onnx.NodeProto]) -> None:
    """Removes declared shapes from the subgraphs of these nodes. Ranks are kept: onnxruntime asks for some."""
    for attribute in (a for node in nodes for a in node.attribute):
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            del graph.value_info[:]
            for value in (*graph.input, *graph.output):
                for dim in value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ():
                    dim.Clear()
            _forget_shapes(graph.node)
