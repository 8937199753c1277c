"""Operators that cut or pad a tensor: Slice, Split, Pad."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from functools import partial
from math import prod
from typing import Any

import numpy as np
from onnx import TensorProto

from ..expr import (
    ZERO,
    Dim,
    Shape,
    all_of,
    any_of,
    ceil_div,
    constant,
    eq,
    floor_div,
    ge,
    ite,
    le,
    maximum,
    minimum,
    total,
)
from ..expr.canonical import pos
from ..expr.limits import INT32_MAX, INT64_MAX
from ..lower.axes import Links, axis_of, dims, links_kept, made, numbers, own, plain, rank, sizes
from ..lower.limits import MAX_ELEMENTS
from ..lower.needed import const_dims
from ..lower.op import InvalidNode, MalformedNode, Op
from ..lower.reads import AXES, ENDS, PADS, PARTS, STARTS, between
from ..lower.reason import CROP
from ..lower.registry import lower
from ..lower.standard import one_number, standard_size
from ..lower.types import Known
from ..lower.values import Array, Value
from ..lower.work import MOVES, Outputs
from .layout import held, hull, is_empty, zero_of
from .reshaping import multiple_of

# ---------------------------------------------------------------------- Slice
# https://onnx.ai/onnx/operators/onnx__Slice.html


def _slice_axes(op: Op, outputs: Outputs) -> Links:
    """Return the links of a Slice: axes that keep their size, with positive step."""
    given, steps = sizes(op), numbers(op, 4) if op.has(4) else ()
    named = numbers(op, 3) if steps and op.has(3) else range(len(steps))
    backward = {axis % len(given) for axis, step in zip(named, steps, strict=True) if step < 0}
    pairs = zip(given, made(outputs), strict=True)
    return links_kept(op, [a is b and k not in backward for k, (a, b) in enumerate(pairs)])


@lower(
    "Slice",
    until=10,
    passes=(0,),
    values=True,
    ranks="first",
    fault="cannot slice this input",
    work=MOVES,
    axes=_slice_axes,
)
def slice_by_attributes(op: Op) -> Known:
    starts, ends, axes = op.ints_attr("starts") or (), op.ints_attr("ends") or (), op.ints_attr("axes")
    if axes is None:
        axes = tuple(range(len(starts)))
    return sliced(op, const_dims(starts), const_dims(ends), axes, (1,) * len(starts))


@lower(
    "Slice",
    since=10,
    passes=(0,),
    reads={1: STARTS, 2: ENDS, 3: AXES, 4: between(1, 2, "steps")},
    values=True,
    data=(1, 2, 3, 4),
    vectors=(1, 2, 3, 4),
    ranks="first",
    fault="cannot slice this input",
    advice="ends",
    axes=_slice_axes,
    work=MOVES,
)
def slice_by_inputs(op: Op) -> Known:
    starts, ends = op.ints(1), op.ints(2)
    _require_lists(op)
    n = next((len(v) for v in (starts, ends) if v is not None), None)
    axes = op.const_ints(3) if op.has(3) else None if n is None else tuple(range(n))
    steps = op.const_ints(4) if op.has(4) else None if n is None else (1,) * n
    return sliced(op, starts, ends, axes, steps)


def _require_lists(op: Op) -> None:
    """Require that the lists of a Slice have equal lengths and no repeated axis. They name no more axes
    than there are.
    """
    data = op.shape(0)
    lists = [(i, s) for i in range(1, op.n_in) if op.has(i) and (s := op.shape(i)) is not None]
    if not lists or all(not s[0].terms for _, s in lists):
        return
    (first, shape), *others = lists
    for i, other in others:
        op.require(
            eq(shape[0], other[0]),
            "expected as many starts, ends, and steps as axes",
            (first, None),
            (i, None),
        )
    if data is not None:
        op.require(le(shape[0], len(data)), "Slice names each axis once", (first, None), (0, None))


def sliced(
    op: Op, starts: Seq[Dim] | None, ends: Seq[Dim] | None, axes: Seq[int] | None, steps: Seq[int] | None
) -> Known:
    """Lower a Slice along `axes`; unknown axes make every dim unknown."""
    shape, value = op.shape(0), op.value(0)
    if shape is None:
        return op.out(None, value=value and value.loose)
    if not shape:
        raise InvalidNode("a scalar cannot be sliced")
    if axes is None:
        return op.out(
            [op.fresh("a dim that may be sliced", 0, d) for d in shape], value=value and value.loose
        )
    if any(v is not None and len(v) != len(axes) for v in (starts, ends, steps)):
        raise InvalidNode("expected as many starts, ends, and steps as axes")
    if steps is not None and 0 in steps:
        raise InvalidNode("a step of Slice cannot be 0")
    dims = list(shape)
    taken: list[slice | None] = [slice(None)] * len(shape)
    for i, axis in enumerate(op.axes(axes, len(shape))):
        d = shape[axis]
        if starts is None or ends is None or steps is None or _may_mark(op, ends[i], steps[i]):
            dims[axis], taken[axis] = op.fresh("a sliced dim", 0, d), None
            continue
        first, size = span(op, d, starts[i], ends[i], steps[i])
        dims[axis] = size
        known = not first.terms and not size.terms
        taken[axis] = _part(first.const, size.const, steps[i]) if known else None
    if all(a is b for a, b in zip(dims, shape, strict=True)) and all(s == 1 for s in steps or (0,)):
        return op.out(shape, value=value)
    if value is None or value.elems is None or None in taken:
        return op.out(dims, value=value and value.loose)
    if len(taken) == 1 and taken[0] is not None:
        return op.out(dims, value=Value.vector(value.elems[taken[0]]))
    array = value.array
    return op.out(dims, value=value.loose if array is None else Value.of(array[tuple(taken)]))


def _part(first: int, size: int, step: int) -> slice:
    stop = first + size * step
    return slice(first, stop if stop >= 0 else None, step) if size else slice(0)


def span(op: Op, d: Dim, start: Dim, end: Dim, step: int) -> tuple[Dim, Dim]:
    """Return a slice's first index and size, for an axis of size `d`."""
    if step > 0:
        first, stop = _clamped(op, start, d), _clamped(op, end, d)
        op.usual(ge(stop, first))
        return first, ceil_div(pos(stop - first), constant(step))
    last = d - 1
    if op.as_onnxruntime("slice-end") and end.value in (INT32_MAX, INT64_MAX):
        end = constant(-INT32_MAX)
    first = minimum(_clamped(op, start, d), last)
    stop = _clamped(op, end + 1 if end.value is None or abs(end.const) < INT32_MAX else end, d, back=True) - 1
    return first, ceil_div(pos(first - stop), constant(-step))


def _may_mark(op: Op, end: Dim, step: int) -> bool:
    """Return True if `end` may be onnxruntime's marker for "down to the start" in a slice of negative step."""
    return step < 0 and bool(end.terms) and end.lo is None and op.as_onnxruntime("slice-end")


def _clamped(op: Op, v: Dim, d: Dim, back: bool = False) -> Dim:
    """Return a non-negative slice bound `v` (counted from the end if negative), clamped to ``[0, d]``.

    With `back`, `v` is one more than the end of a descending slice: it has the sign of ``v - 1``.
    """
    if v.value is not None:
        if v.const >= INT32_MAX:
            return d
        if v.const <= -INT32_MAX:
            return ZERO
    edge = 1 if back else 0
    if held(op, ge(v, edge)):
        op.usual(le(v, d))
        return minimum(d, v)
    counted = pos(d + v)
    if held(op, le(v, edge - 1)):
        op.usual(ge(d + v, 0))
        return counted
    return ite(ge(v, edge), minimum(d, v), counted)


# ---------------------------------------------------------------------- Split
def _split_axes(op: Op, _: Outputs) -> Links:
    labels, axis = own(op), axis_of(op)
    parts = [plain(("part", i) if k == axis else n for k, n in enumerate(labels)) for i in range(op.n_out)]
    return Links([labels, None], parts)


# https://onnx.ai/onnx/operators/onnx__Split.html
_split = partial(
    lower, "Split", passes=(0,), reads={1: PARTS}, values=True, data=(1,), vectors=(1,), ranks="first",
    fault="cannot split its input into these parts", advice="parts", work=MOVES, axes=_split_axes,
)  # fmt: skip


@_split(until=13)
def split_by_attribute(op: Op) -> list[Known]:
    sizes = op.ints_attr("split")
    given = const_dims(sizes) if sizes is not None else op.ints(1) if op.has(1) else None
    if op.has(1) and given is None:
        return _open_split(op)
    return split_into(op, given, uneven=False)


@_split(since=13)
def split_by_input(op: Op) -> list[Known]:
    if op.has(1):
        if op.attr("num_outputs") is not None:
            raise MalformedNode("Split takes the sizes of the chunks or the attribute num_outputs, not both")
        sizes = op.ints(1)
        if sizes == ():  # as if there were no operand
            return split_into(op, None, uneven=False)
        return _open_split(op) if sizes is None else split_into(op, sizes, uneven=False)
    counted = op.attr("num_outputs") is not None
    if counted and op.int_attr("num_outputs", 0) != op.n_out:
        raise MalformedNode(f"num_outputs is {op.attr('num_outputs')}, but Split has {op.n_out} outputs")
    if op.version >= 18 and not counted and _must_be_counted(op):
        raise MalformedNode("Split needs the sizes of the chunks or the attribute num_outputs")
    return split_into(op, None, uneven=counted)


def _must_be_counted(op: Op) -> bool:
    """Return True if a Split without sizes needs the attribute for its number of parts."""
    return not op.as_onnxruntime("split-parts") or standard_size(op, 0, op.int_attr("axis", 0)) is not None


def _open_split(op: Op) -> list[Known]:
    op.counted(1, op.n_out, "Split needs a size for each output")
    shape, value = op.shape(0), op.value(0)
    if shape is None:
        return [op.out(None)] * op.n_out
    axis = op.axis(op.int_attr("axis", 0), len(shape))
    loose = value and value.loose
    return [
        op.out(shape.with_dim(axis, op.fresh("a chunk", 0, shape[axis])), value=loose)
        for _ in range(op.n_out)
    ]


def split_into(op: Op, sizes: Seq[Dim] | None, uneven: bool) -> list[Known]:
    """Lower a Split into these sizes, or into equal ones (`uneven`: the last may be smaller)."""
    if sizes is not None and len(sizes) != op.n_out:
        raise InvalidNode(f"Split requires {op.n_out} sizes, got {len(sizes)}")
    shape, value = op.shape(0), op.value(0)
    loose = value and value.loose
    if shape is None:
        return [op.out(None, value=loose)] * op.n_out
    axis = op.axis(op.int_attr("axis", 0), len(shape))
    d, k = shape[axis], op.n_out
    if sizes is not None:
        for i, size in enumerate(sizes):
            op.require(ge(size, 0), "a chunk size is at least 0", (1, 0), (1, i))
        op.require(
            eq(total(sizes), d),
            "the chunk sizes of Split must add up to the size of the axis",
            (0, axis),
            (1, None),
        )
    elif uneven:
        chunk = ceil_div(d, constant(k))
        last = floor_div(d, constant(2)) if k == 2 else d - chunk.scale(k - 1)
        op.require(ge(last, 0), "Split has too few elements for equal chunks before the last", (0, axis))
        sizes = [*([chunk] * (k - 1)), last]
    else:
        op.require(multiple_of(constant(k), d), "equal parts need a multiple of their number", (0, axis))
        sizes = [floor_div(d, constant(k))] * k
    array = value.array if value is not None else None
    out: list[Known] = []
    start = ZERO
    for size in sizes:
        part = loose
        if array is not None and start.value is not None and size.value is not None and d.value is not None:
            part = Value.of(array.take(range(start.const, min(start.const + size.const, d.const)), axis=axis))
        out.append(op.out(shape.with_dim(axis, size), value=part))
        start = start + size
    return out


# ---------------------------------------------------------------------- Pad, CenterCropPad
# https://onnx.ai/onnx/operators/onnx__Pad.html


def _pad_axes(op: Op, _: Outputs) -> Links:
    """Return the links of a Pad: axes without padding."""
    amounts = dims(op, 1) if op.has(1) else op.attr("pads", op.attr("paddings"))
    named = [a % rank(op) for a in numbers(op, 3)] if op.has(3) else list(range(rank(op)))
    pairs = zip(named, amounts[: len(named)], amounts[len(named) :], strict=False)
    padded = {k for k, *ends in pairs if any(end not in (0, ZERO) for end in ends)}
    return links_kept(op, [k not in padded for k in range(rank(op))])


_PAD = {"mode": ("constant", "reflect", "edge", "wrap")}


@lower("Pad", until=2, values=True, choices=_PAD, ranks="first", work=MOVES, axes=_pad_axes)
def pad_by_paddings(op: Op) -> Known:
    return padded(op, const_dims(op.ints_attr("paddings") or ()), None, Value((), (op.attr("value", 0.0),)))


@lower("Pad", since=2, until=11, values=True, choices=_PAD, ranks="first", work=MOVES, axes=_pad_axes)
def pad_by_attribute(op: Op) -> Known:
    return padded(op, const_dims(op.ints_attr("pads") or ()), None, Value((), (op.attr("value", 0.0),)))


@lower(
    "Pad",
    since=11,
    reads={1: PADS, 3: AXES},
    values=True,
    choices=_PAD,
    data=(1, 3),
    vectors=(3,),
    ranks="first",
    work=MOVES,
    axes=_pad_axes,
)
def pad(op: Op) -> Known:
    shape = op.shape(0)
    axes = op.const_ints(3) if op.has(3) else None
    pads, length = op.ints(1), op.rank(1)
    if op.dtype(3) == TensorProto.INT32:
        raise InvalidNode(f"the axes {op.name_of(3)} must be int64")
    one_number(op, 2)
    if length not in (None, 1) and not (
        length == 2 and op.sized(1, 2)[0] == 1 and (op.node.domain or op.value(1) is None)
    ):
        raise InvalidNode(f"pads {op.name_of(1)} must be a vector, got {op.shape(1)}")
    if pads is None or (op.has(3) and axes is None):
        if shape is not None and not op.has(3):
            op.counted(1, 2 * len(shape), "Pad needs two numbers for each axis")
        return op.out(None if shape is None else op.fresh_shape(len(shape), "a padded dim"))
    return padded(op, pads, axes, op.value(2) if op.has(2) else Value.scalar(zero_of(op.dtype(0))))


def padded(op: Op, pads: Seq[Dim], axes: Seq[int] | None, fill: Value | None) -> Known:
    """Lower a Pad of each of `axes` by `pads` (starts, then ends); negative ones crop."""
    if axes is None and len(pads) % 2 == 0:
        op.shape(0, len(pads) // 2)
    shape, value = op.shape(0), op.value(0)
    constant_mode = op.text_attr("mode", "constant") == "constant"
    bounds = hull([value, fill]) if constant_mode else value and value.loose
    if shape is None:
        return op.out(None, value=bounds)
    order = op.axes(axes, len(shape)) if axes is not None else tuple(range(len(shape)))
    if len(pads) != 2 * len(order):
        raise InvalidNode(f"Pad requires two pads per axis, got {len(pads)} for {len(order)} axes")
    dims = list(shape)
    around: list[tuple[int, Dim, Dim]] = []
    for i, axis in enumerate(order):
        before, after = pads[i], pads[len(order) + i]
        if (added := (before + after).value) is not None and added >= INT64_MAX:
            raise InvalidNode(f"the pads of axis {axis} add up to {added}, more than any size")
        dims[axis] = shape[axis] + before + after
        around.append((axis, before, after))
        op.require(ge(dims[axis], 0), CROP, (0, axis), (1, i))
    if not constant_mode:
        _borders(op, shape, dims, around)
    array, extra = value.array if value is not None else None, fill.array if fill is not None else None
    numbers = [(a, b.value, c.value) for a, b, c in around]
    known = constant_mode and not any(None in n for n in numbers)
    if array is None or extra is None or extra.size != 1 or not known:
        return op.out(dims, value=bounds)
    grown = _padded_array(array, numbers, extra.reshape(-1)[0])
    return op.out(dims, value=bounds if grown is None else Value.of(grown))


def _borders(op: Op, shape: Shape, dims: list[Dim], around: list[tuple[int, Dim, Dim]]) -> None:
    """Requirements of the Pad modes that repeat elements (edge, reflect, wrap). There is something to repeat, unless
    the whole tensor is empty.
    """
    mode = op.text_attr("mode", "constant")
    nothing = is_empty(shape)
    for axis, before, after in around:
        if before is ZERO and after is ZERO:
            continue
        d = shape[axis]
        left = d - pos(-before) - pos(-after)
        why = f"Pad in mode {mode} needs an element to repeat"
        op.require(any_of((ge(left, 1), nothing)), why, (0, axis))
        op.require(any_of((ge(d, 1), eq(dims[axis], 0))), why, (0, axis))
        if mode == "reflect":
            for size in (before, after):
                fits = any_of((le(size, left - 1), le(size, 0), nothing))
                op.require(fits, "reflect padding must be shorter than the axis", (0, axis), (1, None))
    if mode == "wrap":  # onnxruntime does not know this mode for tensors without elements
        op.require(all_of(ge(d, 1) for d in shape), "Pad in mode wrap needs elements", (0, None))


def _padded_array(array: Array, around: Seq[tuple[int, int | None, int | None]], fill: Any) -> Array | None:
    for axis, before, after in around:
        for at_end, n in ((False, before or 0), (True, after or 0)):
            if n < 0:
                size = array.shape[axis]
                if size + n < 0:
                    return None  # it crops what the other end is padded with
                array = array.take(range(size + n) if at_end else range(min(-n, size), size), axis=axis)
    grow = [(0, 0)] * array.ndim
    for axis, before, after in around:
        grow[axis] = (max(before or 0, 0), max(after or 0, 0))
    if prod([n + a + b for n, (a, b) in zip(array.shape, grow, strict=True)]) > MAX_ELEMENTS:
        return None
    filled = np.empty((), object)  # numpy would turn one into a Python float
    filled[()] = fill
    return np.pad(array, grow, constant_values=filled)


# https://onnx.ai/onnx/operators/onnx__CenterCropPad.html
@lower("CenterCropPad", data=(1,), vectors=(1,), ranks="first", runtime=("no kernel",), work=MOVES)
def center_crop_pad(op: Op) -> Known:
    axes, target = op.ints_attr("axes"), op.ints(1)
    if op.dtype(1) == TensorProto.INT32 and op.as_onnxruntime("body-types"):
        raise InvalidNode(f"input {op.name_of(1)} must have element type int64, got int32")
    if axes is None and target is not None:
        op.shape(0, len(target))
    shape = op.shape(0)
    if shape is None:
        return op.out(None)
    order = op.axes(axes, len(shape)) if axes is not None else tuple(range(len(shape)))
    dims = list(shape)
    if target is not None and len(target) != len(order):
        raise InvalidNode(f"CenterCropPad requires {len(order)} sizes, got {len(target)}")
    for i, axis in enumerate(order):
        # a target below 0 crops everything
        dims[axis] = maximum(target[i], 0) if target is not None else op.fresh("a size given at run time")
    return op.out(dims)
