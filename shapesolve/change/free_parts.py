"""Numbers that may have been computed from a size that is free now, though they are not that size: such a number says nothing
of other sizes."""

from __future__ import annotations

from math import log, sqrt

#: a size is cut in so many parts at most, and so many places are left out at most
_PARTS, _LEFT_OUT = 4, 2
#: numbers below are more often something else
_LEAST = 2
#: below, a third or quarter is no more likely than any number
_TELLING = 4
_NEAR = 1e-6


def is_part(number: int, size: int) -> bool:
    """May a count or place be a half of a size, or, if not small, a third or quarter, or a few places less?"""
    if not _LEAST <= number < size:
        return False
    parts = range(2, 3 if number < _TELLING else _PARTS + 1)
    return size - number <= _LEFT_OUT or any(number in (size // n, -(-size // n)) for n in parts)


def is_centred(start: int, end: int, size: int) -> bool:
    """May a stretch have been put in the middle of so many places?"""
    return start > 0 and end < size and abs(start - (size - end)) <= 1


def follows(number: float, size: int) -> bool:
    """May a factor be a size, or the root or logarithm of it?"""
    return any(abs(number - x) <= _NEAR * x for x in (size, sqrt(size), log(size)) if x)


def is_half(number: int, size: int) -> bool:
    """May a distance be half a size, or a few places less than all of it?"""
    return number >= _LEAST and (
        size - number in range(_LEFT_OUT + 1) or number in (size // 2, -(-size // 2))
    )
