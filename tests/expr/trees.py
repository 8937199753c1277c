"""Raw expression trees: built into dims by the library, evaluated here by nothing but Python's integers.

A tree is an int, a symbol's name, or ``(operator, *trees)``. Names in `SIZES` are sizes (>= 0), those in
`INTEGERS` may be negative.
"""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
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

Tree = Any


class Undefined(ArithmeticError):
    """The tree has no value at these sizes."""


_BUILD = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "trunc": trunc_div,
    "ceil": ceil_div,
    "max": maximum,
    "min": minimum,
    "abs": absolute,
    "sign": sign,
    "broadcast": broadcast,
    "ite": ite,
    "==": eq,
    "!=": ne,
    ">=": ge,
    "<=": le,
    ">": gt,
    "<": lt,
    "divides": divides,
    "and": lambda *c: all_of(c),
    "or": lambda *c: any_of(c),
    "not": lambda c: ~c,
}


def build(tree: Tree) -> Any:
    """The dim or condition; a division by the constant 0 and an oversized expression discard the example."""
    if isinstance(tree, int):
        return Dim(tree)
    if isinstance(tree, str):
        return SYMBOLS[tree]
    try:
        result = _BUILD[tree[0]](*map(build, tree[1:]))
    except (ZeroDivisionError, DimTooLarge):
        assume(False)
    assume(result.size < 2000)
    return result


def value(tree: Tree, bindings: dict[str, int]) -> Any:
    """What the tree means, by definition of the operators."""
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return bindings[tree]
    op, args = tree[0], tree[1:]
    if op == "ite":
        return value(args[1 if value(args[0], bindings) else 2], bindings)
    x = [value(a, bindings) for a in args]
    if 0 in {"//": x[1:], "%": x[1:], "trunc": x[1:], "ceil": x[1:], "divides": x[:1]}.get(op, ()):
        raise Undefined
    if op == "broadcast":
        sizes = set(x) - {1}
        if len(sizes) > 1:
            raise Undefined  # these do not broadcast
        return sizes.pop() if sizes else 1
    return _VALUE[op](*x)


_VALUE = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "trunc": lambda a, b: int(Fraction(a, b)),
    "ceil": lambda a, b: -(-a // b),
    "max": max,
    "min": min,
    "abs": abs,
    "sign": lambda a: (a > 0) - (a < 0),
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
    "divides": lambda k, a: a % k == 0,
    "and": lambda *c: all(c),
    "or": lambda *c: any(c),
    "not": lambda c: not c,
}


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


# ---------------------------------------------------------------------- strategies

bindings = st.fixed_dictionaries(
    {**{n: st.integers(0, 40) for n in SIZES}, **{n: st.integers(-12, 12) for n in INTEGERS}}
)
names = st.sampled_from((*SIZES, *INTEGERS))
numbers = st.one_of(st.integers(-4, 9), st.sampled_from((16, 32, -32, 64)))
nonzero = st.one_of(st.integers(1, 9), st.integers(-4, -1), st.sampled_from((16, 32, -32, 64)))
leaves = st.one_of(names, names, numbers)

_SHAPES = {
    "leaf": (),
    **dict.fromkeys(("+", "-", "*", "//", "%", "max", "min", "trunc", "broadcast"), ("tree", "tree")),
    **{f"{op} k": ("tree", "nonzero") for op in ("//", "%", "ceil")},
    "abs": ("tree",),
    "sign": ("tree",),
    "ite": ("condition", "tree", "tree"),
}
_KINDS = st.sampled_from(sorted(_SHAPES))
_INNER = st.sampled_from(sorted(set(_SHAPES) - {"leaf"}))
_RELATIONS = st.sampled_from(("==", "!=", ">=", "<=", ">", "<", "divides"))
_JOINTS = st.sampled_from(("relation", "relation", "and", "or", "not"))


@st.composite
def _trees(draw, depth, kinds=_INNER):
    kind = draw(kinds) if depth else "leaf"
    if kind == "leaf":
        return draw(leaves)
    args = []
    for role in _SHAPES[kind]:
        if role == "nonzero":
            args.append(draw(nonzero))
        elif role == "tree":
            args.append(draw(_trees(depth - 1, _KINDS)))
        else:
            args.append(draw(_conditions(depth - 1, 1)))
    return (kind.removesuffix(" k"), *args)


@st.composite
def _conditions(draw, depth, joints):
    joint = draw(_JOINTS) if joints else "relation"
    if joint == "relation":
        op = draw(_RELATIONS)
        first = draw(nonzero) if op == "divides" else draw(_trees(depth, _KINDS))
        return (op, first, draw(_trees(depth, _KINDS)))
    return (joint, *(draw(_conditions(depth, joints - 1)) for _ in range(1 if joint == "not" else 2)))


trees = st.integers(1, 4).flatmap(_trees)
small_trees = _trees(2, _KINDS)
condition_trees = _conditions(2, 2)
linear = st.builds(
    lambda parts, c: reduce(lambda a, b: ("+", a, b), parts, c),
    st.lists(st.tuples(st.just("*"), numbers, names), min_size=1, max_size=3),
    numbers,
)
