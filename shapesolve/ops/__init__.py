"""Operators: one declaration each, grouped by family, in an opset-aware registry."""

from importlib import import_module

from .op import InvalidNode, Op
from .registry import DEFAULT, Registry, Rule, lower, signature
from .types import Known, Map, Optional, Sequence, Tensor
from .values import Ratio, Value

#: modules that hold the declarations, loaded when the first model is analyzed
FAMILIES = (
    "elementwise", "reduction", "layout", "reshaping", "slicing", "indexing", "selecting", "generators", "linear",
    "convolution", "resizing", "normalization", "recurrent", "attention", "vision", "signal", "quantization",
    "text", "control", "sequences", "ml", "training",
    "microsoft", "microsoft_attention", "microsoft_cache", "microsoft_states", "microsoft_quantized",
    "microsoft_layouts", "microsoft_generation", "onnxruntime_extras",
)  # fmt: skip
_loaded: list[str] = []


def default_registry() -> Registry:
    """The registry of all operators that we declare."""
    if not _loaded:
        for name in FAMILIES:
            import_module(f".{name}", __name__)
        _loaded.extend(FAMILIES)
    return DEFAULT


__all__ = [
    "DEFAULT",
    "InvalidNode",
    "Known",
    "Map",
    "Op",
    "Optional",
    "Ratio",
    "Registry",
    "Rule",
    "Sequence",
    "Tensor",
    "Value",
    "default_registry",
    "lower",
    "signature",
]
