"""Writes the example models beside this file: `python -m examples.make_examples`."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import onnx

from .graph_writer import GraphWriter

HERE = Path(__file__).resolve().parent


def linear(g: GraphWriter, name: str, x: str, n_in: int, n_out: int) -> str:
    """A dense layer on the last axis."""
    with g.scope(name):
        product = g.op("MatMul", x, g.weight("weight", n_in, n_out))
        return g.op("Add", g.weight("bias", n_out), product)


def split_heads(g: GraphWriter, x: str, heads: int, width: int) -> str:
    """[batch, seq, heads * width] to [batch, heads, seq, width], with the sizes read from `x` itself."""
    split = g.reshape(x, g.dim(x, 0), g.dim(x, 1), heads, width)
    return g.op("Transpose", split, perm=[0, 2, 1, 3])


def merge_heads(g: GraphWriter, x: str, size: int) -> str:
    """[batch, heads, seq, width] to [batch, seq, size]."""
    swapped = g.op("Transpose", x, perm=[0, 2, 1, 3])
    return g.reshape(swapped, g.dim(swapped, 0), g.dim(swapped, 1), size)


def attend(g: GraphWriter, q: str, k: str, v: str, mask: str) -> str:
    """softmax(q k' / 4 + mask) v on [batch, heads, rows, 16]."""
    scores = g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2]))
    scaled = g.op("Div", scores, g.scalar(4.0))
    weights = g.op("Softmax", g.op("Add", scaled, mask), axis=-1)
    return g.op("MatMul", weights, v)


def attention() -> onnx.ModelProto:
    """Self-attention with a KV cache: the mask must be as wide as past and present together, or 1."""
    g = GraphWriter("attention")
    x = g.input("hidden_states", ["batch", "seq", 64])
    mask = g.input("attention_mask", ["batch", 1, "seq", "total_seq"])
    past_key = g.input("past_key", ["batch", 4, "past_seq", 16])
    past_value = g.input("past_value", ["batch", 4, "past_seq", 16])
    with g.scope("attn"):
        q = split_heads(g, linear(g, "q_proj", x, 64, 64), 4, 16)
        k = split_heads(g, linear(g, "k_proj", x, 64, 64), 4, 16)
        v = split_heads(g, linear(g, "v_proj", x, 64, 64), 4, 16)
        key = g.op("Concat", past_key, k, axis=2)
        value = g.op("Concat", past_value, v, axis=2)
        merged = merge_heads(g, attend(g, q, key, value, mask), 64)
        out = linear(g, "o_proj", merged, 64, 64)
    g.output(g.op("Add", x, out), "attn_output", rank=3)
    g.output(key, "present_key", rank=4)
    g.output(value, "present_value", rank=4)
    return g.model()


def conv_block(g: GraphWriter, name: str, x: str, n_in: int, n_out: int) -> str:
    """A 3x3 convolution that keeps the size, and its activation."""
    with g.scope(name):
        weight, bias = g.weight("weight", n_out, n_in, 3, 3), g.weight("bias", n_out)
        y = g.op("Conv", x, weight, bias, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[1, 1])
        return g.op("Relu", y)


def u_stage(g: GraphWriter, x: str, channels: list[int]) -> str:
    """Down by max pooling once per step between `channels`, and up again with skip connections."""
    skips = []
    for i, (n_in, n_out) in enumerate(pairwise(channels)):
        skips.append(x)
        pooled = g.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
        x = conv_block(g, f"down{i + 1}", pooled, n_in, n_out)
    for i in reversed(range(len(skips))):
        with g.scope(f"up{i + 1}"):
            grown = g.op("Resize", x, "", g.vector(1.0, 1.0, 2.0, 2.0), mode="nearest", nearest_mode="floor")
            joined = g.op("Concat", grown, skips[i], axis=1)
        x = conv_block(g, f"up{i + 1}", joined, channels[i + 1] + channels[i], channels[i])
    return x


def unet() -> onnx.ModelProto:
    """A U-Net of three levels: the skip connections meet again only when 8 divides height and width."""
    g = GraphWriter("unet")
    x = g.input("image", ["batch", 3, "height", "width"])
    x = u_stage(g, conv_block(g, "stem", x, 3, 4), [4, 6, 8, 10])
    with g.scope("head"):
        g.output(g.op("Conv", x, g.weight("weight", 1, 4, 1, 1), kernel_shape=[1, 1]), "mask", rank=4)
    return g.model()


def broken_residual() -> onnx.ModelProto:
    """The second dense layer of the branch has 128 outputs, not 256; the addition fails ten nodes later."""
    g = GraphWriter("broken_residual")
    x = linear(g, "stem", g.input("features", ["batch", 16]), 16, 256)
    with g.scope("block"):
        y = g.op("Relu", linear(g, "fc1", x, 256, 32))
        with g.scope("fc2"):
            y = g.op("MatMul", y, g.weight("weight", 32, 128))  # meant: 32, 256
        y = g.op("Mul", y, g.scalar(0.5))
        y = g.op("LeakyRelu", y, alpha=0.1)
        with g.scope("gate"):
            y = g.op("Mul", y, g.op("Sigmoid", y))
        y = g.reshape(y, g.dim(y, 0), -1, 32)
        with g.scope("norm"):
            y = g.op("Sub", y, g.op("ReduceMean", y, axes=[-1], keepdims=1))
        y = g.op("Softmax", g.op("Transpose", y, perm=[0, 2, 1]), axis=-1)
        y = g.op("Flatten", g.op("Transpose", y, perm=[0, 2, 1]), axis=1)
        y = g.op("Add", x, y)
    g.output(linear(g, "head", y, 256, 10), "logits", rank=2)
    return g.model()


def broken_matmul() -> onnx.ModelProto:
    """One head of twelve goes into an output projection that was made for all of them: 64 against 768."""
    g = GraphWriter("broken_matmul")
    x = g.input("hidden_states", ["batch", "seq", 768])
    with g.scope("encoder"):
        heads = g.reshape(x, g.dim(x, 0), g.dim(x, 1), 12, 64)
        head = g.op("Gather", heads, g.scalar(0), axis=2)
        with g.scope("norm"):
            mean = g.op("ReduceMean", head, axes=[-1], keepdims=1)
            centred = g.op("Sub", head, mean)
        with g.scope("out_proj"):
            y = g.op("MatMul", centred, g.weight("weight", 768, 32))
    g.output(g.op("Relu", y), "output", rank=3)
    return g.model()


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "attention": attention,
    "unet": unet,
    "broken_residual": broken_residual,
    "broken_matmul": broken_matmul,
}


def main() -> None:
    """Write every model."""
    for name, make in MODELS.items():
        (HERE / f"{name}.onnx").write_bytes(make().SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
