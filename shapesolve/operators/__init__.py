"""Declarations of operators, grouped by family, with a registry by opset version."""

from importlib import import_module

from ..lower.registry import DEFAULT, Registry
from ..lower.rule import Rules, in_standard

#: declarations for most models, loaded when the first model is analyzed
_COMMON = (
    "elementwise", "reduction", "layout", "joining", "reshaping", "slicing", "indexing", "generators", "linear",
    "normalization",
)  # fmt: skip
#: remaining standard operators, loaded for the first model that uses one; a family comes after the modules it builds
#: on
_SELDOM = {
    "selecting": "TopK NonZero Unique Compress",
    "convolution": "Conv ConvInteger QLinearConv ConvTranspose DeformConv AveragePool LpPool MaxPool MaxUnpool "
    "GlobalAveragePool GlobalMaxPool GlobalLpPool",
    "resizing": "Resize Upsample",
    "recurrent": "LSTM GRU RNN",
    "attention": "Attention FlexAttention LinearAttention CausalConvWithState RotaryEmbedding",
    "vision": "GridSample AffineGrid Col2Im RoiAlign MaxRoiPool NonMaxSuppression ImageDecoder",
    "signal": "DFT STFT MelWeightMatrix",
    "quantization": "QuantizeLinear DequantizeLinear DynamicQuantizeLinear",
    "text": "StringConcat StringSplit StringNormalizer RegexFullMatch TfIdfVectorizer",
    "control": "If Loop",
    "scan": "Scan",
    "sequences": "SequenceConstruct SequenceEmpty SequenceInsert SequenceErase SequenceAt SequenceLength SequenceMap "
    "SplitToSequence ConcatFromSequence Optional OptionalHasElement OptionalGetElement",
    "ml": "ArrayFeatureExtractor Binarizer CastMap CategoryMapper DictVectorizer FeatureVectorizer Imputer LabelEncoder "
    "LinearClassifier LinearRegressor Normalizer OneHotEncoder Scaler SVMClassifier SVMRegressor TreeEnsemble "
    "TreeEnsembleClassifier TreeEnsembleRegressor ZipMap",
    "training": "Adagrad Adam Gradient Momentum NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss",
    "onnxruntime_extras": "Affine AllReduce ATen Crop DynamicSlice EfficientNMS_TRT GivenTensorFill GRUUnit ImageScaler "
    "LayerNormalization MemcpyFromHost MemcpyToHost ParametricSoftplus PythonOp PythonOpGrad Scale ScaledTanh "
    "SimplifiedLayerNormalization",
}
#: loaded for the first model that has an operator outside the standard
_BEYOND = (
    "com_microsoft.contrib", "com_microsoft.attention", "com_microsoft.cache", "com_microsoft.states", "com_microsoft.delta",
    "com_microsoft.quantized", "com_microsoft.packed", "com_microsoft.layouts", "com_microsoft.generation",
)  # fmt: skip

_FAMILY_OF = {op_type: family for family, op_types in _SELDOM.items() for op_type in op_types.split()}
_loaded: set[str] = set()


def _load(*families: str) -> None:
    for name in families:
        if name not in _loaded:
            import_module(f".{name}", __name__)
            _loaded.add(name)


def _supply(domain: str, op_type: str) -> None:
    if not in_standard(domain):
        _load(*_BEYOND)
    if op_type in _FAMILY_OF:
        _load(_FAMILY_OF[op_type])


def _seek() -> bool:
    """Load the rules of installed packages; return True if there may be new ones."""
    from .plugins import load_installed

    return load_installed()


def default_registry() -> Registry:
    """Return the registry of all built-in operators."""
    _load(*_COMMON, *_SELDOM, *_BEYOND)
    return DEFAULT


def with_built_in(registry: Rules | None) -> Rules:
    """Return the user's rules with the built-in ones as fallback, loaded at lookup."""
    _load(*_COMMON)
    DEFAULT.supply, DEFAULT.seek = _supply, _seek
    return DEFAULT if registry is None else registry.over(DEFAULT)


__all__ = ["default_registry", "with_built_in"]
