"""Conditions by which sizes are 0: ``batch == 0 or height >= 1`` for what only empty inputs break.

Such a condition is often long, since a 0 in a shape that is computed copies an axis, or leaves nothing to divide. For each
choice of the sizes that are 0, the facts say what is left of the condition: nothing, mostly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from ..expr import FALSE, TRUE, Cond, Dim, all_of, any_of, eq, ge
from ..expr.cond import symbols_in
from ..expr.traverse import atoms_of
from ..propagate.facts import Facts

#: names of which all choices are tried, and the sizes of conditions for which that is worth it
_MOST_NAMES, _LEAST, _LARGEST = 3, 40, 1_000

Empty = frozenset[str]


def by_emptiness(cond: Cond, least: int = _LEAST) -> Cond:
    """The same condition in terms of which sizes are 0, where that is much shorter; else itself."""
    symbols = symbols_in(cond)
    if not (least <= cond.size <= _LARGEST and 1 <= len(symbols) <= _MOST_NAMES and _is_followed(cond)):
        return cond
    broken: list[Empty] = []
    clauses: list[Cond] = []
    for empty in _choices(sorted(symbols)):
        left = _left(cond, empty)
        if left is None:
            return cond
        if left.is_false:
            broken.append(empty)
        elif not left.is_true:
            clauses.append(any_of((*_unless(empty, frozenset(symbols) - empty, symbols), left)))
    for zero, present in _cases(broken, frozenset(symbols)):
        clauses.append(any_of(_unless(zero, present, symbols)))
    found = all_of(clauses)
    return found if 2 * found.size <= cond.size else cond


def always_equal(a: Dim, b: Dim) -> bool:
    """Are two sizes shown to be the same, whichever sizes are 0?"""
    return by_emptiness(eq(a, b), 0).is_true


def _is_followed(cond: Cond) -> bool:
    """Does it choose between sizes, and has it a value wherever these are at least 0?"""
    atoms = list(atoms_of(cond))
    sizes = all(a.args[1] is not None and a.args[1] >= 0 for a in atoms if a.kind == "sym")
    undefined = any(a.kind == "broadcast" or (a.kind == "//" and a.args[1].terms) for a in atoms)
    return sizes and not undefined and any(a.kind == "ite" for a in atoms)


def _choices(names: Sequence[str]) -> Iterator[Empty]:
    for k in range(len(names) + 1):
        yield from map(frozenset, combinations(names, k))


def _left(cond: Cond, empty: Empty) -> Cond | None:
    """What is left of it where these sizes and no others are 0; None where it has no value there."""
    try:
        left = cond.subs(dict.fromkeys(empty, 0))
    except ZeroDivisionError:
        return None
    facts = Facts()
    for i, (name, size) in enumerate(sorted(symbols_in(left).items())):
        facts.introduce(name)
        facts.assume(ge(size, 1), i)
    decided = facts.decide(left)
    return facts.cond(left) if decided is None else TRUE if decided else FALSE


def _unless(zero: Empty, present: Empty, symbols: dict[str, Dim]) -> Iterator[Cond]:
    """That not just these sizes are 0 and those are not."""
    yield from (ge(symbols[n], 1) for n in sorted(zero))
    yield from (eq(symbols[n], 0) for n in sorted(present))


def _cases(broken: Sequence[Empty], names: Empty) -> Iterator[tuple[Empty, Empty]]:
    """Choices that break it as few cases: sizes that are 0 there, and sizes that are not, whatever the others are."""
    seen, covered = set(broken), set[Empty]()
    for empty in broken:
        if empty in covered:
            continue
        zero, present = set(empty), set(names - empty)
        for name in sorted(names):
            side = zero if name in zero else present
            side.discard(name)
            if not seen.issuperset(_within(zero, present, names)):
                side.add(name)
        covered.update(_within(zero, present, names))
        yield frozenset(zero), frozenset(present)


def _within(zero: set[str], present: set[str], names: Empty) -> Iterator[Empty]:
    for more in _choices(sorted(names - zero - present)):
        yield frozenset(zero) | more


__all__ = ["always_equal", "by_emptiness"]
