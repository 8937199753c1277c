"""Join (least upper bound) of two known values, and if-then-else of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..expr import (
    Cond,
    Dim,
    Shape,
    all_of,
    any_of,
    eq,
    ge,
    ite,
    le,
    maximum,
    minimum,
)
from .limits import MAX_CHOICE
from .needed import axes, rank_need
from .op import Op
from .statements import Kind
from .types import OPEN, Known, Map, Optional, Sequence, Tensor
from .values import Elem, Value


def same_known(a: Known | None, b: Known | None) -> bool:
    """Return True if both are certainly the same value."""
    if a is b:
        return True
    if isinstance(a, Sequence) and isinstance(b, Sequence):
        same = a.length is b.length and same_known(a.elem, b.elem) and a.parts == b.parts
        return same and same_items(a.items, b.items)
    if isinstance(a, Optional) and isinstance(b, Optional):
        return a.present is b.present and same_known(a.elem, b.elem)
    return isinstance(a, Map) and isinstance(b, Map) and a.key == b.key and same_known(a.value, b.value)


def same_items(a: tuple[Known, ...] | None, b: tuple[Known, ...] | None) -> bool:
    """Return True if the elements of two sequences are certainly the same, or both unknown."""
    if a is None or b is None:
        return a is b
    return len(a) == len(b) and all(map(same_known, a, b))


def change_sizes(op: Op, known: Known | None, dim: Callable[[Dim], Dim]) -> Known | None:
    """`known` with `dim` applied to its sizes, without data or individual elements."""
    if isinstance(known, Tensor):
        return op.walk.interner.tensor(
            known.dtype, None if known.shape is None else Shape(map(dim, known.shape))
        )
    if isinstance(known, Sequence):
        return Sequence(
            change_sizes(op, known.elem, dim), None if known.length is None else dim(known.length)
        )
    if isinstance(known, Optional):
        return Optional(change_sizes(op, known.elem, dim))
    return known


def element(op: Op, elem: Known | None) -> Known | None:
    """Return the known value of one element of a sequence; sizes that differ among elements become new symbols."""
    if elem is None or OPEN.free.isdisjoint(elem.free):
        return elem
    return change_sizes(
        op, elem, lambda d: op.fresh("a size of an element of a sequence") if d is OPEN else d
    )


def closed(op: Op, elem: Known | None, visible: frozenset[str]) -> Known | None:
    """A loop result as an element of any iteration: sizes that depend on the iteration become open."""
    if elem is None or visible.issuperset(elem.free):
        return elem
    return change_sizes(op, elem, lambda d: d if d.free <= visible else OPEN)


def common(op: Op, items: Iterable[Known | None]) -> Known | None:
    """Join of all elements of a sequence."""
    joined: Known | None = None
    for k, item in enumerate(items):
        joined = item if not k else _common(op, joined, item)
    return joined


def _common(op: Op, a: Known | None, b: Known | None) -> Known | None:
    if same_known(a, b):
        return a
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        shape = None
        if a.shape is not None and b.shape is not None and len(a.shape) == len(b.shape):
            shape = Shape(d if d is e else OPEN for d, e in zip(a.shape, b.shape, strict=True))
        return op.walk.interner.tensor(_dtype(a, b), shape, _hull(a.value, b.value))
    if isinstance(a, Sequence) and isinstance(b, Sequence):
        return Sequence(common_elem(op, a, b), a.length if a.length is b.length else None)
    if isinstance(a, Optional) and isinstance(b, Optional):
        return Optional(_common(op, a.elem, b.elem))
    return None


def common_elem(op: Op, a: Sequence, b: Sequence) -> Known | None:
    """Join of the elements of two sequences; an empty sequence does not count."""
    if a.length is not None and a.length.value == 0:
        return b.elem
    if b.length is not None and b.length.value == 0:
        return a.elem
    return _common(op, a.elem, b.elem)


def _dtype(a: Tensor, b: Tensor) -> int:
    return a.dtype or b.dtype if a.dtype == b.dtype or not (a.dtype and b.dtype) else 0


def _hull(a: Value | None, b: Value | None) -> Value | None:
    if a is None or b is None:
        return None
    if a == b:
        return a
    (alo, ahi), (blo, bhi) = a.bounds, b.bounds
    lo = None if alo is None or blo is None else minimum(alo, blo)
    hi = None if ahi is None or bhi is None else maximum(ahi, bhi)
    return Value.between(lo, hi)


def by_rank(op: Op, i: int, cond: Cond, a: Tensor, b: Tensor) -> Tensor:
    """If-then-else of two tensors of different rank, as output `i`. Chosen is the one whose rank a later node needs.

    The node that reads it fails on the other one, so what leads to it is required. Without such a node neither is known.
    """
    ranks = [len(t.shape) for t in (a, b) if t.shape is not None]
    needed, name = (
        op.needed_rank(i, ranks if len(ranks) == 2 else ()),
        op.node.outputs[i] if op.wants(i) else "",
    )
    fits = [needed is None or t.shape is None or len(t.shape) == needed for t in (a, b)]
    if not all(fits):
        needs = any_of(c for c, fit in zip((cond, ~cond), fits, strict=True) if fit)
        op.require(needs, rank_need(op, i))
    if fits[0] is not fits[1]:
        return a if fits[0] else b
    if name and a.shape is not None and b.shape is not None:
        either = f"{axes(len(a.shape))} where {op.walk.described(cond)}, otherwise {axes(len(b.shape))}"
        op.walk.note("open", f"{name} has {either}: its shape is unknown", op.node, op.walk.scope)
    op.pure = False
    return op.out(None, a.dtype or b.dtype)


def _rank(tensor: Tensor) -> int | None:
    return None if tensor.shape is None else len(tensor.shape)


class Choice:
    """If-then-else of known values: `a` if `cond`, `b` otherwise.

    A `cond` on sizes appears in the result. If it depends on data, a size is a new symbol, defined by the condition's
    own
    symbol; equal choices share it.
    """

    def __init__(self, op: Op, cond: Cond) -> None:
        self.op, self.cond = op, cond
        self.by_data = any(name in op.walk.state.reasons for name in cond.free)

    def known(self, a: Known | None, b: Known | None) -> Known | None:
        """If-then-else of two known values."""
        if self.cond.is_true or same_known(a, b):
            return a
        if self.cond.is_false:
            return b
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            shape = None
            if a.shape is not None and b.shape is not None and len(a.shape) == len(b.shape):
                shape = Shape(self.dim(d, e) for d, e in zip(a.shape, b.shape, strict=True))
            return self.op.out(shape, _dtype(a, b), self.value(a.value, b.value))
        if isinstance(a, Sequence) and isinstance(b, Sequence):
            length = None if a.length is None or b.length is None else self.dim(a.length, b.length)
            items = None
            if a.items is not None and b.items is not None and len(a.items) == len(b.items):
                chosen = [self.known(x, y) for x, y in zip(a.items, b.items, strict=True)]
                items = tuple(k for k in chosen if k is not None)
                items = items if len(items) == len(chosen) else None
            return Sequence(common_elem(self.op, a, b), length, items)
        if isinstance(a, Optional) and isinstance(b, Optional):
            return self.optional(a, b)
        return None

    def output(self, i: int, a: Known | None, b: Known | None) -> Known | None:
        """If-then-else of two candidates for output `i` of the node."""
        if isinstance(a, Tensor) and isinstance(b, Tensor) and self.cond.args and _rank(a) != _rank(b):
            return by_rank(self.op, i, self.cond, a, b)
        return self.known(a, b)

    def optional(self, a: Optional, b: Optional) -> Optional:
        """If-then-else of two optionals."""
        present = None
        if a.present is not None and b.present is not None:
            present = self.truth(a.present, b.present)
            if a.present.is_false:
                return Optional(b.elem, present)
            if b.present.is_false:
                return Optional(a.elem, present)
        return Optional(self.known(a.elem, b.elem), present)

    def truth(self, a: Cond, b: Cond) -> Cond:
        """If-then-else of two conditions."""
        return a if a is b else any_of((all_of((self.cond, a)), all_of((~self.cond, b))))

    def dim(self, a: Dim, b: Dim, kind: Kind = "size") -> Dim:
        """If-then-else of two sizes."""
        if a is b:
            return a
        choice = ite(self.cond, a, b)
        if choice is a or choice is b or (not self.by_data and choice.size <= MAX_CHOICE):
            return choice
        walk = self.op.walk
        named = walk.state.chosen.get(choice)
        if named is None:
            lo, hi = choice.bounds()
            kind = "size" if lo is not None and lo >= 0 else kind
            named = walk.state.chosen[choice] = walk.fresh("one of two sizes, by a condition", kind)
            if lo is not None:
                self.op.define(ge(named, lo), "neither choice is smaller")
            if hi is not None:
                self.op.define(le(named, hi), "neither choice is larger")
            self.op.define(any_of((~self.cond, eq(named, a))), "what it is where the condition holds")
            self.op.define(any_of((self.cond, eq(named, b))), "what it is where the condition does not hold")
        return named

    def value(self, a: Value | None, b: Value | None) -> Value | None:
        """If-then-else of two values, element by element where known."""
        if a is None or b is None or a == b:
            return a if b is not None else None
        if a.elems is None or b.elems is None or a.shape is None or a.shape != b.shape:
            return _hull(a, b)
        elems = tuple(self.elem(x, y) for x, y in zip(a.elems, b.elems, strict=True))
        if all(e is None for e in elems):
            return None
        return Value(a.shape, elems)

    def elem(self, a: Elem, b: Elem) -> Elem:
        """If-then-else of two elements."""
        if isinstance(a, Dim) and isinstance(b, Dim):
            return self.dim(a, b, "value")
        if isinstance(a, Cond) and isinstance(b, Cond):
            return self.truth(a, b)
        return a if a == b else None
