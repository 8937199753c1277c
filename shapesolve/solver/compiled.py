"""Dims and conditions as closures: what is evaluated often is compiled once (never with `eval`).

A compiled function takes the sizes by name. A symbol that is not bound raises `KeyError`, a division by zero
`ZeroDivisionError`: the caller then asks the slower `Cond.evaluate`, which knows what is settled
nevertheless.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..dims import Atom, Cond, Dim

Sizes = Mapping[str, int]
Size = Callable[[Sizes], int]
Test = Callable[[Sizes], bool]


class Compiler:
    """Compiles conditions; parts that they share are compiled once."""

    def __init__(self) -> None:
        self._dims: dict[Dim, Size] = {}
        self._atoms: dict[Atom, Size] = {}

    def test(self, cond: Cond) -> Test:
        """A function that says whether `cond` holds."""
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
        """A function that gives the size of `dim`."""
        found = self._dims.get(dim)
        if found is None:
            found = self._dims[dim] = self._sum(dim)
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
            found = self._atoms[atom] = self._compiled_atom(atom.kind, atom.args)
        return found

    def _compiled_atom(self, kind: str, args: tuple[Any, ...]) -> Size:
        if kind == "sym":
            name = args[0]
            return lambda sizes: sizes[name]
        if kind == "ite":
            test, a, b = self.test(args[0]), self.dim(args[1]), self.dim(args[2])
            return lambda sizes: a(sizes) if test(sizes) else b(sizes)
        dims = [self.dim(a) for a in args]
        if kind == "pos":
            x = dims[0]
            return lambda sizes: max(x(sizes), 0)
        if kind == "//":
            n, d = dims
            if not args[1].terms:
                k = args[1].const
                return lambda sizes: n(sizes) // k
            return lambda sizes: n(sizes) // d(sizes)
        return _broadcast(dims)


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


def _broadcast(dims: list[Size]) -> Size:
    def chosen(sizes: Sizes) -> int:
        for d in dims:
            value = d(sizes)
            if value != 1:
                return value
        return 1

    return chosen
