# compiled: see CONTRIBUTING.md
"""Partial data: known elements of a tensor, or bounds of them.

A `Value` holds either every element (``elems``, flat, row-major, with the concrete ``shape``; a single element may still
be unknown, ``None``) or only bounds that all elements satisfy (``lo``, ``hi``). Integer elements are `Dim`, booleans are
`Cond`, floats are Python floats already rounded to the tensor's type, or a `Ratio` when they depend on sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..expr import Cond, Dim, constant, maximum, minimum, truth
from ..model import Constant
from .limits import MAX_BOUNDED, MAX_ELEMENTS, MAX_EXTREMES, MAX_FLOATS, MAX_RANK

if TYPE_CHECKING:
    from numpy.typing import NDArray


Array: TypeAlias = "NDArray[np.object_]"


class Ratio:
    """A float that is ``num / den`` for an integer expression `num` and an int `den` >= 1.

    `rounded` says that the true value is this quotient but for the rounding of the float type: then only floor, ceil,
    truncation and rounding are still exact (an integer below 2**24 divided by an integer never rounds across an integer;
    of other quotients it was tried, see `precision.stands_for`).
    """

    __slots__ = ("den", "num", "rounded")

    def __init__(self, num: Dim, den: int = 1, rounded: bool = False) -> None:
        self.num, self.den, self.rounded = num, den, rounded

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Ratio)
            and self.num is other.num
            and self.den == other.den
            and self.rounded == other.rounded
        )

    def __hash__(self) -> int:
        return hash((self.num, self.den, self.rounded))

    def __repr__(self) -> str:
        return f"Ratio({self.num}, {self.den})"


Elem = Dim | Cond | Ratio | float | str | None


class Value:
    """Known elements, or bounds of all elements, of one tensor; immutable."""

    __slots__ = ("_bounds", "_free", "_hash", "_of", "elems", "parts", "reached", "shape", "source")

    shape: tuple[int, ...] | None
    elems: tuple[Elem, ...] | None
    source: Constant | None
    #: is each bound some element (unless the tensor is empty)? only then can it be required to fit
    reached: bool
    #: bounds for each index of the last axis, if these are known, for a value known only by bounds
    parts: tuple[Value, ...] | None
    _bounds: tuple[Dim | None, Dim | None] | None
    _free: frozenset[str] | None
    #: value with these bounds, if they are not computed yet
    _of: Value | None

    def __init__(
        self,
        shape: tuple[int, ...] | None,
        elems: tuple[Elem, ...] | None,
        bounds: tuple[Dim | None, Dim | None] | None = None,
        source: Constant | None = None,
        reached: bool = False,
        parts: tuple[Value, ...] | None = None,
    ) -> None:
        self.shape, self.elems, self._bounds, self.source, self.parts = shape, elems, bounds, source, parts
        self.reached = reached or elems is not None or source is not None
        self._free = self._of = None
        self._hash = hash((shape, elems, bounds, id(source) if source else 0, self.reached, parts))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Value)
            and self._hash == other._hash
            and self.shape == other.shape
            and self.elems == other.elems
            and self.source is other.source
            and (self.elems is not None or self._bounds == other._bounds)
            and self._of == other._of
            and self.reached == other.reached
            and self.parts == other.parts
        )

    # ------------------------------------------------------------------ making

    @classmethod
    def of(cls, array: Any) -> Value | None:
        """Return the value with the elements of an object array or nested sequence; None if all are unknown or it is too
        large.
        """
        a = array if isinstance(array, np.ndarray) else np.array(array, dtype=object)
        if a.size > MAX_ELEMENTS:
            return cls._bounded(a.reshape(-1).tolist())
        return cls.known(a.shape, tuple(a.reshape(-1).tolist()))

    @classmethod
    def known(cls, shape: tuple[int, ...], elems: tuple[Elem, ...]) -> Value | None:
        """Return the value with these elements; None if all are unknown or they are too many floats."""
        if len(elems) > MAX_FLOATS and type(elems[0]) is float:
            return None
        return cls(shape, elems) if not elems or any(e is not None for e in elems) else None

    @classmethod
    def vector(cls, elems: Iterable[Elem]) -> Value | None:
        """Return a value of rank 1."""
        elems = tuple(elems)
        return cls._bounded(elems) if len(elems) > MAX_ELEMENTS else cls.known((len(elems),), elems)

    @classmethod
    def _bounded(cls, elems: Seq[Elem]) -> Value | None:
        dims = [e for e in elems if isinstance(e, Dim)]
        return span(dims, dims, True) if len(dims) == len(elems) else None

    @classmethod
    def scalar(cls, elem: Elem) -> Value | None:
        """Return a value of rank 0."""
        return None if elem is None else cls((), (elem,))

    @classmethod
    def between(
        cls, lo: Dim | None, hi: Dim | None, *, reached: bool = False, parts: tuple[Value, ...] | None = None
    ) -> Value | None:
        """Return a value of unknown integer elements in ``[lo, hi]`` (`reached`: both ends occur)."""
        return None if lo is None and hi is None else cls(None, None, (lo, hi), None, reached, parts)

    @property
    def loose(self) -> Value | None:
        """Bounds of the elements, for a selection of them in any order."""
        if self._of is not None:
            return self
        elems = self.elems
        if not elems or len(elems) > MAX_EXTREMES or not all(type(e) is Dim for e in elems):
            return Value.between(*self.bounds)
        return self._loosened()

    def _loosened(self) -> Value:
        """Return the bounds of these elements, computed on demand."""
        value = Value(None, None)
        value._of, value._hash = self, hash((value._hash, self._hash))
        return value

    @classmethod
    def stored(cls, constant_: Constant) -> Value | None:
        """Return the value of a stored tensor; the data of a large one is read on demand."""
        if constant_.numel <= (MAX_FLOATS if constant_.dtype in FLOAT_TYPES else MAX_ELEMENTS):
            elems = _stored_elements(constant_)
            if elems is None:
                return None
            value = cls(constant_.dims, elems)
            value._free = _NO_NAMES
            return value
        if constant_.numel <= MAX_BOUNDED and constant_.dtype in INT_TYPES:
            return cls(None, None, None, constant_)
        return None

    # ------------------------------------------------------------------ reading

    @property
    def array(self) -> Array | None:
        """The elements as an object array of the tensor's shape, or None."""
        if self.elems is None or self.shape is None:
            return None
        a = np.empty(len(self.elems), dtype=object)
        a[:] = self.elems
        return a.reshape(self.shape)

    @property
    def bounds(self) -> tuple[Dim | None, Dim | None]:
        """Bounds of all (integer) elements."""
        if self._bounds is None:
            self._bounds = self._find_bounds()
        return self._bounds

    @property
    def free(self) -> frozenset[str]:
        """Names of all symbols in it."""
        if self._free is None:
            known: list[Any] = [*(self.elems or ()), *(self._bounds or ()), *(self.parts or ()), self._of]
            found = [e.num if isinstance(e, Ratio) else e for e in known]
            self._free = _NO_NAMES.union(*[e.free for e in found if isinstance(e, (Dim, Cond, Value))])
        return self._free

    def _find_bounds(self) -> tuple[Dim | None, Dim | None]:
        if self._of is not None:
            return self._of.bounds
        if self.source is not None:
            a = self.source.array(MAX_BOUNDED)
            if a is None or not a.size:
                return None, None
            return constant(int(a.min())), constant(int(a.max()))
        if not self.elems or not all(isinstance(e, Dim) for e in self.elems):
            return None, None
        dims = [e for e in self.elems if isinstance(e, Dim)]
        low, high = _ends(dims, min), _ends(dims, max)
        if len(low) > MAX_EXTREMES:
            return None, None
        return minimum(*[d for d in low if d is not None]), maximum(*[d for d in high if d is not None])

    @property
    def concrete(self) -> list[Any] | None:
        """Return all elements as Python numbers (flat) if every one is known, or None."""
        if self.elems is None:
            return None
        out: list[Any] = []
        for e in self.elems:
            if isinstance(e, Dim) and not e.terms:
                out.append(e.const)
            elif isinstance(e, Cond) and not e.args:
                out.append(e.is_true)
            elif isinstance(e, (float, str)):
                out.append(e)
            else:
                return None
        return out

    def components(self, count: int) -> tuple[Value | None, ...] | None:
        """Split the value along the last axis, of size `count`, into one value per index.

        None if the values per index are unknown.
        """
        if self.parts is not None:
            return self.parts if len(self.parts) == count else None
        if self.elems is not None and self.shape and self.shape[-1] == count:
            return tuple(Value.known((len(c),), c) for c in (self.elems[k::count] for k in range(count)))
        stored = self.source.array(MAX_BOUNDED) if self.source is not None and count <= MAX_RANK else None
        if stored is None or not stored.size or stored.shape[-1] != count:
            return None
        columns = stored.reshape(-1, count)
        lows, highs = columns.min(axis=0).tolist(), columns.max(axis=0).tolist()
        return tuple(
            Value.between(constant(lo), constant(hi), reached=True)
            for lo, hi in zip(lows, highs, strict=True)
        )

    def map(self, change: Callable[[Elem], Elem]) -> Value | None:
        """Return the value with `change` applied to each known element."""
        if self.elems is None:
            return None
        new = tuple(change(e) for e in self.elems)
        if new == self.elems:
            return self
        return None if new and all(e is None for e in new) else Value(self.shape, new)

    def resolve(self, dim: Callable[[Dim], Dim]) -> Value:
        """Return the value with `dim` applied to every dim in it."""
        if self.source is not None:
            return self
        if self._of is not None:
            of = self._of.resolve(dim)
            return self if of is self._of else of._loosened()
        if self.elems is None:
            lo, hi = self._bounds or (None, None)
            parts = self.parts and tuple(p.resolve(dim) for p in self.parts)
            return Value(None, None, (lo and dim(lo), hi and dim(hi)), None, self.reached, parts)

        def elem(e: Elem) -> Elem:
            if isinstance(e, Dim):
                return dim(e)
            if isinstance(e, Cond):
                return e.map_dims(dim)
            if isinstance(e, Ratio):
                return Ratio(dim(e.num), e.den, e.rounded)
            return e

        new = tuple(map(elem, self.elems))
        return self if new == self.elems else Value(self.shape, new)

    def __repr__(self) -> str:
        if self.elems is None:
            return f"Value(in {self.bounds})"
        return f"Value({self.shape}, [{', '.join(map(str, self.elems))}])"


def span(lows: Iterable[Dim | None], highs: Iterable[Dim | None], reached: bool) -> Value | None:
    """Return a value with bounds around all of these bounds; constant ones if there are many."""
    low, high = _ends(lows, min), _ends(highs, max)
    few = all(sum(d is not None and bool(d.terms) for d in side) <= MAX_EXTREMES for side in (low, high))
    least = [d if d is None or few else _number(d.bounds()[0]) for d in low]
    most = [d if d is None or few else _number(d.bounds()[1]) for d in high]
    below, above = [d for d in least if d is not None], [d for d in most if d is not None]
    lo = minimum(*below) if below and len(below) == len(least) else None
    hi = maximum(*above) if above and len(above) == len(most) else None
    return Value.between(lo, hi, reached=reached and few)


def _ends(dims: Iterable[Dim | None], pick: Callable[[int, int], int]) -> list[Dim | None]:
    """Return the candidates for the minimum (or maximum) of the dims: only one of ``n`` and ``n + 1``."""
    found: dict[Any, Dim | None] = {}
    for d in dims:
        terms = None if d is None else d.terms
        known = found.get(terms)
        if known is None or d is None or pick(known.const, d.const) != known.const:
            found[terms] = d
    return list(found.values())


def _number(bound: int | None) -> Dim | None:
    return None if bound is None else constant(bound)


_NO_NAMES: frozenset[str] = frozenset()
FLOAT_TYPES = frozenset((1, 10, 11, 16))  # TensorProto float, float16, double, bfloat16
INT_TYPES = frozenset((2, 3, 4, 5, 6, 7, 12, 13))  # TensorProto uint8 .. uint64


def _stored_elements(stored: Constant) -> tuple[Elem, ...] | None:
    items = stored.items(MAX_ELEMENTS)
    if items is None:
        array = stored.array(MAX_ELEMENTS)
        return None if array is None else elements_of(array)
    if stored.dtype in FLOAT_TYPES:
        return tuple(items)
    return tuple([truth(v) if v is True or v is False else constant(v) for v in items])


def elements_of(a: NDArray[Any]) -> tuple[Elem, ...] | None:
    """Return the elements of a numpy array; None for unsupported types."""
    kind = a.dtype.kind
    flat = a.reshape(-1).tolist()
    if kind in "iu":
        return tuple(constant(v) for v in flat)
    if kind == "b":
        return tuple(truth(v) for v in flat)
    if kind == "f" or a.dtype.name in ("bfloat16",):
        return tuple(float(v) for v in flat)
    if kind in "OUS":
        return tuple(v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in flat)
    return None
