"""Deciding without Z3: cases, linear elimination, and tables of one symbol, against evaluation at many sizes."""

from itertools import product
from random import Random

import numpy as np
import pytest

from shapesolve.expr import Dim, all_of, any_of, eq, ge, ite, maximum, ne, parse_cond, symbol
from shapesolve.solve import engine as engine_module
from shapesolve.solve.cases import decide, factor_pairs
from shapesolve.solve.engine import Engine
from shapesolve.solve.facts.facts import Facts
from shapesolve.solve.facts.linear import infeasible
from shapesolve.solve.facts.residual import Residue
from shapesolve.solve.periods import Regular
from shapesolve.solve.search import Contradiction, learned, satisfies
from shapesolve.solve.tables import Table
from tests.building import seeds

# Questions of real contracts: goal, what is given.
WITHOUT_Z3 = [
    (
        "total >= past + seq",
        ["past + seq >= 1", "batch >= 1 and seq >= 1", "batch == 0 or total >= past + seq"],
    ),
    ("H % 2 == 0", ["H == 2*((H + 1)//2)"]),
    ("H <= 31 or H % 32 >= 4", ["H >= 32", "H//8 != (H + 4)//8 or H % 32 >= 4"]),
    ("193 <= H <= 224", ["H >= 161", "W >= 161", "((H + 31)//32)*((W + 31)//32) == 49"]),
    (
        "W >= 193",
        [
            "((H + 31)//32)*((W + 31)//32) == 6*((H + 31)//32) + 6*((W + 31)//32) - 35",
            "H >= 161",
            "W >= 161",
        ],
    ),
    ("(H//8)*(W//8) >= 16", ["(H//8)*(W//8) == 16"]),
    ("max(a, b) <= 7", ["a <= 7", "b <= 7"]),
    ("x == 0", ["k == 0 or k == 1", "k != 0 or x == 0", "k != 1 or x <= 0"]),
    ("2*x + 3*y != 1", ["x >= 1", "y >= 0"]),
]
#: what Z3 is needed for
WITH_Z3 = [
    ("h*w != 6*m + 3", ["h*w == 4*k"]),
    (  # a choice that another condition settles
        "(0 if past + seq == 0 else 4*batch)*(4 if past + seq == 0 else past + seq) == 4*batch*past + 4*batch*seq",
        ["past + seq >= 1", "batch == 0 or total >= past + seq"],
    ),
]


@pytest.fixture
def no_z3(monkeypatch):
    def refuse(*_args, **_kwargs):
        raise AssertionError("Z3 was asked")

    monkeypatch.setattr(engine_module, "_ask", refuse)


@pytest.mark.parametrize(("goal", "given"), WITHOUT_Z3, ids=[goal for goal, _ in WITHOUT_Z3])
def test_what_contracts_ask_is_proved_without_z3(goal, given, no_z3):
    assert Engine().entails(parse_cond(goal), [parse_cond(g) for g in given]).proved


@pytest.mark.parametrize(("goal", "given"), WITH_Z3, ids=[goal for goal, _ in WITH_Z3])
def test_what_contracts_ask_is_proved(goal, given):
    assert Engine().entails(parse_cond(goal), [parse_cond(g) for g in given]).proved


@pytest.mark.parametrize(("goal", "given"), WITHOUT_Z3, ids=[goal for goal, _ in WITHOUT_Z3])
def test_z3_agrees(goal, given):
    assert Engine(shortcuts=False).entails(parse_cond(goal), [parse_cond(g) for g in given]).proved


@pytest.mark.parametrize(
    "texts",
    [
        ["total >= 513", "past >= total or total == past + seq", "seq == total or seq == 1", "total >= seq"],
        ["(H//8)*(W//8) == 16", "H <= 31 or H >= 40", "H >= 1", "W >= 1"],
        ["H >= 300", "H % 32 == 5"],
    ],
)
def test_a_model_is_found_without_z3(texts, no_z3):
    conds = [parse_cond(t) for t in texts]
    answer = Engine().satisfiable(conds)
    assert answer.sat
    assert satisfies(answer.model, conds)


def test_equal_products_of_ordered_factors_have_equal_factors(no_z3):
    """Each factor is at most the one it is paired with (Z3 gives up here): a table of sizes says the same."""
    texts = [
        "H >= 4",
        "W >= 4",
        "batch >= 1",
        "(H//4)*(W//4) == 16*((H + 12)//16)*((W + 12)//16) or batch == 0",
        "((H + 4)//8)*((W + 4)//8) == 16*((H + 28)//32)*((W + 28)//32) or batch == 0",
    ]
    given, goal = [parse_cond(t) for t in texts], parse_cond("H % 32 <= 3")
    assert Engine().entails(goal, given).proved
    assert Engine().entails(parse_cond("H % 32 <= 2"), given).refuted
    assert not Engine().entails(goal, [given[0], *given[2:]]).proved  # where W is 0, both products are
    h, w = np.meshgrid(np.arange(4, 200), np.arange(4, 200))
    table = Table({"H": h, "W": w, "batch": np.int64(1)})
    held = np.logical_and.reduce([np.broadcast_to(table.truth(c), h.shape) for c in given])
    assert held.any()
    assert table.truth(goal)[held].all()


def test_a_value_may_be_negative():
    """A symbol of data is no size: where only -3 .. -1 are left, there is a solution."""
    v, b = symbol("_v0", None), Dim("b")
    conds = [
        ge(v, -3),
        ge(0, v),
        any_of((ge(v, 12), ge(-1, 2 * b + v))),
        ge(b, v + 3),
        eq((2 * b + 2) // 3, 0),
    ]
    assert Engine().satisfiable(conds).model == {"_v0": -3, "b": 0}
    found = Regular().solutions([ge(v, -3), eq(v % 2, 1)], "_v0", -3)
    assert found is not None
    assert found.endless
    assert list(found.sizes[:3]) == [-3, -1, 1]


@pytest.mark.parametrize("shortcuts", [True, False])
def test_a_quotient_by_a_size_that_is_0_has_no_remainder(shortcuts):
    given = [parse_cond(t) for t in ("(4//x) % 3 == 0", "x <= y", "y == 0")]
    assert Engine(shortcuts=shortcuts).satisfiable(given).unsat
    assert Engine(shortcuts=shortcuts).entails(parse_cond("y != 0"), given[:2]).proved


def _random_dim(random, depth, names):
    if depth <= 0 or random.random() < 0.2:
        return Dim(random.choice(names)) * random.randint(1, 3) + random.randint(-4, 6)
    a, b = (_random_dim(random, depth - 1, names) for _ in range(2))
    kind = random.randrange(5)
    if kind == 0:
        return a // random.choice((2, 3, 4, 8))
    if kind == 1:
        return a % random.choice((2, 3, 4))
    if kind == 2:
        return maximum(a, b) if random.random() < 0.7 else ite(ge(a, b), a + 1, b)
    if kind == 3:
        return a - b
    return a * random.randint(-2, 2) + b


def _random_cond(random, depth, names):
    if random.random() < 0.25:
        join = random.choice((all_of, any_of))
        return join([_random_cond(random, depth - 1, names) for _ in range(2)])
    make = random.choice((eq, ne, ge, ge))
    return make(_random_dim(random, depth, names), random.randint(-6, 30))


@pytest.mark.parametrize("seed", seeds(0, 60))
def test_tables_of_one_symbol_are_the_whole_truth(seed):
    random = Random(seed)
    conds = [_random_cond(random, 2, ["x"]) for _ in range(random.randint(1, 3))]
    conds = [c for c in conds if c.free]
    regular, least = Regular(), random.randint(0, 3)
    found = regular.solutions(conds, "x", least)
    held = [x for x in range(least, 3000) if all(c.evaluate({"x": x}) for c in conds)]
    if found is None:
        return
    sizes = [int(s) for s in found.sizes if s < 3000]
    assert held[: len(sizes)] == sizes
    if found.endless:
        assert held[-1] > 1900
    else:
        assert held == sizes


def test_remainders_of_polynomials_are_decided_at_all_sizes():
    random, below = Random(7), 400
    for _ in range(150):
        a, b, c, k, m = (random.randint(*ends) for ends in ((-5, 5), (-5, 5), (0, 9), (2, 24), (0, 6)))
        beside = random.choice(("", " and s//3 >= 2", " and s % 4 == 1", f" and s*s % 7 <= {m}"))
        cond = parse_cond(
            f"({a}*s**2 + {b}*s + {c}) % {k} {random.choice(('==', '>=', '<=', '!='))} {m}{beside}"
        )
        found = Regular().solutions([cond], "s", 0)
        assert found is not None
        held = [n for n in range(below) if cond.evaluate({"s": n})]
        sizes = found.sizes.tolist()
        assert sizes == held[: len(sizes)]
        assert found.endless or sizes == held
        assert not found.endless or len(held) > len(sizes)


def test_most_conditions_of_one_symbol_are_regular():
    random, regular = Random(1), Regular()
    conds = [_random_cond(random, 2, ["x"]) for _ in range(100)]
    assert sum(regular.solutions([c], "x", 0) is None for c in conds if c.free) <= 15


@pytest.mark.parametrize("seed", seeds(0, 80))
def test_what_is_refuted_has_no_model(seed):
    random, names = Random(1000 + seed), ["x", "y", "z"][: 2 + seed % 2]
    conds = [_random_cond(random, 1 + seed % 2, names) for _ in range(random.randint(2, 6))]
    models = (dict(zip(names, sizes, strict=True)) for sizes in product(range(14), repeat=len(names)))
    holds = any(all(c.evaluate(m) for c in conds) for m in models)
    try:
        model = decide(conds, Residue(learned(conds)), Regular())
    except Contradiction:
        assert not holds
    else:
        assert model is None or satisfies(model, conds)


@pytest.mark.parametrize(
    ("texts", "contradict"),
    [
        (["a >= b + 1", "b >= c", "c >= a"], True),
        (["a >= b", "b >= c", "c >= a"], False),
        (["2*a >= 2*b + 1", "b >= a"], True),
        (["a*b >= 5", "a*b <= 4"], True),
        (["a + b == 7", "a + b != 7"], True),
        (["a + b >= 7", "a + b <= 7", "a + b != 7"], True),
        (["a + b >= 7", "a + b != 7"], False),
        (["3*a == b", "b + 1 == 3*c"], False),
    ],
)
def test_linear_relations(texts, contradict):
    assert infeasible([parse_cond(t) for t in texts], Facts().bounds) == contradict


def test_products_that_are_known_have_few_factors():
    ways = factor_pairs(parse_cond("a*b == 6*a + 6*b - 35"), Facts())
    assert [str(w) for w in ways] == ["a == 7 and b == 7", "a == 5 and b == 5"]
    assert len(factor_pairs(parse_cond("a*b == 16"), Facts())) == 5
    assert [str(w) for w in factor_pairs(parse_cond("a*b == 2*a"), Facts())] == ["a == 0", "b == 2"]
    assert factor_pairs(parse_cond("a*b == c"), Facts()) is None
