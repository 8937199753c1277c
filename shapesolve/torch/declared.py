"""The declaration: every dynamic dim of ``dynamic_shapes``, with its range and its text."""

from __future__ import annotations

import inspect
import itertools
import keyword
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.export import Dim as TorchDim

from ..expr import Cond, Dim, ge, le, symbol
from .internals import pytree, tree_map_with_path

_WORD = re.compile(r"\W+")


@dataclass(frozen=True)
class ExportCall:
    """A call of the exporter: a module, its example arguments, and its ``dynamic_shapes``."""

    module: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    spec: Any = None

    @property
    def combined(self) -> Any:
        """The arguments by the names of the parameters."""
        return combined(self.module, self.args, self.kwargs)


@dataclass(frozen=True, slots=True)
class Root:
    """A named size of the declaration, with its range.

    `low` and `high` are None if undeclared. `hint` is ``AUTO`` or ``DYNAMIC`` for a dim without a name, and empty otherwise.
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
        bounds = ((ge, self.low), (le, self.high))
        return [holds(self.dim, bound) for holds, bound in bounds if bound is not None]

    def __str__(self) -> str:
        bounds = bounds_text(self.low, self.high)
        if self.hint:
            return f"Dim.{self.hint}({bounds})" if bounds else f"Dim.{self.hint}"
        return f"Dim({self.name!r}{', ' if bounds else ''}{bounds})"


@dataclass(frozen=True, slots=True)
class Axis:
    """A dynamic axis of an input: ``size`` in terms of the roots, e.g. ``2*_h``."""

    leaf: int
    path: str
    index: int
    size: Dim
    example: int
    quoted: str = ""
    given: Any = field(default=None, compare=False, repr=False)
    """The entry of ``dynamic_shapes``."""


@dataclass(frozen=True)
class Declaration:
    """``dynamic_shapes`` of one call, parsed: its roots, axes and structure.

    `keys` are the inputs, and `assumed` are further conditions on the roots that callers satisfy.
    """

    roots: Mapping[str, Root] = field(default_factory=dict)
    axes: tuple[Axis, ...] = ()
    keys: tuple[str, ...] = ()
    call: ExportCall | None = None
    assumed: tuple[Cond, ...] = ()

    @property
    def conditions(self) -> list[Cond]:
        """What holds for all declared sizes."""
        return [
            *self.assumed,
            *(c for root in self.roots.values() for c in (*root.conditions(), ge(root.dim, 1))),
        ]

    def at(self, leaf: int) -> Iterator[Axis]:
        """The declared axes of an input, by its position."""
        return (a for a in self.axes if a.leaf == leaf)

    def quote(self, root: str) -> str:
        """Text that declared a root, with its axis: ``x.shape[0]: Dim('batch', min=1, max=64)``."""
        found = [a for a in self.axes if root in a.size.free]
        if not found:
            return str(self.roots[root])
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        return f"{found[0].path}.shape[{found[0].index}]: {found[0].quoted}{more}"


def combined(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names of the parameters."""
    return dict(inspect.signature(module.forward).bind(*args, **kwargs).arguments)


def plain_path(path: Any) -> str:
    """Text of an input as the forward method writes it: ``x``, ``past[0][1]``."""
    text: str = pytree.keystr(path)
    match = re.match(r"\['([^']*)'\]", text)
    return f"{match[1]}{text[match.end() :]}" if match else text


def read_declaration(call: ExportCall) -> Declaration:
    """Reads ``dynamic_shapes`` together with the example arguments of a call.

    Raises whatever torch.export raises for a structure that does not fit (`torch._dynamo.exc.UserError`).
    """
    combined, spec = call.combined, call.spec
    leaves = pytree.tree_flatten_with_path(combined)[0]
    keys = tuple(pytree.keystr(path) for path, _ in leaves)
    reader = _Reader([plain_path(path) for path, _ in leaves])
    if spec:
        if isinstance(spec, (tuple, list)):
            spec = type(combined)(zip(combined, spec)) if isinstance(combined, dict) else spec
        tree_map_with_path(reader.read, combined, spec, tree_name="inputs")
    return Declaration(reader.roots, tuple(reader.axes), keys, call)


class _Reader:
    """Reads the entries of the inputs, one input after the other in the order of `paths`."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths, self.places = paths, itertools.count()
        self.roots: dict[str, Root] = {}
        self.axes: list[Axis] = []

    def read(self, path: Any, value: Any, spec: Any) -> None:
        leaf, shape = next(self.places), getattr(value, "shape", None)
        if shape is None or not spec:
            return
        entries = spec.items() if isinstance(spec, dict) else enumerate(spec)
        for index, entry in entries:
            found = self.entry(entry, self.paths[leaf], index % len(shape) if len(shape) else index)
            if found is not None and -len(shape) <= index < len(shape):
                size, quoted = found
                axis = Axis(
                    leaf, self.paths[leaf], index % len(shape), size, int(shape[index]), quoted, entry
                )
                self.axes.append(axis)

    def entry(self, entry: Any, path: str, index: int) -> tuple[Dim, str] | None:
        """The size and the text of one entry; None when it is static."""
        if isinstance(entry, (TorchDim, str)):
            return self.named(TorchDim(entry) if isinstance(entry, str) else entry)
        hint = hint_of(entry)
        if hint in ("AUTO", "DYNAMIC"):
            root = Root(
                self.fresh(f"{_WORD.sub('_', path).strip('_')}_dim{index}"), entry.min, entry.max, hint
            )
            return self.root(root).dim, str(root)
        return None

    def named(self, entry: Any) -> tuple[Dim, str] | None:
        if hasattr(entry, "value") or not isinstance(getattr(entry, "root", entry), TorchDim):  # a number
            return None
        root, size = derivation(entry)
        declared = self.root(Root(root.__name__, *bounds_of(root)))
        more = "" if root is entry else f"{entry.__name__} with {root.__name__} = "
        return size, f"{more}{declared}"

    def root(self, root: Root) -> Root:
        return self.roots.setdefault(root.name, root)

    def fresh(self, name: str) -> str:
        while name in self.roots:
            name += "_"
        return name


def bounds_text(low: int | None, high: int | None) -> str:
    """Text of the declared bounds: ``min=1, max=64``."""
    return ", ".join(f"{k}={v}" for k, v in (("min", low), ("max", high)) if v is not None)


def bounds_of(dim: Any) -> tuple[int | None, int | None]:
    """The lower and upper bound of a ``Dim``; None for one that it does not state."""
    return finite(dim.min) or None, finite(dim.max)


def finite(bound: Any) -> int | None:
    """A bound of PyTorch as a number; None if it bounds nothing."""
    try:
        value = int(bound)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return None
    return value if abs(value) < 2**62 else None


# ---------------------------------------------------------------------- dynamic_shapes made


def resolved(call: ExportCall) -> ExportCall:
    """The call with ``dynamic_shapes`` in plain containers; unchanged if they do not fit."""
    spec = call.spec
    try:
        if hasattr(spec, "dynamic_shapes"):  # torch.export.ShapesCollection, AdditionalInputs
            spec = spec.dynamic_shapes(call.module, call.args, call.kwargs)
    except ValueError:  # a collection that does not fit the call: torch.export says so
        return call
    return replace(call, spec=_plain(spec))


def _plain(spec: Any) -> Any:
    if isinstance(spec, dict):
        return {k: _plain(v) for k, v in spec.items()}
    parts = pytree.tree_flatten(spec, is_leaf=lambda part: part is not spec)[0]
    if len(parts) != 1 or parts[0] is not spec:
        return (tuple if isinstance(spec, tuple) else list)(map(_plain, parts))
    return spec


def call_of_program(program: torch.export.ExportedProgram) -> ExportCall:
    """The call that an exported program stands for: its example, and its sizes under names of their inputs."""
    nodes = {node.name: node for node in program.graph.nodes}
    names = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    shapes = [getattr(nodes[name].meta.get("val"), "shape", ()) if name in nodes else () for name in names]
    ranges = {str(size): bounds for size, bounds in program.range_constraints.items()}
    dims: dict[str, Any] = {}

    def entry(leaf: int, path: str, axis: int, size: int) -> Any:
        text = str(shapes[leaf][axis])
        if text not in ranges:  # a number, or derived from another size
            return None if text.isdigit() else TorchDim.AUTO
        low, high = finite(ranges[text].lower), finite(ranges[text].upper)
        return dims.setdefault(text, TorchDim(python_name(f"{path}_dim{axis}"), min=low, max=high))

    args, kwargs = program.example_inputs
    call = ExportCall(program.module(), args, kwargs)
    return replace(call, spec=declared_axes(call, entry))


def hint_of(entry: Any) -> str:
    """``AUTO``, ``DYNAMIC`` or ``STATIC``; empty if the entry is not a hint."""
    return str(getattr(getattr(entry, "type", None), "name", ""))


def declared_axes(call: ExportCall, entry: Callable[[int, str, int, int], Any]) -> dict[str, Any]:
    """``dynamic_shapes`` of a call, axis by axis. `entry` gets the input's position, its path, the axis and its size."""
    combined = call.combined
    paths = iter(enumerate(plain_path(path) for path, _ in pytree.tree_flatten_with_path(combined)[0]))

    def made(path: Any, value: Any) -> Any:
        leaf, text = next(paths)
        if not isinstance(value, torch.Tensor):
            return None
        entries = {i: entry(leaf, text, i, int(n)) for i, n in enumerate(value.shape)}
        return {i: e for i, e in entries.items() if e is not None} or None

    found: dict[str, Any] = _plain(tree_map_with_path(made, combined))
    return found


def entries_added(
    call: ExportCall, declaration: Declaration, known: Sequence[Axis], every: bool
) -> tuple[dict[str, Any], dict[str, str]]:
    """``dynamic_shapes`` with entries for undeclared axes that are as long as a `known` one, and their text by input.

    With `every`, all such axes get one; otherwise one per input and size, at the same position if possible.
    """
    combined = call.combined
    shapes = [getattr(value, "shape", ()) for value in pytree.tree_leaves(combined)]
    declared = {(a.leaf, a.index): a for a in declaration.axes}
    text: dict[str, str] = {}

    def meant(leaf: int, axis: int, size: int) -> Axis | None:
        for root in sorted(known, key=lambda a: a.index != axis):
            free = [i for i, n in enumerate(shapes[leaf]) if n == root.example and (leaf, i) not in declared]
            if size == root.example and (every or axis == (root.index if root.index in free else free[0])):
                return root
        return None

    def entry(leaf: int, path: str, axis: int, size: int) -> Any:
        if (leaf, axis) in declared:
            return declared[leaf, axis].given
        root = meant(leaf, axis, size) if size > 1 else None
        if root is None:
            return None
        before = f"{text[path]}, and " if path in text else ""
        text[path] = f"{before}axis {axis}, which is fixed at {size}"
        return root.given

    return declared_axes(call, entry), text


# ---------------------------------------------------------------------- dynamic_shapes as text


def python_name(name: str) -> str:
    """A Python name for a dim."""
    word = _WORD.sub("_", name)
    return f"{word}_" if keyword.iskeyword(word) or not word or word[0].isdigit() else word


def spec_text(spec: Any) -> str:
    """Python to paste: the dims that ``dynamic_shapes`` uses, and itself."""
    dims: dict[str, Any] = {}
    text = _text(spec, dims)
    return "\n".join([*dim_lines(dims.values()), f"dynamic_shapes = {text}"])


def dim_lines(dims: Iterable[Any]) -> list[str]:
    """``batch = Dim("batch", max=64)``, one line a dim."""
    found = []
    for dim in dims:
        bounds = bounds_text(*bounds_of(dim))
        more = f", {bounds}" if bounds else ""
        found.append(f'{python_name(dim.__name__)} = Dim("{dim.__name__}"{more})')
    return found


def _text(spec: Any, dims: dict[str, Any]) -> str:
    if isinstance(spec, dict):
        return "{" + ", ".join(f"{k!r}: {_text(v, dims)}" for k, v in spec.items()) + "}"
    if isinstance(spec, (list, tuple)):
        inner = ", ".join(_text(v, dims) for v in spec)
        return f"({inner}{','[: len(spec) == 1]})" if isinstance(spec, tuple) else f"[{inner}]"
    if isinstance(spec, TorchDim):
        root, size = derivation(spec)
        dims.setdefault(root.__name__, root)
        return str(size.subs({root.__name__: symbol(python_name(root.__name__))}))
    if hint_of(spec):
        return str(Root("", spec.min, spec.max, hint_of(spec)))
    return repr(spec)


def derivation(dim: Any) -> tuple[Any, Dim]:
    """The dim that has the name and the range, and the size in terms of it: ``2*_h`` is of ``_h``."""
    root = getattr(dim, "root", dim)
    if root is dim:
        return root, symbol(dim.__name__)
    offset = int(dim.fn(0))
    return root, symbol(root.__name__) * (int(dim.fn(1)) - offset) + offset
