"""Suggestions carried out before they are told: exported and written as a user would, and run at sizes that they promise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import onnx

from .declared import Declaration
from .exports import Exports
from .filed import InRuntime
from .guards import fixed_axes, input_names
from .pasting import pasted
from .running import Runs
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


def holds_up(
    text: str,
    runs: Runs,
    promised: Iterable[Mapping[str, int]],
    *,
    dynamic: Iterable[str],
    exports: Exports,
) -> bool:
    """True if `torch.onnx.export` takes a declaration to paste, and its file follows the module at sizes that it promises.

    The sizes `dynamic` must stay dynamic in the file, and the module must not fail at `promised` sizes. What takes more
    exports than are made for suggestions counts as no.
    """
    args, kwargs = runs.inputs({})
    try:
        program, found = exports.by_exporter(args, kwargs, pasted(text))
    except Exception:  # refused, narrowed, or not written
        return False
    file = replace(File.of(found), program=program)
    if not file.numbers(runs.declaration).isdisjoint(dynamic):
        return False
    ran = _where_it_runs(runs, promised)
    graph = _running(file, runs)
    return ran is not None and False not in [graph.agrees(sizes) for sizes in ran]


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


def _running(file: File, runs: Runs) -> Unguarded:
    plain = Unguarded(file.program, runs)
    if file.proto is None:
        return plain
    in_runtime = InRuntime(file.proto, input_names(file.decomposed), runs)
    return Unguarded(file.decomposed, runs, plain, in_runtime)
