"""Rewrites nodes whose operands hold a baked size (Reshape targets, indices), so that it can vary.

A stored number or attribute that can hold a size other than rows is refused: one export cannot show what follows it.
"""

from __future__ import annotations

from collections.abc import Hashable
from collections.abc import Sequence as Seq
from math import prod

import numpy as np

from ...expr import ONE, Dim, constant, product, symbol
from ...expr.limits import INT32_MAX
from ...lower.axes import Links, picks
from ...lower.reads import AXES, INDICES, NEW_AXES, NEW_SIZES, TARGET
from ...model import Constant, Node
from ..refused import Refused
from ..size_nodes import placements, target_of
from .state import Freeing

_SECOND_EXPORT = "One export cannot show what follows it: `shapesolve generalize` learns that from an export at another size"
#: attributes that name axes, types and weights, and never hold a size of the input
_HARMLESS = frozenset((
    "allowzero", "axes", "axis", "direction", "dtype", "epsilon", "group", "hidden_size", "keepdims", "momentum",
    "noop_with_empty_axes", "perm", "stash_type", "to", "training_mode", "transA", "transB",
))  # fmt: skip
#: window attributes; with stored weights, these follow from the weights
_WINDOWS = frozenset(("dilations", "kernel_shape", "strides"))


def mend(freeing: Freeing, node: Node) -> Node:
    """Rewrite a node for the dynamic sizes.

    Raises:
        Refused: If it is unknown how an operand depends on the sizes.
    """
    check_suspects(freeing, node)
    rule = freeing.rule(node)
    reads = {} if rule is None or rule.domain else rule.reads or {}
    if rule is not None and rule.bodies == "trips":
        return _widened(freeing, node)
    if reads.get(1) is TARGET:
        node = _reshape(freeing, node)
    elif reads.get(3) is NEW_SIZES:
        node = _resize(freeing, node)
    elif 1 in reads and reads[1].what == INDICES:
        links = freeing.provenance.links(node)
        kind = "" if links is None else picks(links)
        if kind == "axis":
            node = _gather(freeing, node)
        elif kind and len(node.inputs) == 2:
            node = _gather_nd(freeing, node)
    for _ in range(3 * len(node.inputs) + 1):
        links = freeing.provenance.links(node)
        changed = None if links is None else _fitted(freeing, node, links)
        if changed is None:
            break
        node = changed
    return node


# ---------------------------------------------------------------------- numbers that may be sizes


def check_suspects(freeing: Freeing, node: Node) -> None:
    """Raise `Refused` if a node has a number that may depend on a dynamic size other than a batch size."""
    if len(freeing.rows) == len(freeing.baked) or node.is_constant:
        return
    held = "a graph inside it" if node.subgraphs else _attribute(freeing, node) or _operand(freeing, node)
    if held:
        raise Refused(
            f"{node.label} ({node.op_type}) has {held}, which may have followed a size that is freed. {_SECOND_EXPORT}",
            node=node.label,
        )


def _attribute(freeing: Freeing, node: Node) -> str:
    weighted = len(node.inputs) > 1 and node.inputs[1] in freeing.stored
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
    rule = freeing.rule(node)  # the constraints determine a target; axes are not sizes
    reads = {} if rule is None else rule.reads or {}
    for i, name in enumerate(node.inputs):
        if name not in freeing.stored or reads.get(i) in (TARGET, AXES, NEW_AXES):
            continue
        dims, array = freeing.stored[name].dims, freeing.array(name)
        if any(n > 1 and n in freeing.seen for n in dims):
            return f"the stored tensor {name} of shape {list(dims)}"
        if array is None or not array.size or array.dtype.kind not in "biuf":
            continue
        is_same = bool((array == array.flat[0]).all())
        if array.dtype.kind == "f" and not is_same:
            if np.isin(array, [n for n in freeing.seen if n > 1]).any():
                return f"the stored tensor {name}"
        elif not is_same or not _is_neutral(
            float(array.flat[0])
        ):  # weights: their axes show what they follow
            shown = f" = {array.flat[0]:g}" if is_same else ""
            return f"the stored {'number' if array.size == 1 else 'tensor'} {name}{shown}"
    return ""


def _is_neutral(number: float) -> bool:
    return number in (-1, 0, 1) or abs(number) >= INT32_MAX or not np.isfinite(number)


# ---------------------------------------------------------------------- targets


def _reshape(freeing: Freeing, node: Node) -> Node:
    """Rewrite a Reshape's target for the dynamic sizes; raise `Refused` if it is unknown which entries depend on them."""
    name, copies = node.inputs[0], not node.attributes.get("allowzero", 0)
    raw, shape, pieces = freeing.numbers(node.inputs[1]), freeing.shape(name), freeing.pieces(name)
    if raw is None or shape is None or pieces is None or not any(freeing.is_free(d) for d in shape):
        return node
    sizes = _baked_target(raw, freeing.old_shape(shape) or [], copies=copies)
    if sizes is None:
        return node
    candidates = placements(pieces, sizes, raw)
    followed = {tuple(map(freeing.is_other, dims)) for dims in candidates}
    if len(followed) != 1:  # no proof decides between entries for another size than rows
        raise Refused(
            f"{node.label} (Reshape) makes {sizes} of {shape}: it is unknown which entries depend on the dynamic sizes. "
            f"{_SECOND_EXPORT}",
            node=node.label,
        )
    dims = candidates[freeing.choose(node, len(candidates), (shape, (*raw,)))]
    target, hint = target_of(dims, shape, copies=copies), f"{node.inputs[1]}_free"
    if target == raw:
        return node
    if target is not None:
        return freeing.with_input(node, 1, freeing.new_constant(np.array(target, np.int64), hint))
    made = freeing.vector(dims, hint)
    if freeing.model.opsets.get("", 1) < 14 or not copies:  # no allowzero
        return freeing.with_input(node, 1, made)
    return freeing.become(node, "Reshape", [name, made], allowzero=1)


def _baked_target(raw: Seq[int], given: Seq[int], *, copies: bool) -> list[int] | None:
    """The output sizes that a Reshape target gave for the baked sizes; None if these do not fit."""
    sizes = [given[k] if size == 0 and copies and k < len(given) else size for k, size in enumerate(raw)]
    total, rest = prod(given), prod(size for size in sizes if size != -1)
    if not given or rest == 0 or total % rest:
        return None
    return [total // rest if size == -1 else size for size in sizes]


def _resize(freeing: Freeing, node: Node) -> Node:
    """Rewrites the target sizes of a Resize: an axis that was not resized gets the freed size."""
    if len(node.inputs) < 4 or not node.inputs[3] or node.attributes.get("axes") is not None:
        return node
    target, shape = freeing.numbers(node.inputs[3]), freeing.shape(node.inputs[0])
    if target is None or shape is None or len(target) != len(shape):
        return node
    dims = [d if freeing.old(d) == size else constant(size) for size, d in zip(target, shape, strict=True)]
    if all(not d.terms for d in dims):
        return node
    return freeing.with_input(node, 3, freeing.vector(dims, f"{node.inputs[3]}_free"))


# ---------------------------------------------------------------------- elements picked from the only row


def _gather(freeing: Freeing, node: Node) -> Node:
    """Rewrites a Gather on an axis that merges batch and other dims, so that each row is indexed alike."""
    data, indices = node.inputs
    layout, shape = freeing.provenance.of(data).layout, freeing.shape(data)
    axis = int(node.attributes.get("axis", 0))
    if layout is None or shape is None:
        return node
    axis %= len(shape)
    rows, *others = layout[axis] or (ONE,)
    if not others or not _was_one_row(freeing, rows):
        return node
    before, after, own = shape[:axis], shape[axis + 1 :], freeing.shape(indices) or ()
    if _follows(freeing, indices) and (axis or not _is_row_by_row(freeing, indices, rows)):
        return node
    apart = _reshaped(freeing, data, [*before, rows, product(others), *after])
    if not _follows(freeing, indices):
        picked = freeing.insert("Gather", [apart, indices], node.outputs[0], axis=axis + 1)
        return _together(freeing, node, picked, [*before, *own, *after])
    column = _reshaped(freeing, indices, [*own, ONE])
    return freeing.become(node, "GatherND", [apart, column], batch_dims=1)


def _gather_nd(freeing: Freeing, node: Node) -> Node:
    """Rewrites a GatherND of a batch of 1, so that each row of a larger batch is indexed alike."""
    data, indices = node.inputs
    layout = freeing.provenance.of(data).layout
    if not layout or node.attributes.get("batch_dims", 0) or len(layout[0]) != 1:
        return node
    rows = layout[0][0]
    if not _was_one_row(freeing, rows) or freeing.model.opsets.get("", 1) < 12:  # no batch_dims
        return node
    if _follows(freeing, indices):
        column = _after_row_number(freeing, indices)
        if column is None or not _is_row_by_row(freeing, column, rows):
            return node
        return freeing.become(node, "GatherND", [data, column], batch_dims=1)
    array = freeing.array(indices)
    if array is None or array.shape[-1] < 2 or array[..., 0].any():
        return node
    inner = freeing.new_constant(np.ascontiguousarray(array[None, ..., 1:]), f"{indices}_in_row")
    target = freeing.vector([rows, *[ONE] * array.ndim], f"{indices}_spread")
    spread = freeing.insert("Expand", [inner, target], indices)
    picked = freeing.insert("GatherND", [data, spread], node.outputs[0], batch_dims=1)
    given = freeing.shape(data) or ()
    return _together(freeing, node, picked, [*map(constant, array.shape[:-1]), *given[array.shape[-1] :]])


def _is_row_by_row(freeing: Freeing, name: str, rows: Dim) -> bool:
    """True if the batch rows of a tensor are consecutive along its first axis."""
    tracked = freeing.provenance.of(name)
    return tracked.layout is not None and tracked.layout[:1] == ((rows,),) and not tracked.mixed


def _after_row_number(freeing: Freeing, name: str) -> str | None:
    """The GatherND indices without their leading batch index, a stored 0; None for other indices."""
    made = next((n for n in freeing.model.graph.nodes if name in n.outputs), None)
    rank = len(freeing.shape(name) or ())
    if made is None or made.op_type != "Concat" or made.attributes.get("axis") not in (-1, rank - 1):
        return None
    array = freeing.array(made.inputs[0])
    if array is None or array.shape[-1] != 1 or array.any() or len(made.inputs) != 2:
        return None
    return made.inputs[1]


def _was_one_row(freeing: Freeing, dim: Dim) -> bool:
    return dim.name in freeing.rows and freeing.old(dim) == 1


def _follows(freeing: Freeing, name: str) -> bool:
    tracked = freeing.provenance.of(name)
    return any(tracked.depends(symbol) for symbol in freeing.rows)


def _together(freeing: Freeing, node: Node, picked: str, dims: Seq[Dim]) -> Node:
    """Turns `node` into a Reshape of `picked` to `dims`; raises `Refused` if no axis separates the rows."""
    pieces, sizes = freeing.pieces(picked), freeing.old_shape(dims)
    candidates = placements(pieces, sizes, sizes) if pieces is not None and sizes is not None else []
    if not candidates:
        raise Refused(
            f"{node.label} ({node.op_type}) picks from the rows, and no axis is there to tell them apart",
            node=node.label,
        )
    made = candidates[freeing.choose(node, len(candidates), node.label)]
    return freeing.become(node, "Reshape", [picked, _target(freeing, picked, made)])


def _reshaped(freeing: Freeing, name: str, dims: Seq[Dim]) -> str:
    return freeing.insert("Reshape", [name, _target(freeing, name, dims)], name)


def _target(freeing: Freeing, name: str, dims: Seq[Dim]) -> str:
    target = target_of(dims, freeing.shape(name) or (), copies=True)
    hint = f"{name}_target"
    return freeing.vector(dims if target is None else [*map(constant, target)], hint)


# ---------------------------------------------------------------------- operands that no longer fit


def _fitted(freeing: Freeing, node: Node, links: Links) -> Node | None:
    """Repeat one operand along an axis that is dynamic in the others (Expand, Tile). None: nothing to do.

    Raises `Refused` if an operand only has entries for the exported size.
    """
    found: dict[Hashable, list[tuple[int, int, Dim]]] = {}
    outermost: dict[Hashable, Dim] = {}  # rows with others inside, when they were one row
    for i, labels in enumerate(links.inputs):
        name = node.inputs[i] if labels else ""
        shape, layout = (freeing.shape(name), freeing.provenance.of(name).layout) if name else (None, None)
        given = zip(labels or (), shape or (), layout or (), strict=False)
        for axis, (label, dim, factors) in enumerate(given):
            found.setdefault(label, []).append((i, axis, dim))
            if len(factors) > 1 and freeing.is_free(factors[0]) and freeing.old(factors[0]) == 1:
                outermost.setdefault(label, factors[0])
    one_row: tuple[int, int, Dim] | None = None
    for label, at in found.items():
        size = next((d for _, _, d in at if freeing.is_free(d)), None)
        for i, axis, dim in at if size is not None and len(at) > 1 else ():
            if dim is ONE and not links.broadcasts:
                one_row = one_row or (i, axis, size or ONE)
            elif size is not None and not dim.terms and dim.const == freeing.old(size):
                rows = outermost.get(label)
                if rows is not None and rows * dim is size:
                    return _repeated(freeing, node, i, axis, rows, "Tile")
                if dim is not ONE:
                    raise Refused(
                        f"{node.label} ({node.op_type}) joins {node.inputs[i]}, which has {dim} entries along axis {axis}, "
                        f"with an axis of size {size}: there are no entries for other sizes. {_SECOND_EXPORT}",
                        node=node.label,
                        term=f"{size} == {dim}",
                    )
    return None if one_row is None else _repeated(freeing, node, *one_row, "Expand")


def _widened(freeing: Freeing, node: Node) -> Node:
    """Expands stored initial states of a Loop or Scan along an axis of size 1 to the batch size."""
    scanned = node.attributes.get("num_scan_inputs")
    states = range(2, len(node.inputs)) if scanned is None else range(len(node.inputs) - scanned)
    axes = [
        (i, axis)
        for i in states
        if node.inputs[i] in freeing.stored
        for axis, n in enumerate(freeing.stored[node.inputs[i]].dims)
        if n == 1
    ]
    ways = [(symbol(name), axis) for name in freeing.rows for axis in sorted({axis for _, axis in axes})]
    way = freeing.choose(node, len(ways) + 1, node.label)
    for i, axis in axes if way else ():
        if axis == ways[way - 1][1]:
            node = _repeated(freeing, node, i, axis, ways[way - 1][0], "Expand")
    return node


def _repeated(freeing: Freeing, node: Node, i: int, axis: int, times: Dim, op_type: str) -> Node:
    name = node.inputs[i]
    rank = len(freeing.shape(name) or ())
    target = freeing.vector([times if k == axis else ONE for k in range(rank)], f"{name}_repeats")
    return freeing.with_input(node, i, freeing.insert(op_type, [name, target], name))
