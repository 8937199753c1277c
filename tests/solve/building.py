"""Constraint systems from texts: ``"H % 32 == 0"``, ``"s % 2 == 0 if b == 3"``, ``"user: H >= 5"``."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from shapesolve.expr import (
    TRUE,
    Cond,
    Dim,
    all_of,
    any_of,
    broadcast,
    constant,
    divides,
    eq,
    ge,
    le,
    maximum,
    minimum,
    ne,
    parse_cond,
    symbol,
)
from shapesolve.solve.cone_of_influence import legal_broadcasts
from shapesolve.solve.facts.constraint import Constraint, Origin
from shapesolve.solve.facts.facts import Facts
from shapesolve.solve.facts.log import ConstraintSet, need

#: symbols that an analysis made, as texts call them here
OURS = {f"_d{i}": symbol(f"_d{i}", made=True) for i in range(4)}


class System(NamedTuple):
    """Constraints, and the facts that learned them in order (until one contradicted them)."""

    constraints: ConstraintSet
    facts: Facts
    clash: int | None

    @property
    def needs(self) -> list[Cond]:
        return [need(c) for c in self.constraints]


def system(*texts: str | Cond, inputs: str = "") -> System:
    """The system of some conditions; constraint ``i`` is stated by node ``/n<i>``."""
    rows = []
    for i, text in enumerate(texts):
        role, guard = "requirement", TRUE
        if isinstance(text, str):
            head, colon, rest = text.partition(": ")
            if colon:
                role, text = head, rest
            text, _, condition = text.partition(" if ")
            guard = parse_cond(condition, OURS) if condition else TRUE
            text = parse_cond(text, OURS)
        node = f"/n{i}" if role in ("requirement", "definition") else ""
        rows.append(Constraint(text, role, Origin(node, "Op", f"rule {i}"), guard))  # type: ignore[arg-type]
    facts, clash = Facts(), None
    for name in inputs.split():
        facts.introduce(name)
    for i, row in enumerate(rows):
        if clash is None and not facts.assume(need(row), i):
            clash = i
    return System(ConstraintSet(rows), facts, clash)


def random_dim(random: Random, names: str, depth: int = 1) -> Dim:
    """A dim like those of real models, over the symbols `names`."""
    if depth == 0 or random.random() < 0.3:
        return symbol(random.choice(names)) if random.random() < 0.75 else constant(random.randint(0, 9))
    a, b = random_dim(random, names, depth - 1), random_dim(random, names, depth - 1)
    k = random.choice((2, 3, 4, 8))
    kind = random.randrange(9)
    if kind < 2:
        return a + b
    if kind == 2:
        return a * k
    if kind == 3:
        return (a + random.randint(0, k)) // k
    if kind == 4:
        return a % k
    if kind == 5:
        return a * b
    if kind == 6:
        return maximum(a - random.randint(0, 3), 0)
    return minimum(a, b) if kind == 7 else broadcast(a, b)


def random_cond(random: Random, names: str) -> Cond:
    """A condition like those that nodes state."""
    a, b = random_dim(random, names, 2), random_dim(random, names, 1)
    kind = random.randrange(10)
    if kind < 3:
        return eq(a, b)
    if kind == 3:
        return any_of((eq(a, b), eq(a, 1), eq(b, 1)))
    if kind == 4:
        return divides(random.choice((2, 3, 4, 6)), a)
    if kind == 5:
        return le(a, random.randint(3, 20))
    if kind == 6:
        return ge(a, random.randint(1, 4))
    if kind == 7:
        return ne(a, random.randint(0, 3))
    if kind == 8:
        return any_of((~eq(symbol(names[0]), 2), eq(a, b)))
    return all_of((ge(a, b), any_of((ge(b, 1), eq(a, 0)))))


def random_system(seed: int, names: str = "abc", most: int = 4) -> System:
    """A system of up to `most` random conditions."""
    random = Random(seed)
    conds = [random_cond(random, names) for _ in range(random.randint(1, most))]
    # nodes always state what makes a broadcast legal
    return system(*legal_broadcasts(conds), *conds, inputs=" ".join(names))
