"""Forms of one condition that need no proof, and which conditions are worth a search for a shorter one."""

from __future__ import annotations

from functools import partial

from ...expr import (
    Atom,
    Cond,
    Dim,
    DimTooLarge,
    all_of,
    any_of,
    constant,
    eq,
    ge,
    ne,
    of_atom,
    rebuild,
)
from ...expr.canonical import common_factor, never_one, without
from ...expr.plain import is_plain
from ...expr.traverse import atoms_of
from ..facts import budget
from ..groups import pair_of
from .cost import cost, is_small


def is_worked_on(cond: Cond) -> bool:
    """True if a condition is long enough, and not too long, to look for a shorter form. The condition is hard to read,
    and not too large.
    """
    return cond.size <= budget.MAX_READ and not is_short(cond) and is_small(cond)


def is_short(cond: Cond) -> bool:
    """Return True if a condition is short enough to be kept: at most one operator between any two of its symbols.

    A division by a quotient, as in `h % (h//4)`, is not.
    """
    plain = is_plain(cond) and cost(cond).operators <= max(3, len(cond.free))
    quotients = [a for a in atoms_of(cond) if a.kind == "//"] if plain else []
    divisors = (a.args[1] for a in quotients)
    return plain and not any(a.kind == "//" for d in divisors for mono, _ in d.terms for a in mono)


def by_choices(cond: Cond) -> Cond:
    """Return the condition with an if-then-else inside it moved to the top: `(c or f(b)) and (~c or f(a))` for `f(a if c
    else b)`.

    `broadcast(a, b)` is `b if a == 1 else a`. A condition without choices, or with more than one, is returned
    unchanged.
    """
    chosen = [a for a in atoms_of(cond) if a.kind in ("ite", "broadcast", "pos")]
    if len(chosen) != 1 or cond.kind == "and":
        return cond
    atom = chosen[0]
    if atom.kind == "ite":
        test, a, b = atom.args
    elif atom.kind == "pos":
        test, a, b = ge(atom.args[0], 0), atom.args[0], constant(0)
    elif len(atom.args) == 2:
        test, a, b = ne(atom.args[0], 1), atom.args[0], atom.args[1]
    else:
        return cond
    try:
        first, second = (cond.map_dims(partial(_with, atom=atom, to=to)) for to in (a, b))
    except (ZeroDivisionError, DimTooLarge):
        return cond
    if atom in atoms_of(first, second):
        return cond
    return all_of((any_of((~test, first)), any_of((test, second))))


def by_members(cond: Cond) -> Cond:
    """Equations of a broadcast as equations of its members: `a == 1 or a == b` for `broadcast(a, b) == b`.

    Both hold at the same sizes wherever the members broadcast. That a broadcast fits another size stays: `groups` says it.
    """
    if pair_of(cond) is not None:
        return cond
    if cond.kind in ("and", "or"):
        return (all_of if cond.kind == "and" else any_of)(map(by_members, cond.args))
    for mono, sign in cond.args[0].terms if cond.kind == "==" else ():
        if len(mono) != 1 or mono[0].kind != "broadcast" or abs(sign) != 1:
            continue
        dims, size = mono[0].args, of_atom(mono[0]) - cond.args[0].scale(sign)
        if size in dims:
            return all_of(any_of((eq(d, 1), eq(d, size))) for d in dims if d is not size)
        some = any_of(eq(d, size) for d in dims)
        if never_one(size):
            return some
        if len(dims) == 2:
            return all_of((*(any_of((eq(d, 1), eq(d, size))) for d in dims), some))
    return cond


def by_factors(cond: Cond) -> Cond:
    """Drops sizes that are factors of all terms from relations with 0. It is ``n == 0 or k == 6`` for ``n*k == 6*n``."""
    if cond.kind in ("and", "or"):
        return (all_of if cond.kind == "and" else any_of)(map(by_factors, cond.args))
    if not cond.args or cond.args[0].const or len(cond.args[0].terms) < 2:
        return cond
    sizes = tuple(
        a
        for a in common_factor(cond.args[0])
        if a.kind == "sym" and (a.args[1] if a.args[1] is not None else -1) >= 0
    )
    if not sizes:
        return cond
    left = related(cond.kind, without(cond.args[0], sizes))
    zero = [eq(of_atom(a), 0) for a in dict.fromkeys(sizes)]
    return all_of((left, *(~c for c in zero))) if cond.kind == "!=" else any_of((*zero, left))


def related(kind: str, d: Dim) -> Cond:
    """The relation of this kind between `d` and 0."""
    return eq(d, 0) if kind == "==" else ne(d, 0) if kind == "!=" else ge(d, 0)


def _with(d: Dim, atom: Atom, to: Dim) -> Dim:
    """`d` with one atom replaced in its terms and numerators."""

    def replaced(a: Atom) -> Dim:
        if a is atom:
            return to
        if a.kind == "//":
            return rebuild(a.args[0], replaced) // rebuild(a.args[1], replaced)
        return of_atom(a)

    return rebuild(d, replaced)
