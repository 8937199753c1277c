"""Groups of sizes that are broadcast together: all equal, or 1.

A sum of many inputs broadcasts each of them against what was summed before. Written pair by pair, its conditions grow with the
square of their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..expr import Cond, Dim, any_of, broadcast, eq, of_atom
from ..expr.traverse import atoms_of
from ..lines import join_names
from .facts.budget import MAX_LISTED

#: dims that broadcast with each other
Group = frozenset[Dim]


def pair_of(cond: Cond) -> tuple[Dim, Dim] | None:
    """The two dims of which a condition says that they broadcast: equal, or one of them 1. None for other conditions."""
    if cond.kind != "or" or len(cond.args) != 3 or any(c.kind != "==" for c in cond.args):
        return None
    dims = [d for d in (_is_one(c.args[0]) for c in cond.args) if d is not None]
    return (dims[0], dims[1]) if len(dims) == 2 and eq(*dims) in cond.args else None


def members(dim: Dim) -> Group | None:
    """The symbols of which a dim is the broadcast; None for other dims."""
    atom = dim.atom
    if atom is None:
        return None
    if atom.kind == "sym":
        return frozenset((dim,))
    if atom.kind != "broadcast" or any(d.name is None for d in atom.args):
        return None
    return frozenset(atom.args)


def grouped(pairs: Iterable[tuple[Dim, Dim]]) -> list[Group]:
    """Groups of at least `MAX_LISTED` dims that broadcast with each other if all pairs, in graph order, do.

    A pair of two broadcasts joins their members only if each broadcast is already known to be legal.
    """
    groups: list[Group] = []
    for pair in pairs:
        first, second = map(members, pair)
        if first is None or second is None:
            continue
        if all(len(part) == 1 or any(part <= g for g in groups) for part in (first, second)):
            joined = first | second
            if not any(joined <= g for g in groups):
                groups = [g for g in groups if not g <= joined] + [joined]
    return [g for g in groups if len(g) >= MAX_LISTED]


def group_of(pair: tuple[Dim, Dim] | None, groups: Iterable[Group]) -> Group | None:
    """The group that holds both dims of a pair, if any."""
    first, second = (None, None) if pair is None else map(members, pair)
    if first is None or second is None:
        return None
    return next((g for g in groups if first | second <= g), None)


def by_groups(conds: Mapping[Cond, frozenset[int]]) -> dict[Cond, frozenset[int]]:
    """The conditions, with those inside of a group replaced by one for each member: it is 1, or the broadcast of all."""
    pairs = {c: pair_of(c) for c in conds}
    groups = grouped(pair for pair in pairs.values() if pair is not None)
    if not groups:
        return dict(conds)
    found: dict[Cond, frozenset[int]] = {}
    numbers: dict[Group, frozenset[int]] = {}
    for cond, own in conds.items():
        group = group_of(pairs[cond], groups)
        if group is None:
            found[cond] = own
        else:
            numbers[group] = numbers.get(group, frozenset()) | own
    for group, own in numbers.items():
        for cond in conditions(group):
            found[cond] = found.get(cond, frozenset()) | own
    return found


def conditions(group: Group) -> list[Cond]:
    """A condition for each member of a group: it is 1, or the broadcast of all."""
    dims = sorted(group, key=str)
    whole = broadcast(*dims)
    return [any_of((eq(d, 1), eq(d, whole))) for d in dims]


def stated_by(cond: Cond) -> Group | None:
    """The group of which a condition of `conditions` states one member; None for other conditions."""
    if cond.kind != "or" or len(cond.args) != 2:
        return None
    one = next((d for d in (_is_one(c.args[0]) for c in cond.args if c.kind == "==") if d is not None), None)
    wholes = (a for a in atoms_of(cond) if a.kind == "broadcast")
    group = next((members(of_atom(a)) for a in wholes), None)
    if one is None or group is None or one not in group:
        return None
    return group if cond is any_of((eq(one, 1), eq(one, broadcast(*sorted(group, key=str))))) else None


def text_of(group: Group, most: int) -> str:
    """`d0, d1, ... and 17 more are equal, or 1`."""
    return f"{join_names(sorted(map(str, group)), most)} are all equal, or 1"


def _is_one(difference: Dim) -> Dim | None:
    """The single atom that is 1 if `difference` is 0."""
    if len(difference.terms) != 1:
        return None
    (mono, c), const = difference.terms[0], difference.const
    return of_atom(mono[0]) if len(mono) == 1 and c * const == -1 else None


__all__ = [
    "Group",
    "by_groups",
    "conditions",
    "group_of",
    "grouped",
    "members",
    "pair_of",
    "stated_by",
    "text_of",
]
