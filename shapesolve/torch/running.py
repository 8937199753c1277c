"""Runs a module, and its file, at declared sizes: on a copy, without gradients, with seeded data and bounded work."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from typing import Any, Literal

import onnx
import torch
from torch.export.graph_signature import ConstantArgument

from ..expr import Cond, Dim
from ..runs import Session, difference
from ..solve.sizes import SizeFinder
from .declared import Declaration, ExportCall, combined
from .exporting import Exported, OwnError, own_errors, quiet
from .internals import TorchDispatchMode, pytree
from .limits import (
    FEW_RUNS,
    MANY_CALLS,
    MAX_BYTES,
    MAX_CALLS,
    MAX_ELEMENTS,
    MAX_KEPT,
    MAX_RUNS,
    MAX_TRIED,
    MUCH_MADE,
    PER_SIZE,
    SPREAD,
    STEPS,
    TOGETHER,
    USUAL,
)
from .places import NOWHERE, SourceOrigin, first_line, module_names, origin_of_error, own_words

#: a way to fill the inputs -> its text
_FILLS: dict[str, str] = {
    "tiled": "the example's values, repeated",
    "drawn": "values drawn from the example's",
    "fitted": "integers that follow the sizes",
    "ones": "integers of 1",
    "zeros": "integers of 0",
}

State = Literal["runs", "fails", "unknown"]
Sizes = Mapping[str, int]
SizeItems = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Ran:
    """Result of one run: `state`, the failing line and PyTorch's message, or the outputs. Large outputs are None."""

    sizes: SizeItems
    state: State
    words: str = ""
    origin: SourceOrigin = NOWHERE
    outputs: tuple[Any, ...] | None = None
    leaves: tuple[Any, ...] = ()


class _Beyond(BaseException):
    """Ends a run that exceeds its bounds, past each ``except Exception`` of a module."""


class _Limits(TorchDispatchMode):  # type: ignore[misc]  # PyTorch is not installed where types are checked
    """Ends a run before an operator exceeds the bound on elements, or the run the bound on calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.made = 0, 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        self.calls += 1
        with own_errors():
            if self.made + _foreseen(func, args, kwargs) > MAX_ELEMENTS or self.calls > MAX_CALLS:
                raise _Beyond
        out = func(*args, **kwargs)
        with own_errors():
            self.made += _elements(out)
        if self.made > MAX_ELEMENTS:
            raise _Beyond
        return out


def _foreseen(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """The number of elements that an operator makes, from the meta device; 0 if it is small or unknown."""
    leaves = pytree.tree_leaves((args, kwargs))
    sizes = [x.numel() if isinstance(x, torch.Tensor) else x for x in leaves]
    # at most their product, unless it repeats
    if math.prod(abs(n) for n in sizes if isinstance(n, int) and not isinstance(n, bool) and n) <= MAX_KEPT:
        return 0
    meta = torch.device("meta")
    try:
        given, options = pytree.tree_map_only(torch.Tensor, lambda t: t.to(meta), (args, kwargs))
        makes = "device" in kwargs or not any(isinstance(x, torch.Tensor) for x in leaves)
        return _elements(func(*given, **(options | {"device": meta} if makes else options)))
    except Exception:  # PyTorch has no shape function for it, or it fails: the run itself shows it
        return 0


def _elements(out: Any) -> int:
    return sum(x.numel() for x in pytree.tree_leaves(out) if isinstance(x, torch.Tensor))


class ModuleRuns:
    """Runs a module at declared sizes; a run is made once."""

    def __init__(self, call: ExportCall, declaration: Declaration) -> None:
        self.call, self.declaration = call, declaration
        flat, self._tree = pytree.tree_flatten((call.args, call.kwargs))
        self._flat: list[Any] = flat
        count = len(flat)
        self._place = _places_of_call(call.module, self._tree, count) if declaration.axes else range(count)
        self.example = example_sizes(declaration)
        self._known: dict[SizeItems, Ran] = {}
        self._varied = 0  # runs with other data
        self.by_values: tuple[tuple[str, Ran], tuple[str, Ran]] | None = None
        """A failure with the example's own values at sizes at which the module runs with other values."""
        self._made, self._calls = 0, 0  # elements and operators of all runs so far

    @property
    def usable(self) -> bool:
        """True if the example gives all declared sizes and the module runs on it."""
        return len(self.example) == len(self.declaration.roots) and self.at({}).state == "runs"

    def complete(self, sizes: Sizes) -> dict[str, int]:
        """Return these sizes, completed by the example's."""
        return {**self.example, **sizes}

    def at(self, sizes: Sizes) -> Ran:
        """Result at these sizes, all others as in the example. Fails if each filling of integers does."""
        key = tuple(self.complete(sizes).items())
        if key not in self._known:
            much = self._made > MUCH_MADE or self._calls > MANY_CALLS
            if len(self._known) >= (FEW_RUNS if much else MAX_RUNS):
                return Ran(key, "unknown")
            self._known[key] = self._try_all(dict(key))
        return self._known[key]

    def runs_at(self, sizes: Sizes) -> bool | None:
        """True if it runs at these sizes, and None if unknown."""
        return {"runs": True, "fails": False}.get(self.at(sizes).state)

    def other_data(self) -> tuple[tuple[str, Ran], tuple[str, Ran]] | None:
        """Data with which the module fails, and data with which it runs, both at the same declared sizes.

        None if the module does the same with all data that is tried.
        """
        for sizes in ({}, *itertools.islice(probes(self.declaration, self.example), TOGETHER)):
            found: dict[str, tuple[str, Ran]] = {}
            for fill, text in _FILLS.items():
                if len(self._known) + self._varied >= FEW_RUNS * 2:
                    return None
                self._varied += 1
                ran = self._run(self.complete(sizes), fill)
                found.setdefault(ran.state, (text, ran))
                if "fails" in found and "runs" in found:
                    return found["fails"], found["runs"]
        return None

    def seen(self) -> list[SizeItems]:
        """Sizes the module ran with, except the example's."""
        return [s for r in self._known.values() if r.state == "runs" and (s := self.changed(r))]

    def changed(self, ran: Ran) -> SizeItems:
        """The sizes of a run that are not the example's."""
        return tuple((n, v) for n, v in ran.sizes if self.example[n] != v)

    def grown(self, sizes: Sizes) -> ExportCall:
        """The call with an example of these sizes."""
        args, kwargs = pytree.tree_unflatten(self._leaves(self.complete(sizes), "fitted"), self._tree)
        return replace(self.call, args=args, kwargs=kwargs)

    # ------------------------------------------------------------------ one run

    def _try_all(self, sizes: Sizes) -> Ran:
        failed: list[Ran] = []
        integers = any(isinstance(x, torch.Tensor) and _whole(x) for x in self._flat)
        for fill in ("tiled", "fitted", "ones", "zeros") if integers else ("tiled",):
            ran = self._run(sizes, fill)
            if ran.state != "fails":
                if ran.state == "runs" and len(failed) > 1 and self.by_values is None:
                    self.by_values = (_FILLS["tiled"], failed[0]), (_FILLS[fill], ran)
                return ran
            failed.append(ran)
        places = [r.origin.place for r in failed]  # values that do not fit may fail before the sizes do
        return max(failed, key=lambda r: places.count(r.origin.place))

    def _run(self, sizes: Sizes, fill: str) -> Ran:
        key = tuple(sizes.items())
        try:
            leaves = self._leaves(sizes, fill)
        except (RuntimeError, MemoryError):  # PyTorch cannot make them
            return Ran(key, "unknown")
        try:
            module = _copied(self.call.module)
        except Exception:  # the module cannot be copied
            return Ran(key, "unknown")
        args, kwargs = pytree.tree_unflatten(
            [x.clone() if isinstance(x, torch.Tensor) else x for x in leaves], self._tree
        )
        limits, threads = _Limits(), torch.get_num_threads()
        try:
            torch.set_num_threads(1)  # in small runs, threads wait longer than they work
            with quiet(), torch.no_grad(), torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                with limits:
                    out = module(*args, **kwargs)
        except OwnError as marked:
            raise marked.error from None
        except (_Beyond, MemoryError):
            return Ran(key, "unknown")
        except Exception as error:  # whatever the module raises is what we want to know
            if "allocate" in str(error):
                return Ran(key, "unknown")
            return Ran(key, "fails", own_words(error), origin_of_error(error, module_names(module)))
        finally:
            torch.set_num_threads(threads)
            self._made, self._calls = self._made + limits.made, self._calls + limits.calls
        outputs = tuple(pytree.tree_leaves(out))
        small = _elements(outputs) <= MAX_KEPT
        return Ran(key, "runs", "", NOWHERE, outputs if small else None, tuple(leaves) if small else ())

    # ------------------------------------------------------------------ arguments

    def in_order(self, leaves: Sequence[Any]) -> list[Any]:
        """The leaves of a call in the order of the declaration's inputs."""
        return [x for _, x in sorted(zip(self._place, leaves), key=lambda pair: pair[0])]

    def _leaves(self, sizes: Sizes, fill: str) -> list[Any]:
        swaps = {old: sizes[name] for name, old in self.example.items()}
        found: list[Any] = []
        for place, leaf in zip(self._place, self._flat):
            if not isinstance(leaf, torch.Tensor):
                found.append(leaf)
                continue
            shape = list(leaf.shape)
            for axis in self.declaration.at(place):
                value = _at(axis.size, sizes)
                shape[axis.index] = axis.example if value is None else value
            found.append(_filled(leaf.detach(), shape, fill, swaps))
        return found


def example_sizes(declaration: Declaration) -> dict[str, int]:
    """The declared sizes in the example, without those that no axis determines."""
    found: dict[str, int] = {}
    for axis in declaration.axes:
        for name in axis.size.free - found.keys():
            size = root_size(axis.size, name, axis.example)
            found |= {} if size is None else {name: size}
    return {name: found[name] for name in declaration.roots if name in found}


def root_size(size: Dim, name: str, value: int | None) -> int | None:
    """The size of a root for an axis of size `value`, rounded down. None if the axis does not decide it."""
    base, one = _at(size, {name: 0}), _at(size, {name: 1})
    return (
        None
        if value is None or base is None or one is None or one <= base
        else (value - base) // (one - base)
    )


def _places_of_call(module: Any, tree: Any, count: int) -> Sequence[int]:
    """Per leaf of (args, kwargs) its position among the inputs as torch.export orders them."""
    marks: list[Any] = [object() for _ in range(count)]
    args, kwargs = pytree.tree_unflatten(marks, tree)
    order = {id(mark): i for i, mark in enumerate(pytree.tree_leaves(combined(module, args, kwargs)))}
    return [order.get(id(mark), i) for i, mark in enumerate(marks)]


def _at(size: Dim, sizes: Sizes) -> int | None:
    return size.subs({n: sizes[n] for n in size.free if n in sizes}).value


def _whole(tensor: torch.Tensor) -> bool:
    return not tensor.is_floating_point() and not tensor.is_complex() and tensor.dtype != torch.bool


def _filled(leaf: torch.Tensor, shape: list[int], fill: str, swaps: Mapping[int, int]) -> torch.Tensor:
    """A tensor like the example's, of another shape. Integers equal to a size become the new size."""
    if 0 in leaf.shape:
        return torch.zeros(shape, dtype=leaf.dtype, device=leaf.device)
    if _whole(leaf) and fill in ("ones", "zeros"):
        return torch.full(shape, int(fill == "ones"), dtype=leaf.dtype, device=leaf.device)
    tiled = _tiled(leaf, shape)
    if fill == "drawn" and not leaf.is_floating_point() and leaf.numel():
        places = torch.randint(leaf.numel(), (tiled.numel(),), generator=torch.Generator().manual_seed(0))
        return leaf.flatten()[places.to(leaf.device)].reshape(shape)
    if list(leaf.shape) != shape and _whole(leaf) and fill == "fitted":
        return _fitted(tiled, swaps)
    if not leaf.is_floating_point():
        return tiled
    draw = torch.Generator().manual_seed(0)
    if bool((leaf == leaf.flatten()[0]).all()):
        return torch.randn(shape, generator=draw).to(leaf.dtype).to(leaf.device)
    if list(leaf.shape) == shape:
        return tiled
    # repeated rows differ a little: an order among equal values is not defined
    return tiled * (1 + SPREAD * torch.rand(shape, generator=draw).to(leaf.dtype).to(leaf.device))


def _tiled(leaf: torch.Tensor, shape: list[int]) -> torch.Tensor:
    for axis, size in enumerate(shape):
        if size != leaf.shape[axis]:
            leaf = leaf.index_select(axis, torch.arange(size, device=leaf.device) % leaf.shape[axis])
    return leaf.clone()


def _fitted(values: torch.Tensor, swaps: Mapping[int, int]) -> torch.Tensor:
    """Integers that equal a size of the example, or its last index, moved to the new size."""
    out = values.clone()
    for old, new in swaps.items():
        if old > 1 and old != new:
            out[values == old] = new
            out[values == old - 1] = max(new - 1, 0)
    return out


def _copied(module: Any) -> Any:
    """A copy with its own state. Parameters are shared, because a run without gradients does not change them."""
    return copy.deepcopy(module, {id(p): p for p in module.parameters()})


# ---------------------------------------------------------------------- the exported file


class FileRuns:
    """The file in onnxruntime, as users run it, compared with the module.

    A file that differs at the example cannot be compared at other sizes.
    """

    def __init__(self, runs: ModuleRuns, export: Exported) -> None:
        self.runs, self.export = runs, export
        self.failures: dict[SizeItems, str] = {}
        """Sizes at which it does not run -> onnxruntime's words."""

    def agrees(self, sizes: Sizes) -> bool | None:
        """True if the file gives the module's outputs at these sizes. None if unknown."""
        return self._same(self.runs.at(sizes)) if self._trusted else None

    @cached_property
    def _trusted(self) -> bool:
        return self._session is not None and self._same(self.runs.at({})) is True

    @cached_property
    def _session(self) -> Session | None:
        proto = self.export.proto
        if proto is None or find_spec("onnxruntime") is None or proto.ByteSize() > MAX_BYTES:
            return None
        try:
            return Session(proto, optimized=True)
        except RuntimeError:
            return None

    def _same(self, ran: Ran) -> bool | None:
        """True if the file gives the outputs of this run, False also if it fails. None if the run has no outputs."""
        if ran.state != "runs" or ran.outputs is None or self._session is None:
            return None
        signature = self.export.program.graph_signature
        given = _in_file(signature.input_specs, self.runs.in_order(ran.leaves))
        wanted = _in_file(signature.output_specs, ran.outputs)
        try:
            feeds = [torch.as_tensor(value).contiguous().numpy() for value in given]
            arrays = self._session.run(dict(zip(self._session.inputs, feeds, strict=True)))
            found = [torch.as_tensor(array) for array in arrays]
        except Exception as error:  # it does not run, or numpy lacks an element type
            self.failures[ran.sizes] = first_line(str(error))
            return False
        return len(found) == len(wanted) and all(map(same, map(torch.as_tensor, wanted), found))

    def agrees_when_bare(self, ran: Ran) -> bool:
        """True if the file without the sizes that it declares inside gives the outputs of this run."""
        bare = onnx.ModelProto()
        if self.export.proto is not None:
            bare.CopyFrom(self.export.proto)
        bare.graph.ClearField("value_info")
        return FileRuns(self.runs, replace(self.export, proto=bare))._same(ran) is True


def _in_file(specs: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """The inputs or outputs of the module that its file has; it leaves out None and numbers."""
    own = [spec for spec in specs if spec.kind.name in ("USER_INPUT", "USER_OUTPUT")]
    return [v for spec, v in zip(own, values) if not isinstance(spec.arg, ConstantArgument)]


def same(a: Any, b: Any) -> bool:
    """True if two outputs are equal up to rounding."""
    if not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):
        return isinstance(a, torch.Tensor) is isinstance(b, torch.Tensor) and bool(a == b)
    if a.is_floating_point() != b.is_floating_point():
        return a.shape == b.shape and bool((a == b).all())
    kind = torch.float32 if a.dtype == torch.bfloat16 else a.dtype  # numpy has no bfloat16
    return not difference(a.to(kind).numpy(), b.to(kind).numpy())[1]


# ---------------------------------------------------------------------- sizes to try


def finder(declaration: Declaration, conds: Iterable[Cond] = ()) -> SizeFinder:
    """Finder of declared sizes that satisfy these conditions too."""
    return SizeFinder([*declaration.conditions, *conds], names=declaration.roots, floor=1)


def probes(
    declaration: Declaration,
    example: Sizes,
    conds: Iterable[Cond] = (),
    roots: Iterable[str] | None = None,
) -> Iterator[dict[str, int]]:
    """Declared sizes that satisfy the conditions: one size changed at a time, others with it as far as it needs them.

    All sizes are changed together first. With `roots`, only these are changed, alone first, and to sizes farther away.
    """
    sizes, choices = finder(declaration, conds), {}
    for name in declaration.roots if roots is None else roots:
        root, size = declaration.roots[name], example[name]
        low, high = (max(2, size - 1), size + 1) if roots is None else (min(2, size), 4 * size + 1)
        low, high = low if root.low is None else root.low, root.high or high
        first = (size + 1, size - 1, low, high, size + 2, 2 * size + 1, 2 * size, low + 1, low + 2)
        wanted = (*first, *(size + step for step in STEPS), *USUAL, high - 1)
        choices[name] = [v for v in dict.fromkeys(wanted) if low <= v <= high and v != size and v >= 1]
    rows = range(max(map(len, choices.values()), default=0))
    alone = [{n: v[i]} for i in rows for n, v in choices.items() if i < len(v)]
    joint = [{n: v[(i + k) % len(v)] for k, (n, v) in enumerate(choices.items()) if v} for i in rows]
    joint = [part for part in joint if len(part) > 1]
    if roots is None:
        parts = [*joint[:TOGETHER], *alone[: PER_SIZE * len(choices)]]
    else:
        parts = [*alone, *joint[:MAX_TRIED]]
    seen: set[SizeItems] = set()
    for part in parts:
        found = sizes.completed(part, example)
        key = () if found is None else tuple((n, v) for n, v in found.items() if v != example[n])
        if key and key not in seen:
            seen.add(key)
            yield dict(key)
