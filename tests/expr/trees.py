"""Raw expression trees: drawn here, built or written for the library, evaluated by nothing but Python's integers.

A tree is an int, a name, or ``(operator, *trees)``. Names in `SIZES` are sizes (>= 0), those in `INTEGERS` may be negative.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cache, reduce
from itertools import product
from random import Random
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from shapesolve.expr import (
    Dim,
    DimTooLarge,
    absolute,
    all_of,
    any_of,
    broadcast,
    ceil_div,
    divides,
    eq,
    ge,
    gt,
    ite,
    le,
    lt,
    maximum,
    minimum,
    ne,
    sign,
    symbol,
    trunc_div,
)

SIZES = ("H", "M", "N")
INTEGERS = ("v", "w")
SYMBOLS = {**{n: symbol(n) for n in SIZES}, **{n: symbol(n, None) for n in INTEGERS}}
#: every size from 0 to here is a point
HIGHEST = 6

Tree = Any
Sizes = Mapping[str, int]


class Undefined(ArithmeticError):
    """The tree has no value at these sizes."""


def _unless_zero(divided: Callable[[int, int], Any]) -> Callable[[int, int], Any]:
    def value(a: int, b: int) -> Any:
        if b == 0:
            raise Undefined
        return divided(a, b)

    return value


def _together(*sizes: int) -> int:
    found = set(sizes) - {1}
    if len(found) > 1:
        raise Undefined  # these do not broadcast
    return found.pop() if found else 1


#: operator -> how the library builds it, how a user writes it, and what it means
_OPERATORS: dict[str, tuple[Callable[..., Any], str, Callable[..., Any]]] = {
    "+": (operator.add, "({} + {})", operator.add),
    "-": (operator.sub, "({} - {})", operator.sub),
    "*": (operator.mul, "({} * {})", operator.mul),
    "//": (operator.floordiv, "({} // {})", _unless_zero(operator.floordiv)),
    "%": (operator.mod, "({} % {})", _unless_zero(operator.mod)),
    "trunc": (trunc_div, "", _unless_zero(lambda a, b: int(Fraction(a, b)))),
    "ceil": (ceil_div, "ceil(({}) / {})", _unless_zero(lambda a, b: -(-a // b))),
    "max": (maximum, "max({}, {})", max),
    "min": (minimum, "min({}, {})", min),
    "abs": (absolute, "abs({})", abs),
    "sign": (sign, "sign({})", lambda a: (a > 0) - (a < 0)),
    "square": (lambda a: a * a, "({})**2", lambda a: a * a),
    "broadcast": (broadcast, "broadcast({}, {})", _together),
    "ite": (ite, "", lambda c, a, b: a if c else b),
    "if": (ite, "({1} if {0} else {2})", lambda c, a, b: a if c else b),
    "==": (eq, "{} == {}", operator.eq),
    "!=": (ne, "{} != {}", operator.ne),
    ">=": (ge, "{} >= {}", operator.ge),
    "<=": (le, "{} <= {}", operator.le),
    ">": (gt, "{} > {}", operator.gt),
    "<": (lt, "{} < {}", operator.lt),
    "divides": (divides, "divides({}, {})", lambda k, a: _unless_zero(operator.mod)(a, k) == 0),
    "and": (lambda *c: all_of(c), "({} and {})", lambda *c: all(c)),
    "or": (lambda *c: any_of(c), "({} or {})", lambda *c: any(c)),
    "not": (lambda c: ~c, "(not ({}))", operator.not_),
}


def build(tree: Tree) -> Any:
    """The dim or condition; a division by the constant 0 and an oversized expression discard the example."""
    if isinstance(tree, int):
        return Dim(tree)
    if isinstance(tree, str):
        return SYMBOLS[tree]
    try:
        result = _OPERATORS[tree[0]][0](*map(build, tree[1:]))
    except (ZeroDivisionError, DimTooLarge):
        assume(False)
    assume(result.size < 2000)
    return result


def text(tree: Tree) -> str:
    """How a user would write it."""
    if isinstance(tree, int):
        return str(tree) if tree >= 0 else f"({tree})"
    return tree if isinstance(tree, str) else _OPERATORS[tree[0]][1].format(*map(text, tree[1:]))


def meaning(tree: Tree) -> Callable[[Sizes], Any]:
    """What the tree is as a function of the sizes, by definition of the operators. Of ``ite``, only one side needs a value."""
    if isinstance(tree, int):
        return lambda _: tree
    if isinstance(tree, str):
        return operator.itemgetter(tree)
    value, parts = _OPERATORS[tree[0]][2], [meaning(part) for part in tree[1:]]
    if tree[0] == "ite":
        test, chosen, other = parts
        return lambda at: chosen(at) if test(at) else other(at)
    if len(parts) == 2:
        left, right = parts
        return lambda at: value(left(at), right(at))
    return lambda at: value(*[part(at) for part in parts])


def value(tree: Tree, sizes: Sizes) -> Any:
    """The number or truth at these sizes, or `Undefined`."""
    return meaning(tree)(sizes)


def names(tree: Tree) -> set[str]:
    """The sizes that it speaks of."""
    if isinstance(tree, (int, str)):
        return {tree} if isinstance(tree, str) else set()
    return set().union(*map(names, tree[1:]))


def composed(tree: Tree, name: str, inside: Tree) -> Tree:
    """The tree with another in the place of a size."""
    if isinstance(tree, (int, str)):
        return inside if tree == name else tree
    return (tree[0], *(composed(part, name, inside) for part in tree[1:]))


@cache
def points(symbols: tuple[str, ...]) -> list[dict[str, int]]:
    """All small sizes."""
    return [dict(zip(symbols, at, strict=True)) for at in product(range(HIGHEST + 1), repeat=len(symbols))]


def agrees(tree: Tree, bindings: dict[str, int]) -> None:
    """The built form has the tree's value at these sizes, and a dim's bounds hold there."""
    built = build(tree)
    try:
        expected = value(tree, bindings)
    except Undefined:
        return
    assert built.evaluate(bindings) == expected, f"{tree} became {built}"
    if isinstance(built, Dim):
        lo, hi = built.bounds()
        assert lo is None or lo <= expected, f"{tree}: lower bound {lo}"
        assert hi is None or hi >= expected, f"{tree}: upper bound {hi}"


# ---------------------------------------------------------------------- drawn

#: kinds of parts as often as they are drawn; ``k`` is a number that is not 0
BUILT = (
    "+", "-", "*", "//", "%", "max", "min", "trunc", "broadcast", "//k", "%k", "ceilk", "abs", "sign", "ite",
)  # fmt: skip
#: what has a text that is read back, as people write it
WRITTEN = (
    *["leaf"] * 20, *["+"] * 14, *["-"] * 14, *["*"] * 7, *["//k", "%k"] * 8, *["//", "%"] * 2, *["max", "min"] * 8,
    *["abs", "square", "ceilk"] * 2, *["if"] * 4,
)  # fmt: skip
_PARTS = {
    **dict.fromkeys(("ite", "if"), ("test", "tree", "tree")),
    **dict.fromkeys(("abs", "sign", "square"), ("tree",)),
}
_NUMBERS = (0, 1, 1, 2, 2, 3, 4, 5, -1, 7)
_DIVISORS = (1, 2, 2, 3, 4, 5, 8, 16, 32, -1, -3)
_RELATIONS = ("==", "==", "!=", ">=", "<=", "<", ">")


def drawn(random: Random, symbols: Sequence[str], depth: int, kinds: Sequence[str] = WRITTEN) -> Tree:
    """An expression; its parts are less deep."""
    kind = random.choice(kinds) if depth > 0 else "leaf"
    if kind == "leaf":
        return random.choice(symbols) if random.random() < 0.65 else random.choice(_NUMBERS)
    if kind.endswith("k"):
        return (kind[:-1], drawn(random, symbols, depth - 1, kinds), random.choice(_DIVISORS))
    parts = _PARTS.get(kind, ("tree", "tree"))
    return (
        kind,
        *(
            drawn_test(random, symbols, 0, depth - 1, kinds)
            if part == "test"
            else drawn(random, symbols, depth - 1, kinds)
            for part in parts
        ),
    )


def drawn_test(
    random: Random, symbols: Sequence[str], depth: int, inner: int = 2, kinds: Sequence[str] = WRITTEN
) -> Tree:
    """A condition; its sides are `inner` deep."""
    if depth > 0 and random.random() < 0.4:
        way = random.choice(("and", "or", "not"))
        count = 1 if way == "not" else 2
        return (way, *(drawn_test(random, symbols, depth - 1, inner, kinds) for _ in range(count)))
    left = drawn(random, symbols, inner, kinds)
    if random.random() < 0.25:
        return ("==", ("%", left, random.choice((2, 3, 4))), random.choice((0, 0, 1)))
    right = drawn(random, symbols, inner, kinds) if random.random() < 0.6 else random.choice(_NUMBERS)
    return (random.choice(_RELATIONS), left, right)


_randoms = st.randoms(use_true_random=False)
_NAMES = (*SIZES, *INTEGERS)

bindings = st.fixed_dictionaries(
    {**{n: st.integers(0, 40) for n in SIZES}, **{n: st.integers(-12, 12) for n in INTEGERS}}
)
leaf_names = st.sampled_from(_NAMES)
numbers = st.one_of(st.integers(-4, 9), st.sampled_from((16, 32, -32, 64)))
nonzero = st.one_of(st.integers(1, 9), st.integers(-4, -1), st.sampled_from((16, 32, -32, 64)))
leaves = st.one_of(leaf_names, leaf_names, numbers)
trees = st.builds(lambda random, depth: drawn(random, _NAMES, depth, BUILT), _randoms, st.integers(1, 4))
small_trees = _randoms.map(lambda random: drawn(random, _NAMES, 2, ("leaf", *BUILT)))
condition_trees = _randoms.map(lambda random: drawn_test(random, _NAMES, 2, 2, ("leaf", *BUILT)))
linear = st.builds(
    lambda parts, c: reduce(lambda a, b: ("+", a, b), parts, c),
    st.lists(st.tuples(st.just("*"), numbers, leaf_names), min_size=1, max_size=3),
    numbers,
)
