"""`simplify`: replaces computed tensors by constants and removes nodes if that is proved right for all accepted sizes.

One sweep visits the nodes in order. If a node's output is known, the node is removed and its consumers read the known tensor,
so each rule sees the results of earlier ones. Sweeps are repeated until one changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...analysis import Analysis, analyze
from ...arguments import checked
from ...collection import CollectionPaused
from ...expr import Dim, Shape, constant
from ...expr.nearest import like_pattern
from ...expr.printing import dim_param_text
from ...lower.standard import newly_rejected
from ...model import Model, read_model
from ...model.saving import with_weights
from ...model.types import read_dim
from ..draft import Draft, DraftNode
from ..writing import write
from .sweep import Sweeps, names_of

if TYPE_CHECKING:
    import onnx

_UNREAD = "its output has no consumers left"


@dataclass(frozen=True, slots=True)
class Removed:
    """A node that the simplified model lacks, with the reason.

    Attributes:
        node: its display name.
        op_type: its operator.
        reason: why it can be removed.
    """

    node: str
    op_type: str
    reason: str

    def __str__(self) -> str:
        return f"{self.op_type} {self.node}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Simplified:
    """A simplified model, with the removed nodes.

    Attributes:
        model: The simplified model.
        removed: Nodes of the original that it lacks.
        before: Number of nodes in the original, including subgraphs and functions, but not Constant nodes.
        after: Number of nodes in the simplified model, counted in the same way.
    """

    model: onnx.ModelProto
    removed: tuple[Removed, ...]
    before: int
    after: int


@checked
def simplify(model: Any, *, keep: Iterable[str] = ()) -> onnx.ModelProto:
    """Return a simplified copy: nodes are folded or removed if that is proved right for all accepted sizes.

    It computes the same outputs, bit for bit, at every such size, including 0 and 1, and has the same interface. Weights
    are not read, and external data stays in its files. Run it *before* optimizers that fuse nodes: without shape
    arithmetic, they recognize more patterns. A model that accepts no sizes is returned unchanged.

    Args:
        model: Model, as for `analyze`. It is not changed.
        keep: Patterns (``*`` and ``?``) of node names, operators, or output tensors; matching nodes are kept.

    Raises:
        ModelError: If the model cannot be read.
        ValueError: If a pattern matches nothing.
    """
    with CollectionPaused():
        read = read_model(model)
        return with_weights(simplified(read, keep=keep).model, read)


def simplified(read: Model, *, keep: Iterable[str] = ()) -> Simplified:
    """`simplify` with weights left in the original proto (see `model.saving`), and the removed nodes."""
    return simplified_draft(read, keep=keep)[0]


def simplified_draft(
    read: Model, *, keep: Iterable[str] = (), bind: Mapping[str, int] | None = None
) -> tuple[Simplified, Analysis]:
    """The simplified model at these sizes, and the analysis that it rests on."""
    analysis = analyze(_believable(read), bind=bind, broadcast="strict")
    draft = Draft(read)
    nodes = _nodes(draft)
    keep = tuple(keep)
    _check(keep, nodes)
    reasons: dict[int, str] = {}
    doubtful = any(entry.role == "assumption" for entry in analysis._solved.lowered.log)
    if not analysis._solved.stuck and not doubtful:  # from a contradiction everything follows
        sweeps = Sweeps(analysis, draft, keep)
        sweeps.run()
        reasons = sweeps.reasons
    left = _nodes(draft)
    there = {id(node.origin) for node in left}
    removed = tuple(
        [
            Removed(node.label, node.op_type, reasons.get(id(node.origin), _UNREAD))
            for node in nodes
            if id(node.origin) not in there
        ]
    )
    proto = write(draft)
    for info in (*proto.graph.input, *proto.graph.output):
        _name_dims(info, analysis.shapes.get(info.name), frozenset(analysis.symbols))
    kept = [info for info in proto.graph.value_info if _holds(info, analysis)]
    del proto.graph.value_info[:]
    proto.graph.value_info.extend(kept)
    if newly_rejected(read, proto):  # folded constants may contradict a branch that is never taken
        whole = type(proto)()
        whole.CopyFrom(read.proto)
        return Simplified(whole, (), _count(nodes), _count(nodes)), analysis
    return Simplified(proto, removed, _count(nodes), _count(left)), analysis


def _name_dims(info: onnx.ValueInfoProto, shape: Shape | None, symbols: frozenset[str]) -> None:
    """Declare the sizes of dims that have neither a size nor a name, by the names of input dims that reports print."""
    declared = info.type.tensor_type if info.type.WhichOneof("value") == "tensor_type" else None
    if shape is None or declared is None or len(declared.shape.dim) != len(shape):
        return
    for dim, size in zip(declared.shape.dim, shape, strict=True):
        if read_dim(dim, info.name) is None and size.free <= symbols:
            write_dim(dim, size)


def write_dim(dim: onnx.TensorShapeProto.Dimension, size: Dim) -> None:
    """Declare a size by its number or its expression; one that has no such text is left as it is."""
    if not size.terms:
        dim.dim_value = size.const
    elif (text := dim_param_text(size)) is not None:
        dim.dim_param = text


def _holds(info: onnx.ValueInfoProto, analysis: Analysis) -> bool:
    """Return False if a tensor's declared type or shape is wrong, or right only for some accepted sizes.

    onnxruntime relies on declared shapes when tensors share memory, and onnx's checker rejects contradictory files.
    """
    shape, kind = analysis.shapes.get(info.name), analysis.dtypes.get(info.name, 0)
    declared = info.type.tensor_type
    if kind and declared.elem_type not in (0, kind):
        return False
    if shape is None or not declared.HasField("shape"):
        return True
    symbols = analysis.symbols
    return len(declared.shape.dim) == len(shape) and all(
        d is constant(one.dim_value) if one.HasField("dim_value")
        else one.dim_param not in symbols or d is symbols[one.dim_param]
        for one, d in zip(declared.shape.dim, shape, strict=True)
    )  # fmt: skip


def _check(keep: Iterable[str], nodes: Iterable[DraftNode]) -> None:
    if not keep:
        return
    names = dict.fromkeys(name for node in nodes for name in names_of(node))
    for pattern in keep:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ValueError(
                f"keep: no node name, operator, or output matches {pattern!r}{like_pattern(pattern, names)}"
            )


def _believable(read: Model) -> Model:
    """The model without declared shapes of computed tensors and without default values of inputs."""
    graph = read.graph
    stored = {name: stored for name, stored in graph.initializers.items() if name not in graph.overridable}
    believed = replace(
        graph,
        initializers=MappingProxyType(stored),
        value_info=MappingProxyType({}),
        outputs=tuple([(name, None) for name, _ in graph.outputs]),
    )
    return replace(read, graph=believed)


def _nodes(draft: Draft) -> list[DraftNode]:
    bodies = (draft.graph, *draft.functions.values())
    return [node for body in bodies for graph in body.graphs() for node in graph.nodes]


def _count(nodes: Iterable[DraftNode]) -> int:
    return sum(not node.is_standard("Constant") for node in nodes)
