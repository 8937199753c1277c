"""How a polynomial reads best: as a sum of pieces such as ``2*W*(H % 32)`` or ``min(N, 5)``.

Dims keep remainders, maxima and minima expanded (``H - 32*(H//32)``, ``M + pos(N - M)``). Every step here is an identity of
polynomials, so whatever is chosen is true; what is chosen is what takes the fewest symbols to write.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import NamedTuple

from .core import ZERO, Atom, Dim, Monomial, constant, from_terms, make_dim
from .division import floor_div

#: a larger polynomial is written as it is stored
_LARGEST = 64


class Piece(NamedTuple):
    """``coefficient * factors * head(args)``; `head` is ``%``, ``max``, ``min`` or empty."""

    coefficient: int
    factors: Monomial
    head: str = ""
    args: tuple[Dim, ...] = ()

    @property
    def degree(self) -> int:
        """Number of factors."""
        return len(self.factors) + bool(self.head)


def pieces_of(dim: Dim) -> tuple[list[Piece], int]:
    """Pieces and a constant that add up to `dim`."""
    pieces: list[Piece] = []
    if len(dim.terms) <= _LARGEST:
        dim = _without_remainders(dim, pieces)
        dim = _without_maxima(dim, pieces)
    pieces.extend(Piece(c, mono) for mono, c in dim.terms)
    return pieces, dim.const


def _single_atoms(dim: Dim, kind: str) -> list[Atom]:
    """Atoms of a kind in `dim`, the largest first: they may contain the smaller ones."""
    found = {atom for mono, _ in dim.terms for atom in mono if atom.kind == kind}
    return sorted(found, key=lambda a: a.order, reverse=True)


def _drop(mono: Monomial, part: Monomial) -> Monomial | None:
    """``mono / part``, or None when `part` does not divide it."""
    left = list(mono)
    for atom in part:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _times(dim: Dim, mono: Monomial, factor: int) -> Dim:
    return dim * make_dim(((mono, factor),), 0) if mono else dim.scale(factor)


def _length(dim: Dim) -> int:
    return len(dim.terms) + (dim.const != 0)


def _without_remainders(dim: Dim, pieces: list[Piece]) -> Dim:
    """Take every ``c*M*(n - k*(n//k))`` out of `dim`."""
    for atom in _single_atoms(dim, "//"):
        for mono, c in dim.terms:
            rest = _drop(mono, (atom,))
            if rest is None:
                continue
            for piece, value in _remainders(atom, rest, c):
                left = dim - value
                if _length(left) + 1 < _length(dim):
                    pieces.append(piece)
                    dim = left
                    break
    return dim


def _remainders(atom: Atom, rest: Monomial, c: int) -> Iterator[tuple[Piece, Dim]]:
    """Remainders in which ``c * rest * atom`` may be the subtracted multiple."""
    n, k = atom.args
    if k.terms:
        lead, lead_c = k.terms[0]
        factors = _drop(rest, lead)
        if factors is not None and c % lead_c == 0:
            value = n - k * make_dim((((atom,), 1),), 0)
            yield Piece(-c // lead_c, factors, "%", (n, k)), _times(value, factors, -c // lead_c)
        return
    b = gcd(c, k.const)  # x//(a*b) also ends (x//a) % b
    if b > 1:
        n = floor_div(n, constant(k.const // b))
        value = n - make_dim((((atom,), b),), 0)
        yield Piece(-c // b, rest, "%", (n, constant(b))), _times(value, rest, -c // b)


def _without_maxima(dim: Dim, pieces: list[Piece]) -> Dim:
    """Take every ``c*M*pos(x)`` out of `dim`, as a max or a min that takes other terms along."""
    while True:
        atoms = _single_atoms(dim, "pos")
        if not atoms:
            return dim
        mono, c = next((m, c) for m, c in dim.terms if atoms[0] in m)
        piece, dim = _best_extremum(dim, atoms[0], mono, c)
        pieces.append(piece)


def _best_extremum(dim: Dim, atom: Atom, mono: Monomial, c: int) -> tuple[Piece, Dim]:
    """The shortest way to write ``c*mono`` with other terms of `dim`, and what is left of `dim`."""
    factors = _drop(mono, (atom,)) or ()
    others = dim - make_dim(((mono, c),), 0)
    found: list[tuple[int, Piece, Dim]] = []
    for base, x, factor in _bases(atom.args[0], others, factors, c):
        rest = others - _times(base, factors, factor)
        if _length(rest) > _length(others):
            continue
        a, b = base + x, base  # base + pos(x) = max(base + x, base)
        for piece in (Piece(factor, factors, "max", (a, b)), Piece(-factor, factors, "min", (-a, -b))):
            found.append((_weight(rest) + _piece_weight(piece), piece, rest))
    _, piece, rest = min(found, key=lambda f: f[0])
    return piece, rest


def _bases(x: Dim, others: Dim, factors: Monomial, c: int) -> Iterator[tuple[Dim, Dim, int]]:
    """Candidates for ``c*pos(atom's x) + factor*base = factor*max(base + x, base)``; base 0 comes first."""
    yield ZERO, x, c
    if len(x.terms) > _LARGEST:
        return
    inside: dict[Monomial, int] = {}
    const = 0
    for mono, k in others.terms:
        left = _drop(mono, factors)
        if left:
            inside[left] = k
        elif left is not None:
            const = k
    if not factors:
        const = others.const
    mine = {m for m, _ in x.terms}
    for f in (c, 1 if c > 0 else -1):
        scaled = x.scale(abs(c // f))
        near = {m: k // f for m, k in inside.items() if m in mine}
        yield from_terms({m: k // f for m, k in inside.items()}, const // f), scaled, f
        yield from_terms(near, const // f), scaled, f
        yield from_terms(near, 0), scaled, f
        if abs(c) == 1:
            break
    sign = -1 if c > 0 else 1  # max(p, q) = q + pos(p - q), min(p, q) = p - pos(p - q)
    part = {m: k for m, k in x.terms if k * sign > 0}
    side = from_terms(part, x.const if x.const * sign > 0 else 0).scale(sign)
    yield (side, x, c) if c > 0 else (-side, x, c)


def _weight(dim: Dim) -> int:
    """Roughly how much there is to read."""
    total = abs(dim.const) and 1 + (dim.const < 0)
    for mono, c in dim.terms:
        total += sum(a.size for a in mono) + (c not in (1, -1)) + (c < 0)
    return total


def _piece_weight(piece: Piece) -> int:
    inside = sum(_weight(a) or 1 for a in piece.args)
    around = sum(a.size for a in piece.factors)
    return inside + around + (piece.coefficient not in (1, -1)) + (piece.coefficient < 0)
