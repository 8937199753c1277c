"""Suggestions carried out before they are told: exported and written as a user would, and run at sizes that they promise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import onnx

from .declared import Declaration
from .exporting import Narrowed
from .exports import Exports, Unaffordable
from .filed import InRuntime, can_be_run
from .guards import fixed_axes, input_names
from .pasting import pasted
from .running import Runs, Sizes
from .unguarded import Unguarded
from .writing import Written

#: sizes at which the file is held against the module
_COMPARED = 8


@dataclass(frozen=True)
class File:
    """A program, and the file that was written of it (`proto`, of the decomposed program); None where none could be written.

    `source` is the program whose symbols the file has, where that is not the program but one like it.
    """

    program: Any
    decomposed: Any = None
    proto: onnx.ModelProto | None = None
    source: Any = None

    @staticmethod
    def of(found: Written) -> File:
        """The file that was written."""
        return File(found.source, found.program, found.proto, found.source)

    def numbers(self, declaration: Declaration) -> set[str]:
        """The declared sizes that are numbers in the inputs of the file; of the program, where there is no file.

        A size that torch.export took for a number may be free in the file all the same: ONNX has recurrent layers.
        """
        if self.proto is None:
            return {*fixed_axes(self.program, declaration)}
        inputs = {v.name: v.type.tensor_type.shape.dim for v in self.proto.graph.input}
        given = [inputs.get(name, ()) for name in input_names(self.decomposed)]
        axes = (a for a in declaration.axes if a.index < len(given[a.leaf]))
        return {n for a in axes if given[a.leaf][a.index].HasField("dim_value") for n in a.size.free}

    def followed(
        self, runs: Runs, at: Iterable[Mapping[str, int]], example: Sizes | None = None
    ) -> list[bool | None]:
        """Does the file give at these sizes what the module gives? None where it cannot be said."""
        if self.proto is None:
            return []
        file = InRuntime(self.proto, input_names(self.decomposed), runs, example or {})
        return [file.agrees(runs.at(sizes)) for sizes in at]


def holds_up(
    text: str,
    runs: Runs,
    promised: Iterable[Mapping[str, int]],
    *,
    dynamic: Iterable[str],
    exports: Exports,
    example: Sizes | None = None,
    known: File | None = None,
) -> bool:
    """Does a declaration to paste give a file that follows the module at sizes that it promises?

    torch.export must take it for the example of these sizes and keep the sizes `dynamic`. The module must not fail at
    `promised` sizes. `known` is the file of another declaration: where that could not be written, only the graph is run.
    What would take too long to find out counts as no.
    """
    args, kwargs = runs.inputs(example or {})
    try:
        made = exports.program(args, kwargs, pasted(text))
        written = known is None or known.proto is not None
        file = File.of(exports.file(made.program, made.given)) if written else File(made.program)
    except Exception:  # refused, or the exporter cannot write it
        return False
    if not file.numbers(runs.declaration).isdisjoint(dynamic):
        return False
    ran = _where_it_runs(runs, promised)
    graph = _running(file, runs, example or {})
    if ran is None or False in [graph.agrees(sizes) for sizes in ran]:
        return False
    if file.proto is None:
        return True
    try:
        theirs = by_exporter(runs, pasted(text), exports, example)
    except (Narrowed, Unaffordable):
        return False
    return theirs is None or theirs.proto is file.proto or False not in theirs.followed(runs, ran, example)


def _where_it_runs(runs: Runs, promised: Iterable[Mapping[str, int]]) -> list[Mapping[str, int]] | None:
    """The first of these sizes that the module runs at; None when it fails at one before."""
    ran: list[Mapping[str, int]] = []
    for sizes in promised:
        state = runs.at(sizes).state
        if state == "fails":
            return None
        if state == "runs":
            ran.append(sizes)
        if len(ran) == _COMPARED:
            break
    return ran


def by_exporter(runs: Runs, spec: Any, exports: Exports, example: Sizes | None = None) -> File | None:
    """What `torch.onnx.export` writes of the module itself, as users call it; None where it raises or could not be run.

    It traces with other settings than torch.export.export, and takes up what that suggests: its file is another one. Raises
    `Narrowed` where declared sizes are numbers in it, and `Unaffordable`.
    """
    if not can_be_run(runs.module):
        return None
    try:
        program, found = exports.by_exporter(*runs.inputs(example or {}), spec)
    except (Narrowed, Unaffordable):
        raise
    except Exception:  # it refuses the declaration, or cannot write the module
        return None
    return replace(File.of(found), program=program)


def _running(file: File, runs: Runs, example: Sizes) -> Unguarded:
    plain = Unguarded(file.program, runs, example=example)
    if file.proto is None:
        return plain
    in_runtime = InRuntime(file.proto, input_names(file.decomposed), runs, example)
    return Unguarded(file.decomposed, runs, plain, in_runtime, example)
