"""`analyze`: from a model to an `Analysis`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal

from ..dims import Cond
from ..graph import ModelError, read_model
from ..ops import Registry
from .collection import collection_paused
from .result import Analysis
from .rounds import lower_model

BroadcastMode = Literal["strict", "named", "equal"]
#: Z3 work per query (see `solver.budget`); deterministic, unlike seconds
DEFAULT_RLIMIT = 1_000_000


def analyze(
    model: Any,
    *,
    assume: Iterable[str | Cond] = (),
    bind: Mapping[str, int] | None = None,
    broadcast: BroadcastMode = "named",
    opset: int | None = None,
    registry: Registry | None = None,
    rlimit: int = DEFAULT_RLIMIT,
    progress: Callable[[int, int], None] | None = None,
) -> Analysis:
    """Analyze the shapes of a model.

    Args:
        model: a path, bytes, `onnx.ModelProto`, `onnx_ir.Model`, exporter program or onnxscript function.
        assume: conditions on the input sizes that you know, as text: ``["total == past + seq", "H % 32 == 0"]``.
        bind: sizes for symbols, ``{"batch": 2}``.
        broadcast: what to make of a broadcast of two sizes of which neither is known to be 1: ``"strict"`` leaves it open,
            ``"named"`` (default) binds a name that meets a number and notes the assumption, ``"equal"`` also takes two
            names to be equal.
        opset: version of the standard operators to use instead of the one that the model imports.
        registry: rules of your own operators (see `Registry`), over the built-in ones.
        rlimit: bound of Z3's work per query.
        progress: called now and then with (nodes done, nodes in all).

    Raises:
        ModelError: the model cannot be read; one sentence says why.
        DimSyntaxError: an assumption cannot be parsed.
        ValueError: an argument makes no sense.
    """
    if broadcast not in ("strict", "named", "equal"):
        raise ValueError(f'broadcast is "strict", "named" or "equal", not {broadcast!r}')
    with collection_paused:
        read = read_model(model)
        if opset is not None:
            read = replace(read, opsets=MappingProxyType({**read.opsets, "": int(opset)}))
        walk, given = lower_model(read, list(assume), dict(bind or {}), broadcast, registry, progress)
        return Analysis(read, walk, given, broadcast, rlimit)


__all__ = ["DEFAULT_RLIMIT", "BroadcastMode", "ModelError", "analyze"]
