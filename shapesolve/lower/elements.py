# compiled: see CONTRIBUTING.md
"""Applies elementwise functions to partial data, element by element if known, otherwise to their bounds."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from math import prod

import numpy as np

from ..expr import ONE, ZERO, Dim, maximum, minimum, trunc_div
from ..expr.limits import INT32_MAX
from .arith import Function
from .limits import MAX_ELEMENTS
from .op import Op
from .precision import INT_LIMITS, exact, has_room
from .values import Array, Elem, Ratio, Value

#: bounds of integer elements; None if unbounded
DimRange = tuple[Dim | None, Dim | None]
#: bounds of the result from the bounds of the operands
OnRanges = Callable[..., DimRange]


def apply(
    op: Op, function: Function, indices: Seq[int], dtype: int, intervals: OnRanges | None = None
) -> Value | None:
    """Return the value that an elementwise operator computes from these inputs."""
    values = [op.value(i) for i in indices]
    if all(v is None for v in values):
        return None
    found = None
    if all(v is not None and v.elems is not None for v in values):
        found = on_elements(function, values, dtype)
        if found is not None and not _states_rounding(op, found, values):
            return None
    if found is not None or intervals is None:
        return found
    reached = intervals in (add, sub, mul, div, negative, relu) and extremes_meet(op, indices)
    return within(intervals(*(interval(v) for v in values)), dtype, reached)


def _states_rounding(op: Op, found: Value, values: Seq[Value | None]) -> bool:
    """Assume sizes for which the rounding of a float product is known; return False if that is not allowed."""
    if not any(isinstance(e, Ratio) and e.rounded for e in found.elems or ()):
        return True
    elems = [e for v in values for e in (v.elems if v is not None else None) or ()]
    if not any(isinstance(e, float) and exact(e) is None for e in elems):
        return True
    return all(op.sizes_below(e.num) for e in elems if isinstance(e, Ratio) and not e.rounded)


def extremes_meet(op: Op, indices: Seq[int]) -> bool:
    """Return True if every combination of extreme elements of these inputs occurs when they are broadcast.

    This holds if at most one input has different elements, or if each varies along separate axes. A function that is
    monotonic
    in each argument then reaches the bounds computed from the arguments' bounds.
    """
    varying = []
    for i in indices:
        value, shape = op.value(i), op.shape(i)
        if value is None or not value.reached or shape is None or None in value.bounds:
            return False
        if value.bounds[0] is not value.bounds[1]:
            varying.append(shape)
    along = [{k - len(shape) for k, d in enumerate(shape) if d is not ONE} for shape in varying]
    return sum(map(len, along)) == len(set().union(*along))


def on_elements(function: Function, values: Seq[Value | None], dtype: int) -> Value | None:
    """`function` on each element of broadcast values; None for elements with an unknown operand."""

    def element(*elems: Elem) -> Elem:
        return None if None in elems else function(*elems, dtype)

    return broadcast_elements(element, values)


def broadcast_elements(function: Callable[..., Elem], values: Seq[Value | None]) -> Value | None:
    """`function` on each element of broadcast values; None if a value is missing or too large."""
    shapes, rows = [], []
    for value in values:
        if value is None or value.elems is None or value.shape is None:
            return None
        shapes.append(value.shape)
        rows.append(value.elems)
    shape = max(shapes, key=lambda s: (prod(s) != 1, len(s)))
    if all(len(s) <= len(shape) and (s == shape or prod(s) == 1) for s in shapes):
        count = prod(shape)
        rows = [row if len(row) == count else row * count for row in rows]
        return Value.known(shape, tuple([function(*elems) for elems in zip(*rows, strict=True)]))
    return _broadcast_arrays(function, [value.array for value in values if value is not None])


def _broadcast_arrays(function: Callable[..., Elem], arrays: Seq[Array | None]) -> Value | None:
    known = [a for a in arrays if a is not None]
    try:
        shape = np.broadcast_shapes(*(a.shape for a in known))
    except ValueError:
        return None
    if prod(shape) > MAX_ELEMENTS:
        return None
    flat = [np.broadcast_to(a, shape).reshape(-1).tolist() for a in known]
    result = np.empty(len(flat[0]), dtype=object)
    result[:] = [function(*elems) for elems in zip(*flat, strict=True)]
    return Value.of(result.reshape(shape))


def interval(value: Value | None) -> DimRange:
    """Return the bounds of a value's elements."""
    return value.bounds if value is not None else (None, None)


def within(bounds: DimRange, dtype: int, reached: bool = False) -> Value | None:
    """Return the value with these bounds (`reached`: both are attained). None if it may wrap in the type `dtype`."""
    lo, hi = bounds
    limits = INT_LIMITS.get(dtype)
    if limits is None or (lo is None and hi is None):
        return None
    if any(d is not None and not has_room(d, limits[1]) for d in bounds):
        return None  # it may wrap
    if limits[0] == 0 and not _at_least(lo, 0):
        return None
    if limits[1] < INT32_MAX and not (
        _at_least(lo, limits[0]) and hi is not None and _at_least(-hi, -limits[1])
    ):
        return None
    return Value.between(_small(lo), _small(hi), reached=reached)


def _at_least(d: Dim | None, limit: int) -> bool:
    return d is not None and d.lo is not None and d.lo >= limit


def _small(d: Dim | None) -> Dim | None:
    return d if d is None or d.size <= 200 else None


# ---------------------------------------------------------------------- bounds of results


def add(a: DimRange, b: DimRange) -> DimRange:
    """Return the bounds of a sum."""
    return (
        None if a[0] is None or b[0] is None else a[0] + b[0],
        None if a[1] is None or b[1] is None else a[1] + b[1],
    )


def negative(a: DimRange) -> DimRange:
    """Return the bounds of ``-a``."""
    return (None if a[1] is None else -a[1]), (None if a[0] is None else -a[0])


def sub(a: DimRange, b: DimRange) -> DimRange:
    """Return the bounds of a difference."""
    return add(a, negative(b))


def mul(a: DimRange, b: DimRange) -> DimRange:
    """Return the bounds of a product by a number, or of factors >= 0."""
    for x, y in ((a, b), (b, a)):
        k = y[0].value if y[0] is not None and y[0] is y[1] else None
        if k is not None:
            if abs(k) > INT32_MAX and None in x:
                break  # it may wrap
            lo, hi = x if k >= 0 else (x[1], x[0])
            return (None if lo is None else lo * k), (None if hi is None else hi * k)
    if a[0] is None or b[0] is None or not (_at_least(a[0], 0) and _at_least(b[0], 0)):
        return None, None
    return a[0] * b[0], (None if a[1] is None or b[1] is None else a[1] * b[1])


def div(a: DimRange, b: DimRange) -> DimRange:
    """Return the bounds of a quotient by a number >= 1 (truncated division is monotone)."""
    k = b[0]
    if k is None or k is not b[1] or k.value is None or k.const < 1:
        return None, None
    return (None if a[0] is None else trunc_div(a[0], k)), (None if a[1] is None else trunc_div(a[1], k))


def mod(a: DimRange, b: DimRange) -> DimRange:
    """Return the bounds of a remainder by divisors >= 1."""
    return (ZERO, None if b[1] is None else b[1] - 1) if _at_least(b[0], 1) else (None, None)


def fmod(a: DimRange, b: DimRange) -> DimRange:
    """Return the bounds of a remainder with the dividend's sign."""
    return mod(a, b) if _at_least(a[0], 0) else (None, None)


def lower_of(a: DimRange, b: DimRange) -> DimRange:
    """Return the bounds of a minimum: one known upper bound is enough."""
    highs = [x for x in (a[1], b[1]) if x is not None]
    lo = None if a[0] is None or b[0] is None else minimum(a[0], b[0])
    return lo, (minimum(*highs) if highs else None)


def higher_of(a: DimRange, b: DimRange) -> DimRange:
    """Return the bounds of a maximum: one known lower bound is enough."""
    return negative(lower_of(negative(a), negative(b)))


def hull(a: DimRange, b: DimRange) -> DimRange:
    """Smallest interval that contains both."""
    return (
        None if a[0] is None or b[0] is None else minimum(a[0], b[0]),
        None if a[1] is None or b[1] is None else maximum(a[1], b[1]),
    )


def magnitude(a: DimRange) -> DimRange:
    """Return the bounds of ``abs(a)``."""
    if _at_least(a[0], 0):
        return a
    both = None if a[0] is None or a[1] is None else maximum(a[1], -a[0])
    return ZERO, both


def relu(a: DimRange) -> DimRange:
    """Return the bounds of ``max(a, 0)``."""
    return higher_of(a, (ZERO, ZERO))


def one_sign(a: DimRange) -> DimRange:
    """Return the bounds of a sign."""
    return (ZERO if _at_least(a[0], 0) else -ONE), ONE
