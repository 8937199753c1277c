"""The exports of one check: none is made twice, and those for suggestions are counted."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .declared import read_declaration
from .exporting import Watch, captured_by_exporter, export_program, forgiving
from .writing import Written, written

#: exports, and files written, for suggestions alone
_MAX_TRIALS = 8
_Key = tuple[Any, ...]


class Unaffordable(Exception):
    """Raised if suggestions need more exports than the limit. The suggestion is then not reported."""


@dataclass(frozen=True)
class Exported:
    """A program, who watched, and the shapes of the example it was traced for."""

    program: Any
    watch: Watch
    given: _Key


class Exports:
    """Exports a module and writes what comes out; exports for suggestions are bounded by their number."""

    def __init__(self, module: Any, *, strict: bool, opset: int | None = None) -> None:
        self.module, self.strict, self.opset = module, strict, opset
        self._made: dict[_Key, Exported | Exception] = {}
        self._traced: dict[_Key | None, tuple[Exported, Exception | None]] = {}
        self._written: list[tuple[Any, _Key, Written | Exception]] = []
        self._theirs: dict[_Key, tuple[Any, Written] | Exception] = {}
        self._trials = 0
        self.left_untried = False
        """Was there a suggestion that could not be tried within the bound?"""

    # ------------------------------------------------------------------ torch.export.export

    def first(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], spec: Any, *, trial: bool = False
    ) -> tuple[Exported | None, Exception | None]:
        """The traced program of a declaration, and torch.export's refusal of its dims, raised after the trace."""
        key = None
        with contextlib.suppress(Exception):  # a declaration that does not fit the call has no key
            key = self._key(args, kwargs, spec)
        if key in self._traced:
            return self._traced[key]
        self._afford(trial=trial)
        watch = Watch(self.module)
        with forgiving() as refusals:
            try:
                program = export_program(self.module, args, kwargs, spec, strict=self.strict, watch=watch)
            except Exception as error:  # whatever torch.export raises is a finding
                return None, (*refusals, error)[0]
        made, refusal = Exported(program, watch, shapes(args, kwargs)), next(iter(refusals), None)
        if key is not None:
            self._traced[key], self._made[key] = (made, refusal), refusal or made
        return made, refusal

    def program(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], spec: Any, *, trial: bool = True
    ) -> Exported:
        """The program that torch.export makes of a declaration. Raises its error, or `Unaffordable` for a `trial`."""
        key = self._key(args, kwargs, spec)
        if key not in self._made:
            self._afford(trial=trial)
            watch = Watch(self.module)
            try:
                program = export_program(self.module, args, kwargs, spec, strict=self.strict, watch=watch)
                self._made[key] = Exported(program, watch, shapes(args, kwargs))
            except Exception as error:
                self._made[key] = error
        found = self._made[key]
        if isinstance(found, Exception):
            raise found
        return found

    def _key(self, args: tuple[Any, ...], kwargs: dict[str, Any], spec: Any) -> _Key:
        """The same declaration of a call with arguments of the same shapes."""
        declaration = read_declaration(self.module, args, kwargs, spec)
        axes = tuple((a.leaf, a.index, str(a.size)) for a in declaration.axes)
        return tuple(declaration.roots.values()), axes, shapes(args, kwargs)

    # ------------------------------------------------------------------ torch.onnx.export

    def file(self, program: Any, given: _Key, *, trial: bool = True) -> Written:
        """The file written of a program. A trial can reuse the file of a similar one. Raises the exporter's error."""
        like = (
            outcome
            for other, its, outcome in self._written
            if other is program or (trial and its == given and alike(other, program))
        )
        outcome = next(like, None)
        if outcome is None:
            self._afford(trial=trial)
            try:
                outcome = written(program, self.opset)
            except Exception as error:
                outcome = error
            self._written.append((program, given, outcome))
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def by_exporter(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], spec: Any, *, trial: bool = True
    ) -> tuple[Any, Written]:
        """The program and file that `torch.onnx.export` makes. Raises its error, `Unaffordable`, or `Narrowed`."""
        key = self._key(args, kwargs, spec)
        if key not in self._theirs:
            self._afford(trial=trial)
            try:
                program = captured_by_exporter(self.module, args, kwargs, spec)
                found = self.file(program, shapes(args, kwargs), trial=False)
                self._theirs[key] = found.failed or (program, found)
            except Exception as error:
                self._theirs[key] = error
        known = self._theirs[key]
        if isinstance(known, Exception):
            raise known
        return known

    def _afford(self, *, trial: bool) -> None:
        if trial and self._trials >= _MAX_TRIALS:
            self.left_untried = True
            raise Unaffordable
        self._trials += trial


def shapes(args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Key:
    """The shapes of all tensors of a call."""
    leaves = pytree.tree_leaves((args, kwargs))
    return tuple(tuple(x.shape) for x in leaves if isinstance(x, torch.Tensor))


#: name prefixes of operators that only check and have no counterpart in an ONNX file
CHECKS = ("_assert", "sym_constrain_range", "_assert_scalar", "_assert_async", "_assert_tensor_metadata")
_SYMBOL = re.compile(r"\b[su]\d+\b")


def alike(a: Any, b: Any) -> bool:
    """The same calls in the same order, which make the same sizes, whatever nodes and symbols are called.

    What only checks sizes is left out, and sizes are compared by how they are computed, not by where.
    """
    return list(_calls(a)) == list(_calls(b))


def is_check(target: Any) -> bool:
    """True if an operator only checks and has no result."""
    name = getattr(getattr(target, "_schema", None), "name", "") or getattr(target, "__name__", "")
    return bool(name.rpartition("::")[2].startswith(CHECKS))


def _calls(program: Any) -> Iterator[str]:
    """Text per call: its target, arguments and result sizes, with nodes and symbols numbered."""
    symbols: dict[str, str] = {}
    said: dict[Any, str] = {}

    def numbered(match: re.Match[str]) -> str:
        return symbols.setdefault(match[0], f"s{len(symbols)}")

    yield from map(str, program.graph_signature.input_specs)
    calls = 0
    for node in program.graph.nodes:
        if node.op == "call_function" and is_check(node.target):
            continue
        given = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: _Said(said[n]))
        text = f"{node.op} {node.target} {given}"
        values = pytree.tree_leaves(node.meta.get("val"))
        if node.op == "call_function" and values and all(map(_is_count, values)):
            said[node] = f"({text})"
            continue
        said[node] = f"%{calls}" if node.op == "call_function" else f"%{node.name}"
        calls += node.op == "call_function"
        yield f"{text} {_SYMBOL.sub(numbered, str([_size(value) for value in values]))}"


class _Said(str):
    """A node as text, shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _is_count(value: Any) -> bool:
    """A number or a truth that is made of sizes: computing it changes nothing."""
    return isinstance(value, (int, float, torch.SymInt, torch.SymBool, torch.SymFloat))


def _size(value: Any) -> str:
    return str(tuple(value.shape)) if isinstance(value, torch.Tensor) else str(value)
