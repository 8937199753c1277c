"""Small models with the shape arithmetic of well-known ones that no corpus at hand has."""

from __future__ import annotations

from typing import NamedTuple


class Stem(NamedTuple):
    """A name, and a model in the text form of ONNX."""

    name: str
    source: str


_HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
_POOL = "<kernel_shape = [3, 3], strides = [2, 2]>"
_POOLS = """g (float[N, 4, H, W] X) => (float[a, b, c, d] Y) {{
    p0 = MaxPool {pool} (X)
    p1 = MaxPool {pool} (p0)
    Y = MaxPool {pool} (p1)
}}"""
_ALEXNET = """g (float[N, 3, H, W] X, float[4, 3, 11, 11] w1, float[4, 4, 5, 5] w2, float[4, 4, 3, 3] w3, float[144, 10] w4)
    => (float[a, b] Y, float[c, d, e, f] features) {{
    c1 = Conv <strides = [4, 4], pads = [2, 2, 2, 2]> (X, w1)
    p1 = MaxPool {pool} (c1)
    c2 = Conv <pads = [2, 2, 2, 2]> (p1, w2)
    p2 = MaxPool {pool} (c2)
    c3 = Conv <pads = [1, 1, 1, 1]> (p2, w3)
    features = MaxPool {pool} (c3)
    flat = Flatten (features)
    Y = MatMul (flat, w4)
}}"""
_RESNET = """g (float[N, 3, H, W] X, float[4, 3, 7, 7] w1, float[4, 4, 3, 3] w2) => (float[a, b, c, d] Y) {
    c1 = Conv <strides = [2, 2], pads = [3, 3, 3, 3]> (X, w1)
    p1 = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (c1)
    c2 = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (p1, w2)
    c3 = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (c2, w2)
    Y = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (c3, w2)
}"""
_UNET = """g (float[N, 4, H, W] X, float[4, 4, 2, 2] up) => (float[a, b, c, d] Y, float[e, f, g, h] middle) {
    p1 = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (X)
    p2 = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (p1)
    middle = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (p2)
    u2 = ConvTranspose <strides = [2, 2]> (middle, up)
    s2 = Add (u2, p2)
    u1 = ConvTranspose <strides = [2, 2]> (s2, up)
    s1 = Add (u1, p1)
    u0 = ConvTranspose <strides = [2, 2]> (s1, up)
    Y = Add (u0, X)
}"""
_SLICE = """g (float[n, 8] X) => (float[a, b] Y, float[c, d] rest)
    <int64[1] one = {1}, int64[1] five = {5}, int64[1] zero = {0}> {
    Y = Slice (X, one, five, zero)
    first, rest = Split <axis = 0, num_outputs = 2> (X)
}"""
_CACHE = """g (float[batch, seq, 8] X, float[batch, total_seq] mask, float[batch, past_seq, 8] past) => (float[a, b, c] Y) {
    both = Concat <axis = 1> (past, X)
    one = Constant <value_ints = [2]> ()
    m = Unsqueeze (mask, one)
    Y = Add (both, m)
}"""

#: pools of 3 by 2, AlexNet's and ResNet's stems, a U-Net of three levels, slices and halves, a cache and its mask
STEMS = (
    Stem("three pools", _HEAD + _POOLS.format(pool=_POOL)),
    Stem("AlexNet", _HEAD + _ALEXNET.format(pool=_POOL)),
    Stem("ResNet", _HEAD + _RESNET),
    Stem("U-Net", _HEAD + _UNET),
    Stem("slices", _HEAD.replace("17", "18") + _SLICE),
    Stem("cache", _HEAD + _CACHE),
)
