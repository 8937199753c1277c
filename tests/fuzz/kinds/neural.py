"""Matrix products, normalizations over features, recurrent layers, attention."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from ..builder import Builder, Unfit
from .registry import kind


@kind("MatMul", weight=6)
def matmul(b: Builder) -> None:
    x = b.pick((1, 4))
    last = b.shape(x)[-1]
    draw = b.random.random()
    if draw < 0.5:
        b.add("MatMul", [x, b.const(np.ones((last, b.choice(1, 2, 4))), np.float32)])
    elif draw < 0.7:
        b.add("MatMul", [x, b.pick((1, 4), where=lambda a: a.shape[max(a.ndim - 2, 0)] == last)])
    elif draw < 0.85 and b.rank(x) >= 2:
        order = list(range(b.rank(x)))
        order[-1], order[-2] = order[-2], order[-1]
        b.add("MatMul", [x, b.add("Transpose", [x], perm=order)])
    else:
        b.add("MatMul", [b.const(np.ones(b.shape(x)[-2:][:1]), np.float32), x])


@kind("Gemm", weight=2)
def gemm(b: Builder) -> None:
    x = b.pick(2)
    transposed = {"transA": 1} if b.chance(0.3) else {}
    k, n = b.shape(x)[0 if transposed else 1], b.choice(1, 3)
    shape = [n, k] if b.chance(0.5) else [k, n]
    options: dict[str, Any] = {**transposed, **({"transB": 1} if shape == [n, k] else {})}
    w = b.const(np.ones(shape), np.float32)
    c = [b.const(np.ones(b.choice((n,), (1,), (1, n), ())), np.float32)] if b.chance(0.5) else []
    if not c and b.chance(0.2):
        c = [b.pick((0, 2))]
    b.add("Gemm", [x, w, *c], **options)


@kind("Einsum", since=12, weight=2)
def einsum(b: Builder) -> None:
    x = b.pick((1, 3))
    rank = b.rank(x)
    draw = b.random.random()
    if draw < 0.3:
        letters = "ijk"[:rank]
        kept = "".join(b.random.sample(letters, b.random.randint(0, rank)))
        b.add("Einsum", [x], equation=f"{letters}->{kept}")
    elif draw < 0.5:
        b.add("Einsum", [x, b.pick((1, 3))], equation=b.choice("...i,...i->...", "...i,...j->...ij"))
    elif draw < 0.7 and rank >= 2:
        b.add("Einsum", [x, x], equation=b.choice("...ij,...kj->...ik", "...ij,...ij->...j"))
    elif draw < 0.8:
        b.add("Einsum", [b.pick(2)], equation=b.choice("ii->i", "ii", "ij"))
    else:
        y = b.pick((1, 2))
        b.add("Einsum", [b.pick(2), y], equation="ij,jk->ik" if b.rank(y) == 2 else "ij,j->i")


@kind("LayerNormalization", since=17, weight=2)
def layer_norm(b: Builder) -> None:
    x = b.pick((1, 4))
    axis = b.axis(x)
    shape = b.shape(x)[axis:]
    weights = [b.const(np.ones(shape), np.float32) for _ in range(b.choice(1, 2))]
    b.add("LayerNormalization", [x, *weights], b.choice(1, 1, 3), axis=axis)


@kind("RMSNormalization", since=23, weight=1)
def rms_norm(b: Builder) -> None:
    x = b.pick((1, 4))
    axis = b.axis(x)
    b.add("RMSNormalization", [x, b.const(np.ones(b.shape(x)[axis:]), np.float32)], axis=axis)


@kind("LSTM", "GRU", "RNN", weight=2.5)
def recurrent(b: Builder, name: str) -> None:
    x = b.pick(3, where=lambda a: a.size > 0)
    features = b.shape(x)[2]
    direction = b.choice("forward", "reverse", "bidirectional")
    d, h, gates = (
        2 if direction == "bidirectional" else 1,
        b.choice(1, 2),
        {"LSTM": 4, "GRU": 3, "RNN": 1}[name],
    )
    w = b.const(np.ones((d, gates * h, features)), np.float32)
    r = b.const(np.ones((d, gates * h, h)), np.float32)
    options: dict[str, Any] = {"hidden_size": h, "direction": direction}
    rest: list[str] = []
    if b.chance(0.3):
        lengths = b.add("Expand", [b.const([1]), b.size_at(x, 1)])
        rest = ["", b.add("Cast", [lengths], to=TensorProto.INT32)]
    elif b.chance(0.3):
        parts = [b.const([d]), b.size_at(x, 1), b.const([h])]
        zeros = b.add("ConstantOfShape", [b.add("Concat", parts, axis=0)])
        rest = ["", "", zeros, *([zeros] if name == "LSTM" else [])]
    b.add(name, [x, w, r, *rest], b.random.randint(1, 3 if name == "LSTM" else 2), **options)


@kind("Attention", since=23, weight=3)
def attention(b: Builder) -> None:
    if b.chance(0.5):
        q = b.pick(4, where=lambda a: a.size > 0)
        k = v = q
        if b.chance(0.4):
            k = v = b.pick(4, where=lambda a: a.shape[:2] == b.shape(q)[:2] and a.shape[3] == b.shape(q)[3])
        options: dict[str, Any] = {}
    else:
        q = b.pick(3, where=lambda a: a.size > 0)
        heads = b.choice(*[h for h in (1, 2) if b.shape(q)[2] % h == 0])
        k = v = q
        if b.chance(0.4):
            k = v = b.pick(3, where=lambda a: a.shape[0] == b.shape(q)[0] and a.shape[2] == b.shape(q)[2])
        options = {"q_num_heads": heads, "kv_num_heads": heads}
    extra: list[str] = []
    outputs = 1
    if b.chance(0.3):
        options["is_causal"] = 1
    elif b.chance(0.3):
        extra = [b.pick((2, 4))]
    if not extra and b.rank(q) == 4 and b.chance(0.4):
        past = b.pick(4, where=lambda a: a.shape[:2] == b.shape(k)[:2] and a.shape[3] == b.shape(k)[3])
        extra, outputs = ["", past, past], 3
    b.add("Attention", [q, k, v, *extra], outputs, **options)


@kind("RotaryEmbedding", since=23, weight=1)
def rotary(b: Builder) -> None:
    x = b.pick(4, where=lambda a: a.size > 0 and a.shape[3] % 2 == 0)
    batch, _, seq, d = b.shape(x)
    if b.chance(0.5):
        cache = b.const(np.ones((batch, seq, d // 2)), np.float32)
        b.add("RotaryEmbedding", [x, cache, cache])
    else:
        cache = b.const(np.ones((16, d // 2)), np.float32)
        end = b.add("Squeeze", [b.size_at(x, 2)])
        row = b.unsqueeze(b.add("Range", [b.const(0), end, b.const(1)]), [0])
        parts = b.add("Concat", [b.size_at(x, 0), b.size_at(x, 2)], axis=0)
        b.add("RotaryEmbedding", [x, cache, cache, b.add("Expand", [row, parts])])


@kind("Det", weight=0.4)
def det(b: Builder) -> None:
    b.add("Det", [b.pick((2, 4), where=lambda a: a.shape[-1] == a.shape[-2])])


@kind("MatMulInteger", weight=0.6)
def matmul_integer(b: Builder) -> None:
    x = b.pick((1, 3))
    q = b.add("Cast", [x], to=TensorProto.UINT8)
    b.add("MatMulInteger", [q, b.const(np.ones((b.shape(x)[-1], 2)), np.uint8)])


@kind("ConvInteger", weight=0.4)
def conv_integer(b: Builder) -> None:
    x = b.pick(4, where=lambda a: a.size > 0)
    q = b.add("Cast", [x], to=TensorProto.UINT8)
    w = b.const(np.ones((2, b.shape(x)[1], 2, 2)), np.uint8)
    b.add("ConvInteger", [q, w], **({"pads": [1, 1, 1, 1]} if b.chance(0.5) else {}))


@kind("residual", weight=2)
def residual(b: Builder) -> None:
    """A layer that keeps the width, added to its input."""
    x = b.pick((2, 3))
    width = b.shape(x)[-1]
    if not width:
        raise Unfit
    y = b.add("MatMul", [x, b.const(np.ones((width, width)), np.float32)])
    b.add("Add", [b.add("Relu", [y]), x])


@kind("scores", weight=2)
def scores(b: Builder) -> None:
    """Attention written out: a product with a transposed tensor, a mask, a softmax, a product."""
    q = b.pick((2, 4))
    k = b.pick(b.rank(q), where=lambda a: a.shape[-1] == b.shape(q)[-1])
    order = list(range(b.rank(q)))
    order[-1], order[-2] = order[-2], order[-1]
    product = b.add("MatMul", [q, b.add("Transpose", [k], perm=order)])
    if b.chance(0.5):
        product = b.add("Add", [product, b.pick((1, 4))])
    b.add("MatMul", [b.add("Softmax", [product], axis=-1), k])
