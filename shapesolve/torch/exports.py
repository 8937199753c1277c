"""The exports of one check: none is made twice, and those for a suggestion alone are counted."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .alike import alike
from .declared import read_declaration
from .exporting import Watch, captured_by_exporter, export_program, forgiving
from .writing import Written, written

#: exports, and files written, for suggestions alone
_MAX_TRIALS = 8
_Key = tuple[Any, ...]


class Unaffordable(Exception):
    """More exports for suggestions than are made; what was to be tried is not told either."""


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
        """What is traced for a declaration, and how torch.export refuses its dims, which it does after the trace."""
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
        """What torch.export makes of a declaration. Raises what that raised, or `Unaffordable` for a `trial`."""
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
        """What is written of a program; for a trial also what was written of one like it. Raises what the exporter raised."""
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
        """What `torch.onnx.export` traces and writes of the module itself. Raises what that raises, `Unaffordable`, or
        `Narrowed`.
        """
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
