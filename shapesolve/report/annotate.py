"""Annotated models: shapes written back as value_info, with expressions as ``dim_param``.

The original is never touched. Names that the author declared on graph inputs and outputs stay, since consumers match on them.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import onnx

from ..dims import Dim, Shape
from ..dims.printing import dim_param_text

if TYPE_CHECKING:
    from ..analysis import Analysis

#: what to do where a shape is declared already: keep it, replace it, replace what is less specific, or fail on disagreement
Policy = Literal["skip", "override", "refine", "strict"]
#: metadata_props key that holds the contract, one condition per line
CONTRACT_KEY = "shapesolve.contract"


def annotate(analysis: Analysis, policy: Policy = "refine") -> onnx.ModelProto:
    """A copy of the model with the inferred shapes in it, and its contract in the metadata (key `CONTRACT_KEY`).

    Raises:
        ValueError: an unknown policy, or (``strict``) a declared shape that disagrees with the inferred one.
    """
    if policy not in get_args(Policy):
        raise ValueError(f"policy is skip, override, refine or strict, not {policy!r}")
    if policy == "strict":
        wrong = [n for n in analysis.walk.notes if n.kind == "declared"]
        if wrong:
            raise ValueError(wrong[0].message)
    copy = onnx.ModelProto()
    copy.CopyFrom(analysis.model.proto)
    _Writer(analysis, policy).write(copy.graph, outputs=True)
    _set_contract(analysis, copy)
    return copy


def update_shapes(analysis: Analysis, model: onnx.ModelProto) -> None:
    """Write the shapes of intermediate tensors into the value_info of `model`; inputs and outputs are left as they are."""
    _Writer(analysis, "override").write(model.graph, outputs=False)


def save(analysis: Analysis, path: str | Path, policy: Policy = "refine") -> None:
    """Write the annotated model to `path`, whole or not at all."""
    write_atomically(Path(path), annotate(analysis, policy).SerializeToString())


def write_atomically(path: Path, data: bytes) -> None:
    """Write to a temporary file beside `path`, then rename it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def read_contract(model: onnx.ModelProto) -> list[str]:
    """The contract that an annotated model carries, one condition per item."""
    found = next((p.value for p in model.metadata_props if p.key == CONTRACT_KEY), "")
    return [text for text in found.splitlines() if text]


def _set_contract(analysis: Analysis, model: onnx.ModelProto) -> None:
    if analysis.conflicts:
        return
    kept = [p for p in model.metadata_props if p.key != CONTRACT_KEY]
    text = "\n".join(t.text for t in analysis.contract)
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    if text:
        model.metadata_props.add(key=CONTRACT_KEY, value=text)


class _Writer:
    """Writes shapes into one graph's value_info."""

    def __init__(self, analysis: Analysis, policy: Policy) -> None:
        self.analysis, self.policy = analysis, policy
        self.names: dict[Dim, str] = {}

    def write(self, graph: onnx.GraphProto, *, outputs: bool) -> None:
        there = {v.name: v for v in graph.value_info}
        fixed = {v.name for v in graph.input} | {t.name for t in graph.initializer}
        ends = {v.name: v for v in graph.output}
        for node in graph.node:
            for name in filter(None, node.output):
                if name in fixed:
                    continue
                if name in ends:
                    if outputs:
                        self.fill(ends[name], is_output=True)
                    continue
                self.info(graph, there, name)

    def info(self, graph: onnx.GraphProto, there: dict[str, onnx.ValueInfoProto], name: str) -> None:
        dtype, shape = self.analysis.dtypes.get(name, 0), self.analysis.shapes.get(name)
        if name in there:
            self.fill(there[name], is_output=False)
        elif dtype and shape is not None:
            info = graph.value_info.add(name=name)
            self.set_type(info, dtype, shape)

    def fill(self, info: onnx.ValueInfoProto, *, is_output: bool) -> None:
        name = info.name
        dtype, shape = self.analysis.dtypes.get(name, 0), self.analysis.shapes.get(name)
        if not dtype or shape is None or (info.type.WhichOneof("value") not in (None, "tensor_type")):
            return
        tensor = info.type.tensor_type
        if not tensor.HasField("shape") or len(tensor.shape.dim) != len(shape):
            if tensor.HasField("shape") and self.policy in ("skip", "strict"):
                return
            self.set_type(info, dtype, shape)
            return
        for old, new in zip(tensor.shape.dim, shape):
            self.merge(old, new, keep_name=is_output)

    def merge(self, old: onnx.TensorShapeProto.Dimension, new: Dim, *, keep_name: bool) -> None:
        """One declared dim against the inferred one, under the policy."""
        if old.WhichOneof("value") is None:
            self.set_dim(old, new)
        elif self.policy == "override" and not (keep_name and old.HasField("dim_param")):
            self.set_dim(old, new)
        elif self.policy in ("refine", "strict") and old.HasField("dim_param") and not new.terms and not keep_name:
            self.set_dim(old, new)

    def set_type(self, info: onnx.ValueInfoProto, dtype: int, shape: Shape) -> None:
        tensor = info.type.tensor_type
        tensor.elem_type = dtype
        del tensor.shape.dim[:]
        tensor.shape.SetInParent()
        for d in shape:
            self.set_dim(tensor.shape.dim.add(), d)

    def set_dim(self, proto: onnx.TensorShapeProto.Dimension, d: Dim) -> None:
        if not d.terms:
            proto.dim_value = d.const
        else:
            proto.dim_param = self.text(d)

    def text(self, d: Dim) -> str:
        """The expression; a name of its own where the exchange grammar cannot express it."""
        if d not in self.names:
            self.names[d] = dim_param_text(d) or f"_e{len(self.names)}"
        return self.names[d]
