"""Classes of dims that are provably equal across tensors. Also classes of tensors with provably equal byte size."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, overload

from ..expr import Dim, Shape, eq
from .cone_of_influence import by_symbol, cone, nearby
from .engine import Engine
from .facts import budget
from .facts.facts import Facts
from .facts.residual import Residue
from .search import Contradiction, Model, find_model

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Equality:
    """Dims that are equal for every input; the first is the form used in shapes."""

    members: tuple[Dim, ...]

    def __str__(self) -> str:
        """``total == past + seq``: names before expressions."""
        if len(self.members) == 2:
            return str(eq(*self.members))
        names = [m for m in self.members if m.name is not None]
        rest = [m for m in self.members if m.name is None]
        return " == ".join(map(str, (*names, *rest)))


class Equalities(Sequence[Equality]):
    """Classes of provably equal dims, in a stable order; `same_bytes` has those of whole tensors."""

    def __init__(
        self, classes: Sequence[Equality], same_bytes: Callable[[], tuple[tuple[str, ...], ...]]
    ) -> None:
        self._classes = tuple(classes)
        self._same_bytes = same_bytes
        self._sizes: tuple[tuple[str, ...], ...] | None = None

    @overload
    def __getitem__(self, index: int) -> Equality: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Equality]: ...
    def __getitem__(self, index: int | slice) -> Equality | Sequence[Equality]:
        return self._classes[index]

    def __len__(self) -> int:
        return len(self._classes)

    @property
    def same_bytes(self) -> tuple[tuple[str, ...], ...]:
        """Classes of tensors that take the same number of bytes for every input (found at first use)."""
        if self._sizes is None:
            self._sizes = self._same_bytes()
        return self._sizes

    def __str__(self) -> str:
        return ", ".join(map(str, self._classes))

    def __repr__(self) -> str:
        return f"Equalities({self})"


def find_equalities(
    shapes: Mapping[str, Shape], item_sizes: Mapping[str, int], facts: Facts, rlimit: int = budget.RLIMIT
) -> Equalities:
    """The equalities among the dims of all tensors, and among the byte sizes of those with an item size."""
    residue = Residue(facts)
    engine = Engine(rlimit, certain=residue.certain)
    dims = {d: None for shape in shapes.values() for d in shape}
    sized = {name: (shapes[name], size) for name, size in item_sizes.items() if name in shapes}
    return Equalities(equal_dims(residue, dims, engine), lambda: equal_sizes(residue, sized, engine))


def equal_dims(residue: Residue, dims: Iterable[Dim], engine: Engine) -> tuple[Equality, ...]:
    """The classes with more than one member among named symbols and these dims. The dims are of all tensors; the order is
    stable.

    What the facts settled is in the substitution. Beyond that, dims that agree at the sizes of a few models
    are compared by proof.
    """
    facts = residue.facts
    classes: dict[Dim, dict[Dim, None]] = {}
    for name in facts.substitution:
        known = facts.symbols[name]
        if not known.is_made:
            to = facts.dim(known)
            classes.setdefault(to, {to: None})[known] = None
    seen = {facts.dim(d): None for d in dims if d.terms}
    for d in seen:
        classes.setdefault(d, {d: None})
    _merge(classes, _alike(list(seen), residue), residue, engine)
    found = [Equality(tuple(c)) for c in classes.values() if len(c) > 1]
    return tuple(sorted(found, key=lambda e: [m.order for m in e.members]))


def equal_sizes(
    residue: Residue, tensors: Mapping[K, tuple[Shape, int]], engine: Engine
) -> tuple[tuple[K, ...], ...]:
    """The classes (of more than one) of tensors that take provably the same number of bytes. Given: shapes, item sizes."""
    facts = residue.facts
    by_size: dict[Dim, dict[Dim, None]] = {}
    owners: dict[Dim, list[K]] = {}
    for key, (shape, item_size) in tensors.items():
        size = facts.dim(shape.numel * item_size)
        owners.setdefault(size, []).append(key)
        by_size.setdefault(size, {size: None})
    symbolic = [size for size in by_size if size.terms]
    _merge(by_size, _alike(symbolic, residue), residue, engine)
    classes = (tuple(k for size in sizes for k in owners[size]) for sizes in by_size.values())
    return tuple(c for c in classes if len(c) > 1)


def _alike(dims: Sequence[Dim], residue: Residue) -> list[list[Dim]]:
    """Groups of different dims that are equal at sample sizes: candidates for a proof."""
    conds = [c for c in residue.conds if c.free]
    names = sorted(set().union(*(d.free for d in dims), *(c.free for c in conds)))
    linked = {n for c in conds for n in c.free}
    try:
        model: Model | None = find_model(cone(linked, conds)) if conds else {}
    except Contradiction:
        return []
    base = model or {}
    probes = []
    for k in range(4):  # symbols that no condition links take any size
        probes.append(
            {n: base[n] if n in base else 2 + (i * 7 + k * 11) % 23 + k for i, n in enumerate(names)}
        )
    groups: dict[tuple[int | None, ...], list[Dim]] = {}
    for d in dims:
        groups.setdefault(tuple(d.evaluate(p) for p in probes), []).append(d)
    return [g for g in groups.values() if len(g) > 1]


def _merge(
    classes: dict[Dim, dict[Dim, None]], groups: Iterable[Sequence[Dim]], residue: Residue, engine: Engine
) -> None:
    queries, links = 0, by_symbol(residue.conds)
    for group in groups:
        kept: list[Dim] = []
        for d in sorted(group, key=lambda d: d.order):
            for other in kept:
                if queries >= budget.MAX_QUERIES or engine.is_spent:
                    return
                queries += 1
                goal = residue.facts.cond(eq(d, other))
                given = nearby(d.free | other.free, links)
                if engine.entails(goal, given, cheap=True).proved:
                    classes[other].update(classes.pop(d))
                    break
            else:
                kept.append(d)
