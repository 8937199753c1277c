"""Operators: one declaration each, grouped by family, in an opset-aware registry."""

from importlib import import_module

from ..lower.registry import DEFAULT, Registry
from ..lower.rule import Rules

#: modules that hold the declarations, loaded when the first model is analyzed
FAMILIES = (
    "elementwise", "reduction", "layout", "joining", "reshaping", "slicing", "indexing", "selecting", "generators",
    "linear", "convolution", "resizing", "normalization", "recurrent", "attention", "vision", "signal", "quantization",
    "text", "control", "scan", "sequences", "ml", "training",
    "com_microsoft.contrib", "com_microsoft.attention", "com_microsoft.cache", "com_microsoft.states",
    "com_microsoft.delta", "com_microsoft.quantized", "com_microsoft.packed", "com_microsoft.layouts",
    "com_microsoft.generation", "onnxruntime_extras",
)  # fmt: skip
_loaded: list[str] = []


def default_registry() -> Registry:
    """The registry of all operators that we declare."""
    if not _loaded:
        for name in FAMILIES:
            import_module(f".{name}", __name__)
        _loaded.extend(FAMILIES)
    return DEFAULT


def with_built_in(registry: Rules | None) -> Rules:
    """The user's rules over the built-in rules."""
    built_in = default_registry()
    return built_in if registry is None else registry.over(built_in)


__all__ = ["FAMILIES", "default_registry", "with_built_in"]
