# compiled: see CONTRIBUTING.md
"""Canonical form of the non-polynomial operations: floor division, max, min and broadcast. Every rule is exact over the
integers.

A quotient is undefined where the divisor is 0: a rule may then give anything, since no accepted model divides by zero.
"""

from __future__ import annotations

from math import gcd

from .atom import make_atom
from .core import ONE, ZERO, Dim, IntoDim, as_dim, constant, from_terms, make_dim, of_atom
from .limits import MAX_CACHED
from .structure import Monomial

#: quotients made lately; few (a corpus of 160 models makes 700), since they keep their dims from being dropped
_MEMO: dict[tuple[Dim, Dim], Dim] = {}


def floor_div(n: Dim, d: Dim) -> Dim:
    """``n // d`` (rounding down). A constant zero divisor raises `ZeroDivisionError`."""
    found = _MEMO.get((n, d))
    if found is None:
        found = _by_constant(n, d.const) if not d.terms else _by_dim(n, d)
        if len(_MEMO) >= MAX_CACHED:
            _MEMO.clear()
        _MEMO[n, d] = found
    return found


def ceil_div(n: Dim, d: Dim) -> Dim:
    """Return `n / d` rounded up: `(n + d - 1) // d` for a positive constant, otherwise `-((-n) // d)`."""
    if d.value is not None and d.const > 0:
        return floor_div(n + (d.const - 1), d)
    return -floor_div(-n, d)


def _by_constant(n: Dim, k: int) -> Dim:
    if k == 0:
        raise ZeroDivisionError(f"({n}) // 0")
    if k < 0:
        n, k = -n, -k
    if k == 1:
        return n
    if not n.terms:
        return constant(n.const // k)
    lo, hi = n.bounds()
    if lo is not None and hi is not None and lo // k == hi // k:
        return constant(lo // k)
    if all(c < 0 for _, c in n.terms):  # floor(-x/k) = -ceil(x/k)
        return -_by_constant(-n + (k - 1), k)
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    g = k
    for mono, c in n.terms:
        q, r = divmod(c, k)
        if 2 * r > k:  # the residue nearest to zero: (L - W)//160 is kept, x - 3*x//4 becomes ceil(x/4)
            q, r = q + 1, r - k
        if q:
            whole[mono] = q
        if r:
            rest[mono] = r
            g = gcd(g, r)
    if rest and all(c < 0 for c in rest.values()):
        return from_terms(whole, 0) - _by_constant(-from_terms(rest, n.const) + (k - 1), k)
    e = from_terms(whole, n.const // k)
    if not rest:
        return e
    k //= g
    r_const = (n.const % (k * g)) // g
    left = from_terms({m: c // g for m, c in rest.items()}, r_const)
    if k == 1:
        return e + left
    lo, hi = left.bounds()
    if lo is not None and hi is not None and lo // k == hi // k:
        return e + constant(lo // k)
    return e + _irreducible(left, k)


def _irreducible(r: Dim, k: int) -> Dim:
    """The atom ``r // k`` of a numerator that needs no further simplification."""
    alone = (m[0] for m, _ in r.terms if len(m) == 1)
    quotients = [atom for atom in alone if atom.kind == "//" and not atom.args[1].terms]
    for q in quotients:  # c*n + rest = c*(n % m) + (rest + c*m*(n//m)), and n % m is small
        n, m = q.args
        c = multiple_in(r, n)
        if c:
            small = (n - of_atom(q).scale(m.const)).scale(c)
            whole = exact_quotient(r - small, constant(k))
            lo, hi = small.bounds()
            if whole is not None and lo is not None and hi is not None and lo // k == hi // k:
                return whole + constant(lo // k)
    inner = [q for q in quotients if ((q,), 1) in r.terms]
    if len(inner) == 1:  # (x//a + c) // k = (x + a*c) // (a*k)
        x, a = inner[0].args
        return _by_constant(x + (r - of_atom(inner[0])).scale(a.const), a.const * k)
    if len(r.terms) == 1 and 0 <= r.const < k:
        mono, c = r.terms[0]
        if c == 1 and len(mono) == 1 and mono[0].kind == "pos":  # pos(y) // k = pos(y // k)
            return pos(_by_constant(mono[0].args[0] + r.const, k))
    return of_atom(make_atom("//", r, constant(k)))


def multiple_in(n: Dim, base: Dim) -> int:
    """The integer c for which `n` contains the terms of ``c*base``, constants ignored (0 if none)."""
    table = dict(n.terms)
    found: int | None = None
    for mono, b in base.terms:
        c = table.get(mono, 0)
        if c % b:
            return 0
        c //= b
        if found is None:
            found = c
        elif found != c:
            return 0
    return found or 0


def _by_dim(n: Dim, d: Dim) -> Dim:
    if not n.terms and n.const == 0:
        return ZERO
    if n is d:
        return ONE
    exact = exact_quotient(n, d)
    if exact is not None:
        return exact
    if len(d.terms) == 1 and d.const == 0:
        return _by_monomial(n, d)
    n, d = _cancel(n, d)
    return _opaque(n, d)


def _by_monomial(n: Dim, d: Dim) -> Dim:
    ((dm, dc),) = d.terms
    if dc < 0:
        return _by_dim(-n, -d)
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    const = 0
    for mono, c in n.terms:
        left = quotient_of(mono, dm)
        q, r = divmod(c, dc) if left is not None else (0, c)
        if left is not None and q:
            if left:
                whole[left] = whole.get(left, 0) + q
            else:
                const += q
        if r:
            rest[mono] = r
    e = from_terms(whole, const)
    if whole or const:
        return e + floor_div(from_terms(rest, n.const), d)
    n, d2 = _cancel(n, d)
    if d2 is not d:
        return floor_div(n, d2)
    return _opaque(n, d)


def _opaque(n: Dim, d: Dim) -> Dim:
    if not d.terms:
        return _by_constant(n, d.const)
    atom = n.atom
    if atom is not None and atom.kind == "//" and d.lo is not None and d.lo >= 0:
        return floor_div(atom.args[0], atom.args[1] * d)  # (x//a)//b = x//(a*b)
    lo = n.lo
    if lo is not None and lo >= 0:
        gap = (d - n).lo
        if gap is not None and gap >= 1:
            return ZERO
    return of_atom(make_atom("//", n, d))


def _cancel(n: Dim, d: Dim) -> tuple[Dim, Dim]:
    """Numerator and denominator divided by their common integer content and common factors."""
    g = gcd(d.const, n.const, *(c for _, c in n.terms), *(c for _, c in d.terms))
    if not n.const and not d.const and n.terms:
        common = common_factor(n, d)
        if common:
            n, d = without(n, common), without(d, common)
    if g > 1:
        n, d = _shrink(n, g), _shrink(d, g)
    return n, d


def _shrink(p: Dim, g: int) -> Dim:
    return make_dim(tuple((m, c // g) for m, c in p.terms), p.const // g)


def common_factor(*dims: Dim) -> Monomial:
    """The product of atoms that divides every term of these dims (integers ignored)."""
    common: Monomial | None = None
    for dim in dims:
        for mono, _ in dim.terms:
            common = mono if common is None else shared(common, mono)
            if not common:
                return ()
    return common or ()


def without(p: Dim, common: Monomial) -> Dim:
    """`p` with each term divided by the monomial `common`."""
    table: dict[Monomial, int] = {}
    const = 0
    for mono, c in p.terms:
        left = quotient_of(mono, common)
        if left:
            table[left] = c
        else:
            const = c
    return from_terms(table, const)


def shared(a: Monomial, b: Monomial) -> Monomial:
    """The factors that two monomials have in common."""
    pool = list(b)
    out = []
    for atom in a:
        if atom in pool:
            pool.remove(atom)
            out.append(atom)
    return tuple(out)


def quotient_of(mono: Monomial, factor: Monomial) -> Monomial | None:
    """Return `mono / factor`, or None if it does not divide."""
    pool = list(mono)
    for atom in factor:
        if atom not in pool:
            return None
        pool.remove(atom)
    return tuple(pool)


def exact_quotient(n: Dim, d: Dim) -> Dim | None:
    """The polynomial q with ``n == q*d`` when there is one (long division by leading terms)."""
    if not d.terms:
        k = d.const
        if k == 0 or n.const % k or any(c % k for _, c in n.terms):
            return None
        return make_dim(tuple((m, c // k) for m, c in n.terms), n.const // k)
    lead, lc = d.terms[0]
    if len(d.terms) == 1 and not d.const and (n.const or len(n.terms) > 64):
        return None
    table: dict[Monomial, int] = {}
    const = 0
    left = n
    for _ in range(64):
        if not left.terms:
            return from_terms(table, const) if not left.const else None
        mono, c = left.terms[0]
        part = quotient_of(mono, lead)
        if part is None or c % lc:
            return None
        if part:
            table[part] = table.get(part, 0) + c // lc
            left = left - make_dim(((part, c // lc),), 0) * d
        else:
            const += c // lc
            left = left - d.scale(c // lc)
    return None


# ---------------------------------------------------------------------- max, min and broadcast


def pos(x: Dim) -> Dim:
    """``max(x, 0)``; the sign of `x` is normalized by ``pos(-x) = pos(x) - x``."""
    if not x.terms:
        return constant(max(x.const, 0))
    lo, hi = x.bounds()
    if lo is not None and lo >= 0:
        return x
    if hi is not None and hi <= 0:
        return ZERO
    g = gcd(x.const, *(c for _, c in x.terms))
    if g > 1:
        return pos(make_dim(tuple((m, c // g) for m, c in x.terms), x.const // g)).scale(g)
    if x.terms[0][1] < 0:
        return _pos_atom(-x) + x
    return _pos_atom(x)


def _pos_atom(x: Dim) -> Dim:
    """The atom ``max(x, 0)`` of an `x` with positive leading term."""
    return of_atom(make_atom("pos", x))


def maximum(first: IntoDim, *rest: IntoDim) -> Dim:
    """The largest of some dims."""
    result = as_dim(first)
    for d in sorted({as_dim(r) for r in rest}, key=lambda d: d.order):
        result = d + pos(result - d)
    return result


def minimum(first: IntoDim, *rest: IntoDim) -> Dim:
    """The smallest of some dims."""
    result = as_dim(first)
    for d in sorted({as_dim(r) for r in rest}, key=lambda d: d.order):
        result = result - pos(result - d)
    return result


def absolute(x: Dim) -> Dim:
    """``abs(x)``."""
    return pos(x).scale(2) - x


def broadcast(*dims: IntoDim) -> Dim:
    """The size that broadcasting gives: the one that is not 1 (all others are equal to it or 1).

    ``broadcast(0, 1)`` is 0, which is why it is not `maximum`.
    """
    found: dict[Dim, None] = {}
    for d in map(as_dim, dims):
        atom = d.atom
        for part in atom.args if atom is not None and atom.kind == "broadcast" else (d,):
            if part.value != 1:
                found[part] = None
    for d in found:
        if d.value is not None or never_one(d):
            return d  # the others must be equal to it or 1
    if len(found) > 1:
        found = {d: None for d in found if _beside_one(d) not in found}
    if any(atom.kind == "pos" for d in found for mono, _ in d.terms for atom in mono):
        sizes = [d for d in found if d.lo is not None and d.lo >= 0]
        clipped = {m for d in sizes if (m := minimum(d, 1)) is not d}  # min(d, 1) always fits d
        found = {d: None for d in found if d not in clipped}
    if not found:
        return ONE
    if len(found) == 1:
        return next(iter(found))
    return of_atom(make_atom("broadcast", *sorted(found, key=lambda d: d.order)))


def always_fits(d: Dim, other: Dim) -> bool:
    """True if `d` is a choice between 1 and `other`, so that it broadcasts to it at all sizes."""
    return _beside_one(d) is other


def _beside_one(d: Dim) -> Dim | None:
    """The other size ``b`` of a choice between 1 and ``b``; None for other dims."""
    atom = d.atom
    if atom is None or atom.kind != "ite" or ONE not in atom.args[1:]:
        return None
    other: Dim = atom.args[1] if atom.args[2] is ONE else atom.args[2]
    return other


def never_one(d: Dim) -> bool:
    """True if `d` is different from 1 at all sizes."""
    if d.value is not None:
        return d.const != 1
    lo, hi = d.bounds()
    if (lo is not None and lo > 1) or (hi is not None and hi < 1):
        return True
    g = gcd(*(c for _, c in d.terms))
    return g > 1 and (d.const - 1) % g != 0
