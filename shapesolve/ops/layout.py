"""Operators that rearrange a tensor: its elements stay, their order or the shape around them changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from itertools import product as cases_of
from math import gcd
from typing import NamedTuple

import numpy as np
from onnx import TensorProto

from ..dims import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
    Cond,
    Dim,
    Shape,
    all_of,
    any_of,
    constant,
    divides,
    eq,
    exact_quotient,
    floor_div,
    ge,
    implies,
    ite,
    le,
    maximum,
    minimum,
    ne,
    of_atom,
    product,
    total,
)
from .op import InvalidNode, Op, const_dims
from .registry import lower, signature
from .types import Known
from .values import MAX_ELEMENTS, Array, Value


def rearranged(value: Value | None, change: Callable[[Array], Array]) -> Value | None:
    """Known data after `change` of the array; bounds stay what they are."""
    if value is None:
        return None
    array = value.array
    if array is not None:
        return Value.of(change(array))
    return value if value.parts is None else Value.between(*value.bounds, reached=value.reached)


def held(op: Op, cond: Cond) -> bool:
    """Does `cond` follow from bounds, or from what earlier nodes need?"""
    return cond.is_true or op.walk.facts.decide(cond) is True


def is_empty(shape: Iterable[Dim]) -> Cond:
    """Has a tensor of this shape no elements?"""
    return any_of(eq(d, 0) for d in shape)


# https://onnx.ai/onnx/operators/onnx__Transpose.html
@lower("Transpose", values=True)
def transpose(op: Op) -> Known:
    shape = op.shape(0)
    perm = op.ints_attr("perm")
    if shape is None:
        return op.out(op.shape(0, len(perm)) if perm is not None else None)
    order = tuple(perm) if perm is not None else tuple(reversed(range(len(shape))))
    if sorted(order) != list(range(len(shape))):
        raise InvalidNode(
            f"perm {list(order)} does not permute the {len(shape)} axes of {op.name_of(0)} {shape}"
        )
    return op.out([shape[i] for i in order], value=rearranged(op.value(0), lambda a: a.transpose(order)))


# https://onnx.ai/onnx/operators/onnx__Shape.html
@lower("Shape", values=True)
def shape_of(op: Op) -> Known:
    shape = op.shape(0)
    if shape is None:
        return op.out(op.fresh_shape(1, f"rank of {op.name_of(0)}"))
    start, end, _ = slice(op.attr("start", 0), op.attr("end")).indices(len(shape))
    part = Shape(shape[start:end])
    return op.out([len(part)], value=Value.vector(part))


# https://onnx.ai/onnx/operators/onnx__Size.html
@lower("Size", values=True)
def size(op: Op) -> Known:
    shape = op.shape(0)
    return op.out((), value=Value.scalar(None if shape is None else op.named(shape.numel)))


# ---------------------------------------------------------------------- Reshape
# https://onnx.ai/onnx/operators/onnx__Reshape.html


#: open target entries that are followed case by case (each doubles the cases)
_MAX_OPEN = 3


class Outcome(NamedTuple):
    """The dims of a reshaped tensor and what must hold for them."""

    dims: list[Dim]
    needs: Cond


@lower("Reshape", until=5, values=True)
def reshape_by_attribute(op: Op) -> Known:
    return reshaped(op, const_dims(op.ints_attr("shape") or ()))


@lower("Reshape", since=5, values=True)
def reshape(op: Op) -> Known:
    target = op.ints(1)
    if target is not None:
        return reshaped(op, target)
    length = op.shape(1, 1)
    rank = length[0].value if length is not None else None
    value = op.value(0)
    return op.out(
        None if rank is None else op.fresh_shape(rank, "a run-time target"), value=value and value.loose
    )


def reshaped(op: Op, target: Seq[Dim]) -> Known:
    """The tensor in the shape that `target` asks for."""
    if sum(t.value == -1 for t in target) > 1 or any(t.value is not None and t.const < -1 for t in target):
        raise InvalidNode(
            f"the target shape {Shape(target)} is not one: at most one entry may be -1, none below it"
        )
    copies = not op.int_attr("allowzero", 0)
    x = op.shape(0)
    value = op.value(0)
    if x is None:
        free = [_entry_alone(op, t, copies) for t in target]
        return op.out(free, value=value and value.loose)
    entries = [_entry(op, x, i, t, copies) for i, t in enumerate(target)]
    dims, needs = _settle(op, x, target, entries, copies)
    op.require(needs, "Reshape keeps the number of elements", (0, None), (1, None))
    return op.out(dims, value=_same_elements(value, x, dims))


def _same_elements(value: Value | None, x: Seq[Dim], dims: Seq[Dim]) -> Value | None:
    """Data of a tensor whose elements stay in order."""
    if value is None or value.elems is None:
        apart = value is not None and value.parts is not None and not (dims and x and dims[-1] is x[-1])
        return rearranged(value, np.asarray) if apart else value
    sizes = tuple(d.const for d in dims if not d.terms)
    if len(sizes) < len(dims) or int(np.prod(sizes)) != len(value.elems):
        return None
    return Value(sizes, value.elems)


def _entry_alone(op: Op, t: Dim, copies: bool) -> Dim:
    """The size that a target entry gives when nothing is known of the input."""
    return t if held(op, ge(t, 1 if copies else 0)) else op.fresh("a dim that Reshape copies or infers")


def _entry(op: Op, x: Shape, i: int, t: Dim, copies: bool) -> Dim | None:
    """The size that a target entry stands for; None while it may still be 0 (a copy) or -1 (inferred)."""
    if t.value == -1:
        return None
    if held(op, ge(t, 0 if not copies else 1)):
        return t
    beyond = i >= len(x)
    if copies and t.value == 0:
        if beyond:
            raise InvalidNode(f"target entry {i} is 0, but {op.name_of(0)} {x} has no axis {i} to copy")
        return x[i]
    op.require(ge(t, -1), "a target entry is a size, 0 or -1", (1, 0))
    if copies and held(op, ge(t, 0)):
        if beyond:
            op.require(ge(t, 1), "a target entry of 0 copies an axis that the input does not have", (1, 0))
            return t
        if ite(eq(t, 0), x[i], t) is t:  # where it is 0, it copies a 0
            return t
    return None


def _settle(op: Op, x: Shape, target: Seq[Dim], entries: list[Dim | None], copies: bool) -> Outcome:
    """The dims, from entries of which some are open."""
    open_at = [i for i, e in enumerate(entries) if e is None and target[i].value != -1]
    inferred = next((i for i, t in enumerate(target) if t.value == -1), None)
    if not open_at:
        dims = [e if e is not None else ONE for e in entries]
        return (
            _infer(op, x, dims, inferred, copies) if inferred is not None else Outcome(dims, _match(x, dims))
        )
    if inferred is None and len(open_at) == 1:
        (k,) = open_at
        rest = [e if e is not None else ONE for e in entries]
        if all(held(op, ge(e, 1)) for i, e in enumerate(rest) if i != k):
            dims, needs = _infer(op, x, rest, k, copies)
            return Outcome(dims, all_of((needs, _says(op, target[k], dims[k], x, k, copies))))
    if copies and len(open_at) <= _MAX_OPEN and all(held(op, ge(target[k], 0)) for k in open_at):
        return _split_cases(op, x, target, entries, open_at, inferred)
    return _give_up(op, x, target, entries)


def _says(op: Op, t: Dim, size: Dim, x: Shape, k: int, copies: bool) -> Cond:
    """The target entry `t` stands for `size`: is that, or is -1, or is 0 where the axis copied is that."""
    same = eq(t, size)
    if not copies:
        return any_of((same, eq(t, -1)))
    copied = eq(x[k], size) if k < len(x) else FALSE
    rest = exact_quotient(t, x[k]) if k < len(x) else None
    if same.is_true and rest is not None:
        return any_of((_positive(op, rest), eq(x[k], 0)))
    plain = all_of((same, any_of((ne(t, 0), copied))))
    return any_of((plain, eq(t, -1), all_of((eq(t, 0), copied))))


def _split_cases(
    op: Op, x: Shape, target: Seq[Dim], entries: list[Dim | None], open_at: list[int], inferred: int | None
) -> Outcome:
    """Each open entry is a size >= 1, or 0 and copies: what follows in each case, put together."""
    found: list[tuple[Cond, list[Dim]]] = []
    needs = TRUE
    for zeros in cases_of((False, True), repeat=len(open_at)):
        dims = [e if e is not None else ONE for e in entries]
        case = TRUE
        for k, is_zero in zip(open_at, zeros, strict=True):
            dims[k] = x[k] if is_zero else target[k]
            case = all_of((case, eq(target[k], 0) if is_zero else ge(target[k], 1)))
        if case.is_false:
            continue
        solved = [eq(target[k], 0).solved() for k, z in zip(open_at, zeros, strict=True) if z]
        known = dict(s for s in solved if s is not None)
        sure = [target[k] for k, z in zip(open_at, zeros, strict=True) if not z]
        here = [d.subs(known) for d in dims]
        if inferred is None:
            need = _match(x.subs(known), here)
        else:
            here, need = _infer(op, x.subs(known), here, inferred, True, sure)
        needs = all_of((needs, implies(case, need)))
        if not need.is_false:
            found.append((case, here))
    if not found:
        return Outcome([e if e is not None else op.fresh("an impossible reshape") for e in entries], needs)
    last = found[0][1]
    for case, here in found[1:]:
        last = [ite(case, a, b) for a, b in zip(here, last, strict=True)]
    return Outcome(last, needs)


def _give_up(op: Op, x: Shape, target: Seq[Dim], entries: list[Dim | None]) -> Outcome:
    """Open entries become new sizes; what ties them to the target and to the input is kept."""
    dims: list[Dim] = []
    for t, e in zip(target, entries, strict=True):
        d = op.fresh("a dim that Reshape copies or infers") if e is None else e
        if e is None and t.value is None:
            op.define(any_of((eq(d, t), le(t, 0))), "a positive target entry is the size")
        dims.append(d)
    op.define(eq(product(dims), x.numel), "Reshape keeps the number of elements")
    return Outcome(dims, TRUE)


def _match(x: Seq[Dim], dims: Seq[Dim]) -> Cond:
    """Both shapes have the same number of elements."""
    left, right = _without_shared(x, dims)
    d = product(left) - product(right)
    factors = [f for f in x if f in dims]
    if d.terms and not d.const:  # a common factor may be zero, else it can be cancelled
        for atom in d.terms[0][0]:
            rest = exact_quotient(d, of_atom(atom))
            if rest is not None:
                d = rest
                factors.append(of_atom(atom))
    return any_of((eq(d, 0), *(eq(f, 0) for f in factors)))


def _without_shared(x: Seq[Dim], dims: Seq[Dim]) -> tuple[list[Dim], list[Dim]]:
    left, right = list(x), []
    for d in dims:
        if d in left:
            left.remove(d)
        else:
            right.append(d)
    return left, right


def _infer(op: Op, x: Shape, dims: list[Dim], at: int, copies: bool, sure: Seq[Dim] = ()) -> Outcome:
    """The dim at `at` takes what the others leave; `sure` are sizes that are >= 1 in this case.

    onnxruntime fails when the others hold a 0, also when the tensor is empty. Only with allowzero it goes on
    when the input has that 0 too, and leaves zeros out of the count (with two of them that gives an odd size:
    the text, which allows no 0 beside a -1, is followed there).
    """
    others = [d for i, d in enumerate(dims) if i != at]
    left, right = _without_shared(x, others)
    shared = [d for d in others if d not in right]
    filled = [_positive(op, d) for d in (others if copies else right) if d not in sure]
    if not copies:
        filled.append(any_of((_all_positive(op, shared), _all_positive(op, left))))
    n, open_divisors = product(left), []
    for d in right:
        q = exact_quotient(n, d)
        if q is None:
            open_divisors.append(d)
        else:
            n = q
    divisor = product(open_divisors)
    if divisor.value == 0:
        return Outcome([*dims[:at], ZERO, *dims[at + 1 :]], FALSE)
    needs = all_of((*filled, multiple_of(divisor, n)))
    return Outcome([*dims[:at], floor_div(n, divisor), *dims[at + 1 :]], needs)


def _all_positive(op: Op, dims: Iterable[Dim]) -> Cond:
    return all_of(_positive(op, d) for d in dims)


def _positive(op: Op, d: Dim) -> Cond:
    """``d >= 1`` for a size, said of each factor where it is a product."""
    if held(op, ge(d, 1)):
        return TRUE
    if len(d.terms) == 1 and not d.const and d.terms[0][1] > 0:
        factors = [of_atom(a) for a in dict.fromkeys(d.terms[0][0])]
        if all(f.lo is not None and f.lo >= 0 for f in factors):
            return all_of(ge(f, 1) for f in factors)
    return ge(d, 1)


def multiple_of(k: Dim, n: Dim) -> Cond:
    """``n % k == 0``, without the common content of both."""
    if k.value and n.terms:
        content = gcd(n.const, *(c for _, c in n.terms))
        rest = exact_quotient(n, constant(content))
        return divides(k.const // gcd(k.const, content), rest if rest is not None else n)
    return divides(k, n)


# ---------------------------------------------------------------------- other shapes around the same elements


# https://onnx.ai/onnx/operators/onnx__Flatten.html (negative axes from version 11)
@lower("Flatten", values=True)
def flatten(op: Op) -> Known:
    shape = op.shape(0)
    axis = op.int_attr("axis", 1)
    if shape is None:
        return op.out(op.fresh_shape(2, "a flattened dim"))
    lowest = -len(shape) if op.version >= 11 else 0
    if not lowest <= axis <= len(shape):
        raise InvalidNode(f"axis {axis} is outside [{lowest}, {len(shape)}] for {op.name_of(0)} {shape}")
    axis += len(shape) if axis < 0 else 0
    dims = [product(shape[:axis]), product(shape[axis:])]
    return op.out(dims, value=_same_elements(op.value(0), shape, dims))


# https://onnx.ai/onnx/operators/onnx__Squeeze.html
@lower("Squeeze", until=13, values=True)
def squeeze_by_attribute(op: Op) -> Known:
    return squeezed(op, op.ints_attr("axes") or ())


@lower("Squeeze", since=13, values=True)
def squeeze(op: Op) -> Known:
    axes = op.const_ints(1) if op.has(1) else ()
    if axes is not None:
        return squeezed(op, axes)
    shape, listed = op.shape(0), op.shape(1)
    n = listed.numel.value if listed is not None else None
    if shape is None or not n:
        return op.out(None)
    return op.out(op.fresh_shape(len(shape) - n, "a dim that Squeeze leaves") if n <= len(shape) else None)


def squeezed(op: Op, axes: Seq[int]) -> Known:
    """The tensor without `axes`; when none are given without any of size 1, and the rank may stay unknown."""
    shape = op.shape(0)
    value = op.value(0)
    if shape is None:
        return op.out(None, value=value and value.loose)
    if axes:
        gone = {op.axis(a, len(shape)) for a in axes}
        for a in gone:
            op.require(eq(shape[a], 1), "Squeeze removes axes of size 1", (0, a))
    else:
        gone = {i for i, d in enumerate(shape) if held(op, eq(d, 1))}
        if not all(held(op, ne(d, 1)) for i, d in enumerate(shape) if i not in gone):
            return op.out(None)
    dims = [d for i, d in enumerate(shape) if i not in gone]
    return op.out(dims, value=_same_elements(value, shape, dims))


# https://onnx.ai/onnx/operators/onnx__Unsqueeze.html
@lower("Unsqueeze", until=13, values=True)
def unsqueeze_by_attribute(op: Op) -> Known:
    return unsqueezed(op, op.ints_attr("axes") or ())


@lower("Unsqueeze", since=13, values=True)
def unsqueeze(op: Op) -> Known:
    axes = op.const_ints(1)
    if axes is not None:
        return unsqueezed(op, axes)
    shape, listed = op.shape(0), op.shape(1)
    n = listed.numel.value if listed is not None else None
    return op.out(
        None if shape is None or n is None else op.fresh_shape(len(shape) + n, "a dim after Unsqueeze")
    )


def unsqueezed(op: Op, axes: Seq[int]) -> Known:
    """The tensor with axes of size 1 put in; `axes` count in the result."""
    shape = op.shape(0)
    value = op.value(0)
    if shape is None:
        return op.out(None, value=value and value.loose)
    rank = len(shape) + len(axes)
    new = op.axes(axes, rank)
    rest = iter(shape)
    dims = [ONE if i in new else next(rest) for i in range(rank)]
    return op.out(dims, value=_same_elements(value, shape, dims))


# https://onnx.ai/onnx/operators/onnx__DepthToSpace.html
# https://onnx.ai/onnx/operators/onnx__SpaceToDepth.html
signature("DepthToSpace", "N C H W -> N C//(b*b) H*b W*b", b="blocksize", where=("b >= 1", "C % (b*b) == 0"))
signature("SpaceToDepth", "N C H W -> N C*b*b H//b W//b", b="blocksize", where=("b >= 1", "H % b == 0", "W % b == 0"))


# https://onnx.ai/onnx/operators/onnx__ReverseSequence.html
@lower("ReverseSequence")
def reverse_sequence(op: Op) -> Known:
    shape = op.shape(0)
    lengths = op.shape(1, 1)
    batch, time = op.int_attr("batch_axis", 1), op.int_attr("time_axis", 0)
    if {batch, time} != {0, 1}:
        raise InvalidNode(f"batch_axis {batch} and time_axis {time} must be 0 and 1 in some order")
    if shape is not None:
        if len(shape) < 2:
            raise InvalidNode(f"ReverseSequence needs rank 2 or more, {op.name_of(0)} is {shape}")
        if lengths is not None:
            op.same(lengths[0], shape[batch], "one length for each sequence", (1, 0), (0, batch))
        value = op.value(1)
        if value is not None and value.reached:
            lo, hi = value.bounds
            if lo is not None and hi is not None:
                fits = all_of((ge(lo, 0), le(hi, shape[time])))
                op.require(fits, "sequence lengths lie within the time axis", (1, 0), (0, time))
    return op.like(0)


# https://onnx.ai/onnx/operators/onnx__Trilu.html
@lower("Trilu", values=True)
def trilu(op: Op) -> Known:
    shape = op.shape(0)
    if shape is not None and len(shape) < 2:
        raise InvalidNode(f"Trilu needs rank 2 or more, {op.name_of(0)} is {shape}")
    value = op.value(0)
    array = value.array if value is not None else None
    k = op.const_ints(1) if op.has(1) else (0,)
    if array is None or array.ndim < 2 or k is None or len(k) != 1:
        return op.out(shape, value=value and hull([value, Value((), (ZERO,))]))
    ones = np.ones(array.shape, dtype=bool)
    kept = np.triu(ones, k[0]) if op.int_attr("upper", 1) else np.tril(ones, k[0])
    out = array.copy()
    out[~kept] = zero_of(op.dtype(0))
    return op.out(shape, value=Value.of(out))


def zero_of(dtype: int) -> Dim | Cond | float | None:
    """The element 0 of a TensorProto type, as partial data holds it."""
    if dtype in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16):
        return 0.0
    return None if dtype in (0, TensorProto.STRING) else FALSE if dtype == TensorProto.BOOL else ZERO


def hull(values: Iterable[Value | None], reached: bool = False) -> Value | None:
    """Bounds of all elements of several tensors."""
    bounds = [v.bounds if v is not None else (None, None) for v in values]
    lows, highs = [lo for lo, _ in bounds if lo is not None], [hi for _, hi in bounds if hi is not None]
    lo = minimum(*lows) if lows and len(lows) == len(bounds) else None
    hi = maximum(*highs) if highs and len(highs) == len(bounds) else None
    return Value.between(lo, hi, reached=reached)


# ---------------------------------------------------------------------- repeated and joined


# https://onnx.ai/onnx/operators/onnx__Expand.html (a two-way broadcast with the target)
@lower("Expand", values=True)
def expand(op: Op) -> Known:
    x, target = op.shape(0), op.ints(1)
    value = op.value(0)
    if x is None or target is None:
        length = op.shape(1, 1)
        if x is None or length is None or length[0].value is None:
            return op.out(None, value=value and value.loose)
        rank = max(len(x), length[0].const)
        return op.out(op.fresh_shape(rank, "a dim that Expand broadcasts"), value=value and value.loose)
    for i, t in enumerate(target):
        op.require(ge(t, 0), "a target entry of Expand is a size", (1, 0), (1, i))
    dims = op.broadcast_of([(0, x), (1, Shape(target))])
    return op.out(dims, value=spread(value, dims, lambda a, sizes: np.broadcast_to(a, sizes)))


def spread(
    value: Value | None, dims: Seq[Dim], change: Callable[[Array, tuple[int, ...]], Array]
) -> Value | None:
    """Data of a tensor whose elements are repeated: one by one where that is small, else as bounds."""
    if value is None:
        return None
    if value.elems is None:
        keeps = value.parts is None or (dims and dims[-1].value == len(value.parts))
        return value if keeps else Value.between(*value.bounds, reached=value.reached)
    sizes = tuple(d.const for d in dims if not d.terms)
    array = value.array
    if array is not None and len(sizes) == len(dims) and int(np.prod(sizes)) <= MAX_ELEMENTS:
        return Value.of(change(array, sizes))
    return Value.between(*value.bounds, reached=True)


# https://onnx.ai/onnx/operators/onnx__Tile.html (version 1: one repeat count for one axis)
@lower("Tile", until=6)
def tile_one_axis(op: Op) -> Known:
    shape = op.shape(0)
    axis = op.const_ints(2)
    if shape is None or axis is None or len(axis) != 1:
        return op.out(None if shape is None else op.fresh_shape(len(shape), "a tiled dim"))
    counts = [ONE] * len(shape)
    tiles = op.scalar(1)
    counts[op.axis(axis[0], len(shape))] = tiles if tiles is not None else op.fresh("a repeat count")
    return op.out([d * n for d, n in zip(shape, counts, strict=True)])


@lower("Tile", since=6, values=True)
def tile(op: Op) -> Known:
    shape, repeats = op.shape(0), op.ints(1)
    if shape is None and repeats is not None:
        shape = op.shape(0, len(repeats))
    value = op.value(0)
    if shape is None or repeats is None:
        dims = None if shape is None else op.fresh_shape(len(shape), "a tiled dim")
        return op.out(dims, value=value and Value.between(*value.bounds, reached=value.reached))
    if len(repeats) != len(shape):
        raise InvalidNode(f"Tile has {len(repeats)} repeat counts for {op.name_of(0)} {shape}")
    for i, n in enumerate(repeats):
        op.require(ge(n, 0), "a repeat count is at least 0", (1, 0), (0, i))
    counts = tuple(n.value or 0 for n in repeats)
    dims = Shape(d * n for d, n in zip(shape, repeats, strict=True))
    return op.out(dims, value=spread(value, dims, lambda a, _: np.tile(a, counts)))


# https://onnx.ai/onnx/operators/onnx__Concat.html
@lower("Concat", until=4, values=True)
def concat_default_axis(op: Op) -> Known:
    return concatenated(op, op.int_attr("axis", 1))


@lower("Concat", since=4, values=True)
def concat(op: Op) -> Known:
    axis = op.attr("axis")
    if not isinstance(axis, int):
        raise InvalidNode("Concat needs attribute axis")
    return concatenated(op, axis)


def concatenated(op: Op, axis: int) -> Known:
    """All inputs one after another along `axis`.

    onnxruntime does not check the sizes of inputs without elements; the text asks for equal sizes always.
    Inputs known to be empty are excused here, others must agree.
    """
    shapes = [op.shape(i) for i in range(op.n_in)]
    legacy = _legacy_empty(shapes)
    known = [(i, s) for i, s in enumerate(shapes) if s is not None and i not in legacy]
    values = [op.value(i) for i in range(op.n_in) if i not in legacy]
    if not known:
        return op.out(None, value=hull(values))
    rank = len(known[0][1])
    axis = op.axis(axis, rank)
    for i, s in enumerate(shapes):
        if s is None:
            shapes[i] = op.shape(i, rank)
    kept = [i for i, s in enumerate(shapes) if i not in legacy and s is not None]
    if any(len(shapes[i] or ()) != rank for i in kept):
        raise InvalidNode(f"Concat needs inputs of one rank, they are {', '.join(map(str, shapes))}")
    checked = [i for i in kept if not is_empty(shapes[i] or ()).is_true] or kept
    joint = op.same_shapes(checked, "Concat needs equal sizes on the other axes", skip=axis)
    along = [(shapes[i] or Shape())[axis] for i in kept]
    dims = list(joint or ())
    dims[axis] = total(along)
    return op.out(dims, value=_joined(values, along, axis, rank))


def _legacy_empty(shapes: Seq[Shape | None]) -> set[int]:
    """Inputs of shape [0] among others of higher rank: to old exporters an empty tensor of any rank."""
    ranks = {len(s) for s in shapes if s is not None}
    empty = {i for i, s in enumerate(shapes) if s is not None and len(s) == 1 and s[0].value == 0}
    return empty if len(ranks) > 1 and len(empty) < len(shapes) else set()


def _joined(values: list[Value | None], along: Seq[Dim], axis: int, rank: int) -> Value | None:
    """Data of joined tensors: one by one, or bounds (apart for each index of the last axis, joined there)."""
    found = [_array_or_unknown(v, n, rank) for v, n in zip(values, along, strict=True)]
    arrays = [a for a in found if a is not None]
    some = any(v is not None and v.elems is not None for v in values)
    if some and len(arrays) == len(found) and sum(a.size for a in arrays) <= MAX_ELEMENTS:
        try:
            return Value.of(np.concatenate(arrays, axis=axis))
        except ValueError:  # the shapes do not fit: reported by the rule
            return None
    every = [v for v in values if v is not None]
    present = len(every) == len(values) and all(map(_is_positive, along))
    whole = hull(values, present and all(v.reached for v in every))
    counts = [n.const for n in along if not n.terms]
    if whole is None or axis != rank - 1 or len(counts) < len(along) or sum(counts) > 16:
        return whole
    parts = [p for v, n in zip(every, counts, strict=True) for p in _parts(v, n)]
    return Value.between(*whole.bounds, reached=whole.reached, parts=tuple(parts))


def _is_positive(d: Dim) -> bool:
    return d.lo is not None and d.lo >= 1


def _parts(value: Value, count: int) -> list[Value]:
    if value.parts is not None and len(value.parts) == count:
        return list(value.parts)
    array = value.array
    if array is not None and array.ndim and array.shape[-1] == count:
        apart = [Value.of(array[..., k]) for k in range(count)]
        return [v if v is not None else value for v in apart]
    reached = value.reached and count == 1
    return [Value(None, None, value.bounds, None, reached)] * count


def _array_or_unknown(value: Value | None, n: Dim, rank: int) -> Array | None:
    """The elements; a small unknown vector counts as unknown elements."""
    array = value.array if value is not None else None
    if array is None and rank == 1 and n.value is not None and n.const <= 64:
        return np.full(n.const, None, dtype=object)
    return array
