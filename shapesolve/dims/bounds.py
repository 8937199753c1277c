"""Bounds of a dim that follow from its form alone, or from known intervals of its symbols.

Each non-polynomial atom has linear relaxations (``n//k <= n/k``, ``pos(x) >= x`` ...). A bound of a sum is
the best over the relaxations of its few non-polynomial atoms, so ``N - pos(N - 5)`` (a `min`) is bounded by 5
although its terms, taken one by one, are not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import ceil, floor

from .core import Atom, Dim, Monomial

Interval = tuple[int | None, int | None]


class Known(dict[str, Interval]):
    """Intervals of symbols by name, with a memo of what follows from them; `forget` after a change."""

    def __init__(self, intervals: Mapping[str, Interval] = {}) -> None:
        super().__init__(intervals)
        self.memo: dict[Dim | Atom, Interval] = {}

    def forget(self) -> None:
        """The intervals have changed."""
        self.memo.clear()


#: a linear form over monomials, with rational coefficients; () is the constant
Form = dict[Monomial, Fraction | int]

_NOTHING = Known()
_BRANCHINGS = 3  # atoms relaxed per bound; each doubles the work


def bounds(dim: Dim, known: Known = _NOTHING) -> Interval:
    """``(lo, hi)`` of `dim`, None where unbounded."""
    if not dim.terms:
        return dim.const, dim.const
    if not known or dim.free.isdisjoint(known):
        if dim.bounds_memo is None:
            dim.bounds_memo = _bounds(dim, _NOTHING)
        return dim.bounds_memo
    found = known.memo.get(dim)
    if found is None:
        found = known.memo[dim] = _bounds(dim, known)
    return found


def _bounds(dim: Dim, known: Known) -> Interval:
    plain = _interval_of(dict(dim.terms), dim.const, known)
    relaxable = [m[0] for m, _ in dim.terms if len(m) == 1 and m[0].kind in ("//", "pos")]
    if not relaxable or len(dim.terms) == 1:
        return _rounded(plain)
    form: Form = {**dict(dim.terms), (): dim.const}
    chosen = relaxable[-_BRANCHINGS:]
    lo = _best(form, chosen, known, 1)
    hi = _best(form, chosen, known, -1)
    return _rounded((_max(plain[0], lo), _min(plain[1], None if hi is None else -hi)))


def _rounded(interval: tuple[Fraction | int | None, Fraction | int | None]) -> Interval:
    lo, hi = interval
    return (None if lo is None else ceil(lo)), (None if hi is None else floor(hi))


def _max(a: Fraction | int | None, b: Fraction | int | None) -> Fraction | int | None:
    return b if a is None else a if b is None else max(a, b)


def _min(a: Fraction | int | None, b: Fraction | int | None) -> Fraction | int | None:
    return b if a is None else a if b is None else min(a, b)


def _interval_of(
    terms: Mapping[Monomial, Fraction | int], const: Fraction | int, known: Known
) -> tuple[Fraction | int | None, Fraction | int | None]:
    lo: Fraction | int | None = const
    hi: Fraction | int | None = const
    for mono, c in terms.items():
        if not mono or not c:
            continue
        a, b = _monomial(mono, known)
        if c < 0:
            a, b = b, a
        lo = None if lo is None or a is None else lo + a * c
        hi = None if hi is None or b is None else hi + b * c
        if lo is None and hi is None:
            break
    return lo, hi


def _best(form: Form, atoms: list[Atom], known: Known, side: int) -> Fraction | int | None:
    """Best lower bound of ``side * form``."""
    signed = form if side > 0 else {m: -c for m, c in form.items()}
    return _lower(signed, atoms, known)


def _lower(form: Form, atoms: list[Atom], known: Known) -> Fraction | int | None:
    if not atoms:
        return _interval_of(form, form.get((), 0), known)[0]
    atom, rest = atoms[0], atoms[1:]
    c = form.get((atom,), 0)
    best = _lower(form, rest, known)
    if not c:
        return best
    outcomes = [_lower(new, rest, known) for new in _relaxed(form, atom, c)]
    if atom.kind == "pos" and c < 0:  # pos is 0 or x: both cases must satisfy the bound
        a, b = outcomes
        case = None if a is None or b is None else min(a, b)
        return _max(best, case)
    for value in outcomes:
        best = _max(best, value)
    return best


def _relaxed(form: Form, atom: Atom, c: Fraction | int) -> list[Form]:
    """Forms that are at most `form` (for a negative pos: the forms of its two cases)."""
    if atom.kind == "pos":
        return [_replace(form, atom, {}), _replace(form, atom, _as_form(atom.args[0], 1))]
    n, d = atom.args
    if d.terms:
        return []
    k = d.const
    shift = Fraction(-(k - 1), k) if c > 0 else 0  # (n - k + 1)/k <= n//k <= n/k
    new = _as_form(n, Fraction(1, k))
    new[()] = new.get((), 0) + shift
    return [_replace(form, atom, new)]


def _as_form(dim: Dim, factor: Fraction | int) -> Form:
    out: Form = {m: c * factor for m, c in dim.terms}
    out[()] = dim.const * factor
    return out


def _replace(form: Form, atom: Atom, by: Form) -> Form:
    out = dict(form)
    c = out.pop((atom,))
    for mono, k in by.items():
        out[mono] = out.get(mono, 0) + c * k
    return out


def _monomial(mono: Monomial, known: Known) -> Interval:
    if len(mono) == 1:
        return atom_bounds(mono[0], known)
    lo, hi = atom_bounds(mono[0], known)
    even = 1
    for i in range(1, len(mono)):
        if mono[i] is mono[i - 1]:
            even += 1
        lo, hi = _times((lo, hi), atom_bounds(mono[i], known))
    if even == len(mono) and even % 2 == 0 and (lo is None or lo < 0):
        lo = 0  # a square
    return lo, hi


def _times(x: Interval, y: Interval) -> Interval:
    (a, b), (c, d) = x, y
    if a is not None and a >= 0 and c is not None and c >= 0:
        top = 0 if b == 0 or d == 0 else None if b is None or d is None else b * d
        return a * c, top
    if a is None or b is None or c is None or d is None:
        return None, None
    corners = (a * c, a * d, b * c, b * d)
    return min(corners), max(corners)


def atom_bounds(atom: Atom, known: Known = _NOTHING) -> Interval:
    """Bounds of one atom."""
    if atom.kind == "sym":
        lo = atom.args[1]
        if known:
            k = known.get(atom.args[0])
            if k is not None:
                return (k[0] if lo is None else lo if k[0] is None else max(lo, k[0])), k[1]
        return lo, None
    if known and not atom.free.isdisjoint(known):
        found = known.memo.get(atom)
        if found is None:
            found = known.memo[atom] = _compound(atom, lambda d: bounds(d, known))
        return found
    if atom.bounds_memo is None:
        atom.bounds_memo = _compound(atom, Dim.bounds)
    return atom.bounds_memo


def _compound(atom: Atom, of: Callable[[Dim], Interval]) -> Interval:
    kind = atom.kind
    if kind == "pos":
        lo, hi = of(atom.args[0])
        return max(lo or 0, 0), None if hi is None else max(hi, 0)
    if kind == "//":
        return _quotient(of(atom.args[0]), of(atom.args[1]))
    if kind == "ite":
        return _hull(of(atom.args[1]), of(atom.args[2]))
    each = [of(a) for a in atom.args]  # broadcast
    lows = [lo for lo, _ in each]
    highs = [hi for _, hi in each]
    lo = None if None in lows else min(x for x in lows if x is not None)
    hi = None if None in highs else max(x for x in highs if x is not None)
    return lo, hi


def _hull(x: Interval, y: Interval) -> Interval:
    lo = None if x[0] is None or y[0] is None else min(x[0], y[0])
    hi = None if x[1] is None or y[1] is None else max(x[1], y[1])
    return lo, hi


def _quotient(n: Interval, d: Interval) -> Interval:
    """Bounds of n // d; d is never 0 where the value is defined."""
    dlo = max(d[0], 1) if d[0] is not None and d[0] >= 0 else d[0]
    if dlo is None or dlo < 1:
        return None, None
    dhi = None if d[1] is None else max(d[1], dlo)
    lo, hi = n
    low = None if lo is None else lo // dlo if lo < 0 else 0 if dhi is None else lo // dhi
    high = None if hi is None else hi // dlo if hi >= 0 else -1 if dhi is None else hi // dhi
    return low, high
