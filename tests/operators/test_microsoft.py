"""Contrib operators of onnxruntime against onnxruntime: shapes, types, and the sizes at which a node runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

import shapesolve
from shapesolve.expr.cond import symbols_in
from shapesolve.operators import default_registry

from .conftest import FLOAT, INT32, INT64, agrees, one, shapes

UINT8, UINT16 = 2, 4
B, S = (0, 1, 2), (0, 1, 3)
SCALE, ZERO = np.float32(0.1), np.uint8(0)
RANDOM = np.random.default_rng(0)


def ms(
    op_type: str, *inputs: str | None, n_out: int = 1, consts: Any = None, dtypes: Any = FLOAT, **rest: Any
) -> Any:
    """A model of one node of com.microsoft (or another `domain`)."""
    domain = rest.pop("domain", "com.microsoft")
    return one(op_type, inputs, rest, consts, domain=domain, opset=1, n_out=n_out, dtypes=dtypes)


def f(*shape: int) -> Any:
    """Random floats."""
    return RANDOM.standard_normal(shape).astype(np.float32)


def quantized(*at: int) -> dict[int, Any]:
    """Scales and zero points, two by two, at these positions."""
    return {k: v for i in at for k, v in ((i, SCALE), (i + 1, ZERO))}


def test_every_schema_has_a_rule() -> None:
    registry = default_registry()
    domains = ("com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc", "ai.onnx.ml")
    schemas = [s for s in get_all_operator_schema() if s.domain in domains]
    missing = [s.name for s in schemas if registry.lookup(s.domain, s.name, s.since_version) is None]
    assert len(schemas) > 150
    assert not missing


def test_declared_types_are_those_of_the_schemas() -> None:
    """An output typed like an input shares its type variable with it, a fixed type is the schema's."""
    registry, wrong = default_registry(), []
    for s in get_all_operator_schema():
        rule = registry.lookup(s.domain, s.name, s.since_version)
        if s.domain != "com.microsoft" or rule is None or rule.types is None:
            continue
        allowed = {c.type_param_str: c.allowed_type_strs for c in s.type_constraints}
        for k, out in enumerate(s.outputs):
            source = rule.types[min(k, len(rule.types) - 1)]
            fixed = allowed.get(out.typeStr, [out.typeStr])
            if isinstance(source, int) and source < len(s.inputs):
                given = s.inputs[source].typeStr
                if given != out.typeStr and not (len(fixed) == 1 and allowed.get(given, [given]) == fixed):
                    wrong.append(f"{s.name}.{out.name}")
            elif (
                isinstance(source, str)
                and source != "undefined"
                and fixed[0] != f"tensor({source})"
                and k == 0
            ):
                wrong.append(f"{s.name}.{out.name}")
    # one variable each, but never another type than the input's
    assert set(wrong) <= {"MultiHeadAttention.qk", "DecoderMaskedMultiHeadAttention.qk", "GridSample.Y"}


# ---------------------------------------------------------------------- element by element, normalizations


@pytest.mark.parametrize(
    ("model", "sizes"),
    [
        (ms("BiasGelu", "B S C", "D"), {"B": (0, 2), "S": (0, 2), "C": (0, 1, 3), "D": (0, 1, 3)}),
        (ms("FastGelu", "B S C", "D"), {"B": (0, 2), "S": (0, 2), "C": (1, 3), "D": (1, 3)}),
        (ms("QuickGelu", "B C"), {"B": B, "C": S}),
        (ms("GatedAdd", "B 3", "C 3", "D E"), {"B": (0, 2), "C": (0, 2), "D": (0, 2), "E": (1, 3)}),
        (ms("GatedRMSNorm", "B K", "C", "B K"), {"B": B, "K": (0, 4, 6, 7), "C": B}),
        (ms("BranchwiseRMSNorm", "B 3 K", "4"), {"B": (0, 1), "K": (0, 3, 4)}),
        (ms("HyperConnectionPreMix", "B K", "B 3", num_branches=3), {"B": B, "K": (0, 3, 6, 7)}),
        (ms("MurmurHash3", "N", dtypes=INT32, positive=0), {"N": B}),
        (ms("MurmurHash3", "N", dtypes=INT32), {"N": B}),
        (ms("CDist", "M K", "N L", metric="euclidean"), {"M": S, "N": S, "K": (0, 2, 3), "L": (0, 2)}),
        (ms("Unique", "N", n_out=3), {"N": (0, 1, 4)}),
        (ms("UnfoldTensor", "B N", dim=1, size=3, step=2), {"B": (0, 2), "N": (0, 2, 3, 4, 8)}),
        (ms("DynamicTimeWarping", "K M N"), {"K": B, "M": (0, 1, 2), "N": (0, 3)}),
        (ms("ExpandDims", "N 3", consts={1: np.array(-1, np.int32)}), {"N": (0, 2)}),
        (
            ms("NGramRepeatBlock", "B S", "B V", dtypes=[INT64, FLOAT], ngram_size=2),
            {"B": B, "S": S, "V": (2, 5)},
        ),
        (
            ms("WordConvEmbedding", "S W", consts={1: f(8, 1, 3, 5), 2: f(8), 3: f(20, 5)}, dtypes=INT32),
            {"S": S, "W": (1, 3, 5)},
        ),
        (
            ms("LinearAttentionGate", "B T H", "J", "H", "B T H", n_out=2),
            {"B": (1, 2), "T": (0, 1), "H": (2, 3), "J": (2, 3)},
        ),
    ],
    ids=lambda v: v.graph.node[0].op_type if hasattr(v, "graph") else "",
)
def test_small(model: Any, sizes: dict[str, Any]) -> None:
    agrees(model, **sizes)


@pytest.mark.parametrize("last", [0, 1])
def test_a_quantized_global_pool_needs_what_it_averages(last: int) -> None:
    model = ms(
        "QLinearGlobalAveragePool",
        "N A B C",
        consts=quantized(1, 3),
        dtypes=UINT8,
        channels_last=last,
    )
    agrees(model, N=(0, 2), A=(0, 2), B=(0, 2), C=(0, 2))


@pytest.mark.parametrize("skip", ["C T 4", "T 4"])
def test_skip_layer_normalization(skip: str) -> None:
    model = ms("SkipLayerNormalization", "B S 4", skip, consts={2: f(4), 3: f(4), 4: f(4)}, n_out=4)
    sizes = {"C": (1, 2, 3)} if "C" in skip else {}
    analysis = agrees(model, B=B, S=(1, 2), T=(1, 2), **sizes)
    assert [str(analysis.shapes[f"y{i}"]) for i in (0, 1, 3)] == ["[B, S, 4]", "[B, S, 1]", "[B, S, 4]"]
    simple = ms("SkipSimplifiedLayerNormalization", "S H", "T H", "H")
    agrees(simple, H=(0, 1, 2), S=(0, 1, 2), T=(0, 1, 2))


def test_fused_layer_normalizations_of_the_standard_domain() -> None:
    simplified = one("SimplifiedLayerNormalization", ["N S C", "D"], {"axis": -1}, opset=17, n_out=2)
    agrees(simplified, N=(0, 1), S=(1, 3), C=(1, 4), D=(1, 4))
    agrees(one("LayerNormalization", ["N C", "C"], {"axis": -1}, opset=14, n_out=3), N=(0, 1, 3), C=(1, 4))


TABLES = {2: f(10, 4), 3: f(5, 4), 4: f(2, 4), 5: f(4), 6: f(4)}


def test_embeddings_need_a_position_for_each_word() -> None:
    model = ms("EmbedLayerNormalization", "B S", "B S", consts=TABLES, n_out=2, dtypes=INT32)
    agrees(model, B=B, S=(0, 1, 5, 6))
    placed = ms("EmbedLayerNormalization", "B S", None, "C T", "D U", consts=TABLES, n_out=3, dtypes=INT32)
    agrees(placed, B=(1, 2), S=(1, 2), C=(1, 2), T=(1, 2), D=(1, 2, 3), U=(1, 2))


# ---------------------------------------------------------------------- attention


SOME, MANY = (1, 2), (1, 3)
HEADS: list[tuple[tuple[str | None, ...], dict[str, tuple[int, ...]]]] = [
    (("B S 8", "B L 8", "B L 8"), {"B": B, "S": S, "L": S}),
    (("B S D", "B S D", "B S E"), {"B": SOME, "S": MANY, "D": (7, 8), "E": (6, 7)}),
    (("B S D", "B L D", "B L E"), {"B": B, "S": B, "L": B, "D": (4, 5), "E": (4, 5)}),
    (("B 3 8", "C L D", "E K 6"), {"B": SOME, "C": SOME, "L": MANY, "D": (6, 8), "E": SOME, "K": MANY}),
    (("B S 8", "B L 8", "B L 8", "W"), {"B": (1,), "S": MANY, "L": MANY, "W": (8, 16, 24)}),
    (("B S 8", "B 2 L 4", "C 2 K 4"), {"B": SOME, "S": MANY, "L": MANY, "C": SOME, "K": MANY}),
    (
        ("B S 8", "B S 8", "B S 8", None, None, None, "C 2 P 4", "B 2 Q 4"),
        {"B": SOME, "C": SOME, "S": MANY, "P": (0, 2), "Q": (0, 2)},
    ),
    (
        ("B 3 8", "B L 8", "B L 8", None, None, "C N 3 T"),
        {"B": MANY, "L": MANY, "C": SOME, "N": (1, 2, 3), "T": MANY},
    ),
]


@pytest.mark.parametrize(("model", "sizes"), HEADS)
def test_multi_head_attention(model: Any, sizes: dict[str, Any]) -> None:
    agrees(ms("MultiHeadAttention", *model, n_out=3 if len(model) > 6 else 1, num_heads=2), **sizes)


@pytest.mark.parametrize("mask", ["C", "C T", "C T U"])
def test_key_padding_masks(mask: str) -> None:
    kinds = [FLOAT, FLOAT, FLOAT, FLOAT, INT32]
    model = ms("MultiHeadAttention", "B S 8", "B L 8", "B L 8", None, mask, num_heads=2, dtypes=kinds)
    sizes = {"C": (1, 2, 5, 8), "T": (1, 2, 3), "U": (1, 3)}
    agrees(model, B=(1, 2), S=(1, 3), L=(1, 3), **{k: v for k, v in sizes.items() if k in mask})


def test_attention_keeps_a_past() -> None:
    weights = {1: f(6, 24), 2: f(24)}
    model = ms("Attention", "B S 6", None, "2 C N P H", consts=weights, n_out=2, num_heads=2)
    agrees(model, B=(1, 2), S=(1, 2), C=(1, 2), N=(1, 2), P=(0, 2), H=(3, 4))
    assert shapes(model) == ["[B, S, 8]", "[2, B, 2, P + S, 4]"]
    masked = ms("Attention", "B S 6", "C T", consts=weights, num_heads=2, dtypes=[FLOAT, INT32])
    agrees(masked, B=(1, 2), S=(1, 2, 3), C=(1, 2, 4), T=(1, 2, 3))
    uneven = ms("Attention", "B S 6", "6 W", "W", qkv_hidden_sizes=[8, 8, 6], num_heads=2)
    agrees(uneven, B=(1, 2), S=(1, 2), W=(22, 24))


GROUPS = {"num_heads": 4, "kv_num_heads": 2}
GROUPED = ("B S 64", "B S 32", "B S 32", "B 2 P 16", "B 2 P 16", "B")


def grouped(*inputs: str | None, total: int = 4, **rest: Any) -> Any:
    """GroupQueryAttention of a known total length."""
    kinds = [FLOAT] * (len(inputs) - 1) + [INT32]
    consts = {6: np.array(total, np.int32), **rest.pop("consts", {})}
    return ms("GroupQueryAttention", *inputs, n_out=3, dtypes=kinds, consts=consts, **GROUPS, **rest)


def lengths(at: Any) -> Any:
    return np.full(at["B"], 3, np.int32)


def test_group_query_attention() -> None:
    model = grouped(*GROUPED)
    analysis = agrees(model, {"x5": lengths}, B=(1, 2), S=(1, 2, 4, 5), P=(0, 1, 2, 3, 4, 8))
    assert str(analysis.shapes["y1"]) == "[B, 2, max(P, 4), 16]"
    packed = grouped("B S D", None, None, "B 2 P 16", "B 2 P 16", "B")
    agrees(packed, {"x5": lengths}, B=(1,), S=(1, 4), P=(3, 8), D=(64, 128, 129))
    first = grouped("B S 64", "B S 32", "B S 32", None, None, "B")
    agrees(first, {"x5": lengths}, B=(1, 2), S=(1, 3, 4))


@pytest.mark.parametrize("rows", [3, 4, 6])
def test_group_query_attention_needs_rotary_rows(rows: int) -> None:
    model = grouped(*GROUPED, consts={7: f(rows, 8), 8: f(rows, 8)}, do_rotary=1)
    agrees(model, {"x5": lengths}, B=(1,), S=(1, 4), P=(0, 3, 8))


def test_group_query_attention_needs_a_key() -> None:
    """Without new tokens, too."""
    model = grouped(*GROUPED, total=0)
    agrees(model, {"x5": lambda at: np.full(at["B"], -1, np.int32)}, B=(1, 2), S=(0, 1), P=(0, 4))


def test_cache_of_a_total_length_that_is_data() -> None:
    inputs = ("B S 64", "B S 32", "B S 32", "B 2 P 16", "B 2 P 16", "B", "")
    model = ms("GroupQueryAttention", *inputs, n_out=3, dtypes=[FLOAT] * 5 + [INT32] * 2, **GROUPS)
    length = shapesolve.analyze(model).shapes["y1"][2]
    assert any(size.is_made for size in symbols_in(length).values())


def test_rotary_embedding() -> None:
    tables = {2: f(10, 4), 3: f(10, 4)}
    model = ms("RotaryEmbedding", "B S 16", "C T", consts=tables, dtypes=[FLOAT, INT64])
    agrees(model, B=(1, 2), S=(1, 3), C=(1, 2), T=(1, 3))
    heads_first = ms("RotaryEmbedding", "B 2 S 8", "1", consts=tables, dtypes=[FLOAT, INT64])
    agrees(heads_first, {"x1": np.array([0])}, B=B, S=(0, 1, 10, 11))


@pytest.mark.parametrize("part", [0, 2, 3])
@pytest.mark.parametrize("heads", [0, 1, 2])
def test_angles_of_a_head(heads: int, part: int) -> None:
    """Heads of no size are left out where onnxruntime divides by that and dies."""
    attrs, zero = {"num_heads": heads, "rotary_embedding_dim": part}, {"x1": np.array([0])}
    some = (("1 3 H", range(min(heads + part, 1), 9)), ("1 2 3 H", range(1, 6)))
    none = (("0 3 H", range(9)), ("1 0 H", range(9)), ("1 0 2 H", range(5)), ("0 2 2 H", range(5)))
    for x, sizes in (*some, *none):
        model = ms("RotaryEmbedding", x, "1", "4 C", "4 C", dtypes=[FLOAT, INT64, FLOAT, FLOAT], **attrs)
        agrees(model, zero, H=sizes, C=range(4))


def test_states() -> None:
    attention = ms(
        "LinearAttention", "B T 8", "B T 4", "B T 6", n_out=2,
        q_num_heads=2, kv_num_heads=1, update_rule="linear",
    )  # fmt: skip
    agrees(attention, B=B, T=S)
    agrees(ms("CausalConvWithState", "B C L", consts={1: f(3, 1, 4)}, n_out=2), B=B, C=(2, 3), L=(0, 1, 5))


def test_removed_padding_is_bounded() -> None:
    model = ms("RemovePadding", "B S 8", "B", n_out=4, dtypes=[FLOAT, INT32])
    assert shapes(model)[1:] == ["[B, S]", "[B + 1]", "[1]"]
    analysis = shapesolve.analyze(model)
    tokens = analysis.shapes["y0"][0]
    assert any(
        tokens.free <= entry.cond.free
        for entry in analysis._solved.walk.state.log
        if entry.role == "definition"
    )


# ---------------------------------------------------------------------- matrix products, quantization


@pytest.mark.parametrize(
    ("inputs", "attrs"),
    [
        (("A 3 K", "5 L"), {"transB": 1}),
        (("A K 3", "2 L 5"), {"transA": 1}),
        (("3 A K", "2 L 5"), {"transBatchA": 1}),
        (("3 A K", "L 2 5"), {"transBatchA": 1, "transBatchB": 1}),
        (("A 3 2 K", "3 2 5 L"), {"transBatchA": 1, "transB": 1}),
        (("K", "L 5"), {"transA": 1}),
        (("A K 3", "L"), {"transA": 1}),
    ],
)
def test_fused_matmul(inputs: tuple[str, str], attrs: dict[str, int]) -> None:
    names = {"A": (1, 2), "K": (3, 4), "L": (3, 4)}
    agrees(ms("FusedMatMul", *inputs, **attrs), **{n: v for n, v in names.items() if n in " ".join(inputs)})


def test_matmul_nbits() -> None:
    weights = {1: np.zeros((8, 2, 8), np.uint8), 2: f(8, 2)}
    model = ms("MatMulNBits", "B S D", consts=weights, N=8, K=32, block_size=16, bits=4)
    agrees(model, B=B, S=S, D=(0, 31, 32))
    assert shapes(model) == ["[B, S, 8]"]
    flat = ms(
        "MatMulBnb4",
        "S D",
        consts={1: np.zeros(128, np.uint8), 2: f(16)},
        N=8,
        K=32,
        block_size=16,
        quant_type=1,
    )
    agrees(flat, S=S, D=(31, 32))


@pytest.mark.parametrize(
    ("op_type", "kinds", "consts"),
    [
        ("DynamicQuantizeMatMul", [FLOAT, UINT8], quantized(2)),
        ("MatMulIntegerToFloat", [UINT8, UINT8], {2: SCALE, 3: SCALE}),
        ("MatMulInteger16", [5, 5], {}),
        ("QGemm", [UINT8, UINT8], quantized(1, 4)),
    ],
)
def test_matrix_products(op_type: str, kinds: list[int], consts: dict[int, Any]) -> None:
    agrees(ms(op_type, "A B", "C 4", consts=consts, dtypes=kinds), A=(1, 2), B=(2, 3), C=(2, 3))


def test_quantized_operators() -> None:
    add = ms("QLinearAdd", "N 3", "M 3", consts=quantized(1, 4, 6), dtypes=UINT8)
    agrees(add, N=(0, 1, 2, 3), M=(0, 1, 2, 3))
    joined = ms("QLinearConcat", "A 3", "B D", consts=quantized(0, 3, 6), dtypes=UINT8, axis=0)
    agrees(joined, A=(1, 2), B=(1, 2), D=(2, 3))
    agrees(ms("FusedGemm", "A B", "3 D", activation="Relu", transB=1), A=(0, 2), B=(2, 3), D=(2, 3))
    agrees(ms("QuantizeLinear", "N 3", consts=quantized(1)), N=B)
    agrees(ms("DequantizeLinear", "N 3", consts=quantized(1), dtypes=UINT8), N=B)
    assert shapes(
        ms("QLinearReduceMean", "N M 3", consts=quantized(1, 3), dtypes=UINT8, axes=[1], keepdims=0)
    ) == ["[N, 3]"]


def test_quantized_lstm() -> None:
    weights = {1: np.zeros((2, 3, 16), np.int8), 2: np.zeros((2, 4, 16), np.int8), 3: f(2, 32)}
    scales = {8: f(2), 9: np.zeros(2, np.int8), 10: f(2), 11: np.zeros(2, np.int8)}
    absent = [None] * 4
    model = ms(
        "DynamicQuantizeLSTM", "S B I", *absent, consts={**weights, **scales}, n_out=3,
        hidden_size=4, direction="bidirectional",
    )  # fmt: skip
    assert shapes(model) == ["[S, 2, B, 4]", "[2, B, 4]", "[2, B, 4]"]
    agrees(model, S=(1, 2), B=(1, 3), I=(3, 4))


def test_attention_of_quantized_input() -> None:
    consts = {1: np.zeros((6, 24), np.int8), 2: f(24), 3: SCALE, 4: SCALE}
    model = ms("QAttention", "B S 6", consts=consts, dtypes=UINT8, n_out=2, num_heads=2)
    agrees(model, B=(1, 2), S=S)


# ---------------------------------------------------------------------- layouts


def test_fused_conv_adds_a_tensor_of_its_result() -> None:
    weights = {1: f(4, 3, 3, 3), 2: f(4)}
    strided = ms("FusedConv", "N 3 H 8", consts=weights, activation="Relu", strides=[2, 1], pads=[1, 1, 1, 1])
    agrees(strided, N=B, H=(1, 2, 5))
    added = ms("FusedConv", "N C H 8", "N 4 G 8", consts=weights, pads=[1, 1, 1, 1])
    agrees(added, N=(1, 2), H=(1, 2, 5), C=(2, 3), G=(1, 2, 5))


def test_channels_last() -> None:
    weights = {**quantized(1, 6), 3: np.zeros((4, 3, 3, 3), np.uint8), 4: SCALE, 5: ZERO}
    conv = ms("QLinearConv", "N H 8 C", consts=weights, dtypes=UINT8, channels_last=1, strides=[2, 2])
    agrees(conv, N=(1, 2), H=(1, 2, 3, 5), C=(3, 4))
    assert shapes(conv) == ["[N, (H + 1)//2 - 1, 3, 4]"]
    pool = ms("NhwcMaxPool", "N H W C", dtypes=UINT8, kernel_shape=[2, 2], strides=[2, 2])
    agrees(pool, N=(1, 2), H=(2, 3, 5), W=(2, 3), C=(3, 4))
    internal = ms(
        "Conv", "N H W 3", consts={1: f(4, 3, 3, 3)}, domain="com.ms.internal.nhwc", pads=[1, 1, 1, 1]
    )
    assert shapes(internal) == ["[N, H, W, 4]"]


def test_requirements_speak_of_the_node_itself() -> None:
    """A rewired operator's requirement names the input and axis of the node, not of the rule."""
    weights = {**quantized(1, 6), 3: np.zeros((4, 3, 3, 3), np.uint8), 4: SCALE, 5: ZERO}
    conv = ms("QLinearConv", "N H 8 C", consts=weights, dtypes=UINT8, channels_last=1)
    log = [e for e in shapesolve.analyze(conv)._solved.walk.state.log if e.role == "requirement"]
    channels = next(e for e in log if "C" in e.cond.free)
    assert (0, 3) in channels.places
    window = next(e for e in log if "H" in e.cond.free)
    assert (0, 1) in window.places


def test_channels_in_blocks() -> None:
    def blocked(op_type: str, *inputs: str, **rest: Any) -> Any:
        return ms(op_type, *inputs, domain="com.microsoft.nchwc", **rest)

    agrees(blocked("ReorderInput", "N C H W"), N=(1,), C=(4, 8, 16, 32), H=(1, 3), W=(2,))
    agrees(blocked("ReorderInput", "N H W 32", channels_last=1), N=(1,), H=(1, 3), W=(2,))
    agrees(blocked("ReorderOutput", "N 16 H W", channels=10), N=(1, 2), H=(1, 3), W=(2,))
    agrees(blocked("ReorderOutput", "N 16 H W", channels=10, channels_last=1), N=(1, 2), H=(1, 3), W=(2,))
    agrees(blocked("GlobalAveragePool", "N 16 H W"), N=(1, 2), H=(1, 3), W=(2,))
    agrees(blocked("Upsample", "N 16 H W", scales=[1, 1, 2, 2], mode="nearest"), N=(1, 2), H=(1, 3), W=(2,))
    conv = blocked("Conv", "N C H W", consts={1: f(32, 16, 3, 3)}, pads=[1, 1, 1, 1], strides=[2, 2])
    agrees(conv, N=(1, 2), C=(16, 32), H=(1, 3, 4), W=(2,))


def test_conv_transpose_with_dynamic_pads() -> None:
    consts = {1: f(3, 4, 3, 3), 2: np.array([0, 1, 1, 1])}
    agrees(
        ms("ConvTransposeWithDynamicPads", "N C H W", consts=consts, strides=[2, 2]),
        N=(1, 2),
        H=(1, 5),
        W=(1, 3),
        C=(3, 4),
    )


def test_generation() -> None:
    consts = {1: np.array([20], np.int32), 3: np.array([4], np.int32), 4: np.array([2], np.int32)}
    model = ms(
        "BeamSearch",
        "B S",
        None,
        consts=consts,
        dtypes=INT32,
        n_out=3,
        vocab_size=100,
        eos_token_id=1,
        pad_token_id=0,
    )
    found = shapes(model)
    assert found[:2] == ["[B, 2, 20]", "[B, 2]"]
    assert found[2] is not None
    assert found[2].endswith(", B, 4, 100]")


def test_unknown_rank_stays_open() -> None:
    assert shapes(ms("FusedMatMul", "?", "?", transB=1)) == [None]
    assert shapes(ms("NhwcMaxPool", "?", kernel_shape=[2, 2])) == [None]
    assert shapes(ms("Tokenizer", "N", dtypes=8, mark=0, pad_value="", mincharnum=1, separators=[" "])) == [
        None
    ]
