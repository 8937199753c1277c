"""Refusal of stored numbers and attributes that can hold a size other than rows. One export cannot show it."""

from __future__ import annotations

import numpy as np

from ..change.refused import Refused
from ..lower.reads import AXES, NEW_AXES, TARGET
from ..model import Constant, Node
from .free_state import LARGEST, Freeing

SECOND_EXPORT = "One export cannot show what follows the size: `shapesolve generalize` learns it from an export at another size"

#: attributes that name axes, types and weights, and never hold a size of the input
_HARMLESS = frozenset(
    (
        "axes",
        "axis",
        "direction",
        "dtype",
        "epsilon",
        "group",
        "hidden_size",
        "keepdims",
        "momentum",
        "perm",
        "to",
    )
).union(("training_mode", "transA", "transB", "noop_with_empty_axes", "stash_type", "allowzero"))
#: attributes of windows, which are those of the weights where these are stored
_WINDOWS = frozenset(("dilations", "kernel_shape", "strides"))
#: numbers that no size gives
_NEUTRAL = (-1, 0, 1)
#: an end from here on is that of the axis
_ALL = (1 << 31) - 1


def check_suspects(freeing: Freeing, node: Node) -> None:
    """Raises `Refused` if a node has a number possibly computed from a size that is no number of rows."""
    if len(freeing.rows) == len(freeing.symbols) or node.is_constant:
        return
    held = "a graph inside it" if node.subgraphs else _attribute(freeing, node) or _operand(freeing, node)
    if held:
        raise Refused(
            f"{node.label} ({node.op_type}) has {held}, which may have followed a size that is freed. {SECOND_EXPORT}",
            node=node.label,
        )


def _attribute(freeing: Freeing, node: Node) -> str:
    weighted = len(node.inputs) > 1 and freeing.is_stored(node.inputs[1])
    for name, value in node.attributes.items():
        if name in _HARMLESS or (name in _WINDOWS and weighted):
            continue
        numbers = value if isinstance(value, (list, tuple)) else (value,)
        if any(
            isinstance(n, Constant) or (isinstance(n, (int, float)) and not _is_neutral(n)) for n in numbers
        ):
            return f"the attribute {name} = {value}"
    return ""


def _operand(freeing: Freeing, node: Node) -> str:
    rule = freeing.rule(node)  # the constraints force a target; axes are no sizes
    for i, name in enumerate(node.inputs):
        stored = freeing.stored(name) if name else None
        if stored is None or (rule is not None and (rule.reads or {}).get(i) in (TARGET, AXES, NEW_AXES)):
            continue
        if any(n > 1 and n in freeing.seen for n in stored.dims):
            return f"the stored tensor {name} of shape {list(stored.dims)}"
        array = stored.array(LARGEST)
        if array is None or (not array.size) or array.dtype.kind not in "biuf":
            continue
        is_same = bool((array == array.flat[0]).all())
        if (
            array.dtype.kind == "f"
            and not is_same
            and not np.isin(array, [n for n in freeing.seen if n > 1]).any()
        ):
            continue  # weights: their axes show what they follow
        if not is_same or not _is_neutral(float(array.flat[0])):
            shown = f" = {array.flat[0]:g}" if is_same else ""
            return f"the stored {'number' if array.size == 1 else 'tensor'} {name}{shown}"
    return ""


def _is_neutral(number: float) -> bool:
    return number in _NEUTRAL or abs(number) >= _ALL or not np.isfinite(number)


__all__ = ["SECOND_EXPORT", "check_suspects"]
