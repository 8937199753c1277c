"""Which axes of their inputs the operators of ONNX-ML and of onnxruntime carry to their outputs (see `provenance`)."""

from __future__ import annotations

from ..expr import ONE
from .provenance_layouts import along, elementwise, layer_norm, own
from .provenance_notation import Items, Label, Links, Rule, Unfollowed, View, axes, mixes
from .provenance_operators import STANDARD
from .provenance_products import batched, gather_elements, matmul_of

#: opset since which Softmax goes along one axis
_ONE_AXIS = 13

# ---------------------------------------------------------------------- onnxruntime


def fused_matmul(view: View) -> Links:
    """MatMul of which each operand may be transposed."""
    if view.attr("transBatchA", 0) or view.attr("transBatchB", 0):
        raise Unfollowed
    found = matmul_of(view, 0, 1)
    inputs = [list(labels or ()) for labels in found.inputs]
    for i, flag in enumerate(("transA", "transB")):
        if view.attr(flag, 0):
            inputs[i][-2:] = inputs[i][:-3:-1]
    return Links(inputs, found.outputs, broadcasts=True)


def skip_norm(view: View) -> Links:
    """The sum of two tensors, normalized along the last axis; mean and deviation are left out by onnxruntime."""
    rank = view.rank(0)
    x: list[Label] = [*range(-rank, -1), "h"]
    skip: list[Label] = [*range(-view.rank(1), -1), "h"]
    rest = [[("?", i, k) for k in range(len(view.shapes[i] or ()))] for i in range(2, view.n_in)]
    normal: list[Items] = [*([k] for k in range(-rank, -1)), ["H"]]
    summed: list[Items] = [*([k] for k in range(-rank, -1)), ["h"]]
    return Links([x, skip, *rest], [normal, None, None, summed], broadcasts=True)


def batch_first(*operands: int) -> Rule:
    """Attention: the first axis of these operands, and of all outputs that have its size, is the batch."""

    def rule(view: View) -> Links:
        size = view.shape(0)[0]
        inputs: list[list[Label]] = []
        for i in range(view.n_in):
            own: list[Label] = [(i, k) for k in range(view.rank(i) if view.has(i) else 0)]
            inputs.append(["B", *own[1:]] if i in operands and own else own)
        outputs = [batched(made) if made and made[0] is size else None for made in view.made]
        return Links(inputs, outputs)

    return rule


def embedded(view: View) -> Links:
    """Words, segments, a mask and positions, ``[B, S]`` each; the positions may be one row for all."""
    found = batch_first(0, 1, 7, 8)(view)
    inputs = [list(labels or ()) for labels in found.inputs]
    for i in (0, 1, 7, 8):
        if view.has(i):
            inputs[i] = ["B" if i < 8 or view.shape(8)[0] is not ONE else "one", "s"]
    return Links(inputs, found.outputs)


def attention_with_past(view: View) -> Links:
    """The past and present of `Attention` have keys and values first, the batch second."""
    found = batch_first(0, 3)(view)
    inputs = [list(labels or ()) for labels in found.inputs]
    if view.has(4):
        inputs[4][1] = "B"
    if view.has(5) and view.shape(5)[0] is not ONE:
        inputs[5][0] = "B"
    outputs = list(found.outputs)
    if len(view.made) > 1 and view.made[1] is not None:
        outputs[1] = batched(view.made[1], at=1)
    return Links(inputs, outputs)


def mask_of_keys(view: View) -> Links:
    """`MultiHeadAttention`: a bias for all rows has a first axis of size 1."""
    bias = view.has(5) and view.shape(5)[0] is not ONE
    return batch_first(0, 1, 2, 4, 6, 7, *((5,) if bias else ()))(view)


def _first_axis(view: View) -> Links:
    """An image operator: the first axis of the first input is the batch; of a last input of its shape, too (a sum)."""
    inputs: list[list[Label]] = [[(i, k) for k in range(len(view.shapes[i] or ()))] for i in range(view.n_in)]
    inputs[0][0] = "N"
    if view.n_in > 3 and view.has(3) and view.rank(3) == view.rank(0):
        inputs[3][0] = "N"
    made = view.out()
    return Links(inputs, [[["N"], *([("new", k)] for k in range(1, len(made)))]])


def rotary(view: View) -> Links:
    """Positions of one row for all are a start: one number."""
    return batch_first(0, *((1,) if view.rank(1) > 1 else ()))(view)


def quantized_softmax(view: View) -> Links:
    axis = view.axis(-1)
    acted = [axis] if view.attr("opset", 13) >= _ONE_AXIS else range(axis, view.rank(0))
    return along(view, acted)


def quantized_concat(view: View) -> Links:
    """Scale and zero point of the output, then three operands for each tensor."""
    tensors = range(2, view.n_in, 3)
    rank = view.rank(2)
    axis = view.axis(0, rank)
    inputs: list[list[Label]] = [own(i, len(view.shapes[i] or ())) for i in range(view.n_in)]
    for i in tensors:
        inputs[i] = [("cut", i) if k == axis else k for k in range(rank)]
    return Links(inputs, [[["joined" if k == axis else k] for k in range(rank)]])


def quantized_gemm(view: View) -> Links:
    left: list[Label] = ["k", "M"] if view.attr("transA", 0) else ["M", "k"]
    right: list[Label] = ["N", "k"] if view.attr("transB", 0) else ["k", "N"]
    inputs: list[list[Label]] = [own(i, len(view.shapes[i] or ())) for i in range(view.n_in)]
    inputs[0], inputs[3] = left, right
    if view.has(6) and view.rank(6):
        inputs[6] = [*inputs[6][:-1], "N"]
    return Links(inputs, [[["M"], ["N"]]])


_MICROSOFT: dict[str, Rule] = {
    **dict.fromkeys(["BiasGelu", "FastGelu", "Gelu", "QuickGelu", "BiasAdd"], elementwise),
    **dict.fromkeys(["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"], skip_norm),
    **dict.fromkeys(["LayerNormalization", "SimplifiedLayerNormalization"], layer_norm),
    "EmbedLayerNormalization": embedded,
    "GroupQueryAttention": batch_first(0, 1, 2, 3, 4, 5, 9),
    "MultiHeadAttention": mask_of_keys,
    **dict.fromkeys(
        [
            "FusedConv",
            "NhwcConv",
            "NhwcFusedConv",
            "NhwcMaxPool",
            "QLinearAveragePool",
            "QLinearConv",
            "QLinearGlobalAveragePool",
        ],
        _first_axis,
    ),
    "Attention": attention_with_past,
    "DynamicQuantizeLSTM": axes(  # one scale for all rows
        "t B i, d i g, d h g, d b, B, d B h, d B h, d p, ?, ?, ?, ? -> T d ^B H, d ^B H, d ^B H"
    ),
    "FusedMatMul": fused_matmul,
    "TransposeMatMul": fused_matmul,
    "FusedGemm": STANDARD["Gemm"],
    "MatMulIntegerToFloat": lambda view: matmul_of(view, 0, 1),
    "DynamicQuantizeMatMul": mixes("takes one scale for all rows of {symbol}"),
    "QGemm": quantized_gemm,
    **dict.fromkeys(["QLinearAdd", "QLinearMul"], axes("~S, ?, ?, ~S, ?, ?, ?, ? -> ~S")),
    "QLinearWhere": axes("~S, ~S, ?, ?, ~S, ?, ?, ?, ? -> ~S"),
    **dict.fromkeys(["QLinearSigmoid", "QLinearLeakyRelu"], axes("*S -> *S")),
    "QLinearSoftmax": quantized_softmax,
    "QLinearConcat": quantized_concat,
    "RotaryEmbedding": rotary,
    "GatherElements": gather_elements,
    "MatMulNBits": axes("*S k -> *S N"),
    "QuantizeLinear": STANDARD["QuantizeLinear"],
    "DequantizeLinear": STANDARD["DequantizeLinear"],
}
_CHANNELS_LAST: dict[str, Rule] = dict.fromkeys(
    [
        "Conv",
        "MaxPool",
        "AveragePool",
        "GlobalAveragePool",
        "GlobalMaxPool",
        "ReorderInput",
        "ReorderOutput",
        "Upsample",
    ],
    _first_axis,
)

# ---------------------------------------------------------------------- ONNX-ML


def picked_features(view: View) -> Links:
    """Columns of the first input, picked by all elements of the second."""
    x: list[Label] = [(0, k) for k in range(view.rank(0))]
    picks: list[Label] = [(1, k) for k in range(view.rank(1))]
    rest: list[Items] = [[name] for name in x[:-1]] or [[]]
    return Links([x, picks], [[*rest, picks]])


_SAMPLES = """
    LinearClassifier LinearRegressor SVMClassifier SVMRegressor TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor
    Normalizer
"""
_ML: dict[str, Rule] = {
    **dict.fromkeys(_SAMPLES.split(), axes("N ... -> N ..., N ...")),
    **dict.fromkeys(["Binarizer", "Imputer", "LabelEncoder", "CategoryMapper"], axes("*S -> *S")),
    "Scaler": axes("*S c -> *S C"),
    "OneHotEncoder": axes("*S -> *S K"),
    "ArrayFeatureExtractor": picked_features,
}

RULES: dict[tuple[str, str], Rule] = {
    **{("", name): rule for name, rule in STANDARD.items()},
    **{("com.microsoft", name): rule for name, rule in _MICROSOFT.items()},
    **{("com.microsoft.nchwc", name): rule for name, rule in _CHANNELS_LAST.items()},
    **{("ai.onnx.ml", name): rule for name, rule in _ML.items()},
}


def rule_of(domain: str, op_type: str) -> Rule | None:
    """The declaration of an operator, or None."""
    return RULES.get(("" if domain == "ai.onnx" else domain, op_type))
