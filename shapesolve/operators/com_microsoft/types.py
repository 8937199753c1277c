"""Element types of the inputs of ``com.microsoft`` operators. onnxruntime loads no file with other ones.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from ...lower.registry import DEFAULT

#: one token for each input (see `lower.interface`): its operators
_TAKES = """
* * F f f f: GemmFloat8
z H z: DequantizeLinear
* N: GatherND
q N F q: GatherBlockQuantized
* i: ExpandDims
* i i i i H H i i i i i: BeamSearch
* i i i i H H i i i i i i i H: WhisperBeamSearch
* l: Trilu
* l l b: TorchEmbedding
D: Inverse Irfft Rfft
D D: BiasSoftmax ComplexMul ComplexMulConj
D D D: NhwcConv
D D D D: FusedConv
D D i i: CropAndResize
D D l D: ConvTransposeWithDynamicPads
D l D: Pad
E: Gelu QuickGelu
E E: BiasGelu FastGelu FusedMatMul FusedMatMulActivation TransposeMatMul
E E E E1 b: BiasDropout BitmaskBiasDropout
E E1 b: BitmaskDropout
E...: IsAllFinite
F: QuantizeBFP
F F: SwiGLU
F F w e F w e F w e F w w w F f f f f: QMoE
F F F: GatedRMSNorm GemmFastGelu
F F F C C i i F F l F F f f F F i: GroupQueryAttention
F F F F: CausalConvWithState GatedAdd SkipSimplifiedLayerNormalization
F F F F F: SkipLayerNormalization
F F F F F F: EngramGate
F F F F F F F: HyperConnectionLowRankMix
F F F F F F F F: MoE
F F F F F F i i F F F l F1 F F i i i i i i i: PackedSparseAttentionIndexer
F F F F F F l F F F F l i F: SparseAttentionIndexer
F F F F F i i i i F F: SparseAttention
F F F F i F F F i i: MultiHeadAttention
F F F F1 F F: LinearAttention
F F F i F F i: Attention
F F F i F1 F1 f f f i i: GatedDeltaNet
F F F u F F u F F: MatMulNBitsMlp
F F F u F F u F F u F F: MatMulNBitsQkv
F F F1 * * F2 F2 i i i i F2 F2 l F2 F2 F2 i f f: DynamicSparseAttention
F F F1 F1: HyperConnectionPostMix
F F i F F i F F: VarlenCausalConvWithState
F F1: BranchwiseRMSNorm HyperConnectionPreMix ScaledSiLU
F f F: MoEGroupRouter
F f f F: LinearAttentionGate
F l F F: MRotaryEmbedding RotaryEmbedding
F u F: MatMulBnb4
F u F * i F: MatMulNBits
G G: CDist
G G G G i G G G G G G G i G: AttnLSTM
H H: BiasSplitGelu
H H x: QuantizeLinear
H H H: BiasAdd
H H H H: NhwcFusedConv
H H H H H H i: GatedRelativePositionBias LongformerAttention
H H H H H b H H b b b b: DecoderAttention
H H H H i i H: PackedMultiHeadAttention
H H H i H H H i i i H: DecoderMaskedMultiHeadAttention
H H H i H H i i i: DecoderMaskedSelfAttention
H H H i i H: PackedAttention
H H H l: ConvStateReplay
H H1 H1: GroupNorm
H H1 H1 H H: SkipGroupNorm
H f: QuantizeWithOrder
H i: RemovePadding RestorePadding
H l l: RelativePositionBias
H u H u H u H: MatMulNBitsQLoRA
K * f f K: MatMulBlockQuantizedFp8Weight
K F u u u F: MoEPacked
K K: RouterGateUpProj
K K K * * i i i K K i K K K f f i: PagedAttention
K K K * * i i i i i i K K i K K K K K f f i: SparsePagedAttention
K f l * * i: RMSNormRotary
K u f: MatMulPacked
K u u f f K: MatMulBlockQuantizedFp4Weight
N N N N N N i: NGramHashMapping
N N N i N N N i i i: VarlenNGramHashMapping
Q: NhwcMaxPool ReduceSumInteger
Q Q Q Q: MulInteger
Q Q1 H H H i Q Q1 H: QAttention
Q Q1 H H Q Q1 H: MatMulIntegerToFloat
Q f Q Q f Q f Q: QLinearAdd QLinearMul
Q f Q Q1 f Q1 f Q2 i: QLinearConv
Q f Q Q1 f Q1 i f Q2: QGemm
Q f Q f Q: QLinearAveragePool QLinearGlobalAveragePool QLinearLeakyRelu QLinearReduceMean QLinearSigmoid QLinearSoftmax
b Q f Q Q f Q f Q: QLinearWhere
c f: DequantizeWithOrder
c f H H f: QOrderedLayerNormalization
c f c f f f c f: QOrderedMatMul
c f c f f f f h c f f f i f: QOrderedLongformerAttention
c f f: QOrderedGelu
c f f f f c c c f f f f f f f f f i c f: QOrderedAttention
f: DynamicTimeWarping
f Q *...: QLinearConcat
f Q Q f i f f f f Q f Q: DynamicQuantizeLSTM
f Q f Q f: DynamicQuantizeMatMul
f f f l: GatedDeltaNetStateReplay
f h h h h: GemmaRotaryEmbedding
f i: MaxpoolWithMask
f u l: MatMulFpQ4
i f f f: WordConvEmbedding
i i H H H H H i i: EmbedLayerNormalization
i i Q Q Q Q Q i f f f f f Q Q Q Q Q: QEmbedLayerNormalization
i i i f i i i: GreedySearch
i i i f i i i i i: Sampling
A A: GridSample
M M M: FusedGemm
R R R: Range
s s1: MatMulInteger16
t: Tokenizer
i i i i i i i: PackedSparseAttentionIndexerMerge
k k f k k f f f f i: Mamba2Verify
l f: NGramRepeatBlock
l l i l l l l: SpeculativePrefixCommit
l l l l: BifurcationDetector
u N: GatherPacked
u l l: DequantizeBFP
"""


for line in _TAKES.strip().splitlines():
    takes, _, names = line.partition(": ")
    for name in names.split():
        DEFAULT.declare_types("com.microsoft", name, takes)
