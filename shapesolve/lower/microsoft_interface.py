"""Which inputs and attributes onnxruntime's contrib operators cannot do without.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md: one line for each operator, its inputs in order
(``r`` is required, ``.`` may be absent, what follows the last required one is left out), then its required attributes.
"""

from __future__ import annotations

from functools import lru_cache

_TABLE = """
Attention rr num_heads
AttnLSTM rrr
BeamSearch rr.rr decoder eos_token_id pad_token_id
BiasAdd rrr
BiasDropout rr
BiasGelu rr
BiasSoftmax rr is_inner_broadcast
BiasSplitGelu rr
BifurcationDetector rrr
BitmaskBiasDropout rr
BitmaskDropout r
BranchwiseRMSNorm r
CDist rr
CausalConvWithState rr
ComplexMul rr
ComplexMulConj rr
ConvTransposeWithDynamicPads rr
CropAndResize rrrr
DecoderAttention rrrrr...rrrr num_heads
DecoderMaskedMultiHeadAttention r num_heads
DecoderMaskedSelfAttention rrr.r.r num_heads
DequantizeBFP rrr bfp_type
DequantizeLinear rr
DequantizeWithOrder rr order_input order_output to
DynamicQuantizeLSTM rrr.....rrrr
DynamicQuantizeMatMul rrr
DynamicSparseAttention r......rrrr kv_num_heads num_heads
DynamicTimeWarping r
EmbedLayerNormalization r.rr.rr
EngramGate rrrrr
ExpandDims rr
FastGelu r
FusedConv rr
FusedGemm rr
FusedMatMul rr
FusedMatMulActivation rr activation
GatedAdd rrr
GatedDeltaNet r
GatedRMSNorm rrr
GatedRelativePositionBias rrrrrr num_heads
GatherBlockQuantized rrr
GatherND rr
Gelu r
GemmFastGelu rr
GemmFloat8 rr
GemmaRotaryEmbedding rrrrr
GreedySearch rr decoder eos_token_id pad_token_id
GridSample rr
GroupNorm rrr activation groups
GroupQueryAttention r....rr kv_num_heads num_heads
HyperConnectionPostMix rrr
HyperConnectionPreMix rr
Inverse r
Irfft r signal_ndim
IsAllFinite r
LinearAttention rrr kv_num_heads q_num_heads
LinearAttentionGate rrr
LongformerAttention rrrrrrr num_heads window
MRotaryEmbedding rrrr mrope_section
MatMulBlockQuantizedFp4Weight rrrr
MatMulBlockQuantizedFp8Weight rrr
MatMulBnb4 rrr K N block_size quant_type
MatMulFpQ4 rrr
MatMulInteger16 rr
MatMulIntegerToFloat rrrr
MatMulNBits rrr K N block_size
MatMulNBitsMlp r..rr.rr K N activation block_size
MatMulNBitsQkv r.rrr.rr.rr K Nkv Nq block_size
MaxpoolWithMask rr
MoE rrr.r
MulInteger r.r
MultiHeadAttention r num_heads
MurmurHash3 r
NGramHashMapping rrr max_ngram_size n_head_per_ngram pad_id
NGramRepeatBlock rr ngram_size
NhwcConv rr
NhwcFusedConv rr
NhwcMaxPool r kernel_shape
PackedAttention rrrrr num_heads
PackedMultiHeadAttention r...rr num_heads
PackedSparseAttentionIndexer r.rrrrrr....rr.r compress_ratio policy_mode state_capacity
Pad rr
PagedAttention r..r.rrr kv_num_heads num_heads
QAttention rrrrr num_heads
QEmbedLayerNormalization r.rr.rr.rr.rrrr.rr
QGemm rrrrrr
QLinearAdd rr.rr.r
QLinearAveragePool rr.r kernel_shape
QLinearConcat rrr axis
QLinearConv rrrrrrrr
QLinearGlobalAveragePool rrrrr
QLinearLeakyRelu rr.r
QLinearMul rr.rr.r
QLinearReduceMean rr.r axes keepdims
QLinearSigmoid rr.r
QLinearSoftmax rr.rr opset
QLinearWhere rrrrrrrrr
QMoE rrr..r
QOrderedAttention rrrrrrrrrrrrrr..r num_heads order_input order_output order_weight
QOrderedGelu rrr
QOrderedLayerNormalization rrr.r
QOrderedLongformerAttention rrrrrrrrrrrrrr num_heads order_global_weight order_input order_output order_weight window
QOrderedMatMul rrrrr order_A order_B order_Y
QuantizeBFP r bfp_type
QuantizeLinear rr
QuantizeWithOrder rr order_input order_output
QuickGelu r
Range rr
ReduceSumInteger r axes keepdims
RelativePositionBias rrr max_distance
RemovePadding rr
RestorePadding rr
Rfft r
RotaryEmbedding rrrr
SampleOp r
Sampling rr decoder eos_token_id pad_token_id
ScaledSiLU r
SkipGroupNorm rrrr activation groups
SkipLayerNormalization rrr
SkipSimplifiedLayerNormalization rrr
Snpe r DLC
SparseAttention r..rrrrrr kv_num_heads num_heads sparse_block_size
SparseAttentionIndexer r.rrrr.r compress_ratio policy_mode
SparsePagedAttention r..rrrrr.rr kv_num_heads num_heads
SparseToDenseMatMul rr
Tokenizer r mark mincharnum pad_value
TorchEmbedding rr
TransposeMatMul rr
Trilu r
UnfoldTensor r size
Unique r
VarlenCausalConvWithState rrr.r
VarlenNGramHashMapping rrrr max_ngram_size n_head_per_ngram pad_id
WhisperBeamSearch rr.rr decoder eos_token_id pad_token_id
WordConvEmbedding rrrr
"""


@lru_cache(maxsize=1)
def _required() -> dict[str, tuple[str, tuple[str, ...]]]:
    rows = [line.split() for line in _TABLE.split("\n") if line]
    return {name: (inputs.strip("-"), tuple(attributes)) for name, inputs, *attributes in rows}


def required_of(op_type: str) -> tuple[str, tuple[str, ...]] | None:
    """The marks of an operator's inputs and the names of its required attributes."""
    return _required().get(op_type)
