"""The declaration: every dynamic dim of ``dynamic_shapes``, with its range and its source text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch.export import Dim as TorchDim
from torch.export.dynamic_shapes import _combine_args, _tree_map_with_path
from torch.utils import _pytree as pytree

from ..expr import Cond, Dim, ge, le, symbol

_WORD = re.compile(r"\W+")


@dataclass(frozen=True, slots=True)
class Root:
    """A size that the declaration speaks of: a name with a range.

    ``low`` and ``high`` are None where the declaration does not say. ``hint`` is ``AUTO`` or ``DYNAMIC`` for a dim
    that has no name of its own, else empty.
    """

    name: str
    low: int | None = None
    high: int | None = None
    hint: str = ""

    @property
    def dim(self) -> Dim:
        """The symbol of this size."""
        return symbol(self.name)

    def conditions(self) -> list[Cond]:
        """Its range as conditions."""
        low = [ge(self.dim, self.low)] if self.low is not None else []
        return low + ([le(self.dim, self.high)] if self.high is not None else [])

    def __str__(self) -> str:
        bounds = [f"{k}={v}" for k, v in (("min", self.low), ("max", self.high)) if v is not None]
        if self.hint:
            return f"Dim.{self.hint}" + (f"({', '.join(bounds)})" if bounds else "")
        return f"Dim({', '.join([repr(self.name), *bounds])})"


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of one input that was declared dynamic: ``size`` in terms of the roots, e.g. ``2*_h``."""

    leaf: int
    path: str
    index: int
    size: Dim
    example: int
    quoted: str = ""

    @property
    def where(self) -> str:
        """``x.shape[1]``."""
        return f"{self.path}.shape[{self.index}]"


@dataclass(frozen=True)
class Declaration:
    """``dynamic_shapes`` of one call, parsed: its roots and axes, and their structure."""

    roots: Mapping[str, Root] = field(default_factory=dict)
    axes: tuple[Axis, ...] = ()
    paths: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    spec: Any = None
    leaves: Mapping[tuple[int, int], Axis] = field(default_factory=dict)
    """The axis of an entry, by the identity of the input's own part of ``dynamic_shapes`` and the entry's key."""

    def axes_of(self, root: str) -> list[Axis]:
        """The axes whose size depends on a root."""
        return [a for a in self.axes if root in a.size.free]

    def at(self, leaf: int) -> Iterator[Axis]:
        """The declared axes of an input, by its position."""
        return (a for a in self.axes if a.leaf == leaf)

    def quote(self, root: str) -> str:
        """The words that declared a root, and where: ``x.shape[0]: Dim('batch', min=1, max=64)``."""
        found = self.axes_of(root)
        if not found:
            return str(self.roots[root])
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        return f"{found[0].where}: {found[0].quoted}{more}"


def plain_path(path: Any) -> str:
    """``x``, ``past[0][1]``: an input the way the forward method writes it."""
    text: str = pytree.keystr(path)
    match = re.match(r"\['([^']*)'\]", text)
    return f"{match[1]}{text[match.end() :]}" if match else text


def read_declaration(
    module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any
) -> Declaration:
    """Reads ``dynamic_shapes`` together with the example arguments of a call.

    Raises whatever torch.export raises for a structure that does not fit (`torch._dynamo.exc.UserError`).
    """
    combined = _combine_args(module, args, kwargs)
    leaves = pytree.tree_flatten_with_path(combined)[0]
    keys = tuple(pytree.keystr(path) for path, _ in leaves)
    paths = tuple(plain_path(path) for path, _ in leaves)
    if hasattr(dynamic_shapes, "dynamic_shapes"):  # torch.export.ShapesCollection
        dynamic_shapes = dynamic_shapes.dynamic_shapes(module, args, kwargs)
    reader = _Reader({k: i for i, k in enumerate(keys)}, {id(x): i for i, (_, x) in enumerate(leaves)}, paths)
    if dynamic_shapes:
        spec = dynamic_shapes
        if isinstance(spec, (tuple, list)):
            spec = type(combined)(zip(combined, spec)) if isinstance(combined, dict) else spec
        _tree_map_with_path(reader.read, combined, spec, tree_name="inputs")
    return Declaration(reader.roots, tuple(reader.axes), paths, keys, dynamic_shapes, reader.leaves)


class _Reader:
    def __init__(self, by_key: Mapping[str, int], by_id: Mapping[int, int], paths: tuple[str, ...]) -> None:
        self.by_key, self.by_id, self.paths = by_key, by_id, paths
        self.roots: dict[str, Root] = {}
        self.axes: list[Axis] = []
        self.leaves: dict[tuple[int, int], Axis] = {}

    def read(self, path: Any, value: Any, spec: Any) -> None:
        shape = getattr(value, "shape", None)
        if shape is None or not spec:
            return
        entries = spec.items() if isinstance(spec, dict) else enumerate(spec)
        leaf = self.by_key.get(pytree.keystr(path))
        if leaf is None:  # of a container that torch.export writes as a list
            leaf = self.by_id[id(value)]
        for index, entry in entries:
            found = self.entry(entry, self.paths[leaf], index % len(shape) if len(shape) else index)
            if found is not None:
                size, quoted = found
                axis = Axis(leaf, self.paths[leaf], index % len(shape), size, int(shape[index]), quoted)
                self.axes.append(axis)
                self.leaves.setdefault((id(spec), index), axis)

    def entry(self, entry: Any, path: str, index: int) -> tuple[Dim, str] | None:
        """The size and the words of one entry; None when it is static."""
        if isinstance(entry, str):
            return self.root(Root(entry)).dim, repr(entry)
        if isinstance(entry, TorchDim):
            return self.named(entry)
        hint = getattr(getattr(entry, "type", None), "name", "")
        if hint in ("AUTO", "DYNAMIC"):
            root = Root(
                self.fresh(f"{_WORD.sub('_', path).strip('_')}_dim{index}"), entry.min, entry.max, hint
            )
            return self.root(root).dim, str(root)
        return None

    def named(self, entry: Any) -> tuple[Dim, str] | None:
        base = getattr(entry, "root", None)
        if base is None:
            if not hasattr(entry, "min") or not hasattr(entry, "__name__") or hasattr(entry, "value"):
                return None
            root = self.root(named_root(entry))
            return root.dim, str(root)
        if not isinstance(base, TorchDim):
            return None
        root = self.root(named_root(base))
        offset = int(entry.fn(0))
        factor = int(entry.fn(1)) - offset
        return root.dim * factor + offset, f"{entry.__name__} with {entry.root.__name__} = {root}"

    def root(self, root: Root) -> Root:
        return self.roots.setdefault(root.name, root)

    def fresh(self, name: str) -> str:
        while name in self.roots:
            name += "_"
        return name


def named_root(dim: Any) -> Root:
    """The root of a ``Dim("name", min=, max=)``; bounds that it does not state are None."""
    low, high = dim.min, dim.max
    low = int(low) if isinstance(low, int) and low > 0 else None
    return Root(dim.__name__, low, int(high) if _finite(high) else None)


def _finite(bound: Any) -> bool:
    return isinstance(bound, int) and bound < 2**62
