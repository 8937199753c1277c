"""Annotated models: shapes written back as value_info, with expressions as ``dim_param``.

The original is never modified. Declared names of graph inputs and outputs stay, because consumers match on them; only
unnamed input dims get names. Tensors inside functions are left out: a function body serves many calls.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Literal, get_args

import onnx

from ...analysis import Analysis, analyze
from ...answers.names import upper_bounds
from ...expr import Dim, Shape
from ...expr.printing import dim_param_text
from ...findings.declared import disagreements, stale_dims
from ...lower.standard import newly_rejected
from ...model.saving import with_weights
from ...model.types import read_dim
from ...report.json import contract_data, data_of, envelope
from ...solve.contract.contract import Contract

if TYPE_CHECKING:
    from ...model import Graph

#: policy for a declared shape: keep it, replace it, replace it if it is less specific, or fail on disagreement
Policy = Literal["skip", "override", "refine", "strict"]
#: metadata_props key of the contract, stored as the document that ``shapesolve contract --format json`` prints
CONTRACT_KEY = "shapesolve.contract"
#: metadata_props key of the definitions of generated names, one ``name = expression`` per line
NAMES_KEY = "shapesolve.names"
#: metadata_props key of the largest values of sizes that depend on data, one ``name <= expression`` per line
BOUNDS_KEY = "shapesolve.bounds"


def annotate(model: Any, policy: Policy = "refine", *, contract: bool = False) -> onnx.ModelProto:
    """Return a copy of the model with the inferred shapes.

    Args:
        model: An `Analysis`, or any model that `analyze` accepts.
        policy: Treatment of declared shapes, as for `annotated`.
        contract: Whether to write the contract into the metadata, where `read_contract` finds it: under
            `CONTRACT_KEY`, as the JSON document that ``shapesolve contract --format json`` prints.

    Raises:
        ValueError: If `annotated` does, or if the model exceeds protobuf's size limit.
    """
    analysis = model if isinstance(model, Analysis) else analyze(model)
    return with_weights(annotated(analysis, policy, contract=contract), analysis.model)


#: end of a metadata line whose line breaks are escaped as ``\\n``
_FOLDED = "  # folded"


def annotated(analysis: Analysis, policy: Policy = "refine", *, contract: bool = False) -> onnx.ModelProto:
    """Return a copy with the inferred shapes, for an analyzed model whose weights were not loaded (see `model.saving`).

    `policy` applies to tensors with a declared shape: ``skip`` keeps it; ``override`` replaces it (for outputs, all
    but declared names); ``refine`` replaces the element type and every dim that is missing, less specific (a number
    is more specific than a name), or wrong at some sizes; ``strict`` is ``refine`` that fails on a contradiction.

    Raises:
        ValueError: If the policy is unknown, or, with ``strict``, if a declared shape or type disagrees with the
            inferred one.
    """
    writer, copy = _written(analysis, policy, frozenset())
    if newly_rejected(
        analysis.model, copy
    ):  # for example, because a branch that is never taken has contradictory shapes
        captured = frozenset(name for node in analysis.model.graph.nodes for name in node.captures)
        writer, copy = _written(analysis, policy, captured)
    if newly_rejected(analysis.model, copy):
        writer, copy = _Writer(analysis, policy), onnx.ModelProto()
        copy.CopyFrom(analysis.model.proto)
    if contract:
        _set_metadata(copy, CONTRACT_KEY, envelope("contract", data_of(contract_data(analysis))))
    names = (_folded(f"{name} = {dim}") for dim, name in writer.invented.items())
    _set_metadata(copy, NAMES_KEY, "\n".join(names))
    bounds = upper_bounds(analysis._solved).items()
    _set_metadata(copy, BOUNDS_KEY, "\n".join(_folded(f"{name} <= {d}") for name, of in bounds for d in of))
    return copy


def _written(analysis: Analysis, policy: Policy, hidden: Set[str]) -> tuple[_Writer, onnx.ModelProto]:
    """Return a copy of the model with shapes, except for `hidden` tensors and, if there are any, tensors in subgraphs."""
    writer = _Writer(analysis, policy, hidden)
    copy = onnx.ModelProto()
    copy.CopyFrom(analysis.model.proto)
    writer.write_inputs(copy.graph)
    writer.write(copy.graph, analysis.model.graph, "", outputs=True)
    return writer, copy


def update_shapes(analysis: Analysis, model: onnx.ModelProto) -> None:
    """Write shapes of intermediate tensors into the value_info of `model`; inputs and outputs are unchanged."""
    _Writer(analysis, "override").write(model.graph, analysis.model.graph, "", outputs=False)


def read_contract(model: onnx.ModelProto) -> Contract | None:
    """Return the contract stored in an annotated model (see `annotate`), or None. The model is not analyzed.

    Raises:
        ValueError: If the document cannot be read (see `Contract.from_json`).
    """
    text = _metadata(model, CONTRACT_KEY)
    return Contract.from_json(text) if text else None


def read_names(model: onnx.ModelProto) -> dict[str, str]:
    """Return the expressions of the dim names that annotation generated, as strings."""
    lines = (_unfolded(text) for text in _metadata(model, NAMES_KEY).split("\n") if text)
    return {name: expression for name, _, expression in (line.partition(" = ") for line in lines)}


def _metadata(model: onnx.ModelProto, key: str) -> str:
    return next((p.value for p in model.metadata_props if p.key == key), "")


def _set_metadata(model: onnx.ModelProto, key: str, text: str) -> None:
    kept = [(p.key, p.value) for p in model.metadata_props if p.key != key]
    del model.metadata_props[:]
    for k, v in [*kept, (key, text)] if text else kept:
        model.metadata_props.add(key=k, value=v)


def _folded(line: str) -> str:
    """Escape line breaks and backslashes in a string, so that it fits on one line."""
    return line if line.isprintable() else line.replace("\\", r"\\").replace("\n", r"\n") + _FOLDED


def _unfolded(line: str) -> str:
    if not line.endswith(_FOLDED):
        return line
    return re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], line.removesuffix(_FOLDED))


def _shapes_of(info: onnx.ValueInfoProto) -> onnx.TypeProto.Tensor | None:
    """Return the tensor type of a declaration, creating it if missing; None for sequences, maps, and other types."""
    return info.type.tensor_type if info.type.WhichOneof("value") in (None, "tensor_type") else None


class Merger:
    """Merger of declared types and shapes with inferred ones under a policy (see `annotated`).

    Raises:
        ValueError: If the policy is unknown, or, with ``strict``, if a declaration disagrees with the inferred type
            or shape.
    """

    def __init__(self, analysis: Analysis, policy: Policy) -> None:
        if policy not in get_args(Policy):
            raise ValueError(f"policy must be skip, override, refine, or strict, got {policy!r}")
        wrong = disagreements(analysis._solved) if policy == "strict" else []
        if wrong:
            raise ValueError(wrong[0])
        self.analysis, self.policy = analysis, policy
        self.stale = stale_dims(analysis._solved) if policy == "refine" else frozenset()

    def merge(
        self, tensor: str, declared: int, dims: Sequence[int | str | None] | None, *, is_output: bool
    ) -> tuple[int, Sequence[int | str | Dim | None] | None]:
        """Return the element type and dims to write for a tensor. `declared` 0 and `dims` None mean undeclared."""
        dtype, shape = self.analysis.dtypes.get(tensor, 0), self.analysis._solved.simple_shapes.get(tensor)
        keep = self.policy == "skip"
        written = declared if (keep and declared) or not dtype else dtype
        if shape is None or (keep and dims is not None):
            return written, dims
        if dims is None or len(dims) != len(shape):
            return written, shape
        pairs = enumerate(zip(dims, shape, strict=True))
        return written, [
            new if (tensor, i) in self.stale or self._is_better(new, old, keep_name=is_output) else old
            for i, (old, new) in pairs
        ]

    def _is_better(self, new: Dim, old: int | str | None, *, keep_name: bool) -> bool:
        if isinstance(old, str) and keep_name:
            return False
        return old is None or self.policy == "override" or (not new.terms and old != new.const)


class _Writer(Merger):
    """Writer of shapes into the value_info of a graph and its subgraphs."""

    def __init__(self, analysis: Analysis, policy: Policy, hidden: Set[str] = frozenset()) -> None:
        super().__init__(analysis, policy)
        self.hidden = hidden
        self.invented: dict[Dim, str] = {}
        self.texts: dict[Dim, str] = {}
        self.taken = {n for shape in analysis.shapes.values() for d in shape for n in d.free}
        self.taken.update(_dim_names(analysis.model.proto.graph))

    def write_inputs(self, graph: onnx.GraphProto) -> None:
        """Name the unnamed input dims, so that expressions can use them."""
        if self.policy == "skip":
            return
        for info in graph.input:
            tensor, shape = _shapes_of(info), self.analysis.shapes.get(info.name)
            if tensor is None or shape is None or info.name not in self.analysis.inputs:
                continue
            if not tensor.HasField("shape"):
                self.set_shape(tensor, self.analysis.dtypes.get(info.name, 0), shape)
            elif len(tensor.shape.dim) == len(shape):
                for old, new in zip(tensor.shape.dim, shape):
                    if read_dim(old, info.name) is None:
                        self.set_dim(old, new)

    def write(self, graph: onnx.GraphProto, read: Graph, prefix: str, *, outputs: bool) -> None:
        """Write shapes into a graph and its subgraphs; `read` is the parsed graph, `prefix` its scope."""
        there = {v.name: v for v in graph.value_info}
        fixed = {v.name for v in graph.input} | {t.name for t in graph.initializer}
        ends = {v.name: v for v in graph.output}
        for node in graph.node:
            for name in filter(None, node.output):
                if name in ends:
                    if outputs:
                        self.fill(ends[name], prefix + name, is_output=True)
                elif name not in fixed and name not in self.hidden:
                    self.info(graph, there, name, prefix + name)
        owners = [node for node in read.nodes if node.subgraphs and not self.hidden]
        repeated = {label for label, n in Counter(node.label for node in owners).items() if n > 1}
        for owner in owners:
            if owner.label in repeated or owner.index >= len(graph.node):
                continue  # two scopes have the same name, so the tensor's scope is ambiguous
            inside = dict(owner.subgraphs)
            for attribute in graph.node[owner.index].attribute:
                if attribute.type == onnx.AttributeProto.GRAPH and attribute.name in inside:
                    scope = f"{prefix}{owner.label}/{attribute.name}/"
                    self.write(attribute.g, inside[attribute.name], scope, outputs=outputs)

    def info(
        self, graph: onnx.GraphProto, there: Mapping[str, onnx.ValueInfoProto], name: str, full: str
    ) -> None:
        """Add or merge the declaration of an intermediate tensor."""
        dtype, shape = self.analysis.dtypes.get(full, 0), self.analysis._solved.simple_shapes.get(full)
        if name in there:
            self.fill(there[name], full, is_output=False)
        elif dtype and shape is not None:
            self.set_shape(graph.value_info.add(name=name).type.tensor_type, dtype, shape)

    def fill(self, info: onnx.ValueInfoProto, full: str, *, is_output: bool) -> None:
        """Merge an existing declaration with the inferred type."""
        tensor = _shapes_of(info)
        if tensor is None or not self.analysis.dtypes.get(full, 0):
            return
        dims: list[int | str | None] | None = None
        if tensor.HasField("shape"):
            dims = [read_dim(d, info.name) for d in tensor.shape.dim]
        dtype, merged = self.merge(full, tensor.elem_type, dims, is_output=is_output)
        tensor.elem_type = dtype
        if merged is None:
            return
        if dims is None or len(dims) != len(merged):
            del tensor.shape.dim[:]
            tensor.shape.SetInParent()
            tensor.shape.dim.extend([onnx.TensorShapeProto.Dimension() for _ in merged])
        for old, new in zip(tensor.shape.dim, merged, strict=True):
            if isinstance(new, Dim):
                self.set_dim(old, new)

    def set_shape(self, tensor: onnx.TypeProto.Tensor, dtype: int, shape: Shape) -> None:
        """Write type and shape into an empty declaration."""
        if dtype:
            tensor.elem_type = dtype
        del tensor.shape.dim[:]
        tensor.shape.SetInParent()
        for d in shape:
            self.set_dim(tensor.shape.dim.add(), d)

    def set_dim(self, proto: onnx.TensorShapeProto.Dimension, d: Dim) -> None:
        """Write a dim as a number or a string."""
        if not d.terms:
            proto.dim_value = d.const
        else:
            proto.dim_param = self.text(d)

    def text(self, d: Dim) -> str:
        """Return the string of a dim, or a generated name if the `dim_param` grammar cannot express it."""
        if d not in self.texts:
            self.texts[d] = dim_param_text(d) or self._invent(d)
        return self.texts[d]

    def _invent(self, d: Dim) -> str:
        number = len(self.invented)
        while f"_e{number}" in self.taken:
            number += 1
        self.taken.add(f"_e{number}")
        self.invented[d] = f"_e{number}"
        return f"_e{number}"


def _dim_names(graph: onnx.GraphProto) -> Iterable[str]:
    for info in (*graph.input, *graph.output, *graph.value_info):
        yield from (d.dim_param for d in info.type.tensor_type.shape.dim if d.dim_param)
