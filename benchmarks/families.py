"""Models of any size: two that real exports look like, and some that are made to be hard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import onnx
from onnx import TensorProto, helper

from examples.graph_writer import IR_VERSION, OPSET, GraphWriter
from examples.make_examples import attend, conv_block, merge_heads, split_heads, u_stage

BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64


@dataclass(frozen=True)
class Family:
    """`make(n)` gives the model of size `n`; `sizes` are those to measure."""

    name: str
    what: str
    make: Callable[[int], onnx.ModelProto]
    sizes: tuple[int, ...]


def _rms_norm(g: GraphWriter, x: str) -> str:
    with g.scope("norm"):
        mean = g.op("ReduceMean", g.op("Pow", x, g.scalar(2.0)), axes=[-1], keepdims=1)
        scale = g.op("Reciprocal", g.op("Sqrt", g.op("Add", mean, g.scalar(1e-6))))
        return g.op("Mul", g.weight("weight", 64), g.op("Mul", x, scale))


def _project(g: GraphWriter, name: str, x: str, n_in: int, n_out: int) -> str:
    with g.scope(name):
        return g.op("MatMul", x, g.weight("weight", n_in, n_out))


def _rotate(g: GraphWriter, x: str, cos: str, sin: str) -> str:
    with g.scope("rotary"):
        half = g.op("Div", g.dim(x, 3), g.vector(2))
        low = g.op("Slice", x, g.vector(0), half, g.vector(3))
        high = g.op("Slice", x, half, g.vector(2**63 - 1), g.vector(3))
        turned = g.op("Concat", g.op("Neg", high), low, axis=-1)
        return g.op("Add", g.op("Mul", x, cos), g.op("Mul", turned, sin))


def _repeat_heads(g: GraphWriter, x: str, times: int, heads: int) -> str:
    """[batch, heads, rows, 16] to [batch, heads * times, rows, 16], as grouped-query attention does."""
    batch, rows = g.dim(x, 0), g.dim(x, 2)
    target = g.op("Concat", batch, g.vector(heads, times), rows, g.vector(16), axis=0)
    wide = g.op("Expand", g.op("Unsqueeze", x, g.vector(2)), target)
    return g.reshape(wide, batch, heads * times, rows, 16)


def llama(layers: int) -> onnx.ModelProto:
    """A decoder with RMS norms, rotary positions, grouped-query attention, a KV cache and gated MLPs."""
    g = GraphWriter(f"llama_{layers}")
    tokens = g.input("input_ids", ["batch", "seq"], INT64)
    positions = g.input("position_ids", ["batch", "seq"], INT64)
    mask = g.input("attention_mask", ["batch", 1, "seq", "total_seq"])
    x = g.op("Gather", g.weight("embed", 32, 64), tokens)
    cos = g.op("Unsqueeze", g.op("Gather", g.weight("cos", 128, 16), positions), g.vector(1))
    sin = g.op("Unsqueeze", g.op("Gather", g.weight("sin", 128, 16), positions), g.vector(1))
    for i in range(layers):
        past_key = g.input(f"past.{i}.key", ["batch", 2, "past_seq", 16])
        past_value = g.input(f"past.{i}.value", ["batch", 2, "past_seq", 16])
        with g.scope(f"layers.{i}"), g.scope("attn"):
            h = _rms_norm(g, x)
            q = _rotate(g, split_heads(g, _project(g, "q", h, 64, 64), 4, 16), cos, sin)
            k = _rotate(g, split_heads(g, _project(g, "k", h, 64, 32), 2, 16), cos, sin)
            v = split_heads(g, _project(g, "v", h, 64, 32), 2, 16)
            key, value = g.op("Concat", past_key, k, axis=2), g.op("Concat", past_value, v, axis=2)
            wide_key, wide_value = _repeat_heads(g, key, 2, 2), _repeat_heads(g, value, 2, 2)
            out = merge_heads(g, attend(g, q, wide_key, wide_value, mask), 64)
            x = g.op("Add", x, _project(g, "o", out, 64, 64))
        with g.scope(f"layers.{i}"), g.scope("mlp"):
            h = _rms_norm(g, x)
            gate = _project(g, "gate", h, 64, 96)
            up = _project(g, "up", h, 64, 96)
            gated = g.op("Mul", g.op("Mul", gate, g.op("Sigmoid", gate)), up)
            x = g.op("Add", x, _project(g, "down", gated, 96, 64))
        g.output(key, f"present.{i}.key", rank=4)
        g.output(value, f"present.{i}.value", rank=4)
    g.output(_project(g, "lm_head", _rms_norm(g, x), 64, 32), "logits", rank=3)
    return g.model()


def unets(layers: int) -> onnx.ModelProto:
    """U-Nets one behind the other; each has four layers: down, down, up, up."""
    g = GraphWriter(f"unets_{layers}")
    x = conv_block(g, "stem", g.input("image", ["batch", 3, "height", "width"]), 3, 4)
    for i in range(layers // 4):
        with g.scope(f"unet.{i}"):
            x = g.op("Add", x, u_stage(g, x, [4, 6, 8]))
    g.output(x, "mask", rank=4)
    return g.model()


def odd_convolutions(n: int) -> onnx.ModelProto:
    """Convolutions with strides 3, 5, 7 in turn, kernels that overlap and uneven pads."""
    g = GraphWriter(f"odd_convolutions_{n}")
    x = g.input("x", ["batch", 1, "length"])
    weight = g.weight("kernel", 1, 1, 4)
    for i in range(n):
        x = g.op("Conv", x, weight, kernel_shape=[4], pads=[i % 3 + 1, 2], strides=[3 + 2 * (i % 3)])
    g.output(x, "y", rank=3)
    return g.model()


def doublings(n: int) -> onnx.ModelProto:
    """Concat(x, x) again and again: sizes beyond any integer type."""
    g = GraphWriter(f"doublings_{n}")
    x = g.input("x", ["rows", 4])
    for _ in range(n):
        x = g.op("Concat", x, x, axis=0)
    g.output(x, "y", rank=2)
    return g.model()


def broadcasts(n: int) -> onnx.ModelProto:
    """Additions of vectors whose lengths have all different names."""
    g = GraphWriter(f"broadcasts_{n}")
    x = g.input("x0", ["n0"])
    for i in range(1, n + 1):
        x = g.op("Add", x, g.input(f"x{i}", [f"n{i}"]))
    g.output(x, "y", rank=1)
    return g.model()


def equalities(n: int) -> onnx.ModelProto:
    """Joins that make all sizes of one axis equal, from the last name to the first."""
    g = GraphWriter(f"equalities_{n}")
    inputs = [g.input(f"x{i}", [f"s{i}", f"t{i}"]) for i in range(n)]
    x = inputs[-1]
    for other in reversed(inputs[:-1]):
        x = g.op("Concat", other, x, axis=1)
    g.output(x, "y", rank=2)
    return g.model()


def fans(n: int) -> onnx.ModelProto:
    """One vector added to vectors whose lengths have all different names."""
    g = GraphWriter(f"fans_{n}")
    x = g.input("x", ["n"])
    for i in range(n):
        g.output(g.op("Add", x, g.input(f"x{i}", [f"n{i}"])), f"y{i}", rank=1)
    return g.model()


def nested_ifs(n: int) -> onnx.ModelProto:
    """An If in the else branch of an If, and so on; built in place, as copies of it nest too deep."""
    model = onnx.ModelProto(ir_version=IR_VERSION, producer_name="shapesolve-examples")
    model.opset_import.add(domain="", version=OPSET)
    graph = model.graph
    graph.name = f"nested_ifs_{n}"
    graph.input.add().CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", "cols"]))
    graph.input.add().CopyFrom(helper.make_tensor_value_info("flag", BOOL, []))
    for i in range(n):
        result = f"y{i}"
        graph.output.add().CopyFrom(helper.make_tensor_value_info(result, TensorProto.FLOAT, [None, None]))
        node = graph.node.add(op_type="If", name=f"/if{i}", input=["flag"], output=[result])
        then, other = node.attribute.add(), node.attribute.add()
        then.name, other.name = "then_branch", "else_branch"
        then.type = other.type = onnx.AttributeProto.GRAPH
        then.g.name, other.g.name = f"then{i}", f"else{i}"
        then.g.node.add(op_type="Relu", name=f"/if{i}/Relu", input=["x"], output=[f"then{i}_y"])
        then.g.output.add().CopyFrom(
            helper.make_tensor_value_info(f"then{i}_y", TensorProto.FLOAT, [None, None])
        )
        graph = other.g
    graph.node.add(op_type="Concat", name="/last/Concat", input=["x", "x"], output=["last"])
    graph.node[0].attribute.add(name="axis", i=0, type=onnx.AttributeProto.INT)
    graph.output.add().CopyFrom(helper.make_tensor_value_info("last", TensorProto.FLOAT, [None, None]))
    return model


def products(n: int) -> onnx.ModelProto:
    """Reshapes between targets that are products of some of six symbols."""
    g = GraphWriter(f"products_{n}")
    x = g.input("x", [f"s{i}" for i in range(6)])
    dims = [g.dim(x, axis) for axis in range(6)]
    for i in range(n):
        turned = dims[i % 6 :] + dims[: i % 6]
        cut = 1 + i % 5
        parts = []
        for group in (turned[:cut], turned[cut:]):
            product = group[0]
            for factor in group[1:]:
                product = g.op("Mul", product, factor)
            parts.append(product)
        x = g.op("Reshape", x, g.op("Concat", *parts, axis=0))
    g.output(x, "y", rank=2)
    return g.model()


def selections(n: int) -> onnx.ModelProto:
    """A chain in which a size decides, by Where, how far the next Slice reaches."""
    g = GraphWriter(f"selections_{n}")
    x = g.input("x", ["rows", "cols"])
    limit = g.dim(x, 1)
    for i in range(n // 2):
        rows = g.dim(x, 0)
        small = g.op("Less", rows, limit)
        end = g.op("Where", small, rows, g.op("Sub", limit, g.vector(i % 7)))
        x = g.op("Slice", x, g.vector(i % 2), end, g.vector(0))
    g.output(x, "y", rank=2)
    return g.model()


DEPTHS = (4, 8, 16, 32, 64, 128, 256)


def _quarters(n: int) -> tuple[int, ...]:
    return (n // 8, n // 4, n // 2, n)


FAMILIES = (
    Family("llama", "layers of a Llama-like decoder", llama, DEPTHS),
    Family("unet", "layers of U-Nets in a row", unets, DEPTHS),
    Family("odd-convolutions", "chained convolutions of odd strides", odd_convolutions, _quarters(2000)),
    Family("doublings", "chained Concat(x, x)", doublings, _quarters(2000)),
    Family("broadcasts", "additions of distinct symbols", broadcasts, _quarters(500)),
    Family("equalities", "sizes that are all equal", equalities, _quarters(500)),
    Family("fans", "additions to one vector of distinct symbols", fans, _quarters(500)),
    Family("nested-ifs", "Ifs inside each other", nested_ifs, _quarters(200)),
    Family("products", "reshapes with products of six symbols", products, _quarters(300)),
    Family("selections", "Where and Slice nodes of a chain", selections, _quarters(1000)),
)
