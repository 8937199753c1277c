"""Which axes of their inputs the standard operators carry to their outputs: the table (notation: see `provenance`)."""

from __future__ import annotations

from .provenance_layouts import (
    along_attribute,
    arg,
    batch_norm,
    concat,
    cut,
    dropout,
    elementwise,
    expand,
    filled,
    first_only,
    layer_norm,
    mean_variance,
    pad,
    quantize,
    reduce,
    regroup,
    resize,
    running,
    softmax,
    split,
    tile,
    top_k,
    transpose,
    triangle,
)
from .provenance_notation import Rule, axes, mixes
from .provenance_products import (
    attention,
    compress,
    einsum,
    fourier,
    gather,
    gather_elements,
    gather_nd,
    gemm,
    matmul,
    one_hot,
    qlinear_matmul,
    recurrent,
    reverse_sequence,
    rotary,
    scatter_elements,
    scatter_nd,
)

ELEMENTWISE = """
    Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Ceil Celu Cos Cosh Div
    Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less LessOrEqual
    Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus
    Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor StringConcat
"""
REDUCTIONS = """
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare
"""
FIRST_ONLY = "Cast CastLike Clip BitCast RegexFullMatch"

_LETTERS = {
    "Conv": "N c *s, m *w, m -> N K *S",
    "ConvInteger": "N c *s, m *w, ?, ? -> N K *S",
    "ConvTranspose": "N c *s, c m *w, m -> N K *S",
    "QLinearConv": "N c *s, ?, ?, ?, ?, ?, ?, ?, ? -> N K *S",
    "DeformConv": "N c *s, ?, N ..., ?, N ... -> N K *S",
    "AveragePool": "N C *s -> N C *S",
    "LpPool": "N C *s -> N C *S",
    "MaxPool": "N C *s -> N C *S, ...",
    "GlobalAveragePool": "N C *s -> N C *S",
    "GlobalMaxPool": "N C *s -> N C *S",
    "GlobalLpPool": "N C *s -> N C *S",
    "InstanceNormalization": "N c *s, ?, ? -> N ^c *^s",
    "GroupNormalization": "N c *s, ?, ? -> N ^c *^s",
    "LRN": "N c *S -> N C *S",
    "DepthToSpace": "N c h w -> N C H W",
    "SpaceToDepth": "N c h w -> N C H W",
    "Det": "*S m n -> *S",
    "GridSample": "N C *s, N *Q d -> N C *Q",
    "AffineGrid": "N i j, # -> N ...",
    "Col2Im": "N c l, #, # -> N ...",
    "RoiAlign": "n C h w, R four, R -> R C H W",
    "STFT": "N t ..., #, w, # -> N F B c",
    "MelWeightMatrix": "#, #, #, #, # -> ...",
    "SwiGLU": "*S, *S -> *S",
}
_FUNCTIONS: dict[str, Rule] = {
    **dict.fromkeys(ELEMENTWISE.split(), elementwise),
    **dict.fromkeys(FIRST_ONLY.split(), first_only),
    **dict.fromkeys(["Softmax", "LogSoftmax", "Hardmax"], softmax),
    **dict.fromkeys(["LpNormalization"], along_attribute),
    **dict.fromkeys(["CumSum", "CumProd"], running),
    **dict.fromkeys(["LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"], layer_norm),
    **dict.fromkeys(REDUCTIONS.split(), reduce),
    **dict.fromkeys(["ArgMax", "ArgMin"], arg),
    **dict.fromkeys(["QuantizeLinear", "DequantizeLinear"], quantize),
    **dict.fromkeys(["Reshape", "Flatten", "Squeeze", "Unsqueeze"], regroup),
    **dict.fromkeys(["Resize", "Upsample"], resize),
    **dict.fromkeys(["MatMul", "MatMulInteger"], matmul),
    **dict.fromkeys(["Scatter", "ScatterElements"], scatter_elements),
    **dict.fromkeys(["LSTM", "GRU", "RNN"], recurrent),
    "Attention": attention,
    "BatchNormalization": batch_norm,
    "Compress": compress,
    "Concat": concat,
    "ConstantOfShape": filled,
    "DFT": fourier,
    "Dropout": dropout,
    "Einsum": einsum,
    "Expand": expand,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "Gemm": gemm,
    "MeanVarianceNormalization": mean_variance,
    "OneHot": one_hot,
    "Pad": pad,
    "QLinearMatMul": qlinear_matmul,
    "ReverseSequence": reverse_sequence,
    "RotaryEmbedding": rotary,
    "ScatterND": scatter_nd,
    "Slice": cut,
    "Split": split,
    "Tile": tile,
    "TopK": top_k,
    "Transpose": transpose,
    "Trilu": triangle,
}

_TOGETHER = "lists what it finds in all rows of {symbol} together: data decides how much of it each row has"
_MIXES = {
    "DynamicQuantizeLinear": "takes one scale for all rows of {symbol}",
    "NonMaxSuppression": _TOGETHER,
    "NonZero": _TOGETHER,
    "Unique": _TOGETHER,
}

STANDARD: dict[str, Rule] = {
    **{name: axes(text) for name, text in _LETTERS.items()},
    **{name: mixes(what) for name, what in _MIXES.items()},
    **_FUNCTIONS,
}
