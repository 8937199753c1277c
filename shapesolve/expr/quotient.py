"""`Quotient`: exact quotient of two dims, for expressions that divide inside `floor(..)` and `ceiling(..)`."""

from __future__ import annotations

from math import lcm

from .canonical import ceil_div, exact_quotient, floor_div, maximum, minimum
from .core import ONE, Dim


class Quotient:
    """``num / den``, never rounded; undefined where `den` is 0."""

    __slots__ = ("den", "num")

    def __init__(self, num: Dim, den: Dim = ONE) -> None:
        if den.value == 0:
            raise ZeroDivisionError(f"({num}) / 0")
        self.num, self.den = num, den

    def __add__(self, other: Quotient) -> Quotient:
        left, right, den = self._aligned(other)
        return Quotient(left + right, den)

    def __sub__(self, other: Quotient) -> Quotient:
        return self + -other

    def __neg__(self) -> Quotient:
        return Quotient(-self.num, self.den)

    def __mul__(self, other: Quotient) -> Quotient:
        return Quotient(self.num * other.num, self.den * other.den)

    def __truediv__(self, other: Quotient) -> Quotient:
        return Quotient(self.num * other.den, self.den * other.num)

    def __mod__(self, other: Quotient) -> Quotient:
        return self - other * Quotient((self / other).floor())

    def floor(self) -> Dim:
        """The quotient rounded down."""
        return floor_div(self.num, self.den)

    def ceil(self) -> Dim:
        """The quotient rounded up."""
        return ceil_div(self.num, self.den)

    def integer(self) -> Dim | None:
        """The quotient as a dim if the division is exact at all sizes, else None."""
        return exact_quotient(self.num, self.den)

    def maximum(self, other: Quotient) -> Quotient | None:
        """The larger quotient; None if the sign of a denominator is unknown."""
        left, right, den = self._aligned(other)
        return Quotient(maximum(left, right), den) if den.value is not None and den.const > 0 else None

    def minimum(self, other: Quotient) -> Quotient | None:
        """The smaller quotient; None if the sign of a denominator is unknown."""
        left, right, den = self._aligned(other)
        return Quotient(minimum(left, right), den) if den.value is not None and den.const > 0 else None

    def _aligned(self, other: Quotient) -> tuple[Dim, Dim, Dim]:
        if self.den is other.den:
            return self.num, other.num, self.den
        if self.den.value is not None and other.den.value is not None:
            den = lcm(self.den.const, other.den.const)
            return (
                self.num.scale(den // self.den.const),
                other.num.scale(den // other.den.const),
                ONE.scale(den),
            )
        return self.num * other.den, other.num * self.den, self.den * other.den
