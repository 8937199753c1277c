"""What the integers of an input may be, by what a node does with them: declared with each operator as `Rule.reads`.

`Rule.passes` tells at which inputs a node only moves elements on, so that what reads its outputs reads those inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Any

from ..expr import Dim, IntoDim, Shape, constant, minimum
from .rule import Reading

#: what a read of places in a table is for
INDICES = "indices"
#: every input passes its elements on
EVERY = range(1 << 31)

#: of the inputs of a node
_Shapes = Seq["Shape | None"]


def _shape(shapes: _Shapes, i: int) -> Shape | None:
    return shapes[i] if i < len(shapes) else None


def along(axis: str | int) -> Reading:
    """Places along an axis of input 0: this one, or the one that an attribute names (0 by default)."""

    def limits(attributes: Mapping[str, Any], shapes: _Shapes) -> tuple[int, Dim] | None:
        shape = _shape(shapes, 0)
        at = attributes.get(axis, 0) if isinstance(axis, str) else axis
        if shape is None or not isinstance(at, int) or not -len(shape) <= at < len(shape):
            return None
        return 0, shape[at] - 1

    return Reading(INDICES, limits)


def rows(i: int) -> Reading:
    """Places along the first axis of input `i`."""

    def limits(_attributes: Mapping[str, Any], shapes: _Shapes) -> tuple[int, Dim] | None:
        shape = _shape(shapes, i)
        return (0, shape[0] - 1) if shape else None

    return Reading(INDICES, limits)


def positions(i: int, at: int) -> Reading:
    """Rows of the table at input `i`, one for each token, when input `at` has rank 2; else the row of the first token."""

    def limits(_attributes: Mapping[str, Any], shapes: _Shapes) -> tuple[int, Dim] | None:
        table, given = _shape(shapes, i), _shape(shapes, at)
        if given is None or (len(given) == 2 and not table):
            return None
        return 0, table[0] - 1 if table and len(given) == 2 else constant(0)

    return Reading("positions", limits)


def corners(batch: str = "") -> Reading:
    """Places in as many axes of input 0 as input 1 has columns, after those that the attribute `batch` counts."""

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
    """From `least`, where there are so many, up to the size of an axis of input `i`."""

    def limits(_attributes: Mapping[str, Any], shapes: _Shapes) -> tuple[IntoDim, Dim] | None:
        shape = _shape(shapes, i)
        if shape is None or not -len(shape) <= axis < len(shape):
            return None
        return minimum(least, shape[axis]), shape[axis]

    return Reading(what, limits)


def exactly(value: int, what: str) -> Reading:
    """A number that runs where nothing else is known: what would run as well depends on too much."""
    limits = value, constant(value)
    return Reading(what, lambda _attributes, _shapes: limits)


#: of sequences that lie along the first axis of input 0
LENGTHS = up_to(0, 0, 1, "lengths of sequences")
AXES = exactly(0, "axes")
