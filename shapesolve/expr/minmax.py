# compiled: see CONTRIBUTING.md
"""max, min, broadcast and choice in canonical form."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

from .atom import make_atom
from .core import ONE, ZERO, Dim, IntoDim, as_dim, constant, make_dim, of_atom

if TYPE_CHECKING:
    from .cond import Cond


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
    """pos of an `x` with positive leading term; pos(y - pos(y - k)) stays as it is written."""
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


def sign(x: Dim) -> Dim:
    """-1, 0 or 1."""
    from .cond import eq, ge

    if x.lo is not None and x.lo >= 1:
        return ONE
    if x.hi is not None and x.hi <= -1:
        return constant(-1)
    return ite(ge(x, 1), ONE, ite(eq(x, 0), ZERO, constant(-1)))


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
    """Is `d` a choice between 1 and `other`, so that it broadcasts to it whatever the sizes are?"""
    return _beside_one(d) is other


def _beside_one(d: Dim) -> Dim | None:
    """The size of a choice between it and 1."""
    atom = d.atom
    if atom is None or atom.kind != "ite" or ONE not in atom.args[1:]:
        return None
    other: Dim = atom.args[1] if atom.args[2] is ONE else atom.args[2]
    return other


def never_one(d: Dim) -> bool:
    """Is `d` different from 1 whatever the sizes are?"""
    if d.value is not None:
        return d.const != 1
    lo, hi = d.bounds()
    if (lo is not None and lo > 1) or (hi is not None and hi < 1):
        return True
    g = gcd(*(c for _, c in d.terms))
    return g > 1 and (d.const - 1) % g != 0


def ite(cond: Cond, a: Dim, b: Dim) -> Dim:
    """``a if cond else b``."""
    if cond.is_true or a is b:
        return a
    if cond.is_false:
        return b
    solved = cond.solved()
    if solved is not None:  # where the condition fixes a symbol, `a` may be the same as `b` there
        fixed = dict([solved])
        try:
            same = b.subs(fixed) is a.subs(fixed)
        except ZeroDivisionError:  # ite(d == 0, a, n // d)
            same = False
        if same:
            return b if cond.kind == "==" else a
    return of_atom(make_atom("ite", cond, a, b))
