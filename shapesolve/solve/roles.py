"""`Roles`: how a model uses its sizes, for ranking accepted sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ..expr import Cond, Dim, Shape, symbol
from ..expr.traverse import atoms_of
from .cone_of_influence import by_symbol


class Roles(NamedTuple):
    """How a model uses its sizes. Roles rank accepted sizes but never decide acceptance.

    Attributes:
        alike: Groups of names with the same role, such as height and width.
        divisors: For each name, the numbers by which some shape divides it.
        usual: Conditions that preferred sizes satisfy.
        batch: Names of batch sizes, which stay 1 if possible.
    """

    alike: tuple[tuple[str, ...], ...] = ()
    divisors: Mapping[str, frozenset[int]] = {}
    usual: tuple[Cond, ...] = ()
    batch: frozenset[str] = frozenset()


NO_ROLES = Roles()


def find_roles(
    conds: Sequence[Cond],
    inputs: Sequence[Shape],
    names: Sequence[str],
    dims: Iterable[Dim],
    usual: tuple[Cond, ...],
) -> Roles:
    """Return the roles of the names of a model with these conditions, input shapes, and sizes of all tensors."""
    batch = frozenset(n for n in names if "batch" in n.lower())
    first = frozenset(d.name for shape in inputs for d in shape[:1] if len(shape) > 1 and d.name)
    groups = dict.fromkeys(tuple(d.name for d in shape[1:] if d.name in names) for shape in inputs)
    alike = [group for found in groups for group in interchangeable([n for n in found if n], conds)]
    return Roles(tuple(alike), divisors_of(dims), usual, batch or first)


def interchangeable(names: Sequence[str], conds: Sequence[Cond]) -> list[tuple[str, ...]]:
    """Return the groups of names that the conditions treat alike: swapping two of them changes nothing."""
    links = by_symbol(conds)
    groups: list[list[str]] = []
    for name in dict.fromkeys(names):
        group = next((g for g in groups if _swapped(g[0], name, links) == _about(g[0], name, links)), None)
        if group is None:
            groups.append([name])
        else:
            group.append(name)
    return [tuple(group) for group in groups if len(group) > 1]


def _about(a: str, b: str, links: Mapping[str, Sequence[Cond]]) -> set[Cond]:
    return {*links.get(a, ()), *links.get(b, ())}


def _swapped(a: str, b: str, links: Mapping[str, Sequence[Cond]]) -> set[Cond]:
    """The conditions about two symbols, with these swapped."""
    return {c.subs({a: symbol(b), b: symbol(a)}) for c in _about(a, b, links)}


def divisors_of(roots: Iterable[Cond | Dim]) -> dict[str, frozenset[int]]:
    """Return the numbers by which conditions or dims divide expressions of each symbol."""
    found: dict[str, set[int]] = {}
    for atom in atoms_of(*roots):
        if atom.kind in ("//", "%") and not atom.args[1].terms:
            for name in atom.args[0].free:
                found.setdefault(name, set()).add(atom.args[1].const)
    return {name: frozenset(numbers) for name, numbers in found.items()}
