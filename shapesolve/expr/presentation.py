"""Readable form of a polynomial as a sum of terms such as `2*W*(H % 32)` or `min(N, 5)`.

Dims keep remainders, maxima, and minima expanded (`H - 32*(H//32)`, `M + pos(N - M)`). Every step here is an identity
of polynomials,
so each form is exact; the one with the fewest symbols is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import NamedTuple

from .atom import Atom, make_atom
from .canonical import floor_div, quotient_of
from .core import ONE, ZERO, Dim, constant, from_terms, make_dim, of_atom
from .limits import MAX_TERMS
from .structure import Monomial


class Piece(NamedTuple):
    """One term of a printed sum: ``coefficient * factors * head(args)``. `head` is ``%``, ``max``, ``min``, ``abs``,
    ``*`` (of two sums) or empty.
    """

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
    if 3 <= len(dim.terms) <= MAX_TERMS:
        product = _factored(dim) or _factored_behind(dim)
        if product is not None:
            return [product[0]], product[1]
    if len(dim.terms) <= MAX_TERMS:
        dim = _without_remainders(_rounded_down(dim), pieces)
        dim = _without_maxima(dim, pieces)
    pieces.extend(Piece(c, mono) for mono, c in dim.terms)
    return pieces, dim.const


def _factored(dim: Dim) -> tuple[Piece, int] | None:
    """Factors ``a*b - a - b + 1`` as ``(a - 1)*(b - 1)`` plus a constant; None for other forms.

    The factors have no symbol in common, and writing them takes less than writing their product out.
    """
    first = set(dim.terms[0][0][0].free)
    atoms = [a for mono, _ in dim.terms for a in mono]
    while grown := set().union(*(a.free for a in atoms if not a.free.isdisjoint(first))) - first:
        first |= grown
    table: dict[Monomial, dict[Monomial, int]] = {}
    for mono, c in dim.terms:
        mine = tuple(a for a in mono if not a.free.isdisjoint(first))
        table.setdefault(mine, {})[tuple(a for a in mono if a.free.isdisjoint(first))] = c
    rows = [m for m in table if m]
    if () not in table or not rows or not table[()]:
        return None
    pivot = rows[0]
    columns = [k for k in table[pivot] if k]
    if not columns:
        return None
    g = gcd(*(row.get(columns[0], 0) for row in table.values()))
    left = {m: row.get(columns[0], 0) // g for m, row in table.items()}
    if not left[pivot] or any(c % left[pivot] for c in table[pivot].values()):
        return None
    right = {k: c // left[pivot] for k, c in table[pivot].items()}
    u = from_terms({m: c for m, c in left.items() if m}, left[()])
    v = from_terms({k: c for k, c in right.items() if k}, right.get((), 0))
    rest = dim - u * v
    if rest.terms or not u.const or not v.const or u.size + v.size >= dim.size:
        return None
    g = gcd(v.const, *(c for _, c in v.terms))
    v = from_terms({m: c // g for m, c in v.terms}, v.const // g)
    if u.const < 0 and all(c < 0 for _, c in u.terms):
        u, g = -u, -g
    return Piece(g, (), "*", (u, v)), rest.const


def _factored_behind(dim: Dim) -> tuple[Piece, int] | None:
    """Factors ``b*h*w + b*h + b*w + b`` as ``b*(h + 1)*(w + 1)``; None for other forms."""
    shared = dim.terms[0][0]
    for mono, _ in dim.terms[1:]:
        shared = tuple(a for a in shared if shared.count(a) <= mono.count(a))
    if dim.const or not shared:
        return None
    terms = {quotient_of(mono, shared) or (): c for mono, c in dim.terms}
    found = _factored(from_terms({m: c for m, c in terms.items() if m}, terms.get((), 0)))
    return None if found is None or found[1] else (found[0]._replace(factors=shared), 0)


def _times(dim: Dim, mono: Monomial, factor: int) -> Dim:
    return dim * make_dim(((mono, factor),), 0) if mono else dim.scale(factor)


def _length(dim: Dim) -> int:
    return len(dim.terms) + (dim.const != 0)


def _rounded_down(dim: Dim) -> Dim:
    """Rewrites ``x - (x + 3)//4`` as ``3*x//4`` (not in canonical form)."""
    for mono, c in dim.terms:
        if c > 0 or len(mono) > 1 or mono[0].kind != "//" or mono[0].args[1].terms:
            continue
        n, k = mono[0].args[0], mono[0].args[1].const
        rest = dim - make_dim(((mono, c),), 0) + make_dim(tuple((m, c) for m, _ in n.terms), 0)
        if _length(rest) + 1 < _length(dim) and all(0 < 2 * a < k for _, a in n.terms):
            opposite = make_dim(tuple((m, k - a) for m, a in n.terms), k - 1 - n.const)
            if rest + floor_div(opposite, constant(k)).scale(-c) is not dim:
                continue  # read back, it would be another object
            return _rounded_down(rest + of_atom(make_atom("//", opposite, constant(k))).scale(-c))
    return dim


def _without_remainders(dim: Dim, pieces: list[Piece]) -> Dim:
    """Moves terms ``c*M*(n % k)`` from `dim` to `pieces`; returns the rest."""
    present = dict(dim.terms)
    found = [(a.order, a, m, c) for m, c in dim.terms for a in dict.fromkeys(m) if a.kind == "//"]
    found.sort(key=lambda f: f[0], reverse=True)  # the larger may contain the smaller
    for _, atom, mono, c in found:
        if present.get(mono) != c:
            continue
        for piece, value in _remainders(atom, quotient_of(mono, (atom,)) or (), c):
            shared = sum(m in present for m, _ in value.terms) + (value.const != 0 and dim.const != 0)
            if shared < 2:  # only the quotient itself
                continue
            if floor_div(*piece.args) is not of_atom(atom):  # read back, it would be another object
                continue
            left = dim - value
            if _length(left) + 1 < _length(dim):
                pieces.append(piece)
                dim, present = left, dict(left.terms)
                break
    return dim


def _remainders(atom: Atom, rest: Monomial, c: int) -> Iterator[tuple[Piece, Dim]]:
    """Remainders (``n % k``) that contain ``c * rest * atom``, with the terms that each one replaces."""
    n, k = atom.args
    q = make_dim((((atom,), 1),), 0)
    lead, lead_c = k.terms[0] if k.terms else ((), k.const)
    factors = quotient_of(rest, lead)
    if factors is not None and c % lead_c == 0:
        yield Piece(-c // lead_c, factors, "%", (n, k)), _times(n - k * q, factors, -c // lead_c)
    if len(k.terms) > 1 or (k.terms and k.const):
        return
    shared = tuple(a for a in lead if a in rest)  # x//(a*b) also ends (x//a) % b
    common, left, factors = gcd(c, lead_c), quotient_of(lead, shared), quotient_of(rest, shared)
    if (common, shared) not in ((1, ()), (lead_c, lead)) and left is not None and factors is not None:
        n = floor_div(n, _times(ONE, left, lead_c // common))
        b = _times(ONE, shared, common)
        yield Piece(-c // common, factors, "%", (n, b)), _times(n - b * q, factors, -c // common)


def _without_maxima(dim: Dim, pieces: list[Piece]) -> Dim:
    """Moves terms with ``max(x, 0)`` from `dim` to `pieces`, as a max or min; returns the rest."""
    while True:
        found = [(a.order, a, m, c) for m, c in dim.terms for a in m if a.kind == "pos" and m.count(a) == 1]
        if not found:
            return dim
        _, atom, mono, c = max(found, key=lambda f: f[0])  # the largest: it may contain the others
        piece, dim = _best_extremum(dim, atom, mono, c)
        pieces.append(piece)


def _best_extremum(dim: Dim, atom: Atom, mono: Monomial, c: int) -> tuple[Piece, Dim]:
    """The shortest max or min that contains ``c*mono``, and the rest of `dim`."""
    factors = quotient_of(mono, (atom,)) or ()
    others = dim - make_dim(((mono, c),), 0)
    found: list[tuple[int, Piece, Dim]] = []
    for base, x, factor in _bases(atom.args[0], others, factors, c):
        rest = others - _times(base, factors, factor)
        a, b = base + x, base  # base + pos(x) = max(base + x, base)
        for piece in (Piece(factor, factors, "max", (a, b)), Piece(-factor, factors, "min", (-a, -b))):
            found.append((_weight(rest) + _piece_weight(piece), piece, rest))
    if c % 2 == 0:  # abs(x) = 2*pos(x) - x
        x = atom.args[0]
        piece, rest = Piece(c // 2, factors, "abs", (x,)), others + _times(x, factors, c // 2)
        found.append((_weight(rest) + _piece_weight(piece), piece, rest))
    _, piece, rest = min((f for f in found if _length(f[2]) <= _length(others)), key=lambda f: f[0])
    return piece, rest


def _bases(x: Dim, others: Dim, factors: Monomial, c: int) -> Iterator[tuple[Dim, Dim, int]]:
    """Candidates (base, x, factor) to write ``c*pos(x)`` as ``factor*(max(base + x, base) - base)``."""
    yield ZERO, x, c
    if len(x.terms) > MAX_TERMS:
        return
    inside: dict[Monomial, int] = {}
    const = 0
    for mono, k in others.terms:
        left = quotient_of(mono, factors)
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
    total = abs(dim.const) and 1 + (dim.const < 0)
    for mono, c in dim.terms:
        total += sum(a.size for a in mono) + (c not in (1, -1)) + (c < 0)
    return total


def _piece_weight(piece: Piece) -> int:
    inside = sum(_weight(a) or 1 for a in piece.args)
    around = sum(a.size for a in piece.factors)
    return inside + around + (piece.coefficient not in (1, -1)) + (piece.coefficient < 0)
