"""Exact arithmetic on elements of partial data, as a runtime computes it; None if unknown.

Functions of this module take elements (never None) and the element type of the result. Integers are dims that wrap,
or
become unknown if they may overflow. Floats are rounded by numpy in their real type. A float that depends on sizes
stays
a `Ratio` only while the real type holds it exactly, or rounds it once in a final division. There, sizes are assumed
to be
below 2**16 (24 bits less the bits of the coefficients), and below 2**31 in int32.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from collections.abc import Sequence as Seq
from functools import reduce
from typing import Any

import numpy as np
from onnx import TensorProto

from ..expr import (
    FALSE,
    TRUE,
    ZERO,
    Cond,
    Dim,
    absolute,
    all_of,
    any_of,
    ceil_div,
    constant,
    eq,
    exact_quotient,
    floor_div,
    ge,
    gt,
    ite,
    le,
    lt,
    maximum,
    minimum,
    ne,
    pos,
    sign,
    trunc_div,
    truth,
)
from ..expr.limits import MAX_ELEM_SIZE
from .precision import INT_LIMITS, Pair, beyond, exact, fit, float_type, ratio, rounded, scaled
from .values import Elem, Ratio

#: takes elements and the element type of the result
Function = Callable[..., Elem]


# ---------------------------------------------------------------------- binary


def _aligned(a: Pair, b: Pair) -> tuple[Dim, Dim, int]:
    den = math.lcm(a[1], b[1])
    return a[0] * (den // a[1]), b[0] * (den // b[1]), den


def _numbers(
    ints: Callable[[Dim, Dim], Dim],
    floats: Callable[[Any, Any], Any],
    pairs: Callable[[Pair, Pair], Pair | None] | None = None,
) -> Function:
    """Combine functions on integers, floats and exact quotients (default: `ints` over a common denominator)."""

    def function(a: Elem, b: Elem, dtype: int) -> Elem:
        if isinstance(a, Dim) and isinstance(b, Dim):
            return fit(ints(a, b), dtype)
        if isinstance(a, float) and isinstance(b, float):
            made = float_type(dtype)
            if made is None:
                return None
            with np.errstate(all="ignore"):
                return rounded(float(floats(made(a), made(b))), dtype)
        x, y = exact(a), exact(b)
        if x is None or y is None:
            return None
        if pairs is None:
            n, m, den = _aligned(x, y)
            return ratio(ints(n, m), den, dtype)
        result = pairs(x, y)
        return None if result is None else ratio(*result, dtype)

    return function


def _div_pairs(a: Pair, b: Pair) -> Pair | None:
    top, bottom = a[0] * b[1], b[0] * a[1]
    if not bottom.terms:
        return (top, bottom.const) if bottom.const else None
    whole = exact_quotient(top, bottom)  # 0/0 is not a number: the divisor must be known to differ from 0
    return (whole, 1) if whole is not None and bottom.lo is not None and bottom.lo >= 1 else None


add = _numbers(operator.add, operator.add)
sub = _numbers(operator.sub, operator.sub)
_mul_numbers = _numbers(operator.mul, operator.mul, lambda a, b: (a[0] * b[0], a[1] * b[1]))
_div_numbers = _numbers(trunc_div, operator.truediv, _div_pairs)


def div(a: Elem, b: Elem, dtype: int) -> Elem:
    """Division: integers toward zero."""
    return None if b == 0 and isinstance(b, Dim) else _div_numbers(a, b, dtype)


def mul(a: Elem, b: Elem, dtype: int) -> Elem:
    """Product of two elements; of a size and an inexact float only while its roundings are known."""
    product = _mul_numbers(a, b, dtype)
    if product is None:
        for x, y in ((a, b), (b, a)):
            if isinstance(x, Ratio) and not x.rounded and isinstance(y, float):
                return scaled(x.num, x.den, y, dtype)
    return product


def _extreme(numbers: Function, join: Callable[[tuple[Cond, Cond]], Cond], larger: bool) -> Function:
    def function(a: Elem, b: Elem, dtype: int) -> Elem:
        if isinstance(a, Cond) and isinstance(b, Cond):
            return join((a, b))
        found = numbers(a, b, dtype)
        far = beyond(a, b) if found is None else None
        return found if far is None else far[(far[1] > 0) is larger]

    return function


max_ = _extreme(_numbers(maximum, lambda x, y: np.maximum(x, y)), any_of, True)
min_ = _extreme(_numbers(minimum, lambda x, y: np.minimum(x, y)), all_of, False)


def mod(a: Elem, b: Elem, dtype: int) -> Elem:
    """Remainder with the sign of the divisor (``fmod=0``)."""
    if isinstance(a, Dim) and isinstance(b, Dim):
        return None if b == 0 else fit(a % b, dtype)
    if isinstance(a, float) and isinstance(b, float) and b and math.isfinite(a) and math.isfinite(b):
        r = math.fmod(a, b)  # exact
        return rounded(r + b, dtype) if r and (r < 0) != (b < 0) else rounded(r, dtype)
    return None


def fmod(a: Elem, b: Elem, dtype: int) -> Elem:
    """Remainder with the sign of the dividend (``fmod=1``)."""
    if isinstance(a, Dim) and isinstance(b, Dim):
        return None if b == 0 else fit(a - b * trunc_div(a, b), dtype)
    if isinstance(a, float) and isinstance(b, float) and b and math.isfinite(a):
        return rounded(math.fmod(a, b), dtype)
    x, y = exact(a), exact(b)
    if x is None or y is None or y[0].terms or not y[0].const:
        return None
    n, m, den = _aligned(x, y)
    return ratio(n - m * trunc_div(n, m), den, dtype)


def power(a: Elem, b: Elem, dtype: int) -> Elem:
    """Power of two elements, where the result is exact."""
    exponent = b.value if isinstance(b, Dim) else b
    if isinstance(exponent, float):
        exponent = int(exponent) if exponent.is_integer() else exponent
    if isinstance(exponent, int) and 0 <= exponent <= 8:
        one: Elem = constant(1) if isinstance(a, Dim) else 1.0
        return _product([one, *[a] * exponent], dtype)
    if isinstance(a, float) and exponent == 0.5 and a >= 0:
        root = sqrt(a, dtype)
        return root if isinstance(root, float) and root * root == a else None
    return None


def _product(elems: Seq[Elem], dtype: int) -> Elem:
    """Product of several elements; None if a float result on the way is inexact."""
    result = elems[0]
    for e in elems[1:]:
        if isinstance(e, float | Ratio) and (exact(e) is None or exact(result) is None):
            return None
        result = mul(result, e, dtype) if result is not None else None
    return result


def shift(direction: str) -> Function:
    """BitShift of unsigned elements, left or right."""

    def function(a: Elem, b: Elem, dtype: int) -> Elem:
        if not isinstance(a, Dim) or not isinstance(b, Dim) or b.value is None or not 0 <= b.value < 64:
            return None
        return fit(a * 2**b.value if direction == "LEFT" else a // 2**b.value, dtype)

    return function


def bitwise(function: Callable[[int, int], int]) -> Function:
    """A bitwise operator on known integers."""

    def on_elements(a: Elem, b: Elem, dtype: int) -> Elem:
        if isinstance(a, Dim) and isinstance(b, Dim) and a.value is not None and b.value is not None:
            return fit(constant(function(a.value, b.value)), dtype)
        return None

    return on_elements


def compare(relation: Callable[[Any, Any], Cond], plain: Callable[[Any, Any], bool]) -> Function:
    """Compare elements; strings and booleans only for equality."""

    def function(a: Elem, b: Elem, dtype: int) -> Elem:
        if isinstance(a, Dim) and isinstance(b, Dim):
            return fit(relation(a, b), TensorProto.BOOL)
        if (isinstance(a, float) and isinstance(b, float)) or (isinstance(a, str) and isinstance(b, str)):
            return truth(plain(a, b))
        if isinstance(a, Cond) and isinstance(b, Cond):
            return fit(_iff(a, b), TensorProto.BOOL) if relation is eq else None
        x, y = exact(a), exact(b)
        if x is None or y is None:
            return None
        return fit(relation(*_aligned(x, y)[:2]), TensorProto.BOOL)

    return function


def _iff(a: Cond, b: Cond) -> Cond:
    return any_of((all_of((a, b)), all_of((~a, ~b))))


equal = compare(eq, operator.eq)
less = compare(lt, operator.lt)
greater = compare(gt, operator.gt)
less_equal = compare(le, operator.le)
greater_equal = compare(ge, operator.ge)


def _logical(join: Callable[[Cond, Cond], Cond]) -> Function:
    def function(a: Elem, b: Elem, dtype: int) -> Elem:
        return fit(join(a, b), dtype) if isinstance(a, Cond) and isinstance(b, Cond) else None

    return function


both = _logical(lambda a, b: all_of((a, b)))
either = _logical(lambda a, b: any_of((a, b)))
one_of = _logical(lambda a, b: ~_iff(a, b))


def choose(cond: Elem, a: Elem, b: Elem, dtype: int) -> Elem:
    """``a if cond else b``, where the element that is not taken may be unknown."""
    if cond is TRUE or cond is FALSE:
        return a if cond is TRUE else b
    if a == b:
        return a
    if not isinstance(cond, Cond):
        return None
    if isinstance(a, Dim) and isinstance(b, Dim):
        return fit(ite(cond, a, b), dtype)
    if isinstance(a, Cond) and isinstance(b, Cond):
        return fit(any_of((all_of((cond, a)), all_of((~cond, b)))), dtype)
    x, y = exact(a), exact(b)
    if x is None or y is None:
        return None
    n, m, den = _aligned(x, y)
    return ratio(ite(cond, n, m), den, dtype)


# ---------------------------------------------------------------------- unary


def negative(a: Elem, dtype: int) -> Elem:
    """``-a``."""
    if isinstance(a, Dim):
        return fit(-a, dtype)
    if isinstance(a, Ratio):
        return Ratio(-a.num, a.den, a.rounded)
    return -a if isinstance(a, float) else None


def _monotone(ints: Callable[[Dim], Dim], floats: Callable[[float], float]) -> Function:
    """An elementwise function (negation and the like) with ``f(n / d) = f(n) / d``."""

    def function(a: Elem, dtype: int) -> Elem:
        if isinstance(a, Dim):
            return fit(ints(a), dtype)
        if isinstance(a, Ratio):
            num = ints(a.num)
            if not num.terms:
                return num.const / a.den if not a.rounded else None
            return Ratio(num, a.den, a.rounded) if num.size <= MAX_ELEM_SIZE else None
        return floats(a) if isinstance(a, float) else None

    return function


magnitude = _monotone(absolute, abs)
relu = _monotone(pos, lambda x: max(x, 0.0))


def sign_of(a: Elem, dtype: int) -> Elem:
    """-1, 0 or 1."""
    if isinstance(a, Ratio):
        return ratio(sign(a.num), 1, dtype)
    if isinstance(a, float):
        return 0.0 if a == 0 else math.copysign(1.0, a)
    return fit(sign(a), dtype) if isinstance(a, Dim) else None


def _whole(dims: Callable[[Dim, Dim], Dim], floats: Callable[[float], float]) -> Function:
    """An elementwise rounding to whole numbers, also of a quotient that was rounded once (see `Ratio`)."""

    def function(a: Elem, dtype: int) -> Elem:
        if isinstance(a, Ratio):
            return ratio(dims(a.num, constant(a.den)), 1, dtype)
        if isinstance(a, float):
            return a if math.isinf(a) else float(floats(a))
        return None

    return function


def _half_even(n: Dim, d: Dim) -> Dim:
    """``n / d`` rounded to the nearest integer, ties to the even one."""
    k = d.const
    nearest = floor_div(n * 2 + k, constant(2 * k))
    if k % 2:
        return nearest
    tie = n - k // 2  # a tie whose floor is even is where 2k divides this
    return nearest - (tie // (2 * k) - (tie - 1) // (2 * k))


floor = _whole(floor_div, math.floor)
ceil = _whole(ceil_div, math.ceil)
round_half_even = _whole(_half_even, round)


def invert(a: Elem, dtype: int) -> Elem:
    """Logical or bitwise not."""
    if isinstance(a, Dim):
        return fit(-a - 1, dtype)
    return ~a if isinstance(a, Cond) else None


def sqrt(a: Elem, dtype: int) -> Elem:
    """Square root, which every runtime rounds correctly."""
    made = float_type(dtype)
    return (
        rounded(float(np.sqrt(made(a))), dtype)
        if made is not None and isinstance(a, float) and a >= 0
        else None
    )


def reciprocal(a: Elem, dtype: int) -> Elem:
    """``1 / a``."""
    return div(1.0, a, dtype)


def cast(a: Elem, dtype: int) -> Elem:
    """Conversion to another element type."""
    if dtype == TensorProto.BOOL:
        return _to_bool(a)
    if dtype in INT_LIMITS:
        return _to_int(a, dtype)
    if isinstance(a, Cond):
        return ratio(ite(a, constant(1), ZERO), 1, dtype)
    if isinstance(a, Dim):
        return ratio(a, 1, dtype) if a.terms else rounded(float(a.const), dtype)
    if isinstance(a, Ratio):
        return None if a.rounded else ratio(a.num, a.den, dtype)
    if isinstance(a, str):
        return a if dtype == TensorProto.STRING else None
    return rounded(a, dtype) if isinstance(a, float) else None


def _to_bool(a: Elem) -> Elem:
    if isinstance(a, Dim):
        return ne(a, 0)
    if isinstance(a, Ratio):
        return ne(a.num, 0)
    return truth(a != 0) if isinstance(a, float) else a if isinstance(a, Cond) else None


def _to_int(a: Elem, dtype: int) -> Elem:
    if isinstance(a, Dim):
        return fit(a, dtype)
    if isinstance(a, Cond):
        return fit(ite(a, constant(1), ZERO), dtype)
    if isinstance(a, Ratio):
        return fit(trunc_div(a.num, constant(a.den)), dtype)
    if isinstance(a, float) and math.isfinite(a):
        whole, (lo, hi) = int(a), INT_LIMITS[dtype]
        return constant(whole) if lo <= whole <= hi else None  # outside it depends on the machine
    return None


# ---------------------------------------------------------------------- many


def fold(function: Function, elems: Seq[Elem], dtype: int, start: Elem) -> Elem:
    """Reduce elements by sum, product, maximum or minimum; floats only if their order does not matter."""
    if any(e is None for e in elems):
        return None
    ordered = function not in (max_, min_)
    if ordered and any(isinstance(e, float | Ratio) and exact(e) is None for e in elems):
        return None

    def step(so_far: Elem, e: Elem) -> Elem:
        return None if so_far is None else function(so_far, e, dtype)

    return reduce(step, elems[1:], elems[0]) if elems else start
