# compiled: see CONTRIBUTING.md
"""Known values: what lowering knows of a tensor (type, shape, and data), sequence, optional, or map."""

from __future__ import annotations

from collections.abc import Callable

from ..expr import Cond, Dim, Shape, symbol
from .limits import MAX_RANK
from .values import INT_TYPES, Value

#: an unnamed size, or a size that differs between the elements of a sequence: each element gets a separate symbol
OPEN = symbol("?", made=True)

_NO_NAMES: frozenset[str] = frozenset()


class Tensor:
    """Element type (0 when unknown), shape (None when the rank is unknown) and known data of a tensor.

    Compared by identity: `Interner` makes equal ones the same object, which is what makes lowering cheap to memoize.
    """

    __slots__ = ("as_of", "dtype", "now", "seen", "shape", "value")

    seen: frozenset[str] | None
    """`free`, once computed."""
    now: Tensor | None
    """Tensor simplified by the facts of version `as_of`, or None if they change nothing."""
    as_of: int

    def __init__(self, dtype: int = 0, shape: Shape | None = None, value: Value | None = None) -> None:
        self.dtype, self.shape, self.value = dtype, shape, value
        self.seen = self.now = None
        self.as_of = 0

    @property
    def free(self) -> frozenset[str]:
        """Names of all symbols in it."""
        free = self.seen
        if free is None:
            free = _NO_NAMES.union(*[d.free for d in self.shape or ()])
            if self.value is not None:
                free |= self.value.free
            self.seen = free
        return free

    def __repr__(self) -> str:
        return f"Tensor({self.dtype}, {self.shape}, {self.value})"


class Sequence:
    """A sequence of tensors. It has the join of all elements, the length, and the elements when known one by one.

    `parts` is an axis, its size, and the size of a part, if the elements are the parts of a tensor (the last may be smaller),
    and then the sizes of elements that were inserted.
    """

    __slots__ = ("elem", "items", "length", "parts")

    def __init__(
        self,
        elem: Known | None,
        length: Dim | None = None,
        items: tuple[Known, ...] | None = None,
        parts: tuple[int, tuple[Dim, ...]] | None = None,
    ) -> None:
        self.elem, self.length, self.items, self.parts = elem, length, items, parts

    @property
    def free(self) -> frozenset[str]:
        """Names of all symbols in it."""
        own = _NO_NAMES if self.length is None else self.length.free
        if self.parts is not None:
            own = own.union(*[d.free for d in self.parts[1]])
        return own.union(*[k.free for k in (self.elem, *(self.items or ())) if k is not None])


class Optional:
    """An optional value and the condition under which it holds one."""

    __slots__ = ("elem", "present")

    def __init__(self, elem: Known | None, present: Cond | None = None) -> None:
        self.elem, self.present = elem, present

    @property
    def free(self) -> frozenset[str]:
        """Names of all symbols in it."""
        return _NO_NAMES.union(*[part.free for part in (self.elem, self.present) if part is not None])


class Map:
    """A map from keys of element type `key` to values."""

    __slots__ = ("key", "value")

    def __init__(self, key: int, value: Known | None) -> None:
        self.key, self.value = key, value

    @property
    def free(self) -> frozenset[str]:
        """Names of all symbols in it."""
        return _NO_NAMES if self.value is None else self.value.free


Known = Tensor | Sequence | Optional | Map
KINDS = (Tensor, Sequence, Optional, Map)


def is_settled(known: Known | None) -> bool:
    """Return True if rank, and elements of a small integer tensor, are known, so that nothing else can follow."""
    if not isinstance(known, Tensor) or known.shape is None:
        return False
    if known.dtype not in INT_TYPES or len(known.shape) > 1:
        return True
    elems = known.value.elems if known.value is not None else None
    return elems is not None and all(e is not None for e in elems)


class Interner:
    """Interns tensors: equal content is one object within an analysis."""

    def __init__(self) -> None:
        self._tensors: dict[
            tuple[object, ...], Tensor
        ] = {}  # dims by their ids, which the tensors keep alive
        self._stored: dict[tuple[int, tuple[int, ...]], Tensor] = {}

    def tensor(self, dtype: int, shape: Shape | None, value: Value | None = None) -> Tensor:
        """Return the interned tensor with this content."""
        key = (dtype, value, None) if shape is None else (dtype, value, *map(id, shape))
        found = self._tensors.get(key)
        if found is None:
            found = self._tensors[key] = Tensor(dtype, shape, value)
        return found

    def stored(self, dtype: int, dims: tuple[int, ...], value: Value | None) -> Tensor:
        """Return the interned tensor of stored data."""
        if len(dims) > MAX_RANK:
            return self.tensor(dtype, None)
        found = self._stored.get((dtype, dims))
        if found is None:
            found = self._stored[dtype, dims] = self.tensor(dtype, Shape(dims))
        return found if value is None else self.tensor(dtype, found.shape, value)

    def resolve(self, known: Known, dim: Callable[[Dim], Dim]) -> Known:
        """`known` with `dim` applied to every dim; the same object if nothing changes."""
        if isinstance(known, Tensor):
            shape = known.shape
            if shape is not None:
                dims = [dim(d) for d in shape]
                if any(a is not b for a, b in zip(dims, shape, strict=True)):
                    shape = Shape(dims)
            value = known.value.resolve(dim) if known.value is not None else None
            if shape is known.shape and value is known.value:
                return known
            return self.tensor(known.dtype, shape, value)
        if isinstance(known, Sequence):
            elem = known.elem and self.resolve(known.elem, dim)
            length = dim(known.length) if known.length is not None else None
            items = None if known.items is None else tuple([self.resolve(i, dim) for i in known.items])
            same = items is None or all(a is b for a, b in zip(items, known.items or (), strict=True))
            parts = known.parts
            if parts is not None:
                parts = parts[0], tuple([dim(d) for d in parts[1]])
                same = same and known.parts == parts
            if same and elem is known.elem and length is known.length:
                return known
            return Sequence(elem, length, items, parts)
        if isinstance(known, Optional):
            inner = known.elem and self.resolve(known.elem, dim)
            present = known.present.map_dims(dim) if known.present is not None else None
            return known if inner is known.elem and present is known.present else Optional(inner, present)
        return known
