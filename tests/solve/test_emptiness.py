"""Conditions by which sizes are 0, against the conditions themselves at all small sizes."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from shapesolve.expr import Cond, all_of, any_of, constant, eq, ite, parse_cond, parse_dim, symbol
from shapesolve.solve.emptiness import always_equal, by_emptiness

from .building import random_cond

NAMES = "abc"
SIZES = (0, 1, 2, 6, 7, 8, 13, 14, 15)


def random_choice(random: Random) -> Cond:
    """What a computed shape requires, in which a 0 copies an axis."""
    sizes = [symbol(n) for n in NAMES]
    copied = [
        ite(eq((s + 6) // 7, 0), constant(random.choice((7, 16, 49))), (s + 6) // 7)
        for s in random.sample(sizes, 2)
    ]
    same = eq(copied[0] * copied[1] * 7, ((sizes[0] + 6) // 7) * ((sizes[1] + 6) // 7) * 7)
    parts = [same, random_cond(random, NAMES), any_of((eq(sizes[2], 0), same))]
    return (all_of if random.random() < 0.5 else any_of)(random.sample(parts, random.choice((1, 2, 3))))


@pytest.mark.parametrize("seed", range(60))
def test_the_form_says_the_same_at_every_size(seed: int) -> None:
    cond = random_choice(Random(seed))
    found = by_emptiness(cond, 0)
    for sizes in product(SIZES, repeat=len(NAMES)):
        at = dict(zip(NAMES, sizes, strict=True))
        if cond.evaluate(at) is not None:
            assert found.evaluate(at) is cond.evaluate(at), (cond, found, at)


def test_what_only_empty_inputs_break_is_short() -> None:
    rows = "((49 if h == 0 and (w + 6)//7 == 0 else (h + 6)//7) if (h + 6)//7 == 0 else (h + 6)//7)"
    cond = parse_cond(f"{rows}*(16 if w == 0 else (w + 6)//7) == ((h + 6)//7)*((w + 6)//7) or b == 0")
    found = by_emptiness(cond, 0)
    assert found is not cond
    for b, h, w in product(range(9), repeat=3):
        assert found.evaluate({"b": b, "h": h, "w": w}) is cond.evaluate({"b": b, "h": h, "w": w})


def test_sizes_that_are_equal_for_empty_inputs_too() -> None:
    padded = parse_dim("min((49 if h == 0 and w == 0 else 7*((h + 6)//7)), h)")
    assert always_equal(padded, parse_dim("h"))
    assert not always_equal(parse_dim("(49 if h == 0 and w == 0 else 7*((h + 6)//7))"), parse_dim("h"))
