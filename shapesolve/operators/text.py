"""Operators on strings."""

from __future__ import annotations

from ..expr import Shape, any_of, constant, eq, ge
from ..lower.op import InvalidNode, Op
from ..lower.registry import lower, signature
from ..lower.types import Known

# https://onnx.ai/onnx/operators/onnx__StringConcat.html
signature("StringConcat", "~S, ~S -> ~S", axes="=")
# https://onnx.ai/onnx/operators/onnx__RegexFullMatch.html
signature("RegexFullMatch", "*S -> *S", axes="=")


# https://onnx.ai/onnx/operators/onnx__StringSplit.html
@lower("StringSplit")
def string_split(op: Op) -> list[Known]:
    """Lower StringSplit: the last axis is the largest number of parts of any string."""
    shape = op.shape(0)
    if shape is None:
        return [op.out(None), op.out(None)]
    most = op.int_attr("maxsplit", -1)
    parts = op.fresh(
        f"the largest number of parts of a string in {op.name_of(0)}", hi=most + 1 if most >= 0 else None
    )
    op.define(any_of((eq(parts, 0), ge(shape.numel, 1))), "no strings have no parts")
    return [op.out([*shape, parts]), op.out(shape)]


# https://onnx.ai/onnx/operators/onnx__StringNormalizer.html
@lower("StringNormalizer", choices={"case_change_action": ("LOWER", "UPPER", "NONE")})
def string_normalizer(op: Op) -> Known:
    """Lower StringNormalizer: ``[C]`` or ``[1, C]``, of at most as many strings."""
    shape = op.shape(0)
    if shape is None:
        return op.out(None)
    if not 1 <= len(shape) <= 2:
        raise InvalidNode(f"input {op.name_of(0)} must have shape [C] or [1, C], got {shape}")
    if len(shape) == 2 and shape[0].terms and op.as_onnxruntime("sizes-at-load"):
        raise InvalidNode(f"axis 0 of {op.name_of(0)} must be 1, got {shape}")
    if len(shape) == 2:
        op.require(eq(shape[0], 1), "a batch of strings must be [1, C]", (0, 0))
    words = shape[-1]
    op.require(ge(words, 1), "expected at least one string", (0, len(shape) - 1))
    if not op.attr("stopwords"):
        return op.out(shape)
    left = op.fresh(f"the number of strings of {op.name_of(0)} that are not stop words", lo=1, hi=words)
    return op.out([*shape[:-1], left])


# https://onnx.ai/onnx/operators/onnx__TfIdfVectorizer.html
@lower("TfIdfVectorizer")
def tf_idf_vectorizer(op: Op) -> Known:
    shape = op.shape(0)
    columns = constant(max(op.ints_attr("ngram_indexes") or (-1,)) + 1)
    if shape is None:
        return op.out(None)
    if not 1 <= len(shape) <= 2:
        raise InvalidNode(f"input {op.name_of(0)} must have shape [C] or [N, C], got {shape}")
    if len(shape) == 2:
        op.require(ge(shape[0], 1), "a batch must not be empty", (0, 0))
    return op.out(Shape([*shape[:-1], columns]))
