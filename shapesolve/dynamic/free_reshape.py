"""Positions of freed sizes in the output of a Reshape with a baked target.

A Reshape keeps the elements in row-major order, so the factors of its input, read from the left, fill the entries of its
target, read from the left. A size that was 1 when it was baked leaves no trace in the products: where it may go is a list of
candidates, the likeliest first, and the proof that rows stay apart decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

from ..expr import ONE, Dim, constant

#: most candidates that are looked at
_MAX_CANDIDATES = 24


@dataclass(frozen=True, slots=True)
class Piece:
    """A factor of the input: its size now, the size that was baked in, and the axis that it is on."""

    size: Dim
    baked: int
    axis: int


@dataclass(slots=True)
class _State:
    pieces: Seq[Piece]
    sizes: Seq[int]
    raw: Seq[int]
    found: list[tuple[int, tuple[Dim, ...]]] = field(default_factory=list)


def placements(pieces: Seq[Piece], sizes: Seq[int], raw: Seq[int]) -> list[tuple[Dim, ...]]:
    """Shapes that hold the elements of `pieces` in order, with `sizes` at the baked sizes. The likeliest is first.

    Args:
        pieces: the input's factors, outermost first, without ones.
        sizes: the output's baked sizes.
        raw: the entries of the target as they stand, 0 and -1 among them.
    """
    state = _State(pieces, sizes, raw)
    _fill(state, 0, None, 0, sizes[0] if sizes else 1, ONE, (), 0)
    state.found.sort(key=lambda entry: entry[0])
    return list(dict.fromkeys(dims for _, dims in state.found))


def _fill(
    state: _State, i: int, head: int | None, k: int, need: int, taken: Dim, dims: tuple[Dim, ...], cost: int
) -> None:
    """Fills entry `k` from piece `i` on. `taken` is its size so far, `need` is missing, `head` the rest of the piece."""
    if len(state.found) >= _MAX_CANDIDATES:
        return
    pieces, sizes = state.pieces, state.sizes
    if k == len(sizes):
        if i == len(pieces):
            state.found.append((cost, dims))
        return
    if i < len(pieces):
        piece = pieces[i]
        if piece.size.terms:
            if need % piece.baked == 0 and (need > 1 or piece.baked == 1):
                more = cost + (_cost(state, piece, k, taken) if piece.baked == 1 else 0)
                _fill(state, i + 1, None, k, need // piece.baked, taken * piece.size, dims, more)
        elif need > 1:
            have = head or piece.baked
            if need % have == 0:
                _fill(state, i + 1, None, k, need // have, taken * have, dims, cost)
            elif have % need == 0:
                _fill(state, i, have // need, k, 1, taken * need, dims, cost)
    if need == 1:
        following = sizes[k + 1] if k + 1 < len(sizes) else 1
        _fill(state, i, head, k + 1, following, ONE, (*dims, taken), cost)


def _cost(state: _State, piece: Piece, k: int, taken: Dim) -> int:
    """Penalty for assigning a size that was 1 to entry `k`."""
    if state.sizes[k] == 1:
        if state.raw[k] == -1:
            return 0
        return 1 if k == piece.axis else 2 + abs(k - piece.axis)
    if state.raw[k] == -1:
        return 10
    return 20 if taken is not ONE else 30


def target_of(dims: Seq[Dim], given: Seq[Dim], *, copies: bool) -> list[int] | None:
    """The target of a Reshape from `given` to `dims` in numbers, 0 and -1. None if that is not enough."""
    entries: list[int | None] = []
    for k, size in enumerate(dims):
        if size.value is not None:
            entries.append(size.value)
        elif copies and k < len(given) and given[k] is size:
            entries.append(0)
        else:
            entries.append(None)
    if entries.count(None) > 1 or (None in entries and 0 in entries):
        return None  # what is copied may be 0, and then nothing can be inferred
    if None not in entries and entries.count(0) == 1 and -1 not in entries:
        entries[entries.index(0)] = None  # the form that people know
    return [-1 if e is None else e for e in entries]


def pieces_of(layout: Seq[Seq[Dim]], baked: Seq[Seq[int]]) -> Iterator[Piece]:
    """The factors of a tensor with neighbouring numbers multiplied."""
    waiting: Piece | None = None
    for axis, (factors, sizes) in enumerate(zip(layout, baked, strict=True)):
        for factor, size in zip(factors, sizes, strict=True):
            if factor is ONE:
                continue
            if factor.terms:
                if waiting is not None:
                    yield waiting
                waiting = None
                yield Piece(factor, size, axis)
            elif waiting is None:
                waiting = Piece(factor, size, axis)
            else:
                waiting = Piece(constant(waiting.baked * size), waiting.baked * size, waiting.axis)
    if waiting is not None:
        yield waiting
