"""Accepted ranges of input elements, by the use that an operator makes of them (`Rule.reads`). Declared with each
operator as `Rule.reads`.

`Rule.passes` tells at which inputs a node only moves elements on, so that what reads its outputs reads those inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from math import prod
from typing import TYPE_CHECKING, Any

from ..expr import Dim, IntoDim, Shape, constant, minimum
from ..solve.facts import budget
from .rule import Pick, Reading, Sizes

if TYPE_CHECKING:
    from random import Random

#: purpose of a read of indices into a table
INDICES = "indices"
#: every input passes its elements on
EVERY = range(1 << 31)


#: shapes of a node's inputs
_Shapes = Seq["Shape | None"]


def _shape(shapes: _Shapes, i: int) -> Shape | None:
    return shapes[i] if i < len(shapes) else None


def along(axis: str | int) -> Reading:
    """Indices along an axis of input 0: from 0 to its size - 1.

    `axis` is its number, or the attribute that holds it (0 by default).
    """

    def limits(attributes: Mapping[str, Any], shapes: _Shapes) -> tuple[int, Dim] | None:
        shape = _shape(shapes, 0)
        at = attributes.get(axis, 0) if isinstance(axis, str) else axis
        if shape is None or not isinstance(at, int) or not -len(shape) <= at < len(shape):
            return None
        return 0, shape[at] - 1

    return Reading(INDICES, limits)


def rows(i: int) -> Reading:
    """Indices along the first axis of input `i`: from 0 to its size - 1."""

    def limits(_attributes: Mapping[str, Any], shapes: _Shapes) -> tuple[int, Dim] | None:
        shape = _shape(shapes, i)
        return (0, shape[0] - 1) if shape else None

    return Reading(INDICES, limits)


def positions(i: int, at: int) -> Reading:
    """Return position ids: indices into the rows of the table at input `i`.

    If input `at` has rank 2, it has one position per token; otherwise only the first token's position, which is 0.
    """

    def limits(_attributes: Mapping[str, Any], shapes: _Shapes) -> tuple[int, Dim] | None:
        table, given = _shape(shapes, i), _shape(shapes, at)
        if given is None or (len(given) == 2 and not table):
            return None
        return 0, table[0] - 1 if table and len(given) == 2 else constant(0)

    return Reading("positions", limits)


def corners(batch: str = "") -> Reading:
    """Coordinates in input 0: one range for each column of input 1.

    The axes follow those that the attribute `batch` counts.
    """

    def limits(attributes: Mapping[str, Any], shapes: _Shapes) -> tuple[int, Dim, *tuple[Dim, ...]] | None:
        shape, indices = _shape(shapes, 0), _shape(shapes, 1)
        k = indices[-1].value if indices else None
        first = attributes.get(batch, 0)
        if shape is None or not k or not isinstance(first, int) or first < 0 or first + k > len(shape):
            return None
        greatest, *others = (d - 1 for d in shape[first : first + k])
        return 0, greatest, *others

    return Reading(INDICES, limits)


def up_to(i: int, axis: int, least: int, what: str) -> Reading:
    """Numbers from `least` (or the size, if smaller) to the size of an axis of input `i`."""

    def limits(_attributes: Mapping[str, Any], shapes: _Shapes) -> tuple[IntoDim, Dim] | None:
        shape = _shape(shapes, i)
        if shape is None or not -len(shape) <= axis < len(shape):
            return None
        return minimum(least, shape[axis]), shape[axis]

    return Reading(what, limits)


def between(least: int, greatest: int, what: str) -> Reading:
    """Numbers from `least` to `greatest`."""
    limits = least, constant(greatest)
    return Reading(what, lambda _attributes, _shapes: limits)


def one_of(numbers: Seq[float], what: str) -> Reading:
    """Any of a few numbers."""
    limits = int(min(numbers)), constant(int(max(numbers)))

    def pick(rng: Random, _attributes: Mapping[str, Any], _sizes: Sizes, count: int) -> list[float]:
        return [rng.choice(numbers) for _ in range(count)]

    return Reading(what, lambda _attributes, _shapes: limits, pick)


def _of_axes(what: str, one: Callable[[Random, int], int], least: int = 0) -> Reading:
    """Return one number per axis of input 0, sampled from the axis size.

    If there are fewer numbers than axes, they are for the last axes.
    """

    def pick(rng: Random, _attributes: Mapping[str, Any], sizes: Sizes, count: int) -> list[int] | None:
        data = sizes[0]
        if data is None:
            return None
        return [one(rng, size) for size in (*[1] * (count - len(data)), *data)[-count:]] if count else []

    return _any_from(least, what, pick)


def _any_from(least: int, what: str, pick: Pick) -> Reading:
    limits = least, constant(2**31 - 1)
    return Reading(what, lambda _attributes, _shapes: limits, pick)


def _parts(rng: Random, attributes: Mapping[str, Any], sizes: Sizes, count: int) -> list[int] | None:
    data, axis = sizes[0], attributes.get("axis", 0)
    if data is None or not -len(data) <= axis < len(data) or not count:
        return None
    cuts = sorted(rng.randint(0, data[axis]) for _ in range(count - 1))
    return [b - a for a, b in zip((0, *cuts), (*cuts, data[axis]))]


def _regrouped(rng: Random, _attributes: Mapping[str, Any], sizes: Sizes, count: int) -> list[int] | None:
    """Return a random reshape target with the right number of elements, sometimes with -1."""
    if sizes[0] is None or not count:
        return None
    total = prod(sizes[0])
    if not total:
        return [0 if i == 0 else 1 for i in range(count)]
    out = [1] * count
    places = rng.sample(range(count), count)
    for i in places[:-1]:
        out[i] = rng.choice([d for d in range(1, min(total, budget.MAX_AHEAD) + 1) if total % d == 0])
        total //= out[i]
    out[places[-1]] = total
    if rng.random() < 0.5:
        out[rng.randrange(count)] = -1
    return out


def _distinct(more: bool) -> Pick:
    def pick(rng: Random, _attributes: Mapping[str, Any], sizes: Sizes, count: int) -> list[int] | None:
        rank = None if sizes[0] is None else len(sizes[0]) + (count if more else 0)
        if rank is None or not 0 < count <= rank:
            return None
        return sorted(rng.sample(range(rank), count))

    return pick


def _resized(rng: Random, attributes: Mapping[str, Any], sizes: Sizes, count: int) -> list[int] | None:
    """Random target sizes of a Resize, with batch and channels kept. Interpolation along these depends on the mode."""
    data, axes = sizes[0], attributes.get("axes")
    if data is None or len(axes or data) != count:
        return None
    return [
        rng.randint(1, 2 * data[axis]) if data[axis] and (axes or axis >= 2) else data[axis]
        for axis in axes or range(count)
    ]


def _grid(rng: Random, _attributes: Mapping[str, Any], sizes: Sizes, count: int) -> list[int] | None:
    """Random sizes of an AffineGrid's target, with the batch of input 0."""
    return [sizes[0][0], *(rng.randint(1, 6) for _ in range(count - 1))] if sizes[0] and count else None


def _spread(rng: Random, size: int) -> int:
    return size if size != 1 and rng.random() < 0.5 else 1 if size != 1 else rng.randint(1, 3)


#: lengths of sequences along the first axis of input 0
LENGTHS = up_to(0, 0, 1, "lengths of sequences")
DIVISORS = between(1, 8, "divisors")
AXES = _any_from(-(2**31), "axes", _distinct(more=False))
NEW_AXES = _any_from(-(2**31), "axes", _distinct(more=True))
#: numbers of elements that are added to an axis, before and after it
PADS = between(0, 2, "pads")
PARTS = _any_from(0, "lengths of parts", _parts)
TARGET = _any_from(-1, "a target shape", _regrouped)
SPREAD = _of_axes("a target shape", _spread)
STARTS = _of_axes("starts", lambda rng, size: rng.randint(0, max(0, size - 1)), -(2**31))
ENDS = _of_axes("ends", lambda rng, size: rng.randint(min(1, size), size), -(2**31))
#: factors, for each axis, by which an image grows or shrinks
SCALES = one_of((1.0, 2.0, 0.5), "scales")
GRID = _any_from(0, "sizes", _grid)
NEW_SIZES = _any_from(0, "sizes", _resized)
