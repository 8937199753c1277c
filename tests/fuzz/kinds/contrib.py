"""Contrib operators of onnxruntime (``com.microsoft``): what its optimizers and exporters fuse to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto

from ..builder import CONTRIB, INT, Builder, Unfit
from .elementwise import partner
from .registry import kind
from .spatial import window


def contrib(*names: str, weight: float = 0.5) -> Callable[[Any], Any]:
    """Declares kinds; their functions take an operator's name."""

    def declare(draw: Callable[[Builder, str], object]) -> object:
        for name in names:
            kind(f"{CONTRIB}.{name}", weight=weight)(lambda b, name=name: draw(b, name))
        return draw

    return declare


def ones(b: Builder, *shape: int, dtype: Any = np.float32) -> str:
    """A stored tensor."""
    return b.const(np.ones(shape), dtype)


def full(b: Builder, value: int, size: str, dtype: int = TensorProto.INT32) -> str:
    """A vector of a number, as long as a size says."""
    return b.add("Cast", [b.add("Expand", [b.const([value]), size])], to=dtype)


def quantized(b: Builder, x: str) -> str:
    """A tensor as bytes."""
    return b.add("Cast", [x], to=TensorProto.UINT8)


def scale(b: Builder, dtype: Any = np.uint8) -> list[str]:
    """A scale and a zero point."""
    return [b.const(0.5, np.float32), b.const(1, dtype)]


def width(b: Builder, x: str) -> int:
    """The last size of a tensor, which is not empty."""
    last = b.shape(x)[-1]
    if not last:
        raise Unfit
    return last


@contrib("Gelu", "QuickGelu", "FastGelu", "BiasGelu", weight=0.4)
def gelu(b: Builder, name: str) -> None:
    x = b.pick((1, 4))
    bias = [ones(b, width(b, x))] if name == "BiasGelu" or (name == "FastGelu" and b.chance(0.5)) else []
    b.contrib(name, [x, *bias])


@contrib("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", weight=0.8)
def skip_layer_norm(b: Builder, name: str) -> None:
    x = b.pick((2, 3))
    w = width(b, x)
    skip = b.pick((2, 3), where=lambda a: a.shape[-1] == w)
    weights = [ones(b, w) for _ in range(b.choice(1, 2) if name == "SkipLayerNormalization" else 1)]
    b.contrib(name, [x, skip, *weights], b.choice(1, 4))


@contrib("SimplifiedLayerNormalization", weight=0.5)
def simplified(b: Builder, name: str) -> None:
    """It is onnxruntime's own, but in the domain of the standard."""
    x = b.pick((1, 4))
    axis = b.axis(x)
    b.add(name, [x, ones(b, *b.shape(x)[axis:])], b.choice(1, 2), axis=axis)


@contrib("EmbedLayerNormalization", weight=0.4)
def embeddings(b: Builder, name: str) -> None:
    ids = b.add("Cast", [b.pick(2)], to=TensorProto.INT32)
    tables = [ones(b, n, 4) for n in (16, b.choice(8, 64), 2)]
    kinds = ids if b.chance(0.5) else ""
    b.contrib(name, [ids, kinds, *tables[:2], tables[2] if kinds else "", ones(b, 4), ones(b, 4)], 2)


@contrib("FusedMatMul", weight=1)
def fused_matmul(b: Builder, name: str) -> None:
    x, options = b.pick((1, 4)), {"transA": b.choice(0, 0, 1), "transB": b.choice(0, 0, 1)}
    shape = b.shape(x)
    inner = shape[-2 if options["transA"] and len(shape) > 1 else -1]
    other = (2, inner) if options["transB"] else (inner, 2)
    y = b.pick((1, 4)) if b.chance(0.3) else ones(b, *other)
    if b.chance(0.2):
        options |= {"transBatchA": b.choice(0, 1), "transBatchB": b.choice(0, 1)}
    b.contrib(name, [x, y], alpha=0.5, **options)


@contrib("FusedGemm", weight=0.4)
def fused_gemm(b: Builder, name: str) -> None:
    x = b.pick(2)
    bias = [b.pick((0, 2)) if b.chance(0.3) else ones(b, 3)] if b.chance(0.5) else []
    b.contrib(name, [x, ones(b, 3, b.shape(x)[1]), *bias], transB=1, activation="Relu")


@contrib("MatMulNBits", weight=0.8)
def matmul_nbits(b: Builder, name: str) -> None:
    x = b.pick((1, 4))
    k, n, blocks = width(b, x), b.choice(1, 3), -(-width(b, x) // 16)
    weight, scales = ones(b, n, blocks, 8, dtype=np.uint8), ones(b, n * blocks)
    b.contrib(name, [x, weight, scales], K=k, N=n, bits=4, block_size=16)


@contrib("DynamicQuantizeMatMul", "MatMulIntegerToFloat", weight=0.5)
def quantized_matmul(b: Builder, name: str) -> None:
    x = b.pick((1, 4))
    a = x if name == "DynamicQuantizeMatMul" else quantized(b, x)
    scales = [b.const(0.5, np.float32) for _ in range(1 if a == x else 2)]
    b.contrib(name, [a, ones(b, b.shape(x)[-1], 2, dtype=np.uint8), *scales])


@contrib("QLinearAdd", "QLinearMul", weight=0.4)
def quantized_arithmetic(b: Builder, name: str) -> None:
    x = b.pick()
    y = quantized(b, partner(b, x))
    b.contrib(name, [quantized(b, x), *scale(b), y, *scale(b), *scale(b)])


@contrib("QLinearConcat", weight=0.4)
def quantized_concat(b: Builder, name: str) -> None:
    x = b.pick((1, 4))
    y = b.pick(b.rank(x))
    b.contrib(name, [*scale(b), quantized(b, x), *scale(b), quantized(b, y), *scale(b)], axis=b.axis(x))


@contrib("QLinearSigmoid", "QLinearLeakyRelu", "QLinearGlobalAveragePool", weight=0.2)
def quantized_unary(b: Builder, name: str) -> None:
    x = quantized(b, b.pick((3, 4)))
    extra = {"channels_last": b.choice(0, 1)} if name.endswith("Pool") else {}
    b.contrib(name, [x, *scale(b), *scale(b)], **extra)


@contrib("QuantizeLinear", weight=0.3)
def quantize(b: Builder, name: str) -> None:
    pair = scale(b)
    b.contrib("DequantizeLinear", [b.contrib(name, [b.pick(), *pair]), *pair])


@contrib("Attention", weight=0.7)
def attention(b: Builder, name: str) -> None:
    x = b.pick(3)
    w, h = width(b, x), b.choice(2, 4)
    mask: list[str] = []
    if b.chance(0.4):
        mask = [full(b, 1, b.size_at(x, 0))]
    b.contrib(name, [x, ones(b, w, 3 * h), ones(b, 3 * h), *mask], num_heads=2)


@contrib("MultiHeadAttention", weight=0.8)
def multi_head(b: Builder, name: str) -> None:
    q = b.pick(3, where=lambda a: a.shape[-1] % 2 == 0 and a.size > 0)
    batch, _, w = b.shape(q)
    k = b.pick(3, where=lambda a: a.shape[0] == batch and a.shape[2] == w)
    bias = [ones(b, 3 * w)] if b.chance(0.3) else []
    b.contrib(name, [q, k, k, *bias], b.choice(1, 1, 3), num_heads=b.choice(1, 2))


@contrib("GroupQueryAttention", weight=0.6)
def group_query(b: Builder, name: str) -> None:
    x = b.pick(3, where=lambda a: a.size > 0)
    w, total = width(b, x), b.choice(b.shape(x)[1], 8)
    q, k = (b.add("MatMul", [x, ones(b, w, n * 8)]) for n in (4, 2))
    past = ["", ""]
    if total == 8 or b.chance(0.5):
        parts = [b.size_at(x, 0), b.const([2, b.choice(0, 2, 8), 8])]
        past = [b.add("ConstantOfShape", [b.add("Concat", parts, axis=0)])] * 2
    lengths = full(b, total - 1, b.size_at(x, 0))
    heads = {"num_heads": 4, "kv_num_heads": 2}
    b.contrib(name, [q, k, k, *past, lengths, b.const(total, np.int32)], 3, **heads)


@contrib("RotaryEmbedding", weight=0.5)
def rotary(b: Builder, name: str) -> None:
    x = b.pick((3, 4), where=lambda a: a.shape[-1] % 2 == 0 and a.size > 0)
    cache = ones(b, b.choice(4, 16), width(b, x) // 2)
    b.contrib(name, [x, b.const([0]), cache, cache])


@contrib("FusedConv", weight=0.5)
def fused_conv(b: Builder, name: str) -> None:
    x = b.pick(4, where=lambda a: a.size > 0)
    options = window(b, 2)
    weight = ones(b, 2, b.shape(x)[1], *options["kernel_shape"])
    b.contrib(name, [x, weight], activation="Relu", **options)


@contrib("NhwcMaxPool", weight=0.3)
def nhwc_pool(b: Builder, name: str) -> None:
    b.contrib(name, [quantized(b, b.pick(4, where=lambda a: a.size > 0))], **window(b, 2))


@contrib("MaxpoolWithMask", weight=0.3)
def masked_pool(b: Builder, name: str) -> None:
    x = b.pick(4, where=lambda a: a.size > 0)
    mask = b.add("Cast", [x], to=TensorProto.INT32)
    b.contrib(name, [x, mask], **window(b, 2, dilated=False))


@contrib("ConvTransposeWithDynamicPads", weight=0.3)
def dynamic_pads(b: Builder, name: str) -> None:
    x = b.pick(4, where=lambda a: a.size > 0)
    weight = ones(b, b.shape(x)[1], 2, 3, 3)
    b.contrib(name, [x, weight, b.const([b.choice(0, 1) for _ in range(4)])], strides=[b.choice(1, 2)] * 2)


@contrib("Pad", weight=0.3)
def pad(b: Builder, name: str) -> None:
    x = b.pick((1, 3))
    b.contrib(name, [x, b.ints([b.choice(0, 1, 2, -1) for _ in range(2 * b.rank(x))])])


@contrib("ExpandDims", weight=0.3)
def expand_dims(b: Builder, name: str) -> None:
    x = b.pick((0, 4))
    b.contrib(name, [x, b.const(b.random.randint(-b.rank(x) - 1, b.rank(x)), np.int32)])


@contrib("Trilu", weight=0.3)
def trilu(b: Builder, name: str) -> None:
    b.contrib(name, [b.pick((2, 4))], upper=b.choice(0, 1))


@contrib("Unique", weight=0.2)
def unique(b: Builder, name: str) -> None:
    b.contrib(name, [b.pick(1)], 3)


@contrib("UnfoldTensor", weight=0.4)
def unfold(b: Builder, name: str) -> None:
    x = b.pick((1, 4))
    b.contrib(name, [x], dim=b.axis(x), size=b.choice(1, 2), step=b.choice(1, 2))


@contrib("CDist", weight=0.3)
def distances(b: Builder, name: str) -> None:
    x = b.pick(2)
    y = b.pick(2, where=lambda a: a.shape[1] == b.shape(x)[1])
    b.contrib(name, [x, y], metric=b.choice("euclidean", "sqeuclidean"))


@contrib("Inverse", weight=0.2)
def inverse(b: Builder, name: str) -> None:
    b.contrib(name, [b.pick((2, 4), where=lambda a: a.shape[-1] == a.shape[-2])])


@contrib("CropAndResize", weight=0.3)
def crop_and_resize(b: Builder, name: str) -> None:
    x = b.pick(4, where=lambda a: a.size > 0)
    at = b.const([0, 0], np.int32)
    b.contrib(name, [x, ones(b, 2, 4), at, b.const([b.choice(1, 2), 3], np.int32)])


@contrib("NGramRepeatBlock", weight=0.2)
def repeat_block(b: Builder, name: str) -> None:
    ids = b.pick(2, INT)
    scores = b.pick(2, where=lambda a: a.shape[0] == b.shape(ids)[0])
    b.contrib(name, [ids, scores], ngram_size=b.choice(1, 2))


@contrib("DynamicTimeWarping", weight=0.2)
def warping(b: Builder, name: str) -> None:
    x = b.pick(2)
    b.contrib(name, [b.unsqueeze(x, [0]) if b.chance(0.5) else x])
