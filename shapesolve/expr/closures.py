# compiled: see CONTRIBUTING.md
"""Compiles dims and conditions to Python closures, for repeated evaluation (without `eval`).

A compiled function takes the sizes by name. A symbol that is not bound raises `KeyError`, a division by zero
`ZeroDivisionError`: the caller then asks the slower `Cond.evaluate`, which knows what is settled
nevertheless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import Atom, Cond, Dim
from .visit import visit

Sizes = Mapping[str, int]
Size = Callable[[Sizes], int]
Test = Callable[[Sizes], bool]


class Compiler:
    """Compiles conditions to closures; common subterms are compiled once.

    Parts that occur several times in `shared` are also evaluated once per mapping of sizes: it must not be changed
    between two uses.
    """

    def __init__(self, shared: Iterable[Cond | Dim] = ()) -> None:
        self._dims: dict[Dim, Size] = {}
        self._atoms: dict[Atom, Size] = {}
        self._shared = _repeated(shared)

    def test(self, cond: Cond) -> Test:
        """A function of sizes that returns the truth of `cond`."""
        kind = cond.kind
        if kind in ("true", "false"):
            value = kind == "true"
            return lambda sizes: value
        if kind in ("and", "or"):
            return _joined(kind, [self.test(c) for c in cond.args])
        d = self.dim(cond.args[0])
        if kind == "==":
            return lambda sizes: d(sizes) == 0
        if kind == "!=":
            return lambda sizes: d(sizes) != 0
        return lambda sizes: d(sizes) >= 0

    def dim(self, dim: Dim) -> Size:
        """A function of sizes that returns the value of `dim`."""
        found = self._dims.get(dim)
        if found is None:
            found = self._sum(dim)
            if dim in self._shared:
                found = _remembered(found)
            self._dims[dim] = found
        return found

    def _sum(self, dim: Dim) -> Size:
        const = dim.const
        parts = [self._term([self._atom(a) for a in mono], c) for mono, c in dim.terms]
        if not parts:
            return lambda sizes: const
        if len(parts) == 1:
            only = parts[0]
            return only if not const else lambda sizes: only(sizes) + const
        if len(parts) == 2:
            first, second = parts
            return lambda sizes: first(sizes) + second(sizes) + const

        def total(sizes: Sizes) -> int:
            result = const
            for part in parts:
                result += part(sizes)
            return result

        return total

    def _term(self, factors: list[Size], c: int) -> Size:
        if len(factors) == 1:
            only = factors[0]
            return only if c == 1 else lambda sizes: c * only(sizes)
        if len(factors) == 2:
            a, b = factors
            return lambda sizes: c * a(sizes) * b(sizes)

        def product(sizes: Sizes) -> int:
            result = c
            for factor in factors:
                result *= factor(sizes)
            return result

        return product

    def _atom(self, atom: Atom) -> Size:
        found = self._atoms.get(atom)
        if found is None:
            found = visit(atom, self)
            if atom in self._shared:
                found = _remembered(found)
            self._atoms[atom] = found
        return found

    def _symbol(self, atom: Atom) -> Size:
        name = atom.args[0]
        return lambda sizes: sizes[name]

    def _quotient(self, n: Dim, d: Dim) -> Size:
        numerator = self.dim(n)
        if not d.terms:
            k = d.const
            return lambda sizes: numerator(sizes) // k
        divisor = self.dim(d)
        return lambda sizes: numerator(sizes) // divisor(sizes)

    def _positive(self, x: Dim) -> Size:
        size = self.dim(x)
        return lambda sizes: max(size(sizes), 0)

    def _broadcast(self, sizes: tuple[Dim, ...]) -> Size:
        return _first_not_one([self.dim(size) for size in sizes])

    def _choice(self, cond: Cond, a: Dim, b: Dim) -> Size:
        test, first, second = self.test(cond), self.dim(a), self.dim(b)
        return lambda sizes: first(sizes) if test(sizes) else second(sizes)


def _repeated(conds: Iterable[Cond | Dim]) -> set[Dim | Atom]:
    """Sums and atoms that occur several times and are worth caching."""
    places: dict[Dim | Atom, int] = {}
    stack: list[Any] = list(conds)
    while stack:
        node = stack.pop()
        if isinstance(node, Cond):
            stack += node.args
            continue
        if isinstance(node, Dim) and len(node.terms) == 1 and not node.const:
            stack += node.terms[0][0]
            continue
        if isinstance(node, Atom) and node.kind == "sym":
            continue
        seen = places[node] = places.get(node, 0) + 1
        if seen == 1:
            stack += node.args if isinstance(node, Atom) else [a for mono, _ in node.terms for a in mono]
    return {node for node, seen in places.items() if seen > 1 and not _is_light(node)}


def _is_light(node: Dim | Atom) -> bool:
    """True if evaluating the node is as fast as a cache lookup."""
    return isinstance(node, Dim) and len(node.terms) <= 1


def _remembered(size: Size) -> Size:
    """The function with its last result cached, by the identity of the mapping."""
    last: tuple[Sizes | None, int] = (None, 0)

    def looked_up(sizes: Sizes) -> int:
        nonlocal last
        known, value = last
        if known is not sizes:
            value = size(sizes)
            last = (sizes, value)
        return value

    return looked_up


def _joined(kind: str, tests: list[Test]) -> Test:
    if len(tests) == 2:
        a, b = tests
        if kind == "and":
            return lambda sizes: a(sizes) and b(sizes)
        return lambda sizes: a(sizes) or b(sizes)
    settles = kind == "or"

    def joined(sizes: Sizes) -> bool:
        for test in tests:
            if test(sizes) is settles:
                return settles
        return not settles

    return joined


def _first_not_one(dims: list[Size]) -> Size:
    if len(dims) == 2:
        a, b = dims

        def chosen_of_two(sizes: Sizes) -> int:
            first, second = a(sizes), b(sizes)  # a size without a value leaves the whole without one
            return second if first == 1 else first

        return chosen_of_two

    def chosen(sizes: Sizes) -> int:
        found = 1
        for d in dims:
            value = d(sizes)
            if found == 1:
                found = value
        return found

    return chosen


def compiled_truth(test: Test, cond: Cond, sizes: Mapping[str, int]) -> bool | None:
    """Truth of `cond` by its compiled `test`; by evaluation where a divisor is 0 or a symbol has no size."""
    try:
        return bool(test(sizes))
    except (KeyError, ZeroDivisionError):
        return cond.evaluate(sizes)
