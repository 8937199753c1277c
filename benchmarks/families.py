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


def slices(n: int) -> onnx.ModelProto:
    """Slices whose starts and ends take turns."""
    g = GraphWriter(f"slices_{n}")
    x = g.input("x", ["N", "M"])
    starts, ends = [g.vector(i) for i in (1, 0, 2)], [g.vector(-1), g.vector(2**62)]
    for i in range(n):
        x = g.op("Slice", x, starts[i % 3], ends[i % 2], g.vector(0))
    g.output(x, "y", rank=2)
    return g.model()


def tiles(n: int) -> onnx.ModelProto:
    """Tiles by two, each cut to five elements again."""
    g = GraphWriter(f"tiles_{n}")
    x = g.input("x", ["N"])
    for _ in range(n):
        x = g.op("Slice", g.op("Tile", x, g.vector(2)), g.vector(0), g.vector(5), g.vector(0))
    g.output(x, "y", rank=1)
    return g.model()


def resizes(n: int) -> onnx.ModelProto:
    """Resizes by four scales in turn."""
    g = GraphWriter(f"resizes_{n}")
    x = g.input("x", [1, 1, "H", "W"])
    scales = [g.vector(1.0, 1.0, *pair) for pair in ((1.5, 2.0), (0.5, 0.5), (2.0, 1.25), (0.75, 1.0))]
    for i in range(n):
        x = g.op("Resize", x, "", scales[i % 4], mode="nearest")
    g.output(x, "y", rank=4)
    return g.model()


def flattenings(n: int) -> onnx.ModelProto:
    """Reshapes to one column and to swapped sizes, with targets computed from Shape as exporters write them."""
    g = GraphWriter(f"flattenings_{n}")
    x = g.input("x", ["N", "M"])
    for _ in range(n):
        rows, columns = g.dim(x, 0), g.dim(x, 1)
        flat = g.op("Reshape", x, g.op("Concat", g.op("Mul", rows, columns), g.vector(1), axis=0))
        x = g.op("Reshape", flat, g.op("Concat", columns, rows, axis=0))
    g.output(x, "y", rank=2)
    return g.model()


def sums_of_parts(n: int) -> onnx.ModelProto:
    """Concats of inputs of distinct lengths, added to one more input each: 64 parts in all sums together."""
    g = GraphWriter(f"sums_of_parts_{n}")
    parts = [g.input(f"x{i}", [f"n{i}"]) for i in range(64)]
    for i in range(n):
        joined = g.op("Concat", *parts[: 2 + i % 63], axis=0)
        g.output(g.op("Add", joined, g.input(f"z{i}", [f"m{i}"])), f"y{i}", rank=1)
    return g.model()


def gathers(n: int) -> onnx.ModelProto:
    """Gathers at a position that grows by what the last one found."""
    g = GraphWriter(f"gathers_{n}")
    x, at = g.input("x", ["N"], INT64), g.input("at", [1], INT64)
    for i in range(n):
        at = g.op("Add", g.op("Gather", x, at), g.vector(i % 3))
    g.output(at, "y", rank=1, dtype=INT64)
    return g.model()


def long_sums(n: int) -> onnx.ModelProto:
    """One Concat after the other of inputs with names of their own."""
    g = GraphWriter(f"long_sums_{n}")
    x = g.input("x0", ["n0", 4])
    for i in range(1, n + 1):
        x = g.op("Concat", x, g.input(f"x{i}", [f"n{i}", 4]), axis=0)
    g.output(x, "y", rank=2)
    return g.model()


def wide(n: int) -> onnx.ModelProto:
    """One Concat of one tensor, given as many times as the size says, a thousand for each."""
    g = GraphWriter(f"wide_{n}")
    x = g.input("x", ["N", 4])
    g.output(g.op("Concat", *[x] * (1000 * n), axis=0), "y", rank=2)
    return g.model()


def loops(n: int) -> onnx.ModelProto:
    """Loops in a row whose trip counts are sizes of what the last one made."""
    g = GraphWriter(f"loops_{n}")
    x = g.input("x", ["N", "M"])
    for i in range(n):
        value, scanned = f"v{i}", f"w{i}"
        nodes = [
            helper.make_node("Identity", [f"c{i}"], [f"go{i}"]),
            helper.make_node("Concat", [value, "x"], [scanned], axis=0),
        ]
        given = [
            helper.make_tensor_value_info(f"i{i}", INT64, []),
            helper.make_tensor_value_info(f"c{i}", BOOL, []),
            helper.make_tensor_value_info(value, TensorProto.FLOAT, None),
        ]
        made = [
            helper.make_tensor_value_info(f"go{i}", BOOL, []),
            helper.make_tensor_value_info(scanned, TensorProto.FLOAT, None),
        ]
        body = helper.make_graph(nodes, f"body{i}", given, made)
        trips = g.op("Gather", g.op("Shape", x), g.scalar(0), axis=0)
        x = g.op("Loop", trips, "", x, body=body)
    g.output(x, "y", rank=2)
    return g.model()


def calls(n: int) -> onnx.ModelProto:
    """Functions that call the one before twice: a graph of 2**depth nodes, with a depth that grows by one in a hundred."""
    model = onnx.ModelProto(ir_version=IR_VERSION, producer_name="shapesolve-examples")
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("own", 1)]
    model.opset_import.extend(opsets)
    for i in range(max(n // 100, 1) + 4):
        inner = ("Concat", "") if i == 0 else (f"f{i - 1}", "own")
        first = helper.make_node(inner[0], ["a", "a"][: 2 if i == 0 else 1], ["b"], domain=inner[1])
        second = helper.make_node(inner[0], ["b", "b"][: 2 if i == 0 else 1], ["c"], domain=inner[1])
        if i == 0:
            for node in (first, second):
                node.attribute.add(name="axis", i=0, type=onnx.AttributeProto.INT)
        model.functions.append(helper.make_function("own", f"f{i}", ["a"], ["c"], [first, second], opsets))
    model.graph.name = f"calls_{n}"
    model.graph.input.add().CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4]))
    model.graph.output.add().CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    model.graph.node.add(op_type=f"f{i}", domain="own", input=["x"], output=["y"])
    return model


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

LENGTHS = (100, 200, 400, 800, 1600)
#: models made to be hard for what is asked of an analysis, too: its contract, findings, proofs and texts
HOSTILE = (
    Family("slices", "Slices in a row", slices, LENGTHS),
    Family("tiles", "Tiles in a row, cut to five elements", tiles, LENGTHS),
    Family("resizes", "Resizes in a row", resizes, LENGTHS),
    Family("flattenings", "Reshapes with targets from Shape, Gather, Mul and Concat", flattenings, LENGTHS),
    Family("sums-of-parts", "Adds of Concats of up to 64 names", sums_of_parts, LENGTHS),
    Family("gathers", "Gathers at positions that Gathers find", gathers, LENGTHS),
    Family("long-sums", "Concats of distinct names", long_sums, LENGTHS),
    Family("chained-adds", "Adds of distinct names", broadcasts, LENGTHS),
    Family("loops", "Loops in a row", loops, LENGTHS),
    Family("calls", "functions that call functions twice", calls, LENGTHS),
    Family("wide", "thousands of inputs of one Concat", wide, (100, 200, 400, 800)),
)
