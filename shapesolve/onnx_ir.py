"""Shapes for `onnx_ir` models: a pass, an ``infer_symbolic_shapes`` replacement, and `simplify`.

    import onnx_ir as ir
    from shapesolve.onnx_ir import infer_symbolic_shapes

    model = infer_symbolic_shapes(ir.load("model.onnx"), policy="refine")

The model's values get shapes whose dims are numbers or `onnx_ir.SymbolicDim` expressions over its input dims.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, get_args

import onnx_ir as ir

from .analysis import analyze
from .change.annotate.annotate import Merger, Policy
from .expr import Dim
from .expr.printing import dim_param_text

if TYPE_CHECKING:
    from .analysis import Analysis


def infer_symbolic_shapes(
    model: ir.Model, *, policy: Policy = "refine", warn_on_missing: bool = True, **options: Any
) -> ir.Model:
    """Add inferred shapes and types to `model`, in place, and return it.

    Args:
        model: Model to modify.
        policy: Treatment of existing shapes: ``skip``, ``override``, ``refine`` (a number replaces a name, and either
            replaces a missing dim), or ``strict`` (``refine`` that fails if a declaration contradicts the inferred
            shape).
        warn_on_missing: Whether to warn about operators without a rule.
        options: Options for `shapesolve.analyze`.

    Raises:
        ValueError: If the policy is unknown, or on a contradiction under ``strict``.
        ModelError: If the model cannot be analyzed.
    """
    analysis, _ = _infer(model, policy, options)
    if warn_on_missing:
        for note in analysis._solved.lowered.notes:
            if note.kind == "unknown-op":
                warnings.warn(note.message, stacklevel=2)
    return model


class ShapePass(ir.passes.InPlacePass):  # type: ignore[misc]
    """`infer_symbolic_shapes` as an onnx_ir pass; ``analysis`` is set after a call."""

    def __init__(self, policy: Policy = "refine", **options: Any) -> None:
        super().__init__()
        self.policy, self.options = policy, options
        self.analysis: Analysis | None = None

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Infer the shapes of a model."""
        self.analysis, modified = _infer(model, self.policy, self.options)
        return ir.passes.PassResult(model, modified)


class SimplifyPass(ir.passes.FunctionalPass):  # type: ignore[misc]
    """`shapesolve.simplify` as an onnx_ir pass, to run before fusion passes. Weights are shared with the input model."""

    def __init__(self, keep: Iterable[str] = ()) -> None:
        super().__init__()
        self.keep = tuple(keep)

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Return a simplified copy of a model."""
        from .change.simplify.simplify import simplified
        from .model import read_model

        done = simplified(read_model(ir.to_proto(model)), keep=self.keep)
        changed = ir.from_proto(done.model)
        for name, value in changed.graph.initializers.items():
            original = model.graph.initializers.get(name)
            if original is not None:
                value.const_value = original.const_value
        return ir.passes.PassResult(changed, bool(done.removed))


def _infer(model: ir.Model, policy: Policy, options: dict[str, Any]) -> tuple[Analysis, bool]:
    if policy not in get_args(Policy):
        raise ValueError(f"policy must be skip, override, refine, or strict, got {policy!r}")
    analysis = analyze(model, **options)
    merger = Merger(analysis, policy)
    outputs = {id(v) for v in model.graph.outputs}
    changed = False
    for value, name in _values(model.graph, ""):
        changed |= _fill(value, name, merger, is_output=id(value) in outputs)
    return analysis, changed


def _values(graph: ir.Graph, prefix: str) -> Iterator[tuple[ir.Value, str]]:
    """Return all values of a graph and its subgraphs, with their names in the analysis.

    Graphs of nodes that share a name are left out, because the scope of their values is ambiguous.
    """
    labels = Counter(_label(node) for node in graph)
    for node in graph:
        for value in node.outputs:
            if value.name:
                yield value, prefix + value.name
        label = _label(node)
        if labels[label] > 1:
            continue
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH and not attribute.is_ref():
                yield from _values(attribute.as_graph(), f"{prefix}{label}/{attribute.name}/")


def _label(node: ir.Node) -> str:
    return node.name or f"{node.op_type}({next((v.name for v in node.outputs if v.name), '')})"


def _fill(value: ir.Value, name: str, merger: Merger, *, is_output: bool) -> bool:
    old = value.shape
    declared = None if old is None else [d if isinstance(d, int) else d.value for d in old]
    dtype, dims = merger.merge(name, int(value.dtype or 0), declared, is_output=is_output)
    changed = dtype != int(value.dtype or 0)
    if changed:
        value.dtype = ir.DataType(dtype)
    if dims is None:
        return changed
    new = ir.Shape([_dim(d) if isinstance(d, Dim) else d for d in dims])
    if old is not None and list(old) == list(new):
        return changed
    value.shape = new
    return True


def _dim(d: Dim) -> int | ir.SymbolicDim:
    return d.const if not d.terms else ir.SymbolicDim(dim_param_text(d))
