"""Reading cost of an expression: operators, distinct symbols, nesting. Of equivalent forms the cheapest is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from ...expr import Atom, Cond, Dim
from ...expr.limits import MAX_DEPTH
from ...expr.presentation import pieces_of
from ...expr.traverse import atoms_in, atoms_of, nesting
from ..facts import budget

T = TypeVar("T", Dim, Cond)


class ReadingCost(NamedTuple):
    """Reading cost; fields are compared in this order."""

    operators: int
    symbols: int
    mentions: int
    nesting: int
    length: int


def cost(node: Dim | Cond) -> ReadingCost:
    """The cost of an expression or condition in the form in which it is printed."""
    return ReadingCost(operators(node), len(node.free), mentions(node), nesting(node), len(str(node)))


def cheapest(node: T, candidates: Iterable[T], accepts: Callable[[T], bool]) -> T:
    """Return the cheapest candidate that costs less than `node` and is accepted, otherwise `node`."""
    small = {c: None for c in candidates if c is not node and c.size <= node.size + budget.LONGER}
    if not small:
        return node
    price = cost(node)
    prices = {c: cost(c) for c in sorted(small, key=lambda c: c.size)[: budget.MAX_FORMS]}
    best = sorted(prices, key=lambda c: prices[c])[: budget.MAX_PROOFS]
    return next((c for c in best if prices[c] < price and accepts(c)), node)


def mentions(node: Dim | Cond) -> int:
    """Number of symbol occurrences."""
    counts: dict[Atom, int] = {}
    for atom in atoms_of(node):
        counts[atom] = 1 if atom.kind == "sym" else sum(counts[a] for arg in atom.args for a in atoms_in(arg))
    return sum(counts[a] for a in atoms_in(node))


def is_small(*nodes: Dim | Cond) -> bool:
    """True if it is small enough to be simplified."""
    return all(node.size <= budget.MAX_SIMPLIFIED and nesting(node) <= 2 * MAX_DEPTH for node in nodes)


def operators(node: Dim | Cond) -> int:
    """Number of operators, comparisons and functions in the printed form."""
    memo: dict[Dim, int] = {}
    return _of_cond(node, memo) if isinstance(node, Cond) else _of_dim(node, memo)


def is_chain(cond: Cond) -> bool:
    """True for a lower and an upper bound of the same thing: ``193 <= H <= 224``."""
    if cond.kind != "and" or len(cond.args) != 2 or any(c.kind != ">=" for c in cond.args):
        return False
    return (cond.args[0].args[0] + cond.args[1].args[0]).value is not None


def _of_cond(cond: Cond, memo: dict[Dim, int]) -> int:
    if is_chain(cond):
        return 1 + _of_cond(cond.args[0], memo)
    if cond.kind in ("and", "or"):
        return len(cond.args) - 1 + sum(_of_cond(c, memo) for c in cond.args)
    if not cond.args:
        return 0
    pieces, const = pieces_of(cond.args[0])
    signs = {piece.coefficient > 0 for piece in pieces}
    across = 1 if len(signs) > 1 or not const else 0  # a term moved to the other side needs no sign
    mixed = len(cond.free) > 1 and any(abs(p.coefficient) != 1 and p.degree == 1 for p in pieces)
    one = len(signs) == 1 and len(pieces) > 1 and mixed  # ``2*batch + n >= 2`` is a riddle
    return 1 + one + _of_dim(cond.args[0], memo) - (across if len(signs) > 1 else bool(const))


def _of_dim(dim: Dim, memo: dict[Dim, int]) -> int:
    found = memo.get(dim)
    if found is not None:
        return found
    pieces, const = pieces_of(dim)
    count = len(pieces) + bool(const) - 1
    for piece in pieces:
        count += (abs(piece.coefficient) != 1) + max(piece.degree - 1, 0)
        if piece.head:
            count += 1 + sum(_of_dim(arg, memo) for arg in piece.args)
        for atom in piece.factors:
            if atom.kind != "sym":
                count += sum(
                    _of_cond(a, memo) if isinstance(a, Cond) else _of_dim(a, memo) for a in atom.args
                )
                count += 1
    memo[dim] = max(count, 0)
    return memo[dim]
