"""Operators of onnxruntime (``com.microsoft``) that run a whole text generation loop.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.BeamSearch
"""

from __future__ import annotations

from onnx import TensorProto

from ...expr import Dim, constant
from ...lower.op import Op
from ...lower.types import Known
from .contrib import ms_function


def batch_of(op: Op) -> Dim:
    """Return the batch size: axis 0 of the prompt."""
    prompt = op.shape(0)
    return prompt[0] if prompt else op.fresh("the batch size")


def number(op: Op, i: int, what: str) -> Dim:
    """Return the value of scalar input `i`, or a new symbol if it is unknown."""
    value = op.scalar(i)
    return value if value is not None else op.fresh(what)


def vocabulary(op: Op) -> Dim:
    """Return the size of the vocabulary, from the attribute."""
    size = op.int_attr("vocab_size", 0)
    return constant(size) if size > 0 else op.fresh("the size of the vocabulary")


@ms_function("GreedySearch", data=(1,))
def greedy_search(op: Op) -> Known:
    return op.out([batch_of(op), number(op, 1, "the maximum length")])


@ms_function("Sampling", types=("int32", 3), data=(1,))
def sampling(op: Op) -> list[Known | None]:
    batch = batch_of(op)
    logits = op.out([batch, vocabulary(op)]) if op.wants(1) else None
    return [op.out([batch, number(op, 1, "the maximum length")]), logits]


@ms_function(
    "BeamSearch",
    "WhisperBeamSearch",
    types=("int32",),
    data=(1, 3, 4),
)
def beam_search(op: Op) -> list[Known | None]:
    """Lower BeamSearch: sequences, their scores, and token scores of each step."""
    kind = op.dtype(5) or op.dtype(6) or TensorProto.FLOAT
    batch, beams = batch_of(op), number(op, 3, "the number of beams")
    returned, longest = number(op, 4, "the number of returned sequences"), number(op, 1, "the maximum length")
    steps = None
    if op.wants(2):
        steps = op.out([op.fresh("the number of steps"), batch, beams, vocabulary(op)], kind)
    speechless = op.out([batch], kind) if op.wants(4) else None
    return [
        op.out([batch, returned, longest]),
        op.out([batch, returned], kind),
        steps,
        op.out(None, TensorProto.FLOAT),
        speechless,
    ]
