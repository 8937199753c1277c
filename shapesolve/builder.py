"""`BasicShapeBuilder`: the interface of yobx's shape builder, over one analysis.

https://sdpython.github.io/doc/yet-another-onnx-builder/
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .analysis import Analysis, analyze
from .answers.runtime import compare
from .change.annotate.annotate import annotated
from .expr import Dim, Shape
from .lower.types import Known, Tensor
from .model import Node
from .model.devices import devices
from .report.text import render_text

_LOG = logging.getLogger(__name__)

#: a size as an integer or an expression
Size = int | str


class BasicShapeBuilder:
    """Shapes of a model as tuples of integers and expressions, for code written against yobx.

    >>> builder = BasicShapeBuilder()
    >>> builder.run_model(model)                     # doctest: +SKIP
    >>> builder.get_shape("Z")                       # doctest: +SKIP
    ('batch', 'seq1+seq2')

    `run_model` reads these environment variables: `ONNXSTOPSHAPE`, `ONNXSTOPTYPE` (a tensor: raise `RuntimeError` as
    soon as its shape or type is known), `ONNXDYNDIM` (a dim name: log the tensors that have it), `ONNXCST` (log
    tensors with known elements), `ONNXSTOPVALUESHAPE` (a tensor: log its elements), and `ONNXSHAPECOMPUTE` (raise
    `RuntimeError` if a shape stays unknown).
    """

    def __init__(self) -> None:
        self._analysis: Analysis | None = None
        self._shapes: dict[str, tuple[Size, ...]] = {}
        self._types: dict[str, int] = {}
        self._ranks: dict[str, int] = {}
        self._devices: dict[str, int] = {}

    @property
    def analysis(self) -> Analysis:
        """The analysis of the model. Raises `RuntimeError` before `run_model`."""
        if self._analysis is None:
            raise RuntimeError("call run_model first")
        return self._analysis

    @property
    def input_names(self) -> list[str]:
        """Names of the model's inputs."""
        return list(self.analysis.inputs)

    @property
    def output_names(self) -> list[str]:
        """Names of the model's outputs."""
        return [name for name, _ in self.analysis.model.graph.outputs]

    def run_model(self, model: Any, functions: Any = None, exc: bool = False) -> None:
        """Infer all shapes of a model.

        Args:
            model: A path, bytes, or an `onnx.ModelProto`.
            functions: Ignored; functions of the model are always read.
            exc: Raise an error if the model cannot run.

        Raises:
            RuntimeError: If `exc` is set and no input sizes run, or if an environment variable asks for it.
        """
        del functions
        self._analysis = analysis = analyze(model, observe=_observer())
        self._devices |= {name: found[0] for name, found in devices(analysis.model.proto).items() if found}
        if exc and not analysis.ok:
            raise RuntimeError("; ".join(c.message for c in analysis.conflicts))
        missing = [n for n in analysis.dtypes if n not in analysis.shapes]
        if os.environ.get("ONNXSHAPECOMPUTE") and missing:
            raise RuntimeError(f"unknown shape of {', '.join(missing[:8])}")

    # ------------------------------------------------------------------ shapes, types, ranks, devices

    def has_shape(self, name: str) -> bool:
        """Return True if the shape of a tensor is known."""
        return name in self._shapes or (self._analysis is not None and name in self._analysis.shapes)

    def get_shape(self, name: str) -> tuple[Size, ...]:
        """Return the shape of a tensor. Raises `KeyError` if it is unknown."""
        own = self._shapes.get(name)
        return _sizes(self.analysis.shapes[name]) if own is None else own

    def set_shape(self, name: str, shape: Sequence[Size], **_: Any) -> None:
        """Set the shape of a tensor. Raises `ValueError` if a different rank is known."""
        if self.has_rank(name) and self.get_rank(name) != len(shape):
            raise ValueError(f"{name} must have rank {self.get_rank(name)}, got {tuple(shape)}")
        self._shapes[name] = tuple(shape)

    def has_type(self, name: str) -> bool:
        """Return True if the element type of a tensor is known."""
        return name in self._types or (self._analysis is not None and bool(self._analysis.dtypes.get(name)))

    def get_type(self, name: str) -> int:
        """Return the element type of a tensor (`onnx.TensorProto`). Raises `KeyError` if it is unknown."""
        return self._types[name] if name in self._types else self.analysis.dtypes[name]

    def set_type(self, name: str, itype: int) -> None:
        """Set the element type of a tensor."""
        self._types[name] = itype

    def has_rank(self, name: str) -> bool:
        """Return True if the rank of a tensor is known."""
        return name in self._ranks or self.has_shape(name)

    def get_rank(self, name: str) -> int:
        """Return the rank of a tensor. Raises `KeyError` if it is unknown."""
        return self._ranks[name] if name in self._ranks else len(self.get_shape(name))

    def set_rank(self, name: str, rank: int) -> None:
        """Set the rank of a tensor."""
        self._ranks[name] = rank

    def has_device(self, name: str) -> bool:
        """Return True if the device of a tensor is known."""
        return name in self._devices

    def get_device(self, name: str) -> int:
        """Return the device of a tensor. Raises `KeyError` if it is unknown."""
        return self._devices[name]

    def set_device(self, name: str, device: int) -> None:
        """Set the device of a tensor."""
        self._devices[name] = device

    # ------------------------------------------------------------------ results

    def evaluate_shape(self, name: str, context: Mapping[str, int]) -> tuple[int | None, ...]:
        """Return the shape of a tensor at these sizes, with None for a dim that they do not determine."""
        return tuple(Dim(size).evaluate(context) for size in self.get_shape(name))

    def compare_with_true_inputs(
        self,
        inputs: Mapping[str, Any] | Sequence[Any],
        outputs: Mapping[str, Any] | Sequence[Any],
        exc: bool = True,
    ) -> dict[str, tuple[tuple[str, int, int | None], ...]]:
        """Compare the inferred output shapes with a run's.

        Returns:
            By output, `(expression, size in the run, inferred size)` for each dim.

        Raises:
            ValueError: If `exc` is set and a size differs.
        """
        given = inputs if isinstance(inputs, Mapping) else dict(zip(self.input_names, inputs))
        rows = compare(self.analysis._solved, given, outputs)
        wrong = [n for n, dims in rows.items() if any(true != inferred for _, true, inferred in dims)]
        if exc and wrong:
            raise ValueError(
                f"inferred sizes differ from the run: {', '.join(f'{n} {rows[n]}' for n in wrong)}"
            )
        return rows

    def update_shapes(self, model: Any) -> Any:
        """Write all inferred shapes into a model; return it."""
        made = annotated(self.analysis)
        del model.graph.value_info[:]
        model.graph.value_info.extend(made.graph.value_info)
        return model

    def get_registered_constraints(self) -> dict[str, set[Size]]:
        """Return what each dim name of the inputs must be equal to, as numbers and expressions."""
        found: dict[str, set[Size]] = {}
        for term in self.analysis.contract:
            solved = term.cond.solved() if term.cond.kind == "==" else None
            if solved is not None:
                found.setdefault(solved[0], set()).update(_sizes((solved[1],)))
        for name, size in self.analysis.bindings.items():
            found.setdefault(name, set()).add(size)
        return found

    def get_debug_msg(self) -> str:
        """Return the text report of the analysis."""
        return render_text(self.analysis)


def _sizes(dims: Shape | Sequence[Dim]) -> tuple[Size, ...]:
    return tuple(str(d).replace(" ", "") if d.terms else d.const for d in dims)


def _observer() -> Callable[[Node, Mapping[str, Known]], None] | None:
    """Return the callback that implements yobx's environment variables, or None if none is set."""
    shape, itype, dim, value = (
        os.environ.get(f"ONNX{name}", "") for name in ("STOPSHAPE", "STOPTYPE", "DYNDIM", "STOPVALUESHAPE")
    )
    constants = os.environ.get("ONNXCST", "0") not in ("", "0")
    if not (shape or itype or dim or value or constants):
        return None

    def observe(node: Node, outputs: Mapping[str, Known]) -> None:
        for name, known in outputs.items():
            if not isinstance(known, Tensor):
                continue
            if name == shape and known.shape is not None:
                raise RuntimeError(f"{name} has shape {known.shape}, from {node.op_type} {node.label}")
            if name == itype and known.dtype:
                raise RuntimeError(f"{name} has element type {known.dtype}, from {node.op_type} {node.label}")
            if dim and known.shape is not None and any(dim in d.free for d in known.shape):
                _LOG.warning("%s: %s %s", dim, name, known.shape)
            if known.value is not None and (constants or name == value):
                _LOG.warning("%s holds %s", name, known.value)

    return observe
