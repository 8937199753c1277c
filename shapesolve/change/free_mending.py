"""Operands in which sizes were baked, operator by operator: what they say of sizes that are free again is said anew."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import TypeAlias

import numpy as np

from ..expr import ONE, Dim, constant, product
from ..model import Node
from .free_bodies import looped
from .free_cutting import cut, diagonal, may_move, most, placed, selected
from .free_padding import attribute_padding, pad
from .free_patterns import enumerated, numbers
from .free_reshape import other_ways, placements, target_of
from .free_state import Freeing
from .free_stored import LARGEST
from .free_suspects import check_suspects, joined
from .refused import Refused

Mender: TypeAlias = Callable[[Freeing, Node], Node]

#: opset since which GatherND has batch_dims
_BATCH_DIMS = 12
#: first axis behind batch and channels
_SPATIAL = 2
#: opset since which an entry of a Reshape's target may be a size of 0
_ALLOW_ZERO = 14


def mend(freeing: Freeing, node: Node) -> Node:
    """The node as it should read now."""
    node = attribute_padding(freeing, check_suspects(freeing, node))
    mender = _MENDERS.get(node.op_type) if not node.domain else None
    return node if mender is None else mender(freeing, node)


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
    candidates = placements(pieces, sizes, raw, freeing.old)
    if not candidates:
        raise Refused(
            f"{node.label} (Reshape) makes {sizes} of {shape}: it cannot be told which entries follow the sizes that are free",
            node=node.label,
        )
    taken = freeing.choose(node, len(candidates))
    dims = candidates[taken]
    freeing.rivals[node.label] = other_ways(candidates, taken, pieces, raw)
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


def expand(freeing: Freeing, node: Node) -> Node:
    """An entry that repeats what the tensor has there anyway says nothing."""
    target, shape = freeing.numbers(node.inputs[1]), freeing.shape(node.inputs[0])
    if target is None or shape is None:
        return node
    before = len(target) - len(shape)
    dims = []
    for k, size in enumerate(target):
        dim = shape[k - before] if k >= before else ONE
        if dim.terms and freeing.old(dim) == size:
            dims.append(ONE)
        elif dim is ONE:
            dims.append(freeing.maybe(size, f"entry {k} of the target", node))
        else:
            dims.append(constant(size))
    if dims == [constant(size) for size in target]:
        return node
    return freeing.with_input(node, 1, freeing.vector(dims, f"{node.inputs[1]}_free"))


def gather(freeing: Freeing, node: Node) -> Node:
    """Elements of one row, picked from an axis on which its rows follow each other: they are picked in each row."""
    data, indices = node.inputs
    layout, shape = freeing.provenance.of(data).layout, freeing.shape(data)
    axis = int(node.attributes.get("axis", 0))
    if layout is None or shape is None:
        return node
    axis %= len(shape)
    factors = layout[axis]
    places = _places(freeing, node, factors)
    if places is not None:
        return freeing.with_input(node, 1, places)
    if len(factors) < 2 or not _was_one_row(freeing, factors[0]):
        return node
    rows, inner = factors[0], product(factors[1:])
    dims = [*shape[:axis], rows, inner, *shape[axis + 1 :]]
    if not _follows(freeing, indices):
        apart = freeing.insert("Reshape", [data, _target(freeing, data, dims)], data)
        picked = freeing.insert("Gather", [apart, indices], node.outputs[0], axis=axis + 1)
        return _together(freeing, node, picked)
    if axis or not _is_row_by_row(freeing, indices, rows):
        return node
    apart = freeing.insert("Reshape", [data, _target(freeing, data, dims)], data)
    own = freeing.shape(indices) or ()
    column = freeing.insert("Reshape", [indices, _target(freeing, indices, [*own, ONE])], indices)
    return freeing.become(node, "GatherND", [apart, column], batch_dims=1)


def gather_nd(freeing: Freeing, node: Node) -> Node:
    """Elements of the first and only row, picked by number: they are picked in each row."""
    data, indices = node.inputs
    grid = _grid(freeing, node)
    if grid is not None:
        return freeing.with_input(node, 1, grid)
    node = placed(freeing, node)
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
    return _together(freeing, node, picked)


def _places(freeing: Freeing, node: Node, factors: Seq[Dim]) -> str | None:
    """Stored indices that number all places of an axis whose size is free, anew; None where they do not."""
    stored = freeing.stored(node.inputs[1])
    array = None if stored is None else stored.array(LARGEST)
    if array is None or not any(freeing.is_free(f) and (freeing.old(f) or 0) > 1 for f in factors):
        return None
    made = enumerated(freeing, array, factors)
    was = freeing.old(product(factors))
    if made is None and was is not None and array.size and may_move(freeing, array, was):
        raise Refused(
            f"{node.label} ({node.op_type}) picks place {int(array.max())} of {product(factors)}: "
            "it may have been counted from the end, or as a part",
            node=node.label,
        )
    return made


def _grid(freeing: Freeing, node: Node) -> str | None:
    """Stored indices of which each number goes through all places of its axis, anew; None where they do not."""
    data, indices = node.inputs
    shape, stored = freeing.shape(data), freeing.stored(indices)
    array = None if stored is None else stored.array(LARGEST)
    if shape is None or array is None or node.attributes.get("batch_dims", 0):
        return None
    picked = shape[: array.shape[-1]]
    if not any(freeing.is_free(d) and (freeing.old(d) or 0) > 1 for d in picked):
        return None
    rank = array.ndim - 1
    wide: list[Dim] = [constant(n) for n in array.shape[:-1]]
    parts: list[str | None] = []
    for k, size in enumerate(picked):
        column = array[..., k]
        moving = [a for a in range(rank) if column.shape[a] > 1 and (np.diff(column, axis=a) != 0).any()]
        places = np.arange(freeing.old(size) or 0)
        if not moving and not column.any() and (freeing.old(size) == 1 or not freeing.is_free(size)):
            parts.append(None)
            continue
        if len(moving) != 1 or column.shape[moving[0]] != len(places):
            return None
        along = places.reshape([-1 if a == moving[0] else 1 for a in range(rank)])
        if not (column == along).all():
            return None
        wide[moving[0]] = freeing.as_many(size, f"so many places are picked by {node.label}")
        parts.append(numbers(freeing, wide[moving[0]], moving[0], rank))
    target = freeing.vector(wide, "grid_shape")
    zero = freeing.new_constant(np.zeros([1] * rank, np.int64), "no_place")
    last = freeing.number_vector([rank], "last_axis")
    columns = []
    for part in parts:
        spread = freeing.insert("Expand", [part or zero, target], "grid")
        columns.append(freeing.insert("Unsqueeze", [spread, last], "grid"))
    return freeing.insert("Concat", columns, "grid", axis=rank)


def _is_row_by_row(freeing: Freeing, name: str, rows: Dim) -> bool:
    """Does a tensor have one row after the other along its first axis?"""
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
    """Does a tensor depend on rows?"""
    origin = freeing.provenance.of(name)
    return any(origin.depends(symbol) for symbol in freeing.rows)


def _together(freeing: Freeing, node: Node, picked: str) -> Node:
    """What was picked row by row, in the shape that the node used to give; the node becomes that Reshape."""
    pieces, before = freeing.pieces(picked), freeing.walk.read(picked, freeing.scope)
    sizes = _picked_sizes(freeing, node)
    candidates = (
        placements(pieces, sizes, sizes, freeing.old) if pieces is not None and sizes is not None else []
    )
    if not candidates or before is None:
        raise Refused(
            f"{node.label} ({node.op_type}) picks from the rows, and no axis is there to tell them apart",
            node=node.label,
        )
    dims = candidates[freeing.choose(node, len(candidates))]
    return freeing.become(node, "Reshape", [picked, _target(freeing, picked, dims)])


def _picked_sizes(freeing: Freeing, node: Node) -> list[int] | None:
    """The sizes that a Gather or GatherND gave."""
    data, indices = freeing.shape(node.inputs[0]), freeing.shape(node.inputs[1])
    if data is None or indices is None:
        return None
    if node.op_type == "Gather":
        axis = int(node.attributes.get("axis", 0)) % len(data)
        dims = [*data[:axis], *indices, *data[axis + 1 :]]
    else:
        dims = [*indices[:-1], *data[int(indices[-1]) :]]
    sizes = [freeing.old(d) for d in dims]
    return None if None in sizes else [int(size or 0) for size in sizes]


def _target(freeing: Freeing, name: str, dims: Seq[Dim]) -> str:
    target = target_of(dims, freeing.shape(name) or (), copies=True)
    hint = f"{name}_target"
    return freeing.vector(dims, hint) if target is None else freeing.number_vector(target, hint)


def filled(freeing: Freeing, node: Node) -> Node:
    """A shape, or numbers of repeats, of which some may follow a symbol."""
    i = 0 if node.op_type == "ConstantOfShape" else 1
    target = freeing.numbers(node.inputs[i])
    if target is None:
        return node
    dims = [freeing.maybe(size, f"entry {k} of the target", node) for k, size in enumerate(target)]
    if all(not d.terms for d in dims):
        return node
    return freeing.with_input(node, i, freeing.vector(dims, f"{node.inputs[i]}_free"))


def resize(freeing: Freeing, node: Node) -> Node:
    """Sizes to resize to: an axis that keeps its size follows it, and those of an input, all of them, follow that input."""
    if len(node.inputs) < 4 or not node.inputs[3] or node.attributes.get("axes") is not None:
        return node
    target, shape = freeing.numbers(node.inputs[3]), freeing.shape(node.inputs[0])
    if target is None or shape is None or len(target) != len(shape):
        return node
    dims, image = [], _of_an_input(freeing, shape, target)
    for k, (size, dim) in enumerate(zip(target, shape, strict=True)):
        if dim.terms and freeing.old(dim) == size:
            dims.append(dim)
        elif freeing.is_free(dim) and image is not None:
            dims.append(freeing.as_many(image[k], f"entry {k} of the sizes"))
        elif freeing.is_free(dim):
            _check_scale(freeing, node, dim, size)
            dims.append(freeing.maybe(size, f"entry {k} of the sizes", node))
        else:
            dims.append(constant(size))
    if all(not d.terms for d in dims):
        return node
    return freeing.with_input(node, 3, freeing.vector(dims, f"{node.inputs[3]}_free"))


def _check_scale(freeing: Freeing, node: Node, dim: Dim, size: int) -> None:
    was = freeing.old(dim) or 1
    if (
        freeing.is_other(dim)
        and size not in freeing.seen
        and min(size, was) > 1
        and 0 in (size % was, was % size)
    ):
        raise Refused(
            f"{node.label} (Resize) makes {size} places of {dim}: that may be so many times as many",
            node=node.label,
        )


def _of_an_input(freeing: Freeing, shape: Seq[Dim], target: Seq[int]) -> Seq[Dim] | None:
    """The sizes of an input of which the target has all behind batch and channels, each where it follows the same symbols."""
    places = range(_SPATIAL, len(shape))
    found: dict[tuple[Dim, ...], Seq[Dim]] = {}
    for name in freeing.given:
        image = freeing.shape(name) or ()
        if len(image) == len(shape) and all(
            freeing.old(image[k]) == target[k]
            and (not freeing.is_free(shape[k]) or image[k].free == shape[k].free)
            for k in places
        ):
            found[tuple(image[k] for k in places)] = image
    return next(iter(found.values())) if len(found) == 1 and len(places) > 1 else None


_MENDERS: dict[str, Mender] = {
    "Compress": selected,
    "Concat": joined,
    "ConstantOfShape": filled,
    "Expand": expand,
    "Gather": gather,
    "GatherElements": placed,
    "GatherND": gather_nd,
    "Loop": looped,
    "Pad": pad,
    "Reshape": reshape,
    "Resize": resize,
    "Scan": looped,
    "ScatterElements": placed,
    "ScatterND": placed,
    "Slice": cut,
    "TopK": most,
    "Trilu": diagonal,
    "Tile": filled,
}
