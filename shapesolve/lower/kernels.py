"""For which operators onnxruntime has a kernel on the CPU: there it runs the kernel, whatever functions the model defines.

https://github.com/microsoft/onnxruntime/blob/main/docs/OperatorKernels.md
"""

from __future__ import annotations

#: operators of ``com.microsoft`` with a kernel
_CONTRIB = frozenset((
    "Attention", "AttnLSTM", "BeamSearch", "BiasGelu", "BifurcationDetector", "BranchwiseRMSNorm", "CDist",
    "CausalConvWithState", "ConvTransposeWithDynamicPads", "CropAndResize", "DecoderMaskedMultiHeadAttention",
    "DequantizeLinear", "DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "DynamicTimeWarping",
    "EmbedLayerNormalization", "EngramGate", "ExpandDims", "FastGelu", "FusedConv", "FusedGemm",
    "FusedMatMul", "GatedAdd", "GatedRMSNorm", "GatherBlockQuantized", "GatherND", "Gelu", "GreedySearch",
    "GridSample", "GroupQueryAttention", "HyperConnectionPostMix", "HyperConnectionPreMix", "Inverse",
    "LinearAttention", "LinearAttentionGate", "MRotaryEmbedding", "MatMulBnb4", "MatMulFpQ4",
    "MatMulInteger16", "MatMulIntegerToFloat", "MatMulNBits", "MaxpoolWithMask", "MoE", "MultiHeadAttention",
    "MurmurHash3", "NGramHashMapping", "NGramRepeatBlock", "NhwcMaxPool", "Pad", "QAttention",
    "QEmbedLayerNormalization", "QGemm", "QLinearAdd", "QLinearAveragePool", "QLinearConcat", "QLinearConv",
    "QLinearGlobalAveragePool", "QLinearLeakyRelu", "QLinearMul", "QLinearSigmoid", "QLinearSoftmax",
    "QLinearWhere", "QMoE", "QuantizeLinear", "QuickGelu", "Range", "RotaryEmbedding", "SampleOp", "Sampling",
    "ScaledSiLU", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "SparseAttention",
    "SparseToDenseMatMul", "Tokenizer", "TransposeMatMul", "Trilu", "UnfoldTensor", "Unique",
    "VarlenNGramHashMapping", "WhisperBeamSearch", "WordConvEmbedding",
))  # fmt: skip
#: operators of the standard without a kernel: their function bodies are run
_BODIES = frozenset((
    "Bernoulli", "CastLike", "CausalConvWithState", "CenterCropPad", "Constant", "GRUUnit", "GivenTensorFill",
    "GroupNormalization", "HardSwish", "ImageDecoder", "LinearAttention", "Mish", "NegativeLogLikelihoodLoss",
    "SequenceMap", "SoftmaxCrossEntropyLoss", "SwiGLU", "Swish",
))  # fmt: skip


def has_kernel(domain: str, op_type: str) -> bool:
    """Does onnxruntime run the operator by a kernel of its own?"""
    if domain == "com.microsoft":
        return op_type in _CONTRIB
    return domain in ("", "ai.onnx.ml") and op_type not in _BODIES
