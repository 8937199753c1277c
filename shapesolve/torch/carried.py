"""Suggestions carried out before they are told: exported and written as a user would, and run at sizes that they promise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import onnx

from .declared import Declaration
from .exporting import Watch, export_module, export_program
from .filed import InRuntime, can_be_run
from .guards import fixed_axes, input_names, input_shapes
from .pasting import pasted
from .running import Runs, Sizes
from .unguarded import Unguarded
from .writing import written

#: sizes at which the file is held against the module
_COMPARED = 8


@dataclass(frozen=True)
class File:
    """A program, and the file that was written of it (`proto`, of the decomposed program); None where none could be written."""

    program: Any
    decomposed: Any = None
    proto: onnx.ModelProto | None = None

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
    strict: bool,
    opset: int | None = None,
    example: Sizes | None = None,
    known: File | None = None,
) -> bool:
    """Does a declaration to paste give a file that follows the module at sizes that it promises?

    torch.export must take it for the example of these sizes and keep the sizes `dynamic`. The module must not fail at
    `promised` sizes. `known` is the file of another declaration: where that could not be written, only the graph is run.
    """
    args, kwargs = runs.inputs(example or {})
    try:
        program = export_program(
            runs.module, args, kwargs, pasted(text), strict=strict, watch=Watch(runs.module)
        )
    except Exception:  # refused
        return False
    file = _written(program, opset, known)
    if file is None or not file.numbers(runs.declaration).isdisjoint(dynamic):
        return False
    ran = _where_it_runs(runs, promised)
    graph = _running(file, runs, example or {})
    if ran is None or False in [graph.agrees(sizes) for sizes in ran]:
        return False
    theirs = by_exporter(runs, pasted(text), opset, example) if file.proto is not None else None
    return theirs is None or False not in theirs.followed(runs, ran, example)


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


def by_exporter(runs: Runs, spec: Any, opset: int | None, example: Sizes | None = None) -> File | None:
    """What `torch.onnx.export` writes of the module itself, as users call it; None where it raises or could not be run.

    It traces with other settings than torch.export.export, and takes up what that suggests: its file is another one.
    """
    if not can_be_run(runs.module):
        return None
    try:
        found = export_module(runs.module, *runs.inputs(example or {}), spec, opset)
    except Exception:  # it refuses the declaration, or cannot write the module
        return None
    return File(found.exported_program, found.exported_program, found.model_proto)


def _written(program: Any, opset: int | None, known: File | None) -> File | None:
    """The file of a program; None where it could not be written, and another one could."""
    if known is not None and known.proto is None:
        return File(program)
    if known is not None and _alike(program, known.program):
        return known
    try:
        found = written(program, opset)
    except Exception:  # the exporter cannot write it
        return None
    return File(program, found.program, found.proto)


def _running(file: File, runs: Runs, example: Sizes) -> Unguarded:
    plain = Unguarded(file.program, runs, example=example)
    if file.proto is None:
        return plain
    in_runtime = InRuntime(file.proto, input_names(file.decomposed), runs, example)
    return Unguarded(file.decomposed, runs, plain, in_runtime, example)


def _alike(a: Any, b: Any) -> bool:
    """The same calls, with the same axes free: what is written of them is the same file but for the names of sizes."""
    return bool(a.graph_module.code == b.graph_module.code) and _axes(a) == _axes(b)


def _axes(program: Any) -> list[list[str]]:
    """Per input its sizes as text, the symbols numbered in the order in which they come."""
    names: dict[str, str] = {}
    return [
        [t if t.isdigit() else names.setdefault(t, f"s{len(names)}") for t in map(str, shape or ())]
        for shape in input_shapes(program)
        if all(str(size).isalnum() for size in shape or ())
    ]
