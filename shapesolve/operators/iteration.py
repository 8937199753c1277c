"""Carried values of a loop, generalized to values valid in every iteration.

A guess for each carried value is checked against the body's result, until the guess for iteration ``i + 1`` is the
body's
result in iteration ``i``. By induction, the guess then holds in every iteration and after the last. A size is first
assumed constant, then growing by a constant step, then a function of the previous iteration; otherwise it is a
symbol.
"""

from __future__ import annotations

from collections.abc import Hashable
from collections.abc import Sequence as Seq

from ..expr import FALSE, ZERO, Cond, Dim, DimTooLarge, Shape, any_of, eq, ite
from ..lower.join import change_sizes, closed, common_elem, same_items, same_known
from ..lower.op import Op
from ..lower.types import Known, Optional, Sequence, Tensor
from ..lower.values import Elem, Value
from .limits import MAX_TRIALS


def kind_only(op: Op, known: Known | None) -> Known | None:
    """A known value reduced to its kind and element type."""
    if isinstance(known, Tensor):
        return op.walk.interner.tensor(known.dtype, None)
    if isinstance(known, Sequence):
        return Sequence(kind_only(op, known.elem))
    return Optional(kind_only(op, known.elem)) if isinstance(known, Optional) else known


class Carried:
    """Carried values of a loop as a fixpoint: a guess that is widened until iterations keep it."""

    def __init__(self, op: Op, first: Seq[Known | None], trip: Dim, visible: frozenset[str]) -> None:
        self.op, self.first, self.trip, self.visible = op, list(first), trip, visible
        self.guess = list(first)
        self._name = trip.name or ""
        self._stages: dict[Hashable, int] = {}
        self._open: set[Dim] = set()
        self._trials = 0
        self._given_up = False

    @property
    def is_open(self) -> bool:
        """True if some carried value changes in a way that is not expressed by the iteration number."""
        tensors = [k for k in self.guess if isinstance(k, Tensor)]
        return self._given_up or bool(self._open) or any(k.shape is None for k in tensors)

    # ------------------------------------------------------------------ finding

    def hold_against(self, outs: Seq[Known | None]) -> bool:
        """Return True if the guess matches the body's outputs `outs`; widen the guess otherwise."""
        if self._given_up:
            return True
        self._trials += 1
        if self._trials > MAX_TRIALS:
            self.give_up()
            return False
        triples = zip(self.first, self.guess, outs, strict=True)
        new = [self._known(k, first, guess, out) for k, (first, guess, out) in enumerate(triples)]
        stable = all(map(same_known, new, self.guess))
        self.guess = new
        return stable

    def give_up(self) -> None:
        """Reduce all carried values to kind and element type, which always hold."""
        self._given_up = True
        self.guess = [kind_only(self.op, k) for k in self.guess]

    def _known(
        self, path: Hashable, first: Known | None, guess: Known | None, out: Known | None
    ) -> Known | None:
        if isinstance(first, Tensor) and isinstance(guess, Tensor):
            return self._tensor(path, first, guess, out if isinstance(out, Tensor) else Tensor())
        if isinstance(first, Sequence) and isinstance(guess, Sequence):
            return self._sequence(path, first, guess, out if isinstance(out, Sequence) else Sequence(None))
        if isinstance(guess, Optional):
            return self._optional(guess, out if isinstance(out, Optional) else Optional(None))
        return guess if same_known(guess, out) else None

    def _tensor(self, path: Hashable, first: Tensor, guess: Tensor, out: Tensor) -> Tensor:
        shape = None
        shapes = [t.shape for t in (first, guess, out) if t.shape is not None]
        if len(shapes) == 3 and len(shapes[1]) == len(shapes[2]):
            shape = Shape(self._dim((path, k), *dims) for k, dims in enumerate(zip(*shapes, strict=True)))
        value = None
        if (
            shape is not None
            and first.value is not None
            and guess.value is not None
            and out.value is not None
        ):
            value = self._value(path, first.value, guess.value, out.value)
        return self.op.walk.interner.tensor(first.dtype or out.dtype, shape, value)

    def _sequence(self, path: Hashable, first: Sequence, guess: Sequence, out: Sequence) -> Sequence:
        length = None
        if first.length is not None and guess.length is not None and out.length is not None:
            length = self._dim((path, "length"), first.length, guess.length, out.length)
        if guess.items is not None and same_items(guess.items, out.items):
            return guess
        elem = guess.elem
        if not same_known(elem, out.elem):
            elem = self._shared(guess, out)
            if same_known(elem, guess.elem):
                elem = guess.elem
        if length is guess.length and elem is guess.elem and guess.items is None:
            return guess
        return Sequence(elem, length)

    def _optional(self, guess: Optional, out: Optional) -> Optional:
        if same_known(guess, out):
            return guess
        elem = self._shared(*(Sequence(o.elem, ZERO if o.present is FALSE else None) for o in (guess, out)))
        if guess.present is None and same_known(elem, guess.elem):
            return guess
        return Optional(elem, guess.present if guess.present is out.present else None)

    def _shared(self, guess: Sequence, out: Sequence) -> Known | None:
        """Join of the elements of two sequences, without data; sizes that depend on the iteration become open."""
        return change_sizes(
            self.op, closed(self.op, common_elem(self.op, guess, out), self.visible), lambda d: d
        )

    def _value(self, path: Hashable, first: Value, guess: Value, out: Value) -> Value | None:
        if guess == out:
            return guess
        if first.elems is None or guess.elems is None or out.elems is None or guess.shape != out.shape:
            return None
        elems = tuple(
            self._elem((path, "element", k), *e)
            for k, e in enumerate(zip(first.elems, guess.elems, out.elems, strict=True))
        )
        return None if all(e is None for e in elems) else Value(guess.shape, elems)

    def _elem(self, path: Hashable, first: Elem, guess: Elem, out: Elem) -> Elem:
        if isinstance(first, Dim) and isinstance(guess, Dim) and isinstance(out, Dim):
            return self._dim(path, first, guess, out, value=True)
        if isinstance(guess, Cond) and isinstance(out, Cond):
            return guess if out is guess.subs({self._name: self.trip + 1}) else None
        return guess if guess == out else None

    def _dim(self, path: Hashable, first: Dim, guess: Dim, out: Dim, value: bool = False) -> Dim:
        if guess in self._open or out is self.op.walk.facts.dim(guess.subs({self._name: self.trip + 1})):
            return guess
        try:
            found = self._wider(path, first, out)
        except DimTooLarge:
            found = None
        if found is None:
            found = self.op.walk.fresh("varies between iterations", "value" if value else "size")
            self._open.add(found)
        return found

    def _wider(self, path: Hashable, first: Dim, out: Dim) -> Dim | None:
        stage = self._stages.get(path, 0)
        while stage < 4:  # 4 means unknown
            stage = self._stages[path] = stage + 1
            if stage == 1:  # same step in each iteration
                step = out - first
                if step.free <= self.visible:
                    return first + step * self.trip
            elif stage in (2, 3) and out.free <= self.visible | {self._name}:
                return ite(eq(self.trip, 0), first, out.subs({self._name: self.trip - 1}))
        return None

    # ------------------------------------------------------------------ after the loop

    def after(self, trips: Dim, ran: Cond) -> list[Known | None]:
        """Return the carried values after `trips` iterations; `ran` is the condition that there was one."""
        if self.op.walk.facts.cond(ran).is_false:  # the body itself may have settled that
            return self.first
        return [self._after(f, g, trips, ran) for f, g in zip(self.first, self.guess, strict=True)]

    def _after(self, first: Known | None, guess: Known | None, trips: Dim, ran: Cond) -> Known | None:
        names = {self._name: trips}

        def last(start: Dim | None, d: Dim) -> Dim:
            if d not in self._open:
                return d.subs(names)
            name = self.op.walk.fresh("final value", "size" if d.bounds()[0] is not None else "value")
            if start is not None:
                self.op.define(any_of((ran, eq(name, start))), "the initial value, if no iteration runs")
            return name

        def elem(start: Elem, e: Elem) -> Elem:
            if isinstance(e, Dim):
                return last(start if isinstance(start, Dim) else None, e)
            return e.subs(names) if isinstance(e, Cond) else e

        if isinstance(guess, Tensor) and isinstance(first, Tensor):
            shape = value = None
            if guess.shape is not None:
                shape = Shape(
                    last(a, d) for a, d in zip(first.shape or guess.shape, guess.shape, strict=True)
                )
            if guess.value is not None:
                value = guess.value
                if value.elems is not None and first.value is not None and first.value.elems is not None:
                    value = Value(value.shape, tuple(map(elem, first.value.elems, value.elems)))
            return self.op.out(shape, guess.dtype, value)
        if isinstance(guess, Sequence) and isinstance(first, Sequence):
            length = None if guess.length is None else last(first.length, guess.length)
            return Sequence(guess.elem, length, guess.items)
        return guess
