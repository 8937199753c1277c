"""Random expressions and conditions as trees that a few lines evaluate: what the algebra is held against.

A tree is a tuple: ``("+", left, right)``, ``("a",)`` for a size, ``(3,)`` for a number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from itertools import product
from operator import itemgetter
from random import Random
from typing import Any

Tree = tuple[Any, ...]
Sizes = Mapping[str, int]
#: every size from 0 to here is tried
HIGHEST = 6


class Undefined(Exception):
    """A division by zero."""


def _divided(x: int, y: int) -> int:
    if y == 0:
        raise Undefined
    return x // y


def _rest(x: int, y: int) -> int:
    if y == 0:
        raise Undefined
    return x % y


_WAYS: dict[str, tuple[str, Callable[..., int]]] = {
    "+": ("({} + {})", lambda x, y: x + y),
    "-": ("({} - {})", lambda x, y: x - y),
    "*": ("({} * {})", lambda x, y: x * y),
    "//": ("({} // {})", _divided),
    "%": ("({} % {})", _rest),
    "max": ("max({}, {})", max),
    "min": ("min({}, {})", min),
    "abs": ("abs({})", abs),
    "square": ("({})**2", lambda x: x * x),
    "ceil": ("ceil(({}) / 2)", lambda x: -(-x // 2)),
    "if": ("({1} if {0} else {2})", lambda t, x, y: x if t else y),
}
_TESTS: dict[str, tuple[str, Callable[..., bool]]] = {
    "==": ("{} == {}", lambda x, y: x == y),
    "!=": ("{} != {}", lambda x, y: x != y),
    ">=": ("{} >= {}", lambda x, y: x >= y),
    "<=": ("{} <= {}", lambda x, y: x <= y),
    "<": ("{} < {}", lambda x, y: x < y),
    ">": ("{} > {}", lambda x, y: x > y),
    "and": ("({} and {})", lambda x, y: x and y),
    "or": ("({} or {})", lambda x, y: x or y),
    "not": ("not ({})", lambda x: not x),
}


def text(tree: Tree) -> str:
    """How a user would write it."""
    head, *rest = tree
    if not rest:
        return str(head) if isinstance(head, str) or head >= 0 else f"({head})"
    return {**_WAYS, **_TESTS}[head][0].format(*map(text, rest))


def value(tree: Tree, sizes: Sizes) -> Any:
    """The number or truth at these sizes; `Undefined` where anything in it divides by zero."""
    return meaning(tree)(sizes)


def meaning(tree: Tree) -> Callable[[Sizes], Any]:
    """`value` as a function of the sizes, for many of them."""
    head, *rest = tree
    if not rest:
        return (lambda _: head) if isinstance(head, int) else itemgetter(head)
    way, parts = (_WAYS.get(head) or _TESTS[head])[1], [meaning(r) for r in rest]
    if len(parts) == 2:
        left, right = parts
        return lambda at: way(left(at), right(at))
    return lambda at: way(*[part(at) for part in parts])


def names(tree: Tree) -> set[str]:
    """The sizes that it speaks of."""
    head, *rest = tree
    if not rest:
        return set() if isinstance(head, int) else {head}
    return set().union(*map(names, rest))


def composed(tree: Tree, name: str, inside: Tree) -> Tree:
    """The tree with another in the place of a size."""
    head, *rest = tree
    if not rest:
        return inside if head == name else tree
    return (head, *(composed(r, name, inside) for r in rest))


def drawn(random: Random, symbols: tuple[str, ...], depth: int) -> Tree:
    """An expression."""
    draw = random.random()
    if depth <= 0 or draw < 0.2:
        return (
            (random.choice(symbols),)
            if random.random() < 0.65
            else (random.choice((0, 1, 1, 2, 2, 3, 4, 5, -1, 7)),)
        )
    if draw < 0.55:
        way = random.choice("++--*")
        return (way, drawn(random, symbols, depth - 1), drawn(random, symbols, depth - 1))
    if draw < 0.75:
        by = (random.choice((2, 2, 3, 4)),) if random.random() < 0.8 else drawn(random, symbols, 1)
        return (random.choice(("//", "%")), drawn(random, symbols, depth - 1), by)
    if draw < 0.9:
        return (
            random.choice(("max", "min")),
            drawn(random, symbols, depth - 1),
            drawn(random, symbols, depth - 1),
        )
    if draw < 0.96:
        return (random.choice(("abs", "square", "ceil")), drawn(random, symbols, depth - 1))
    test = drawn_test(random, symbols, 0)
    return ("if", test, drawn(random, symbols, depth - 1), drawn(random, symbols, depth - 1))


def drawn_test(random: Random, symbols: tuple[str, ...], depth: int, inner: int = 2) -> Tree:
    """A condition; its sides are `inner` deep."""
    if depth > 0 and random.random() < 0.4:
        way = random.choice(("and", "or", "not"))
        count = 1 if way == "not" else 2
        return (way, *(drawn_test(random, symbols, depth - 1, inner) for _ in range(count)))
    left = drawn(random, symbols, inner)
    if random.random() < 0.25:
        return ("==", ("%", left, (random.choice((2, 3, 4)),)), (random.choice((0, 0, 1)),))
    right = drawn(random, symbols, inner) if random.random() < 0.6 else (random.choice((0, 1, 2, 3, 4)),)
    return (random.choice(("==", "==", "!=", ">=", "<=", "<", ">")), left, right)


@cache
def points(symbols: tuple[str, ...]) -> list[dict[str, int]]:
    """All small sizes."""
    return [dict(zip(symbols, at, strict=True)) for at in product(range(HIGHEST + 1), repeat=len(symbols))]
