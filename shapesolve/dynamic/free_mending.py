"""Rewrites operands with baked sizes for sizes that are free again, per operator."""

from __future__ import annotations

from collections.abc import Sequence as Seq

import numpy as np

from ..change.refused import Refused
from ..expr import ONE, Dim, constant, product, symbol
from ..lower.axes import picks
from ..lower.reads import INDICES, NEW_SIZES, TARGET
from ..model import Node
from .free_reshape import placements, target_of
from .free_state import LARGEST, Freeing
from .free_suspects import SECOND_EXPORT, check_suspects


def widened(freeing: Freeing, node: Node) -> Node:
    """A Loop or Scan with stored initial states, expanded along an axis of one element that follows rows."""
    scanned = int(node.attributes.get("num_scan_inputs", 0))
    states = range(2, len(node.inputs)) if node.op_type == "Loop" else range(len(node.inputs) - scanned)
    ways = [(size, axis) for size in map(symbol, freeing.rows) for axis in _axes(freeing, node, states)]
    way = freeing.choose(node, len(ways) + 1, node.label)
    return node if not way else _widened(freeing, node, states, *ways[way - 1])


def _axes(freeing: Freeing, node: Node, states: range) -> list[int]:
    """Axes of one element of the stored first states."""
    stored = [freeing.stored(node.inputs[i]) for i in states if node.inputs[i]]
    return sorted({axis for s in stored if s is not None for axis, n in enumerate(s.dims) if n == 1})


def _widened(freeing: Freeing, node: Node, states: range, size: Dim, axis: int) -> Node:
    for i in states:
        name = node.inputs[i]
        if name and axis in _axes(freeing, node, range(i, i + 1)):
            stored = freeing.stored(name)
            array = None if stored is None else stored.array(LARGEST)
            if array is None:
                continue
            kept = freeing.new_constant(np.array(array), name)
            target = freeing.vector([size if k == axis else ONE for k in range(array.ndim)], f"{name}_target")
            node = freeing.with_input(node, i, freeing.insert("Expand", [kept, target], name))
    return node


#: opset since which GatherND has batch_dims
_BATCH_DIMS = 12
#: opset since which an entry of a Reshape's target may be a size of 0
_ALLOW_ZERO = 14


def mend(freeing: Freeing, node: Node) -> Node:
    """The node as it should read now."""
    check_suspects(freeing, node)
    rule = freeing.rule(node)
    if rule is None or rule.domain:
        return node
    if rule.bodies == "trips":
        return widened(freeing, node)
    reads = rule.reads or {}
    if reads.get(1) is TARGET:
        return reshape(freeing, node)
    if reads.get(3) is NEW_SIZES:
        return resize(freeing, node)
    links = freeing.provenance.links(node) if 1 in reads and reads[1].what == INDICES else None
    kind = "" if links is None else picks(links)
    return (
        gather(freeing, node) if kind == "axis" else gather_nd(freeing, node) if kind == "corners" else node
    )


def reshape(freeing: Freeing, node: Node) -> Node:
    """The entries of the target are filled by the factors of the input."""
    if len(node.inputs) < 2:
        return node
    name, copies = node.inputs[0], not node.attributes.get("allowzero", 0)
    raw, shape, pieces = freeing.numbers(node.inputs[1]), freeing.shape(name), freeing.pieces(name)
    if raw is None or shape is None or pieces is None or not any(freeing.is_free(d) for d in shape):
        return node
    sizes = _baked_target(freeing, raw, shape, copies=copies)
    if sizes is None:
        return node
    candidates = placements(pieces, sizes, raw)
    if not candidates or _is_open(freeing, candidates):
        raise Refused(
            f"{node.label} (Reshape) makes {sizes} of {shape}: it cannot be told which entries follow the sizes that are free. "
            f"{SECOND_EXPORT}",
            node=node.label,
        )
    dims = candidates[freeing.choose(node, len(candidates), (shape, (*raw,)))]
    target = target_of(dims, shape, copies=copies)
    if target == raw:
        return node
    hint = f"{node.inputs[1]}_free"
    if target is not None:
        return freeing.with_input(node, 1, freeing.number_vector(target, hint))
    made = freeing.vector(dims, hint)
    if freeing.model.opsets.get("", 1) < _ALLOW_ZERO or not copies:
        return freeing.with_input(node, 1, made)
    return freeing.become(node, "Reshape", [name, made], allowzero=1)


def _is_open(freeing: Freeing, candidates: Seq[tuple[Dim, ...]]) -> bool:
    """True if more than one entry can follow a size that is no number of rows. No proof decides between them."""
    return len({tuple(map(freeing.is_other, dims)) for dims in candidates}) > 1


def _baked_target(
    freeing: Freeing, raw: list[int], shape: tuple[Dim, ...], *, copies: bool
) -> list[int] | None:
    """The sizes that a target stood for."""
    was = [freeing.old(d) for d in shape]
    if any(size is None for size in was):
        return None
    given = [int(size or 0) for size in was]
    sizes = [given[k] if size == 0 and copies and k < len(given) else size for k, size in enumerate(raw)]
    total = int(np.prod(given))
    rest = int(np.prod([size for size in sizes if size != -1]))
    if rest == 0 or total % rest:
        return None
    return [total // rest if size == -1 else size for size in sizes]


def gather(freeing: Freeing, node: Node) -> Node:
    """Rewrites a Gather of elements of one row on an axis that holds all rows. It then picks them in each row."""
    data, indices = node.inputs
    layout, shape = freeing.provenance.of(data).layout, freeing.shape(data)
    axis = int(node.attributes.get("axis", 0))
    if layout is None or shape is None:
        return node
    axis %= len(shape)
    factors = layout[axis]
    if len(factors) < 2 or not _was_one_row(freeing, factors[0]):
        return node
    rows, inner = factors[0], product(factors[1:])
    dims, own = [*shape[:axis], rows, inner, *shape[axis + 1 :]], freeing.shape(indices) or ()
    if not _follows(freeing, indices):
        apart = freeing.insert("Reshape", [data, _target(freeing, data, dims)], data)
        picked = freeing.insert("Gather", [apart, indices], node.outputs[0], axis=axis + 1)
        return _together(freeing, node, picked, [*shape[:axis], *own, *shape[axis + 1 :]])
    if axis or not _is_row_by_row(freeing, indices, rows):
        return node
    apart = freeing.insert("Reshape", [data, _target(freeing, data, dims)], data)
    column = freeing.insert("Reshape", [indices, _target(freeing, indices, [*own, ONE])], indices)
    return freeing.become(node, "GatherND", [apart, column], batch_dims=1)


def gather_nd(freeing: Freeing, node: Node) -> Node:
    """Elements of the first and only row, picked by number: they are picked in each row."""
    data, indices = node.inputs
    layout = freeing.provenance.of(data).layout
    if not layout or node.attributes.get("batch_dims", 0) or len(layout[0]) != 1:
        return node
    rows = layout[0][0]
    if not _was_one_row(freeing, rows) or freeing.model.opsets.get("", 1) < _BATCH_DIMS:
        return node
    if _follows(freeing, indices):
        column = _after_row_number(freeing, indices)
        if column is None or not _is_row_by_row(freeing, column, rows):
            return node
        return freeing.become(node, "GatherND", [data, column], batch_dims=1)
    stored = freeing.stored(indices)
    array = None if stored is None else stored.array(LARGEST)
    if array is None or array.shape[-1] < 2 or array[..., 0].any():
        return node
    inner = freeing.new_constant(np.ascontiguousarray(array[None, ..., 1:]), f"{indices}_in_row")
    target = freeing.vector([rows, *[ONE] * array.ndim], f"{indices}_spread")
    spread = freeing.insert("Expand", [inner, target], indices)
    picked = freeing.insert("GatherND", [data, spread], node.outputs[0], batch_dims=1)
    given = freeing.shape(data) or ()
    return _together(freeing, node, picked, [*map(constant, array.shape[:-1]), *given[array.shape[-1] :]])


def _is_row_by_row(freeing: Freeing, name: str, rows: Dim) -> bool:
    """True if a tensor has its rows one after the other along its first axis."""
    origin = freeing.provenance.of(name)
    return origin.layout is not None and origin.layout[:1] == ((rows,),) and not origin.mixed


def _after_row_number(freeing: Freeing, name: str) -> str | None:
    """Indices without their first number, when that is a stored 0: the number of the only row."""
    made = next((n for n in freeing.model.graph.nodes if name in n.outputs), None)
    rank = len(freeing.shape(name) or ())
    if made is None or made.op_type != "Concat" or made.attributes.get("axis") not in (-1, rank - 1):
        return None
    first, *rest = made.inputs
    stored = freeing.stored(first)
    array = None if stored is None else stored.array(LARGEST)
    if array is None or array.shape[-1] != 1 or array.any() or not rest:
        return None
    return rest[0] if len(rest) == 1 else freeing.insert("Concat", rest, name, axis=rank - 1)


def _was_one_row(freeing: Freeing, dim: Dim) -> bool:
    return dim.name in freeing.rows and freeing.old(dim) == 1


def _follows(freeing: Freeing, name: str) -> bool:
    """True if a tensor depends on rows."""
    origin = freeing.provenance.of(name)
    return any(origin.depends(symbol) for symbol in freeing.rows)


def _together(freeing: Freeing, node: Node, picked: str, dims: Seq[Dim]) -> Node:
    """Elements picked per row, reshaped as the node's output for one row (`dims`). The node becomes that Reshape."""
    pieces, before = freeing.pieces(picked), freeing.known(picked)
    sizes = [int(size) for d in dims if (size := freeing.old(d)) is not None]
    candidates = placements(pieces, sizes, sizes) if pieces is not None and len(sizes) == len(dims) else []
    if not candidates or before is None:
        raise Refused(
            f"{node.label} ({node.op_type}) picks from the rows, and no axis is there to tell them apart",
            node=node.label,
        )
    made = candidates[freeing.choose(node, len(candidates), node.label)]
    return freeing.become(node, "Reshape", [picked, _target(freeing, picked, made)])


def _target(freeing: Freeing, name: str, dims: Seq[Dim]) -> str:
    target = target_of(dims, freeing.shape(name) or (), copies=True)
    hint = f"{name}_target"
    return freeing.vector(dims, hint) if target is None else freeing.number_vector(target, hint)


def resize(freeing: Freeing, node: Node) -> Node:
    """Sizes to resize to: an axis that keeps its size follows it."""
    if len(node.inputs) < 4 or not node.inputs[3] or node.attributes.get("axes") is not None:
        return node
    target, shape = freeing.numbers(node.inputs[3]), freeing.shape(node.inputs[0])
    if target is None or shape is None or len(target) != len(shape):
        return node
    dims = [
        dim if dim.terms and freeing.old(dim) == size else constant(size)
        for size, dim in zip(target, shape, strict=True)
    ]
    if all(not d.terms for d in dims):
        return node
    return freeing.with_input(node, 3, freeing.vector(dims, f"{node.inputs[3]}_free"))
