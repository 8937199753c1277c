"""Differences between the ONNX standard and onnxruntime.

`analyze(semantics="onnxruntime")`, the default, says what happens when the model is run by the release `FOLLOWED`, which
the tests compare with; ``"onnx"`` follows the text of https://onnx.ai/onnx/operators/. A rule asks `Op.as_onnxruntime`
with a key of this table; the page on operators prints it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Semantics = Literal["onnxruntime", "onnx"]
SEMANTICS: tuple[Semantics, ...] = ("onnxruntime", "onnx")

#: the release of onnxruntime that ``"onnxruntime"`` follows
FOLLOWED = "1.32"


class Difference(NamedTuple):
    """A difference between the standard and onnxruntime, for some operators."""

    operators: str
    standard: str
    onnxruntime: str


DIFFERENCES: dict[str, Difference] = {
    "pool-pads": Difference(
        "MaxPool, AveragePool, LpPool, MaxUnpool",
        "pads may be of any size >= 0",
        "pads must be smaller than the kernel, also where auto_pad makes them void",
    ),
    "pool-dilated-same": Difference(
        "MaxPool, LpPool",
        "SAME_UPPER and SAME_LOWER give ceil(size / stride) elements",
        "the padding ignores the dilations, so a dilated window gives fewer",
    ),
    "conv-dilated-same": Difference(
        "Conv, ConvInteger, QLinearConv, FusedConv",
        "SAME_UPPER and SAME_LOWER give ceil(size / stride) elements",
        "with a dilation above 1 on any axis, the node fails when it is run",
    ),
    "unpool-output-shape": Difference(
        "MaxUnpool",
        "output_shape has room for the unpooled tensor on each axis",
        "axes 0 and 1 must equal the first input's; the other axes only need enough elements in total",
    ),
    "slice-end": Difference(
        "Slice",
        "an end is clamped to the axis, so that a step below 0 with a large end gives nothing",
        "an end of exactly INT32_MAX or INT64_MAX means the rest, even with a negative step",
    ),
    "prelu-slope": Difference(
        "PRelu",
        "the slope must broadcast to the input",
        "input and slope broadcast both ways",
    ),
    "gathernd-batch": Difference(
        "GatherND",
        "data and indices have the same batch sizes",
        "the number of index tuples must be a multiple of data's batch size",
    ),
    "any-rank": Difference(
        "Compress, ConstantOfShape, Expand, GroupNormalization",
        "condition, target shape, scale, and bias are vectors",
        "they may have any rank",
    ),
    "body-types": Difference(
        "Attention, CenterCropPad, MeanVarianceNormalization, RMSNormalization",
        "operands may have different element types, or any float type",
        "the node runs as its body, whose nodes need one element type, float for constants and int64 for sizes",
    ),
    "sizes-at-load": Difference(
        "GatherBlockQuantized, MatMulNBits, QEmbedLayerNormalization, StringNormalizer",
        "a size may be symbolic",
        "sizes of scales and zero points, of the bias, of the word embedding, and a batch axis of 1 must be known when the"
        " model is loaded",
    ),
    "inverse-squares": Difference(
        "Inverse",
        "matrices are square",
        "sizes that are not declared are never checked: the node runs beyond its input's memory",
    ),
    "gemm-vector": Difference(
        "Gemm, FusedGemm, QGemm",
        "the first operand is a matrix",
        "a vector whose rank is unknown at load time is a matrix with one row, regardless of transA",
    ),
    "recurrent-attributes": Difference(
        "LSTM, GRU, RNN",
        "activation names ignore case, and clip may be any number",
        "the model is not loaded with clip <= 0 (LSTM, GRU), with names in other letters (RNN), or with more or fewer of them",
    ),
    "quantized-rows": Difference(
        "MatMulInteger, QLinearMatMul, ConvInteger, QLinearConv",
        "the first matrix may have scales and zero points per row, and ConvInteger's weight per filter",
        "they must be scalars or have one element",
    ),
    "loss-labels": Difference(
        "NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss",
        "the labels have the shape of the scores without the classes",
        "only sizes known at load time are checked; otherwise there must not be more labels than scores",
    ),
    "declared-bodies": Difference(
        "If, Scan",
        "shapes declared in a body are not checked at run time",
        "if the file gives all sizes of a body output, the node has these sizes and fails for others; a file does not load if"
        " a branch cannot run, even one that is never taken",
    ),
    "attention-mask": Difference(
        "Attention, its mask",
        "the last two axes of the mask broadcast to queries and keys; since opset 24, the mask may be shorter than the keys",
        "they must equal the queries and keys up to opset 24; the mask may have any length since opset 25",
    ),
    "fastgelu-body": Difference(
        "FastGelu (com.microsoft)",
        "there is a bias for each feature",
        "of other types than float it runs as its body, whose addition broadcasts",
    ),
    "gridsample-volumes": Difference(
        "GridSample", "rank 5 (volumes) is supported since opset 20", "rank 5 is supported at every opset"
    ),
    "gridsample-cubic-volumes": Difference(
        "GridSample", "cubic interpolation works along any number of axes", "only images (rank 4) take it"
    ),
    "lrn-rank": Difference("LRN", "any number of spatial axes", "two spatial axes (rank 4)"),
    "function-opsets": Difference(
        "functions of the model",
        "a function's nodes have the opset versions that the function imports",
        "they have the versions that the model imports",
    ),
    "function-attributes": Difference(
        "functions of the model",
        "a call gives every attribute that the function names without a default",
        "a node inside that refers to an attribute which is not given runs with its own default",
    ),
    "local-functions": Difference(
        "functions of the model",
        "a function of the model is what its calls run",
        "if an operator with that name has a kernel, the kernel runs",
    ),
    "split-parts": Difference(
        "Split (since opset 18)",
        "either the sizes of the parts or their number must be given",
        "without both, the parts are equal, unless the standard's own inference knows the size of the axis",
    ),
    "resize-modes": Difference(
        "Resize, Upsample",
        "linear and cubic interpolation work along all axes",
        "of 4 or 5 axes, two keep their size: the first two, or of 4 the first and the last (cubic: if the others grow, or"
        " with antialias); linear takes 2 to 5 axes, cubic 2 or 4",
    ),
    "concat-empty": Difference(
        "Concat, ConcatFromSequence",
        "sizes on the other axes are equal",
        "sizes of an empty input are not checked at run time; shapesolve follows this for inputs known to be empty,"
        " and requires equal sizes otherwise",
    ),
    "einsum-empty": Difference(
        "Einsum",
        "a sum over an empty axis is 0, and of an empty operand comes an empty result",
        "an operand whose axes must be brought into another order must not be empty along those that the transposition"
        ' divides by, or the process ends (SIGFPE): "nd,md->nm" needs d >= 1, unless m = 1',
    ),
    "lenient-attributes": Difference(
        "LayerNormalization, Constant", "an attribute that the operator lacks is an error", "it is ignored"
    ),
}
