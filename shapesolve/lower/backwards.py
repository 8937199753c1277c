# compiled: see CONTRIBUTING.md
"""Ranks of inputs that are declared without one, from what uses them: backwards through nodes that keep the rank."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..expr import Shape, symbol
from ..model import Node
from .types import Known, Tensor
from .walk import Walk


def _words(text: str) -> list[str]:
    return text.split()


#: the first output has the rank of the first input
_KEEP_RANK = frozenset(
    _words(
        "Abs Acos Acosh Asin Asinh Atan Atanh BatchNormalization BitwiseNot Cast CastLike Ceil Celu Clip "
        "Cos Cosh CumSum DequantizeLinear Dropout DynamicQuantizeLinear Elu Erf Exp Floor Gelu "
        "GlobalAveragePool GlobalLpPool GlobalMaxPool GroupNormalization HardSigmoid HardSwish Hardmax "
        "Identity InstanceNormalization IsInf IsNaN LRN LayerNormalization LeakyRelu Log LogSoftmax "
        "LpNormalization MeanVarianceNormalization Mish Neg Not PRelu Pad QuantizeLinear RMSNormalization "
        "Reciprocal Relu Resize ReverseSequence Round Selu Shrink Sigmoid Sign Sin Sinh Slice Softmax "
        "Softplus Softsign Split Sqrt Tan Tanh ThresholdedRelu Tile Transpose Trilu Upsample"
    )
)
#: all inputs have the rank of the output
_ALL_KEEP_RANK = frozenset(("Concat",))
#: the output has the largest of the inputs' ranks
_BROADCAST = frozenset(
    _words(
        "Add And BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean "
        "Min Mod Mul Or Pow Sub Sum Where Xor"
    )
)


def ranks_of_inputs(walk: Walk, given: Mapping[str, Known]) -> dict[str, Shape]:
    """Shapes, of new symbols, for the main graph's inputs whose rank only their users tell."""
    missing = [name for name, known in given.items() if isinstance(known, Tensor) and known.shape is None]
    if not missing:
        return {}
    ranks = {
        n: len(k.shape) for n, k in walk.tensors.items() if isinstance(k, Tensor) and k.shape is not None
    }
    ranks.update((name, len(shape)) for name, shape in walk.hints.items())
    for node in reversed(walk.model.graph.nodes):
        if node.domain == "" and any(n and n not in ranks for n in node.inputs):
            ranks.update(_ranks_before(node, ranks))
    found = ((name, ranks[name]) for name in missing if name in ranks)
    return {name: Shape(symbol(f"{name}_d{i}") for i in range(rank)) for name, rank in found}


def _ranks_before(node: Node, ranks: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Ranks of a node's inputs that follow from that of its first output."""
    rank = ranks.get(node.outputs[0]) if node.outputs else None
    if rank is None:
        return
    if node.op_type in _KEEP_RANK:
        yield from ((n, rank) for n in node.inputs[:1] if n)
    elif node.op_type in _ALL_KEEP_RANK:
        yield from ((n, rank) for n in node.inputs if n)
    elif node.op_type in _BROADCAST:
        unknown = [n for n in dict.fromkeys(node.inputs) if n and n not in ranks]
        if len(unknown) == 1 and all(ranks[n] < rank for n in node.inputs if n in ranks):
            yield unknown[0], rank
