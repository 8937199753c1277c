"""Equal nodes: what one computes, another need not."""

from __future__ import annotations

from typing import Any

from ..model import Constant
from .draft import DraftNode

#: operators that give something else each time
_RANDOM = frozenset(
    (
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
        "Multinomial",
        "Bernoulli",
        "Dropout",
    )
)
_PURE_DOMAINS = frozenset(("", "ai.onnx.ml"))


class Twins:
    """The nodes of one graph seen so far, by what they compute."""

    def __init__(self) -> None:
        self._seen: dict[Any, DraftNode] = {}

    def of(self, node: DraftNode) -> DraftNode | None:
        """An earlier node that computes the same; None (and `node` is remembered) when there is none."""
        key = _key(node)
        if key is None:
            return None
        found = self._seen.setdefault(key, node)
        return None if found is node else found


def _key(node: DraftNode) -> Any:
    if node.graphs or node.domain not in _PURE_DOMAINS or node.op_type in _RANDOM:
        return None
    origin = node.origin
    if origin is not None and origin.key is None:
        return None
    own = tuple(sorted((k, v) for k, v in node.own.items() if v is not None))
    if any(isinstance(v, (Constant, list)) for _, v in own):
        return None
    kind = None if origin is None else origin.key
    left_out = tuple(sorted(k for k, v in node.own.items() if v is None))
    return (
        node.op_type,
        node.domain,
        (*node.inputs,),
        [*map(bool, node.outputs)].count(True),
        kind,
        own,
        left_out,
    )
