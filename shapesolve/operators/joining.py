# compiled: see CONTRIBUTING.md
"""Concat, and requirements on tensors that are joined along an axis.

onnxruntime ignores the sizes of an empty input; only its rank must not be lower. For sizes of the model's inputs,
shapesolve requires equal sizes anyway (see the page on concepts). If input data determines the sizes, nothing is
inferred
about an input that may be empty, or from one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from functools import partial

import numpy as np

from ..expr import Dim, Shape, all_of, any_of, eq, ge, ite, maximum, total
from ..lower.axes import Axes, Label, Links, axis_of, own, plain, rank
from ..lower.limits import MAX_ELEMENTS, MAX_RANK
from ..lower.op import InvalidNode, Op
from ..lower.reads import EVERY
from ..lower.reason import JOIN
from ..lower.reconcile import rank_follows_inputs
from ..lower.records import Place
from ..lower.registry import lower
from ..lower.standard import standard_rank, standard_size
from ..lower.types import Known
from ..lower.values import Elem, Value
from ..lower.work import MOVES, Outputs
from .layout import held, hull, is_empty


def concat_axes(start: int = 0, step: int = 1) -> Axes:
    """Make the axis rule of a concatenation of every `step`-th input from `start` on."""

    def axes(op: Op, _: Outputs) -> Links:
        count, axis = rank(op, start), axis_of(op, i=start)
        parts = range(start, op.n_in, step)
        inputs = [
            [("cut", i) if k == axis else k for k in range(count)]
            if i in parts and rank(op, i) == count  # an empty operand may have another rank
            else own(op, i)
            for i in range(op.n_in)
        ]
        joined: Label = ("cut", start) if len(parts) == 1 else "joined"
        return Links(inputs, [plain(joined if k == axis else k for k in range(count))])

    return axes


# https://onnx.ai/onnx/operators/onnx__Concat.html
_concat = partial(
    lower,
    "Concat",
    passes=EVERY,
    values=True,
    ranks="all",
    fault="cannot join these shapes",
    advice="join",
    work=MOVES,
    axes=concat_axes(),
)


@_concat(until=4)
def concat_default_axis(op: Op) -> Known:
    return concatenated(op, op.int_attr("axis", 1))


@_concat(since=4)
def concat(op: Op) -> Known:
    axis = op.attr("axis")
    if not isinstance(axis, int):
        raise InvalidNode("Concat needs attribute axis")
    return concatenated(op, axis)


def concatenated(op: Op, axis: int) -> Known:
    """Return the concatenation of all inputs along `axis`."""
    shapes = [op.shape(i) for i in range(op.n_in)]
    values = [op.value(i) for i in range(op.n_in)]
    ranks = [len(s) for s in shapes if s is not None]
    rank = ranks[0] if ranks else None
    if rank is None:
        return op.out(None, value=hull(values))
    axis = op.axis(axis, rank)
    for i, s in enumerate(shapes):
        if s is None and (not _excuses(op) or rank_follows_inputs(op.walk, op.names[i], rank)):
            shapes[i] = op.shape(i, rank)
    known = [(i, s) for i, s in enumerate(shapes) if s is not None]
    if any(len(s) != rank for _, s in known):
        if not _may_differ(op, known):
            raise InvalidNode(f"Concat inputs must have the same rank, got {', '.join(map(str, shapes))}")
        rank = min(ranks)
        axis = op.axis(op.int_attr("axis", 1), rank)
        for i, s in known:
            if len(s) > rank:
                op.require(is_empty(s), "non-empty inputs must have the same rank", (i, None))
        known = [(i, s) for i, s in known if len(s) == rank]
        if ranks[0] != rank:
            some = any_of(~is_empty(s) for _, s in known)
            op.require(some, "another input must have elements if the first has more axes", (0, None))
    excused = _known_empty(op, known, axis)
    parts = [(i, s) for i, s in known if i not in excused] or known[:1]
    dims = joined_sizes(op, parts, axis, JOIN, lambda i, k: (i, k))
    if known[0][0] in excused:
        dims = sizes_if_all_empty(op, known[0][1], parts, dims)
    along = [s[axis] for _, s in known]
    if len(along) == 2 and along[1].terms and along[0] is not along[1]:
        op.extends(along[0])
    if len(known) == op.n_in:
        dims[axis] = total(along)
        return op.out(dims, value=_joined(values, along, axis, rank, dims[-1]))
    if not any(_has_elements(op, s) for _, s in known):
        return op.out(None, value=hull(values))
    dims[axis] = total(along) + op.fresh("sizes of joined tensors of unknown rank")
    return op.out(dims, value=hull(values))


def _excuses(op: Op) -> bool:
    return op.as_onnxruntime("concat-empty")


def _may_differ(op: Op, known: Seq[tuple[int, Shape]]) -> bool:
    """True if inputs of different rank are allowed, as onnxruntime ignores empty ones. onnxruntime must not have seen
    the ranks when it loaded the file.
    """
    seen = {standard_rank(op, i) for i, _ in known} - {None}
    return _excuses(op) and not op.walk.scope.prefix and len(seen) < 2


def _has_elements(op: Op, shape: Iterable[Dim]) -> bool:
    return held(op, all_of(ge(d, 1) for d in shape))


def _known_empty(op: Op, known: Seq[tuple[int, Shape]], axis: int) -> set[int]:
    """Inputs certainly without elements, which onnxruntime ignores. Not so where their sizes were known when the model
    was loaded.
    """
    empty = {i for i, s in known if any(d.value == 0 for d in s)}
    if not empty or len({s for _, s in known}) == 1 or not _excuses(op):
        return set()
    for k in range(len(known[0][1])):
        if k != axis and len({standard_size(op, i, k) for i, _ in known} - {None}) > 1:
            return set()
    return empty


def joined_sizes(
    op: Op, parts: Seq[tuple[int, Shape]], axis: int | None, why: str, place: Callable[[int, int], Place]
) -> list[Dim]:
    """Sizes of joined tensors on the axes other than `axis`; requires that they agree. `place` is where a size stands."""
    given = op.walk.state.of_inputs
    firm = [(i, s) for i, s in parts if all(d.free <= given for d in s) or not _excuses(op)]
    certain = {i for i, _ in firm}
    solid = [(i, s) for i, s in parts if i not in certain and _has_elements(op, s)]
    if solid and any(_has_elements(op, s) for _, s in firm):
        firm, solid = firm + solid, []
    must = firm or solid or parts[:1]
    dims = list(must[0][1])
    for i, s in must[1:]:
        for k, d in enumerate(s):
            if k != axis and dims[k] is not d:
                dims[k] = op.same(dims[k], d, why, place(must[0][0], k), place(i, k))
    if axis is not None:
        dims[axis] = total(s[axis] for _, s in must)
    certain = {i for i, _ in must}
    loose = [(i, s) for i, s in parts if i not in certain and _differing(op, dims, s, axis)]
    if not loose:
        return dims
    return _excusing(op, (must[0][0], Shape(dims)), loose, axis, why, place)


def sizes_if_all_empty(op: Op, first: Shape, parts: Seq[tuple[int, Shape]], dims: Seq[Dim]) -> list[Dim]:
    """Return the sizes of joined tensors whose first is empty: its own if all others are empty too."""
    if any(_has_elements(op, s) for _, s in parts):
        return list(dims)
    none = all_of(is_empty(s) for _, s in parts)
    return [ite(none, own, d) for own, d in zip(first, dims, strict=True)]


def _differing(op: Op, dims: Seq[Dim], shape: Shape, axis: int | None) -> list[int]:
    """Axes (except `axis`) on which a shape may differ from `dims`."""
    return [
        k for k, (a, d) in enumerate(zip(dims, shape, strict=True)) if k != axis and not held(op, eq(a, d))
    ]


def _excusing(
    op: Op,
    joint: tuple[int, Shape],
    loose: Seq[tuple[int, Shape]],
    axis: int | None,
    why: str,
    place: Callable[[int, int], Place],
) -> list[Dim]:
    """Require for each shape in `loose` that it fits `joint` or that either is empty."""
    first, shape = joint
    dims, solid = list(shape), _has_elements(op, shape)
    if len({s for _, s in loose}) == 1 or solid:
        for i, s in loose:
            empty = any_of((is_empty(s), is_empty(shape)))
            for k in _differing(op, shape, s, axis):
                op.require(any_of((eq(shape[k], s[k]), empty)), why, place(first, k), place(i, k))
    if solid:
        return dims
    for k in sorted({k for _, s in loose for k in _differing(op, shape, s, axis)}):
        sizes = [shape[k], *dict.fromkeys(s[k] for _, s in loose)]
        if len(loose) == 1 and all(
            held(op, ge(d, 1)) for s in (shape, loose[0][1]) for j, d in enumerate(s) if j != k
        ):
            dims[k] = maximum(*sizes)  # an empty one is empty there
        else:
            dims[k] = op.fresh("a size of the joined tensors that have elements")
            op.define(any_of(eq(dims[k], d) for d in sizes), "it is the size of one of them")
    return dims


def _joined(values: list[Value | None], along: Seq[Dim], axis: int, rank: int, last: Dim) -> Value | None:
    """Known data of a concatenation: elements, or bounds.

    Bounds are also kept for each index of the last axis (`parts`), along whichever axis the tensors are joined.
    """
    row = _row(values, along) if rank == 1 else None
    if row is not None:
        return Value.vector(row)
    known = [v for v in values if v is not None and v.elems is not None]
    if len(known) == len(values) and sum(len(v.elems or ()) for v in known) <= MAX_ELEMENTS:
        try:
            return Value.of(np.concatenate([a for v in known if (a := v.array) is not None], axis=axis))
        except ValueError:  # the shapes do not fit: reported by the rule
            return None
    every = [v for v in values if v is not None]
    present = len(every) == len(values) and all(map(_is_positive, along))
    whole = hull(values, present and all(v.reached for v in every))
    counts = [n.const for n in along if not n.terms]
    if whole is not None and axis < rank - 1 and last.value is not None and last.const <= MAX_RANK:
        apart = [v.components(last.const) for v in every]
        columns = [hull(c, whole.reached) for c in zip(*(c for c in apart if c is not None), strict=True)]
        if None not in apart and all(columns):
            return Value.between(
                *whole.bounds, reached=whole.reached, parts=tuple(c for c in columns if c is not None)
            )
    if whole is None or axis != rank - 1 or len(counts) < len(along) or sum(counts) > MAX_RANK:
        return whole
    parts = [p for v, n in zip(every, counts, strict=True) for p in _parts(v, n)]
    return Value.between(*whole.bounds, reached=whole.reached, parts=tuple(parts))


def _row(values: list[Value | None], along: Seq[Dim]) -> tuple[Elem, ...] | None:
    """Return the elements of concatenated vectors, with None for elements of a short unknown vector."""
    if all(v is None or v.elems is None for v in values):
        return None
    row: list[Elem] = []
    for v, n in zip(values, along, strict=True):
        if v is not None and v.elems is not None:
            row += v.elems
        elif n.terms or n.const > MAX_RANK:
            return None
        else:
            row += (None,) * n.const
    return tuple(row)


def _is_positive(d: Dim) -> bool:
    return d.lo is not None and d.lo >= 1


def _parts(value: Value, count: int) -> list[Value]:
    apart = value.components(count)
    if apart is not None:
        return [v if v is not None else value for v in apart]
    reached = value.reached and count == 1
    return [Value(None, None, value.bounds, None, reached)] * count
