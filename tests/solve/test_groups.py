"""Sizes that are broadcast together: their conditions as one group are those of all pairs."""

from __future__ import annotations

from itertools import pairwise, product
from random import Random

import pytest

from shapesolve.expr import Dim, all_of, any_of, broadcast, eq, symbol
from shapesolve.solve.groups import by_groups, conditions, grouped, pair_of, stated_by, text_of

from ..building import EVERYTHING


def compatible(a: Dim, b: Dim):
    return any_of((eq(a, b), eq(a, 1), eq(b, 1)))


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_a_group_is_all_of_its_pairs(count: int) -> None:
    dims = [symbol(n) for n in "abcde"[:count]]
    pairs = all_of(compatible(a, b) for i, a in enumerate(dims) for b in dims[i + 1 :])
    group = all_of(conditions(frozenset(dims)))
    for sizes in product(range(4), repeat=count):
        point = dict(zip("abcde", sizes))
        assert pairs.evaluate(point) is group.evaluate(point), point


@pytest.mark.parametrize("seed", range(30 if EVERYTHING else 5))
def test_conditions_by_groups_hold_at_the_same_sizes(seed: int) -> None:
    random = Random(seed)
    names = "abcdef"
    dims, conds, sums = {n: symbol(n) for n in names}, {}, []
    for _ in range(random.randint(2, 4)):  # sums of inputs, each a chain of broadcasts, then their sum
        chain = random.sample(names, random.randint(2, 5))
        total = dims[chain[0]]
        for n in chain[1:]:
            conds[compatible(total, dims[n])] = frozenset((len(conds),))
            total = broadcast(total, dims[n])
        sums.append(total)
    for a, b in pairwise(sums):
        if random.random() < 0.7 and not compatible(a, b).is_true:
            conds[compatible(a, b)] = frozenset((len(conds),))
    conds[eq(dims["a"] % 2, 0)] = frozenset((99,))
    made = by_groups(conds)
    assert frozenset().union(*made.values()) <= frozenset().union(*conds.values())
    for sizes in product((0, 1, 2, 3), repeat=len(names)):
        point = dict(zip(names, sizes))
        before = [c.evaluate(point) for c in conds]
        after = [c.evaluate(point) for c in made]
        assert (False in before) == (False in after), point


def test_pairs_are_read_and_groups_are_told() -> None:
    a, b, c, d = map(symbol, "abcd")
    assert set(pair_of(compatible(a, b)) or ()) == {a, b}
    assert pair_of(any_of((eq(a, b), eq(a, 1)))) is None
    chain = [(a, b), (broadcast(a, b), c), (broadcast(a, b, c), d)]
    (group,) = grouped(chain)
    assert group == {a, b, c, d}
    assert grouped(chain[:2]) == []
    assert grouped([(broadcast(a, b), broadcast(c, d))]) == []  # neither is known to be legal
    assert all(stated_by(cond) == group for cond in conditions(group))
    assert text_of(group, 2) == "a, b, and 2 more are all equal, or 1"
