"""Short texts of attributes, stored tensors and metadata, for the explorer. These are node attributes, small stored
tensors, and model facts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..model import ModelError
from ..model.constant import Constant
from .limits import MAX_ELEMENTS, MAX_TEXT
from .names import dtype_name

if TYPE_CHECKING:
    from ..model import Graph, Model, Node


def attribute_texts(node: Node) -> list[tuple[str, str]]:
    """Name and value of each attribute."""
    return [(name, _clipped(_text(value))) for name, value in node.attributes.items()]


def stored_text(stored: Any) -> str:
    """Text of the elements of a small stored tensor; empty for others."""
    if not isinstance(stored, Constant) or stored.numel > MAX_ELEMENTS:
        return ""
    try:
        array = stored.array(MAX_ELEMENTS)
    except (ModelError, OSError):
        return ""
    return "" if array is None else _clipped(_nested(array.tolist()))


def model_rows(model: Model) -> list[tuple[str, str]]:
    """Titles and texts of the model's metadata."""
    proto = model.proto
    opsets = ", ".join(f"{domain or 'ai.onnx'} {version}" for domain, version in model.opsets.items())
    producer = f"{proto.producer_name} {proto.producer_version}".strip()
    stored = model.graph.initializers.values()
    elements = sum(math.prod(c.dims) for c in stored)
    rows = [
        ("graph", model.graph.name),
        ("IR version", str(model.ir_version)),
        ("opsets", opsets),
        ("producer", producer),
        ("domain", proto.domain),
        ("model version", str(proto.model_version or "")),
        ("weights", f"{len(stored):,} tensors, {elements:,} elements" if stored else ""),
        ("functions", ", ".join(name for _, name, _ in model.functions)),
        ("description", proto.doc_string),
        *model.metadata.items(),
    ]
    return [(title, _clipped(text)) for title, text in rows if text]


def _text(value: Any) -> str:
    from ..model import AttrRef, Graph

    if isinstance(value, Constant):
        name = dtype_name(value.dtype)
        return f"{name} {list(value.dims)} {stored_text(value)}".rstrip()
    if isinstance(value, Graph):
        return _graph(value)
    if isinstance(value, AttrRef):
        return f"attribute {value.name} of the call"
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, tuple):
        shown = [_text(v) for v in value[: 2 * MAX_ELEMENTS]]
        return f"[{', '.join(shown)}{', …' if len(value) > len(shown) else ''}]"
    return _number(value)


def _graph(graph: Graph) -> str:
    return f"graph of {len(graph.nodes):,} node{'' if len(graph.nodes) == 1 else 's'}"


def _nested(value: Any) -> str:
    return f"[{', '.join(map(_nested, value))}]" if isinstance(value, list) else _number(value)


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _clipped(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
