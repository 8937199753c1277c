"""Compares predicted shapes with a run in onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import onnx

from ..runs import Session

if TYPE_CHECKING:
    from .solved import Solved


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A tensor whose shape in the run differs from the prediction."""

    tensor: str
    predicted: str
    computed: tuple[int | None, ...]
    true: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Verification:
    """Result of a run: the number of compared tensors, those that agree fully, and those that disagree."""

    bindings: Mapping[str, int]
    compared: int
    open: tuple[str, ...]
    mismatches: tuple[Mismatch, ...]

    @property
    def ok(self) -> bool:
        """True if every predicted size agrees."""
        return not self.mismatches

    def __bool__(self) -> bool:
        return self.ok


def verify(analysis: Solved, inputs: Mapping[str, Any]) -> Verification:
    """Run the model with onnxruntime and compares all shapes. Every tensor of the main graph becomes an output.

    Raises `RuntimeError` when the runtime cannot run the model on these inputs.
    """
    names = [n for node in analysis.model.graph.nodes for n in node.outputs if n]
    session = Session(_exposed(analysis, names))
    results = zip(session.outputs, session.run(inputs), strict=True)
    bindings = analysis.bind_inputs({k: _size(v) for k, v in inputs.items()})
    return _compared(analysis, bindings, {n: _size(r) for n, r in results if hasattr(r, "shape")})


def _exposed(analysis: Solved, names: Sequence[str]) -> onnx.ModelProto:
    proto = analysis.model.proto
    model = onnx.ModelProto()
    if analysis.model.path is not None:
        model = onnx.load(str(analysis.model.path))
    else:
        model.CopyFrom(proto)
    there = {o.name for o in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in dict.fromkeys(names) if n not in there)
    return model


def _compared(
    analysis: Solved, bindings: Mapping[str, int], true: Mapping[str, tuple[int, ...]]
) -> Verification:
    bad, unknown = [], []
    for name, sizes in true.items():
        shape = analysis.shapes.get(name)
        if shape is None:
            unknown.append(name)
            continue
        computed = tuple(d.evaluate(bindings) for d in shape)
        if len(computed) != len(sizes) or any(c is not None and c != t for c, t in zip(computed, sizes)):
            bad.append(Mismatch(name, str(shape), computed, sizes))
        elif None in computed:
            unknown.append(name)
    return Verification(dict(bindings), len(true), tuple(unknown), tuple(bad))


def _size(array: Any) -> tuple[int, ...]:
    return tuple(int(d) for d in array.shape)


def compare(
    analysis: Solved, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | Sequence[Any]
) -> dict[str, tuple[tuple[str, int, int | None], ...]]:
    """Rows ``(expression, true size, computed size)`` for each dim of every output. ``()`` if the rank differs or is
    unknown.
    """
    if not isinstance(outputs, Mapping):
        outputs = dict(zip((name for name, _ in analysis.model.graph.outputs), outputs))
    bindings = analysis.bind_inputs({k: _size(v) for k, v in inputs.items()})
    result: dict[str, tuple[tuple[str, int, int | None], ...]] = {}
    for name, array in outputs.items():
        shape, true = analysis.shapes.get(name, ()), _size(array)
        same_rank = name in analysis.shapes and len(shape) == len(true)
        result[name] = (
            tuple((str(d), t, d.evaluate(bindings)) for d, t in zip(shape, true)) if same_rank else ()
        )
    return result
