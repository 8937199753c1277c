# compiled: see CONTRIBUTING.md
"""Bounds of a dim from its form, or from known intervals of its symbols.

Each non-polynomial atom has linear relaxations (``n//k <= n/k``, ``pos(x) >= x`` ...). A bound of a sum is
the best over the relaxations of its few non-polynomial atoms, so ``N - pos(N - 5)`` (a `min`) is bounded by 5
although its terms, taken one by one, are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .atom import Atom
from .limits import MAX_RELAXED
from .structure import Monomial, Polynomial

Interval = tuple[int | None, int | None]


class Memo(dict[Any, Any]):
    """Cache of results that depend on symbols. `forget` drops the results of symbols that changed."""

    def __init__(self) -> None:
        super().__init__()
        self._by_name: dict[str, list[Any]] = {}

    def keep(self, key: Any, answer: Any, names: Iterable[str]) -> None:
        """Caches the result for `key`, which depends on the symbols `names`."""
        self[key] = answer
        by_name = self._by_name
        for name in names:
            keys = by_name.get(name)
            if keys is None:
                by_name[name] = [key]
            else:
                keys.append(key)

    def forget(self, names: Iterable[str]) -> None:
        """Drops the results that depend on these symbols."""
        for name in names:
            for key in self._by_name.pop(name, ()):
                self.pop(key, None)


class KnownIntervals(dict[str, Interval]):
    """Intervals of symbols by name, with a cache of bounds computed from them."""

    def __init__(self, intervals: Mapping[str, Interval] = {}) -> None:
        super().__init__(intervals)
        self.memo = Memo()

    def forget(self, names: Iterable[str]) -> None:
        """Drops cached bounds that depend on these symbols, after their intervals changed."""
        self.memo.forget(names)


#: a linear form over monomials with integer coefficients, over a common denominator; () is the constant
LinearForm = dict[Monomial, int]

_NOTHING = KnownIntervals()


def bounds(dim: Polynomial, known: KnownIntervals = _NOTHING) -> Interval:
    """Return `(lo, hi)` of `dim`; None means unbounded."""
    if not dim.terms:
        return dim.const, dim.const
    if not known or dim.free.isdisjoint(known):
        if dim.bounds_memo is None:
            dim.bounds_memo = _bounds(dim, _NOTHING)
        return dim.bounds_memo
    found: Interval | None = known.memo.get(dim)
    if found is None:
        found = _bounds(dim, known)
        known.memo.keep(dim, found, dim.free)
    return found


def _bounds(dim: Polynomial, known: KnownIntervals) -> Interval:
    terms, const = dim.terms, dim.const
    if len(terms) == 1:
        mono, c = terms[0]
        lo, hi = _monomial(mono, known)
        if c < 0:
            lo, hi = hi, lo
        return (None if lo is None else lo * c + const), (None if hi is None else hi * c + const)
    form: LinearForm = dict(terms)
    form[()] = const
    opposite = {m: -c for m, c in form.items()}
    down, up = _lowest(form, known), _lowest(opposite, known)
    relaxable = [m[0] for m, _ in terms if len(m) == 1 and m[0].kind in ("//", "pos")]
    if relaxable:
        chosen = relaxable[-MAX_RELAXED:]
        down = _max(down, _lower(form, 1, chosen, known))
        up = _max(up, _lower(opposite, 1, chosen, known))
    return down, (None if up is None else -up)


def _max(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)


def _lowest(form: LinearForm, known: KnownIntervals) -> int | None:
    total = 0
    for mono, c in form.items():
        if not mono:
            total += c
        elif c:
            lo, hi = _monomial(mono, known)
            edge = lo if c > 0 else hi
            if edge is None:
                return None
            total += edge * c
    return total


def _lower(form: LinearForm, den: int, atoms: list[Atom], known: KnownIntervals) -> int | None:
    """Best lower bound, rounded up, of ``form / den`` over relaxations of `atoms`. Rounding keeps the order of bounds."""
    if not atoms:
        low = _lowest(form, known)
        return None if low is None else -(-low // den)
    atom, rest = atoms[0], atoms[1:]
    best = _lower(form, den, rest, known)
    c = form.get((atom,), 0)
    if not c:
        return best
    if atom.kind == "pos":
        zero = _lower(_replace(form, atom, 0, None, 1), den, rest, known)
        same = _lower(_replace(form, atom, c, atom.args[0], 1), den, rest, known)
        if c > 0:
            return _max(_max(best, zero), same)
        # pos is 0 or x: both cases must satisfy the bound
        return best if zero is None or same is None else _max(best, min(zero, same))
    n, d = atom.args
    if d.terms or d.const < 1:
        return best
    k = d.const  # (n - k + 1)/k <= n//k <= n/k
    return _max(best, _lower(_replace(form, atom, c, n, k, k - 1 if c > 0 else 0), den * k, rest, known))


def _replace(
    form: LinearForm, atom: Atom, c: int, by: Polynomial | None, factor: int, less: int = 0
) -> LinearForm:
    """``factor * form`` where the term of `atom` is replaced by ``c * (by - less)``."""
    out = dict(form) if factor == 1 else {m: k * factor for m, k in form.items()}
    del out[(atom,)]
    if by is not None:
        for mono, k in by.terms:
            out[mono] = out.get(mono, 0) + c * k
        out[()] += c * (by.const - less)
    return out


def _monomial(mono: Monomial, known: KnownIntervals) -> Interval:
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


def atom_bounds(atom: Atom, known: KnownIntervals = _NOTHING) -> Interval:
    """Bounds of one atom."""
    if atom.kind == "sym":
        lo = atom.args[1]
        if known:
            k = known.get(atom.args[0])
            if k is not None:
                return (k[0] if lo is None else lo if k[0] is None else max(lo, k[0])), k[1]
        return lo, None
    if known and not atom.free.isdisjoint(known):
        found: Interval | None = known.memo.get(atom)
        if found is None:
            found = _compound(atom, lambda d: bounds(d, known))
            known.memo.keep(atom, found, atom.free)
        return found
    if atom.bounds_memo is None:
        atom.bounds_memo = _compound(atom, bounds)
    return atom.bounds_memo


def _compound(atom: Atom, of: Callable[[Polynomial], Interval]) -> Interval:
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
