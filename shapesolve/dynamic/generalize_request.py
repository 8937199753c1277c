"""Which axes of fixed exports follow which names, and the sizes of these in each export."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq

from ..change.refused import Refused
from ..expr import Dim, parse_dim, symbol
from ..model import Model
from ..propagate.constraint import Site
from .free_model import Request, place_of


def asked(
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
        dims = _named(differing)
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


def _named(differing: Mapping[Site, tuple[int, ...]]) -> dict[Site, Dim]:
    """A name for each axis: the same one for those that are equal in every export."""
    names: dict[tuple[int, ...], str] = {}
    for site, seen in differing.items():
        base = "".join(c if c.isalnum() else "_" for c in site.tensor)
        names.setdefault(seen, f"{base if base[:1].isalpha() else 'x' + base}_{site.axis}")
    return {site: symbol(names[seen]) for site, seen in differing.items()}
