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
    """Run the model with onnxruntime and compare all shapes.

    It's run twice: with the runtime's default options, as users run it, and without optimizations, with every tensor of the
    main graph as an output.

    Raises `RuntimeError` when the runtime cannot run the model on these inputs.
    """
    names = [n for node in analysis.model.graph.nodes for n in node.outputs if n]
    model = _whole(analysis)
    given = model.SerializeToString() if analysis.model.path is None else str(analysis.model.path)
    there = {o.name for o in model.graph.output}
    model.graph.output.extend(onnx.ValueInfoProto(name=n) for n in dict.fromkeys(names) if n not in there)
    true = _sizes(Session(model), inputs)
    try:
        true |= _sizes(Session(given, optimized=True), inputs)
    except RuntimeError as error:
        raise RuntimeError(f"{error} (it runs without onnxruntime's optimizations)") from error
    return _compared(analysis, analysis.bind_inputs({k: _size(v) for k, v in inputs.items()}), true)


def _whole(analysis: Solved) -> onnx.ModelProto:
    """Return a copy of the model, with its weights."""
    if analysis.model.path is not None:
        return onnx.load(str(analysis.model.path))
    model = onnx.ModelProto()
    model.CopyFrom(analysis.model.proto)
    return model


def _sizes(session: Session, inputs: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    results = zip(session.outputs, session.run(inputs), strict=True)
    return {n: _size(r) for n, r in results if hasattr(r, "shape")}


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
