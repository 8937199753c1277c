"""Amounts of padding along an axis whose size is free: which of them stay, and which followed the size.

Padding before a window of stride 1 that gives as many places as there were has nothing to do with how many there are. Before
larger strides, padding to a multiple of the stride (`SAME`) depends on it: that is shown where windows of one kind are padded
by different amounts, each the one that its own size gives, and no window of that kind contradicts. Other padding stays where
what it joins needs so much at every size, as after a shift by one place. What nothing shows is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace

from ..expr import ZERO, Dim, ceil_div, constant, floor_div, maximum, parse_dim
from ..lower.fixpoint import lower_model
from ..lower.request import Request
from ..lower.types import Tensor
from ..model import Node, TensorType
from ..operators import with_built_in
from .free_state import Freeing
from .refused import Refused

_WINDOWS = frozenset(("AveragePool", "Conv", "LpPool", "MaxPool"))
#: opset since which the amounts of Pad are an input
_AMOUNTS_ARE_AN_INPUT = 11
#: batch and channels
_BEFORE = 2


@dataclass(frozen=True, slots=True)
class Window:
    """One axis that a window goes along: how many places it spans, its steps, and what is padded before and after."""

    kind: str
    extent: int
    stride: int
    before: int
    after: int

    @property
    def keeps_size(self) -> bool:
        """Are there as many places as without padding, whatever their number?"""
        return self.stride == 1 and self.before + self.after == self.extent - 1

    def amounts(self, size: Dim) -> tuple[Dim, Dim]:
        """What `SAME` padding has before and after so many places; an odd one goes to the end."""
        needed = (ceil_div(size, constant(self.stride)) - 1) * self.stride + self.extent - size
        total = maximum(needed, ZERO)
        before = floor_div(total, constant(2))
        return before, total - before

    def fits(self, size: int) -> bool:
        """Is it padded by what `SAME` padding has for this size?"""
        return self.amounts(constant(size)) == (constant(self.before), constant(self.after))


def attribute_padding(freeing: Freeing, node: Node) -> Node:
    """A node that pads by an attribute of its own.

    Raises:
        Refused: it pads unevenly along an axis of a size that is free, and nothing shows whether that followed the size.
    """
    pads = node.attributes.get("pads") or ()
    half = len(pads) // 2
    shape = freeing.shape(node.inputs[0]) if pads else None
    if shape is None:
        if any(pads[k] != pads[half + k] for k in range(half)):
            raise Refused(
                f"{node.label} ({node.op_type}) pads unevenly along axes of unknown size", node=node.label
            )
        return node
    first = len(shape) - half
    windows = _windows(freeing, node) if node.op_type == "Conv" and not node.domain else None
    is_shown = windows is not None and _is_shown(freeing, node.op_type)
    dims = [constant(n) for n in pads]
    for k in range(half):
        size = shape[first + k]
        if not freeing.is_other(size) or (windows is not None and windows[k].keeps_size):
            continue
        if is_shown and windows is not None and windows[k].stride > 1:
            dims[k], dims[half + k] = windows[k].amounts(size)
        elif pads[k] != pads[half + k]:
            raise Refused(
                f"{node.label} ({node.op_type}) pads unevenly, by {pads[k]} and {pads[half + k]}, along an axis of size "
                f"{size}: that may have followed the size",
                node=node.label,
            )
    if all(not d.terms for d in dims):
        return node
    if freeing.model.opsets.get("", 1) < _AMOUNTS_ARE_AN_INPUT:
        raise Refused(f"{node.label} ({node.op_type}) pads by amounts that follow the size", node=node.label)
    none = [ZERO] * first
    amounts = freeing.vector([*none, *dims[:half], *none, *dims[half:]], "padding")
    padded = freeing.insert("Pad", [node.inputs[0], amounts], node.inputs[0])
    return freeing.with_attribute(freeing.with_input(node, 0, padded), "pads", [0] * len(pads))


def pad(freeing: Freeing, node: Node) -> Node:
    """A Pad by stored amounts.

    Raises:
        Refused: nothing shows whether an amount along an axis of a size that is free followed that size.
    """
    shape = freeing.shape(node.inputs[0])
    if len(node.inputs) < 2 or shape is None or not freeing.is_stored(node.inputs[1]):
        return node
    amounts = freeing.numbers(node.inputs[1]) or []
    rank = len(shape)
    is_whole = len(amounts) == 2 * rank
    rows_first = is_whole and rank > _BEFORE and not amounts[0] and not amounts[rank]
    dims = [constant(n) for n in amounts]
    windows = _behind(freeing, node)
    for axis, size in enumerate(shape):
        if not freeing.is_other(size) or (rows_first and not axis):
            continue
        window = None if windows is None or axis < _BEFORE else windows[axis - _BEFORE]
        if window is not None and window.keeps_size:
            continue
        if window is not None and window.stride > 1 and _is_shown(freeing, window.kind):
            dims[axis], dims[rank + axis] = window.amounts(size)
            continue
        why = f"{node.label} (Pad) pads an axis of size {size} by a stored amount, which may have followed that size"
        if not is_whole:
            raise Refused(why, node=node.label)
        before = amounts[axis]
        total = freeing.staying_amount(before, amounts[rank + axis], why, node)
        dims[rank + axis] = total - before
    if all(not d.terms for d in dims):
        return node
    return freeing.with_input(node, 1, freeing.vector(dims, f"{node.inputs[1]}_free"))


# ---------------------------------------------------------------------- windows


def _windows(freeing: Freeing, node: Node) -> list[Window] | None:
    """What goes along each axis of a convolution or pool; None where that is not known."""
    kernel = node.attributes.get("kernel_shape") or ()
    if not kernel and node.op_type == "Conv":
        kernel = [d.value for d in (freeing.shape(node.inputs[1]) or ())[_BEFORE:]]
    if not kernel or None in kernel or node.attributes.get("auto_pad", "NOTSET") not in ("NOTSET", b"NOTSET"):
        return None
    count = len(kernel)
    strides = node.attributes.get("strides") or [1] * count
    dilations = node.attributes.get("dilations") or [1] * count
    pads = node.attributes.get("pads") or [0] * (2 * count)
    return [
        Window(node.op_type, (size - 1) * dilation + 1, stride, pads[k], pads[count + k])
        for k, (size, dilation, stride) in enumerate(zip(kernel, dilations, strides, strict=True))
    ]


def _behind(freeing: Freeing, node: Node) -> list[Window] | None:
    """The windows of the nodes that take what is padded; None where there are none, or they are not alike."""
    amounts = freeing.numbers(node.inputs[1])
    if (
        amounts is None
        or len(node.inputs) > 3
        or node.attributes.get("mode", "constant") in ("wrap", b"wrap")
    ):
        return None
    (name,) = node.outputs
    takers = [n for n in freeing.model.graph.nodes if name in n.inputs or name in n.captures]
    if any(name == output for output, _ in freeing.model.graph.outputs):
        return None
    found = [_padded(freeing, taker, amounts) for taker in takers if taker.inputs[0] == name]
    return found[0] if found and len(found) == len(takers) and all(f == found[0] for f in found) else None


def _padded(freeing: Freeing, node: Node, amounts: Seq[int]) -> list[Window] | None:
    """The windows of a node of which the input was padded by these amounts, and is not padded by the node."""
    windows = _windows(freeing, node) if node.op_type in _WINDOWS and not node.domain else None
    rank = len(amounts) // 2
    if windows is None or len(windows) != rank - _BEFORE or any(w.before or w.after for w in windows):
        return None
    return [
        replace(w, before=amounts[_BEFORE + k], after=amounts[rank + _BEFORE + k])
        for k, w in enumerate(windows)
    ]


# ---------------------------------------------------------------------- what shows


def _is_shown(freeing: Freeing, kind: str) -> bool:
    """Do all windows of a kind with larger strides have `SAME` padding, and some that are alike different amounts?"""
    if kind not in freeing.padded_same:
        freeing.padded_same[kind] = _shows(freeing, kind)
    return freeing.padded_same[kind]


def _shows(freeing: Freeing, kind: str) -> bool:
    totals: dict[tuple[int, int], set[int]] = {}
    for size, window in _all_windows(freeing, kind):
        if window.stride == 1:
            continue
        if size is None or not window.fits(size):
            return False
        totals.setdefault((window.extent, window.stride), set()).add(window.before + window.after)
    return any(len(found) > 1 for found in totals.values())


def _all_windows(freeing: Freeing, kind: str) -> Iterator[tuple[int | None, Window]]:
    """Every axis that a window of a kind goes along, with the size that was baked in."""
    shapes = _baked_shapes(freeing)
    makers = {name: node for node in freeing.model.graph.nodes for name in node.outputs}
    for node in freeing.model.graph.nodes:
        if node.op_type != kind or node.domain:
            continue
        name, windows = node.inputs[0], _windows(freeing, node)
        maker = makers.get(name)
        if maker is not None and maker.op_type == "Pad" and not maker.domain:
            stored = freeing.stored(maker.inputs[1]) if len(maker.inputs) > 1 else None
            array = None if stored is None else stored.array(stored.numel)
            if array is not None and len(maker.inputs) <= 3:
                name, windows = maker.inputs[0], _padded(freeing, node, [int(n) for n in array])
        shape = shapes.get(name) or ()
        for k, window in enumerate(windows or ()):
            yield shape[_BEFORE + k] if len(shape) > _BEFORE + k else None, window


def _baked_shapes(freeing: Freeing) -> dict[str, list[int | None]]:
    """The sizes of all tensors before any was freed."""

    def old(size: int | str | None) -> int | str | None:
        if not isinstance(size, str):
            return size
        dim = parse_dim(size)
        return dim.evaluate(freeing.baked) if dim.free <= freeing.baked.keys() else size

    graph = freeing.model.graph
    inputs = tuple(
        (name, replace(kind, dims=tuple(map(old, kind.dims))))
        if isinstance(kind, TensorType) and kind.dims is not None
        else (name, kind)
        for name, kind in graph.inputs
    )
    fixed = replace(freeing.model, graph=replace(graph, inputs=inputs))
    walk = lower_model(fixed, Request((), {}, "strict", with_built_in(None))).walk
    found: dict[str, list[int | None]] = {}
    for node in graph.nodes:
        for name in (*node.inputs, *node.outputs):
            known = walk.read(name, walk.scope) if name else None
            if isinstance(known, Tensor) and known.shape is not None:
                found[name] = [d.value for d in known.shape]
    return found


__all__ = ["attribute_padding", "pad"]
