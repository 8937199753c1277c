"""Range and precision of element types: wrapping integers, rounded floats, exact or unknown quotients."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache, lru_cache
from math import gcd
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from ..expr import Cond, Dim, constant, le
from ..expr.limits import INT32_MAX, MAX_ELEM_SIZE
from .limits import MAX_DENOMINATOR, MAX_TRIED
from .values import Elem, Ratio

#: smallest and largest number of each integer type
INT_LIMITS: dict[int, tuple[int, int]] = {
    TensorProto.UINT8: (0, 2**8 - 1), TensorProto.INT8: (-(2**7), 2**7 - 1),
    TensorProto.UINT16: (0, 2**16 - 1), TensorProto.INT16: (-(2**15), 2**15 - 1),
    TensorProto.UINT32: (0, 2**32 - 1), TensorProto.INT32: (-(2**31), 2**31 - 1),
    TensorProto.UINT64: (0, 2**64 - 1), TensorProto.INT64: (-(2**63), 2**63 - 1),
}  # fmt: skip
_FLOATS = frozenset((TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16))
#: types that hold quotients of sizes: highest degree, largest odd part of a coefficient, largest constant
_EXACT: dict[int, tuple[int, int, int]] = {
    TensorProto.FLOAT: (1, 2**8, 2**16),
    TensorProto.DOUBLE: (3, 2**16, 2**31),
}


#: an exact quotient: numerator and denominator
Pair = tuple[Dim, int]


def fit(e: Elem, dtype: int) -> Elem:
    """Return the element as the type `dtype` stores it; None if unknown."""
    if isinstance(e, Dim):
        return _fit_int(e, dtype)
    if isinstance(e, Cond):
        return e if e.size <= MAX_ELEM_SIZE else None
    if isinstance(e, float):
        return rounded(e, dtype)
    return e


def _fit_int(d: Dim, dtype: int) -> Dim | None:
    limits = INT_LIMITS.get(dtype)
    if limits is None:
        return d if dtype == 0 else None
    lo, hi = limits
    if not d.terms:
        return constant((d.const - lo) % (hi - lo + 1) + lo)
    if d.size > MAX_ELEM_SIZE:
        return None
    if not has_room(d, hi):
        return None
    if lo < 0 and hi >= INT32_MAX:
        return d
    least, most = d.bounds()
    if least is None or least < lo:
        return None
    return d if hi >= INT32_MAX or (most is not None and most <= hi) else None


def has_room(d: Dim, hi: int) -> bool:
    """Return True if the dim is proved to be at most `hi`.

    A size plus INT64_MAX wraps, and so do a multiple of that and powers of a size. Half of the digits of a factor's
    type are
    reserved for its multipliers: the elements of a tensor, with at most five sizes as factors. A repeated factor
    takes extra
    digits.
    """
    if not d.terms:
        return abs(d.const) <= hi + 1
    if abs(d.const) > hi // 2:
        return False
    if hi < INT32_MAX:
        return True
    digits = hi.bit_length()
    for mono, c in d.terms:
        left = digits // 2  # in a product, 15 digits per repeated factor, a fifth of all per factor
        if len(mono) > 1:
            left = max(left + 15 * (len(mono) - len(set(mono))), digits // 5 * len(mono))
        if abs(c) > 1 << digits >> left:
            return False
    return True


@cache
def float_type(dtype: int) -> Any:
    """Return the numpy type of a supported float type, or None."""
    return helper.tensor_dtype_to_np_dtype(dtype).type if dtype in _FLOATS else None


def rounded(x: float, dtype: int) -> float | None:
    """`x` rounded to a float type; None for NaN and unsupported types."""
    made = float_type(dtype)
    if made is None:
        return None
    with np.errstate(all="ignore"):
        y = float(made(x))
    return None if math.isnan(y) else y


def ratio(num: Dim, den: int, dtype: int) -> Ratio | float | None:
    """``num / den`` as a float element, exact or rounded once; None if it cannot be represented."""
    if den < 0:
        num, den = -num, -den
    if not num.terms:
        return rounded(num.const / den, dtype) if abs(num.const) < 2**53 and den < 2**53 else None
    common = gcd(den, num.const, *(c for _, c in num.terms))
    if common > 1:
        num, den = num // common, den // common
    limits = _EXACT.get(dtype)
    if limits is None or num.size > MAX_ELEM_SIZE:
        return None
    degree, coefficient, const = limits
    was_rounded = den & (den - 1) != 0
    twos = gcd(num.const, *(c for _, c in num.terms))
    twos = 1 if was_rounded else twos & -twos  # a power of two costs no digits
    if abs(num.const) // twos > const or any(
        len(mono) > degree or abs(c) // twos > coefficient for mono, c in num.terms
    ):
        return None
    return Ratio(num, den, was_rounded)


def exact(e: Elem) -> Pair | None:
    """A float element as exact ``(numerator, denominator)``; None if it was rounded or has many digits."""
    if isinstance(e, Ratio):
        return None if e.rounded else (e.num, e.den)
    if isinstance(e, float) and math.isfinite(e):
        p, q = e.as_integer_ratio()
        return (constant(p), q) if abs(p) < 2**20 and q <= 2**16 else None
    return None


@lru_cache(maxsize=256)
def stands_for(factor: float, dtype: int, *roundings: str) -> Fraction | None:
    """Return the simple fraction equivalent to a float factor: 17/10 for 1.7 in float32.

    None unless each of the roundings (``floor``, ``ceil``, ``rint``) of ``size * factor``, computed in that float
    type, is what it is of the fraction. Tried for every size below 2**17.
    """
    made = float_type(dtype)
    if made is None or not math.isfinite(factor):
        return None
    simple = Fraction(factor).limit_denominator(MAX_DENOMINATOR)
    if not 0 < simple.numerator < 1 << 24:
        return None
    sizes = np.arange(MAX_TRIED, dtype=np.int64)
    products, top, bottom = sizes.astype(made) * made(factor), sizes * simple.numerator, simple.denominator
    nearest = (2 * top + bottom) // (2 * bottom)
    ties_odd = ((2 * top + bottom) % (2 * bottom) == 0) & (nearest % 2 == 1)
    followed = {"floor": top // bottom, "ceil": -(-top // bottom), "rint": nearest - ties_odd}
    same = all(np.array_equal(getattr(np, rounding)(products), followed[rounding]) for rounding in roundings)
    return simple if same else None


def scaled(num: Dim, den: int, factor: float, dtype: int) -> Ratio | None:
    """``num / den * factor`` for an inexact factor, if it rounds as a simple fraction does."""
    if den & (den - 1) or len(num.terms) != 1 or abs(num.const) > MAX_TRIED // 2:
        return None
    ((mono, coefficient),) = num.terms
    if len(mono) != 1 or abs(coefficient) != 1:
        return None
    simple = stands_for(abs(factor) / den, dtype, "floor", "ceil", "rint")
    if simple is None:
        return None
    return Ratio(num * (simple.numerator if factor > 0 else -simple.numerator), simple.denominator, True)


def tried(num: Dim) -> Cond:
    """Return the condition that a size is at most the largest for which roundings of float products were tested."""
    return le(num, MAX_TRIED - 1)


def _reach(d: Dim) -> int | None:
    reach = abs(d.const)
    for mono, c in d.terms:
        most = abs(c)
        for atom in mono:
            if atom.kind == "sym" and atom.args[1] is not None:
                most <<= 24  # a float32 holds no larger size exactly
            elif atom.kind == "pos" or (atom.kind == "//" and atom.args[1].value):
                inner = _reach(atom.args[0])
                if inner is None:
                    return None
                most *= inner + 1
            else:
                return None
        reach += most
    return reach


def beyond(a: Elem, b: Elem) -> tuple[Ratio, float] | None:
    """Return the quotient and the float among two elements, if the quotient never reaches the float. tf2onnx writes 1e9 for
    "to the end".
    """
    for x, limit in ((a, b), (b, a)):
        if isinstance(x, Ratio) and isinstance(limit, float):
            reach = _reach(x.num)
            if reach is not None and abs(limit) * x.den > reach:
                return x, limit
    return None
