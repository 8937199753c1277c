"""Plain conditions: linear relations, remainders by constants, and choices of these."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from math import prod
from typing import Literal

from . import Atom, Cond, Dim, eq, ge, of_atom
from .core import make_dim

Kind = Literal["equality", "range", "divisibility", "alternative", "other", "nonempty"]
#: the order in which terms are read out
KINDS: tuple[Kind, ...] = ("equality", "range", "divisibility", "alternative", "other", "nonempty")


def kind_of(cond: Cond) -> Kind:
    """Kind of a condition for a reader: range, divisibility, alternative ..."""
    if cond.kind == "or":
        return "nonempty" if all(kind_of(c) == "nonempty" for c in cond.args) else "alternative"
    if cond.kind == "and":
        kinds = {kind_of(c) for c in cond.args}
        return (
            "range"
            if kinds == {"range"}
            else "divisibility"
            if kinds <= {"range", "divisibility"}
            else "other"
        )
    if not cond.args:
        return "other"
    d = cond.args[0]
    plain = is_polynomial(d)
    if cond.kind == "==":
        return "equality" if plain else "divisibility" if is_divisibility(cond) else "other"
    if is_remainder_bound(cond):
        return "divisibility"
    if cond.kind == ">=" and plain:
        lone = len(d.terms) == 1 and d.terms[0][1] == 1 and len(d.terms[0][0]) == 1
        return "nonempty" if lone and d.const == -1 else "range"
    return "other"


def is_divisibility(cond: Cond) -> bool:
    """True if it states that a remainder by a constant has one value."""
    if cond.kind != "==":
        return False
    quotients = [(mono, c) for mono, c in cond.args[0].terms if any(a.kind != "sym" for a in mono)]
    if len(quotients) != 1 or len(quotients[0][0]) != 1 or quotients[0][0][0].kind != "//":
        return False
    (atom,), c = quotients[0]
    numerator, divisor = atom.args
    rest = cond.args[0].scale(-1 if c > 0 else 1) - numerator
    return divisor.value == abs(c) and all(m == (atom,) for m, _ in rest.terms)


def is_remainder_bound(cond: Cond) -> bool:
    """True if it bounds a remainder by a constant: ``H % 32 <= 3``."""
    if cond.kind != ">=":
        return False
    d = cond.args[0]
    quotients = [(mono[0], c) for mono, c in d.terms if len(mono) == 1 and mono[0].kind == "//"]
    if len(quotients) != 1:
        return False
    ((atom, c),) = quotients
    n, k = atom.args
    if k.terms or abs(c) != k.const or not _is_linear(n):
        return False
    return (d - (n - of_atom(atom).scale(k.const)).scale(-c // k.const)).value is not None


def sides_of(difference: Dim) -> tuple[Dim, Dim]:
    """Sides of ``difference`` compared with 0: positive terms, and negative terms with sign changed."""
    left = make_dim(tuple(t for t in difference.terms if t[1] > 0), max(difference.const, 0))
    right = make_dim(tuple((m, -c) for m, c in difference.terms if c < 0), max(-difference.const, 0))
    return left, right


def is_plain(c: Cond) -> bool:
    """True if it is plain: linear, or a remainder of something linear, or a choice of these."""
    if c.kind in ("and", "or"):
        return all(map(is_plain, c.args))
    if not c.args:
        return True
    if is_remainder_bound(c):
        return True
    if is_divisibility(c):
        atom = next(a for mono, _ in c.args[0].terms for a in mono if a.kind != "sym")
        return not atom.args[0].const and _is_linear(atom.args[0])
    return _is_linear(c.args[0])


def factors_paired(cond: Cond) -> tuple[list[Cond], list[Cond]] | None:
    """Factors of an equation of products, paired: ``a*b == 4*p*q`` as ``a == 2*p`` and ``b == 2*q``. It is valid where
    ``a <= 2*p`` and ``b <= 2*q`` always hold; the conditions are that the factors of one side are not 0. None for a
    condition of another form.
    """
    if cond.kind != "==" or len(cond.args[0].terms) != 2 or cond.args[0].const:
        return None
    (left, c), (right, d) = cond.args[0].terms
    if c * d > 0 or len(left) != len(right) or not 2 <= len(left) <= 3:
        return None
    for order in permutations(right):
        ratios = [_span(g) / _span(f) for f, g in zip(left, order, strict=True)]
        if prod(ratios) != Fraction(-d, c):
            continue
        gaps = [
            of_atom(g).scale(k.numerator) - of_atom(f).scale(k.denominator)
            for f, g, k in zip(left, order, ratios, strict=True)
        ]
        for small, signed in ((left, gaps), (right, [-gap for gap in gaps])):
            if all(gap.lo is not None and gap.lo >= 0 for gap in signed):
                return [eq(gap, 0) for gap in gaps], [ge(of_atom(a), 1) for a in small]
    return None


def _span(atom: Atom) -> Fraction:
    """Growth rate of a quotient: 1/8 for ``(H + 4)//8``."""
    if atom.kind != "//" or atom.args[1].terms or not atom.args[0].terms:
        return Fraction(1)
    return Fraction(atom.args[1].const, abs(atom.args[0].terms[0][1]))


def is_polynomial(d: Dim) -> bool:
    """True if it has only symbols, their products and sums (no ``//``, choice or maximum)."""
    return all(a.kind == "sym" for mono, _ in d.terms for a in mono)


def _is_linear(d: Dim) -> bool:
    return all(len(mono) == 1 and mono[0].kind == "sym" for mono, _ in d.terms)
