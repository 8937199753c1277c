"""Operators of onnxruntime (``com.microsoft``) on packed weights, and parts of a mixture of experts.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulPacked

The number of bytes per packed row depends on the format; it is checked if onnxruntime has a CPU kernel.
"""

from __future__ import annotations

from onnx import TensorProto

from ...expr import ONE, Cond, Dim, Shape, all_of, constant, eq, ge, le
from ...lower.op import InvalidNode, MalformedNode, Op
from ...lower.signature import Signature
from ...lower.types import Known
from ...lower.work import number, product_of
from .contrib import match, ms_function, no_cpu, no_cpu_function

FLOAT, FLOAT16, BFLOAT16 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16

no_cpu(
    "MatMulPacked", "*S K, N _, ? -> *S N", K="K", N="N",
    fault="cannot multiply these shapes", work=product_of(number("K")),
)  # fmt: skip
no_cpu(
    "MatMulNBitsQLoRA", "*S K, N _ _, ?, _ _ _, ?, N _ _, ? -> *S N", K="K", N="N",
    fault="cannot multiply these shapes",
)  # fmt: skip
no_cpu("MoEPacked", "*S H, _ E, E I _, E I _, E H _, _ E -> *S H")
no_cpu(
    "RouterGateUpProj", "*S K, K M -> *S R, *S (M-R)//2", R="router_size",
    where=("M >= R", "(M-R) % 2 == 0"),
)  # fmt: skip
no_cpu(
    "HyperConnectionLowRankMix",
    "*S D, D, D R, R D, D C, *S D//C, *S C -> *S D//C, *S C, *S D",
    C="num_branches",
    where="D % C == 0",
)


#: elements and bytes of a block, by the number of the format
#: (https://github.com/microsoft/onnxruntime/blob/main/docs/PackedWeightFormats.md)
_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 6: (32, 22), 8: (32, 34), 13: (256, 176), 14: (256, 210), 16: (256, 66),
    17: (256, 74), 18: (256, 98), 20: (32, 18), 22: (256, 82), 23: (256, 136), 30: (1, 2), 42: (64, 18),
}  # fmt: skip


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GatherPacked
@ms_function("GatherPacked")
def gather_packed(op: Op) -> Known:
    """Lower a Gather from packed weights: a row of `K` elements for each index."""
    k, dtype = op.int_attr("K", 0), op.int_attr("output_dtype", BFLOAT16)
    elements, size = _BLOCKS.get(op.int_attr("packed_type", -1), (0, 0))
    if not elements or k < 1 or k % elements or dtype not in (FLOAT, FLOAT16, BFLOAT16):
        raise MalformedNode("GatherPacked needs a known format, whole blocks, and a float type")
    match(op, 0, (None, constant(k // elements * size)), "a row must hold K packed elements")
    indices = op.shape(1)
    return op.out(None if indices is None else [*indices, constant(k)], dtype)


_two_halves = Signature("*S C -> *S C//2", ("C % 2 == 0",), {})
_gate_and_up = Signature("*S C, *S C -> *S C", (), {})


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.SwiGLU
@no_cpu_function("SwiGLU")
def swiglu(op: Op) -> list[Known | None]:
    """Lower SwiGLU; without input `up`, input `gate` holds both halves."""
    return (_gate_and_up if op.has(1) else _two_halves)(op)


def _experts(op: Op, experts: Dim) -> list[Cond]:
    groups, best = op.int_attr("n_group", 1), op.int_attr("topk_group", 1)
    k = op.int_attr("top_k", 0)
    if not (1 <= best <= groups and k >= 1 and op.int_attr("group_topk", 2) >= 1):
        raise MalformedNode("MoEGroupRouter selects at least one expert, of at most all groups")
    if not op.wants(1):
        return [eq(experts % groups, 0), ge(experts, k)]
    if groups > 1:
        raise MalformedNode("MoEGroupRouter gives all scores only of a single group")
    return [ge(experts, k), le(experts, 512)]


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MoEGroupRouter
@ms_function("MoEGroupRouter")
def moe_group_router(op: Op) -> list[Known | None]:
    """Lower MoEGroupRouter: scores ``[tokens, experts]``, and weights if these are routed."""
    if op.wants(0) == op.wants(1) or op.wants(1) != op.wants(2):
        raise MalformedNode("MoEGroupRouter has either router_probs, or selection_scores and router_weights")
    logits, bias = op.shape(0), op.shape(1)
    experts = op.fresh("the number of experts") if bias is None else bias.numel
    op.require(all_of(_experts(op, experts)), "the experts must divide into groups, and suffice", (1, 0))
    if op.has(2):
        weight = op.shape(2, 2)
        assert weight is not None
        logits = op.shape(0, 2)
        assert logits is not None
        op.same(weight[0], experts, "expected one row of weights per expert", (2, 0), (1, 0))
        op.same(weight[1], logits[1], "the weights must be as wide as the tokens", (2, 1), (0, 1))
        wide = all_of((ge(logits[1], 256), eq(logits[1] % 256, 0)))
        op.require(wide, "the width must be a multiple of 256", (0, 1))
    elif logits is not None:
        if len(logits) < 2:
            raise InvalidNode(f"logits {op.name_of(0)} must have rank 2 or more, got {logits}")
        op.same(logits[-1], experts, "expected one bias per expert", (0, len(logits) - 1), (1, 0))
    tokens = op.fresh("the number of tokens") if logits is None else Shape(logits[:-1]).numel
    return [op.out([tokens, experts])] * 3


# https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.RMSNormRotary
@no_cpu_function("RMSNormRotary")
def rms_norm_rotary(op: Op) -> list[Known | None]:
    """Lower a fused RMSNorm and rotary embedding of a slice of the last axis."""
    x, width = op.sized(0, 4), op.int_attr("input_width", 0)
    size = constant(width) if width else x[3]
    joined = [ONE, x[0] * x[1]] if op.int_attr("flatten_batch", 0) else [x[0], x[1]]
    dtype = FLOAT16 if op.int_attr("output_fp16", 0) else BFLOAT16
    return [op.out([*joined, x[2] * size], dtype), op.out([*x[:3], size], FLOAT)]
